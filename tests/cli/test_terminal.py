"""Demo and chat as a person meets them: real processes in real terminals, and Ctrl-C."""

import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from rxworker.messages import JsonObject
from rxworker.testing import ReplayServer, ServedResponse, call, say, think
from tests.ui.terminal.conftest import Terminal as AnyTerminal
from tests.whole import one_of

if sys.platform == "win32":
    pytest.skip("pseudo-terminals are not known there", allow_module_level=True)

STYLE = re.compile(r"\x1b\[[0-9;]*m")
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
TOOLS = '''
def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word} means rain"
'''


class Terminal(AnyTerminal):
    """A process in a terminal, whose sequences that move stay in what is shown."""

    def __init__(self, arguments: list[str], folder: Path, columns: int = 100, kind: str = "xterm-256color") -> None:
        state = str(folder / "state")
        # Without a buffer, as in containers, a write may end early.
        more = {
            "NO_COLOR": "1",
            "PYTHONUNBUFFERED": "1",
            "ANTHROPIC_API_KEY": "none",
            "TERM": kind,
            "XDG_STATE_HOME": state,
        }
        super().__init__(arguments, folder, columns=columns, environment=more)

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    @property
    def shown(self) -> str:
        return STYLE.sub("", self.raw)


Open: TypeAlias = Callable[..., Terminal]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Open]:
    opened: list[Terminal] = []
    (tmp_path / "chat_tools.py").write_text(TOOLS)

    def open_terminal(*arguments: str, columns: int = 100, kind: str = "xterm-256color") -> Terminal:
        opened.append(Terminal(list(arguments), tmp_path, columns, kind))
        return opened[-1]

    yield open_terminal
    for each in opened:
        each.close()


def chat(terminal: Open, server: ReplayServer, *options: str) -> Terminal:
    asked = ["--provider", "anthropic", "--model", "m", "--base-url", server.base_url]
    opened = terminal("chat", "--plain", *asked, *options)
    opened.wait_for("> ")
    return opened


def leave(opened: Terminal) -> None:
    """Leave a conversation that is not stored: it takes the key twice."""
    opened.type("\x04")
    opened.wait_for("This conversation is not stored.")
    opened.answer("> ", "\x04")
    assert opened.end() == 0


