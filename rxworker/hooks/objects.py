"""What a type checker knows of an object with methods named like points.

An object that has one such method is checked where it is registered: a method with another verdict does not fit its protocol. One
that has several fits as soon as one of them does. To have all of them checked, derive it from a protocol for each:

    class Gate(SupportsBeforeToolCall, SupportsOnTurnEnd): ...
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol, TypeAlias, TypeVar

from rxworker.hooks.base import Hook
from rxworker.hooks.contexts import (
    AbortContext,
    MessageSendContext,
    ToolCallContext,
    ToolResultContext,
    TurnEndContext,
)
from rxworker.hooks.verdicts import (
    AfterToolCallVerdict,
    BeforeToolCallVerdict,
    MessageSendVerdict,
    TurnEndVerdict,
)

V = TypeVar("V")

Returned: TypeAlias = V | Awaitable[V | None] | None


class SupportsOnMessageSend(Protocol):
    """Has a method for ``on_message_send``."""

    def on_message_send(self, context: MessageSendContext, /) -> Returned[MessageSendVerdict]:
        """Asked before each request."""
        ...


class SupportsBeforeToolCall(Protocol):
    """Has a method for ``before_tool_call``."""

    def before_tool_call(self, context: ToolCallContext, /) -> Returned[BeforeToolCallVerdict]:
        """Asked before each tool call."""
        ...


class SupportsAfterToolCall(Protocol):
    """Has a method for ``after_tool_call``."""

    def after_tool_call(self, context: ToolResultContext, /) -> Returned[AfterToolCallVerdict]:
        """Asked about each result."""
        ...


class SupportsOnTurnEnd(Protocol):
    """Has a method for ``on_turn_end``."""

    def on_turn_end(self, context: TurnEndContext, /) -> Returned[TurnEndVerdict]:
        """Asked after a response without tool calls."""
        ...


class SupportsOnAbort(Protocol):
    """Has a method for ``on_abort``."""

    def on_abort(self, context: AbortContext, /) -> Awaitable[None] | None:
        """Asked when a run ends without a result."""
        ...


HookLike: TypeAlias = (
    Hook[Any]
    | SupportsOnMessageSend
    | SupportsBeforeToolCall
    | SupportsAfterToolCall
    | SupportsOnTurnEnd
    | SupportsOnAbort
)
"""What may be registered: a hook, or an object with a method named like a point."""

__all__ = [
    "HookLike",
    "SupportsAfterToolCall",
    "SupportsBeforeToolCall",
    "SupportsOnAbort",
    "SupportsOnMessageSend",
    "SupportsOnTurnEnd",
]
