"""Sections of a lane's widget: growing text, growing Markdown, and lines with styles. Long sections are folded.

Theory of operation. Lines are filled greedily, so a line that was wrapped does not change when text is appended: only
the last line is open. Appending therefore costs the new text and one line, however long the text is. When the width
changes, all lines are wrapped again.

Markdown hides nothing: HTML is shown as text, and links are shown with their addresses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import ClassVar, TypeAlias

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.table import Table
from rich.theme import Theme

from rxworker.ui.describe import plural

NARROWEST = 4

_WORDS = re.compile(r"\S+ *| +")


def wrap(paragraph: str, width: int) -> list[str]:
    """Return the lines of a text without line breaks.

    >>> wrap("to be or not", 10)
    ['to be or ', 'not']
    """
    if _cells(paragraph) <= width:
        return [paragraph]
    lines: list[str] = []
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
    return [*lines, line]


def _cells(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)


MAX = 100_000
"""Maximum number of characters of a text that is rendered as Markdown."""

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
        yield Syntax(str(self.text).rstrip(), self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 2))


class _Table(TableElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in super().__rich_console__(console, options):
            if isinstance(part, Table):
                part.show_edge = False  # the edge would be an empty line above and below
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
    """Whether a text looks like Markdown and is short enough to be rendered.

    >>> is_document("It **is** so."), is_document("It is so.")
    (True, False)
    """
    return len(text) <= MAX and _MARKS.search(text) is not None


def parse(text: str, names: dict[str, object] | None = None) -> list[Token]:
    """Parse Markdown.

    Args:
        text: The text.
        names: The link definitions that were found so far; new ones are added.
    """
    # The renderer drops HTML; show it as text.
    parser = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").enable("table")
    return parser.parse(text, {} if names is None else names)


def draw_document(
    text: str, console: Console, width: int, *, is_dark: bool, names: dict[str, object] | None = None
) -> list[list[Segment]]:
    """Render Markdown text into lines of segments.

    Args:
        text: Clean text.
        console: Renders the text.
        width: Columns.
        is_dark: Whether the background is dark.
        names: The link definitions that were found so far; new ones are added.
    """
    document = _Document("", code_theme="ansi_dark" if is_dark else "ansi_light", hyperlinks=False)
    document.parsed = parse(text, names)
    options = console.options.update(width=max(8, width), height=None)
    with console.use_theme(_STYLES):
        rows = console.render_lines(document, options, pad=False)
    while rows and not "".join(segment.text for segment in rows[-1]).strip():
        rows.pop()
    while rows and not "".join(segment.text for segment in rows[0]).strip():
        rows.pop(0)
    return rows


Paint: TypeAlias = Callable[[str], Style]
"""Returns the style of a name."""


class TextSection:
    r"""Text that may grow, or lines with a style each, such as a diff.

    Args:
        style: The name of the style of text.
        limit: The number of lines that are shown while it is folded; ``None`` shows all.
        from_end: Whether these are the last lines, for a text that is still growing.

    Attributes:
        lines: The names of the styles of the lines, and the lines; read only.
        document: The text as Markdown, which is shown in place of all lines, if it is set.

    >>> section = TextSection("body", limit=2)
    >>> section.append("one\ntwo\nthr")
    >>> section.append("ee\nfour")
    >>> [line for _, line in section.lines], section.height(unfolded=False), section.hidden
    (['one', 'two', 'three', 'four'], 3, 2)
    """

    def __init__(self, style: str, *, limit: int | None = None, from_end: bool = False) -> None:
        self.lines: list[tuple[str, str]] = []
        self.document: DocumentSection | None = None
        self.limit = limit
        self.from_end = from_end
        self._style = style
        self._width = 80
        self._pieces: list[tuple[str, str]] = []
        self._length = 0

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(piece for _, piece in self._pieces)

    def append(self, piece: str, style: str = "") -> None:
        """Append text, or a line with a style. It must be clean, see `clean`."""
        if not piece and not style:
            return
        self._pieces.append((style, piece))
        self._length += len(piece)
        if self._length > MAX:
            self.document = None  # to lay it out anew for another width would take too long
        elif self.document is not None:
            self.document.append(piece)
        self._wrap(style, piece)

    def replace(self, pieces: Iterable[tuple[str, str]]) -> None:
        """Replace everything by lines, each with the name of its style before it; empty for text."""
        self.lines, self._pieces, self._length = [], [], 0
        for style, piece in pieces:
            self.append(piece, style)

    def resize(self, width: int) -> None:
        """Lay out for this width."""
        width = max(NARROWEST, width)
        if width != self._width:
            self._width, self.lines = width, []
            for style, piece in self._pieces:
                self._wrap(style, piece)
        if self.document is not None:
            self.document.resize(width)

    def _wrap(self, style: str, piece: str) -> None:
        opened = self.lines.pop()[1] if self.lines and not style else ""
        for paragraph in (opened + piece.replace("\t", "    ")).split("\n"):
            self.lines += [(style or self._style, line) for line in wrap(paragraph, self._width)]

    @property
    def hidden(self) -> int:
        """The number of lines that are hidden while it is folded."""
        limit = self.limit
        return 0 if limit is None else max(0, len(self.lines) - limit)

    def height(self, *, unfolded: bool) -> int:
        """Return the number of lines.

        The last line of a folded section shows how many lines are hidden, unless all are.
        """
        lines, hidden = len(self.lines), self.hidden
        if unfolded or not hidden:
            return lines if self.document is None else len(self.document.rows)
        return lines - hidden + (not self.from_end and self.limit != 0)

    def row(self, place: int, paint: Paint, *, unfolded: bool) -> list[Segment]:
        """Render one line."""
        hidden = 0 if unfolded else self.hidden
        if self.document is not None and not hidden:
            body = paint("body")
            return [Segment(text, body + (style or Style())) for text, style, _ in self.document.rows[place]]
        if hidden and not self.from_end and place == self.limit:
            style, line = "more", f"… {plural(hidden, 'more line')}"
        else:
            style, line = self.lines[place + hidden if self.from_end else place]
            if style != self._style:
                line = set_cell_size(line, self._width)  # such a style may have a background
        return [Segment(line, paint(style))]


EAGER = 2000
"""Characters of an open block up to which it is rendered with each addition.

