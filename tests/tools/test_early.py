from __future__ import annotations

import asyncio

import pytest

from rxworker import tool
from rxworker.events import PausedCall, ToolProgress, ToolStart, ToolStop
from rxworker.messages import JsonObject, ToolCall
from rxworker.tools import Toolbox, ToolContext
from rxworker.tools.run import RunningCalls
from tests.runs import settle
from tests.tools.row import run_calls


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


def begin(early: RunningCalls, call: ToolCall, heard: list[object], place: int = 0) -> bool:
    """Whether the call begins early."""
    before = len(early.begun)
    early.begin_early(PausedCall(place, call), heard.append)
    return len(early.begun) > before


async def test_a_pure_call_runs_before_it_is_requested_and_is_not_run_again() -> None:
    desk, heard = Desk(), list[object]()
    early = RunningCalls(desk.toolbox)
    assert begin(early, look("a"), heard)
    await settle()
    assert (desk.used, [each.has_started for each in early.begun]) == (["a"], [True])
    assert heard == [ToolStart(look("a")), ToolProgress("1", "a")]
    desk.go.set()
    later: list[object] = []
    finished = await run_calls(desk.toolbox, [look("a")], later.append, begun=early)
    assert [f.result.text for f in finished] == ["a"]
    assert desk.used == ["a"]
    # Its events go where the calls do, from there on.
    assert [type(event) for event in heard] == [ToolStart, ToolProgress]
    assert [type(event) for event in later] == [ToolStop]


@pytest.mark.parametrize(("name", "input"), [("write", {"at": "a"}), ("clear", {}), ("ask", {}), ("none", {})])
async def test_only_pure_tools_without_approval_start(name: str, input: JsonObject) -> None:  # noqa: A002
    desk = Desk()
    assert not begin(RunningCalls(desk.toolbox), ToolCall("1", name, input), [])
    await settle()
    assert desk.used == []


async def test_nothing_starts_behind_a_call_that_runs_alone() -> None:
    early = RunningCalls(Desk().toolbox)
    begin(early, ToolCall("1", "clear", {}), [])
    assert not begin(early, look("a", "2"), [], 1)


async def test_a_call_that_runs_alone_waits_for_the_early_ones() -> None:
    desk = Desk()
    early = RunningCalls(desk.toolbox)
    begin(early, look("a"), [])
    calls = [look("a"), ToolCall("2", "clear", {})]
    running = asyncio.create_task(run_calls(desk.toolbox, calls, begun=early))
    await settle()
    assert desk.used == ["a"]
    desk.go.set()
    assert [f.result.text for f in await running] == ["a", "clear"]


async def test_other_arguments_are_another_call() -> None:
    desk, heard, later = Desk(), list[object](), list[object]()
    early = RunningCalls(desk.toolbox)
    begin(early, look("a"), heard)
    await settle()
    running = asyncio.create_task(run_calls(desk.toolbox, [look("b")], later.append, begun=early))
    await settle()
    assert (desk.cancelled, desk.used) == (["a"], ["a", "b"])
    # The end of the one that is discarded, and nothing of it after that.
    assert [type(event) for event in heard] == [ToolStart, ToolProgress]
    assert [type(event) for event in later] == [ToolStop, ToolStart, ToolProgress]
    desk.go.set()
    assert [f.result.text for f in await running] == ["b"]


async def test_a_discarded_call_is_cancelled_and_emits_no_more() -> None:
    desk, heard, later = Desk(), list[object](), list[object]()
    early = RunningCalls(desk.toolbox)
    begin(early, look("a", "1"), heard, 0)
    begin(early, look("b", "2"), heard, 1)
    await settle()
    known = len(heard)
    running = asyncio.create_task(run_calls(desk.toolbox, [look("a", "1")], later.append, begun=early))
    await settle()
    assert desk.cancelled == ["b"]
    assert len(heard) == known
    assert [getattr(event, "place", None) for event in later] == [1]
    desk.go.set()
    assert [f.result.text for f in await running] == ["a"]


async def test_a_call_discarded_before_it_began_was_never_emitted() -> None:
    desk, heard = Desk(), list[object]()
    early = RunningCalls(desk.toolbox)
    begin(early, look("a"), heard)
    early.discard(heard.append)
    await settle()
    assert (heard, desk.used, [each for each in early.begun if each.has_started]) == ([], [], [])


async def test_early_calls_share_the_limit_with_the_others() -> None:
    desk = Desk()
    early = RunningCalls(desk.toolbox, limit=1)
    begin(early, look("a", "1"), [], 0)
    begin(early, look("b", "2"), [], 1)
    await settle()
    assert desk.used == ["a"]
    early.discard(print)
    await settle()


async def test_two_calls_with_one_id_are_distinguished_by_their_places() -> None:
    desk, heard, later = Desk(), list[object](), list[object]()
    desk.go.set()
    early = RunningCalls(desk.toolbox)
    assert begin(early, look("a"), heard, 0)
    assert begin(early, look("a"), heard, 1)
    assert not begin(early, look("a"), heard, 1)
    finished = await run_calls(desk.toolbox, [look("a"), look("a")], later.append, begun=early)
    assert [f.result.text for f in finished] == ["a", "a"]
    assert [event.place for event in later if isinstance(event, ToolStop)] == [0, 1]


async def test_a_call_that_has_ended_is_discarded_without_another_end() -> None:
    desk, heard = Desk(), list[object]()
    desk.go.set()
    early = RunningCalls(desk.toolbox)
    begin(early, look("a"), heard)
    await settle()
    known = len(heard)
    early.discard(heard.append)
    assert len(heard) == known
