"""Second stage of a turn: send the request and receive the response, through the worker's operators and the timeline.

A response that fails after its first event is requested again, and the events show it. One that goes on at the service
since another process has begun it is continued.
"""

from __future__ import annotations

import asyncio
import logging
from contextvars import copy_context
from functools import partial
from typing import Any, TypeGuard

import reactivex
from msgspec.structs import replace
from reactivex import Observable
from reactivex import operators as ops

from rxworker.errors import ConfigurationError, ProviderError, TruncatedError, reason_of
from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockStart,
    Custom,
    Error,
    Event,
    ResponseEvent,
    ResponseStatus,
    Status,
    Usage,
)
from rxworker.events.kinds import BLOCK_EVENTS, META_EVENTS, Deltas
from rxworker.hub.scheduler import Readers
from rxworker.log.writer import RunWriter
from rxworker.messages import StopKind
from rxworker.operators import error_to_exception
from rxworker.operators.gate import HOST, Host, Row
from rxworker.state.response import ResponseState, message_of
from rxworker.state.run import call_ends, response_ends
from rxworker.tools.coroutines import CoroutineObservable, Emitter
from rxworker.transport.base import ACCOUNT, PRESSURE
from rxworker.turn.account import RunAccount, attempt_start
from rxworker.turn.apply import apply_operators
from rxworker.turn.call_tools import discard_early, start_early
from rxworker.turn.context import Emit, RunContext, Turn, TurnScope, continues, request_of
from rxworker.turn.gate import check_context, gate_of, operators_of
from rxworker.turn.take_up import catch_up

logger = logging.getLogger("rxworker.worker")


def respond(turn: Turn) -> Observable[Event]:
    """Emit the events of a response, through the worker's operators and its timeline.

    A response that fails is requested again while a retry can help.

        response   ---d--#            d an event of the response
                            ---e--|
        [ respond ]
        --a--d--r-----------a--e--|    a AttemptStart, r AttemptRetract: the events are retracted

    Raises:
        Exception: The error of the last attempt.
        TruncatedError: The stream completed without the terminal event of the response.
    """
    return CoroutineObservable(partial(_receive, turn._context, turn._scope), turn._context.tasks)


async def _receive(context: RunContext, scope: TurnScope, emitter: Emitter[Event]) -> None:
    model, history = context.worker.model, context.journal.hub.history
    request, taken = request_of(context, scope), scope.taken_up
    if taken is not None:
        request = replace(request, cursor=taken.cursor)
    goes_on = taken is not None and bool(taken.stored)
    started, account = attempt_start(context, model), ACCOUNT.get()
    is_own = not (isinstance(account, RunAccount) and account.of == "stage")
    pressure, attempts, mailbox = RunPressure(context), 0, context.mailbox
    mailbox.interrupt = emitter.interrupt
    while taken is not None or not (mailbox.waiting and _is_cut(context, scope, emitter.emit)):
        attempts += 1
        response = _response(context, scope, model.stream(request))
        if taken is not None and goes_on:
            response = catch_up(response, taken.stored, started)
        # What an observer sets when the request begins, such as the current span, holds for this request alone.
        of_request = copy_context()
        if context.worker.operators or context.parents:
            of_request.run(HOST.set, Host(pressure.parts, check_context(context)))
        of_request.run(PRESSURE.set, pressure)
        if is_own:
            of_request.run(ACCOUNT.set, None)  # its events are recorded as they are
        if taken is not None and goes_on:
            begun = taken.begun
        else:
            before = history.last_seq
            of_request.run(emitter.emit, started)
            begun = history.last_seq
            if begun == before:
                raise ConfigurationError(_HELD_BACK)
        if mailbox.waiting and mailbox.is_urgent():
            asyncio.get_running_loop().call_soon(mailbox.cut)  # so that the service ends what goes on there
        try:
            await emitter.listen(response, context.scheduler, of_request)
            if not (mailbox.waiting and _is_cut(context, scope, emitter.emit)):
                expect_end(context)
            return
        except BaseException as error:
            discard_early(context, scope)
            wait = None
            if taken is not None and _is_gone(error):
                wait = 0.0
                logger.warning(
                    "the response %s cannot be continued, so it is requested again: %s",
                    taken.cursor,
                    reason_of(error),
                    extra={"run": context.journal.run_id},
                )
            elif isinstance(error, Exception) and _may_repeat(context, begun):
                wait = context.worker.response_retry.delay(error, attempts)
            if wait is None:
                scope.failed = reason_of(error)
                raise
            retract(context, scope, reason_of(error), emitter.emit, wait)
        if not (mailbox.waiting and mailbox.is_urgent()):
            pause: Observable[Any] = reactivex.timer(wait, scheduler=context.scheduler)
            await emitter.listen(pause.pipe(ops.ignore_elements()))
        if taken is not None:
            scope.taken_up = None  # the turn prepares another request
            return


