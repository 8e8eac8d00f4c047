"""Decorators that say at which point of the loop a function is asked.

    @before_tool_call(matcher="delete_.*")
    async def permit(context: ToolCallContext) -> Skip | None: ...

    worker = Worker(..., hooks=[permit])

Each takes the function alone or with a name and, at the tool points, a matcher. What a function may return is part of its type: a
verdict that its point does not have is refused by the type checker, and at run time with a `HookError`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Generic, TypeAlias, TypeVar, overload

from rxworker.hooks.contexts import (
    AbortContext,
    HookContext,
    MessageSendContext,
    ToolCallContext,
    ToolResultContext,
    TurnEndContext,
)
from rxworker.hooks.hook import Hook, HookPoint
from rxworker.hooks.operator import OperatorFunction
from rxworker.hooks.verdicts import (
    AfterToolCallVerdict,
    BeforeToolCallVerdict,
    MessageSendVerdict,
    TurnEndVerdict,
)

C = TypeVar("C", bound=HookContext)
V = TypeVar("V")

Asked: TypeAlias = Callable[[C], V | Awaitable[V | None] | None]
Matcher: TypeAlias = str | re.Pattern[str]


class PointDecorator(Generic[C, V]):
    """The decorator of one point: ``@before_tool_call`` or ``@before_tool_call(name=..., matcher=...)``."""

    def __init__(self, point: HookPoint) -> None:
        self.point = point
        self.__doc__ = f"Ask the function at ``{point.value}``."

    @overload
    def __call__(self, function: Asked[C, V] | OperatorFunction[C], /) -> Hook[C]: ...
    @overload
    def __call__(
        self, function: None = None, /, *, name: str | None = None, matcher: Matcher | None = None
    ) -> Callable[[Asked[C, V] | OperatorFunction[C]], Hook[C]]: ...
    def __call__(
        self,
        function: Asked[C, V] | OperatorFunction[C] | None = None,
        /,
        *,
        name: str | None = None,
        matcher: Matcher | None = None,
    ) -> Hook[C] | Callable[[Asked[C, V] | OperatorFunction[C]], Hook[C]]:
        """A hook at this point, or a decorator that makes one."""

        def make(function: Asked[C, V] | OperatorFunction[C]) -> Hook[C]:
            # The verdict's type was checked by the signature; past here a hook is any function of its context.
            return Hook(function, self.point, name=name, matcher=matcher)  # pyright: ignore[reportArgumentType]

        return make if function is None else make(function)


on_message_send = PointDecorator[MessageSendContext, MessageSendVerdict](HookPoint.ON_MESSAGE_SEND)
before_tool_call = PointDecorator[ToolCallContext, BeforeToolCallVerdict](
    HookPoint.BEFORE_TOOL_CALL
)
after_tool_call = PointDecorator[ToolResultContext, AfterToolCallVerdict](HookPoint.AFTER_TOOL_CALL)
on_turn_end = PointDecorator[TurnEndContext, TurnEndVerdict](HookPoint.ON_TURN_END)
on_abort = PointDecorator[AbortContext, None](HookPoint.ON_ABORT)

__all__ = [
    "PointDecorator",
    "after_tool_call",
    "before_tool_call",
    "on_abort",
    "on_message_send",
    "on_turn_end",
]
