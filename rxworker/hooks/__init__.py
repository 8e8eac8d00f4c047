"""Where a run is steered: points of the loop, contexts, verdicts, and the order in which hooks run.

Names that only some hooks need are imported at their first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from rxworker.hooks.base import AnyHook, Hook
from rxworker.hooks.coerce import (
    HookLike,
    SupportsAfterToolCall,
    SupportsBeforeToolCall,
    SupportsOnAbort,
    SupportsOnMessageSend,
    SupportsOnTurnEnd,
)
from rxworker.hooks.context import CallableTool, CallTool, HookContext, KnownTools
from rxworker.hooks.contexts import (
    AbortContext,
    MessageSendContext,
    ToolCallContext,
    ToolResultContext,
    TurnEndContext,
)
from rxworker.hooks.decorate import (
    after_tool_call,
    before_tool_call,
    hook,
    on_abort,
    on_message_send,
    on_turn_end,
)
from rxworker.hooks.operator import (
    OperatorFunction,
    StatefulOperator,
    from_operator,
    from_stateful_operator,
)
from rxworker.hooks.points import (
    Abort,
    AfterToolCallVerdict,
    Answer,
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
from rxworker.hooks.settings import (
    Condition,
    HookSettings,
    Matcher,
    OnFailure,
    enabled_by,
    first_turn,
)

if TYPE_CHECKING:
    from rxworker.hooks.command import (
        CommandError,
        CommandResult,
        harmless_environment,
        run_command,
    )

_LATER = {
    "CommandError": "command",
    "CommandResult": "command",
    "harmless_environment": "command",
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
    "on_message_send",
    "before_tool_call",
    "after_tool_call",
    "on_turn_end",
    "on_abort",
    "hook",
    "chain",
    "from_operator",
    "from_stateful_operator",
    "Hook",
    "AnyHook",
    "HookLike",
    "SupportsOnMessageSend",
    "SupportsBeforeToolCall",
    "SupportsAfterToolCall",
    "SupportsOnTurnEnd",
    "SupportsOnAbort",
    "HookPoint",
    "Hooks",
    "OperatorFunction",
    "StatefulOperator",
    # how they run
    "HookSettings",
    "Condition",
    "Matcher",
    "OnFailure",
    "enabled_by",
    "first_turn",
    # what they are given
    "HookContext",
    "MessageSendContext",
    "ToolCallContext",
    "ToolResultContext",
    "TurnEndContext",
    "AbortContext",
    "CallableTool",
    "CallTool",
    "KnownTools",
    # what they run
    "run_command",
    "CommandResult",
    "CommandError",
    "harmless_environment",
    # what they answer
    "Continue",
    "Cancel",
    "Skip",
    "Answer",
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