def _is_cut(context: RunContext, scope: TurnScope, emit: Emit) -> bool:
    """Cut the response off if a message is to be read ``now``: a response that has ended is used as it is.

    Its content so far stays. Its calls do not run; the results of those that have run early stay, too.
    """
    state, mailbox = context.journal.state, context.mailbox
    response = state.response
    is_wanted, mailbox.is_interrupted = mailbox.is_interrupted or mailbox.is_urgent(), False
    if not is_wanted or (response is not None and (response.is_over or response.error is not None)):
        return False
    discard_early(context, scope)
    scope.early, scope.is_cut = None, True
    for event in response_ends(state, CUT_BY_MESSAGE):
        emit(event)
    if response is not None and response.status is None:
        emit(Status(ResponseStatus.CANCELLED))  # what it took is not known
    for event in call_ends(context.journal.state, "cut"):
        emit(event)
    return True


def _response(context: RunContext, scope: TurnScope, response: Observable[Event]) -> Observable[Event]:
    """A response through the worker's operators and its timeline. Its pure tools start early."""
    worker, operators = context.worker, operators_of(context) if context.parents else context.worker.operators
    if operators:
        response = apply_operators(operators, response, context.scheduler, TAKEN, NO_RESPONSE).pipe(
            ops.do_action(partial(_expect_open, context, "an operator of the worker"))
        )
    if context.timeline.has_handlers:  # applied directly, since `pipe` costs more than the operators
        response = context.timeline(response)
    if worker.tools.starts_early and worker.starts_early and not any(map(gate_of, operators)):
        response = start_early(context, scope, response)
    return response


def _is_gone(error: BaseException) -> TypeGuard[ProviderError]:
    """Whether the service has no such response, or none that can be continued."""
    return isinstance(error, ProviderError) and error.status in (400, 404, 410)


def retract(context: RunContext, scope: TurnScope, reason: str, emit: Emit, wait: float = 0.0) -> None:
    """Retract an attempt, with the calls that have begun early, before another one begins."""
    discard_early(context, scope)
    scope.early, scope.failed = None, ""
    context.timeline.retract(reason)
    emit(AttemptRetract(reason, wait))


def begin_attempt(context: RunContext, scope: TurnScope, event: Event) -> None:
    """Begin the attempt that an event of the stage belongs to, if that is another one than before.

    Of a stage of the application, or of an operator that tries again.

    Raises:
        ConfigurationError: A response is complete already, and may have been shown as final.
    """
    kind, emit = event.__class__, context.journal.emit
    if kind not in PARTS:
        return
    _expect_open(context, "the stage respond, or an operator around it,", event)
    response = context.journal.state.response
    is_other = scope.failed or kind is AttemptStart
    if response is not None and (is_other or (isinstance(event, BlockStart) and event.index in response.open)):
        reason, response = scope.failed or _AGAIN, None
        for end in response_ends(context.journal.state, reason):
            emit(end)
        retract(context, scope, reason, emit)
    scope.failed = ""
    if response is None and kind is not AttemptStart:
        asked = [one.model for one in context.requests if one.first is event]
        emit(attempt_start(context, asked[0] if asked else context.worker.model))


def _expect_open(context: RunContext, source: str, event: Event) -> None:
    response = context.journal.state.response
    if response is not None and response.status is ResponseStatus.COMPLETED and event.__class__ in PARTS:
        raise ConfigurationError(_AFTER_COMPLETED.format(source, type(event).__name__))


