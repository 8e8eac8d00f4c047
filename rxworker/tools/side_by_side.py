"""Running calls side by side.

Theory of operation. One task runs the calls one after the other, and each takes its first step there. What is done with that
step needs no task of its own. The first call that waits keeps the task from then on, and those behind it are given a task
each at once, so that they run beside it. A call thus never changes its task; and it has context variables of its own, whatever
its task. A call that ends the task, since it cancels itself or lets an end of the program pass, ends it for itself alone: those
behind it are given their own, too. Where calls have started early each has its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from contextvars import copy_context
from functools import partial
from types import coroutine
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
from rxworker.tools.run import Finished, run_at, run_now
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
    is_over = False

    def tell(event: ToolEvent) -> None:
        if not is_over:  # else a call that was left behind has ended after all
            emit(event)

    around = Surroundings(tell, relay, scope, {} if variables is None else variables)
    loop = asyncio.get_running_loop()
    called = list(calls)
    places = range(len(called)) if places is None else places
    finished: list[Finished] = []
    tasks: list[asyncio.Task[Any]] = []
    if early is not None:
        for call, place in zip(called, places, strict=True):
            task = early.take(call, place)
            if task is None:
                task = loop.create_task(run_at(gate, toolbox, call, place, around, loop))
            tasks.append(task)
    elif called:
        placed = list(zip(called, places, strict=True))
        lead = loop.create_task(_lead(placed, finished, tasks, gate, toolbox, around, loop))
        tasks.insert(0, lead)  # an eager one has made the others by now
    try:
        await asyncio.sleep(0)  # what has nothing to wait for is done then
        for task in tasks:
            if not task.done():
                await ended(task)
    except asyncio.CancelledError:
        await stop_all(tasks)
        is_over = True
        for task in tasks:
            _check(task)
        raise
    left = list(zip(called, places, strict=True))[len(finished) :]
    for number, (call, place) in enumerate(left):
        # Where the first was cancelled before it began there are no others.
        task = tasks[min(number, len(tasks) - 1)]
        finished.append(
            _cancelled(call, place, emit) if task.cancelled() else _check(task).result()
        )
    return finished


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


async def _lead(
    calls: Sequence[tuple[ToolCall, int]],
    finished: list[Finished],
    tasks: list[asyncio.Task[Any]],
    gate: Gate,
    toolbox: Toolbox,
    around: Surroundings,
    loop: asyncio.AbstractEventLoop,
) -> Finished | None:
    """Run calls one after the other for as long as each is done at once. The first that waits keeps this task, and each behind it is given its own.

    Args:
        calls: What to run, and the places of the calls in their response.
        finished: Is given what was done at once.
        tasks: Is given the tasks of the others.
        gate: Lets in the calls that run side by side.
        toolbox: Where the tools are.
        around: What the calls share.
        loop: The event loop.
    """
    task = asyncio.current_task(loop)
    try:
        for call, place in calls:
            tool, policy = toolbox.find(call.name)
            work = run_now(tool, policy, call, place, toolbox, around, loop, task)
            step = copy_context().run
            try:
                waits_for = step(work.send, None)
            except StopIteration as done:
                if task is not None and task.cancelling():
                    return None
                finished.append(done.value)
            else:
                gate.enter_now(policy.barrier)
                break
        else:
            return None
    finally:
        for call, place in calls[len(finished) + 1 :]:
            tasks.append(loop.create_task(run_at(gate, toolbox, call, place, around, loop)))
    try:
        return await _go_on(step, work, waits_for)
    finally:
        gate.leave()


@coroutine
def _go_on(
    step: Callable[..., Any], work: Coroutine[Any, Any, Finished], waits_for: object
) -> Generator[object, None, Finished]:
    """The task of a call that waits for something: its steps, each in the context of the call."""
    while True:
        try:
            yield waits_for
        except BaseException as error:
            taken = partial(work.throw, error)
        else:
            taken = partial(work.send, None)
        # Both hold an error that is thrown here, which in turn holds this frame.
        waits_for = None
        try:
            waits_for = step(taken)
        except StopIteration as done:
            return done.value
        finally:
            del taken


__all__ = ["Early", "run_calls"]
