"""Running tool calls concurrently, each in a task of its own.

A call may start before the response that makes it has ended.

A failure of a call becomes a result that the model reads, and does not end the run, even if the tool calls
``sys.exit``. Only a cancellation of the task and ``KeyboardInterrupt`` propagate.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rxworker.errors import ToolError
from rxworker.events import Record, ToolStart, ToolStop
from rxworker.events.pause import Begun
from rxworker.messages import ToolCall, ToolResult
from rxworker.messages.settings import awaited
from rxworker.redact import without_secrets
from rxworker.tools.base import Tool, policy_of
from rxworker.tools.cancellation import stop_all
from rxworker.tools.context import QuestionError
from rxworker.tools.invocation import (
    CallScope,
    Emit,
    ToolEvent,
    attempts,
)
from rxworker.tools.limiter import Limiter
from rxworker.tools.results import change_texts, clean, truncate
from rxworker.tools.toolbox import Toolbox

logger = logging.getLogger("rxworker.tools")


class FinishedCall(Struct, frozen=True):
    """A call that has run.

    Attributes:
        result: The result.
        seconds: How long it ran.
        begun: How it goes on when a person has answered its question; it has no result until then.
    """

    result: ToolResult
    seconds: float
    begun: Begun | None = None


async def run_at(
    limiter: Limiter,
    toolbox: Toolbox,
    call: ToolCall,
    place: int,
    call_scope: CallScope,
    *,
    own_task: bool = True,
) -> FinishedCall:
    """Run one call when its turn has come.

    Args:
        limiter: Lets it in.
        toolbox: The toolbox of its tool.
        call: The call to run.
        place: The index of the call among the calls of its response.
        call_scope: The scope that it shares with the other calls.
        own_task: Whether it has a task that its creator ends with `stop_all`.
    """
    tool, policy = toolbox.find(call.name)
    if not limiter.enter_now(policy.barrier):
        await limiter.enter(policy.barrier)
        tool, policy = toolbox.find(call.name)  # tools come and go
    try:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
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
                value = await attempts(tool, policy, call, place, call_scope, task=task, own_task=own_task)
                content, is_error = (value.content, value.is_error) if isinstance(value, ToolResult) else (value, False)
            except ToolError as error:
                logger.debug(
                    "tool %s, call %s: %s",
                    call.name,
                    call.id,
                    error,
                    exc_info=error,
                    extra={"tool": call.name, "call": call.id},
                )
                content = await awaited(toolbox.format_error(error))
            except QuestionError as error:
                none = ToolResult(call.id, "", is_error=True, name=call.name)
                return FinishedCall(none, loop.time() - began, error.begun)
        if is_error:
            content = change_texts(content, without_secrets)
        content = truncate(content, policy.max_output)
        if not (isinstance(content, str) and content.isascii()):
            content = clean(content)  # of what is left, as many characters as before
        result, seconds = ToolResult(call.id, content, is_error, call.name), loop.time() - began
        # Of a call that is cancelled, the one that cancels it reports the end.
        if task is None or task.cancelling() <= cancels:
            call_scope.emit(ToolStop(result, seconds, call.id, place, is_error))
        return FinishedCall(result, seconds)
    finally:
        limiter.leave()


async def run_call(toolbox: Toolbox, call: ToolCall, call_scope: CallScope | None = None) -> ToolResult:
    """Run one call. A failure becomes an error result.

    Args:
        toolbox: The toolbox of the tool.
        call: The call to run.
        call_scope: What it shares with others; by default nothing.

    >>> result = asyncio.run(run_call(Toolbox(), ToolCall("1", "fly", {})))
    >>> result.is_error, result.text
    (True, "There is no tool called 'fly'. These are the tools: none.")
    """
    given = call_scope or CallScope()
    return (await run_at(Limiter(1), toolbox, call, 0, given, own_task=False)).result


class EarlyCalls:
    """The calls of one response that start while it is still being received. An argument of `run_calls`.

    A tool without effects may start as soon as its call is complete. Its events and its result are kept until
    `run_calls` needs them. It may never need them: the response may fail, or a hook may change the arguments. Then the
    call is cancelled, and its events are dropped.

    Args:
        toolbox: The tools.
        call_scope: The context of these calls.
        limit: How many calls may run at once, including those that start later.

    Attributes:
        limiter: Limits how many calls of the response run at once.
        accepted: The number of calls that may start.
        begun: The number of calls that have started.

    Raises:
        ConfigurationError: The limit is below 1.

    >>> from rxworker import tool
    >>> @tool(effect="pure")
    ... async def look(where: str) -> str:
    ...     return f"nothing {where}"
    >>> async def main() -> str:
    ...     early = EarlyCalls(Toolbox([look]))
    ...     early.start(ToolCall("1", "look", {"where": "here"}))
    ...     task = early.take(ToolCall("1", "look", {"where": "here"}))
    ...     return (await task).result.text
    >>> asyncio.run(main())
    'nothing here'
    """

    def __init__(self, toolbox: Toolbox, call_scope: CallScope | None = None, *, limit: int = 8) -> None:
        self.limiter = Limiter(limit)
        self.accepted = 0
        self.begun = 0
        self._toolbox = toolbox
        self._call_scope = call_scope or CallScope()
        self._calls: dict[int, _Early] = {}
        self._leaving: list[asyncio.Task[FinishedCall]] = []
        self._is_held = False

    def start(self, call: ToolCall, place: int = 0) -> bool:
        """Start a call, if its tool has no effects and needs no approval, and no call that runs alone came before it.

        Args:
            call: The call.
            place: Its index among the calls of the response.

        Returns:
            Whether it starts.
        """
        tool = self._toolbox.get(call.name)
        if tool is None or place in self._calls:
            return False
        policy = policy_of(tool)
        self._is_held = self._is_held or policy.barrier
        if self._is_held or not policy.starts_early:
            return False
        self._calls[place] = self._begin(_Early(tool, call, place))
        self.accepted += 1
        return True

    def _begin(self, early: _Early) -> _Early:
        """Run a call, whose events are emitted until it is cancelled."""
        given = self._call_scope

        def emit(event: ToolEvent) -> None:
            if early.is_wanted:
                early.is_running = not isinstance(event, ToolStop)
                self.begun += isinstance(event, ToolStart)
                given.emit(event)

        def relay(call_id: str, record: Record) -> None:
            if early.is_wanted:
                given.relay(call_id, record)

        call_scope = replace(given, emit=emit, relay=relay)
        work = run_at(self.limiter, self._toolbox, early.call, early.place, call_scope)
        early.task = asyncio.get_running_loop().create_task(work)
        return early

    def has_started(self, call: ToolCall, place: int = 0) -> bool:
        """Whether this very call has started, or waits for its turn."""
        early = self._calls.get(place)
        return early is not None and early.is_for(call)

    def tool_at(self, place: int) -> Tool | None:
        """The tool of the call that has started at this place, also if it was removed since."""
        early = self._calls.get(place)
        return None if early is None else early.tool

    def take(self, call: ToolCall, place: int = 0) -> asyncio.Task[FinishedCall] | None:
        """Hand a call over, once, if this very one has started: the same place, id, tool and arguments."""
        return self._calls.pop(place).task if self.has_started(call, place) else None

    def cancel(self, keep: Mapping[int, ToolCall] | None = None) -> list[tuple[ToolCall, int]]:
        """Cancel the calls that were not handed over. They emit nothing any more.

        Args:
            keep: The calls that are still wanted, by their places. One that is not the same any more is cancelled.

        Returns:
            The cancelled calls that were running, with their places.
        """
        kept = keep or {}
        gone = [early for place, early in self._calls.items() if place not in kept or not early.is_for(kept[place])]
        for early in gone:
            del self._calls[early.place]
            early.is_wanted = False
            early.task.cancel()
            self._leaving.append(early.task)
        return [(early.call, early.place) for early in gone if early.is_running]

    @property
    def is_leaving(self) -> bool:
        """Whether calls that were cancelled still clean up."""
        return bool(self._leaving)

    async def settled(self) -> None:
        """Wait until the discarded calls have cleaned up."""
        leaving, self._leaving = self._leaving, []
        await stop_all(leaving)


@dataclass
class _Early:
    """One call, whether it runs, and whether its events are still emitted."""

    tool: Tool
    call: ToolCall
    place: int
    is_wanted: bool = True
    is_running: bool = False
    task: asyncio.Task[FinishedCall] = field(init=False)

    def is_for(self, call: ToolCall) -> bool:
        mine = self.call
        return (mine.id, mine.name, mine.input) == (call.id, call.name, call.input)


async def run_calls(
    toolbox: Toolbox,
    calls: Iterable[ToolCall],
    call_scope: CallScope | None = None,
    *,
    places: Sequence[int] | None = None,
    limit: int = 8,
    early: EarlyCalls | None = None,
) -> list[FinishedCall]:
    """Run calls side by side. Their results come in the order of the calls.

    A tool with ``barrier=True`` runs alone: the calls before it end first, those after it wait for it. When it is
    cancelled, every call is cancelled and waited for.

    Args:
        toolbox: The tools.
        calls: The calls to run.
        call_scope: What they share.
        places: The index of each call among the calls of its response; by default these are all its calls.
        limit: How many may run at once; the others wait for their turn.
        early: Calls that have started already; its limit is then the limit.

    Raises:
        ConfigurationError: The limit is below 1.
    """
    given = call_scope or CallScope()
    emit = given.emit
    limiter = Limiter(limit) if early is None else early.limiter
    is_stopping = is_over = False
    cancelled: dict[int, FinishedCall] = {}

    def emit_open(event: ToolEvent) -> None:
        if not is_over:  # else an abandoned call has ended after all
            emit(event)

    def report(call: ToolCall, place: int, task: asyncio.Task[FinishedCall]) -> None:
        """Emit the end of a call that cancelled itself, once: when it has ended, whether others still run or not."""
        if task.cancelled() and not is_stopping and place not in cancelled:
            cancelled[place] = _cancelled(call, place, emit)

    call_scope = replace(given, emit=emit_open)
    loop = asyncio.get_running_loop()
    called = list(calls)
    placed = list(zip(called, range(len(called)) if places is None else places, strict=True))
    tasks: list[asyncio.Task[FinishedCall]] = []
    for call, place in placed:
        task = None if early is None else early.take(call, place)
        if task is None:
            task = loop.create_task(run_at(limiter, toolbox, call, place, call_scope))
        tasks.append(task)
    try:
        await asyncio.sleep(0)  # a call without anything to wait for ends here
        for (call, place), task in zip(placed, tasks, strict=True):
            if task.done():
                report(call, place, task)
            else:
                task.add_done_callback(partial(report, call, place))
        if running := [task for task in tasks if not task.done()]:
            await asyncio.wait(running)  # which leaves them alone when it is cancelled
            for (call, place), task in zip(placed, tasks, strict=True):
                report(call, place, task)  # of a task that has just ended nothing has been called back
    except asyncio.CancelledError:
        is_stopping = True
        await stop_all(tasks)
        is_over = True
        for task in tasks:
            _check(task)
        raise
    return [cancelled.get(place) or _check(task).result() for (_, place), task in zip(placed, tasks, strict=True)]


def _check(task: asyncio.Task[Any]) -> asyncio.Task[Any]:
    """The task, unless its tool has raised an interrupt.

    That has left the event loop by then; what waits for the calls is cancelled.
    """
    error = task.exception() if task.done() and not task.cancelled() else None
    if isinstance(error, KeyboardInterrupt):
        raise asyncio.CancelledError from error
    return task


def _cancelled(call: ToolCall, place: int, emit: Emit) -> FinishedCall:
    """A tool that cancels its own task has failed, and the run goes on."""
    result = ToolResult(call.id, "The tool cancelled itself.", True, call.name)
    emit(ToolStop(result, place=place))
    return FinishedCall(result, 0.0)
