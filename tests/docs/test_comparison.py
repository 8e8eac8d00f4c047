"""The comparison of the docs: its row of rxworker is what its program does, and its table has a date and versions.

The programs of the peers run with the command alone, `python examples/compare`: their packages are not installed here.
"""

from __future__ import annotations

import re
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import util
from pathlib import Path
from types import ModuleType

import pytest

from tests.whole import IS_WHOLE

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "compare"
PAGE = (ROOT / "docs" / "explanation" / "comparison.md").read_text(encoding="utf-8")


def load() -> ModuleType:
    """The command, as a module."""
    sys.path.insert(0, str(FOLDER))  # where it finds what it shares with the programs
    try:
        spec = util.spec_from_file_location("compare_command", FOLDER / "__main__.py")
        assert spec is not None
        assert spec.loader is not None
        module = util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(FOLDER))


command = load()
TABLE = PAGE.split(command.BEGIN)[1].split(command.END)[0]
CELLS = {
    cells[1]: dict(zip(command.PEERS, cells[2:-1], strict=True))
    for line in TABLE.splitlines()
    if len(cells := [cell.strip() for cell in line.split("|")]) > 2
}
MEASURED = {"slow": r"[01]\.\d\d, [01]\.\d\d", "cancel": r"\d+"}
"""What a machine's speed decides."""


def test_the_rows_of_rxworker_are_what_its_program_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """All at once: most of their time, what they do is wait."""
    monkeypatch.setattr(command, "CANCELS", 1)
    rows = [row for row in command.ROWS if row.case != "cpu"]  # which is measured by the command alone
    some = rows if IS_WHOLE else rows[::4]
    with ThreadPoolExecutor(4) as pool:
        cells = [*pool.map(partial(command.cell, Path(sys.executable), "rxworker"), some)]
    for row, cell in zip(some, cells, strict=True):
        shown = CELLS[row.title]["rxworker"]
        expected = MEASURED.get(row.case, re.escape(shown))
        assert re.fullmatch(expected, cell), row.title
        assert re.fullmatch(expected, shown), row.title
    [cpu] = {row.title for row in command.ROWS} - {row.title for row in rows}
    assert re.fullmatch(r"\d+, \d+\.\d", CELLS[cpu]["rxworker"])


def test_the_own_stream_of_rxworker_keeps_all_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    if not IS_WHOLE:
        monkeypatch.setattr(command, "RULES", {case: command.RULES[case] for case in ("again", "watched")})
    kept, rows = command.rules(Path(sys.executable), "rxworker")
    assert {rule: found for rule, found in rows.items() if found[0] != "kept"} == {}
    assert kept == len(rows) == (13 if IS_WHOLE else 5)


def test_the_table_has_a_row_for_each_test_and_its_date_and_versions() -> None:
    titles = [row.title for row in command.ROWS]
    assert [title for title in CELLS if title in titles] == titles
    made = re.search(r"^`python examples/compare --write` on 20\d\d-\d\d-\d\d, .+\.$", TABLE, re.M)
    assert made is not None
    for peer in command.PEERS.values():
        for package in peer.shown:
            assert re.search(rf"[ :;]{re.escape(package)} \d+\.\d+", made[0])


def test_the_type_checker_leaves_out_the_programs_of_the_peers_alone() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    peers = [f"examples/compare/with_{name}.py" for name in command.PEERS if name != "rxworker"]
    peers += [f"examples/compare/guard_{name}.py" for name in ("litellm", "pydantic_ai")]
    peers += [f"examples/compare/background_{name}.py" for name in ("ag2", "pydantic_ai", "strands")]
    peers += [f"examples/compare/rules_{name}.py" for name in command.RULED if name != "rxworker"]
    assert [*sorted(peers), "tests/bench/taps.py", "tests/tap/serve_*.py", "tests/tap/with_*.py"] == project["tool"][
        "pyright"
    ]["ignore"]
    assert all((ROOT / peer).is_file() for peer in peers)
