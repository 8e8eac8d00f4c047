"""First stage of a turn: the hooks see what is about to be sent."""

from __future__ import annotations

from collections.abc import Callable

from rxworker.errors import HookError, RunAbortedError
from rxworker.events import ConversationReplace, Event, TurnStart
from rxworker.hooks import Cancel, HookPoint, MessageSendContext
from rxworker.messages import Conversation
from rxworker.providers import Request
from rxworker.state import RunState
from rxworker.worker.checks import messages_of
from rxworker.worker.context import RunContext, TurnScope
from rxworker.worker.guard import admit, before_request

POINT = HookPoint.ON_MESSAGE_SEND  # here, since a member of an enumeration is dear to look up


async def prepare(context: RunContext, scope: TurnScope, emit: Callable[[Event], None]) -> None:
    """Ask ``on_message_send`` and leave the request in the scope.

    Raises:
        LimitExceededError: The run has had all its turns.
        RunAbortedError: A hook held the request back.
        HookError: A hook failed, or left something other than messages.

    In both cases the messages that this request would have been the first to carry are taken back from the conversation.
    """
    journal = context.journal
    state = journal.state
    before_request(context, state, emit)
    if context.budgets:
        await admit(context, emit)
        state = journal.state
    emit(TurnStart())
    # The start of a turn by itself changes nothing in the conversation.
    if context.inbox.waiting or state.response is not None:
        context.inbox.deliver(emit)
        state = journal.state
    conversation = state.conversation
    if context.hooks.at(POINT):
        conversation = await _ask(context, scope, emit)
    scope.request = Request(conversation, context.tools.metas, context.options)


async def _ask(
    context: RunContext, scope: TurnScope, emit: Callable[[Event], None]
) -> Conversation:
    """What the hooks leave of the conversation for this request."""
    asked = MessageSendContext(
        **context.situation(scope.variables),
    )
    try:
        verdict, hook = await context.hooks.ask(POINT, asked, emit)
        if isinstance(verdict, Cancel):
            raise RunAbortedError(verdict.reason, hook=hook)
        return Conversation(messages_of(asked), asked.system)
    except (RunAbortedError, HookError) as error:
        _take_back(context.journal.state, error.hook or "", emit)
        raise


def _take_back(state: RunState, hook: str, emit: Callable[[Event], None]) -> None:
    """Take what no request has carried yet out of the conversation, so that the next run does not send what was held back here.

    In the first turn of a run that is all that the run has added. Later the response stays, and so do the results of its calls.
    """
    messages, sent = state.conversation.messages, len(state.base.messages)
    kept = list(messages[:sent])
    if state.turns > 1:
        kept += [
            message
            for place, message in enumerate(messages[sent:])
            if message.tool_results or (place == 0 and message.role == "assistant")
        ]
    if len(kept) < len(messages):
        emit(ConversationReplace(state.conversation.with_messages(kept), hook))


__all__ = ["prepare"]
