"""The text of a run as it streams. Pure: a fold of its records."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    Record,
    RefusalDelta,
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
    """

    voice: Voice
    text: str
    key: tuple[int, int, int]


class Transcript(Struct, frozen=True):
    """What has been said so far; of much, the end.

    Attributes:
        spans: In order.
        attempt: The turn and the attempt that is on.
    """

    spans: tuple[Span, ...] = ()
    attempt: tuple[int, int] = (0, 0)


def step_transcript(transcript: Transcript, record: Record) -> Transcript:
    """The transcript after a record. What an attempt said that was taken back is gone.

    >>> record = Record(seq=1, run="r", turn=1, attempt=1, time=0.0, event=TextDelta(0, "Hello"))
    >>> step_transcript(Transcript(), record).spans[0].text
    'Hello'
    """
    if record.path:
        return transcript
    match record.event:
        case AttemptStart():
            return replace(transcript, attempt=(record.turn, record.attempt))
        case AttemptRetract():
            kept = tuple(span for span in transcript.spans if span.key[:2] != transcript.attempt)
            return replace(transcript, spans=kept)
        case ThinkingDelta(index=index, text=text, choice=0):
            return _say(transcript, "thinking", index, text)
        case TextDelta(index=index, text=text, choice=0):
            return _say(transcript, "text", index, text)
        case RefusalDelta(index=index, text=text, choice=0):
            return _say(transcript, "text", index, text)
        case _:
            return transcript


def _say(transcript: Transcript, voice: Voice, index: int, text: str) -> Transcript:
    key, spans = (*transcript.attempt, index), transcript.spans
    if spans and spans[-1].key == key and spans[-1].voice == voice:
        last = replace(spans[-1], text=(spans[-1].text + text)[-MOST:])
        return replace(transcript, spans=(*spans[:-1], last))
    return replace(transcript, spans=(*spans[1 - MOST_SPANS :], Span(voice, text[-MOST:], key)))


__all__ = ["Span", "Transcript", "Voice", "step_transcript"]
