import pytest

from rxworker.cli.transcript import MOST, MOST_SPANS, Transcript, step_transcript
from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    Record,
    RefusalDelta,
    ResponseStatus,
    Status,
    TextDelta,
    ThinkingDelta,
)


def fold(*events: Event, path: tuple[str, ...] = ()) -> Transcript:
    transcript, attempt = Transcript(), 0
    for seq, event in enumerate(events, start=1):
        attempt += isinstance(event, AttemptStart)
        record = Record(seq=seq, run="r", turn=1, attempt=attempt, time=0.0, event=event, path=path)
        transcript = step_transcript(transcript, record)
    return transcript


def said(transcript: Transcript) -> list[tuple[str, str]]:
    return [(span.voice, span.text) for span in transcript.spans]


def test_deltas_of_a_block_are_one_span() -> None:
    told = fold(ThinkingDelta(0, "Hm"), ThinkingDelta(0, "m"), TextDelta(1, "A"), TextDelta(2, "B"))
    assert said(told) == [("thinking", "Hmm"), ("text", "A"), ("text", "B")]


def test_a_refusal_is_text() -> None:
    assert said(fold(RefusalDelta(0, "No."))) == [("text", "No.")]


def test_other_choices_and_runs_inside_the_run_are_left_out() -> None:
    assert said(fold(TextDelta(0, "other", choice=1))) == []
    assert said(fold(TextDelta(0, "inner"), path=("call_1",))) == []


def test_what_is_taken_back_is_gone() -> None:
    told = fold(
        AttemptStart(),
        TextDelta(0, "first"),
        AttemptRetract("overloaded"),
        AttemptStart(),
        TextDelta(0, "second"),
    )
    assert said(told) == [("text", "second")]


STARTED = Status(ResponseStatus.STARTED)


def test_a_response_that_starts_again_takes_back_its_text() -> None:
    told = fold(
        AttemptStart(),
        STARTED,
        TextDelta(0, "The answer is 41."),
        BlockAbort(0, BlockType.TEXT, "restart"),
        STARTED,
        TextDelta(0, "The answer is 42."),
    )
    assert said(told) == [("text", "The answer is 42.")]


def test_a_response_of_another_attempt_takes_nothing_back() -> None:
    told = fold(AttemptStart(), STARTED, TextDelta(0, "A"), AttemptStart(), STARTED)
    assert said(told) == [("text", "A")]


@pytest.mark.parametrize("end", [BlockStop(0, BlockType.TEXT), BlockAbort(0, BlockType.TEXT, "")])
def test_a_block_that_reuses_an_index_is_a_span_of_its_own(end: BlockStop | BlockAbort) -> None:
    start = BlockStart(0, BlockType.TEXT)
    told = fold(AttemptStart(), start, TextDelta(0, "A"), end, start, TextDelta(0, "B"))
    assert said(told) == [("text", "A"), ("text", "B")]


def test_it_does_not_grow_without_end() -> None:
    long = fold(*(TextDelta(0, "x" * 100) for _ in range(100)))
    assert len(long.spans[0].text) == MOST
    many = fold(*(TextDelta(index, "x") for index in range(100)))
    assert len(many.spans) == MOST_SPANS
    assert many.spans[-1].key[2] == 99
