"""Where a run is steered: points of the loop, contexts, verdicts, and the order in which hooks run.

Names that only some hooks need are imported at their first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from rxworker.hooks.base import Hook
from rxworker.hooks.coerce import (
    SupportsAfterToolCall,
    SupportsBeforeToolCall,
    SupportsOnAbort,
    SupportsOnMessageSend,
    SupportsOnTurnEnd,
)
from rxworker.hooks.context import HookContext
from rxworker.hooks.contexts import (
    AbortContext,
    MessageSendContext,
    ToolCallContext,
    ToolResultContext,
    TurnEndContext,
)
from rxworker.hooks.operator import from_operator, from_stateful_operator
from rxworker.hooks.points import (
    Abort,
    AfterToolCallVerdict,
    BeforeToolCallVerdict,
    Cancel,
    Continue,
    ContinueWithMessages,
    Finish,
    HookPoint,
    MessageSendVerdict,
    Pause,
    Skip,
    TurnEndVerdict,
    Verdict,
)
from rxworker.hooks.registry import Hooks, chain
from rxworker.hooks.settings import enabled_by, first_turn

if TYPE_CHECKING:
    from rxworker.hooks.command import CommandError, CommandResult, run_command

_LATER = {
    "CommandError": "command",
    "CommandResult": "command",
    "run_command": "command",
}
"""The modules of the names that are imported at their first use."""


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = value
    return value


__all__ = [
    # making hooks
    "chain",
    "from_operator",
    "from_stateful_operator",
    "Hook",
    "SupportsOnMessageSend",
    "SupportsBeforeToolCall",
    "SupportsAfterToolCall",
    "SupportsOnTurnEnd",
    "SupportsOnAbort",
    "HookPoint",
    "Hooks",
    # how they run
    "enabled_by",
    "first_turn",
    # what they are given
    "HookContext",
    "MessageSendContext",
    "ToolCallContext",
    "ToolResultContext",
    "TurnEndContext",
    "AbortContext",
    # what they run
    "run_command",
    "CommandResult",
    "CommandError",
    # what they answer
    "Continue",
    "Cancel",
    "Skip",
    "Abort",
    "Pause",
    "Finish",
    "ContinueWithMessages",
    "Verdict",
    "MessageSendVerdict",
    "BeforeToolCallVerdict",
    "AfterToolCallVerdict",
    "TurnEndVerdict",
]
