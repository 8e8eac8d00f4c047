"""`run_tools`: tool calls in, their results out.

Each subscription keeps a row of tasks in the order of the calls. A task that ends looks at the head of the row: what
is done there is emitted, up to the first that still runs. All of this happens in the event loop's thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import count
from os import urandom
from typing import Any

from msgspec.structs import replace
from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable, Disposable, SingleAssignmentDisposable

from rxworker.errors import LocalProtocolError
from rxworker.messages import ToolCall, ToolResult
from rxworker.messages.settings import check_plain, check_type
from rxworker.tools.invocation import RUN_CALLS, CallScope, Emit, ToolEvent, ignore
from rxworker.tools.limiter import Limiter
from rxworker.tools.run import FinishedCall, run_at
from rxworker.tools.toolbox import Toolbox


def run_tools(
    toolbox: Toolbox, limit: int = 8, *, emit: Emit = ignore, scope: str = ""
) -> Callable[[Observable[ToolCall | ToolResult]], Observable[ToolResult]]:
    """Run each call as it comes, side by side, and emit the results in the order of the calls.

        --a--b----c-|            b is quicker than a
        [ run_tools(toolbox) ]
        --------(a,b)--c|

    A call that fails is a result too. A result that comes in the place of a call, such as those of
    `rxworker.worker.permit`, is passed on in its place. An error of the source ends the stream and cancels what runs,
    and so does disposing the subscription. It must be subscribed to, and the source must notify, in the event loop's
    thread.

    Args:
        toolbox: The tools.
        limit: How many calls may run at once; the others wait for their turn.
        emit: Receives the start, the progress and the end of each call.
        scope: The prefix of idempotency keys. By default that of the run for which it is subscribed to, with the places
            that the calls have there; outside of a run one of the subscription, since ids of calls may come again in
            other runs.

    Raises:
        ConfigurationError: The limit is below 1, or there is no toolbox.

    >>> import reactivex
    >>> from rxworker import tool
    >>> @tool
    ... async def double(number: int) -> int:
    ...     return 2 * number
    >>> async def main() -> str:
    ...     calls = reactivex.just(ToolCall("1", "double", {"number": 21}))
    ...     return (await calls.pipe(run_tools(Toolbox([double])))).text
    >>> asyncio.run(main())
    '42'
    """
    check_plain("run_tools(emit)", emit)
    check_type("toolbox", toolbox, Toolbox, "run_tools(Toolbox([get_weather]))")
    Limiter(limit)  # refuse a limit that cannot be right here, and not when it is too late

    def operate(source: Observable[ToolCall | ToolResult]) -> Observable[ToolResult]:
        def subscribe(
            observer: abc.ObserverBase[ToolResult], scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            row = _Row(toolbox, limit, emit, scope, observer)
            upstream = SingleAssignmentDisposable()
            # Ready before the source speaks, which it may do at once.
            both = CompositeDisposable(upstream, Disposable(row.cancel))
            upstream.disposable = source.subscribe(row.take, row.fail, row.complete, scheduler=scheduler)
            return both

        return Observable(subscribe)

    return operate


class _Row:
    """The calls of one subscription, in order, from start to emission."""

    def __init__(
        self,
        toolbox: Toolbox,
        limit: int,
        emit: Emit,
        scope: str,
        observer: abc.ObserverBase[ToolResult],
    ) -> None:
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError as error:
            raise LocalProtocolError(
                "run_tools was subscribed to outside an event loop: do it in a coroutine"
            ) from error
        key, self._given = RUN_CALLS.get()
        scope = scope or key or f"calls-{urandom(6).hex()}"
        self._toolbox, self._call_scope = toolbox, CallScope(self._tell, scope=scope)
        self._emit = emit
        self._places = count()
        self._observer = observer
        self._limiter = Limiter(limit)
        self._tasks: deque[asyncio.Future[FinishedCall]] = deque()
        self._ended = False
        self._over = False

    def _place_of(self, call: ToolCall) -> int:
        at = next((at for at, (_, each) in enumerate(self._given) if each.id == call.id), None)
        if at is None:
            return next(self._places)
        place, _ = self._given[at]
        self._given = (*self._given[:at], *self._given[at + 1 :])
        return place

    def take(self, call: ToolCall | ToolResult) -> None:
        if isinstance(call, ToolResult):
            next(self._places)
            known: asyncio.Future[FinishedCall] = self._loop.create_future()
            known.set_result(FinishedCall(call, 0.0))
            self._tasks.append(known)
            self._advance()
            return
        # Each call has variables of its own: a stream of calls has no end at which they could be forgotten.
        call_scope = replace(self._call_scope, variables={})
        place = self._place_of(call)
        work = run_at(self._limiter, self._toolbox, call, place, call_scope, own_task=False)
        task = self._loop.create_task(work)
        self._tasks.append(task)
        task.add_done_callback(self._advance)

    def _tell(self, event: ToolEvent) -> None:
        if not self._over:
            self._emit(event)

    def fail(self, error: Exception) -> None:
        self.cancel()
        self._observer.on_error(error)

    def complete(self) -> None:
        self._ended = True
        self._advance()

    def cancel(self) -> None:
        self._over = True
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()

    def _advance(self, _: Any = None) -> None:
        while self._tasks and self._tasks[0].done() and not self._over:
            task = self._tasks.popleft()
            if task.cancelled():
                self.fail(LocalProtocolError("a call's task was cancelled from outside"))
            elif (error := task.exception()) is not None:
                # Tools do not raise here. This is `emit`, or an end of the program, which has passed by already.
                self.fail(error if isinstance(error, Exception) else RuntimeError(repr(error)))
            else:
                self._observer.on_next(task.result().result)
        if self._ended and not self._tasks and not self._over:
            self._over = True
            self._observer.on_completed()
