"""What the hooks of each point are given."""

from rxworker.hooks.context_call import ToolCallContext, ToolResultContext
from rxworker.hooks.context_end import AbortContext, TurnEndContext
from rxworker.hooks.context_send import MessageSendContext

__all__ = [
    "AbortContext",
    "MessageSendContext",
    "ToolCallContext",
    "ToolResultContext",
    "TurnEndContext",
]
