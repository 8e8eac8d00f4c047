"""The results of the older hook system, for functions that answer with them.

    @hook("PostToolUse", matcher="Edit|Create")
    async def notice(context: HookContext) -> AddMessage:
        return AddMessage("A file has changed.", "system")

Only functions decorated with ``hook(...)`` may answer so. What each result comes to at which point is told in
``docs/how-to/hooks.md``. Mind `Skip`: here it says that the hook has nothing to say, and the call is run.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

from msgspec import Struct

from rxworker.hooks.base import HookFunction
from rxworker.hooks.context import HookContext
from rxworker.hooks.operator import OperatorFunction
from rxworker.hooks.points import HookPoint
from rxworker.hooks.verdicts import Abort, Cancel, EndRun, Finish, Verdict
from rxworker.messages import Message, Role


class Continue(Struct, frozen=True):
    """Go on."""


class Skip(Struct, frozen=True):
    """The hook has nothing to say; go on."""


class ModifyContent(Struct, frozen=True):
    """Change the content and go on: `HookContext.set_content`.

    Attributes:
        content: The new text.
    """

    content: str


class AddMessage(Struct, frozen=True):
    """Add a message to the conversation and go on: `HookContext.add_message`.

    Attributes:
        content: Its text.
        role: Who says it.
    """

    content: str
    role: Role = "system"


class AddMessages(Struct, frozen=True):
    """Add messages to the conversation and go on: `HookContext.add_messages`.

    Attributes:
        messages: What is added.
    """

    messages: tuple[Message, ...]


class Complete(Struct, frozen=True):
    """End the turn; the hooks after this one are not asked."""


class Error(Struct, frozen=True):
    """End the run with `RunAbortedError`; the hooks after this one are not asked.

    Attributes:
        message: Why, for people.
    """

    message: str


OlderResult: TypeAlias = (
    Continue | Skip | ModifyContent | AddMessage | AddMessages | Complete | Error
)
OlderAnswer: TypeAlias = OlderResult | Verdict | None
OlderFunction: TypeAlias = Callable[[Any], OlderAnswer | Awaitable[OlderAnswer]]

COMPLETED = "a hook has completed the turn"


def understood(function: OlderFunction, point: HookPoint) -> HookFunction[Any]:
    """The function, with its older results turned into verdicts."""
    if isinstance(function, OperatorFunction) or not callable(function):
        return cast("HookFunction[Any]", function)

    @functools.wraps(function, updated=())
    async def ask(context: HookContext) -> Verdict | None:
        answer = function(context)
        if inspect.isawaitable(answer):
            answer = await answer
        return verdict_of(answer, context, point) if isinstance(answer, OlderResult) else answer

    if not hasattr(function, "__name__"):
        ask.__name__ = type(function).__name__
    return ask


def verdict_of(result: OlderResult, context: HookContext, point: HookPoint) -> Verdict | None:
    """What an older result comes to at a point, after the changes that it asks for.

    Raises:
        EndRun: It ends the run where no verdict does.
        LocalProtocolError: The content cannot be changed there.
    """
    match result:
        case ModifyContent(content=content):
            context.set_content(content)
        case AddMessage(content=content, role=role):
            context.add_message(content, role)
        case AddMessages(messages=messages):
            context.add_messages(messages)
        case Complete():
            return Finish(final=True) if point is HookPoint.ON_TURN_END else _end(COMPLETED, point)
        case Error(message=message):
            return _end(message, point)
        case Continue() | Skip():
            pass
    return None


def _end(reason: str, point: HookPoint) -> Verdict:
    match point:
        case HookPoint.ON_MESSAGE_SEND:
            return Cancel(reason)
        case HookPoint.BEFORE_TOOL_CALL | HookPoint.AFTER_TOOL_CALL:
            return Abort(reason)
        case _:
            raise EndRun(reason)


__all__ = [
    "AddMessage",
    "AddMessages",
    "Complete",
    "Continue",
    "Error",
    "ModifyContent",
    "OlderAnswer",
    "OlderFunction",
    "OlderResult",
    "Skip",
    "understood",
    "verdict_of",
]
