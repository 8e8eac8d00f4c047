from __future__ import annotations

import asyncio

import pytest

from rxworker import tool
from rxworker.errors import ConfigurationError
from rxworker.events import ToolProgress, ToolStart, ToolStop
from rxworker.messages import JsonObject, ToolCall
from rxworker.tools import Toolbox, ToolContext
from rxworker.tools.invocation import CallScope
from rxworker.tools.run import EarlyCalls, run_calls


class Desk:
    """Tools of every sort, and who has used them."""

    def __init__(self) -> None:
        self.used: list[str] = []
        self.cancelled: list[str] = []
        self.go = asyncio.Event()
        self.toolbox = Toolbox([self.look, self.write, self.clear, self.ask])

    @tool(effect="pure")
    async def look(self, at: str, context: ToolContext) -> str:
        self.used.append(at)
        context.progress(at)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            context.progress("too late")
            self.cancelled.append(at)
            raise
        return at

    @tool
    async def write(self, at: str) -> str:
        self.used.append(at)
        return at

    @tool(effect="pure", barrier=True)
    async def clear(self) -> str:
        self.used.append("clear")
        return "clear"

    @tool(effect="pure", requires_approval=True)
    async def ask(self) -> str:
        return "asked"


def look(at: str, id: str = "1") -> ToolCall:  # noqa: A002
    return ToolCall(id, "look", {"at": at})


async def settle() -> None:
    """Let everything that is ready happen."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_pure_call_runs_before_it_is_requested_and_is_not_run_again() -> None:
    desk, heard = Desk(), list[object]()
    early = EarlyCalls(desk.toolbox, CallScope(heard.append))
    assert early.start(look("a"))
    await settle()
    assert (desk.used, early.begun) == (["a"], 1)
    assert heard == [ToolStart(look("a")), ToolProgress("1", "a")]
    desk.go.set()
    finished = await run_calls(desk.toolbox, [look("a")], CallScope(heard.append), early=early)
    assert [f.result.text for f in finished] == ["a"]
    assert desk.used == ["a"]
    assert [type(event) for event in heard] == [ToolStart, ToolProgress, ToolStop]


@pytest.mark.parametrize(
    ("name", "input"),
    [("write", {"at": "a"}), ("clear", {}), ("ask", {}), ("none", {})],
)
async def test_only_pure_tools_without_approval_start(name: str, input: JsonObject) -> None:  # noqa: A002
    desk = Desk()
    early = EarlyCalls(desk.toolbox)
    assert not early.start(ToolCall("1", name, input))
    await settle()
    assert (desk.used, early.accepted) == ([], 0)


async def test_nothing_starts_behind_a_call_that_runs_alone() -> None:
    early = EarlyCalls(Desk().toolbox)
    early.start(ToolCall("1", "clear", {}))
    assert not early.start(look("a", "2"))


async def test_a_call_that_runs_alone_waits_for_the_early_ones() -> None:
    desk = Desk()
    early = EarlyCalls(desk.toolbox)
    early.start(look("a"))
    calls = [look("a"), ToolCall("2", "clear", {})]
    running = asyncio.create_task(run_calls(desk.toolbox, calls, early=early))
    await settle()
    assert desk.used == ["a"]
    desk.go.set()
    assert [f.result.text for f in await running] == ["a", "clear"]


async def test_other_arguments_are_another_call() -> None:
    desk = Desk()
    early = EarlyCalls(desk.toolbox)
    early.start(look("a"))
    await settle()
    assert early.take(look("b")) is None
    assert early.cancel(keep={0: look("b")}) == [(look("a"), 0)]
    await early.settled()
    assert desk.cancelled == ["a"]
    assert early.take(look("a")) is None


async def test_a_discarded_call_is_cancelled_and_emits_no_more() -> None:
    desk, heard = Desk(), list[object]()
    early = EarlyCalls(desk.toolbox, CallScope(heard.append))
    early.start(look("a", "1"), 0)
    early.start(look("b", "2"), 1)
    await settle()
    told = len(heard)
    assert early.cancel(keep={0: look("a", "1")}) == [(look("b", "2"), 1)]
    await early.settled()
    assert desk.cancelled == ["b"]
    assert len(heard) == told
    desk.go.set()
    task = early.take(look("a", "1"))
    assert task is not None
    assert (await task).result.text == "a"


async def test_a_call_discarded_before_it_began_was_never_emitted() -> None:
    desk, heard = Desk(), list[object]()
    early = EarlyCalls(desk.toolbox, CallScope(heard.append))
    early.start(look("a"))
    early.cancel()
    await early.settled()
    assert (heard, desk.used, early.begun) == ([], [], 0)


async def test_early_calls_share_the_limit_with_the_others() -> None:
    desk = Desk()
    early = EarlyCalls(desk.toolbox, limit=1)
    early.start(look("a", "1"))
    early.start(look("b", "2"))
    await settle()
    assert desk.used == ["a"]
    early.cancel()
    await early.settled()


async def test_two_calls_with_one_id_are_distinguished_by_their_places() -> None:
    desk, heard = Desk(), list[object]()
    desk.go.set()
    early = EarlyCalls(desk.toolbox, CallScope(heard.append))
    assert early.start(look("a"), 0)
    assert early.start(look("a"), 1)
    assert not early.start(look("a"), 1)
    finished = await run_calls(desk.toolbox, [look("a"), look("a")], early=early)
    assert [f.result.text for f in finished] == ["a", "a"]
    assert [event.place for event in heard if isinstance(event, ToolStop)] == [0, 1]


async def test_a_call_that_has_ended_is_not_among_those_that_were_cancelled_while_they_ran() -> None:
    desk = Desk()
    desk.go.set()
    early = EarlyCalls(desk.toolbox)
    early.start(look("a"))
    await settle()
    assert early.cancel() == []
    await early.settled()


async def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="limit=0"):
        EarlyCalls(Toolbox(), limit=0)
