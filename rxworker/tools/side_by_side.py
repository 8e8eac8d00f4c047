"""Running calls side by side, each in a task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Protocol

from rxworker.events import ToolStop
from rxworker.messages import ToolCall, ToolResult
from rxworker.tools.attempt import (
    Emit,
    Relay,
    Surroundings,
    ToolEvent,
    ignore,
    ignore_record,
)
from rxworker.tools.gate import Gate
from rxworker.tools.run import Finished, run_at
from rxworker.tools.stop import ended, stop_all
from rxworker.tools.toolbox import Toolbox


class Early(Protocol):
    """Calls that have started already, as far as running the others needs to know them."""

    @property
    def gate(self) -> Gate:
        """Lets the calls of the response run."""
        ...

    def take(self, call: ToolCall, place: int, /) -> asyncio.Task[Finished] | None:
        """Hand a call over, if this very one has started."""
        ...


async def run_calls(
    toolbox: Toolbox,
    calls: Iterable[ToolCall],
    *,
    places: Sequence[int] | None = None,
    limit: int = 8,
    emit: Emit = ignore,
    relay: Relay = ignore_record,
    scope: str = "",
    variables: dict[str, Any] | None = None,
    early: Early | None = None,
) -> list[Finished]:
    """Run calls side by side. Their results come in the order of the calls.

    A tool with ``barrier=True`` runs alone: the calls before it end first, those after it wait for it. When it is
    cancelled, every call is cancelled and waited for.

    Args:
        toolbox: Where the tools are.
        calls: What to run.
        places: The index of each call among the calls of its response; by default these are all its calls.
        limit: How many may run at once; the others wait for their turn.
        emit: Takes the start, the progress and the end of each call, each at once, in the event loop's thread. It must not raise.
        relay: Is shown the records of runs that tools begin, in the event loop's thread. It must not raise.
        scope: What idempotency keys begin with, such as the run and the turn; by default the id of the call.
        variables: Values that the tools share.
        early: Calls that have started already, an `EarlyCalls`; its limit is then the limit.

    Raises:
        ConfigurationError: The limit is below 1.
    """
    gate = Gate(limit) if early is None else early.gate
    is_stopping = is_over = False
    cancelled: dict[int, Finished] = {}

    def tell(event: ToolEvent) -> None:
        if not is_over:  # else a call that was left behind has ended after all
            emit(event)

    def report(call: ToolCall, place: int, task: asyncio.Task[Finished]) -> None:
        """Emit the end of a call that cancelled itself, once: when it has ended, whether others still run or not."""
        if task.cancelled() and not is_stopping and place not in cancelled:
            cancelled[place] = _cancelled(call, place, emit)

    around = Surroundings(tell, relay, scope, {} if variables is None else variables)
    loop = asyncio.get_running_loop()
    called = list(calls)
    placed = list(zip(called, range(len(called)) if places is None else places, strict=True))
    tasks: list[asyncio.Task[Finished]] = []
    for call, place in placed:
        task = None if early is None else early.take(call, place)
        if task is None:
            task = loop.create_task(run_at(gate, toolbox, call, place, around, loop))
        task.add_done_callback(partial(report, call, place))
        tasks.append(task)
    try:
        await asyncio.sleep(0)  # what has nothing to wait for is done then
        for task in tasks:
            if not task.done():
                await ended(task)
    except asyncio.CancelledError:
        is_stopping = True
        await stop_all(tasks)
        is_over = True
        for task in tasks:
            _check(task)
        raise
    for (call, place), task in zip(placed, tasks, strict=True):
        report(call, place, task)  # of a task that has just ended nothing has been called back
    return [
        cancelled.get(place) or _check(task).result()
        for (_, place), task in zip(placed, tasks, strict=True)
    ]


def _check(task: asyncio.Task[Any]) -> asyncio.Task[Any]:
    """The task, unless its tool has raised an interrupt. That has left the event loop by then; what waits for the calls is cancelled."""
    error = task.exception() if task.done() and not task.cancelled() else None
    if isinstance(error, KeyboardInterrupt):
        raise asyncio.CancelledError from error
    return task


def _cancelled(call: ToolCall, place: int, emit: Emit) -> Finished:
    """A tool that cancels its own task has failed, and the run goes on."""
    result = ToolResult(call.id, "The tool cancelled itself.", True, call.name)
    emit(ToolStop(result, place=place))
    return Finished(result, 0.0)


__all__ = ["Early", "run_calls"]