A longer one when it has grown by a sixteenth.
"""


class DocumentSection:
    """Markdown that may grow.

    A block of it is rendered once when the next block begins; only the last one is rendered again when it grows.

    Args:
        text: The Markdown.
        console: Renders the text.
        is_dark: Whether the background is dark.

    Attributes:
        rows: The rendered lines.
    """

    def __init__(self, text: str, console: Console, *, is_dark: bool) -> None:
        self._console, self._is_dark = console, is_dark
        self._width = 0
        self.rows: list[list[Segment]] = []
        self._closed: list[str] = []
        self._tail = text
        self._more: list[str] = []
        self._size = self._drawn = 0
        self._names: dict[str, object] = {}  # link definitions, also for later blocks
        self._closed_rows: list[list[Segment]] = []

    def append(self, piece: str, *, is_last: bool = False) -> None:
        """Append text.

        Args:
            piece: Clean text.
            is_last: Whether the text is complete.
        """
        self._more.append(piece)
        self._size += len(piece)
        if is_last or self._size * 16 >= self._drawn or self._drawn < EAGER:
            self._draw()

    def resize(self, width: int) -> None:
        """Lay out for this width."""
        if width != self._width:
            self._width = width
            self._tail = "".join([*self._closed, self._tail])
            self._closed, self._closed_rows = [], []
            self._draw()

    def _draw(self) -> None:
        if not self._width:
            return
        self._tail += "".join(self._more)
        self._more, self._size, self._drawn = [], 0, 0
        blocks = [token.map[0] for token in parse(self._tail, deepcopy(self._names)) if token.map and not token.level]
        if len(blocks) > 1:
            lines = self._tail.splitlines(keepends=True)
            closed = "".join(lines[: blocks[-1]])
            self._closed.append(closed)
            self._tail = "".join(lines[blocks[-1] :])
            self._closed_rows = _joined(self._closed_rows, self._rendered(closed, self._names))
        self._drawn = len(self._tail)
        # A definition at the end may still grow, and the first one of a name counts.
        self.rows = _joined(self._closed_rows, self._rendered(self._tail, deepcopy(self._names)))

    def _rendered(self, text: str, names: dict[str, object]) -> list[list[Segment]]:
        return draw_document(text, self._console, self._width, is_dark=self._is_dark, names=names)


def _joined(rows: list[list[Segment]], more: list[list[Segment]]) -> list[list[Segment]]:
    """The rows with more below them, after an empty line."""
    return [*rows, [], *more] if rows and more else [*rows, *more]
