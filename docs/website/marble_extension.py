"""An extension of Python-Markdown for what pages and docstrings draw and try.

Marble drawings become SVG, and doctests code.

Drawings are in ``text`` fences of pages, and indented in docstrings.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownParameterType=false
# pyright: reportMissingTypeArgument=false, reportUnknownVariableType=false, reportUntypedBaseClass=false

from __future__ import annotations

import re
from textwrap import dedent
from xml.etree import ElementTree

from markdown import Markdown
from markdown.blockprocessors import BlockProcessor
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor

from marble import is_drawing, svg

FENCE = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOCTEST = re.compile(r"^>>> .*(?:\n(?! *$).*)*", re.MULTILINE)


def figure(text: str) -> str:
    """The drawing with a frame of its own, which scrolls where the page is narrow."""
    return f'<figure class="marble-figure" data-search-exclude>{svg(text)}</figure>'


class Fences(Preprocessor):
    """Replaces fenced drawings before the fences become code."""

    def run(self, lines: list[str]) -> list[str]:
        """Return the lines, with a placeholder for each drawing."""

        def drawn(fence: re.Match[str]) -> str:
            if not is_drawing(fence[1]):
                return fence[0]
            return f"\n{self.md.htmlStash.store(figure(fence[1]))}\n"

        return FENCE.sub(drawn, "\n".join(lines)).split("\n")


class Doctests(Preprocessor):
    """Makes fences of the doctests in the text of a docstring, so that their output is not read as Markdown."""

    def run(self, lines: list[str]) -> list[str]:
        """Return the lines, with a fence around each doctest."""
        return DOCTEST.sub(r"```pycon\n\g<0>\n```", "\n".join(lines)).split("\n")


class Indented(BlockProcessor):
    """Replaces indented drawings before they become code."""

    def test(self, parent: ElementTree.Element, block: str) -> bool:
        """Whether the block is an indented drawing."""
        indented = all(line.startswith("    ") for line in block.split("\n") if line.strip())
        return indented and is_drawing(block)

    def run(self, parent: ElementTree.Element, blocks: list[str]) -> None:
        """Append the drawing to the parent."""
        paragraph = ElementTree.SubElement(parent, "p")
        paragraph.text = self.parser.md.htmlStash.store(figure(dedent(blocks.pop(0))))


class MarbleExtension(Extension):
    """All of them."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Register each before the processor of code that it competes with, and after the normalizer of whitespace."""
        md.preprocessors.register(Doctests(md), "doctests", 29)
        md.preprocessors.register(Fences(md), "marble-fences", 28)
        md.parser.blockprocessors.register(Indented(md.parser), "marble-indented", 85)


def makeExtension(**options: object) -> MarbleExtension:
    """What Python-Markdown calls to load the extension."""
    return MarbleExtension(**options)
