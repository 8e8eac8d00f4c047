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
    # making hooks
    "on_message_send",
    "before_tool_call",
    "after_tool_call",
    "on_turn_end",
    "on_abort",
    "from_operator",
    "Hook",
    "HookPoint",
    "Hooks",
    "OperatorFunction",
    # what they are given
    "HookContext",
    "MessageSendContext",
    "ToolCallContext",
    "ToolResultContext",
    "TurnEndContext",
    "AbortContext",
    "CallableTool",
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
