"""The threat model: each row names tests, which exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "threat-model.md"
ROW = re.compile(r"^\| (?!Attack|-)(?P<attack>.+?) \| (?P<guarantee>.+?) \| (?P<tests>.+?) \|$", re.MULTILINE)


def test_each_attack_of_the_threat_model_has_its_tests() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = list(ROW.finditer(text))
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == len(rows) + 2 * text.count("| Attack |"), "a row has three cells"
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)`", row["tests"])
        assert named, row["attack"]
        assert ", ".join(f"`{name}`" for name in named) == row["tests"], row["attack"]
        assert [name for name in named if not (ROOT / name).is_file()] == [], row["attack"]
