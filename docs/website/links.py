"""Checks of a built site: every link leads somewhere, and no page loads anything from another host."""

from __future__ import annotations

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADING = {("link", "href"), ("script", "src"), ("img", "src"), ("source", "src"), ("iframe", "src")}


class Page(HTMLParser):
    """The links of a page, and the names that links may have behind ``#``."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[tuple[str, bool]] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the attributes that name and link."""
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.names.add(value)
            elif (tag, name) in LOADING:
                self.links.append((value, True))
            elif name == "href":
                self.links.append((value, False))


@cache
def read(path: Path) -> Page:
    """A page, parsed."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def pages(site: Path) -> list[Path]:
    """The pages of a site. That of an example such as ``agui.html`` is in a folder of this name."""
    return [path for path in sorted(site.rglob("*.html")) if path.is_file()]


def broken(site: Path) -> list[str]:
    """A line for each link that leads nowhere, and for each resource of another host."""
    return [
        f"{path.relative_to(site)}: {problem}: {link}"
        for path in pages(site)
        for link, loads in read(path).links
        if (problem := _problem(site, path, link, loads)) is not None
    ]


def _problem(site: Path, path: Path, link: str, loads: bool) -> str | None:
    parts = urlsplit(link)
    if parts.scheme == "data":
        return None
    if parts.scheme or parts.netloc:
        return "loads from another host" if loads else None
    folder = site if parts.path.startswith("/") else path.parent
    target = (folder / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return "no such file"
    if parts.fragment and target.suffix == ".html":
        names = read(target).names
        if parts.fragment not in names and unquote(parts.fragment) not in names:
            return "no such anchor"
    return None
