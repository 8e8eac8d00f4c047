"""Where a run is steered: points of the loop, contexts, verdicts, and the order in which hooks are asked."""

from rxworker.hooks.contexts import (
    AbortContext,
    CallableTool,
    HookContext,
    MessageSendContext,
    ToolCallContext,
    ToolResultContext,
    TurnEndContext,
)
from rxworker.hooks.decorate import (
    after_tool_call,
    before_tool_call,
    on_abort,
    on_message_send,
    on_turn_end,
)
from rxworker.hooks.hook import Hook, HookPoint
from rxworker.hooks.operator import OperatorFunction, from_operator
from rxworker.hooks.registry import Hooks
from rxworker.hooks.verdicts import (
    Abort,
    AfterToolCallVerdict,
    BeforeToolCallVerdict,
    Cancel,
    Continue,
    ContinueWithMessages,
    Finish,
    MessageSendVerdict,
    Pause,
    Skip,
    TurnEndVerdict,
    Verdict,
)

__all__ = [
    # what they answer
    "Abort",
    # what they are given
    "AbortContext",
    "AfterToolCallVerdict",
    "BeforeToolCallVerdict",
    "CallableTool",
    "Cancel",
    "Continue",
    "ContinueWithMessages",
    "Finish",
    # making hooks
    "Hook",
    "HookContext",
    "HookPoint",
    "Hooks",
    "MessageSendContext",
    "MessageSendVerdict",
    "OperatorFunction",
    "Pause",
    "Skip",
    "ToolCallContext",
    "ToolResultContext",
    "TurnEndContext",
    "TurnEndVerdict",
    "Verdict",
    "after_tool_call",
    "before_tool_call",
    "from_operator",
    "on_abort",
    "on_message_send",
    "on_turn_end",
]
