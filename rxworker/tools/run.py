"""Running tool calls.

Whatever goes wrong with a call becomes a result that the model can read: it does not end the run. Only what asks for
the end passes: a cancellation of the task, ``KeyboardInterrupt`` and ``SystemExit``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Protocol

from msgspec import Struct

from rxworker.errors import ToolError
from rxworker.events import ToolStart
from rxworker.messages import ToolCall, ToolResult
from rxworker.tools.attempt import Emit, Relay, Surroundings, attempts, ignore, ignore_record
from rxworker.tools.gate import Gate
from rxworker.tools.results import clean
from rxworker.tools.stop import ended, stop_all
from rxworker.tools.toolbox import Toolbox

logger = logging.getLogger("rxworker.tools")


class Finished(Struct, frozen=True):
    """A call that has run.

    Attributes:
        result: What came of it.
        seconds: How long it ran.
    """

    result: ToolResult
    seconds: float


class Early(Protocol):
    """Calls that have started already, as far as running the others needs to know them."""

    @property
    def gate(self) -> Gate:
        """Lets the calls of the response run."""
        ...

    def take(self, call: ToolCall) -> asyncio.Task[Finished] | None:
        """Hand a call over, if this very one has started."""
        ...


async def run_calls(
    toolbox: Toolbox,
    calls: Iterable[ToolCall],
    *,
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
        limit: How many may run at once; the others wait for their turn.
        emit: Is told when a call starts and how far it is, in the event loop's thread. It must not raise.
        relay: Is shown the records of runs that tools begin, in the event loop's thread. It must not raise.
        scope: What makes a call's id unique, such as the run and the turn: idempotency keys begin with it.
        variables: Values that the tools share.
        early: Calls that have started already, an `EarlyCalls`; its limit is then the limit.

    Raises:
        ConfigurationError: The limit is below 1.
    """
    gate = Gate(limit) if early is None else early.gate
    around = Surroundings(emit, relay, scope, {} if variables is None else variables)
    loop = asyncio.get_running_loop()
    tasks: list[asyncio.Task[Finished]] = []
    called = list(calls)
    for call in called:
        started = None if early is None else early.take(call)
        tasks.append(started or loop.create_task(run_at(gate, toolbox, call, around, loop)))
    try:
        await asyncio.sleep(0)  # what has nothing to wait for is done then
        for task in tasks:
            if not task.done():
                await ended(task)
    except asyncio.CancelledError:
        await stop_all(tasks)
        raise
    return [
        task.result() if not task.cancelled() else _cancelled(call)
        for task, call in zip(tasks, called, strict=True)
    ]


def _cancelled(call: ToolCall) -> Finished:
    """A tool that cancels its own task has failed, and the run goes on."""
    return Finished(ToolResult(call.id, "The tool cancelled itself.", True, call.name), 0.0)


async def run_at(
    gate: Gate,
    toolbox: Toolbox,
    call: ToolCall,
    around: Surroundings,
    loop: asyncio.AbstractEventLoop,
    *,
    own_task: bool = True,
) -> Finished:
    """Run one call when its turn has come.

    Args:
        gate: Lets it in.
        toolbox: Where its tool is.
        call: What to run.
        around: What it shares with the other calls.
        loop: The event loop.
        own_task: Whether it has a task that whoever made it ends with `stop_all`.
    """
    tool, policy = toolbox.find(call.name)
    if not gate.enter_now(policy.barrier):
        await gate.enter(policy.barrier)
        tool, policy = toolbox.find(call.name)  # tools come and go
    try:
        began = loop.time()
        around.emit(ToolStart(call))
        is_error = True
        if tool is None:
            content = f"There is no tool called {call.name!r}. These are the tools: {toolbox}."
        else:
            try:
                content = await attempts(tool, policy, call, around, loop, own_task=own_task)
                is_error = False
            except ToolError as error:
                logger.debug("tool %s, call %s: %s", call.name, call.id, error, exc_info=error)
                content = toolbox.tell(error)
        if not (isinstance(content, str) and content.isascii()):
            content = clean(content)
        result = ToolResult(call.id, content, is_error, call.name)
        return Finished(result, loop.time() - began)
    finally:
        gate.leave()


async def run_call(
    toolbox: Toolbox,
    call: ToolCall,
    emit: Emit = ignore,
    *,
    scope: str = "",
    variables: dict[str, Any] | None = None,
    relay: Relay = ignore_record,
) -> ToolResult:
    """Run one call; what goes wrong is in the result.

    Args:
        toolbox: Where the tool is.
        call: What to run.
        emit: Is told that the call starts and how far it is, in the event loop's thread. It must not raise.
        scope: What makes the call's id unique; the idempotency key begins with it.
        variables: Values that the tools share.
        relay: Is shown the records of a run that the tool begins.

    >>> result = asyncio.run(run_call(Toolbox(), ToolCall("1", "fly", {})))
    >>> result.is_error, result.text
    (True, "There is no tool called 'fly'. These are the tools: none.")
    """
    around = Surroundings(emit, relay, scope, {} if variables is None else variables)
    loop = asyncio.get_running_loop()
    return (await run_at(Gate(1), toolbox, call, around, loop, own_task=False)).result


__all__ = ["Early", "Finished", "run_at", "run_call", "run_calls"]
