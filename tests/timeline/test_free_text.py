"""A tool that takes a text gets the text, also where it looks like JSON."""

from __future__ import annotations

import pytest
from reactivex import of

from rxworker.events import BlockStart, BlockStop, BlockType, InputJsonDelta, ResponseEvent, ToolUseMetadata
from rxworker.messages import ToolCall
from rxworker.operators import tool_inputs
from rxworker.timeline import Timeline, ToolCallCollector
from tests.decoded import answer_of


def call(text: str) -> list[ResponseEvent]:
    metadata = ToolUseMetadata("1", "shell", is_free_text=True)
    return [
        BlockStart(0, BlockType.TOOL_USE, metadata),
        InputJsonDelta(0, text),
        BlockStop(0, BlockType.TOOL_USE, metadata=metadata),
    ]


@pytest.mark.parametrize("text", ["ls -l", '{"a": 1}', ""])
def test_the_text_stays_as_it_is(text: str) -> None:
    timeline, collector = Timeline(), ToolCallCollector()
    timeline.on_tool_use_block(collector)
    for event in call(text):
        timeline.dispatch(event)
    assert answer_of(call(text), "p").tool_calls == (ToolCall("1", "shell", text),)
    assert collector.collected() == [ToolCall("1", "shell", text)]


def test_it_is_not_an_object_for_those_who_watch_its_members() -> None:
    seen: list[object] = []
    of(*call('{"a": 1}')).pipe(tool_inputs()).subscribe(lambda view: seen.append(view.input))
    assert seen[-1] is None