def plain(shown: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r\n", "\n")


@pytest.mark.parametrize("columns", one_of([60, 100]))
def test_the_demo_draws_its_views_and_leaves_the_cursor_visible(terminal: Open, columns: int) -> None:
    opened = terminal("demo", "--fast", columns=columns)
    assert opened.end() == 0
    for title in ("text", "timeline", "usage"):
        assert f"─ {title}" in opened.shown
    assert "2 turns, 2 tool calls" in opened.shown
    assert opened.shown.rindex(SHOW) > opened.shown.rindex(HIDE)
    assert max(len(line) for line in plain(opened.shown).splitlines()) <= 3 * columns


def test_ctrl_c_ends_the_demo_with_130_and_a_clean_terminal(terminal: Open) -> None:
    opened = terminal("demo")
    opened.wait_for("timeline")
    opened.wait_for("thinking")
    opened.interrupt()
    assert opened.end() == 130
    assert opened.shown.rindex(SHOW) > opened.shown.rindex(HIDE)
    assert "Traceback" not in opened.shown


@pytest.mark.slow
def test_ctrl_c_pressed_again_and_again_ends_the_demo_cleanly_too(terminal: Open) -> None:
    opened = terminal("demo")
    opened.wait_for("timeline")
    for _ in range(5):
        opened.interrupt()
    # The last ones may arrive when Python has ended its own handling: to a shell both are 130.
    assert opened.end() in (130, -signal.SIGINT)
    assert opened.shown.rfind(SHOW) >= opened.shown.rfind(HIDE)
    assert "Traceback" not in opened.shown


def test_a_chat_streams_thinks_calls_tools_goes_on_after_an_error_and_text_moves_no_cursor(terminal: Open) -> None:
    first = think("Let me see.") + say("One moment.") + call("look_up", word="ame")
    body: JsonObject = {"type": "error", "error": {"type": "not_found_error", "message": "model: m"}}
    hostile = say("\x1b]0;owned\x07 [bold]x[/bold] done", chunk=1)
    with ReplayServer([first, "It is rain.", ServedResponse.from_status(404, body=body), hostile]) as server:
        opened = chat(terminal, server, "--tool", "chat_tools:look_up")
        opened.type("What is ame?\n")
        for text in ("Let me see.", "One moment.", '-> look_up(word="ame")'):
            opened.wait_for(text)
        opened.wait_for("<- look_up: ame means rain")
        opened.wait_for("It is rain.")
        opened.wait_for("20 tokens in, 10 out")
        opened.answer("> ", "Are you there?\n")
        opened.wait_for("HTTP 404")
        opened.wait_for("--base-url")
        opened.answer("> ", "And now?\n")
        opened.wait_for("␛]0;owned␇ [bold]x[/bold] done")
        opened.wait_for("> ")
        leave(opened)
    assert "Traceback" not in opened.shown


def test_ctrl_c_cancels_the_answer_and_keeps_the_conversation(terminal: Open) -> None:
    long = ServedResponse.from_reply(say("word " * 1000), pace=0.02)
    with ReplayServer([long, "Still here."]) as server:
        opened = chat(terminal, server)
        opened.type("Tell me a lot.\n")
        opened.wait_for("word word")
        opened.interrupt()
        opened.wait_for("cancelled")
        opened.answer("> ", "And now?\n")
        opened.wait_for("Still here.")
        opened.wait_for("> ")
        second = str(server.requests[1].body)
        opened.interrupt()
        opened.wait_for("This conversation is not stored.")
        opened.wait_for("> ")
        opened.interrupt()
        assert opened.end() == 130
    assert "Tell me a lot." in second
    assert "word word" in second
    assert "Traceback" not in opened.shown


@pytest.mark.slow
def test_ctrl_c_while_the_cancel_hangs_leaves(terminal: Open, tmp_path: Path) -> None:
    (tmp_path / "stubborn.py").write_text(
        "import asyncio\n"
        "async def wait() -> str:\n"
        "    try:\n"
        "        await asyncio.Event().wait()\n"
        "    except asyncio.CancelledError:\n"
        "        print('not yet', flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "    return 'never'\n"
    )
    with ReplayServer([call("wait")]) as server:
        opened = chat(terminal, server, "--tool", "stubborn:wait")
        opened.type("Wait.\n")
        opened.wait_for("-> wait()")
        opened.interrupt()
        opened.wait_for("not yet")
        opened.interrupt()
        assert opened.end() == 130
    assert "Traceback" not in opened.shown


@pytest.mark.slow
def test_ctrl_c_at_the_prompt_leaves(terminal: Open) -> None:
    with ReplayServer([]) as server:
        opened = chat(terminal, server)
        opened.type("half a li")
        opened.wait_for("half a li")
        opened.interrupt()
        assert opened.end() == 130
    assert "Traceback" not in opened.shown


@pytest.mark.slow
def test_a_chat_without_options_is_that_of_the_last_time_and_goes_on(terminal: Open, tmp_path: Path) -> None:
    with ReplayServer(["A pond.", "A frog.", "A splash."]) as server:
        opened = chat(terminal, server, "--log", f"sqlite:{tmp_path / 'runs.db'}")
        opened.type("A haiku\n")
        opened.wait_for("A pond.")
        opened.answer("> ", "\x04")
        opened.wait_for("To go on with this conversation: rxworker chat --continue --plain")
        assert opened.end() == 0
        opened = terminal("chat", "--plain")
        opened.wait_for("anthropic m")
        opened.answer("> ", "Another\n")
        opened.wait_for("A frog.")
        opened.wait_for("> ")
        leave(opened)
        assert "A haiku" not in str(server.requests[1].body)
        assert "--continue" not in opened.shown
        # The chat without a log has been the last one: its log is given again.
        opened = terminal("chat", "--plain", "--continue")
        assert opened.end() == 2
        assert "--continue needs the --log of the conversation" in opened.shown
        opened = terminal("chat", "--plain", "--continue", "--log", f"sqlite:{tmp_path / 'runs.db'}")
        opened.wait_for("Going on with: A haiku")
        opened.answer("> ", "And then?\n")
        opened.wait_for("A splash.")
        opened.answer("> ", "\x04")
        assert opened.end() == 0
        last = str(server.requests[2].body)
    assert "A haiku" in last
    assert "A pond." in last
    assert "none" not in (tmp_path / "state" / "rxworker" / "chat.json").read_text()


@pytest.mark.slow
def test_a_chat_is_line_by_line_where_a_terminal_cannot_place_text(terminal: Open) -> None:
    with ReplayServer(["A pond."]) as server:
        asked = ["--provider", "anthropic", "--model", "m", "--base-url", server.base_url]
        opened = terminal("chat", *asked, kind="dumb")
        opened.answer("> ", "A haiku\n")
        opened.wait_for("A pond.")
        opened.wait_for("> ")
        leave(opened)
    assert "\x1b" not in opened.shown
