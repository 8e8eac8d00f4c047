"""Decorators that set the point of the loop at which a function is called.

    @before_tool_call(matcher="delete_.*")
    async def permit(context: ToolCallContext) -> Skip | None: ...

    worker = Worker(..., hooks=[permit])

Each takes the function alone or with settings, see `HookSettings`. A function may be a reactivex operator over the
contexts. What a function may return is part of its type: a verdict that its point does not have is refused by the type
checker, and at run time with a `HookError`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeAlias, TypeVar, Unpack, cast, overload

from reactivex import Observable

from rxworker.errors import ConfigurationError
from rxworker.hooks.base import Hook, HookFunction
from rxworker.hooks.context import HookContext
from rxworker.hooks.contexts import AbortContext, MessageSendContext, ToolCallContext, ToolResultContext, TurnEndContext
from rxworker.hooks.legacy import LegacyFunction, understood
from rxworker.hooks.operator import ContextOperator, OperatorFunction
from rxworker.hooks.points import (
    AfterToolCallVerdict,
    BeforeToolCallVerdict,
    HookPoint,
    MessageSendVerdict,
    TurnEndVerdict,
    point_of,
)
from rxworker.hooks.settings import HookSettings
from rxworker.messages.settings import check_names

C = TypeVar("C", bound=HookContext)
V = TypeVar("V")

PointFunction: TypeAlias = Callable[[C], V | Awaitable[V | None] | None]
# An operator of contexts of any point serves at each.
PointOperator: TypeAlias = (
    OperatorFunction[C]
    | OperatorFunction[HookContext]
    | Callable[[Observable[C]], Observable[C | V]]
    | Callable[[Observable[C]], Observable[C]]
)


class PointDecorator(Generic[C, V]):
    """The decorator of one point: ``@before_tool_call`` or ``@before_tool_call(name=..., matcher=...)``."""

    def __init__(self, point: HookPoint) -> None:
        self.point = point
        self.__doc__ = f"A hook that runs at ``{point.value}``."

    @overload
    def __call__(
        self, function: PointFunction[C, V] | PointOperator[C, V], /, **settings: Unpack[HookSettings]
    ) -> Hook[C]: ...
    @overload
    def __call__(
        self, function: None = None, /, **settings: Unpack[HookSettings]
    ) -> Callable[[PointFunction[C, V] | PointOperator[C, V]], Hook[C]]: ...
    def __call__(
        self, function: PointFunction[C, V] | PointOperator[C, V] | None = None, /, **settings: Unpack[HookSettings]
    ) -> Hook[C] | Callable[[PointFunction[C, V] | PointOperator[C, V]], Hook[C]]:
        """A hook at this point, or a decorator that makes one."""
        check_names("a hook", settings, HookSettings.__annotations__)

        def make(function: PointFunction[C, V] | PointOperator[C, V]) -> Hook[C]:
            # The verdict's type was checked by the signature; past here a hook is any function of its context.
            return Hook(cast("HookFunction[C]", function), self.point, **settings)

        return make if function is None else make(function)


on_message_send = PointDecorator[MessageSendContext, MessageSendVerdict](HookPoint.ON_MESSAGE_SEND)
"""Decorator of a hook that is called before each request, with a `MessageSendContext`."""
before_tool_call = PointDecorator[ToolCallContext, BeforeToolCallVerdict](HookPoint.BEFORE_TOOL_CALL)
"""Decorator of a hook that is called before each tool call, with a `ToolCallContext`."""
after_tool_call = PointDecorator[ToolResultContext, AfterToolCallVerdict](HookPoint.AFTER_TOOL_CALL)
"""Decorator of a hook that is called with each result of a tool, in a `ToolResultContext`."""
on_turn_end = PointDecorator[TurnEndContext, TurnEndVerdict](HookPoint.ON_TURN_END)
"""Decorator of a hook that is called when the model has answered without calls, with a `TurnEndContext`."""
on_abort = PointDecorator[AbortContext, None](HookPoint.ON_ABORT)
"""Decorator of a hook that is called when a run has been aborted, with an `AbortContext`."""


def hook(
    point: HookPoint | str = "", **settings: Unpack[HookSettings]
) -> Callable[[LegacyFunction | ContextOperator[Any]], Hook[Any]]:
    """A decorator for a point given by its name, also by its older one.

    The function may answer with the point's verdicts or with the results of ``rxworker.hooks.legacy``. What it returns
    is checked when it runs; the decorators of the points check its type before.

    Args:
        point: The hook point: ``on_message_send``, ``OnMessageSend``, ...
        settings: Its name, matcher and so on.

    Raises:
        ConfigurationError: There is no such point, or a setting is unknown or invalid.

    >>> @hook("PreToolUse", matcher="Edit|Create")
    ... async def look_first(context: HookContext) -> None: ...
    >>> look_first
    Hook('look_first', before_tool_call)
    """
    older: object = settings.get("hook_type")
    if older is not None:
        raise ConfigurationError(f'hook(hook_type={older!r}): write @hook("{older}")')
    if not point:
        raise ConfigurationError('give the point of the hook, for example @hook("PreToolUse")')
    at = point_of(point)
    check_names("a hook", settings, HookSettings.__annotations__)

    def make(function: LegacyFunction | ContextOperator[Any]) -> Hook[Any]:
        return Hook[Any](understood(function, at), at, **settings)

    return make
