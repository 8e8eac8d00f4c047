"""What calls the handlers is what users compose: `split_meta`, `group_blocks` and a scope for each block."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from rxworker import Worker
from rxworker.events import (
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    ResponseStatus,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolUseMetadata,
    Usage,
)
from rxworker.events.kinds import Deltas
from rxworker.testing import ScriptedModel
from rxworker.timeline import TextBlockAbort, TextBlockEvent, ThinkingBlockAbort, Timeline, ToolCallCollector


def entered(event: Usage | TextBlockEvent) -> None:
    """A handler: which functions have called it."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        names.add(frame.f_code.co_qualname.split(".")[0])
        frame = frame.f_back


names = set[str]()


def test_the_events_of_a_run_reach_the_handlers_through_the_operators() -> None:
    timeline = Timeline()
    timeline.on_text_block(entered)
    names.clear()
    timeline.dispatch(TextDelta(0, "a"))
    assert {"split_meta", "announce_blocks", "Handlers"} <= names


def test_a_handler_of_meta_events_is_behind_split_meta_alone() -> None:
    timeline = Timeline()
    timeline.on_usage(entered)
    names.clear()
    timeline.dispatch(Usage(1))
    assert "split_meta" in names
    assert "announce_blocks" not in names


async def test_a_run_without_handlers_does_not_enter_the_timeline(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(ScriptedModel(["Hello.", "Hello."]))
    calls = list[object]()

    def keep(event: Event) -> None:
        calls.append(event)

    monkeypatch.setattr(worker.session.timeline, "dispatch", keep)
    await worker.run("hi")
    assert calls == []
    worker.timeline.on_text_block(lambda event: None)
    await worker.run("hi")
    assert calls != []


def test_an_event_for_a_block_without_a_handler_is_still_known_to_one_that_comes_late() -> None:
    timeline, seen = Timeline(), list[object]()
    timeline.on_usage(seen.append)
    for _ in range(3):
        timeline.dispatch(TextDelta(0, "a"))
    timeline.on_text_block(seen.append)
    timeline.dispatch(TextDelta(0, "b"))
    timeline.dispatch(BlockStop(0, BlockType.TEXT))
    assert seen[0] == TextDelta(0, "b")
    assert len(seen) == 2


class Log:
    """A handler that logs what its scope has, and makes only some of the scopes that it is asked for."""

    def __init__(self, log: list[object], name: str, fails: int = 0) -> None:
        self.log = log
        self.name = name
        self.fails = fails

    def scope(self) -> list[str]:
        self.fails -= 1
        if self.fails >= 0:
            raise ValueError(self.name)
        return []

    def on_event(self, scope: list[str], event: TextBlockEvent, /) -> None:
        if isinstance(event, TextDelta):
            scope.append(event.text)
            self.log.append(self.name + "".join(scope))


class LogOfRows(Log):
    """One that takes deltas together, too."""

    def gather(self, scope: list[str], deltas: Deltas[TextDelta], /) -> None:
        scope += deltas.texts
        self.log.append(f"{self.name}{''.join(scope)} together")


def test_the_scopes_of_a_block_stay_when_a_handler_comes_or_goes() -> None:
    timeline, log = Timeline(), list[object]()
    timeline.on_text_block(Log(log, "x"))
    timeline.dispatch(TextDelta(0, "a"))
    second = timeline.on_text_block(Log(log, "y"))
    timeline.dispatch(TextDelta(0, "b"))
    second.dispose()
    timeline.dispatch(TextDelta(0, "c"))
    assert log == ["xa", "xab", "yb", "xabc"]


def test_a_scope_that_could_not_be_made_is_made_at_the_next_event() -> None:
    timeline, log = Timeline(), list[object]()
    timeline.on_text_block(Log(log, "x"))
    timeline.on_text_block(Log(log, "y", fails=1))
    with pytest.raises(ValueError, match="y"):
        timeline.dispatch(TextDelta(0, "a"))
    timeline.dispatch(TextDelta(0, "b"))
    assert log == ["xa", "xab", "yb"]


@pytest.mark.parametrize(
    ("second", "logged"),
    [(LogOfRows, ["xo", "yo", "xoab together", "yoab together"]), (Log, ["xo", "yo", "xoa", "yoa", "xoab", "yoab"])],
)
def test_deltas_come_together_if_all_handlers_of_the_block_take_them_so(second: type[Log], logged: list[str]) -> None:
    timeline, log = Timeline(), list[object]()
    timeline.on_text_block(LogOfRows(log, "x"))
    timeline.on_text_block(second(log, "y"))
    timeline.dispatch(TextDelta(0, "o"))
    timeline.dispatch_many([Deltas(TextDelta(0, ""), ["a", "b"]), Deltas(ThinkingDelta(0, ""), ["c", "d"])])
    assert log == logged


def test_deltas_that_come_together_reach_a_handler_that_comes_late() -> None:
    timeline, log = Timeline(), list[object]()
    timeline.on_usage(log.append)
    timeline.dispatch_many([TextDelta(0, "o"), Deltas(TextDelta(0, ""), ["a", "b"])])
    timeline.on_text_block(LogOfRows(log, "x"))
    timeline.dispatch_many([Deltas(TextDelta(0, ""), ["c", "d"])])
    assert log == ["xcd together"]


def test_a_block_that_opens_where_one_without_a_handler_has_ended_is_known() -> None:
    timeline, seen = Timeline(), list[object]()
    timeline.on_ping(seen.append)
    for event in (TextDelta(0, "a"), BlockStop(0, BlockType.TEXT), TextDelta(0, "b")):
        timeline.dispatch(event)
    timeline.on_text_block(seen.append)
    timeline.abort_current_block("enough")
    assert seen == [TextBlockAbort(0, "enough")]


def test_a_delta_for_no_handler_after_the_end_of_a_response_begins_another() -> None:
    timeline, calls = Timeline(), ToolCallCollector()
    timeline.on_tool_use_block(calls)
    timeline.dispatch(TextDelta(0, "a"))
    timeline.dispatch(BlockStart(1, BlockType.TOOL_USE, ToolUseMetadata("1", "look")))
    timeline.dispatch(BlockStop(1, BlockType.TOOL_USE))
    timeline.dispatch(Status(ResponseStatus.COMPLETED))
    timeline.dispatch(TextDelta(0, "b"))
    timeline.retract("cut")
    assert [call.id for call in calls.collected()] == ["1"]


def test_a_delta_that_a_handler_dispatches_while_its_block_is_aborted_opens_another() -> None:
    timeline, seen = Timeline(), list[object]()

    def think(event: TextBlockEvent) -> None:
        if isinstance(event, TextBlockAbort):
            timeline.dispatch(ThinkingDelta(0, "late"))

    timeline.on_text_block(think)
    timeline.dispatch(TextDelta(1, "a"))
    timeline.dispatch(ThinkingDelta(0, "hm"))
    timeline.retract("enough")
    timeline.on_thinking_block(seen.append)
    timeline.abort_current_block("over")
    assert seen == [ThinkingBlockAbort(0, "over")]


def test_any_handler_may_have_a_method_that_is_called_when_a_response_begins() -> None:
    class Begun(Log):
        def begin_response(self) -> None:
            log.append("begins")

    timeline, log = Timeline(), list[object]()
    timeline.on_text_block(Begun(log, "x"))
    for event in (TextDelta(0, "a"), Status(ResponseStatus.STARTED), Status(ResponseStatus.COMPLETED), Usage(1)):
        timeline.dispatch(event)
    assert log == ["begins", "xa", "begins"]


def test_a_timeline_has_handlers_until_the_last_is_removed() -> None:
    timeline = Timeline()
    registration = timeline.on_usage(lambda event: None)
    assert timeline.has_handlers
    assert timeline.child().has_handlers
    registration.dispose()
    assert not timeline.has_handlers
