"""First stage of a turn: the hooks see what is about to be sent."""

from __future__ import annotations

from collections.abc import Callable

from rxworker.errors import LimitExceededError, RunAbortedError
from rxworker.events import Event, LimitReached, TurnStart
from rxworker.hooks import Cancel, HookPoint, MessageSendContext
from rxworker.messages import Conversation
from rxworker.providers import Request
from rxworker.worker.checks import messages_of
from rxworker.worker.context import RunContext, TurnScope


async def prepare(context: RunContext, scope: TurnScope, emit: Callable[[Event], None]) -> None:
    """Ask ``on_message_send`` and leave the request in the scope.

    Raises:
        LimitExceededError: The run has had all its turns.
        RunAbortedError: A hook held the request back.
        HookError: A hook failed, or left something other than messages.
    """
    _within(context, emit)
    emit(TurnStart())
    asked = MessageSendContext(
        **context.situation(scope.variables),
    )
    verdict, hook = await context.hooks.ask(HookPoint.ON_MESSAGE_SEND, asked, emit)
    if isinstance(verdict, Cancel):
        raise RunAbortedError(verdict.reason, hook=hook)
    scope.request = Request(
        Conversation(messages_of(asked), asked.system), context.tools.metas, context.options
    )


def _within(context: RunContext, emit: Callable[[Event], None]) -> None:
    most = context.limits.max_turns
    if most is not None and context.journal.state.turns >= most:
        emit(LimitReached("max_turns", most))
        raise LimitExceededError("max_turns", most)


__all__ = ["prepare"]
