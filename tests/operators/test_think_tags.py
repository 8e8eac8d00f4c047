"""`think_tags` makes blocks of thinking of what stands between tags, however the text was cut."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxworker import Worker
from rxworker.errors import ConfigurationError
from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    CitationDelta,
    Event,
    InputJsonDelta,
    Opaque,
    ResponseStatus,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolUseMetadata,
    Usage,
)
from rxworker.messages import StopKind, StopReason, Text, Thinking
from rxworker.operators import think_tags
from rxworker.testing import ScriptedModel, lint, say
from rxworker.testing.marbles import Marbles
from tests.seen import through

TEXT, THINKING = BlockType.TEXT, BlockType.THINKING
START, STOP = BlockStart(0, TEXT), BlockStop(0, TEXT)
ROW: dict[str, Event] = {
    "s": START,
    "e": STOP,
    "x": BlockAbort(0, TEXT, "cut"),
    "u": Usage(1, 1),
    "m": Status(ResponseStatus.COMPLETED),
    "r": AttemptRetract("later"),
    "t": AttemptStart(),
    "a": TextDelta(0, "\n<think>h"),
    "b": TextDelta(0, "m</thi"),
    "c": TextDelta(0, "nk>\n\nHi"),
    "d": TextDelta(0, "Hi"),
    "S": BlockStart(0, THINKING),
    "h": ThinkingDelta(0, "h"),
    "i": ThinkingDelta(0, "m"),
    "E": BlockStop(0, THINKING),
    "X": BlockAbort(0, THINKING, "cut"),
    "T": BlockStart(1, TEXT),
    "D": TextDelta(1, "Hi"),
    "F": BlockStop(1, TEXT),
}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("-s-a-----b-c-------e-|", "---(S,h)-i-(E,T,D)-F-|"),
        ("-s-u-d-----e-|", "---u-(s,d)-e-|"),
        ("-s-e-----|", "---(s,e)-|"),
        ("-s-a-----b-e----|", "---(S,h)-i-(J,E)|"),
        ("-s-a-----b-x-|", "---(S,h)-i-X-|"),
        ("-s-a-----b-#", "---(S,h)-i-#"),
        ("-t-s-a-----r-t-s-d-----e-|", "-t---(S,h)-r-t---(s,d)-e-|"),
        ("-s-a-----b-c-------m-----|", "---(S,h)-i-(E,T,D)-(F,m)-|"),
    ],
)
def test_tags_follow_the_blocks(source: str, expected: str, test: Marbles) -> None:
    row = ROW | {"J": ThinkingDelta(0, "</thi")}
    seen = test.observe(test.hot(source, row).pipe(think_tags()))
    assert seen == test.expected(expected, row)


def passed(events: Sequence[Event], **options: Any) -> list[Event]:
    return through(events, think_tags(**options))


def blocks_of(events: Sequence[Event]) -> list[tuple[BlockType, str]]:
    """The blocks with their texts, whose events must be balanced."""
    assert [*lint([Status(ResponseStatus.STARTED), *events, ROW["m"]])] == []
    texts: dict[int, tuple[BlockType, list[str]]] = {}
    for event in events:
        if isinstance(event, BlockStart):
            texts[event.index] = (event.block_type, [])
        elif isinstance(event, TextDelta | ThinkingDelta):
            assert isinstance(event, TextDelta) is (texts[event.index][0] is TEXT)
            texts[event.index][1].append(event.text)
    return [(kind, "".join(pieces)) for kind, pieces in texts.values()]


def model(text: str) -> list[tuple[BlockType, str]]:
    """The same, of a text that is whole."""
    found: list[tuple[BlockType, str]] = []
    kind, is_first = TEXT, True
    while True:
        tag = "</think>" if kind is THINKING else "<think>"
        before, tagged, text = text.partition(tag)
        before = before if is_first else before.lstrip()
        if before and not (is_first and tagged and not before.strip()):
            found.append((kind, before))
        if not tagged:
            return found or ([(TEXT, "")] if is_first else [])
        kind, is_first = THINKING if kind is TEXT else TEXT, False


PIECES = st.lists(
    st.sampled_from(["<think>", "</think>", "<thi", "nk>", "</", "<", " ", "\n", "a", "<b>"]), max_size=12
)


@given(PIECES, st.data())
def test_blocks_do_not_depend_on_how_the_text_was_cut(pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8).map(sorted))
    cut = [text[a:b] for a, b in pairwise([0, *cuts, len(text)])]
    events = passed([START, *(TextDelta(0, one) for one in cut if one), STOP])
    assert blocks_of(events) == model(text)
    if not re.search("<think>", text):
        assert {e.index for e in events if isinstance(e, BlockStart)} == {0}


def test_blocks_behind_have_higher_indexes_and_keep_their_kind() -> None:
    call = ToolUseMetadata("c", "look")
    citation = CitationDelta(0, {"url": "u"})
    events: list[Event] = [
        BlockStart(0, TEXT, echo={"id": "m1"}),
        TextDelta(0, "<think>hm</think>Hi"),
        citation,
        BlockStart(1, BlockType.TOOL_USE, call),
        InputJsonDelta(1, "{}"),
        BlockStop(1, BlockType.TOOL_USE, metadata=call),
        BlockStop(0, TEXT, echo={"content": "<think>hm</think>Hi"}),
        BlockStart(2, TEXT, echo={"id": "m2"}),
        TextDelta(2, "Bye"),
        BlockStop(2, TEXT, echo={"content": "Bye"}),
    ]
    assert passed(events) == [
        BlockStart(0, THINKING),
        ThinkingDelta(0, "hm"),
        BlockStop(0, THINKING),
        BlockStart(1, TEXT),
        TextDelta(1, "Hi"),
        CitationDelta(1, {"url": "u"}),
        BlockStart(2, BlockType.TOOL_USE, call),
        InputJsonDelta(2, "{}"),
        BlockStop(2, BlockType.TOOL_USE, metadata=call),
        BlockStop(1, TEXT),
        BlockStart(3, TEXT, echo={"id": "m2"}),
        TextDelta(3, "Bye"),
        BlockStop(3, TEXT, echo={"content": "Bye"}),
    ]
    inside = passed([START, TextDelta(0, "<think>hm"), citation, STOP])
    assert Opaque("citation", {"url": "u"}) in inside


def test_choices_are_kept_apart_and_keep_their_stop_reasons() -> None:
    reason = StopReason(StopKind.END_TURN, "stop")
    events: list[Event] = [
        BlockStart(0, TEXT),
        BlockStart(1, TEXT, choice=1),
        TextDelta(0, "<think>a"),
        TextDelta(1, "<think>b</think>", 1),
        TextDelta(0, "c</think>d"),
        BlockStop(1, TEXT, reason),
        BlockStop(0, TEXT),
    ]
    assert blocks_of(passed(events)) == [(THINKING, "ac"), (THINKING, "b"), (TEXT, "d"), (TEXT, "")]
    stops = [e.stop_reason for e in passed(events) if isinstance(e, BlockStop)]
    assert stops.count(reason) == 1


def test_a_template_may_have_opened_the_thinking() -> None:
    events = [START, TextDelta(0, "hm</think>Hi"), STOP, BlockStart(1, TEXT), TextDelta(1, "Bye")]
    seen = passed([*events, BlockStop(1, TEXT)], begins_inside=True)
    assert blocks_of(seen) == [(THINKING, "hm"), (TEXT, "Hi"), (TEXT, "Bye")]
    other = passed([START, TextDelta(0, "<reason>hm</reason>Hi"), STOP], tag="reason")
    assert blocks_of(other) == [(THINKING, "hm"), (TEXT, "Hi")]


@pytest.mark.parametrize("tag", ["", None, 3])
def test_a_tag_without_a_name_is_refused(tag: Any) -> None:
    with pytest.raises(ConfigurationError, match="give the name in the tags"):
        think_tags(tag)


async def test_a_worker_keeps_the_thinking_apart() -> None:
    answer = say("<think>\nLook first.\n</think>\n\nIt is sunny.")
    result = await Worker(ScriptedModel([answer]), operators=[think_tags()]).run("Rain?")
    assert result.text == "It is sunny."
    thinking, text = result.conversation.messages[-1].content
    assert isinstance(thinking, Thinking)
    assert (thinking.text, text) == ("Look first.\n", Text("It is sunny."))
