"""The results of the older hook system, for functions that return them.

    @hook("PostToolUse", matcher="Edit|Create")
    async def notice(context: HookContext) -> AddMessage:
        return AddMessage("A file has changed.", "system")

Only functions decorated with ``hook(...)`` may return them. ``docs/reference/hooks.md`` lists what each becomes
at each point. `LegacyContinue`, `LegacySkip` and `LegacyError` were called ``Continue``, ``Skip`` and ``Error``; these
names now belong to verdicts and events that mean something else. `LegacySkip` means that the hook has no verdict: the
call runs.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

from msgspec import Struct
from reactivex import Observable

from rxworker.hooks.base import HookFunction, first_turn
from rxworker.hooks.context import HookContext
from rxworker.hooks.operator import ContextOperator, OperatorFunction, as_operator
from rxworker.hooks.points import ENDINGS, EndRun, Finish, HookPoint, Verdict
from rxworker.messages import Message
from rxworker.messages.message import Role


class LegacyContinue(Struct, frozen=True):
    """Continue."""


class LegacySkip(Struct, frozen=True):
    """The hook has no verdict; continue."""


class ModifyContent(Struct, frozen=True):
    """Change the content and continue: `HookContext.set_content`.

    Attributes:
        content: The new text.
    """

    content: str


class AddMessage(Struct, frozen=True):
    """Add a message to the conversation and continue: `HookContext.add_message`.

    At ``on_message_send`` in a run's first turn only.

    Attributes:
        content: Its text.
        role: The role of the message.
    """

    content: str
    role: Role = "system"


class AddMessages(Struct, frozen=True):
    """Add messages to the conversation and continue: `HookContext.add_messages`.

    At ``on_message_send`` in a run's first turn only.

    Attributes:
        messages: The added messages.
    """

    messages: tuple[Message, ...]


class Complete(Struct, frozen=True):
    """End the run as finished; `Cancel` at ``on_message_send``, where nothing was answered."""


class LegacyError(Struct, frozen=True):
    """End the run with `RunAbortedError`; the hooks after this one do not run.

    Attributes:
        message: The reason. Shown to users; not interpreted.
    """

    message: str


LegacyResult: TypeAlias = (
    LegacyContinue | LegacySkip | ModifyContent | AddMessage | AddMessages | Complete | LegacyError
)

LegacyAnswer: TypeAlias = LegacyResult | Verdict | None

LegacyFunction: TypeAlias = Callable[[Any], LegacyAnswer | Awaitable[LegacyAnswer]]

COMPLETED = "a hook has completed the turn"

NO_FINISH = (HookPoint.ON_MESSAGE_SEND, HookPoint.ON_ABORT)


def understood(function: LegacyFunction | ContextOperator[Any], point: HookPoint) -> HookFunction[Any]:
    """The function, with its older results turned into verdicts."""
    made = as_operator(function)
    if isinstance(made, OperatorFunction) or not callable(made):
        return cast("HookFunction[Any]", made)

    @functools.wraps(function, updated=())
    async def decide(context: HookContext) -> Verdict | None:
        answer = cast("LegacyFunction", function)(context)
        if inspect.isawaitable(answer) and not isinstance(answer, Observable):
            answer = await answer
        if isinstance(answer, LegacyResult):
            return verdict_of(answer, context, point)
        return cast("Verdict | None", answer)

    if not hasattr(function, "__name__"):
        decide.__name__ = type(function).__name__
    return decide


def verdict_of(result: LegacyResult, context: HookContext, point: HookPoint) -> Verdict | None:
    """The verdict of an older result at a point, after the changes that it requests.

    Raises:
        EndRun: It ends the run where no verdict does.
        LocalProtocolError: The content cannot be changed there.
    """
    at_send = point is HookPoint.ON_MESSAGE_SEND
    match result:
        case ModifyContent(content=content):
            context.set_content(content)
        case AddMessage() | AddMessages() if at_send and not first_turn(context):
            pass  # it is in the conversation since the first turn
        case AddMessage(content=content, role=role):
            context.add_message(content, role)
        case AddMessages(messages=messages):
            context.add_messages(messages)
        case Complete():
            return _end(COMPLETED, point) if point in NO_FINISH else Finish(final=True)
        case LegacyError(message=message):
            return _end(message, point)
        case LegacyContinue() | LegacySkip():
            pass
    return None


def _end(reason: str, point: HookPoint) -> Verdict:
    if point not in ENDINGS:
        raise EndRun(reason)
    return ENDINGS[point](reason)
