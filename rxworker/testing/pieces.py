"""What an answer's faults make of its frames: the pieces that are written, and how that ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from rxworker.testing.answer import GARBAGE, Answer
from rxworker.testing.reply import Reply

Ending: TypeAlias = Literal["end", "cut", "stall"]


def pieces(answer: Answer, frames: Iterable[bytes]) -> list[bytes]:
    """What is written of these frames, piece by piece.

    >>> pieces(Answer((), chunk=2, cut_at=5), [b"abcd", b"efgh"])
    [b'ab', b'cd', b'e']
    """
    sent = list(frames)
    if answer.garbage_after is not None:
        sent.insert(answer.garbage_after, GARBAGE)
    for limit in (answer.cut_after, answer.stall_after):
        sent = sent[:limit]
    for limit in (answer.cut_at, answer.stall_at):
        sent = sent if limit is None else _first_bytes(sent, limit)
    if answer.chunk is None:
        return sent
    whole = b"".join(sent)
    return [whole[at : at + answer.chunk] for at in range(0, len(whole), answer.chunk)]


def ending(answer: Answer) -> Ending:
    """What comes after the last piece: the end of the body, a closed connection, or silence.

    >>> ending(Answer((), stall_after=1))
    'stall'
    """
    if answer.cut_after is not None or answer.cut_at is not None:
        return "cut"
    silent = isinstance(answer.body, Reply) and answer.body.stalls
    if silent or answer.stall_after is not None or answer.stall_at is not None:
        return "stall"
    return "end"


def _first_bytes(frames: list[bytes], limit: int) -> list[bytes]:
    """As many bytes of the frames, still in frames."""
    kept: list[bytes] = []
    for frame in frames:
        if limit <= 0:
            break
        kept.append(frame[:limit])
        limit -= len(frame)
    return kept


__all__ = ["Ending", "ending", "pieces"]
