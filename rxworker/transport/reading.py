"""How an answer is taken from aiohttp, in large pieces and with little said about each HTTP chunk in them.

Theory of operation. aiohttp keeps what has come until it is read. With more than twice `AHEAD` it takes nothing more, from its parser or from
the socket, until less than `AHEAD` is left; from then on it asks both to go on whenever an HTTP chunk is read. That is six calls, as much
again as the chunk itself, and a provider sends a chunk for each token. Here all that is kept is read in one go: it is enough to
ask when nothing is left.
"""

from __future__ import annotations

from aiohttp import StreamReader

AHEAD = 32 * 1024
"""Bytes of an answer that may wait to be read; twice as many are what a read of a socket brings."""

TOGETHER = 256 * 1024
"""Bytes of an answer that are told of together, about; a read of a socket brings no more that is not compressed."""

# It is aiohttp's own. Another version that has none is as good, but slower; a test would tell.
_HAS_LOW_WATER = hasattr(StreamReader, "_low_water")


def ask_when_empty(content: StreamReader) -> None:
    """Have more asked for when all that has come is read, and not with each HTTP chunk before that."""
    if _HAS_LOW_WATER:
        content._low_water = 1  # pyright: ignore[reportPrivateUsage] - there is no other way to say it


def with_rest(chunk: bytes, content: StreamReader) -> bytes:
    """Bytes of an answer together with what aiohttp has held back, but not with all that a compressed one may hold."""
    chunks, size = [chunk], len(chunk)
    while size < TOGETHER and content.exception() is None and (more := content.read_nowait()):
        chunks.append(more)
        size += len(more)
    return b"".join(chunks)


__all__ = ["AHEAD", "TOGETHER", "ask_when_empty", "with_rest"]
