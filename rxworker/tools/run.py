"""Running tool calls.

Whatever goes wrong with a call becomes a result that the model can read: it does not end the run. Only what asks for
the end passes: a cancellation of the task, ``KeyboardInterrupt`` and ``SystemExit``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from rxworker.errors import ConfigurationError, ToolError
from rxworker.events import ToolProgress, ToolStart
from rxworker.messages import ResultContent, ToolCall, ToolResult
from rxworker.tools.attempt import Emit, attempts, tell
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


def ignore(event: ToolStart | ToolProgress) -> None:
    """Tell nobody."""


async def run_calls(
    toolbox: Toolbox,
    calls: Iterable[ToolCall],
    *,
    limit: int = 8,
    emit: Emit = ignore,
    scope: str = "",
    variables: dict[str, Any] | None = None,
) -> list[Finished]:
    """Run calls side by side. Their results come in the order of the calls.

    When it is cancelled, every call is cancelled and waited for.

    Args:
        toolbox: Where the tools are.
        calls: What to run.
        limit: How many may run at once; the others wait for their turn.
        emit: Is told when a call starts and how far it is, in the event loop's thread. It must not raise.
        scope: What makes a call's id unique, such as the run and the turn: idempotency keys begin with it.
        variables: Values that the tools share.

    Raises:
        ConfigurationError: The limit is below 1.
    """
    gate = asyncio.Semaphore(check_limit(limit))
    shared: dict[str, Any] = {} if variables is None else variables
    loop = asyncio.get_running_loop()

    async def run_one(call: ToolCall) -> Finished:
        async with gate:
            began = loop.time()
            result = await run_call(toolbox, call, emit, scope=scope, variables=shared)
            return Finished(result, loop.time() - began)

    tasks = [asyncio.create_task(run_one(call)) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        await cancel_all(tasks)


async def run_call(
    toolbox: Toolbox,
    call: ToolCall,
    emit: Emit = ignore,
    *,
    scope: str = "",
    variables: dict[str, Any] | None = None,
) -> ToolResult:
    """Run one call; what goes wrong is in the result.

    Args:
        toolbox: Where the tool is.
        call: What to run.
        emit: Is told that the call starts and how far it is, in the event loop's thread. It must not raise.
        scope: What makes the call's id unique; the idempotency key begins with it.
        variables: Values that the tools share.

    >>> result = asyncio.run(run_call(Toolbox(), ToolCall("1", "fly", {})))
    >>> result.is_error, result.text
    (True, "There is no tool called 'fly'. These are the tools: none.")
    """
    emit(ToolStart(call))
    tool = toolbox.get(call.name)
    if tool is None:
        text = f"There is no tool called {call.name!r}. These are the tools: {toolbox}."
        return _result(call, text, is_error=True)
    key = f"{scope}/{call.id}" if scope else call.id
    try:
        content = await attempts(tool, call, emit, key, {} if variables is None else variables)
        return _result(call, content, is_error=False)
    except ToolError as error:
        logger.debug("tool %s, call %s: %s", call.name, call.id, error, exc_info=error)
        return _result(call, tell(error), is_error=True)


async def cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel what still runs, and wait until it has cleaned up."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        # A second cancellation would break into the cleaning-up after the first.
        if not task.cancelling():
            task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def check_limit(limit: int) -> int:
    """How many calls may run at once, if it is a number that lets them run.

    Raises:
        ConfigurationError: It is below 1.
    """
    if limit < 1:
        raise ConfigurationError(f"limit={limit!r}: at least one call must be able to run")
    return limit


def _result(call: ToolCall, content: ResultContent, *, is_error: bool) -> ToolResult:
    return ToolResult(call.id, clean(content), is_error=is_error, name=call.name)


__all__ = ["Emit", "Finished", "cancel_all", "check_limit", "ignore", "run_call", "run_calls"]
