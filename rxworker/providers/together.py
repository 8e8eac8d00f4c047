"""Frames that came together, taken together: what one read brings becomes events and rows of deltas in one go. Pure.

The plain definition is `rxworker.framing.Chain` of the same two machines; ``tests/providers/test_together.py`` holds them equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeAlias, TypeVar, cast

from rxworker.events import ResponseEvent
from rxworker.events.deltas import Deltas
from rxworker.providers.rows import Row

F = TypeVar("F")
F_contra = TypeVar("F_contra", contravariant=True)
F_co = TypeVar("F_co", covariant=True)

Events: TypeAlias = Sequence[ResponseEvent]


class Framing(Protocol[F_co]):
    """A machine from bytes to frames that knows whether it waits for the rest of one."""

    @property
    def limit(self) -> int | None:
        """Bytes that a line or frame may have; ``None`` for any number. It may be changed."""
        ...

    @limit.setter
    def limit(self, limit: int | None) -> None: ...

    @property
    def is_clear(self) -> bool:
        """Whether nothing is pending: the next byte begins a frame."""
        ...

    def feed(self, data: bytes, /) -> Sequence[F_co]:
        """Take the next bytes."""
        ...

    def feed_run(self, data: bytes, /) -> Sequence[F_co]:
        """The same; frames that came together may be made when somebody looks at one."""
        ...

    def finish(self) -> Sequence[F_co]:
        """The bytes ended."""
        ...


class Gathers(Protocol[F_contra]):
    """A decoder that takes several frames in one go."""

    def feed(self, frame: F_contra, /) -> Events:
        """Take the next frame."""
        ...

    def feed_many(self, frames: Sequence[F_contra], /) -> list[ResponseEvent | Row]:
        """Take several frames; return what feeding them one by one would, with deltas that add to the same text as one thing."""
        ...

    def finish(self) -> Events:
        """The frames ended."""
        ...


class Together(Generic[F]):
    r"""A decoder from bytes to events that gives those of one read together.

    Args:
        framing: Bytes to frames.
        decoder: Frames to events.

    >>> from rxworker.framing import SseDecoder
    >>> from rxworker.providers.openai_responses.decode import OpenAIResponsesDecoder
    >>> machine = Together(SseDecoder(), OpenAIResponsesDecoder())
    >>> frame = b'data: {"type":"response.output_text.delta","output_index":0,"delta":"%s"}\n\n'
    >>> machine.feed_rows(b"".join(frame % word for word in (b"a", b"b", b"c", b"d")))[-1]
    Deltas(TextDelta(index=0, text='a', choice=0), ['a', 'b', 'c', 'd'])
    """

    def __init__(self, framing: Framing[F], decoder: Gathers[F]) -> None:
        self._framing = framing
        self._decoder = decoder

    @property
    def limit(self) -> int | None:
        """Bytes that a line or frame may have; ``None`` for any number."""
        return self._framing.limit

    @limit.setter
    def limit(self, limit: int | None) -> None:
        self._framing.limit = limit

    def feed(self, data: bytes, /) -> Events:
        """Take the next bytes; return what they completed."""
        events: list[ResponseEvent] = []
        for row in self.feed_rows(data):
            if row.__class__ is Deltas:
                events.extend(cast("Row", row))
            else:
                events.append(cast("ResponseEvent", row))
        return events

    def feed_rows(self, data: bytes, /) -> Sequence[ResponseEvent | Row]:
        """The same, with deltas that have been read together as one thing."""
        frames = self._framing.feed_run(data)
        if len(frames) == 1:  # a provider sends one event a chunk
            return self._decoder.feed(frames[0])
        return self._decoder.feed_many(frames)

    def finish(self) -> Events:
        """The bytes ended: first for the frames, then for the response."""
        if self._framing.is_clear:
            return self._decoder.finish()
        events: list[ResponseEvent] = []
        for frame in self._framing.finish():
            events += self._decoder.feed(frame)
        events += self._decoder.finish()
        return events


__all__ = ["Framing", "Gathers", "Together"]
