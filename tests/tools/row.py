"""Calls through `run_tools`, as a run follows it, with the results and the events apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import reactivex
from reactivex.internal import noop

from rxworker.messages import ToolCall
from rxworker.tools import Toolbox, run_tools
from rxworker.tools.calls import FinishedCall
from rxworker.tools.coroutines import Emitter
from rxworker.tools.run import NO_SCOPE, CallScope, RunningCalls, ToolEvent, run_begun


async def run_calls(
    toolbox: Toolbox,
    calls: Iterable[ToolCall],
    emit: Callable[[ToolEvent], None] = noop,
    *,
    limit: int = 8,
    scope: CallScope = NO_SCOPE,
    begun: RunningCalls | None = None,
) -> list[FinishedCall]:
    """The calls with their results, in order; their events go to ``emit``."""
    done: list[FinishedCall] = []

    def take(item: Any) -> None:
        if isinstance(item, FinishedCall):
            done.append(item)
        else:
            emit(item)

    row = reactivex.from_iterable([*calls]).pipe(run_begun(begun) if begun else run_tools(toolbox, limit, scope))
    await Emitter(take).follow(row)
    return done
