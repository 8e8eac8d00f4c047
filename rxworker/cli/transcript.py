"""The text of a run as it streams. Pure: a fold of its records."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockStop,
    Record,
    RefusalDelta,
    ResponseStatus,
    Status,
    TextDelta,
    ThinkingDelta,
)

Voice: TypeAlias = Literal["thinking", "text"]

MOST = 4000
"""Characters of a span, and spans of a transcript, that are kept: what no screen shows need not be carried along."""
MOST_SPANS = 40


class Span(Struct, frozen=True):
    """Something said in one voice, up to the end of its block.

    Attributes:
        voice: Whether it is thought or said.
        text: What.
        key: The turn, the attempt and the block it comes from.
        is_open: Whether its block is open: a block may reuse the index of one that has ended.
    """

    voice: Voice
    text: str
    key: tuple[int, int, int]
    is_open: bool = True


class Transcript(Struct, frozen=True):
    """What has been said so far; of much, the end.

    Attributes:
        spans: In order.
        attempt: The turn and the attempt that is on.
        is_started: Whether the response of that attempt has started.
    """

    spans: tuple[Span, ...] = ()
    attempt: tuple[int, int] = (0, 0)
    is_started: bool = False


def step_transcript(transcript: Transcript, record: Record) -> Transcript:
    """The transcript after a record. It drops the text of an attempt that is retracted, and of a response that starts again.

    >>> record = Record(seq=1, run="r", turn=1, attempt=1, time=0.0, event=TextDelta(0, "Hello"))
    >>> step_transcript(Transcript(), record).spans[0].text
    'Hello'
    """
    if record.path:
        return transcript
    match record.event:
        case AttemptStart():
            return replace(transcript, attempt=(record.turn, record.attempt), is_started=False)
        case Status(status=ResponseStatus.STARTED):
            kept = _without_attempt(transcript) if transcript.is_started else transcript
            return replace(kept, is_started=True)
        case AttemptRetract():
            return _without_attempt(transcript)
        case BlockStop(index=index) | BlockAbort(index=index):
            return _end(transcript, index)
        case ThinkingDelta(index=index, text=text, choice=0):
            return _say(transcript, "thinking", index, text)
        case TextDelta(index=index, text=text, choice=0):
            return _say(transcript, "text", index, text)
        case RefusalDelta(index=index, text=text, choice=0):
            return _say(transcript, "text", index, text)
        case _:
            return transcript


def _without_attempt(transcript: Transcript) -> Transcript:
    kept = tuple(span for span in transcript.spans if span.key[:2] != transcript.attempt)
    return replace(transcript, spans=kept)


def _end(transcript: Transcript, index: int) -> Transcript:
    key = (*transcript.attempt, index)
    spans = (replace(span, is_open=False) if span.key == key else span for span in transcript.spans)
    return replace(transcript, spans=tuple(spans))


def _say(transcript: Transcript, voice: Voice, index: int, text: str) -> Transcript:
    key, spans = (*transcript.attempt, index), transcript.spans
    last = spans[-1] if spans else None
    if last is not None and last.is_open and (last.key, last.voice) == (key, voice):
        last = replace(last, text=(last.text + text)[-MOST:])
        return replace(transcript, spans=(*spans[:-1], last))
    return replace(transcript, spans=(*spans[1 - MOST_SPANS :], Span(voice, text[-MOST:], key)))


__all__ = ["Span", "Transcript", "Voice", "step_transcript"]
