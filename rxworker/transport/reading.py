"""How an answer is taken from aiohttp, in large pieces and with little said about each HTTP chunk in them.

Theory of operation. aiohttp keeps what has come until it is read. With more than twice `AHEAD` it takes nothing more, from its parser or from
the socket, until less than `AHEAD` is left; from then on it asks both to go on whenever an HTTP chunk is read. That is six calls, as much
again as the chunk itself, and a provider sends a chunk for each token. Here all that is kept is read in one go: it is enough to
ask when nothing is left. Of an answer that is there as a whole the chunks need not even be read one by one.

Both is aiohttp's own business, and it has no public way to say so. What is not as expected is left alone: then reading costs more.
"""

from __future__ import annotations

from aiohttp import StreamReader

AHEAD = 32 * 1024
"""Bytes of an answer that may wait to be read; twice as many are what a read of a socket brings."""

TOGETHER = 256 * 1024
"""Bytes of an answer that are told of together, about; a read of a socket brings no more that is not compressed."""

_HAS_LOW_WATER = hasattr(StreamReader, "_low_water")


def ask_when_empty(content: StreamReader) -> None:
    """Have more asked for when all that has come is read, and not with each HTTP chunk before that."""
    if _HAS_LOW_WATER:
        content._low_water = 1  # pyright: ignore[reportPrivateUsage] - see above


def all_of(content: StreamReader) -> bytes:
    """All of an answer that has come whole before any of it was read, as most of a tool loop do; nothing of others.

    Of one that was cut it is what came before the cut, which aiohttp would not give any more.
    """
    is_cut = content.exception() is not None
    if not (is_cut or content.is_eof()):
        return b""
    try:
        kept = content._buffer  # pyright: ignore[reportPrivateUsage] - see above
        whole = b"".join(kept)
    except (AttributeError, TypeError):
        return b""
    if len(whole) != content.total_bytes and not is_cut:
        return b""
    kept.clear()
    return whole


def with_rest(chunk: bytes, content: StreamReader) -> bytes:
    """Bytes of an answer together with what aiohttp has held back, but not with all that a compressed one may hold."""
    chunks, size = [chunk], len(chunk)
    while size < TOGETHER and content.exception() is None and (more := content.read_nowait()):
        chunks.append(more)
        size += len(more)
    return b"".join(chunks)


__all__ = ["AHEAD", "TOGETHER", "all_of", "ask_when_empty", "with_rest"]
