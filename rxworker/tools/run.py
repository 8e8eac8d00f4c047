"""Running tool calls.

Whatever goes wrong with a call becomes a result that the model can read: it does not end the run. Only what asks for
the end passes: a cancellation of the task, and ``KeyboardInterrupt``. ``SystemExit`` is a failure of the tool: an argument parser raises it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from msgspec import Struct

from rxworker.errors import ToolError
from rxworker.events import ToolStart
from rxworker.messages import ToolCall, ToolResult
from rxworker.tools.attempt import Emit, Relay, Surroundings, attempts, ignore, ignore_record
from rxworker.tools.base import Tool, ToolPolicy
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


async def run_now(
    tool: Tool | None,
    policy: ToolPolicy,
    call: ToolCall,
    toolbox: Toolbox,
    around: Surroundings,
    loop: asyncio.AbstractEventLoop,
    task: asyncio.Task[Any] | None,
    *,
    own_task: bool = True,
) -> Finished:
    """Run one call whose turn has come.

    Args:
        tool: What it calls, if there is such a tool.
        policy: How that may be run.
        call: What to run.
        toolbox: Where the tools are.
        around: What it shares with the other calls.
        loop: The event loop.
        task: The task in which it runs.
        own_task: Whether whoever made that task ends it with `stop_all`.
    """
    began = loop.time()
    around.emit(ToolStart(call))
    is_error = True
    if tool is None:
        content = f"There is no tool called {call.name!r}. These are the tools: {toolbox}."
    else:
        try:
            content = await attempts(tool, policy, call, around, loop, task, own_task=own_task)
            is_error = False
        except ToolError as error:
            logger.debug("tool %s, call %s: %s", call.name, call.id, error, exc_info=error)
            content = toolbox.tell(error)
    if not (isinstance(content, str) and content.isascii()):
        content = clean(content)
    result = ToolResult(call.id, content, is_error, call.name)
    return Finished(result, loop.time() - began)


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
        task = asyncio.current_task(loop)
        return await run_now(tool, policy, call, toolbox, around, loop, task, own_task=own_task)
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


__all__ = ["Finished", "run_at", "run_call", "run_now"]
