"""Where a run is steered: points of the loop, contexts, verdicts, and the order in which hooks run."""

from rxworker.hooks.base import Hook, enabled_by, first_turn
from rxworker.hooks.command import CommandError, CommandResult, run_command
from rxworker.hooks.context import (
    AbortContext,
    HookContext,
    MessageSendContext,
    ToolCallContext,
    ToolResultContext,
    TurnEndContext,
)
from rxworker.hooks.decorate import (
    SupportsAfterToolCall,
    SupportsBeforeToolCall,
    SupportsOnAbort,
    SupportsOnMessageSend,
    SupportsOnTurnEnd,
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
