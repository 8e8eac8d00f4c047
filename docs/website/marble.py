"""Marble drawings as SVG: the text that docstrings and pages draw with, parsed and drawn again with circles and lines.

A drawing is a few lines of text. A line holds pieces, with two or more spaces between them: a stream (``-a-b-|``), an
operator (``[ only(a) ]``), a label before a stream, or a note behind one. One character is one moment, so that columns
stay aligned. In a stream, ``-`` is a moment in which nothing happens, ``|`` is completion, ``#`` an error, ``(a,b)``
holds what happens at one moment, ``+`` begins an inner stream, which is drawn from the same column of a line below, and
everything else is an item.

The colours are variables of the page (``--marble-1`` to ``--marble-6``) and ``currentColor``: one drawing fits the dark
and the light page.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from html import escape
from typing import Literal, NamedTuple

# Pixels.
COLUMN = 14
RADIUS = 10.5
MARGIN = 14
ROW = 38
"""The height of a stream, and of an operator."""
LINE = 17
"""The height of a line of notes."""
CHARACTER = 7.6
NOTE_CHARACTER = 6.3
COLOURS = 6

TOKEN = re.compile(r"-+|\([^()]*\)|[|#+]|[^-|#+()]+")
PIECE = re.compile(r"\[ .+? \](?=\s|$)|\w+:(?=\s)|\S+(?: \S+)*")
STREAM = re.compile(r"(?=\S*--|[-+].|\S+[|#]$)\S+$")


class Piece(NamedTuple):
    """A part of a line: what it is, in which column it begins, and its text."""

    kind: Literal["stream", "box", "label", "note", "fork"]
    column: int
    text: str

    @property
    def end(self) -> int:
        """The column behind it."""
        return self.column + len(self.text)


def parse(text: str) -> list[list[Piece]]:
    """The pieces of each line; an empty line has none."""
    return [_joined(list(_pieces(line))) for line in textwrap.dedent(text).rstrip().splitlines()]


def is_drawing(text: str) -> bool:
    """Whether a text is a marble drawing: it has streams, and an operator or several streams."""
    kinds = [piece.kind for line in parse(text) for piece in line]
    return "stream" in kinds and ("box" in kinds or kinds.count("stream") > 1)


def _pieces(line: str) -> Iterator[Piece]:
    found = list(PIECE.finditer(line))
    for at, match in enumerate(found):
        text = match[0]
        following = found[at + 1][0] if at + 1 < len(found) else ""
        if text.startswith("[ "):
            kind = "box"
        elif text == "|":
            kind = "fork"
        elif STREAM.match(text):
            kind = "stream"
        else:
            kind = "label" if at == 0 and STREAM.match(following) else "note"
        yield Piece(kind, match.start(), text)


def _joined(line: list[Piece]) -> list[Piece]:
    """The line with its notes as one, except where single words stand below the moments of a stream."""
    notes = [piece for piece in line if piece.kind == "note"]
    if len(notes) < 2 or (notes == line and not any(" " in piece.text for piece in notes)):
        return line
    others = [piece for piece in line if piece.kind != "note"]
    return [*others, Piece("note", notes[0].column, " ".join(piece.text for piece in notes))]


def svg(text: str) -> str:
    """The drawing as an ``<svg>`` element, to be placed into a page that defines the colours."""
    lines = parse(text)
    drawing = _Drawing([piece for line in lines for piece in line])
    for line in lines:
        drawing.add(line)
    width, height = drawing.width, drawing.y + MARGIN / 2
    described = escape(textwrap.dedent(text).strip("\n"), quote=True).replace("\n", "&#10;")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="marble" role="img" aria-label="{described}" '
        f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'style="min-width:{0.8 * width:.0f}px">{"".join(drawing.shapes)}</svg>'
    )


class _Drawing:
    """The shapes of a drawing, line by line from the top.

    Attributes:
        shapes: The elements so far.
        width: How wide the drawing is.
        y: Where the next line begins.
    """

    def __init__(self, pieces: list[Piece]) -> None:
        streams = [piece for piece in pieces if piece.kind == "stream"]
        labels = [piece for piece in pieces if piece.kind == "label"]
        self.shapes: list[str] = []
        self.y = MARGIN / 2
        # Labels have narrow columns if all streams are to their right.
        self._left = min(piece.column for piece in streams)
        self._indent = max((p.end for p in labels), default=0) * CHARACTER + MARGIN
        self.width = self._x(max(piece.end for piece in streams)) + MARGIN
        for piece in pieces:
            if piece.kind == "box":
                left = self._x(max(piece.column, self._left))
                self._fit(left + len(piece.text) * CHARACTER)
        self._colours: dict[str, int] = {}
        self._openings: dict[int, float] = {}

    def add(self, line: list[Piece]) -> None:
        """Draw a line below the others."""
        notes = [piece for piece in line if piece.kind == "note"]
        if not line:
            self.y += ROW / 2
        elif line[0].kind == "box":
            self._add_operator(line[0].text, notes[0].text if notes else "")
        elif len(notes) > 1:
            self._add_words(notes)
        else:
            self._add_streams(line)
            if notes:
                self._add_note(notes[0].text, line)

    def _add_operator(self, text: str, note: str) -> None:
        left = self._x(self._left)
        height = ROW + (LINE - 4 if note else 0)
        self._box(text, left, self.y + 3, self.width - left - MARGIN, height - 6)
        if note:
            middle = (left + self.width - MARGIN) / 2
            self._text(note, middle, self.y + height - 12, "note", "middle")
        self.y += height

    def _add_words(self, words: list[Piece]) -> None:
        for word in words:
            self._text(word.text, self._x(word.column), self.y + LINE - 4, "note")
            self._fit(self._x(word.column) + len(word.text) * NOTE_CHARACTER)
        self.y += LINE + 4

    def _add_streams(self, line: list[Piece]) -> None:
        middle = self.y + ROW / 2
        for piece in line:
            left = self._x(piece.column)
            match piece.kind:
                case "stream":
                    self._stream(piece, middle)
                case "box":
                    self._box(piece.text, left, self.y + 6, len(piece.text) * COLUMN, ROW - 12)
                case "label":
                    self._text(piece.text, left, middle + 4, "label")
                case _:
                    pass
        if any(piece.kind == "stream" for piece in line):
            self.y += ROW

    def _add_note(self, note: str, line: list[Piece]) -> None:
        columns = [piece.column for piece in line if piece.kind == "stream"]
        start = self._x(columns[0] if columns else self._left)
        characters = max(46, int((self.width - start - MARGIN) / NOTE_CHARACTER))
        for row in textwrap.wrap(note, characters):
            self._text(row, start, self.y + 10, "note")
            self._fit(start + len(row) * NOTE_CHARACTER)
            self.y += LINE
        self.y += 3

    def _stream(self, piece: Piece, y: float) -> None:
        """The line of a stream, with an arrow unless it has ended, and over it what happens along it."""
        before = len(self.shapes)
        column, start, end, ended = piece.column, self._x(piece.column), self._x(piece.end), False
        for token in TOKEN.findall(piece.text):
            centre = self._x(column + len(token) / 2)
            if token == "+" and column == piece.column and column in self._openings:
                start = centre
                self._line(f"M{centre:.1f} {self._openings[column] + 4:.1f}V{y:.1f}")
            elif token == "+":
                self._openings[column] = y
                self._shape(f'circle class="marble-fork" cx="{centre:.1f}" cy="{y:.1f}" r="4"')
            elif not token.startswith("-"):
                at = self._x(column + 0.5) if token.startswith("(") else centre
                last = self._moment(token, at, y)
                ended, end = (True, last) if token.strip(")")[-1] in "|#" else (ended, end)
            column += len(token)
        marks = self.shapes[before:]
        del self.shapes[before:]
        self._line(f"M{start:.1f} {y:.1f}H{end:.1f}")
        if not ended:
            self._line(f"M{end - 6:.1f} {y - 4:.1f}l6 4l-6 4")
        self.shapes += marks

    def _moment(self, token: str, at: float, y: float) -> float:
        """What happens at one moment, side by side from its column on; where the last of it is."""
        inside = token[1:-1] if token.startswith("(") else ""
        items = inside.split(",") if "," in inside else list(inside) or [token]
        values = [item for item in items if item not in "|#"]
        if len(values) > 1:
            width, height = sum(map(_width, values)) + 5, 2 * RADIUS + 6
            self._rect("group", at - RADIUS - 3, y - height / 2, width, height, RADIUS + 3)
        place = at - _width(items[0]) / 2 if len(items) == 1 else at - RADIUS
        for item in items:
            at = place + _width(item) / 2
            self._mark(item, at, y)
            place += _width(item)
        return at

    def _mark(self, item: str, at: float, y: float) -> None:
        """Completion, an error, or an item, whose colour is that of its letter.

        ``A`` has that of ``a``, ``s1`` that of ``s0``.
        """
        if item == "|":
            self._shape(f'path class="marble-end" d="M{at:.1f} {y - 10:.1f}v20"')
        elif item == "#":
            cross = f"M{at - 6:.1f} {y - 6:.1f}l12 12m0 -12l-12 12"
            self._shape(f'path class="marble-error" d="{cross}"')
        else:
            letter = next((c for c in item.lower() if c.isalnum()), item)
            colour = self._colours.setdefault(letter, len(self._colours) % COLOURS + 1)
            width = _width(item) - 1
            left, top = at - width / 2, y - RADIUS
            self._rect(f"item marble-{colour}", left, top, width, 2 * RADIUS, RADIUS)
            self._text(item, at, y + 4, "value", "middle")

    def _box(self, text: str, left: float, top: float, width: float, height: float) -> None:
        """An operator in its box, ``[ text ]``."""
        self._rect("box", left, top, width, height, 6)
        self._text(text[2:-2], left + width / 2, top + min(20, height / 2 + 4), "operator", "middle")

    def _x(self, column: float) -> float:
        """Where a column begins."""
        if column < self._left:
            return MARGIN + column * CHARACTER
        indent = self._indent if self._left else 0
        return MARGIN + indent + (column - self._left) * COLUMN

    def _fit(self, right: float) -> None:
        self.width = max(self.width, right + MARGIN)

    def _line(self, path: str) -> None:
        self._shape(f'path class="marble-line" d="{path}"')

    def _rect(self, name: str, left: float, top: float, width: float, height: float, radius: float) -> None:
        self._shape(
            f'rect class="marble-{name}" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}"'
            f' rx="{radius}"'
        )

    def _text(self, text: str, at: float, y: float, name: str, anchor: str = "start") -> None:
        self.shapes.append(
            f'<text class="marble-{name}" x="{at:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def _shape(self, shape: str) -> None:
        self.shapes.append(f"<{shape}/>")


def _width(item: str) -> float:
    """The space that an item takes beside others."""
    return max(2 * RADIUS, len(item) * CHARACTER + 10) + 1
