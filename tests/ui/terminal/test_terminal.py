"""The app as a person meets it: a real process in a real terminal."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from rxworker.testing import ReplayServer, ServedResponse, call, say
from tests.whole import one_of

if sys.platform == "win32":
    pytest.skip("pseudo-terminals are not known there", allow_module_level=True)

FULL = "\x1b[?1049h"

Open: TypeAlias = Callable[..., Any]


def test_it_fills_the_screen_answers_cancels_and_leaves_the_terminal_as_it_was(chat: Open) -> None:
    long = ServedResponse.from_reply(say("word " * 2000), pace=0.02)
    with ReplayServer(["Hello there!", long]) as server:
        opened = chat(server.base_url)
        opened.wait_for("Type a message to begin.")
        opened.answer("time_stamp", "Hi\r")
        opened.wait_for("Hello there!")
        opened.answer("10 tokens in, 5 out", "A lot\r")
        opened.answer("word word", "\x03")
        opened.wait_for("cancelled")
        opened.wait_for("Type a message, or /")  # until then, a second one leaves at once
        opened.type("\x03")
        opened.answer("not stored", "\x03")
        assert opened.end() == 130
        sent = str(server.requests[0].body)
    assert re.search(r"\[\d\d:\d\d:\d\d\] ", sent)
    assert FULL in opened.raw
    assert opened.is_restored
    assert "Traceback" not in opened.shown


@pytest.mark.slow
def test_a_paste_presses_no_keys_and_moves_no_cursor_also_when_standard_error_is_redirected(
    chat: Open, tmp_path: Path
) -> None:
    errors = tmp_path / "errors.txt"
    lines = "\r".join(f"{number} \x1b]0;owned\x07\x1b[2J\x11\x13" for number in range(20))
    with ReplayServer(["Hello there!"]) as server:
        opened = chat(server.base_url, errors=errors)
        opened.answer("Type a message to begin.", f"\x1b[200~{lines}\x1b[201~")
        opened.answer("[pasted 20 lines]", "\x1b[200~end\x1b[31m\x11\x1b[201~")
        opened.answer("end␛[31m␑", "\r")
        opened.answer("Hello there!", "\x11")
        opened.answer("not stored", "\x11")
        assert opened.end() == 0
        sent = str(server.requests[0].body)
    assert FULL in opened.raw
    assert opened.is_restored
    assert errors.read_text() == "10 tokens in, 5 out\n"  # as on leaving any terminal
    assert "owned" not in opened.raw.partition("[pasted 20 lines]")[0]
    assert "\x1b]0;owned" not in opened.raw
    assert "19 ␛]0;owned␇␛[2J␑␓end␛[31m␑" in sent


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), one_of([(signal.SIGTERM, 143), (signal.SIGINT, 130)]))
def test_no_listener_is_an_error_and_a_signal_leaves_the_terminal_as_it_was(
    chat: Open, number: signal.Signals, code: int
) -> None:
    opened = chat("http://127.0.0.1:9")
    opened.answer("Type a message to begin.", "Hi\r")
    opened.wait_for("No connection")
    opened.wait_for("Type a message, or /")
    opened.process.send_signal(number)
    assert opened.end() == code
    assert opened.is_restored


@pytest.mark.slow
def test_a_run_that_cannot_be_cancelled_can_be_left(chat: Open, tmp_path: Path) -> None:
    (tmp_path / "stubborn.py").write_text(
        "import asyncio, pathlib\n"
        "async def wait() -> str:\n"
        "    pathlib.Path('begun').touch()\n"
        "    try:\n"
        "        await asyncio.Event().wait()\n"
        "    except asyncio.CancelledError:\n"
        "        await asyncio.Event().wait()\n"
        "    return 'never'\n"
    )
    with ReplayServer([call("wait")]) as server:
        opened = chat(server.base_url, "--tool", "stubborn:wait", hurried=True)
        opened.answer("Type a message to begin.", "Wait.\r")
        opened.until((tmp_path / "begun").exists)
        opened.type("\x03")
        opened.answer("cancelling", "\x03")
        assert opened.end() == 130
    assert opened.is_restored
    assert "Traceback" not in opened.shown


def test_without_textual_there_is_a_hint_and_lines(chat: Open, tmp_path: Path) -> None:
    (tmp_path / "textual.py").write_text("raise ImportError('not here')\n")
    with ReplayServer(["Hello there!"]) as server:
        opened = chat(server.base_url, "--no-hooks")
        opened.wait_for("pip install '/path/to/the/checkout[tui]'")
        opened.answer("> ", "Hi\n")
        opened.wait_for("Hello there!")
        opened.answer("> ", "\x04")
        opened.wait_for("not stored")
        opened.answer("> ", "\x04")
        assert opened.end() == 0
        assert not re.search(r"\[\d\d:\d\d:\d\d\] ", str(server.requests[0].body))
    assert FULL not in opened.raw
