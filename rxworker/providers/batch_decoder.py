"""Bytes to events in two machines, framing and decoder, with adjacent deltas of one read as one value. Pure.

The plain definition is to feed each frame to the decoder; ``tests/providers/test_batch_decoder.py`` holds the two
equal. `BackgroundDecoder` is for a response that goes on at its service without its connection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Generic, Protocol, TypeAlias, TypeVar

from rxworker.events import ResponseEvent
from rxworker.events.kinds import Deltas, flatten, gather
from rxworker.framing.decoder import Decoder, Limited
from rxworker.providers.block_factory import BlockFactory

F = TypeVar("F")
F_co = TypeVar("F_co", covariant=True)

Events: TypeAlias = Sequence[ResponseEvent]
Part: TypeAlias = ResponseEvent | Deltas[ResponseEvent]
"""An event, or adjacent deltas as one value."""


class Framing(Decoder[bytes, F_co], Limited, Protocol[F_co]):
    """A machine from bytes to frames. One with a method ``feed_run`` may create the frames when they are accessed."""


class BatchDecoder(Generic[F]):
    r"""A decoder from bytes to events that returns adjacent deltas of one read as one `Deltas`.

    Args:
        framing: Bytes to frames.
        decoder: Frames to events. One with a method ``feed_many`` is given the frames of a read together. Of one whose
            ``blocks`` are its `BlockFactory`, a call that the server sends twice is made once.

    >>> from rxworker.framing import SseDecoder
    >>> from rxworker.providers.openai_responses.decode import OpenAIResponsesDecoder
    >>> machine = BatchDecoder(SseDecoder(), OpenAIResponsesDecoder())
    >>> frame = b'data: {"type":"response.output_text.delta","output_index":0,"delta":"%s"}\n\n'
    >>> machine.feed_parts(b"".join(frame % word for word in (b"a", b"b", b"c", b"d")))[-1]
    Deltas(TextDelta(index=0, text='a', choice=0), ['a', 'b', 'c', 'd'])
    """

    def __init__(self, framing: Framing[F], decoder: Decoder[F, ResponseEvent]) -> None:
        self._framing = framing
        self._cut: Callable[[bytes], Sequence[F]] = getattr(framing, "feed_run", framing.feed)
        self._decoder = decoder
        self._blocks: BlockFactory = getattr(decoder, "blocks", None) or BlockFactory()
        self._feed_many: Callable[[Sequence[F]], Sequence[Part]] = getattr(decoder, "feed_many", self._feed_each)

    @property
    def limit(self) -> int:
        """Bytes that a line or frame may have."""
        return self._framing.limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._framing.limit = limit

    def feed(self, data: bytes, /) -> Events:
        """Take the next bytes; return what they completed."""
        return [*flatten(self.feed_parts(data))]

    def feed_parts(self, data: bytes, /) -> Sequence[Part]:
        """The same, with adjacent deltas as one `Deltas`."""
        frames = self._cut(data)
        # A provider sends one event a chunk.
        parts = self._decoder.feed(frames[0]) if len(frames) == 1 else self._feed_many(frames)
        calls = self._blocks.calls
        return parts if calls is None else calls.once(parts)

    def _feed_each(self, frames: Sequence[F]) -> Sequence[Part]:
        return gather(chain.from_iterable(map(self._decoder.feed, frames)))

    def finish(self) -> Events:
        """The bytes ended: first for the frames, then for the response."""
        events = [*chain.from_iterable(map(self._decoder.feed, self._framing.finish())), *self._decoder.finish()]
        calls = self._blocks.calls
        return events if calls is None else [*flatten(calls.once(events))]
