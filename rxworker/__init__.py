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

# Before all others: it handles Ctrl-C while they are imported.
from rxworker import _interrupt as _interrupt
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
    # asking without a loop
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
