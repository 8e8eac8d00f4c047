"""A clone that has nothing beside it: the tests that need recordings are skipped there, and nothing fails."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

ONE_TEST = """
from tests.over_recordings import pytest_generate_tests

def test_of_a_recording(recording): ...
"""


def test_a_test_over_recordings_is_skipped_where_there_are_none(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    (clone / "tests").mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "over_recordings.py", clone / "tests")
    (clone / "tests" / "test_one.py").write_text(ONE_TEST)
    pytest = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
    run = subprocess.run([*pytest, f"--rootdir={clone}"], cwd=clone, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 skipped" in run.stdout
    assert "recordings is absent" in run.stdout


def test_the_commands_of_the_readme_run_in_a_clone_of_their_own() -> None:
    """Without the recordings and the options of the other steps.

    With them, a clone without neighbours failed unnoticed.
    """
    steps = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for command in ("run-command", "test-command"):
        assert f"as_on_a_fresh_machine {command}" in steps
