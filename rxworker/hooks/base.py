"""A hook: a function, a coroutine function or a reactivex operator, at a point of the loop."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, Self, TypeAlias, TypeVar, Unpack, cast

from reactivex import Observable

from rxworker.errors import ConfigurationError
from rxworker.hooks.context import HookContext
from rxworker.hooks.operator import ContextOperator, OperatorFunction, as_operator, verdict_from
from rxworker.hooks.points import HookPoint, Verdict, point_of
from rxworker.hooks.settings import (
    HookSettings,
    OnFailure,
    Unmatched,
    alternatives_of,
    called,
    failure_of,
    matcher_of,
    names_of,
    priority_of,
    timeout_of,
    unmatched_of,
)
from rxworker.messages.settings import check_names

C = TypeVar("C", bound=HookContext)

HookFunction: TypeAlias = Callable[[C], Verdict | Awaitable[Verdict | None] | None]


class Hook(Generic[C]):
    """A function that runs at a point of the loop and returns a verdict.

    Args:
        function: Takes the point's context and returns a verdict, or an awaitable of one. It may be a reactivex
            operator over contexts; see `from_operator`.
        point: Its hook point.
        settings: Its name, matcher and so on; see `HookSettings`.

    Attributes:
        name: Its name.
        point: Its hook point.
        chained: The hooks that it is made of, where it is a chain.

    Raises:
        ConfigurationError: The function cannot be called, or one of the settings is unknown or invalid.

    >>> def permit(context: HookContext) -> Verdict | None:
    ...     return None
    >>> Hook(permit, "PreToolUse", matcher="Edit|Create")
    Hook('permit', before_tool_call)
    """

    def __init__(
        self,
        function: HookFunction[C] | OperatorFunction[C] | ContextOperator[C],
        point: HookPoint | str,
        **settings: Unpack[HookSettings],
    ) -> None:
        check_names("a hook", settings, HookSettings.__annotations__)
        when = settings.get("when")
        if not callable(function):
            raise ConfigurationError(f"a hook must be callable, {function!r} is not")
        if when is not None and not callable(when):
            raise ConfigurationError(f"when={when!r}: a condition is a function of the context")
        self.point = point_of(point)
        made = cast("HookFunction[C] | OperatorFunction[C]", as_operator(function))
        self.name = called(settings.get("name"), made)
        self.matcher = matcher_of(settings.get("matcher"), self.point, self.name)
        self.unmatched: Unmatched = unmatched_of(settings.get("unmatched"), self.name)
        self.when = when
        self.priority = priority_of(settings.get("priority", 0), self.name)
        self.before = names_of(settings.get("before", ()), self.name, "before")
        self.after = names_of(settings.get("after", ()), self.name, "after")
        self.on_failure: OnFailure = failure_of(settings.get("on_failure"), self.point, self.name)
        self.timeout = timeout_of(settings.get("timeout"), self.point, self.name)
        self.chained: Sequence[Hook[Any]] = ()
        self._function = made
        self._settings = settings.copy()
        self._settings.update(before=self.before, after=self.after)

    def __repr__(self) -> str:
        return f"Hook({self.name!r}, {self.point.value})"

    def replace(self, **settings: Unpack[HookSettings]) -> Self:
        """A copy of the hook with other settings; settings that are not given stay.

        >>> def permit(context: HookContext) -> None: ...
        >>> Hook(permit, "before_tool_call", priority=1).replace(name="gate").name
        'gate'

        Raises:
            ConfigurationError: A setting is invalid.
        """
        kept = self._settings.copy()
        if "matcher" in settings:  # that of a ready hook may match no tool; one that is given may not
            kept["unmatched"] = None
        kept.update(settings)
        changed: Hook[C] = Hook(self._function, self.point, **kept)
        other = copy.copy(self)
        other.__dict__.update(changed.__dict__, chained=self.chained)
        return other

    def matches(self, tool: str) -> bool:
        """Whether it runs for this tool."""
        return self.matcher is None or self.matcher.fullmatch(tool) is not None

    def unmatched_in(self, tools: Iterable[str]) -> list[str]:
        """The alternatives of its matcher that match none of these tools."""
        matcher = self._settings.get("matcher")
        if self.matcher is None or not matcher:
            return []
        parts = alternatives_of(matcher)
        return [text for text, part in parts.items() if not any(map(part.fullmatch, tools))]

    def concerns(self, context: HookContext) -> bool:
        """Whether it runs for a tool of this context."""
        return self.matcher is None or any(self.matches(tool) for tool in context.concerned)

    async def applies(self, context: C) -> bool:
        """Whether its condition holds.

        Raises:
            TypeError: The condition returned neither ``True`` nor ``False``.
        """
        if self.when is None:
            return True
        holds = self.when(context)
        if inspect.isawaitable(holds):
            holds = await holds
        given = cast("object", holds)
        # A condition that forgets its `return` must not switch a permission hook off.
        if not isinstance(given, bool):
            raise TypeError(f"its condition returned {given!r}, which is neither True nor False")
        return given

    async def __call__(self, context: C) -> Verdict | None:
        """Call the function, and return its verdict. An awaitable is awaited.

        Raises:
            HookError: An observable emitted something other than the context or one verdict of the point.
        """
        function = self._function
        if isinstance(function, OperatorFunction):
            operator = cast("OperatorFunction[C]", function)
            return await operator.decide(context, self.point.value)
        answer = function(context)
        # An observable can be awaited too, and would give its last item, whatever came before it.
        if inspect.isawaitable(answer) and not isinstance(answer, Observable):
            answer = await answer
        if isinstance(answer, Observable):
            emitted = cast("Observable[object]", answer)
            return await verdict_from(emitted, context, self.point)
        return answer


AnyHook: TypeAlias = Hook[Any]
"""A hook of any point. Its point determines the context that it takes."""
