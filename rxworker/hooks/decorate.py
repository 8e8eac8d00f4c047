"""Decorators that set the point of the loop at which a function is called, and objects with methods for points.

    @before_tool_call(matcher="delete_.*")
    async def permit(context: ToolCallContext) -> Skip | None: ...

    worker = Worker(..., hooks=[permit])

Each takes the function alone or with settings, see `HookSettings`. A function may be a reactivex operator over the
contexts. What a function may return is part of its type: a verdict that its point does not have is refused by the type
checker, and at run time with a `HookError`.

An object that has one such method is checked by a type checker where it is registered: a method with another verdict
does not match the protocol. An object with several methods matches as soon as one of them does. To have all of them
checked, derive it from a protocol for each:

    class Gate(SupportsBeforeToolCall, SupportsOnTurnEnd): ...
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, Unpack, cast, overload

from reactivex import Observable

from rxworker.errors import ConfigurationError
from rxworker.hooks.base import FAILURES, MATCHED, AnyHook, Hook, HookFunction, HookSettings
from rxworker.hooks.context import (
    AbortContext,
    HookContext,
    MessageSendContext,
    ToolCallContext,
    ToolResultContext,
    TurnEndContext,
)
from rxworker.hooks.legacy import LegacyFunction, understood
from rxworker.hooks.operator import ContextOperator, OperatorFunction
from rxworker.hooks.points import (
    OLDER_NAMES,
    AfterToolCallVerdict,
    BeforeToolCallVerdict,
    HookPoint,
    MessageSendVerdict,
    TurnEndVerdict,
    point_of,
)
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

    The function may answer with the point's verdicts or with the results of this module. What it returns is checked
    when it runs; the decorators of the points check its type before.

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


POINTS = [point.value for point in HookPoint]
LIKE = 0.85
"""How like the name of a point the name of a method is, from 0 to 1, if it is taken for a misspelt one."""


def hooks_of(hook: object) -> Sequence[AnyHook]:
    """The hooks made from a hook-like object.

    An object may define its name and its settings: a ``name``, a ``matcher``, and ``hook_settings`` with what
    else there is in `HookSettings`. Of these each point takes what it can have.

    Raises:
        ConfigurationError: It is not a hook, and has no method named like a point, or has one that is named nearly so.
    """
    if isinstance(hook, Hook):
        return (cast("AnyHook", hook),)
    if inspect.isclass(hook):
        message = f"{hook.__name__} is a class: register an object of it, {hook.__name__}()"
        raise ConfigurationError(message)
    for name in dir(hook):
        meant = None if name in POINTS else _meant(name)
        if meant is not None and callable(getattr(hook, name, None)):
            raise ConfigurationError(
                f"{type(hook).__name__} has the method {name!r}; did you mean {meant!r}? If not, give it another name"
            )
    settings = _settings_of(hook)
    made = [
        Hook[Any](method, point, **_at(point, settings))
        for point in HookPoint
        if (method := getattr(hook, point.value, None)) is not None
    ]
    if not made:
        points = ", ".join(POINTS)
        message = (
            f"{hook!r} is not a hook: decorate a function with its point, for example @before_tool_call, or "
            f"give an object with one of the methods {points}"
        )
        raise ConfigurationError(message)
    return made


def _meant(name: str) -> str | None:
    """The point whose name, or older name, a method's name resembles, if there is one."""
    close = difflib.get_close_matches(name, POINTS, 1, LIKE)
    return close[0] if close else PLAIN.get(_plain(name))


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


PLAIN = {_plain(name): point for name, point in (*zip(POINTS, POINTS, strict=True), *OLDER_NAMES.items())}
"""Each point by its names, in small letters and without underscores."""


def _settings_of(hook: object) -> HookSettings:
    given: object = getattr(hook, "hook_settings", {})
    if not isinstance(given, dict) or given.keys() - HookSettings.__annotations__.keys():
        known = ", ".join(HookSettings.__annotations__)
        raise ConfigurationError(f"hook_settings of {hook!r}: {given!r}; give a dict with: {known}")
    settings: HookSettings = {
        "name": getattr(hook, "name", type(hook).__name__),
        "matcher": getattr(hook, "matcher", None),
    }
    settings.update(cast("HookSettings", given))
    return settings


def _at(point: HookPoint, settings: HookSettings) -> HookSettings:
    """The settings, without what this point cannot have: they are those of several."""
    kept = settings.copy()
    if point not in MATCHED:
        kept["matcher"] = None
    if kept.get("on_failure") in {way for ways in FAILURES.values() for way in ways}.difference(FAILURES[point]):
        kept["on_failure"] = None
    return kept


Returned: TypeAlias = V | Awaitable[V | None] | None


class SupportsOnMessageSend(Protocol):
    """Has a method for ``on_message_send``."""

    def on_message_send(self, context: MessageSendContext, /) -> Returned[MessageSendVerdict]:
        """Runs before each request."""
        ...


class SupportsBeforeToolCall(Protocol):
    """Has a method for ``before_tool_call``."""

    def before_tool_call(self, context: ToolCallContext, /) -> Returned[BeforeToolCallVerdict]:
        """Runs before each tool call."""
        ...


class SupportsAfterToolCall(Protocol):
    """Has a method for ``after_tool_call``."""

    def after_tool_call(self, context: ToolResultContext, /) -> Returned[AfterToolCallVerdict]:
        """Runs for each result."""
        ...


class SupportsOnTurnEnd(Protocol):
    """Has a method for ``on_turn_end``."""

    def on_turn_end(self, context: TurnEndContext, /) -> Returned[TurnEndVerdict]:
        """Runs after a response without tool calls."""
        ...


class SupportsOnAbort(Protocol):
    """Has a method for ``on_abort``."""

    def on_abort(self, context: AbortContext, /) -> Awaitable[None] | None:
        """Runs when a run ends without a result."""
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
