"""The Markdown from which the site is made.

The pages of ``docs``, the README as the first page, the examples, the changes, and the API reference.

The pages are read as they are, on a forge and here. What only a site needs is done to a copy: links to files of the
repository lead to their copies, and the fragments of ``changes`` are part of the changelog.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path, PurePosixPath
from typing import TypeAlias

import api_pages
from rxworker.cli.docs import OF_CONTRIBUTORS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LANGUAGES = {".py": "python", ".service": "ini", "": "docker"}
KINDS = {"added": "Added", "changed": "Changed", "fixed": "Fixed", "removed": "Removed"}
BUILT = {"__pycache__", "node_modules", "dist"}
PAGE = re.compile(r"\]\(([^)#:]+\.md)\)")
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:)([^)#\s]+)")
Nav: TypeAlias = "str | list[Nav] | dict[str, Nav]"
EXAMPLES = [path for path in sorted((ROOT / "examples").rglob("*")) if path.is_file() and not BUILT & set(path.parts)]


def pages() -> dict[str, str]:
    """The text of each page of the site, by its path."""
    found = {"index.md": home()}
    linker = api_pages.Linker([*api_pages.anchors().values(), *api_pages.modules()])
    for path in sorted(DOCS.rglob("*.md")):
        if DOCS / "changes" not in path.parents:
            found[place(path)] = linker(linked(path))
    for name in OF_CONTRIBUTORS:
        found[f"{name}.md"] = f"---\nsearch:\n  exclude: true\n---\n\n{found[f'{name}.md']}"
    found["changelog.md"] = changelog(found["changelog.md"])
    found["examples/index.md"] = examples()
    for path in EXAMPLES:
        found[place(path)] = example(path)
    return found | api_pages.pages()


def nav() -> list[dict[str, Nav]]:
    """The navigation: what docs/index.md links to, by its headings, and a page for each package."""
    found: list[dict[str, Nav]] = [{"Start": ["index.md", {"All pages": "contents.md"}]}]
    seen: set[str] = set()
    for title, text in sections(linked(DOCS / "index.md"), "## ")[1:]:
        pages: list[Nav] = []
        for group, part in sections(text, "### "):
            links: list[Nav] = [page for page in dict.fromkeys(PAGE.findall(part)) if page not in seen]
            seen.update(PAGE.findall(part))
            pages.extend([{group: links}] if group else links)
        found.append({title: pages})
        if title == "Reference":
            shown = {module.partition(".")[2] or module: module for module in api_pages.modules()}
            found.append({"API": [{name: f"api/{shown[name]}.md"} for name in shown]})
    return found


def sections(text: str, mark: str) -> list[tuple[str, str]]:
    """The headings of a level and the text below each, after the text before the first one."""
    before, *parts = re.split(rf"^{mark}", text, flags=re.MULTILINE)
    found = [(title, body) for title, _, body in (part.partition("\n") for part in parts)]
    return [("", before), *found]


def place(path: Path) -> str:
    """Where the site shows a file of the repository."""
    relative = path.relative_to(ROOT)
    if relative == Path("README.md"):
        return "index.md"
    if relative == Path("docs/index.md"):
        return "contents.md"
    if relative in (Path("docs/changes/README.md"), Path("docs/changes")):
        return "changelog.md"
    if relative.parts[0] == "examples":
        if path.is_dir():
            return "examples/index.md"
        return f"{relative.as_posix()}.md"
    if relative.parts[0] == "docs" and path.is_file():
        return relative.relative_to("docs").as_posix()
    raise ValueError(f"the site does not show {relative}")


def linked(path: Path, shown: str | None = None) -> str:
    """The text of a file, its links changed to where the site shows their targets, for the page that shows it."""
    here = PurePosixPath(shown or place(path)).parent

    def changed(link: re.Match[str]) -> str:
        target = place((path.parent / link[1]).resolve())
        return PurePosixPath(os.path.relpath(target, here)).as_posix()

    parts = FENCE.split(path.read_text(encoding="utf-8"))
    return "".join(part if part.startswith("```") else LINK.sub(changed, part) for part in parts)


def home() -> str:
    """The first page: the README, with ways into the rooms below its picture."""
    text = linked(ROOT / "README.md")
    title, _, rest = text.partition("\n\n")
    assert title == "# rxworker"
    hero = (DOCS / "website" / "home.html").read_text(encoding="utf-8")
    return f"---\nhide: [navigation, toc]\n---\n\n{hero}\n\n{rest}"


def examples() -> str:
    """The list of the examples, with the first sentence of each program."""
    rows = [
        (
            "- "
            f"[{path.relative_to(ROOT / 'examples').as_posix()}]"
            f"({place(path).removeprefix('examples/')}){described(path)}"
        )
        for path in EXAMPLES
    ]
    return "# Examples\n\nEach program runs in the test suite.\n\n" + "\n".join(rows) + "\n"


def described(path: Path) -> str:
    """The first sentence of a program's docstring."""
    found = re.match(r'"""(.+?)(?:"""|\n\n)', path.read_text(encoding="utf-8"), re.DOTALL)
    return f": {' '.join(found[1].split())}" if found else ""


def example(path: Path) -> str:
    """A page that shows a file."""
    name = path.relative_to(ROOT / "examples").as_posix()
    if path.suffix == ".ipynb":
        return f"# {name}\n\n" + notebook(path)
    text = path.read_text(encoding="utf-8").rstrip()
    return f"# {name}\n\n```{LANGUAGES.get(path.suffix, path.suffix[1:])}\n{text}\n```\n"


def notebook(path: Path) -> str:
    """The cells of a notebook."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts: list[str] = []
    for cell in cells:
        text = "".join(cell["source"])
        code = cell["cell_type"] == "code"
        parts.append(f"```python\n{text}\n```" if code else re.sub(r"^# ", "## ", text))
    return "\n\n".join(parts) + "\n"


def changelog(text: str) -> str:
    """The changelog with the fragments of the changes that are not released."""
    title, _, released = text.partition("\n\n")
    _, _, released = released.partition("\n\n")  # the sentence that leads to the folder
    parts = [title]
    for kind, heading in KINDS.items():
        fragments = sorted((DOCS / "changes").glob(f"{kind}-*.md"))
        if fragments:
            parts += ["## Unreleased"] if len(parts) == 1 else []
            items = (" ".join(linked(path, "changelog.md").split()) for path in fragments)
            parts += [f"### {heading}", "\n".join(f"- {item}" for item in items)]
    return "\n\n".join([*parts, released])
