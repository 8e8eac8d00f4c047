"""Two machines in a row are a machine."""

from __future__ import annotations

from rxworker.framing import Chain, Decoder, NdjsonDecoder


class Lengths:
    """Counts the lines it is given, and tells the sum at the end."""

    def __init__(self) -> None:
        self.sum = 0

    def feed(self, data: bytes, /) -> list[int]:
        self.sum += len(data)
        return [len(data)]

    def finish(self) -> list[int]:
        return [self.sum]


def test_what_the_first_returns_goes_to_the_second() -> None:
    chain: Decoder[bytes, int] = Chain(NdjsonDecoder(), Lengths())
    assert list(chain.feed(b"a\nbb\ncc")) == [1, 2]
    assert list(chain.feed(b"c\n")) == [3]
    assert list(chain.feed(b"")) == []


def test_finish_feeds_what_the_first_had_left_and_then_finishes_the_second() -> None:
    chain: Decoder[bytes, int] = Chain(NdjsonDecoder(), Lengths())
    assert list(chain.feed(b"a\nbb")) == [1]
    assert list(chain.finish()) == [2, 3]
