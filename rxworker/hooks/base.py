"""A hook: a function, a coroutine function or a reactivex operator, at a point of the loop.

How a hook runs: for which tools, in which order, under which condition, for how long, and what its failure means.
"""

from __future__ import annotations

import copy
import fnmatch
import inspect
import math
import os
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, Self, TypeAlias, TypedDict, TypeVar, Unpack, cast, get_args

from reactivex import Observable

from rxworker.errors import ConfigurationError
from rxworker.events.pause import BY_CALLER, CLIENT_TOOL, NESTED, QUESTION, RECOVERY, UNTIL
from rxworker.hooks.context import HookContext
from rxworker.hooks.operator import ContextOperator, OperatorFunction, as_operator, verdict_from
from rxworker.hooks.points import REQUIRES_APPROVAL, HookPoint, Verdict, point_of
from rxworker.messages.settings import check_names, check_number

OnFailure: TypeAlias = Literal["abort", "skip", "continue"]
"""What the failure of a hook does: ``abort`` the run, ``skip`` the call, or ``continue`` without the hook."""
Matcher: TypeAlias = str | re.Pattern[str] | Collection[str]
"""A regular expression for the whole name of a tool, or a collection of names; ``*`` stands for any characters."""
Unmatched: TypeAlias = Literal["error", "warn"]
"""What a run does if a matcher matches none of its tools: it does not start, or it logs a warning."""
Condition: TypeAlias = Callable[[Any], bool | Awaitable[bool]]
"""A function of a hook's context that returns whether the hook is called, now or later."""

FAILURES: dict[HookPoint, tuple[OnFailure, ...]] = {
    # the first is what is usual
    HookPoint.ON_MESSAGE_SEND: ("abort", "continue"),
    HookPoint.BEFORE_TOOL_CALL: ("abort", "skip", "continue"),
    HookPoint.AFTER_TOOL_CALL: ("abort", "skip", "continue"),
    HookPoint.ON_TURN_END: ("abort", "continue"),
    HookPoint.ON_ABORT: ("continue",),
}
RESERVED = (BY_CALLER, CLIENT_TOOL, NESTED, QUESTION, RECOVERY, REQUIRES_APPROVAL, UNTIL)
"""What `PauseState.hook` is where no hook has paused the run."""
MATCHED = (HookPoint.BEFORE_TOOL_CALL, HookPoint.AFTER_TOOL_CALL, HookPoint.ON_TURN_END)
ABORT_SECONDS = 5.0
"""The maximum number of seconds of a hook at ``on_abort``: nothing else can end a run that is ending."""


class HookSettings(TypedDict, total=False):
    """The settings of a hook besides its function and its point.

    Attributes:
        name: The name in its verdicts, messages and errors; by default the function's name.
        matcher: A regular expression for the whole name of a tool, or a collection of names, in which ``*`` stands for
            any characters: the hook runs for matching tools only. At ``on_turn_end`` it runs only if the run has called
            such a tool. An empty text: all.
        unmatched: If the matcher matches none of the tools of a run, ``error`` refuses to start the run, and ``warn``
            logs a warning: for tools that come later, or not in each run. Usual is ``error``.
        when: A condition on the context: the hook does not run if it is false.
        priority: A hook with a higher priority runs earlier; 0 by default.
        before: Names of hooks of the same point that run after this one.
        after: Names of hooks of the same point that run before this one.
        on_failure: ``abort`` ends the run; ``skip``, at the tool points, refuses the call or withholds the result;
            ``continue`` continues as if the hook had not been called. Usual is ``abort``, and ``continue`` at
            ``on_abort``.
        timeout: Seconds until it has failed. Usual is ``math.inf``, and 5 at ``on_abort``, where more is not given.
    """

    name: str | None
    matcher: Matcher | None
    unmatched: Unmatched | None
    when: Condition | None
    priority: int
    before: str | Iterable[str]
    after: str | Iterable[str]
    on_failure: OnFailure | None
    timeout: float | None


def called(name: object, function: object) -> str:
    """The name of the hook: the one that was given, or that of its function.

    Raises:
        ConfigurationError: It is not a string, or a pause that no hook requests has that name.
    """
    if name is not None and not isinstance(name, str):
        method = " It is a method: write name = '...', or make it a property." if callable(name) else ""
        raise ConfigurationError(f"name={name!r}: the name of a hook is a text.{method}")
    left: str = name or getattr(function, "__name__", type(function).__name__)
    if left in RESERVED:
        raise ConfigurationError(f"{left!r} is the name of a pause without a hook: give the hook another, name='...'")
    return left


def matcher_of(matcher: Matcher | None, point: HookPoint, name: str) -> re.Pattern[str] | None:
    """The matcher, compiled.

    Raises:
        ConfigurationError: It is neither a regular expression nor a collection of names, or the point has nothing to
            match.
    """
    if matcher is None or matcher == "":
        return None
    if point not in MATCHED:
        message = f"hook {name!r} has a matcher, but at {point.value} there is no tool to match; use when=..."
        raise ConfigurationError(message)
    if isinstance(matcher, Collection) and not isinstance(matcher, str | bytes):
        names = cast("tuple[object, ...]", tuple(matcher))
        if not names or not all(isinstance(each, str) and each for each in names):
            message = f"the matcher of hook {name!r} is {matcher!r}: give names of tools"
            raise ConfigurationError(message)
        return re.compile("|".join(fnmatch.translate(str(each)) for each in names))
    try:
        compiled = re.compile(matcher)
        compiled.fullmatch("")  # one of bytes matches no text
    except (re.error, TypeError) as error:
        message = f"the matcher of hook {name!r} is not a regular expression: {matcher!r}: {error}"
        raise ConfigurationError(message) from error
    return compiled


