"""NDJSON: one JSON text a line."""

from __future__ import annotations

from rxworker.framing.decoder import MAX_FRAME, too_large


class NdjsonDecoder:
    r"""Bytes to lines that are not empty.

    Args:
        limit: Bytes that a line may have; ``None`` for any number.

    Attributes:
        limit: The same; it may be changed.

    >>> NdjsonDecoder().feed(b'{"a": 1}\r\n\n{"a": 2}\n{"a"')
    [b'{"a": 1}', b'{"a": 2}']
    """

    def __init__(self, limit: int | None = MAX_FRAME) -> None:
        self.limit = limit
        self._pieces: list[bytes] = []  # of the unfinished line, joined once
        self._size = 0  # of these pieces
        self._ready: list[bytes] | None = None  # the lines before one that was too large

    @property
    def is_clear(self) -> bool:
        """Whether nothing is pending: the next byte begins a line."""
        return not self._pieces and self._ready is None

    def feed(self, data: bytes, /) -> list[bytes]:
        """Take the next bytes; return the lines they completed.

        Raises:
            RemoteProtocolError: A line is larger than the limit. `finish` returns the lines before it.
        """
        limit = self.limit
        if self._ready is not None:
            raise too_large(limit or 0)
        is_large = limit is not None and self._size + len(data) > limit
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines and self._pieces:
            lines[0] = b"".join((*self._pieces, lines[0]))
            self._pieces.clear()
            self._size = 0
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)
        if is_large and limit is not None:
            self._check(lines, limit)
        return [line for line in map(bytes.strip, lines) if line]

    def _check(self, lines: list[bytes], limit: int) -> None:
        for place, line in enumerate(lines):
            if len(line) > limit:
                self._refuse(lines[:place], limit)
        if self._size > limit:
            self._refuse(lines, limit)

    def _refuse(self, before: list[bytes], limit: int) -> None:
        self._ready = [line for line in map(bytes.strip, before) if line]
        self._pieces.clear()
        self._size = 0
        raise too_large(limit)

    def feed_run(self, data: bytes, /) -> list[bytes]:
        """The same: lines are cut anyway."""
        return self.feed(data)

    def finish(self) -> list[bytes]:
        """The stream ended; return the last line, if it has no line end."""
        line = b"".join(self._pieces).strip()
        self._pieces.clear()
        if self._ready is not None:
            return self._ready
        return [line] if line else []
