"""How a run ends that was cut short: nothing is left open, and the conversation is one that a provider accepts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal, TypeAlias

from rxworker.errors import (
    HookError,
    LimitExceededError,
    RunAbortedError,
    RunCancelledError,
)
from rxworker.events import (
    BlockAbort,
    Event,
    HookVerdict,
    RunAbort,
    ToolOutput,
    ToolStop,
)
from rxworker.hooks import AbortContext, HookPoint
from rxworker.messages import ToolResult
from rxworker.timeline.run_steps import HELD_BACK
from rxworker.worker.context import RunContext

Cause: TypeAlias = Literal["cancel", "error", "abort", "limit"]

GRACE = 5.0
"""Seconds for hooks and tools to let go of what they hold when the run is cancelled."""


async def wind_up(context: RunContext, error: Exception) -> None:
    """Close what is open, tell ``on_abort`` why, and end the records.

    Args:
        context: The run.
        error: What ended it, and what whoever awaits it will get.
    """
    await _settle(context)
    emit = context.journal.emit
    cause, reason = cause_of(error), str(error)
    context.timeline.abort_current_block(reason)
    response = context.journal.state.response
    for block in response.open.values() if response is not None else ():
        emit(BlockAbort(block.index, block.block_type, reason))
    _stop_tools(context, cause, emit)
    await _tell_hooks(context, cause, reason, error)
    emit(RunAbort(cause, reason))


def cause_of(error: Exception) -> Cause:
    """What sort of end an error stands for."""
    match error:
        case RunCancelledError():
            return "cancel"
        case RunAbortedError():
            return "abort"
        case LimitExceededError():
            return "limit"
        case _:
            return "error"


async def _settle(context: RunContext) -> None:
    """Wait for cancelled tasks, but not for ever: a tool may ignore that it is cancelled."""
    waiting = [task for task in context.tasks if task is not asyncio.current_task()]
    if waiting:
        await asyncio.wait(waiting, timeout=GRACE)


def _stop_tools(context: RunContext, cause: Cause, emit: Callable[[Event], None]) -> None:
    """An end for each tool that was running, and a result for each whose own no hook has let through.

    The state puts them into the conversation, and answers the other calls.
    """
    ended = {"cancel": "was cancelled", "limit": "reached a limit"}.get(cause, "failed")
    text = f"The run {ended} while this tool ran. Whether it had an effect is not known."
    for each in context.journal.state.calls:
        call, place = each.call, each.place
        if each.phase == "running":
            result = ToolResult(call.id, text, is_error=True, name=call.name)
            emit(ToolStop(result, place=place))
        elif each.phase == "ended" and each.result is None:
            emit(ToolOutput(ToolResult(call.id, HELD_BACK, is_error=True, name=call.name), place))


async def _tell_hooks(context: RunContext, cause: Cause, reason: str, error: Exception) -> None:
    """Every ``on_abort`` hook hears of the end, also when another one fails."""
    emit = context.journal.emit
    for hook in context.hooks.at(HookPoint.ON_ABORT):
        told = AbortContext(
            cause=cause,
            reason=reason,
            error=error,
            **context.situation(context.variables),
        )
        try:
            await context.hooks.ask_one(hook, told)
        except HookError as failure:
            emit(HookVerdict(hook.name, hook.point.value, "Failed", str(failure)))


__all__ = ["GRACE", "cause_of", "wind_up"]