NAMES = re.compile(r"[\w -]+(\|[\w -]+)*")
"""A regular expression that is names: ``Edit|Create``."""


def alternatives_of(matcher: Matcher) -> Mapping[str, re.Pattern[str]]:
    """The alternatives of a valid matcher, by their texts: each should match a tool."""
    if isinstance(matcher, str) and NAMES.fullmatch(matcher):
        return {part: re.compile(part) for part in matcher.split("|")}
    if isinstance(matcher, str):
        return {matcher: re.compile(matcher)}
    if isinstance(matcher, re.Pattern):
        return {matcher.pattern: matcher}
    return {part: re.compile(fnmatch.translate(part)) for part in matcher}


def unmatched_of(unmatched: Unmatched | None, name: str) -> Unmatched:
    """The setting ``unmatched`` of a hook, or its default.

    Raises:
        ConfigurationError: There is no such setting.
    """
    if unmatched not in (None, *get_args(Unmatched)):
        raise ConfigurationError(f"unmatched={unmatched!r} of hook {name!r}: give one of {get_args(Unmatched)}")
    return unmatched or "error"


def names_of(names: str | Iterable[str], name: str, side: str) -> tuple[str, ...]:
    """The hooks' names that a constraint mentions.

    Raises:
        ConfigurationError: One is not a string, or is the hook itself.
    """
    if not isinstance(names, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
        raise ConfigurationError(f"{side}={names!r} of hook {name!r}: give names of hooks")
    mentioned = (names,) if isinstance(names, str) else tuple(names)
    for other in mentioned:
        if not isinstance(cast("object", other), str):
            raise ConfigurationError(f"{side}={other!r} of hook {name!r}: give names of hooks")
        if other == name:
            raise ConfigurationError(f"hook {name!r} cannot run {side} itself")
    return mentioned


def failure_of(on_failure: OnFailure | None, point: HookPoint, name: str) -> OnFailure:
    """The setting ``on_failure`` of a hook, or its default.

    Raises:
        ConfigurationError: The point does not have that.
    """
    allowed = FAILURES[point]
    if on_failure is None:
        return allowed[0]
    if on_failure not in allowed:
        raise ConfigurationError(f"on_failure={on_failure!r} of hook {name!r}: at {point.value} give one of {allowed}")
    return on_failure


def timeout_of(timeout: float | None, point: HookPoint, name: str) -> float | None:
    """Seconds until the hook has failed; ``None`` for never.

    Raises:
        ConfigurationError: It is not a number above 0.
    """
    if timeout is None:
        return ABORT_SECONDS if point is HookPoint.ON_ABORT else None
    check_number(f"hook {name!r}: timeout", timeout, above=0)
    return None if math.isinf(timeout) else timeout


def priority_of(priority: int, name: str) -> int:
    """The hook's priority.

    Raises:
        ConfigurationError: It is not a number.
    """
    given = cast("object", priority)
    if not isinstance(given, int | float) or isinstance(given, bool) or math.isnan(given):
        raise ConfigurationError(f"priority={priority!r} of hook {name!r}: give a whole number")
    return priority


NO = frozenset({"", "0", "false", "no", "off"})


def enabled_by(variable: str, *, default: bool = False) -> Callable[[HookContext], bool]:
    """A condition: the hook is called while an environment variable enables it. The variable is read each time.

    Args:
        variable: Its name. ``0``, ``false``, ``no``, ``off`` and nothing mean no, everything else yes.
        default: The value when the variable is not set.

    >>> from rxworker.messages import Conversation
    >>> context = HookContext(conversation=Conversation(), emit=print)
    >>> enabled_by("A_VARIABLE_THAT_IS_NOT_SET", default=True)(context)
    True
    """

    def is_enabled(context: HookContext) -> bool:
        del context
        value = os.environ.get(variable)
        return default if value is None else value.strip().lower() not in NO

    return is_enabled


def first_turn(context: HookContext) -> bool:
    """A condition: the hook runs in the first turn of a run only, not after tools have run.

    A run that was paused counts its turns on.

    >>> from rxworker.messages import Conversation
    >>> [first_turn(HookContext(conversation=Conversation(), emit=print, turn=turn)) for turn in (1, 2)]
    [True, False]
    """
    return context.turn <= 1


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
            return await cast("OperatorFunction[C]", function).decide(context, self.point.value)
        answer = function(context)
        # An observable can be awaited too, and would give its last item, whatever came before it.
        if inspect.isawaitable(answer) and not isinstance(answer, Observable):
            answer = await answer
        if isinstance(answer, Observable):
            return await verdict_from(cast("Observable[object]", answer), context, self.point)
        return answer


AnyHook: TypeAlias = Hook[Any]
"""A hook of any point. Its point determines the context that it takes."""
