"""The words of the page: one file for a language, and no word elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

import rxworker.ui.web

STATIC = Path(rxworker.ui.web.__file__).parent / "static"
NODE = shutil.which("node")
SOURCES = [path for path in sorted(STATIC.rglob("*.js")) if path.parent.name not in ("vendor", "languages")]
PAGES = sorted(STATIC.glob("*.html"))
BY_KEY = re.compile(r"^(call|commands|filters|groups|lasts|problems|result|share|status|lanes|watchers|link)\.")
"""Sections of which some texts are looked up by the state that they name."""


def texts() -> dict[str, str]:
    """The English texts by their names. A text with forms has one name."""
    if NODE is None:
        pytest.skip("node is not installed")
    script = "import { words } from 'file://{}'; console.log(JSON.stringify(words))".replace(
        "{}", str(STATIC / "languages" / "en.js"), 1
    )
    done = subprocess.run([NODE, "--input-type=module", "-e", script], capture_output=True, check=True)
    sections: dict[str, dict[str, Any]] = msgspec.json.decode(done.stdout)
    return {
        f"{section}.{name}": text if isinstance(text, str) else text["other"]
        for section, rows in sections.items()
        for name, text in rows.items()
    }


class _Page(HTMLParser):
    """The visible texts of a page, each with the name that it has in a language file."""

    def __init__(self) -> None:
        super().__init__()
        self.named: list[tuple[str, str]] = []
        self.bare: list[str] = []
        self._name: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self._name = found.get("data-words")
        for name in ("aria-label", "title", "placeholder", "aria-description"):
            text, path = found.get(name), found.get(f"data-words-{name}")
            if text is not None and path is not None:
                self.named.append((path, text))
            elif text is not None:
                self.bare.append(text)

    def handle_endtag(self, tag: str) -> None:
        self._name = None

    def handle_data(self, data: str) -> None:
        if self._name is not None:
            self.named.append((self._name, data))
        elif re.search(r"[a-z]", data):
            self.bare.append(data.strip())


def test_each_text_of_the_html_has_a_name_and_is_the_english_one() -> None:
    known = texts()
    for path in PAGES:
        page = _Page()
        page.feed(path.read_text(encoding="utf-8"))
        assert [(name, known.get(name)) for name, _ in page.named] == page.named
        assert set(page.bare) <= {"rxworker", "Fleet"}, "the name of the page alone is not a word"


def test_each_name_in_a_script_is_known_and_each_text_is_used() -> None:
    known = texts()
    code = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
    # `const { talk } = words;` gives a section a name of its own
    aliases = set(re.findall(r"\{ (\w+) \} = words\b", code))
    sections = "|".join(sorted(aliases)) or "-"
    used = set(re.findall(r"\bwords\.(\w+\.\w+)", code))
    used |= set(re.findall(rf"(?<![\w.])((?:{sections})\.\w+)", code)) & set(known)
    html = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    used |= set(re.findall(r'data-words(?:-[\w-]+)?="([\w.]+)"', html))
    assert used - set(known) == set()
    assert {name for name in set(known) - used if not BY_KEY.match(name)} == set()


def test_no_script_shows_a_text_of_its_own() -> None:
    shown = re.compile(r"""(?:text|"aria-label"|placeholder|title): ["`]([^"`$]*[a-z]{2}[^"`]*)""")
    for path in SOURCES:
        assert shown.findall(path.read_text(encoding="utf-8")) == [], path.name
