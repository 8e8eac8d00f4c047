"""The site.

Every page stands in its navigation, links are changed to what the site shows, and the check of its links finds what is
broken.
"""

from __future__ import annotations

import importlib
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import api_pages
import links
import rxworker.operators
import site_pages
from rxworker.cli.docs import OF_CONTRIBUTORS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return site_pages.pages()


def listed(nav: site_pages.Nav) -> Iterator[str]:
    """The pages of a navigation."""
    if isinstance(nav, str):
        yield nav
    else:
        for item in nav.values() if isinstance(nav, dict) else nav:
            yield from listed(item)


def test_every_page_stands_once_in_the_navigation(pages: dict[str, str]) -> None:
    """It is made of docs/index.md.

    Files of an example in a folder are pages that the list of examples links to; the page of contributors links to
    others for them.
    """
    nav = [page for part in site_pages.nav() for page in listed(part)]
    inner = {path for path in pages if path.startswith("examples/") and path.count("/") > 1}
    others = {f"{name}.md" for name in OF_CONTRIBUTORS}
    assert sorted(set(pages) - inner - others - set(nav)) == [], "pages without a link in docs/index.md"
    assert sorted(set(nav) - set(pages)) == []
    assert len(set(nav)) == len(nav)
    assert [p for p in inner if p.removeprefix("examples/") not in pages["examples/index.md"]] == []


def test_the_navigation_has_the_rooms_and_groups_of_the_index() -> None:
    rooms = {title: part for room in site_pages.nav() for title, part in room.items()}
    assert " ".join(rooms) == "Start Tutorial Questions How to Reference API Explanation Examples Project"
    assert rooms["Tutorial"] == ["tutorial/first-worker.md"]
    assert "{'Tools': ['how-to/tools.md', 'how-to/mcp.md'" in str(rooms["How to"])
    assert "{'operators': 'api/rxworker.operators.md'}" in str(rooms["API"])


def test_the_api_reference_has_the_names_of_a_package_in_its_order_and_groups() -> None:
    text = api_pages.page("rxworker.operators")
    found = re.findall(r"^::: rxworker\.operators\.(\w+)", text, re.M)
    assert found == rxworker.operators.__all__
    assert "## Choosing\n" in text


def test_every_public_name_is_described_once() -> None:
    described = re.findall(r"^::: (\S+)$", "\n".join(api_pages.pages().values()), re.M)
    assert len(set(described)) == len(described)
    assert set(api_pages.anchors().values()) | set(api_pages.modules()) == set(described)
    for module in set(api_pages.modules()) - set(api_pages.MODULES):
        assert api_pages.names(module) == importlib.import_module(module).__all__


def test_every_public_name_has_a_docstring_also_a_constant_and_an_alias() -> None:
    assert [name for name in api_pages.homes() if not api_pages.summary(name)] == []


def test_names_in_code_lead_to_the_api_where_they_are_mentioned_first() -> None:
    linker = api_pages.Linker(["a.One", "a.Two", "b.Two", "a.word", "a.two_words"])
    page = "# `One`\n`One` `One` `Two` `word` [`two_words`](x) `two_words` `a.One`\n```\n`One`\n```\n"
    assert linker(page) == (
        "# `One`\n[`One`][a.One] `One` `Two` `word` [`two_words`](x) [`two_words`][a.two_words] "
        "[`a.One`][a.One]\n```\n`One`\n```\n"
    )
    assert linker("`One`", "a.One") == "`One`"


def test_links_to_files_of_the_repository_lead_to_their_pages(pages: dict[str, str]) -> None:
    assert "](../examples/deploy/Containerfile.md)" in pages["how-to/deploy.md"]
    assert "](how-to/watch-a-run.md)" in pages["index.md"]
    assert "](contents.md)" in pages["index.md"]
    assert "From [`rxworker.operators`][rxworker.operators]." in pages["reference/operators.md"]
    assert "from rxworker import Worker" in pages["examples/weather.py.md"]
    with pytest.raises(ValueError, match=r"does not show pyproject\.toml"):
        site_pages.place(ROOT / "pyproject.toml")


def test_the_links_between_pages_lead_to_pages(pages: dict[str, str]) -> None:
    """The build checks the HTML, with its anchors; this needs no build."""
    for path, text in pages.items():
        for link in re.findall(r"\]\(([^)#:\s]+\.md)[)#]", site_pages.FENCE.sub("", text)):
            assert posixpath.normpath(posixpath.join(posixpath.dirname(path), link)) in pages, path


def test_the_changelog_has_every_fragment(pages: dict[str, str]) -> None:
    fragments = [p for p in (ROOT / "docs" / "changes").glob("*.md") if p.name != "README.md"]
    assert re.split(r"^## \d", pages["changelog.md"], flags=re.M)[0].count("\n- ") == len(fragments)


def test_the_check_finds_broken_links_and_resources_of_other_hosts(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "index.html").write_text('<h1 id="here">')
    (tmp_path / "index.html").write_text(
        '<a href="a/#here"></a><a href="a/#gone"></a><a href="b/"></a><a href="#top"></a>'
        '<img src="gone.png"><script src="https://cdn.example/x.js"></script>'
        '<a href="https://example.org/"></a><a href="/a/"></a><link href="data:,x" rel="icon">'
    )
    assert links.broken(tmp_path) == [
        "index.html: no such anchor: a/#gone",
        "index.html: no such file: b/",
        "index.html: no such anchor: #top",
        "index.html: no such file: gone.png",
        "index.html: loads from another host: https://cdn.example/x.js",
    ]
