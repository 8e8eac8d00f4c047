"""One version everywhere, and a policy that names every public package."""

from __future__ import annotations

import json
import re
from pathlib import Path

import api_pages
import rxworker

ROOT = Path(__file__).parents[2]


def test_the_npm_package_and_the_changelog_have_the_version_of_the_package() -> None:
    package = json.loads((ROOT / "rxworker" / "ui" / "web" / "package.json").read_bytes())
    changelog = (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+)$", changelog, re.MULTILINE)
    assert newest is not None
    assert package["version"] == rxworker.__version__ == newest[1]


def test_the_policy_has_each_public_package_once() -> None:
    page = (ROOT / "docs" / "reference" / "versions.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?:stable|provisional|experimental) \|(.+?)\|", page, re.MULTILINE)
    assert len(rows) == 3
    named = re.findall(r"`(rxworker(?:\.\w+)*)`", " ".join(rows))
    named.remove("rxworker")  # the command, besides the package
    assert sorted(named) == sorted(api_pages.modules())
