"""A hook: a function, a coroutine function or a reactivex operator, at a point of the loop."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Generic, TypeAlias, TypeVar, cast

from rxworker.errors import ConfigurationError
from rxworker.hooks.contexts import HookContext
from rxworker.hooks.operator import OperatorFunction
from rxworker.hooks.verdicts import (
    Abort,
    Cancel,
    Continue,
    ContinueWithMessages,
    Finish,
    Pause,
    Skip,
    Verdict,
)

C = TypeVar("C", bound=HookContext)

HookFunction: TypeAlias = Callable[[C], Verdict | Awaitable[Verdict | None] | None]


class HookPoint(Enum):
    """Where in the loop a hook is asked."""

    ON_MESSAGE_SEND = "on_message_send"
    BEFORE_TOOL_CALL = "before_tool_call"
    AFTER_TOOL_CALL = "after_tool_call"
    ON_TURN_END = "on_turn_end"
    ON_ABORT = "on_abort"


VERDICTS: dict[HookPoint, tuple[type[Verdict], ...]] = {
    HookPoint.ON_MESSAGE_SEND: (Continue, Cancel),
    HookPoint.BEFORE_TOOL_CALL: (Continue, Skip, Abort, Pause),
    HookPoint.AFTER_TOOL_CALL: (Continue, Abort),
    HookPoint.ON_TURN_END: (Finish, ContinueWithMessages, Pause),
    HookPoint.ON_ABORT: (),
}


class Hook(Generic[C]):
    """A function at a point of the loop. Asking it returns its verdict.

    Args:
        function: What is asked: it takes the point's context and returns a verdict, or an awaitable of one.
        point: Where it is asked.
        name: What its verdicts, messages and errors are signed with; the function's name by default.
        matcher: At the tool points, which tools it is asked about: a regular expression for the whole name.

    Raises:
        ConfigurationError: The function cannot be called, or the matcher is no regular expression.

    >>> def permit(context: HookContext) -> Verdict | None:
    ...     return None
    >>> Hook(permit, HookPoint.BEFORE_TOOL_CALL, matcher="Edit|Create").matches("Edit")
    True
    """

    def __init__(
        self,
        function: HookFunction[C] | OperatorFunction[C],
        point: HookPoint,
        *,
        name: str | None = None,
        matcher: str | re.Pattern[str] | None = None,
    ) -> None:
        if not callable(function):
            raise ConfigurationError(f"a hook must be callable, {function!r} is not")
        self.point = point
        self.name = name or _name_of(function)
        self.matcher = _compiled(matcher, self.name)
        self._function = function

    def __repr__(self) -> str:
        return f"Hook({self.name!r}, {self.point.value})"

    def matches(self, tool: str) -> bool:
        """Whether it is asked about this tool."""
        return self.matcher is None or self.matcher.fullmatch(tool) is not None

    async def __call__(self, context: C) -> Verdict | None:
        """Ask the function, and wait for its answer where it takes its time."""
        function = self._function
        if isinstance(function, OperatorFunction):
            operator = cast("OperatorFunction[C]", function)
            return await operator.ask(context, self.point.value)
        answer = function(context)
        return await answer if inspect.isawaitable(answer) else answer


def _name_of(function: object) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _compiled(matcher: str | re.Pattern[str] | None, name: str) -> re.Pattern[str] | None:
    if matcher is None:
        return None
    try:
        return re.compile(matcher)
    except (re.error, TypeError) as error:
        message = f"the matcher of hook {name!r} is no regular expression: {matcher!r}: {error}"
        raise ConfigurationError(message) from error


__all__ = ["VERDICTS", "Hook", "HookFunction", "HookPoint"]
