"""NDJSON: one JSON text a line."""

from __future__ import annotations


class NdjsonDecoder:
    r"""Bytes to lines that are not empty.

    >>> NdjsonDecoder().feed(b'{"a": 1}\r\n\n{"a": 2}\n{"a"')
    [b'{"a": 1}', b'{"a": 2}']
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []  # of the unfinished line, joined once

    @property
    def is_clear(self) -> bool:
        """Whether nothing is pending: the next byte begins a line."""
        return not self._pieces

    def feed(self, data: bytes, /) -> list[bytes]:
        """Take the next bytes; return the lines they completed."""
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines and self._pieces:
            lines[0] = b"".join((*self._pieces, lines[0]))
            self._pieces.clear()
        if rest:
            self._pieces.append(rest)
        return [line for line in map(bytes.strip, lines) if line]

    def feed_run(self, data: bytes, /) -> list[bytes]:
        """The same: lines are cut anyway."""
        return self.feed(data)

    def finish(self) -> list[bytes]:
        """The stream ended; return the last line, if it has no line end."""
        line = b"".join(self._pieces).strip()
        self._pieces.clear()
        return [line] if line else []


__all__ = ["NdjsonDecoder"]
