"""`run_tools` and `run_calls` do the same with the same calls, at the same times."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import reactivex
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from rxworker import tool
from rxworker.events import ToolStart, ToolStop
from rxworker.messages import ToolCall, ToolResult
from rxworker.testing import play
from rxworker.tools import Toolbox, run_tools
from rxworker.tools.invocation import CallScope
from rxworker.tools.run import run_calls


@tool
async def waits(seconds: int) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return f"{seconds} s"


@tool(barrier=True)
async def alone(seconds: int) -> str:
    """Wait alone."""
    await asyncio.sleep(seconds)
    return "alone"


@tool(timeout=2)
async def limited(seconds: int) -> str:
    """Wait for two seconds at most."""
    await asyncio.sleep(seconds)
    return "in time"


@tool(effect="pure", retries=1)
async def fails(seconds: int) -> str:
    """Fail after a while."""
    await asyncio.sleep(seconds)
    raise ValueError("down")


BOX = Toolbox([waits, alone, limited, fails])
CALLS = st.builds(
    ToolCall,
    st.just("call"),
    st.sampled_from(["waits", "alone", "limited", "fails", "missing"]),
    st.fixed_dictionaries({"seconds": st.sampled_from([0, 1, 2, 3, "?"])}),
)
Told = list[tuple[float, str, int, object]]


def told_to(told: Told) -> Callable[[object], None]:
    def emit(event: object) -> None:
        now = asyncio.get_running_loop().time()
        if isinstance(event, ToolStart):
            told.append((now, "start", event.place, event.call.name))
        elif isinstance(event, ToolStop):
            told.append((now, "stop", event.place, event.result))

    return emit


@given(st.lists(CALLS, max_size=5), st.integers(1, 3))
def test_calls_run_at_the_same_times_as_an_operator_and_as_a_coroutine(calls: list[ToolCall], limit: int) -> None:
    async def as_coroutine() -> tuple[Told, list[ToolResult]]:
        told: Told = []
        done = await run_calls(BOX, calls, CallScope(told_to(told)), limit=limit)
        return sorted(told, key=repr), [each.result for each in done]

    async def as_operator() -> tuple[Told, list[ToolResult]]:
        told: Told = []
        source = reactivex.from_iterable(calls)
        run = run_tools(BOX, limit, emit=told_to(told))
        results = await source.pipe(run, ops.to_list())
        return sorted(told, key=repr), results

    assert play(as_coroutine()) == play(as_operator())
