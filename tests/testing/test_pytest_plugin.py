"""The option of pytest that tries the rules on a source."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SOURCES = """
from rxworker import Worker
from rxworker.events import BlockStart, BlockType, ResponseStatus, Status
from rxworker.testing import ScriptedModel

def run():
    return Worker(ScriptedModel(["Hello!"])).run("Hi")

async def foreign():
    yield {"text": "Hello!"}

def broken():
    return [Status(ResponseStatus.STARTED), BlockStart(0, BlockType.TEXT), Status(ResponseStatus.COMPLETED)]
"""
PYTEST = [sys.executable, "-m", "pytest", "-p", "rxworker.pytest_plugin", "-p", "no:cacheprovider", "-q", "-rsf"]


def test_the_option_has_a_test_for_each_rule_and_source_and_items_of_another_library_fail(tmp_path: Path) -> None:
    (tmp_path / "streams.py").write_text(SOURCES, encoding="utf-8")
    options = [f"--agent-stream=streams:{name}" for name in ("run", "broken", "foreign")]
    done = subprocess.run([*PYTEST, *options], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "10 failed, 11 passed, 18 skipped" in done.stdout
    assert "FAILED agent-stream[streams:broken-blocks-end]" in done.stdout.replace("::", "")
    assert "block 0 (text) is still open at Status(COMPLETED)" in done.stdout
    assert "a dict is neither an event nor a record: map what the stream emits" in done.stdout


def test_a_source_that_cannot_be_imported_is_an_error_of_usage(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 + ''", encoding="utf-8")
    options = [*PYTEST, "--agent-stream", "broken:run"]
    done = subprocess.run(options, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert "--agent-stream broken:run: unsupported operand" in done.stderr
    assert "; give MODULE:SOURCE" in done.stderr


def test_without_the_option_nothing_is_imported() -> None:
    code = "import sys, rxworker.pytest_plugin; print(*{'msgspec', 'reactivex'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
