"""The pages for users stay short enough to be read."""

from __future__ import annotations

from pathlib import Path

from rxworker.cli.docs import docs_folder, user_pages

MAX_WORDS = 90_000


def words_by_page(folder: Path) -> dict[str, int]:
    """The words of each page that users read and search, as ``wc -w`` counts them: code and the bars of tables too."""
    pages = ["index", *user_pages(folder)]
    return {page: len((folder / f"{page}.md").read_text(encoding="utf-8").split()) for page in pages}


def test_the_pages_for_users_have_few_words() -> None:
    """What is said twice is said once. Decisions, measurements and changes are for those who change the library."""
    words = words_by_page(docs_folder())
    assert sum(words.values()) <= MAX_WORDS, sorted(words.items(), key=lambda each: -each[1])[:12]


def test_pages_of_contributors_are_not_counted(tmp_path: Path) -> None:
    (tmp_path / "index.md").write_text("[a](a.md) | b\n", encoding="utf-8")
    (tmp_path / "a.md").write_text("one two\n", encoding="utf-8")
    (tmp_path / "contributing.md").write_text("three\n", encoding="utf-8")
    assert words_by_page(tmp_path) == {"index": 3, "a": 2}
