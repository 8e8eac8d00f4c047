"""Add a note, and an event that changes the state, to a copy of the package, and run the tests of the tables on them.

The steps are those of ``docs/contributing.md``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

import pytest

ROOT = Path(__file__).parents[2]

STRUCT = '''class BudgetWarning(Struct, frozen=True, tag="budget_warning"):
    """The run has used most of its budget.

    Attributes:
        used: The part that is used, from 0 to 1.
    """

    used: float


'''
ROW = '    EventKind(turn.BudgetWarning, "note", changes_state=False),\n'

Steps: TypeAlias = dict[str, list[tuple[str, str]]]

# By file: the text behind which an addition goes, and the addition. Each is one step of the page.
STEPS: Steps = {
    "rxworker/events/turn.py": [
        ("class WatcherDetach(", STRUCT + "class WatcherDetach("),
        (" | WatcherDetach | Gap\n", " | WatcherDetach | Gap | BudgetWarning\n"),
    ],
    "rxworker/events/kinds.py": [("    EventKind(turn.RunPause),\n", ROW + "    EventKind(turn.RunPause),\n")],
    "rxworker/events/__init__.py": [
        ("    AttemptStart,\n", "    AttemptStart,\n    BudgetWarning,\n"),
        ('    "RunStart",\n', '    "RunStart",\n    "BudgetWarning",\n'),
    ],
}
STATE_STEPS: Steps = {
    **STEPS,
    "rxworker/events/kinds.py": [
        (
            "    EventKind(turn.RunPause),\n",
            ROW.replace(", changes_state=False", "") + "    EventKind(turn.RunPause),\n",
        )
    ],
    "rxworker/state/run.py": [
        (
            "def _limit_reached(",
            "def _budget_warning(state: RunState, event: events.BudgetWarning) -> RunState:\n"
            '    return replace(state, reason=f"{event.used:.0%} of the budget")\n\n\n'
            "def _limit_reached(",
        ),
        (
            "    events.LimitReached: _limit_reached,\n",
            "    events.LimitReached: _limit_reached,\n    events.BudgetWarning: _budget_warning,\n",
        ),
    ],
}
MAX_FILES = 6
TESTS = ["tests/events/test_kinds.py", "tests/protocols/test_every_event.py"]


@pytest.fixture(params=[STEPS, STATE_STEPS], ids=["note", "state"])
def steps(request: pytest.FixtureRequest) -> Steps:
    """The edits of one of the events."""
    return request.param


@pytest.fixture
def copy(tmp_path: Path, steps: Steps) -> Path:
    """A copy of the package and of the tests of its tables, with the new event."""
    # With the compiled modules, which hold as long as a module has the same time.
    ignore = shutil.ignore_patterns("static", "ui")
    shutil.copytree(ROOT / "rxworker", tmp_path / "rxworker", ignore=ignore)
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    for test in TESTS:
        (tmp_path / test).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / test, tmp_path / test)
    for name, edits in steps.items():
        file = tmp_path / name
        text = file.read_text(encoding="utf-8")
        for old, new in edits:
            assert old in text, f"{name} has no {old!r}: change this test with the file"
            text = text.replace(old, new, 1)
        file.write_text(text, encoding="utf-8")
    return tmp_path


def run_tests(folder: Path) -> tuple[int, str]:
    """Run the tests of the tables with the package of this folder."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_new_event_needs_these_files_and_no_other(copy: Path, steps: Steps) -> None:
    code, output = run_tests(copy)
    assert code == 0, output
    documentation = 1
    assert len(steps) + documentation <= MAX_FILES
    if steps is STEPS:  # without its row it fails
        kinds = copy / "rxworker/events/kinds.py"
        kinds.write_text(kinds.read_text(encoding="utf-8").replace(ROW, ""), encoding="utf-8")
        code, output = run_tests(copy)
        assert code == 1, output
        assert "BudgetWarning" in output
