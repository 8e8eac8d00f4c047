"""Ctrl-C while the command's modules are imported, in real processes, and while output waits for a slow terminal."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from rxworker.cli.process import prepare_streams, write_json, write_line
from tests.whole import one_of

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

if sys.platform == "win32":
    pytest.skip("Windows has no SIGINT for one process", allow_module_level=True)

SCRIPT = Path(sys.executable).with_name("rxworker")
HOLD = """
import sys, time

class Hold:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            print("importing", flush=True)
            time.sleep(30)

sys.meta_path.insert(0, Hold())
"""
"""Holds the import of one module, so that Ctrl-C comes then."""


def interrupted(folder: Path, module: str, command: list[str]) -> tuple[int, str]:
    """The exit code and the standard error of a command that Ctrl-C reaches while it imports a module."""
    (folder / "sitecustomize.py").write_text(HOLD.format(name=module))
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(folder)},
        # A runner in the background may ignore Ctrl-C, which its children would inherit.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    return process.returncode, errors.strip()


@pytest.mark.parametrize("module", ["rxworker.cli.main", "rxworker.cli.process"])
def test_ctrl_c_while_the_command_is_imported_prints_no_traceback(module: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rxworker", "--version"]
    assert interrupted(tmp_path, module, command) == (130, "")


@pytest.mark.skipif(not SCRIPT.exists(), reason="the command is not installed")
def test_ctrl_c_while_the_installed_command_is_imported_prints_no_traceback(tmp_path: Path) -> None:
    assert interrupted(tmp_path, "rxworker.cli.process", [str(SCRIPT), "--version"]) == (130, "")


@pytest.mark.parametrize("module", one_of(["rxworker.worker", "rxworker.cli.demo", "aiohttp"]))
def test_ctrl_c_while_a_command_imports_what_only_it_needs_prints_no_traceback(module: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rxworker", "demo", "--fast"]
    assert interrupted(tmp_path, module, command) == (130, "")


def test_a_program_that_imports_the_package_keeps_its_own_ctrl_c(tmp_path: Path) -> None:
    code, errors = interrupted(tmp_path, "rxworker.worker", [sys.executable, "-c", "from rxworker import Worker"])
    assert code == -signal.SIGINT
    assert errors.endswith("KeyboardInterrupt")


class Interrupted(io.RawIOBase):
    """A terminal without a buffer: a signal ends each write after three bytes."""

    name = "<terminal>"

    def __init__(self) -> None:
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        taken = bytes(data)[:3]
        self.data += taken
        return len(taken)


def test_output_without_a_buffer_is_whole_when_signals_end_its_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Interrupted()
    # What Python makes of PYTHONUNBUFFERED=1.
    unbuffered = io.TextIOWrapper(cast("Any", terminal), "utf-8", write_through=True)
    monkeypatch.setattr(sys, "stdout", unbuffered)
    prepare_streams()
    write_line("lines of a frame ─╮")
    write_json({"text": "and a record"})
    assert terminal.data.decode() == 'lines of a frame ─╮\n{"text": "and a record"}\n'
