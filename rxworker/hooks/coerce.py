"""Hooks made of what a worker accepts: hooks, and objects with methods named like the points.

An object that has one such method is checked by a type checker where it is registered: a method with another verdict
does not match the protocol. An object with several methods matches as soon as one of them does. To have all of them
checked, derive it from a protocol for each:

    class Gate(SupportsBeforeToolCall, SupportsOnTurnEnd): ...
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Awaitable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from rxworker.errors import ConfigurationError
from rxworker.hooks.base import AnyHook, Hook
from rxworker.hooks.contexts import AbortContext, MessageSendContext, ToolCallContext, ToolResultContext, TurnEndContext
from rxworker.hooks.points import (
    OLDER_NAMES,
    AfterToolCallVerdict,
    BeforeToolCallVerdict,
    HookPoint,
    MessageSendVerdict,
    TurnEndVerdict,
)
from rxworker.hooks.settings import FAILURES, MATCHED, HookSettings

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


V = TypeVar("V")

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
