"""The shutdown of a run that was cut short: its blocks and calls are closed, and its conversation can be sent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from msgspec.structs import replace

from rxworker.errors import LimitExceededError, RunAbortedError, RunCancelledError, RunHandedOverError, reason_of
from rxworker.events import AttemptRetract, Event, HandOver, RunAbort
from rxworker.hooks import AbortContext, HookPoint
from rxworker.state.run import Cause, call_ends, response_ends
from rxworker.tools.coroutines import pass_through
from rxworker.transport.answer import settle_cancellations
from rxworker.transport.base import ACCOUNT
from rxworker.turn.account import RunAccount, settle
from rxworker.turn.context import RunContext, TurnScope, continues, ignore, request_of
from rxworker.turn.rejoin import cancel_calls

logger = logging.getLogger("rxworker.worker")

GRACE = 5.0
"""Seconds for hooks and tools to stop after the run is cancelled."""


async def shut_down(context: RunContext, error: Exception) -> None:
    """Close open blocks and calls, call the ``on_abort`` hooks, and emit the last record.

    Args:
        context: The run.
        error: The error that ended it, which ``await run`` raises.

    Raises:
        KeyboardInterrupt: A handler or a hook raised it. The last record has been emitted by then.
        asyncio.CancelledError: The event loop is closing. The last record has been emitted by then.
    """
    emit = context.journal.emit
    cause, reason = cause_of(error), reason_of(error)
    raised: BaseException | None = None
    try:
        await context.background.stop()
        await _settle(context)
    except asyncio.CancelledError as cancelled:
        raised = cancelled  # the event loop is closing: no hook is skipped for that
    raised = _close_response(context, reason, emit) or raised
    for event in call_ends(context.journal.state, cause):
        emit(event)
    await cancel_calls(context, emit)
    ACCOUNT.set(RunAccount(context))  # the run may have been cut short before its turns
    raised = await _notify_hooks(context, cause, reason, error) or raised
    await end_children(context)
    emit(RunAbort(cause, reason))
    if continues(context.worker, context.options):
        await settle_cancellations(GRACE)  # the program may end with the run
    if raised is not None:
        raise raised


async def leave(context: RunContext, error: Exception) -> None:
    """Release what a run holds that is not over: its log has failed, or another process continues it.

    No hook is called.

    Args:
        context: The run.
        error: The error of the log, after which nothing is emitted; or that of a hand-over.
    """
    await context.background.stop()
    await _settle(context)
    await end_children(context)
    state = context.journal.state
    is_receiving = state.response is not None and not state.is_closed
    goes_on = context.source is not None or (
        state.response is not None and bool(state.response.response_id) and continues(context.worker, context.options)
    )
    emit = ignore if goes_on else context.journal.emit
    interrupt = _close_response(context, reason_of(error), emit)
    if isinstance(error, RunHandedOverError):
        if context.commands is not None:
            await context.commands.deliveries(GRACE)  # no other process would have them
        if is_receiving and not goes_on:
            context.journal.emit(AttemptRetract(reason_of(error)))
        context.journal.emit(HandOver(error.reason))
    if interrupt is not None:
        raise interrupt


def cancel_response(context: RunContext, scope: TurnScope) -> None:
    """Cancel, at the service, the response that the first turn of a recovered run would have continued."""
    if scope.taken_up is not None:
        request = replace(request_of(context, scope), cursor=scope.taken_up.cursor)
        context.worker.model.stream(request).subscribe(on_error=ignore).dispose()


def _log_handler(context: RunContext, raised: BaseException) -> None:
    logger.warning(
        "a handler raised when its block was aborted",
        exc_info=raised,
        extra={"run": context.journal.run_id, "turn": context.journal.turn},
    )


CAUSES: dict[type[Exception], Cause] = {
    RunCancelledError: "cancel",
    RunAbortedError: "abort",
    LimitExceededError: "limit",
}


def cause_of(error: Exception) -> Cause:
    """The cause that an error stands for."""
    for kind, cause in CAUSES.items():
        if isinstance(error, kind):
            return cause
    return "error"


async def end_children(context: RunContext) -> None:
    """End the runs that hooks, stages and tools have begun, and count the requests that have not ended."""
    ends = [asyncio.ensure_future(end()) for end in context.children]
    if ends:
        await asyncio.wait(ends, timeout=GRACE)
    settle(context, tuple(context.requests))


async def _settle(context: RunContext) -> None:
    """Wait up to `GRACE` seconds for cancelled tasks, since a tool may ignore its cancellation."""
    waiting = [task for task in context.tasks if task is not asyncio.current_task()]
    if waiting:
        await asyncio.wait(waiting, timeout=GRACE)


def _close_response(context: RunContext, reason: str, emit: Callable[[Event], None]) -> KeyboardInterrupt | None:
    """Abort the blocks that are open, for handlers and watchers, and report that the response was cancelled.

    An exception of a handler is logged.
    """
    interrupt: KeyboardInterrupt | None = None
    try:
        context.timeline.cancel(reason)
    except KeyboardInterrupt as raised:
        interrupt = raised
    except BaseException as raised:
        _log_handler(context, raised)
    for event in response_ends(context.journal.state, reason):
        emit(event)
    return interrupt


async def _notify_hooks(context: RunContext, cause: Cause, reason: str, error: Exception) -> BaseException | None:
    """Call the ``on_abort`` hooks.

    Returns:
        An interrupt or a cancellation that a hook raised.
    """
    hooks = context.worker.hooks
    if not hooks.orders[HookPoint.ON_ABORT]:
        return None
    given = AbortContext(cause=cause, reason=reason, error=error, **context.hook_input(context.variables))
    try:
        await pass_through(hooks.operator(HookPoint.ON_ABORT, context.journal.emit), given)
    except (KeyboardInterrupt, asyncio.CancelledError) as raised:
        return raised
    return None
