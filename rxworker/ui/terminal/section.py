"""Sections of a lane's widget: growing text, and Markdown that is rendered once. Long sections are folded.

Theory of operation. Lines are filled greedily, so a line that was wrapped does not change when text is appended: only the
last line is open. Appending therefore costs the new text and one line, however long the text is. When the width changes, all
lines are wrapped again.

Markdown hides nothing: HTML is shown as text, and links are shown with their addresses.
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
    r"""A text wrapped into lines.

    Args:
        width: The columns of a line.

    Attributes:
        lines: The lines; read only.

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
        """The whole text."""
        return "".join(self._pieces)

    @property
    def is_empty(self) -> bool:
        """Whether there is no text."""
        return not self._pieces

    def append(self, piece: str) -> None:
        """Append text, which must be clean, see `clean`."""
        if piece:
            self._pieces.append(piece)
            self._break(piece)

    def replace(self, text: str) -> None:
        """Replace the whole text."""
        self._pieces.clear()
        self.lines.clear()
        self.append(text)

    def resize(self, width: int) -> None:
        """Wrap the text for lines of this width."""
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
        code = str(self.text).rstrip()
        yield Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 2))


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
    return len(text) <= MOST and _MARKS.search(text) is not None


def draw_document(text: str, console: Console, width: int, *, is_dark: bool) -> list[list[Segment]]:
    """Render Markdown text into lines of segments.

    Args:
        text: Clean text.
        console: Renders the text.
        width: Columns.
        is_dark: Whether the background is dark.
    """
    document = _Document("", code_theme="ansi_dark" if is_dark else "ansi_light", hyperlinks=False)
    # The renderer drops HTML; show it as text.
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
"""Returns the style of a name."""


class Section(Protocol):
    """Has a number of lines at a width, and renders each of them."""

    def resize(self, width: int) -> None:
        """Lay out for this width."""
        ...

    def height(self, *, unfolded: bool) -> int:
        """Return the number of lines."""
        ...

    def row(self, place: int, paint: Paint, *, unfolded: bool) -> list[Segment]:
        """Render one line."""
        ...


class TextSection:
    r"""Text that may grow.

    Args:
        style: The name of its style.
        limit: The number of lines that are shown while it is folded; ``None`` shows all.
        from_end: Whether these are the last lines, for a text that is still growing.
        indent: The columns of indentation.

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
        """The number of lines that are hidden while it is folded."""
        limit = self.limit
        return 0 if limit is None else max(0, len(self.text.lines) - limit)

    def resize(self, width: int) -> None:
        """Lay out for this width."""
        self.text.resize(width - self._indent)

    def height(self, *, unfolded: bool) -> int:
        """Return the number of lines. The last line of a folded section shows how many lines are hidden, unless all are."""
        lines, hidden = len(self.text.lines), self.hidden
        if unfolded or not hidden:
            return lines
        return lines - hidden + (not self.from_end and self.limit != 0)

    def row(self, place: int, paint: Paint, *, unfolded: bool) -> list[Segment]:
        """Render one line."""
        hidden, lines = self.hidden, self.text.lines
        folded = hidden > 0 and not unfolded
        if folded and not self.from_end and place == self.limit:
            return [self._space(paint), Segment(f"… {more_lines(hidden)}", paint("more"))]
        line = lines[place + hidden] if folded and self.from_end else lines[place]
        return [self._space(paint), Segment(line, paint(self._style))]

    def _space(self, paint: Paint) -> Segment:
        return Segment(" " * self._indent, paint(self._style))


class DocumentSection:
    """Markdown, rendered when it is complete.

    Args:
        text: The Markdown.
        console: Renders the text.
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
        """Return the number of lines."""
        return len(self._rows)

    def row(self, place: int, paint: Paint, *, unfolded: bool) -> list[Segment]:  # noqa: ARG002
        """Render one line."""
        body = paint("body")
        return [Segment(text, body + (style or Style())) for text, style, _ in self._rows[place]]


def more_lines(number: int) -> str:
    """Return the number of hidden lines in words.

    >>> more_lines(1), more_lines(1200)
    ('1 more line', '1,200 more lines')
    """
    return f"{number:,} more line{'' if number == 1 else 's'}"


def total_height(sections: Iterable[Section], *, unfolded: bool) -> int:
    """Return the number of lines of all sections."""
    return sum(section.height(unfolded=unfolded) for section in sections)
