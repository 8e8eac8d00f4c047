"""What calls the handlers is what users compose: `split_meta`, `group_blocks` and a scope for each block."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from rxworker import Worker
from rxworker.events import BlockStop, BlockType, Event, TextDelta, Usage
from rxworker.testing import ScriptedModel
from rxworker.timeline import TextBlockEvent, Timeline


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
