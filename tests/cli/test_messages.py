"""The messages of long-running commands."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from rxworker.cli.process import Format, Level, set_up_logging

LOGGER = logging.getLogger("rxworker.test")


@contextmanager
def as_in_a_process(level: Level = "info", form: Format = "text") -> Generator[None]:
    """Logging without the handlers of pytest."""
    root = logging.getLogger()
    handlers, before = root.handlers[:], root.level
    root.handlers = []
    set_up_logging(level, form)
    yield
    root.handlers, root.level = handlers, before


def report() -> None:
    LOGGER.info("nothing")
    try:
        raise ValueError("postgres://me:secret@db/x")
    except ValueError:
        LOGGER.exception("it failed with %s \x1b[31m\n\x9b", "open sesame 12345")


def test_messages_are_objects_without_secrets(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOORS_API_KEY", "open sesame 12345")
    with as_in_a_process("warning", "json"):
        report()
    printed = capsys.readouterr().err
    [line] = printed.splitlines()
    found = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found["time"])
    assert (found["level"], found["logger"]) == ("error", "rxworker.test")
    assert found["message"] == "it failed with *** \x1b[31m\n\x9b"
    assert "\x9b" not in line  # JSON does not escape it, and a terminal may interpret it
    assert "Traceback" in found["exception"]
    assert "secret" not in printed


def test_messages_are_text_without_secrets(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOORS_API_KEY", "open sesame 12345")
    with as_in_a_process():
        report()
    printed = capsys.readouterr().err
    assert "INFO rxworker.test nothing\n" in printed
    assert "ERROR rxworker.test it failed with *** ␛[31m\n�\nTraceback" in printed
    assert "secret" not in printed
