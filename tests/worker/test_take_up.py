"""A response that comes again from its start on: what is stored of it is left out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import reactivex
from msgspec.structs import replace

from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    Error,
    Event,
    InputJsonDelta,
    Opaque,
    Ping,
    Record,
    ResponseStatus,
    RunRecover,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolUseMetadata,
)
from rxworker.events.kinds import gather
from rxworker.messages.usage import Usage
from rxworker.resume.recovery import progress_of
from rxworker.turn.take_up import catch_up

STARTED = Status(ResponseStatus.STARTED, "r1", "m")
CALL = ToolUseMetadata("c1", "look")
EVENTS: list[Event] = [
    STARTED,
    BlockStart(0, BlockType.THINKING),
    *(ThinkingDelta(0, letter) for letter in "hmm, so"),
    BlockStop(0, BlockType.THINKING),
    BlockStart(1, BlockType.TEXT),
    BlockStart(2, BlockType.TOOL_USE, CALL),
    *(TextDelta(1, letter) for letter in "aaabba"),
    *(InputJsonDelta(2, letter) for letter in '{"n":1}'),
    *(TextDelta(1, letter) for letter in "aab"),
    BlockStop(1, BlockType.TEXT),
    BlockStop(2, BlockType.TOOL_USE, metadata=CALL),
    Usage(3, 4),
    Status(ResponseStatus.COMPLETED),
]
AGAIN = AttemptStart("p", "m")


def cut_elsewhere(events: Sequence[Event], choose: random.Random) -> list[Event]:
    """The same texts in other pieces, and pings."""
    pieces: list[Any] = []
    for event in events:
        last: Any = pieces[-1] if pieces else None
        each: Any = event
        is_text = isinstance(event, TextDelta | ThinkingDelta | InputJsonDelta)
        if is_text and type(last) is type(each) and choose.random() < 0.6:
            pieces[-1] = replace(last, text=last.text + each.text)
        else:
            pieces.append(each)
        if not is_text and choose.random() < 0.2:
            pieces.append(Ping())
    return pieces


def folded(events: Sequence[Any]) -> list[tuple[object, str]]:
    """Events without the borders of their texts, and without pings."""
    out: list[tuple[object, str]] = []
    for event in events:
        if isinstance(event, TextDelta | ThinkingDelta | InputJsonDelta):
            key = type(event), event.index
            if out and out[-1][0] == key:
                out[-1] = key, out[-1][1] + event.text
            else:
                out.append((key, event.text))
        elif not isinstance(event, Ping):
            out.append((event, ""))
    return out


def rest(stored: Sequence[Event], again: Sequence[Event], *, together: bool = False) -> list[Event]:
    """What is recorded after the stored events."""
    got: list[Event] = []
    parts = gather(stored) if together else stored
    catch_up(reactivex.from_iterable(again), parts, AGAIN).subscribe(got.append)
    return got


@pytest.mark.parametrize("seed", range(20))
def test_the_rest_follows_what_is_stored_wherever_its_texts_are_cut(seed: int) -> None:
    choose = random.Random(seed)
    for length in range(1, len(EVENTS)):
        stored = cut_elsewhere(EVENTS[:length], choose)
        got = rest(stored, cut_elsewhere(EVENTS, choose), together=bool(seed % 2))
        assert folded([*stored, *got]) == folded(EVENTS), length


ABORTING: list[Event] = [
    *EVENTS[:4],
    BlockAbort(0, BlockType.THINKING, "another block took its place"),
    BlockStart(1, BlockType.TOOL_USE, CALL),
    InputJsonDelta(1, '{"n'),
    BlockAbort(1, BlockType.TOOL_USE, "the call was cut off"),
    Usage(3, 4),
    Status(ResponseStatus.COMPLETED),
]


@pytest.mark.parametrize("length", range(1, len(ABORTING)))
def test_a_block_that_the_response_aborts_is_aborted_once(length: int) -> None:
    stored = ABORTING[:length]
    assert [*stored, *rest(stored, ABORTING)] == ABORTING


HEAD = Opaque("response.created", {"new": 1})


@pytest.mark.parametrize("length", range(1, 6))
@pytest.mark.parametrize("other", [[], [HEAD], [Opaque("response.in_progress", {"new": 2})]])
def test_members_of_a_head_may_come_with_another_event(other: list[Event], length: int) -> None:
    whole: list[Event] = [STARTED, HEAD, *EVENTS[1:]]
    stored, again = whole[:length], [STARTED, *other, *EVENTS[1:]]
    got = rest(stored, again)
    assert [*stored, *got] == (whole if length > 1 else again)


def test_the_start_of_a_response_may_lack_its_name() -> None:
    again = [Status(ResponseStatus.STARTED), *EVENTS[1:]]
    assert rest(EVENTS[:3], again) == EVENTS[3:]


@pytest.mark.parametrize(
    "other",
    [
        [Status(ResponseStatus.STARTED, "r2"), *EVENTS[1:]],
        [*EVENTS[:4], ThinkingDelta(0, "X"), *EVENTS[5:]],
        [*EVENTS[:3], BlockStop(0, BlockType.THINKING), *EVENTS[4:]],
        [*EVENTS[:2], TextDelta(0, "h"), *EVENTS[2:]],
        [*EVENTS[:8], ThinkingDelta(0, "o, and more"), *EVENTS[9:]],
    ],
)
def test_a_response_that_differs_begins_another_attempt(other: list[Event]) -> None:
    retraction, start, *events = rest(EVENTS[:12], other)
    assert isinstance(retraction, AttemptRetract)
    assert (start, events) == (AGAIN, other)


def test_a_connection_that_fails_for_good_ends_the_response() -> None:
    """Also before it has brought what is stored. Blocks that are closed are not aborted."""
    failed = Status(ResponseStatus.FAILED)
    error = Error("connection", "cut")
    again = [*EVENTS[:4], Usage(3, is_partial=True), BlockAbort(0, BlockType.THINKING), error, failed]
    assert rest(EVENTS[:12], again) == [Usage(3, is_partial=True), error, failed]


def test_a_response_that_goes_on_after_a_recovery_is_progress() -> None:
    """A run is set aside when its process ends three times at one place."""
    events: list[Event] = [AttemptStart(), *EVENTS[:3], RunRecover(2, "b"), *EVENTS[3:5]]
    records = [Record(seq, "r", 1, 1, 0.0, event) for seq, event in enumerate(events, 1)]
    assert progress_of(records) == len(records)
    assert progress_of(records[:5]) == 0
    assert progress_of([*records[:5], replace(records[0], seq=6), replace(records[6], seq=7)]) == 0
