from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest

from rxworker import tool
from rxworker.errors import ConfigurationError
from rxworker.messages import ToolCall
from rxworker.tools import Toolbox, run_tools
from rxworker.tools.run import Limiter, RunningCalls
from tests.runs import settle
from tests.tools.row import run_calls


class Diary:
    """Tools that write down when they begin and end."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def _work(self, name: str) -> str:
        self.lines.append(f"+{name}")
        await settle()
        self.lines.append(f"-{name}")
        return name

    @tool
    async def side(self, name: str) -> str:
        return await self._work(name)

    @tool(barrier=True)
    async def alone(self, name: str) -> str:
        return await self._work(name)


def calls(diary: Diary, plan: str) -> list[ToolCall]:
    """Capital letters run alone."""
    return [ToolCall(n, "alone" if n.isupper() else "side", {"name": n}) for n in plan]


async def run(plan: str, limit: int = 8) -> list[str]:
    diary = Diary()
    finished = await run_calls(Toolbox([diary.side, diary.alone]), calls(diary, plan), limit=limit)
    assert [done.result.text for done in finished] == list(plan)
    return diary.lines


async def test_a_barrier_waits_for_those_before_it_and_those_after_it_wait() -> None:
    assert await run("abCde") == ["+a", "+b", "-a", "-b", "+C", "-C", "+d", "+e", "-d", "-e"]


async def test_two_barriers_run_one_after_the_other() -> None:
    assert await run("AB") == ["+A", "-A", "+B", "-B"]


@pytest.mark.parametrize("limit", [1, 2])
async def test_a_barrier_keeps_to_the_limit_too(limit: int) -> None:
    lines = await run("aBc", limit)
    assert lines == ["+a", "-a", "+B", "-B", "+c", "-c"]


@asynccontextmanager
async def place(limiter: Limiter, *, alone: bool = False) -> AsyncGenerator[None]:
    if not limiter.enter_now(alone):
        await limiter.enter(alone)
    try:
        yield
    finally:
        limiter.leave()


async def test_who_leaves_the_row_lets_the_others_pass() -> None:
    limiter, entered = Limiter(1), asyncio.Event()
    inside: list[str] = []

    async def go(name: str, *, alone: bool = False) -> None:
        async with place(limiter, alone=alone):
            inside.append(name)
            await entered.wait()

    first = asyncio.create_task(go("first"))
    waiting = asyncio.create_task(go("waiting", alone=True))
    last = asyncio.create_task(go("last"))
    await asyncio.sleep(0)
    waiting.cancel()
    entered.set()
    await asyncio.wait([first, waiting, last])
    assert inside == ["first", "last"]


async def test_who_is_let_in_and_cancelled_at_once_gives_the_place_back() -> None:
    limiter = Limiter(1)

    async def hold() -> None:
        async with place(limiter):
            await asyncio.sleep(0)
        second.cancel()  # its turn has come, and it has not seen it yet

    async def wait() -> None:
        async with place(limiter):
            raise AssertionError

    first, second = asyncio.create_task(hold()), asyncio.create_task(wait())
    await asyncio.wait([first, second])
    async with place(limiter):
        assert second.cancelled()


@pytest.mark.parametrize("make", [Limiter, partial(run_tools, Toolbox()), partial(RunningCalls, Toolbox())])
async def test_a_limit_of_zero_is_refused(make: Callable[..., object]) -> None:
    with pytest.raises(ConfigurationError, match="limit=0"):
        make(limit=0)
