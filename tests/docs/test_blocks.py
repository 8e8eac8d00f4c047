"""Every Python block of the pages runs, and prints what the page says it prints.

The blocks of a page share a namespace, from top to bottom. A ``text`` block right behind a Python block is what that
one prints. ``<!-- no-run: reason -->`` before a block keeps it from being run.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from types import ModuleType

import pytest
from msgspec import Struct

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"^(?P<mark><!-- no-run: .+ -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


class Block(Struct, frozen=True):
    """A Python block.

    Attributes:
        line: Where it begins in the page.
        code: What it says.
        output: What it prints, where the page says so.
        runs: Whether it is run.
    """

    line: int
    code: str
    output: str | None
    runs: bool


def blocks_of(text: str) -> Iterator[Block]:
    """The Python blocks of a page."""
    fences = list(FENCE.finditer(text))
    for fence, behind in zip_longest(fences, fences[1:]):
        if fence["language"] != "python":
            continue
        output = None
        if behind is not None and behind["language"] == "text":
            between = text[fence.end() : behind.start()]
            output = None if between.strip() else behind["text"]
        line = text.count("\n", 0, fence.start("text")) + 1
        yield Block(line, fence["text"], output, fence["mark"] is None)


WITH_BLOCKS = [page for page in PAGES if any(blocks_of(page.read_text(encoding="utf-8")))]


@pytest.fixture
def page_module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module whose code the blocks of a page are."""
    module = ModuleType(f"page_{abs(hash(request.node.name))}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


@pytest.mark.product(2)
@pytest.mark.usefixtures("service")
@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page_run_and_print_what_it_shows(
    page: Path,
    page_module: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks_of(page.read_text(encoding="utf-8")):
        if not block.runs:
            continue
        code = compile("\n" * (block.line - 1) + block.code, str(page), "exec", dont_inherit=True)
        exec(code, page_module.__dict__)  # the pages are ours
        printed = capsys.readouterr()
        assert printed.err == ""
        if block.output is not None:
            assert printed.out == block.output, f"{page.name}, line {block.line}"


def test_few_blocks_are_not_run() -> None:
    kept = [b for page in PAGES for b in blocks_of(page.read_text(encoding="utf-8")) if not b.runs]
    assert len(kept) <= 1


def test_a_block_knows_its_line_its_output_and_whether_it_runs() -> None:
    page = "a\n```python\nx\n```\n\n```text\n1\n```\nb\n<!-- no-run: why -->\n```python\ny\n```\n"
    assert list(blocks_of(page)) == [Block(3, "x\n", "1\n", True), Block(12, "y\n", None, False)]


def test_text_after_other_words_is_not_output() -> None:
    page = "```python\nx\n```\nbut:\n```text\n1\n```\n"
    assert list(blocks_of(page)) == [Block(2, "x\n", None, True)]
