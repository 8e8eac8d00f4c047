"""Running tool calls concurrently, each in a task of its own.

A failure of a call becomes a result that the model reads, and does not end the run, even if the tool calls ``sys.exit``. Only a cancellation of
the task and ``KeyboardInterrupt`` propagate.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

from msgspec import Struct

from rxworker.errors import ToolError
from rxworker.events import ToolStart, ToolStop
from rxworker.messages import ToolCall, ToolResult
from rxworker.tools.base import Tool, ToolPolicy
from rxworker.tools.cancellation import ended, stop_all
from rxworker.tools.invocation import (
    CallScope,
    Emit,
    Forwarder,
    ToolEvent,
    attempts,
    ignore,
    ignore_record,
)
from rxworker.tools.limiter import Gate
from rxworker.tools.results import clean, truncate
from rxworker.tools.toolbox import Toolbox

logger = logging.getLogger("rxworker.tools")


class FinishedCall(Struct, frozen=True):
    """A call that has run.

    Attributes:
        result: The result.
        seconds: How long it ran.
    """

    result: ToolResult
    seconds: float


async def run_now(
    tool: Tool | None,
    policy: ToolPolicy,
    call: ToolCall,
    place: int,
    toolbox: Toolbox,
    call_scope: CallScope,
    loop: asyncio.AbstractEventLoop,
    task: asyncio.Task[Any] | None,
    *,
    own_task: bool = True,
) -> FinishedCall:
    """Run one call whose turn has come.

    Args:
        tool: What it calls, if there is such a tool.
        policy: How that may be run.
        call: What to run.
        place: The index of the call among the calls of its response.
        toolbox: Where the tools are.
        call_scope: What it shares with the other calls.
        loop: The event loop.
        task: The task in which it runs.
        own_task: Whether the creator of that task ends it with `stop_all`.
    """
    began = loop.time()
    cancels = 0 if task is None else task.cancelling()
    call_scope.emit(ToolStart(call, place))
    if call_scope.barrier is not None and policy.effect != "pure":
        await call_scope.barrier()
    is_error = True
    if tool is None:
        content = toolbox.missing(call.name)
    else:
        try:
            value = await attempts(
                tool, policy, call, place, call_scope, loop, task, own_task=own_task
            )
            is_error = isinstance(value, ToolResult) and value.is_error
            content = value.content if isinstance(value, ToolResult) else value
        except ToolError as error:
            logger.debug("tool %s, call %s: %s", call.name, call.id, error, exc_info=error)
            content = toolbox.format_error(error)
    if not (isinstance(content, str) and content.isascii()):
        content = clean(content)
    content = truncate(content, policy.max_output)
    result, seconds = ToolResult(call.id, content, is_error, call.name), loop.time() - began
    # Of a call that is cancelled, the one that cancels it reports the end.
    if task is None or task.cancelling() <= cancels:
        call_scope.emit(ToolStop(result, seconds, call.id, place, is_error))
    return FinishedCall(result, seconds)


async def run_at(
    gate: Gate,
    toolbox: Toolbox,
    call: ToolCall,
    place: int,
    call_scope: CallScope,
    loop: asyncio.AbstractEventLoop,
    *,
    own_task: bool = True,
) -> FinishedCall:
    """Run one call when its turn has come.

    Args:
        gate: Lets it in.
        toolbox: Where its tool is.
        call: What to run.
        place: The index of the call among the calls of its response.
        call_scope: What it shares with the other calls.
        loop: The event loop.
        own_task: Whether it has a task that its creator ends with `stop_all`.
    """
    tool, policy = toolbox.find(call.name)
    if not gate.enter_now(policy.barrier):
        await gate.enter(policy.barrier)
        tool, policy = toolbox.find(call.name)  # tools come and go
    try:
        task = asyncio.current_task(loop)
        return await run_now(
            tool, policy, call, place, toolbox, call_scope, loop, task, own_task=own_task
        )
    finally:
        gate.leave()


async def run_call(
    toolbox: Toolbox,
    call: ToolCall,
    emit: Emit = ignore,
    *,
    scope: str = "",
    variables: dict[str, Any] | None = None,
    relay: Forwarder = ignore_record,
) -> ToolResult:
    """Run one call. A failure becomes an error result.

    Args:
        toolbox: Where the tool is.
        call: What to run.
        emit: Takes the start, the progress and the end of the call, in the event loop's thread. It must not raise.
        scope: What the idempotency key begins with; by default the id of the call.
        variables: Values that the tools share.
        relay: Receives the records of a run that the tool starts.

    >>> result = asyncio.run(run_call(Toolbox(), ToolCall("1", "fly", {})))
    >>> result.is_error, result.text
    (True, "There is no tool called 'fly'. These are the tools: none.")
    """
    call_scope = CallScope(emit, relay, scope, {} if variables is None else variables)
    loop = asyncio.get_running_loop()
    return (await run_at(Gate(1), toolbox, call, 0, call_scope, loop, own_task=False)).result


class Early(Protocol):
    """Calls that have started already, as far as running the others needs to know them."""

    @property
    def gate(self) -> Gate:
        """Lets the calls of the response run."""
        ...

    def take(self, call: ToolCall, place: int, /) -> asyncio.Task[FinishedCall] | None:
        """Hand a call over, if this very one has started."""
        ...


async def run_calls(
    toolbox: Toolbox,
    calls: Iterable[ToolCall],
    *,
    places: Sequence[int] | None = None,
    limit: int = 8,
    emit: Emit = ignore,
    relay: Forwarder = ignore_record,
    scope: str = "",
    variables: dict[str, Any] | None = None,
    early: Early | None = None,
    barrier: Callable[[], Awaitable[None]] | None = None,
) -> list[FinishedCall]:
    """Run calls side by side. Their results come in the order of the calls.

    A tool with ``barrier=True`` runs alone: the calls before it end first, those after it wait for it. When it is
    cancelled, every call is cancelled and waited for.

    Args:
        toolbox: Where the tools are.
        calls: What to run.
        places: The index of each call among the calls of its response; by default these are all its calls.
        limit: How many may run at once; the others wait for their turn.
        emit: Receives the start, the progress and the end of each call, each at once, in the event loop's thread. It must not raise.
        relay: Receives the records of runs that tools start, in the event loop's thread. It must not raise.
        scope: What idempotency keys begin with, such as the run and the turn; by default the id of the call.
        variables: Values that the tools share.
        early: Calls that have started already, an `EarlyCalls`; its limit is then the limit.
        barrier: Awaited before each tool with effects runs; see `CallScope`.

    Raises:
        ConfigurationError: The limit is below 1.
    """
    gate = Gate(limit) if early is None else early.gate
    is_stopping = is_over = False
    cancelled: dict[int, FinishedCall] = {}

    def emit_open(event: ToolEvent) -> None:
        if not is_over:  # else a call that was left behind has ended after all
            emit(event)

    def report(call: ToolCall, place: int, task: asyncio.Task[FinishedCall]) -> None:
        """Emit the end of a call that cancelled itself, once: when it has ended, whether others still run or not."""
        if task.cancelled() and not is_stopping and place not in cancelled:
            cancelled[place] = _cancelled(call, place, emit)

    call_scope = CallScope(emit_open, relay, scope, {} if variables is None else variables, barrier)
    loop = asyncio.get_running_loop()
    called = list(calls)
    placed = list(zip(called, range(len(called)) if places is None else places, strict=True))
    tasks: list[asyncio.Task[FinishedCall]] = []
    for call, place in placed:
        task = None if early is None else early.take(call, place)
        if task is None:
            task = loop.create_task(run_at(gate, toolbox, call, place, call_scope, loop))
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


def _cancelled(call: ToolCall, place: int, emit: Emit) -> FinishedCall:
    """A tool that cancels its own task has failed, and the run goes on."""
    result = ToolResult(call.id, "The tool cancelled itself.", True, call.name)
    emit(ToolStop(result, place=place))
    return FinishedCall(result, 0.0)
