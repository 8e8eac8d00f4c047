"""Pages, examples and docstrings name models that are served: those of the table whose end is not announced."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rxworker.providers.models import DATED, MODELS

ROOT = Path(__file__).parents[2]
# Names as the vendors write them, of models that only they serve.
NAME = re.compile(
    r"(?<![\w-])(?:claude-[a-z]+-?\d[\w.@-]*|(?:chat)?gpt-\d[\w.-]*|gemini-\d[\w.-]*|deepseek-[\w.-]+|o[134](?:-mini|-pro)?(?![\w-]))"
)
TABLE = ROOT / "rxworker" / "providers" / "models.py"
SUFFIXES = (".md", ".py", ".tsx", ".html")


# The changes and the changelog are of their time.
OTHERS = {"changes", "node_modules", "changelog.md"}


def files() -> Iterator[Path]:
    yield ROOT / "README.md"
    for folder in ("docs", "examples", "rxworker"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and path != TABLE and OTHERS.isdisjoint(path.parts):
                yield path


def problem(name: str) -> str | None:
    """Why a page should not name a model."""
    rows = [row for row in MODELS if row.matches(name)]
    if not rows:
        return "is not in the table"
    until = rows[0].until
    return None if until is None else f"is served until {until}"


def problems(text: str) -> dict[str, str]:
    names = {found[0].rstrip(".-") for found in NAME.finditer(text)}
    return {name: wrong for name in names if (wrong := problem(name))}


def test_no_page_example_or_docstring_names_a_model_that_ends_or_is_not_known() -> None:
    paths = list(files())
    assert len(paths) > 400
    found = {path: problems(path.read_text(encoding="utf-8")) for path in paths}
    assert {str(path.relative_to(ROOT)): wrong for path, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('Anthropic("claude-sonnet-4-5")', "claude-sonnet-4-5"),
        ("for example ``gpt-5``.", "gpt-5"),
        ("`gpt-4.1-mini` and others", "gpt-4.1-mini"),
        ('"gemini-2.5-flash"', "gemini-2.5-flash"),
        ('OpenAIChat("o3")', "o3"),
        ("claude-sonnet-99", "claude-sonnet-99"),
        ("deepseek-chat", "deepseek-chat"),
    ],
)
def test_a_name_that_ends_or_is_not_known_is_found(text: str, name: str) -> None:
    assert set(problems(text)) == {name}


def test_each_vendor_has_a_model_to_name() -> None:
    assert DATED
    named = {row.vendor for row in MODELS if row.until is None}
    assert named == {row.vendor for row in MODELS}
