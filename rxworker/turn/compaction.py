"""Before a request: the beginning of a conversation that has grown too long gets a shorter form.

Theory of operation. The form is made between the start of a turn and the hooks of its request, is recorded, and is
stored before the request goes out: a process that recovers the run finds it in the conversation. A summary that was cut
off, with its process or by a cancellation, is written again; its tokens count where the provider has reported them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Any

import msgspec
import reactivex
from msgspec.structs import replace
from reactivex import Observable
from reactivex import operators as ops

from rxworker.errors import ProviderError, TruncatedError
from rxworker.events import ConversationCompact, Usage
from rxworker.hooks import HookPoint
from rxworker.messages import Conversation, Message, StopKind, estimate
from rxworker.messages.content import ServerToolCall
from rxworker.messages.history import BYTES_PER_TOKEN, HEADING, shorten
from rxworker.messages.stop import AGAINST_CALLS
from rxworker.operators import error_to_exception
from rxworker.providers import Options, Request
from rxworker.providers.base import ToolChoice
from rxworker.state.response import COMPLETED, fold_response, message_of
from rxworker.tools.coroutines import Emitter
from rxworker.transport.base import ACCOUNT
from rxworker.turn.apply import apply_operators
from rxworker.turn.context import Edits, Emit, RunContext, ignore
from rxworker.turn.gate import operators_of
from rxworker.turn.respond import NO_RESPONSE, TAKEN

WORTH = 10
"""A compaction makes a request shorter by this part of the size from which it is made, or is not made."""
ROOM = 8_192
"""A summary has the maximum of tokens of the run if that is at least this."""
NONE = ToolChoice("none")
UNFIT = (*AGAINST_CALLS, StopKind.PAUSE_TURN)
"""How no summary ends."""


async def compacted(
    context: RunContext, hooked: Callable[[Conversation], Awaitable[tuple[Conversation, Edits]]], emit: Emit
) -> bool:
    """Shorten the conversation of the next requests, if it is time. Returns whether it was.

    Args:
        context: The run.
        hooked: Runs the hooks on the messages of the request for a summary.
        emit: Emits the events.

    Raises:
        Exception: The summary could not be written.
    """
    policy = context.worker.compact
    if policy is None or policy.by == "provider":
        return False
    most = policy.tokens(context.worker.model)
    size, rough = _size(context), 0.0
    if size is None or size >= most:
        rough = _rough(context)
        size = size or rough
    if size < most:
        return False
    whole = context.journal.state.conversation
    keeps_turns = isinstance(policy.keep, int)
    share = 0.5 if keeps_turns else policy.keep
    scale = size / rough  # an estimate of the estimate's error
    turns = policy.keep if keeps_turns else float("inf")
    begin, stay = shorten(whole, share * most / scale, turns)
    cut = whole.sent.messages[: len(whole.instead) + begin - whole.replaced]
    less = sum(map(estimate, cut)) - sum(map(estimate, stay))
    if begin <= whole.replaced or less * scale * WORTH < most:
        return False
    tokens = int(size)
    if policy.by == "trim":
        emit(ConversationCompact(begin, stay, policy.by, tokens))
    else:
        asked = Conversation((*cut, Message.user(policy.prompt)), whole.system)
        if context.worker.hooks.orders[HookPoint.ON_MESSAGE_SEND]:
            asked, _ = await hooked(asked)
        now = context.journal.state.conversation
        if now.messages[:begin] != whole.messages[:begin]:
            # a hook has rewritten them for good: what is left of them is looked at before the next request
            return False
        text, usage = await _write(context, asked, emit, less - most / scale / WORTH)
        summary = Message.user(f"{HEADING}\n\n{text}")
        model = context.worker.model.model
        emit(ConversationCompact(begin, (*stay, summary), policy.by, tokens, model=model, usage=usage))
    await context.journal.barrier()
    return True


def _size(context: RunContext) -> float | None:
    """The tokens of the next request, by those of the last one; ``None`` if these are not known."""
    state = context.journal.state
    if not state.request_tokens:
        return None
    added = 0
    for message in reversed(state.conversation.messages):
        if message.role == "assistant":
            # What the provider's own tools have read counts once more for each of its passes.
            if any(isinstance(block, ServerToolCall) for block in message.content):
                return None
            break
        added += estimate(message)
    return state.request_tokens + added


def _rough(context: RunContext) -> float:
    """The tokens of the next request, by an estimate of all of it."""
    conversation = context.journal.state.conversation.sent
    system = Message.system(conversation.system or "")
    tools = len(msgspec.json.encode(context.worker.tools.metas)) / BYTES_PER_TOKEN
    return sum(map(estimate, (system, *conversation.messages))) + tools


async def _write(context: RunContext, asked: Conversation, emit: Emit, longest: float) -> tuple[str, Usage]:
    """The summary, and the tokens of all requests for it.

    With one of more than ``longest`` tokens, by the estimate, each request would be shortened again.
    """
    options, answers = _options(context.options), list[list[Any]]()
    try:
        while True:
            events: list[Any] = []
            answers.append(events)
            request = Request(asked, context.worker.tools.metas, options)
            try:
                message, reason = await _answer(context, request, events)
            except Exception as error:
                # The client has retried a request without any event already.
                wait = context.worker.response_retry.delay(error, len(answers)) if events else None
                if wait is None:
                    raise
                pause: Observable[int] = reactivex.timer(wait, scheduler=context.scheduler)
                await Emitter(ignore, ignore).listen(pause.pipe(ops.ignore_elements()))
                continue
            if message is not None and message.tool_calls and options.tool_choice != NONE:
                options = replace(options, tool_choice=NONE)
                continue
            text = "" if message is None or message.tool_calls else message.text.strip()
            is_long = estimate(Message.user(text)) > longest
            if not text or is_long or reason in UNFIT:
                why = "its answer has no text or calls tools"
                if reason is not None and reason in UNFIT:
                    why = f"its answer ended with {reason.value}"
                elif is_long:
                    why = "its answer is too long: the requests would not become shorter"
                raise ProviderError(
                    f"{context.worker.model!r} has written no summary of the conversation: {why}. Use "
                    "Compact(by='trim'), another prompt, or a larger max_tokens"
                )
            return text, _usage(answers)
    except BaseException:
        usage = _usage(answers)
        if usage.total_tokens:
            model = context.worker.model.model
            emit(ConversationCompact(by="model", model=model, usage=usage))
        raise


def _options(options: Options) -> Options:
    """The settings of the request for a summary.

    Those of the run, as far as they shape no answer, so that it reads the provider's cache.
    """
    room, choice = options.max_tokens, options.tool_choice
    return replace(
        options,
        output=None,
        stop_sequences=(),
        max_tokens=room if room is not None and room >= ROOM else None,
        tool_choice=NONE if choice is not None and choice.mode in ("any", "tool") else choice,
    )


async def _answer(context: RunContext, request: Request, events: list[Any]) -> tuple[Message | None, StopKind | None]:
    """The answer to a request, and why it ended.

    Args:
        context: The run.
        request: The request.
        events: Receives the events of the response.
    """
    model = context.worker.model
    response: Observable[Any] = model.stream(request)
    if operators := operators_of(context):
        response = apply_operators(operators, response, context.scheduler, TAKEN, NO_RESPONSE)
    of_request = copy_context()
    of_request.run(ACCOUNT.set, None)  # it is counted here
    await Emitter(events.append, events.extend).listen(response, context.scheduler, of_request)
    state = fold_response(events)
    if state.status is not COMPLETED:
        if state.error is not None:
            raise error_to_exception(state.error)
        raise TruncatedError(f"the stream of {model!r} completed before the summary was complete")
    reason = state.stop_reason
    return message_of(state, model.name), None if reason is None else reason.kind


def _usage(answers: list[list[Any]]) -> Usage:
    """The tokens of responses together."""
    whole = Usage()
    for state in map(fold_response, answers):
        usage = state.usage or Usage()
        whole += usage if state.status is COMPLETED else replace(usage, is_partial=True)
    return whole
