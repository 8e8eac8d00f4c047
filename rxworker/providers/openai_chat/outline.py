"""Whether the arguments of a call are whole, seen from their brackets alone and only when somebody asks."""

from __future__ import annotations

import re

_MARKS = re.compile(r'["\\{}\[\]]')


class Outline:
    r"""The pieces of a JSON text, each of them looked at once at most.

    Args:
        pieces: What has come, and will be added to.

    >>> pieces = ['{"a": "}']
    >>> outline = Outline(pieces)
    >>> outline.is_whole()
    False
    >>> pieces.append('"}')
    >>> outline.is_whole()
    True
    """

    __slots__ = ("_began", "_depth", "_escaped", "_in_text", "_pieces", "_place")

    def __init__(self, pieces: list[str]) -> None:
        self._pieces = pieces
        self._place = 0  # of the first that nobody has looked at
        self._began = False
        self._depth = 0
        self._in_text = False
        self._escaped = False

    def is_whole(self) -> bool:
        """Whether every bracket that was opened has been closed, and there was one."""
        for piece in self._pieces[self._place :]:
            self._look_at(piece)
        self._place = len(self._pieces)
        return self._began and not self._depth and not self._in_text

    def _look_at(self, piece: str) -> None:
        skipped = 0 if self._escaped else -1  # the place of a character that is escaped
        self._escaped = False
        for found in _MARKS.finditer(piece):
            mark, place = found[0], found.start()
            if place == skipped:
                continue
            if mark == "\\":
                skipped = place + 1
            elif mark == '"':
                self._in_text = not self._in_text
            elif not self._in_text:
                self._began = True
                self._depth += 1 if mark in "{[" else -1
        self._escaped = bool(piece) and skipped == len(piece)


__all__ = ["Outline"]
