"""The app in a terminal that goes away, or that nobody reads: it ends, and leaves no process behind."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from rxworker.testing import ReplayServer, ServedResponse, call, say
from rxworker.ui.terminal.lifecycle import HUNG_UP, Guard
from tests.whole import one_of

if sys.platform == "win32":
    pytest.skip("pseudo-terminals are not known there", allow_module_level=True)

Open: TypeAlias = Callable[..., Any]

SOON = 60.0
"""Seconds that it may take on a machine that does many other things."""


@pytest.mark.parametrize(
    "controls", one_of([True, False]), ids=lambda controls: "signalled" if controls else "unsignalled"
)
def test_it_ends_when_its_terminal_is_closed(chat: Open, controls: bool) -> None:
    with ReplayServer([]) as server:
        opened = chat(server.base_url, controls=controls)
        opened.wait_for("Type a message to begin.")
        opened.hang_up()
        assert opened.end_unread(SOON) == HUNG_UP


@pytest.mark.slow
@pytest.mark.parametrize(
    "controls", one_of([True, False]), ids=lambda controls: "signalled" if controls else "unsignalled"
)
def test_a_run_that_is_on_is_cancelled_when_the_terminal_is_closed(chat: Open, controls: bool, tmp_path: Path) -> None:
    (tmp_path / "waiting.py").write_text(
        "import asyncio, pathlib\n"
        "async def wait() -> str:\n"
        "    try:\n"
        "        pathlib.Path('begun').touch()\n"
        "        await asyncio.Event().wait()\n"
        "    finally:\n"
        "        pathlib.Path('cancelled').touch()\n"
        "    return 'never'\n"
    )
    with ReplayServer([call("wait")]) as server:
        opened = chat(server.base_url, "--tool", "waiting:wait", controls=controls)
        opened.wait_for("Type a message to begin.")
        opened.type("Wait.\r")
        opened.until((tmp_path / "begun").exists)
        opened.hang_up()
        assert opened.end_unread(SOON) == HUNG_UP
    assert (tmp_path / "cancelled").exists()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at what a process does")
@pytest.mark.parametrize("number", one_of([signal.SIGTERM, signal.SIGHUP]))
def test_it_ends_with_a_signal_where_nothing_reads_its_output(chat: Open, number: signal.Signals) -> None:
    """The terminal is full, so is the queue before it, and the event loop stands still."""
    endless = ServedResponse.from_reply(say("word " * 10_000), pace=0.005)
    with ReplayServer([endless]) as server:
        opened = chat(server.base_url, hurried=True)
        opened.wait_for("Type a message to begin.")
        opened.type("A lot\r")
        opened.wait_for("word word")
        opened.until_still()
        opened.process.send_signal(number)
        assert opened.end_unread(SOON) == 128 + number


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), one_of([(signal.SIGINT, 130), (signal.SIGTERM, 143)]))
def test_it_ends_with_a_signal_where_a_tool_holds_the_event_loop(
    chat: Open, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """The first Ctrl-C asks the loop to cancel the run; that it has not heard it shows with the second."""
    (tmp_path / "holding.py").write_text(
        "import pathlib, time\n"
        "async def hold() -> str:\n"
        "    pathlib.Path('held').touch()\n"
        "    time.sleep(600)\n"
        "    return 'never'\n"
    )
    with ReplayServer([call("hold")]) as server:
        opened = chat(server.base_url, "--tool", "holding:hold", hurried=True)
        opened.wait_for("Type a message to begin.")
        opened.type("Hold.\r")
        opened.until((tmp_path / "held").exists)

        def has_ended() -> bool:
            opened.process.send_signal(number)
            return opened.process.poll() is not None

        opened.until(has_ended)
        assert opened.end() == code
    assert opened.is_restored


def test_a_guard_that_is_left_in_time_ends_nothing() -> None:
    with Guard(_never) as guard:
        guard.expect_end(143)
        guard.expect_end(143)


def _never() -> None:
    raise AssertionError
