"""Marble drawings as SVG: the text that docstrings and pages draw with, parsed and drawn again with circles and lines.

A drawing is a few lines of text. A line holds pieces, with two or more spaces between them: a stream (``-a-b-|``), an operator (``[ only(a) ]``), a
label before a stream, or a note behind one. One character is one moment, so that columns stay aligned. In a stream, ``-`` is a moment in which nothing
happens, ``|`` is completion, ``#`` an error, ``(a,b)`` holds what happens at one moment, ``+`` begins an inner stream, which is drawn from the same
column of a line below, and everything else is an item.

The colours are variables of the page (``--marble-1`` to ``--marble-6``) and ``currentColor``: one drawing fits the dark and the light page.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from html import escape
from typing import Literal, NamedTuple

COLUMN = 14
RADIUS = 10.5
MARGIN = 14
ROW = 38
LINE = 17
CHARACTER = 7.6
"""Pixels: of a moment, of an item, around the drawing, of a stream, of a line of notes, of a character of code."""
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
    streams = [p for line in lines for p in line if p.kind == "stream"]
    colour = _Colours()
    left = min(p.column for p in streams)
    right = max(p.end for p in streams)
    labels = [p for line in lines for p in line if p.kind == "label"]
    width = max(x(right) + MARGIN, *(x(p.column) + len(p.text) * CHARACTER for p in labels), 0.0)
    for line in lines:
        for piece in line:
            if piece.kind == "box":
                start = left if len(line) == 1 or line[0] is piece else piece.column
                width = max(width, x(start) + len(piece.text) * CHARACTER + MARGIN)
    note_width = max(46, int((width - 2 * MARGIN) / NOTE_CHARACTER))
    body: list[str] = []
    forks: dict[int, float] = {}
    y = float(MARGIN) / 2
    for line in lines:
        if not line:
            y += ROW / 2
            continue
        kinds = [piece.kind for piece in line]
        middle = y + ROW / 2
        if kinds[0] == "box":
            note = line[1].text if len(line) > 1 else ""
            height = ROW + (LINE - 4 if note else 0)
            body.append(
                _box(line[0].text, note, x(left), y + 3, width - x(left) - MARGIN, height - 6)
            )
            y += height
            continue
        for piece in line:
            match piece.kind:
                case "stream":
                    body.append(_stream(piece, middle, colour, forks))
                case "box":
                    body.append(
                        _box(
                            piece.text,
                            "",
                            x(piece.column),
                            y + 6,
                            len(piece.text) * COLUMN,
                            ROW - 12,
                        )
                    )
                case "label":
                    body.append(_text(piece.text, x(piece.column), middle + 4, "marble-label"))
                case _:
                    pass
        notes = [piece for piece in line if piece.kind == "note"]
        if "stream" not in kinds and len(notes) > 1:
            body += [_text(p.text, x(p.column), y + LINE - 4, "marble-note") for p in notes]
            width = max(width, x(notes[-1].column) + len(notes[-1].text) * NOTE_CHARACTER + MARGIN)
            y += LINE + 4
            continue
        if "stream" in kinds:
            y += ROW
        start = x(next((piece.column for piece in line if piece.kind == "stream"), left))
        for note in notes:
            for row in textwrap.wrap(note.text, note_width):
                body.append(_text(row, start, y + 10, "marble-note"))
                width = max(width, start + len(row) * NOTE_CHARACTER + MARGIN)
                y += LINE
        y += 3 if notes else 0
    height = y + MARGIN / 2
    described = escape(textwrap.dedent(text).strip("\n"), quote=True).replace("\n", "&#10;")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="marble" role="img" aria-label="{described}" '
        f'width="{width:.0f}" height="{height:.0f}" style="min-width:{0.8 * width:.0f}px" viewBox="0 0 {width:.0f} {height:.0f}">'
        f"{''.join(body)}</svg>"
    )


def x(column: float) -> float:
    """Where a column begins."""
    return MARGIN + column * COLUMN


class _Colours:
    """A colour for each letter, in the order in which they appear: ``A`` has the colour of ``a``, and ``s1`` that of ``s0``."""

    def __init__(self) -> None:
        self._of: dict[str, int] = {}

    def __call__(self, item: str) -> int:
        key = next((c for c in item.lower() if c.isalnum()), item)
        return self._of.setdefault(key, len(self._of) % COLOURS + 1)


def _stream(piece: Piece, y: float, colour: _Colours, forks: dict[int, float]) -> str:
    """The line of a stream, and what happens along it."""
    marks: list[str] = []
    column = piece.column
    start, end, terminated = x(column), x(piece.end), False
    for token in TOKEN.findall(piece.text):
        centre = x(column + len(token) / 2)
        if token.startswith("("):
            items = token[1:-1].split(",") if "," in token else list(token[1:-1])
            marks.append(_group(items, x(column + 0.5), y, colour))
            if items[-1] in "|#":
                terminated, end = True, x(column + 0.5) + sum(map(_wide, items[:-1]))
        elif token == "+":
            if column in forks and column == piece.column:
                marks.append(
                    f'<path class="marble-line" d="M{centre:.1f} {forks[column] + 4:.1f}V{y:.1f}"/>'
                )
                start = centre
            else:
                marks.append(f'<circle class="marble-fork" cx="{centre:.1f}" cy="{y:.1f}" r="4"/>')
            forks.setdefault(column, y)
        elif not token.startswith("-"):
            if token in "|#":
                terminated, end = True, centre
            marks.append(_mark(token, centre, y, colour))
        column += len(token)
    arrow = (
        "" if terminated else f'<path class="marble-line" d="M{end - 6:.1f} {y - 4:.1f}l6 4l-6 4"/>'
    )
    return f'<path class="marble-line" d="M{start:.1f} {y:.1f}H{end:.1f}"/>{arrow}{"".join(marks)}'


def _wide(item: str) -> float:
    """The space that an item takes beside others."""
    return max(2 * RADIUS, len(item) * CHARACTER + 10) + 1


def _group(items: list[str], centre: float, y: float, colour: _Colours) -> str:
    """What happens at one moment, side by side from its column on."""
    marks: list[str] = []
    values = [item for item in items if item not in "|#"]
    if len(values) > 1:
        marks.append(
            f'<rect class="marble-group" x="{centre - RADIUS - 3:.1f}" y="{y - RADIUS - 3:.1f}" '
            f'width="{sum(map(_wide, values)) + 5:.1f}" height="{2 * RADIUS + 6:.1f}" rx="{RADIUS + 3}"/>'
        )
    place = centre - RADIUS
    for item in items:
        marks.append(_mark(item, place + _wide(item) / 2, y, colour))
        place += _wide(item)
    return "".join(marks)


def _mark(item: str, centre: float, y: float, colour: _Colours) -> str:
    """What happens at one moment: completion, an error, or an item."""
    if item == "|":
        return f'<path class="marble-end" d="M{centre:.1f} {y - 10:.1f}v20"/>'
    if item == "#":
        return f'<path class="marble-error" d="M{centre - 6:.1f} {y - 6:.1f}l12 12m0 -12l-12 12"/>'
    wide = _wide(item) - 1
    return (
        f'<g class="marble-item marble-{colour(item)}"><rect x="{centre - wide / 2:.1f}" y="{y - RADIUS:.1f}" '
        f'width="{wide:.1f}" height="{2 * RADIUS}" rx="{RADIUS}"/>'
        f'<text x="{centre:.1f}" y="{y + 4:.1f}" text-anchor="middle">{escape(item)}</text></g>'
    )


def _box(text: str, note: str, left: float, top: float, width: float, height: float) -> str:
    """An operator, over the width of its streams."""
    centre, middle = left + width / 2, top + height / 2 + (-4 if note else 4)
    return (
        f'<rect class="marble-box" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="6"/>'
        + _text(text[2:-2], centre, middle, "marble-operator", "middle")
        + (_text(note, centre, middle + LINE - 1, "marble-note", "middle") if note else "")
    )


def _text(text: str, at: float, y: float, name: str, anchor: str = "start") -> str:
    return f'<text class="{name}" x="{at:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
