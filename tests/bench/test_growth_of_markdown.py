"""The Markdown of a growing answer in the terminal is parsed from its last block on. Work is counted, not timed."""

from __future__ import annotations

import io

import pytest
from markdown_it.token import Token
from rich.console import Console

from rxworker.ui.terminal import section
from rxworker.ui.terminal.section import DocumentSection, parse


def test_the_cost_of_growing_markdown_is_that_of_its_last_block(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = 0

    def counted(text: str, names: dict[str, object] | None = None) -> list[Token]:
        nonlocal parsed
        parsed += len(text)
        return parse(text, names)

    monkeypatch.setattr(section, "parse", counted)
    grown = DocumentSection("", Console(width=60, file=io.StringIO()), is_dark=True)
    grown.resize(60)
    for n in range(400):
        grown.append(f"- item {n}\n" if n % 20 else f"\nParagraph {n} **x**\n\n")
    assert parsed < 400_000  # from its start each time: 800,000 and more
    parsed = 0
    grown.append("\n```\n")
    for _ in range(2000):
        grown.append("a line of code\n")
    assert parsed < 40 * 30_000  # an open block of 30,000 characters
