"""A part of a lane's picture: text that grows, or a document that is drawn once. Long ones are folded.

Text that grows at its end, broken into the lines of a screen. Pure.

Theory of operation. Lines are filled greedily, so a line that was broken off can never change again by what comes behind
it: only the last line is open. Adding text therefore costs what is added and one line, however long the text is. When
the width changes, everything is broken anew.

Markdown of a model as rows of a screen. Nothing of it is hidden: HTML is shown as it stands, and links with their addresses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import ClassVar, Protocol, TypeAlias

from markdown_it import MarkdownIt
from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.table import Table
from rich.theme import Theme

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


MOST = 40_000
"""Characters of a text that is drawn as Markdown; a longer one stays as it is."""

_MARKS = re.compile(r"[*_`#|>\[~]|^\s*(?:[-+]|\d+[.)])\s", re.MULTILINE)
_STYLES = Theme(
    {
        "markdown.h1": "bold underline",
        "markdown.h2": "bold underline",
        "markdown.h3": "bold",
        "markdown.h4": "bold italic",
        "markdown.code": "bold",
        "markdown.item.bullet": "bold",
        "markdown.item.number": "bold",
        "markdown.link": "underline",
        "markdown.link_url": "underline dim",
        "markdown.block_quote": "italic",
        "markdown.hr": "dim",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    }
)


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}


class _Code(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        yield Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 2))


class _Table(TableElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in super().__rich_console__(console, options):
            if isinstance(part, Table):
                part.show_edge = False  # it would be an empty row above, and one below
            yield part


class _Document(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
        "table_open": _Table,
    }


def is_document(text: str) -> bool:
    """Whether a text looks like Markdown, and is short enough to be drawn as such.

    >>> is_document("It **is** so."), is_document("It is so.")
    (True, False)
    """
    return len(text) <= MOST and _MARKS.search(text) is not None


def draw_document(text: str, console: Console, width: int, *, is_dark: bool) -> list[list[Segment]]:
    """The rows of a Markdown text.

    Args:
        text: The text, clean.
        console: Draws it.
        width: Columns.
        is_dark: Whether the background is dark.
    """
    document = _Document("", code_theme="ansi_dark" if is_dark else "ansi_light", hyperlinks=False)
    # HTML would be swallowed; as text it is shown.
    parser = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").enable("table")
    document.parsed = parser.parse(text)
    options = console.options.update(width=max(8, width), height=None)
    with console.use_theme(_STYLES):
        rows = console.render_lines(document, options, pad=False)
    while rows and not "".join(segment.text for segment in rows[-1]).strip():
        rows.pop()
    while rows and not "".join(segment.text for segment in rows[0]).strip():
        rows.pop(0)
    return rows


Paint: TypeAlias = Callable[[str], Style]
"""From the name of a style to the style."""


class Section(Protocol):
    """Knows how many rows it has at a width, and each of them."""

    def resize(self, width: int) -> None:
        """Lay out for this width."""
        ...

    def height(self, *, unfolded: bool) -> int:
        """How many rows it has."""
        ...

    def row(self, place: int, paint: Paint, *, unfolded: bool) -> list[Segment]:
        """One of them."""
        ...


class TextSection:
    r"""Text that may grow.

    Args:
        style: The name of its style.
        limit: How many lines are shown while it is folded; ``None``: all.
        from_end: Whether these are the last ones, of a text that is being written.
        indent: How many columns it stands to the right.

    Attributes:
        text: The text.

    >>> section = TextSection("body", limit=2)
    >>> section.text.append("one\ntwo\nthree\nfour")
    >>> section.height(unfolded=False), section.hidden
    (3, 2)
    """

    def __init__(
        self, style: str, *, limit: int | None = None, from_end: bool = False, indent: int = 0
    ) -> None:
        self.text = WrappedText()
        self.limit = limit
        self.from_end = from_end
        self._style = style
        self._indent = indent

    @property
    def hidden(self) -> int:
        """How many lines are not shown while it is folded."""
        limit = self.limit
        return 0 if limit is None else max(0, len(self.text.lines) - limit)

    def resize(self, width: int) -> None:
        """Lay out for this width."""
        self.text.resize(width - self._indent)

    def height(self, *, unfolded: bool) -> int:
        """How many rows it has: of a folded one, the last row says how much is hidden, unless all is."""
        lines, hidden = len(self.text.lines), self.hidden
        if unfolded or not hidden:
            return lines
        return lines - hidden + (not self.from_end and self.limit != 0)

    def row(self, place: int, paint: Paint, *, unfolded: bool) -> list[Segment]:
        """One of its rows."""
        hidden, lines = self.hidden, self.text.lines
        folded = hidden > 0 and not unfolded
        if folded and not self.from_end and place == self.limit:
            return [self._space(paint), Segment(f"… {more_lines(hidden)}", paint("more"))]
        line = lines[place + hidden] if folded and self.from_end else lines[place]
        return [self._space(paint), Segment(line, paint(self._style))]

    def _space(self, paint: Paint) -> Segment:
        return Segment(" " * self._indent, paint(self._style))


class DocumentSection:
    """Markdown, drawn when it is complete.

    Args:
        text: The Markdown.
        console: Draws it.
        is_dark: Whether the background is dark.
    """

    def __init__(self, text: str, console: Console, *, is_dark: bool) -> None:
        self._text, self._console, self._is_dark = text, console, is_dark
        self._width = 0
        self._rows: list[list[Segment]] = []

    def resize(self, width: int) -> None:
        """Lay out for this width."""
        if width != self._width:
            self._width = width
            self._rows = draw_document(self._text, self._console, width, is_dark=self._is_dark)

    def height(self, *, unfolded: bool) -> int:  # noqa: ARG002 - an answer is shown whole
        """How many rows it has."""
        return len(self._rows)

    def row(self, place: int, paint: Paint, *, unfolded: bool) -> list[Segment]:  # noqa: ARG002
        """One of its rows."""
        body = paint("body")
        return [Segment(text, body + (style or Style())) for text, style, _ in self._rows[place]]


def more_lines(number: int) -> str:
    """How much is hidden, in words.

    >>> more_lines(1), more_lines(1200)
    ('1 more line', '1,200 more lines')
    """
    return f"{number:,} more line{'' if number == 1 else 's'}"


def total_height(sections: Iterable[Section], *, unfolded: bool) -> int:
    """The rows of all of them."""
    return sum(section.height(unfolded=unfolded) for section in sections)
