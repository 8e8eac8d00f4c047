"""The interface of a decoder, the limit for the size of a frame, and NDJSON: one JSON text a line."""

from __future__ import annotations

from collections.abc import Sequence
from sys import maxsize
from typing import Protocol, TypeVar, runtime_checkable

from rxworker.errors import RemoteProtocolError

A_contra = TypeVar("A_contra", contravariant=True)
B_co = TypeVar("B_co", covariant=True)


class Decoder(Protocol[A_contra, B_co]):
    """A machine that takes what arrived and returns what became complete, which may be nothing yet."""

    def feed(self, data: A_contra, /) -> Sequence[B_co]:
        """Take the next piece; return what it completed, in order."""
        ...

    def finish(self) -> Sequence[B_co]:
        """The input ended; return what is left, which is nothing by default. Nothing may be fed after it."""
        return ()


@runtime_checkable
class Limited(Protocol):
    """A machine that refuses lines and frames above a limit.

    Attributes:
        limit: Bytes that a line or frame may have. It may be changed.
    """

    limit: int


MAX_FRAME = 64 * 1024 * 1024
"""Bytes of a line or frame, unless another limit is set.

The largest that providers send are pictures, of some megabytes.
"""


def too_large(limit: int) -> RemoteProtocolError:
    """The error for a frame that is larger than the limit."""
    return RemoteProtocolError(
        f"the server sent a line or frame of more than {limit} bytes; if it may be so large, raise the limit, "
        "for example with Client(max_frame=...)"
    )


class NdjsonDecoder:
    r"""Bytes to lines that are not empty.

    Args:
        limit: Bytes that a line may have; ``None`` for any number.

    Attributes:
        limit: The same as a number; it may be changed.

    >>> NdjsonDecoder().feed(b'{"a": 1}\r\n\n{"a": 2}\n{"a"')
    [b'{"a": 1}', b'{"a": 2}']
    """

    def __init__(self, limit: int | None = MAX_FRAME) -> None:
        self.limit = maxsize if limit is None else limit
        self._pieces: list[bytes] = []  # of the unfinished line, joined once
        self._size = 0  # of these pieces
        self._ready: list[bytes] | None = None  # the lines before one that was too large

    def feed(self, data: bytes, /) -> list[bytes]:
        """Take the next bytes; return the lines they completed.

        Raises:
            RemoteProtocolError: A line is larger than the limit. `finish` returns the lines before it.
        """
        if self._ready is not None:
            raise too_large(self.limit)
        is_large = self._size + len(data) > self.limit
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines and self._pieces:
            lines[0] = b"".join((*self._pieces, lines[0]))
            self._pieces.clear()
            self._size = 0
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)
        if is_large:
            too_long = next((place for place, line in enumerate(lines) if len(line) > self.limit), None)
            if too_long is not None or self._size > self.limit:
                self._ready = [line for line in map(bytes.strip, lines[:too_long]) if line]
                self._pieces.clear()
                raise too_large(self.limit)
        return [line for line in map(bytes.strip, lines) if line]

    def finish(self) -> list[bytes]:
        """The stream ended; return the last line, if it has no line end."""
        if self._ready is not None:
            return self._ready
        line = b"".join(self._pieces).strip()
        self._pieces.clear()
        return [line] if line else []
