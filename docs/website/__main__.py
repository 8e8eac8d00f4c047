"""Build the site of the documentation.

``python docs/website`` writes ``build/site``, and ``--serve`` shows it at http://127.0.0.1:8000.

A warning of the generator, a broken link or a resource of another host ends it with an error.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast

import api_pages
import links
import site_pages
from rxworker.cli.docs import index_text, page_names, whole_text

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build"
STAGE, SITE = BUILD / "website", BUILD / "site"
WARNING = re.compile(r"^(?:griffe|mkdocstrings|mkdocs_autorefs): |Warning:", re.MULTILINE)


def stage() -> None:
    """Write the pages, and what they need, to where the generator reads them."""
    shutil.rmtree(STAGE, ignore_errors=True)
    docs = STAGE / "docs"
    for path, text in site_pages.pages().items():
        (docs / path).parent.mkdir(parents=True, exist_ok=True)
        (docs / path).write_text(text, encoding="utf-8")
    config = (HERE / "zensical.toml").read_text(encoding="utf-8")
    config = config.replace("\nnav = []\n", f"\nnav = {toml(site_pages.nav())}\n")
    (STAGE / "zensical.toml").write_text(config, encoding="utf-8")
    (STAGE / "names.json").write_text(json.dumps(list(api_pages.anchors().values())), "utf-8")
    shutil.copy(HERE / "style.css", docs)
    shutil.copy(site_pages.DOCS / "page.png", docs)
    shutil.copytree(site_pages.DOCS / "pictures", docs / "pictures")
    static = site_pages.ROOT / "rxworker" / "ui" / "web" / "static"
    (docs / "theme.css").write_text(theme(static / "styles" / "theme.css"), encoding="utf-8")
    shutil.copy(static / "icon.svg", docs)


def theme(path: Path) -> str:
    """The colours of the web server's page, where the generator's pages choose between light and dark."""
    return path.read_text(encoding="utf-8").replace(':root[data-theme="dark"]', '[data-md-color-scheme="slate"]')


def toml(value: object) -> str:
    """Lists, tables and texts as TOML."""
    match value:
        case list():
            return f"[{', '.join(map(toml, cast('list[object]', value)))}]"
        case dict():
            items = cast("dict[str, object]", value).items()
            return f"{{ {', '.join(f'{toml(key)} = {toml(item)}' for key, item in items)} }}"
        case _:
            return json.dumps(value)


def build() -> list[str]:
    """Build the site, and return a line for each problem."""
    stage()
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean"],
        cwd=STAGE,
        env=os.environ | {"PYTHONPATH": str(HERE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    if built.returncode or WARNING.search(built.stdout):
        return [built.stdout]
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.copytree(STAGE / "site", SITE)
    # What assistants read: the list of the pages, with the pages as Markdown, and all pages in one text
    # (https://llmstxt.org).
    (SITE / "llms.txt").write_text(index_text(site_pages.DOCS, "{page}.md"), encoding="utf-8")
    (SITE / "llms-full.txt").write_text(whole_text(site_pages.DOCS), encoding="utf-8")
    for name in page_names(site_pages.DOCS):
        shutil.copy(site_pages.DOCS / f"{name}.md", SITE / f"{name}.md")
    return links.broken(SITE)


def main() -> int:
    """Build, report, and serve if that is wanted."""
    problems = build()
    print(*problems, sep="\n", file=sys.stderr)
    if problems:
        return 1
    print(f"{SITE} has {len(links.pages(SITE))} pages")
    if "--serve" in sys.argv:
        handler = partial(SimpleHTTPRequestHandler, directory=SITE)
        with ThreadingHTTPServer(("127.0.0.1", 8000), handler) as server:
            print("http://127.0.0.1:8000")
            server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
