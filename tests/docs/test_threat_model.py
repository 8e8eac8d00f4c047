"""The threat model: each entry names tests, which exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "threat-model.md"
ENTRY = re.compile(r"^- \*\*(?P<attack>.+?)\*\*: (?P<guarantee>.+?) \((?P<tests>`tests/.+?)\)$", re.MULTILINE)


def test_each_attack_of_the_threat_model_has_its_tests() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("\n## A model\n")[2].partition("\n## What is left")[0]
    rows = list(ENTRY.finditer(text))
    lines = [line for line in text.splitlines() if line.startswith("-")]
    assert len(lines) == len(rows) > 60, "an entry has an attack, what is done about it, and its tests"
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)`", row["tests"])
        assert named, row["attack"]
        assert ", ".join(f"`{name}`" for name in named) == row["tests"], row["attack"]
        assert [name for name in named if not (ROOT / name).is_file()] == [], row["attack"]
