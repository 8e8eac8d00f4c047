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
    from rxworker.hooks.decorate import (
        after_tool_call,
        before_tool_call,
        hook,
        on_abort,
        on_message_send,
        on_turn_end,
    )
    from rxworker.tools.decorate import tool
    from rxworker.worker.decisions import Answer, Approve, Deny
    from rxworker.worker.limits import Limits
    from rxworker.worker.nested import worker_tool
    from rxworker.worker.result import Finished, Paused, RunResult
    from rxworker.worker.run import Run
    from rxworker.worker.session import Session
    from rxworker.worker.worker import Worker

__version__ = "0.2.0"

# The public names, by module. They are imported when they are used first, so that `rxworker.state` needs nothing but msgspec.
_NAMES = {
    "rxworker.hooks.decorate": "after_tool_call before_tool_call hook on_abort on_message_send on_turn_end",
    "rxworker.tools.decorate": "tool",
    "rxworker.worker.decisions": "Answer Approve Deny",
    "rxworker.worker.limits": "Limits",
    "rxworker.worker.nested": "worker_tool",
    "rxworker.worker.result": "Finished Paused RunResult",
    "rxworker.worker.run": "Run",
    "rxworker.worker.session": "Session",
    "rxworker.worker.worker": "Worker",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'rxworker' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})


__all__ = [
    # running
    "Finished",
    "Limits",
    "Paused",
    "Run",
    "RunResult",
    "Session",
    "Worker",
    # deciding about what waits
    "Answer",
    "Approve",
    "Deny",
    # tools and hooks
    "after_tool_call",
    "before_tool_call",
    "hook",
    "on_abort",
    "on_message_send",
    "on_turn_end",
    "tool",
    "worker_tool",
]