def expect_end(context: RunContext, source: str = "") -> None:
    """Check that there is a response that may be acted on: it has its terminal event, and has not failed.

    No other place decides this.

    Args:
        context: The run.
        source: What has emitted it, if not the model.

    Raises:
        TruncatedError: It does not.
        RxWorkerError: The response failed, although the stream completed, or the model lost the call that it ended for.
    """
    response = context.journal.state.response
    if response is not None and response.status is ResponseStatus.COMPLETED:
        if (stop := response.stop_reason) is None or stop.kind is not MALFORMED or not has_lost_its_call(response):
            return
        raise ProviderError(_LOST.format(stop.detail or stop.raw), kind="server", code="lost_call", retryable=True)
    if response is not None and response.error is not None:
        raise error_to_exception(response.error)
    which = source or f"the stream of {context.worker.model!r}"
    if context.worker.operators and not source:
        which += ", or the output of the worker's operators,"
    raise TruncatedError(f"{which} completed without the event that ends a response, Status(COMPLETED)")


def has_lost_its_call(response: ResponseState) -> bool:
    """Whether a response that has ended was to have a call, and has none that is whole."""
    if response.stop_reason is None or response.stop_reason.kind is not MALFORMED:
        return False
    message = message_of(response, "")
    return message is None or not message.tool_calls


def _may_repeat(context: RunContext, begun: int) -> bool:
    """Whether a failed attempt may be repeated.

    One without any event may not, since the client has already retried it.
    """
    records = context.journal.hub.history.records(begun)
    return any(not r.path and isinstance(r.event, ResponseEvent) for r in records)


MALFORMED = StopKind.MALFORMED
CUT_BY_MESSAGE = "a message was sent into the run"
_LOST = (
    "the model lost its call: its response ended ({}) without one; run again, or take simpler tools or another model"
)
_HELD_BACK = (
    "an operator around the stage respond drops or holds back what respond emits, such as the start of an attempt: it "
    "can then not see whether the response is complete. Operators that wait, such as ops.delay, work on the response "
    "itself: operators=[...]"
)
PARTS = BLOCK_EVENTS | {AttemptStart, Status, Error, Usage, Deltas}
_AFTER_COMPLETED = (
    "{} emitted a {} after Status(COMPLETED): a response is then complete, and watchers may have used it. To reject an "
    "answer, fail in place of that event; ops.retry after it then begins another attempt"
)
_AGAIN = "an operator around the stage respond has begun another attempt"
RESPONSE_EVENTS = META_EVENTS | BLOCK_EVENTS
TAKEN = RESPONSE_EVENTS | {Custom}
"""What operators of the application may emit."""
NO_RESPONSE = (
    "an operator of the worker emitted a {}: operators=[...] take the events of a response, and emit such events"
)


class RunPressure:
    """Backpressure for the connection of a run.

    The watchers and the logs of the run and of its parents, which show its records, too.

    Args:
        context: The context of the run.

    Attributes:
        parts: Each makes the connection wait. A gate of the response adds its own.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self.parts: list[Readers | RunWriter | Row[Any]] = []
        for run in (context, *context.parents):
            self.parts.append(run.journal.hub.flush_scheduler.readers)
            if run.journal.writer is not None:
                self.parts.append(run.journal.writer)

    @property
    def is_left(self) -> bool:
        """Whether another process continues the response, for which it must be stored by its name."""
        response = self._context.journal.state.response
        is_named = response is not None and bool(response.response_id)
        is_left = is_named and any(run.journal.is_left for run in self._context.line)
        return is_left and continues(self._context.worker, self._context.options)

    @property
    def is_full(self) -> bool:
        """Whether reading should stop for now."""
        for part in self.parts:  # noqa: SIM110 - `any` would make a generator for each read
            if part.is_full:
                return True
        return False

    def hold(self) -> asyncio.Future[None] | None:
        """The future to wait for before the next read, if any."""
        for part in self.parts:
            if (held := part.hold()) is not None:
                return held
        return None
