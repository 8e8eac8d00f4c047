"""What the pages say about the repository is so: links, commands, the program on the first page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rxworker.providers import PROVIDERS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def anchors(text: str) -> set[str]:
    """The names of a page's headings, as links call them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}


def dead_links(page: Path) -> Iterator[str]:
    """The links of a page to what the repository does not have."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith("http"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        exists = target.exists()
        if not exists or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            yield link


def test_links_lead_somewhere() -> None:
    found = {str(page.relative_to(ROOT)): [*dead_links(page)] for page in PAGES}
    assert {page: links for page, links in found.items() if links} == {}


def test_every_page_is_in_the_index_or_linked_from_a_page_that_is() -> None:
    linked = {ROOT / "README.md", ROOT / "docs" / "index.md"}
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#\s]+\.md)", page.read_text(encoding="utf-8")):
            linked.add((page.parent / link).resolve())
    # What is coming is a file for each change, and no page: the changelog speaks of their folder.
    changes = ROOT / "docs" / "changes"
    pages = [page for page in PAGES if page.parent != changes or page.name == "README.md"]
    assert [page for page in pages if page not in linked] == []


@pytest.mark.parametrize("mark", ["run-command", "test-command"])
def test_a_command_is_one_line_behind_its_mark(mark: str) -> None:
    found = re.findall(rf"^<!-- {mark} -->\n```\w*\n(.*?)^```$", README, re.M | re.S)
    assert len(found) == 1
    assert found[0].count("\n") == 1


def test_the_program_on_the_first_page_is_the_example() -> None:
    example = (ROOT / "examples" / "weather.py").read_text(encoding="utf-8")
    program = re.search(r"```python\n(.*?)^```$", README, re.M | re.S)
    assert program is not None
    body = example[example.index("import asyncio") :]
    guarded = 'if __name__ == "__main__":\n    asyncio.run(main())\n'
    assert program[1] == body.replace(guarded, "asyncio.run(main())\n")


def test_pages_for_users_of_other_libraries_have_versions_a_date_and_the_program_of_one_page() -> None:
    for page in (ROOT / "docs" / "coming-from").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        if page.stem == "with-rxworker":
            assert len(re.findall(r"^```python$", text, re.M)) == 1
            continue
        head = text.partition("## ")[0]
        assert re.search(r"\d+\.\d+\.\d+.* on \d+ \w+ 20\d\d", head), page.name
        assert ("](with-rxworker.md)" in text) is (page.stem != "usechat")  # the page of useChat has a server


def test_every_example_is_named_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert [p.name for p in sorted((ROOT / "examples").glob("*.py")) if p.name not in index] == []


def test_every_provider_is_on_the_page_about_them() -> None:
    page = (ROOT / "docs" / "how-to" / "providers-and-keys.md").read_text(encoding="utf-8")
    assert [p.__name__ for p in PROVIDERS.values() if f"`{p.__name__}(" not in page] == []


def test_each_operator_has_a_drawing_and_a_place_in_the_tree_of_questions() -> None:
    page = (ROOT / "docs" / "reference" / "operators.md").read_text(encoding="utf-8")
    drawn = re.findall(r"^### (\w+)\n(?:(?!^##).*\n)*?\[ \1\(", page, re.M)
    assert drawn == re.findall(r"^### (\w+)$", page, re.M)
    tree = re.search(r"^## Which one do I need\n((?:(?!^##).*\n)*)", page, re.M)
    assert tree is not None
    assert sorted(set(re.findall(r"\]\(#(\w+)\)", tree[1]))) == sorted(drawn)
