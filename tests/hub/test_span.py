"""`Span` and `packed`: rows of deltas in the memory of their text, from which each is made again."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from rxworker.events import (
    BlockStop,
    BlockType,
    CitationDelta,
    InputJsonDelta,
    InputValueDelta,
    Ping,
    Record,
    RefusalDelta,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
)
from rxworker.events.deltas import Deltas
from rxworker.events.kinds import MERGEABLE
from rxworker.events.row import Row
from rxworker.hub.history import TAIL, merge_entries
from rxworker.hub.span import Span, continues, is_mergeable, packed

Make = Callable[[int, str], Record]


def text(n: int, text: str = "hi") -> Record:
    return Record(n, "r", 1, 1, float(n), TextDelta(0, text))


def span_of(*texts: str) -> Span:
    return Span.of([text(n, piece) for n, piece in enumerate(texts, start=1)])


@pytest.mark.parametrize("texts", [("a", "b"), ("", ""), ("", "long", ""), ("\ud800", "\udc00x")])
def test_it_gives_back_equal_records(texts: tuple[str, ...]) -> None:
    exact = [text(n, piece) for n, piece in enumerate(texts, start=1)]
    span = Span.of(exact)
    assert list(span.records(0, len(texts))) == exact
    assert (span.first, span.seq, span.time) == (1, len(texts), float(len(texts)))


def test_rows_and_records_that_go_on_with_a_text_are_one_span() -> None:
    """A read may end within a delta, so that the last one comes by itself."""
    row = Row(3, "r", 1, 1, 3.0, Deltas(TextDelta(0, ""), ["a", "b", "c"]))
    more = Row(6, "r", 1, 1, 6.0, Deltas(TextDelta(0, ""), ["e", "f"]))
    [span] = packed([row, text(4, "d"), more])
    assert isinstance(span, Span)
    exact = [*row.records(0, 3), text(4, "d"), *more.records(0, 6)]
    assert list(span.records(0, 6)) == exact


def test_it_gives_back_those_between_two_numbers() -> None:
    span = span_of("a", "b", "c", "d")
    assert [r.seq for r in span.records(1, 3)] == [2, 3]
    assert [r.seq for r in span.records(3, 99)] == [4]
    assert list(span.records(4, 4)) == []


def test_merged_behind_a_number_it_stands_for_what_follows() -> None:
    span = span_of("a", "", "c", "d")
    assert merge_entries([span], 0) == [replace(text(4, "acd"), covers=4)]
    assert merge_entries([span], 2) == [replace(text(4, "cd"), covers=2)]
    assert merge_entries([span], 3) == [text(4, "d")]


@pytest.mark.parametrize(
    "make", [TextDelta, ThinkingDelta, RefusalDelta, InputJsonDelta], ids=lambda kind: kind.__name__
)
def test_deltas_of_each_mergeable_kind_are_packed(make: type[TextDelta]) -> None:
    exact = [Record(n, "r", 1, 1, 0.5, make(2, "hi")) for n in (1, 2, 3)]
    [span] = packed(exact)
    assert isinstance(span, Span)
    assert list(span.records(0, 3)) == exact
    assert make in MERGEABLE


@pytest.mark.parametrize(
    "event",
    [
        SignatureDelta(0, "hi"),
        CitationDelta(0, {}),
        InputValueDelta(0, "$.a", "hi", append=True),
        ToolProgress("c", "hi"),
        Ping(),
        BlockStop(0, BlockType.TEXT),
    ],
)
def test_other_events_are_kept_as_they_are(event: SignatureDelta) -> None:
    exact = [Record(n, "r", 1, 1, 0.5, event) for n in (1, 2)]
    assert packed(exact) == exact
    assert not is_mergeable(event)


OTHERS = {
    "kind": Record(2, "r", 1, 1, 0.0, ThinkingDelta(0, "hi")),
    "block": Record(2, "r", 1, 1, 0.0, TextDelta(1, "hi")),
    "choice": Record(2, "r", 1, 1, 0.0, TextDelta(0, "hi", choice=1)),
    "path": Record(2, "r", 1, 1, 0.0, TextDelta(0, "hi"), path=("call",)),
    "turn": Record(2, "r", 2, 1, 0.0, TextDelta(0, "hi")),
    "attempt": Record(2, "r", 1, 2, 0.0, TextDelta(0, "hi")),
    "run": Record(2, "s", 1, 1, 0.0, TextDelta(0, "hi")),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_what_differs_in_anything_but_its_text_and_time_is_kept_apart(other: Record) -> None:
    one = text(1)
    assert not continues(other, one)
    assert packed([one, other]) == [one, other]


def test_one_alone_stays_a_record() -> None:
    assert packed([text(1)]) == [text(1)]
    assert packed([]) == []


def test_a_row_takes_little_more_than_its_text() -> None:
    def kept(make: Callable[[], object]) -> int:
        gc.collect()
        tracemalloc.start()
        try:
            made = make()
            gc.collect()
            held, _ = tracemalloc.get_traced_memory()
            del made
        finally:
            tracemalloc.stop()
        return held

    def pack() -> object:
        return packed([text(n, "word") for n in range(1, TAIL + 1)])

    pack()
    assert kept(pack) < TAIL * (len("word") + 12 + 4)
