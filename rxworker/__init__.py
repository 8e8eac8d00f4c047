"""Language model responses as observables, and a turn loop that any number of watchers can follow.

>>> from rxworker import Worker, tool
>>> from rxworker.testing import ScriptedModel, call, say
>>> @tool
... def add(a: int, b: int) -> int:
...     return a + b
>>> worker = Worker(ScriptedModel([call("add", a=1, b=2), say("It is 3.")]), tools=[add])
>>> worker.run_sync("What is 1 + 2?").text
'It is 3.'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rxworker.hooks import (
        after_tool_call,
        before_tool_call,
        hook,
        on_abort,
        on_message_send,
        on_turn_end,
    )
    from rxworker.messages import Conversation, Message, Usage
    from rxworker.providers import Options, Request
    from rxworker.timeline import Timeline
    from rxworker.tools import ToolContext, tool
    from rxworker.transport import Client
    from rxworker.worker import (
        Answer,
        Approve,
        Deny,
        Finished,
        Limits,
        Paused,
        Run,
        RunResult,
        Worker,
        worker_tool,
    )

__version__ = "0.1.0"

# The public names, by package. They are imported when they are used first, so that `rxworker.state` needs nothing but msgspec.
_NAMES = {
    "rxworker.hooks": "after_tool_call before_tool_call hook on_abort on_message_send on_turn_end",
    "rxworker.messages": "Conversation Message Usage",
    "rxworker.providers": "Options Request",
    "rxworker.timeline": "Timeline",
    "rxworker.tools": "ToolContext tool",
    "rxworker.transport": "Client",
    "rxworker.worker": "Answer Approve Deny Finished Limits Paused Run RunResult Worker worker_tool",
}
_PACKAGE_OF = {name: package for package, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    package = _PACKAGE_OF.get(name)
    if package is None:
        raise AttributeError(f"module 'rxworker' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(package), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PACKAGE_OF})


__all__ = [
    # running
    "Finished",
    "Limits",
    "Paused",
    "Run",
    "RunResult",
    "Worker",
    # deciding about what waits
    "Answer",
    "Approve",
    "Deny",
    # requests without a loop
    "Client",
    "Options",
    "Request",
    "Timeline",
    # talking
    "Conversation",
    "Message",
    "Usage",
    # tools and hooks
    "ToolContext",
    "after_tool_call",
    "before_tool_call",
    "hook",
    "on_abort",
    "on_message_send",
    "on_turn_end",
    "tool",
    "worker_tool",
]
