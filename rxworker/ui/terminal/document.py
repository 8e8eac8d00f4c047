"""Markdown of a model as rows of a screen. Nothing of it is hidden: HTML is shown as it stands, and links with their addresses."""

from __future__ import annotations

import re
from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.theme import Theme

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


__all__ = ["draw_document", "is_document"]
