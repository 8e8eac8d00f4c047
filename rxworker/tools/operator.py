"""`run_tools`: tool calls in; their starts, progress, ends and results out.

Each subscription keeps a row of calls in order, and each call has a task. When one ends, the head of the row is looked
at: what is done there is emitted, up to the first that still runs. All of this happens in the event loop's thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from os import urandom

from msgspec.structs import replace

from rxworker.events import PausedCall, ToolStop
from rxworker.messages import ToolCall, ToolResult
from rxworker.messages.settings import check_type
from rxworker.operators.kernel import Operator
from rxworker.tools.calls import CallItem, FinishedCall
from rxworker.tools.cancellation import stop_all
from rxworker.tools.coroutines import Following, Rest, following
from rxworker.tools.invocation import GIVEN_CALLS, CallEnd, CallScope, RunningCall, ignore
from rxworker.tools.run import Limiter, RunningCalls
from rxworker.tools.toolbox import Toolbox


def run_tools(
    toolbox: Toolbox, limit: int = 8, scope: CallScope | None = None
) -> Operator[ToolCall | CallItem, CallItem]:
    """Run each call as it comes, side by side; emit what happens at once, and the results in the order of the calls.

        --a--b------c-|              b is quicker than a
        [ run_tools(toolbox) ]
        --s--s-e-e(a,b)s-(e,c)|      s ToolStart, e ToolStop; a, b and c the calls with their results

    A result is a `FinishedCall`; ``only(FinishedCall)`` leaves out the rest. A call that fails has a result too. A tool
    that waits for the answer of a person ends its call as a `PendingCall`. Everything else, such as calls that have
    their results already, passes at once. An error of the source ends the stream and cancels what runs, and so does
    disposing the subscription. A tool with ``barrier=True`` runs alone: the calls before it end first, those after it
    wait for it. It must be subscribed to, and the source must notify, in the event loop's thread.

    Args:
        toolbox: The tools.
        limit: How many calls may run at once; the others wait for their turn.
        scope: What the calls share. By default that of the run for which it is subscribed to; outside of a run they
            share nothing. The calls of a run have the places that they have there.

    Raises:
        ConfigurationError: The limit is below 1, or there is no toolbox.

    >>> import reactivex
    >>> from rxworker import tool
    >>> from rxworker.operators import only
    >>> @tool
    ... async def double(number: int) -> int:
    ...     return 2 * number
    >>> async def main() -> str:
    ...     calls = reactivex.just(ToolCall("1", "double", {"number": 21}))
    ...     return (await calls.pipe(run_tools(Toolbox([double])), only(FinishedCall))).result.text
    >>> asyncio.run(main())
    '42'
    """
    check_type("toolbox", toolbox, Toolbox, "run_tools(Toolbox([get_weather]))")
    Limiter(limit)  # refuse a limit that cannot be right here, and not when it is too late

    def make(emit: Callable[[CallItem], None], fail: Callable[[Exception], None]) -> _Row:
        shared, given = GIVEN_CALLS.get()
        if scope is not None:
            shared = scope
        if not shared.key:
            shared = replace(shared, key=f"calls-{urandom(6).hex()}")
        return _Row(RunningCalls(toolbox, shared, limit), given, emit, fail)

    return following(make)


def run_begun(calls: RunningCalls) -> Operator[ToolCall | CallItem, CallItem]:
    """The same for a stream of which some calls began early. Those that do not come are discarded."""
    return following(partial(_Row, calls, ()))


class _Row(Following[ToolCall | CallItem, CallItem]):
    """The calls of one subscription, in order, from their start to their results."""

    def __init__(
        self,
        calls: RunningCalls,
        given: tuple[PausedCall, ...],
        emit: Callable[[CallItem], None],
        fail: Callable[[Exception], None],
    ) -> None:
        super().__init__(emit, fail)
        self._calls = calls
        self._given = list(given)
        self._places = count()
        self._row: deque[RunningCall] = deque()
        self._outcomes: dict[RunningCall, CallEnd] = {}
        self._error: BaseException | None = None
        self._over: asyncio.Future[None] | None = None
        self._is_stopping = False

    def take(self, item: ToolCall | CallItem) -> None:
        """Begin a call; pass everything else on."""
        if isinstance(item, ToolCall):
            item = self._placed(item)
        if isinstance(item, PausedCall):
            running = self._calls.take(item, self._emit)
            self._row.append(running)
            running.task.add_done_callback(partial(self._on_done, running))
        else:
            self._emit(item)

    def _placed(self, call: ToolCall) -> PausedCall:
        for at, each in enumerate(self._given):
            if each.call.id == call.id:
                return replace(self._given.pop(at), call=call)
        return PausedCall(next(self._places), call)

    def finish(self) -> Rest | None:
        """Wait until each call of the source has ended."""
        self._calls.discard(self._emit)
        return self._until_ended() if self._row or self._error is not None else None

    async def _until_ended(self) -> None:
        if self._row and not self._is_stopping and (self._error is None or not all(map(_has_ended, self._row))):
            self._over = asyncio.get_running_loop().create_future()
            await self._over
        if self._error is not None:
            raise self._error

    def stop(self) -> Rest | None:
        """Cancel the calls that run. They report until they have ended, and no longer."""
        self._is_stopping = True
        for each in self._row:
            if not each.task.cancelling():
                each.task.cancel()
        return self._until_stopped() if self._row else None

    async def _until_stopped(self) -> None:
        try:
            await stop_all([each.task for each in self._row])
        finally:
            for each in self._row:
                each.is_wanted = False
        for each in self._row:
            if each.task.done() and not each.task.cancelled():
                _check(each.task.exception())

    def _on_done(self, running: RunningCall, task: asyncio.Task[CallEnd]) -> None:
        if self._is_stopping:
            return
        try:
            if task.cancelled():
                # A tool that cancels its own task has failed, and the stream goes on.
                paused = running.each
                result = ToolResult(paused.call.id, "The tool cancelled itself.", True, paused.call.name)
                self._outcomes[running] = FinishedCall(paused, result, running.tool)
                running.report(ToolStop(result, place=paused.place))
            else:
                if (error := task.exception()) is not None:
                    _check(error)
                self._outcomes[running] = task.result()
            while self._row and (outcome := self._outcomes.pop(self._row[0], None)) is not None:
                self._row.popleft()
                self._emit(outcome)
        except BaseException as error:
            self._error = self._error or error
            if self._over is None and isinstance(error, Exception):
                self._fail(error)  # the source goes on
        running.emit = ignore  # the calls that began early are kept, and would keep the pipe
        if self._row and (self._error is None or not all(map(_has_ended, self._row))):
            return  # an error waits for the other calls: none of them is ended by it
        if self._over is not None and not self._over.done():
            self._over.set_result(None)


def _has_ended(running: RunningCall) -> bool:
    return running.task.done()


def _check(error: BaseException | None) -> None:
    """Check that a tool has not raised an interrupt.

    That has left the event loop by then; what waits for the calls is cancelled.
    """
    if isinstance(error, KeyboardInterrupt):
        raise asyncio.CancelledError from error
