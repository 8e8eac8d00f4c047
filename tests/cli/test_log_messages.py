"""What ``rxworker serve`` and ``rxworker work`` write to standard error."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from rxworker.cli import main
from rxworker.cli.log_messages import JsonFormatter, TextFormatter

SECRET = "sk-0123456789abcdef"
WORKERS = """
import asyncio, logging, os, signal

def make_worker():
    logging.getLogger("my").debug("a detail")
    logging.getLogger("my").info("the key is %s", os.environ["MY_API_KEY"])
    try:
        raise OSError(f"no {os.environ['MY_API_KEY']}\\n\\x1b[31m")
    except OSError:
        logging.getLogger("my").exception("it failed")
    signal.raise_signal(signal.SIGTERM)
"""


def record_of(message: str, *args: object) -> logging.LogRecord:
    try:
        raise ValueError(f"not {SECRET}")
    except ValueError:
        return logging.LogRecord("my", logging.ERROR, "", 0, message, args, sys.exc_info())


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", SECRET)


def test_a_line_of_json_has_all_of_a_message() -> None:
    line = JsonFormatter().format(record_of("two\nlines \x9b of %s", "京"))
    assert "\n" not in line
    assert "\x9b" not in line
    found = json.loads(line)
    assert datetime.fromisoformat(found.pop("time")).tzinfo is not None
    exception = found.pop("exception")
    assert exception.startswith("Traceback")
    assert exception.endswith("ValueError: not (hidden)")
    assert found == {"level": "error", "logger": "my", "message": "two\nlines \x9b of 京"}


def test_a_text_has_no_control_characters() -> None:
    text = TextFormatter().format(record_of("red \x1b[31m"))
    assert " ERROR my red ␛[31m\nTraceback" in text
    assert text.endswith("ValueError: not (hidden)")


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ([], {"the key is", "it failed"}),
        (["--verbosity", "debug"], {"a detail", "the key is", "it failed"}),
        (["--verbosity", "error"], {"it failed"}),
        (["--json-messages"], {"the key is", "it failed"}),
    ],
)
def test_a_process_writes_messages_to_standard_error(
    tmp_path: Path, options: list[str], shown: set[str]
) -> None:
    (tmp_path / "my_workers.py").write_text(WORKERS)
    command = [sys.executable, "-m", "rxworker.cli"]
    log = ["--log", "sqlite:runs.db"]
    env = {**os.environ, "PYTHONUTF8": "1"}
    subprocess.run([*command, "submit", *log, "Hi"], cwd=tmp_path, check=True, timeout=30)
    done = subprocess.run(
        [*command, "work", *log, "my_workers:make_worker", *options],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    assert {
        text for text in ("a detail", "the key is", "it failed") if text in done.stderr
    } == shown
    assert SECRET not in done.stderr + done.stdout
    assert "OSError: no (hidden)" in done.stderr
    if "--json-messages" in options:
        lines = [json.loads(line) for line in done.stderr.splitlines()]
        assert {line["level"] for line in lines} == {"info", "error"}


def test_an_unknown_verbosity_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--demo", "--verbosity", "loud"]) == 2
    assert "'loud'" in capsys.readouterr().err
