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
from rxworker.messages import ResultContent, ToolCall, ToolResult
from rxworker.tools.attempt import Emit, Relay, Surroundings, attempts, ignore, ignore_record
from rxworker.tools.base import policy_of
from rxworker.tools.gate import Gate
from rxworker.tools.results import clean
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

    def begin(call: ToolCall) -> asyncio.Task[Finished]:
        started = None if early is None else early.take(call)
        return started or asyncio.create_task(run_at(gate, toolbox, call, around))

    tasks = [begin(call) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        await cancel_all(tasks)


async def run_at(gate: Gate, toolbox: Toolbox, call: ToolCall, around: Surroundings) -> Finished:
    """Run one call when its turn has come."""
    tool = toolbox.get(call.name)
    async with gate.place(alone=tool is not None and policy_of(tool).barrier):
        loop = asyncio.get_running_loop()
        began = loop.time()
        result = await _run(toolbox, call, around)
        return Finished(result, loop.time() - began)


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
    return await _run(toolbox, call, around)


async def _run(toolbox: Toolbox, call: ToolCall, around: Surroundings) -> ToolResult:
    around.emit(ToolStart(call))
    tool = toolbox.get(call.name)
    if tool is None:
        text = f"There is no tool called {call.name!r}. These are the tools: {toolbox}."
        return _result(call, text, is_error=True)
    try:
        return _result(call, await attempts(tool, call, around), is_error=False)
    except ToolError as error:
        logger.debug("tool %s, call %s: %s", call.name, call.id, error, exc_info=error)
        return _result(call, toolbox.tell(error), is_error=True)


async def cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel what still runs, and wait until it has cleaned up."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        # A second cancellation would break into the cleaning-up after the first.
        if not task.cancelling():
            task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def _result(call: ToolCall, content: ResultContent, *, is_error: bool) -> ToolResult:
    return ToolResult(call.id, clean(content), is_error=is_error, name=call.name)


__all__ = ["Early", "Finished", "cancel_all", "run_at", "run_call", "run_calls"]
