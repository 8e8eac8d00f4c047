"""Text that grows at its end, broken into the lines of a screen. Pure.

Theory of operation. Lines are filled greedily, so a line that was broken off can never change again by what comes behind
it: only the last line is open. Adding text therefore costs what is added and one line, however long the text is. When
the width changes, everything is broken anew.
"""

from __future__ import annotations

import re

from rich.cells import cell_len, chop_cells

TAB = "    "
NARROWEST = 4

_WORDS = re.compile(r"\S+ *| +")


class WrappedText:
    r"""A text and its lines.

    Args:
        width: The columns of a line.

    Attributes:
        lines: The lines; not to be changed.

    >>> text = WrappedText(10)
    >>> text.append("to be or n")
    >>> text.append("ot\nto be")
    >>> text.lines
    ['to be or ', 'not', 'to be']
    """

    def __init__(self, width: int = 80) -> None:
        self.lines: list[str] = []
        self._width = max(NARROWEST, width)
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self._pieces)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing yet."""
        return not self._pieces

    def append(self, piece: str) -> None:
        """Add text at the end. It must be clean, see `clean`."""
        if piece:
            self._pieces.append(piece)
            self._break(piece)

    def replace(self, text: str) -> None:
        """Begin anew with this text."""
        self._pieces.clear()
        self.lines.clear()
        self.append(text)

    def resize(self, width: int) -> None:
        """Break the text for lines of this width."""
        width = max(NARROWEST, width)
        if width == self._width:
            return
        self._width = width
        self._pieces = [self.text] if self._pieces else []
        self.lines.clear()
        for piece in self._pieces:
            self._break(piece)

    def _break(self, piece: str) -> None:
        opened = self.lines.pop() if self.lines else ""
        first, *others = piece.replace("\t", TAB).split("\n")
        self._fill(opened + first)
        for paragraph in others:
            self._fill(paragraph)

    def _fill(self, paragraph: str) -> None:
        width, lines = self._width, self.lines
        if _cells(paragraph) <= width:
            lines.append(paragraph)
            return
        line, filled = "", 0
        for word in _WORDS.findall(paragraph):
            shown = word.rstrip(" ")
            bare = _cells(shown)
            if line and bare and filled + bare > width:
                lines.append(line)
                line, filled = "", 0
            if bare > width:
                *whole, last = chop_cells(shown, width)
                lines.extend(whole)
                word = last + word[len(shown) :]
            line, filled = line + word, filled + _cells(word)
        lines.append(line)


def _cells(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)


__all__ = ["WrappedText"]
