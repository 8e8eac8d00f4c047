"""The terminal app without a terminal and a person who types into it; and as a process in a terminal of its own."""

from __future__ import annotations

import asyncio
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import pytest
from textual import app as textual_app
from textual import pilot, screen
from textual._context import active_app
from textual.app import App
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot
from textual.widgets import TextArea

from rxworker import Worker
from rxworker.ui.terminal.app import TerminalApp
from rxworker.ui.terminal.bars import Composer
from rxworker.ui.terminal.transcript import LaneView, Transcript

# What the app draws anew it draws at once, and the tests spend most of their time in drawing.
screen.UPDATE_PERIOD = 1 / 120
PATIENCE = 60.0
STILL = 1.5
"""Seconds without work after which a process stands still; one whose app is alive draws its clock."""


async def settled(_least: float = 0.0, most: float = 1.0) -> None:
    """Wait until the app has handled all messages and drawn what they changed.

    Textual waits until the process has been idle for a while, which a busy machine makes long.
    """
    app = active_app.get()
    until, rounds, still = time.monotonic() + most, 0, 0
    while still < 3 and time.monotonic() < until:
        rounds += 1
        await asyncio.sleep(0 if rounds < 100 else 0.001)
        still = 0 if _is_busy(app) else still + 1


def _is_busy(app: App[Any]) -> bool:
    if not app._screen_stack or app._exit:
        return False
    shown = app.screen
    pumps: list[Any] = [app, *shown.walk_children(with_self=True)]
    # A pump that has nothing to do waits for its next message.
    if any(
        each._running and (not each._message_queue.empty() or not each._message_queue.ready_event._waiters)
        for each in pumps
    ):
        return True
    is_changed = shown._layout_required or shown._scroll_required or shown._repaint_required
    if is_changed or shown._recompose_required or shown._dirty_widgets or shown._callbacks:
        shown._on_timer_update()
        return True
    return False


PARSED: dict[Any, list[RuleSet]] = {}
"""The rules of each text of styles, which are the same for each app of these tests."""
parse_rules = Stylesheet._parse_rules


def parse_once(self: Stylesheet, *given: Any, **more: Any) -> list[RuleSet]:
    key = (frozenset(self._variables.items()), given, *more.items())
    if key not in PARSED:
        PARSED[key] = parse_rules(self, *given, **more)
    return PARSED[key]


Stylesheet._parse_rules = parse_once
textual_app.wait_for_idle = pilot.wait_for_idle = settled  # type: ignore[attr-defined]


class Person:
    """Types, waits, and looks at the screen."""

    def __init__(self, app: TerminalApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    async def say(self, text: str, *, sees: str = "") -> None:
        """Type something and send it, and wait until this is on the screen."""
        self.app.query_one(Composer).text = text
        await self.pilot.press("enter")
        await self.sees(sees)

    async def ask(self, text: str, *, sees: str = "") -> None:
        """Say something, and wait until the run has ended and this is on the screen."""
        await self.say(text)
        await self.rest()
        await self.sees(sees)

    async def rest(self) -> None:
        """Wait until no run is on, and all is shown."""
        workers = self.app.workers
        await self.until(lambda: all(each.is_finished for each in workers if each.name == "follow"))
        await self.pilot.pause()

    async def press(self, *keys: str, sees: str = "") -> None:
        """Press keys, let them have their effect, and wait until this is on the screen."""
        await self.pilot.press(*keys)
        await self.pilot.pause()
        await self.sees(sees)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Let the app go on until something is so."""
        async with asyncio.timeout(PATIENCE):
            while not is_so():
                await self.pilot.pause(0.01)

    async def sees(self, text: str) -> None:
        """Wait until this is on the screen, if it is given."""
        if text:
            await self.until(lambda: text in self.screen)

    async def is_notified(self, text: str) -> None:
        """Wait until a notification has this text."""
        await self.until(lambda: any(text in each.message for each in self.app._notifications))

    def field(self, at: int) -> str:
        """What stands in a field of the dialog."""
        return self.app.screen.query_one(f"#field-{at}", TextArea).text

    @property
    def screen(self) -> str:
        """What is on the screen, as text."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)

    @property
    def lanes(self) -> list[LaneView]:
        """The parts of the conversation."""
        return self.app.query_one(Transcript).views

    @property
    def typed(self) -> str:
        """What stands in the input."""
        return self.app.query_one(Composer).text


Open: TypeAlias = Callable[..., AbstractAsyncContextManager[Person]]


@pytest.fixture
def open_app() -> Open:
    """Opens the app on a worker."""

    @asynccontextmanager
    async def opened(worker: Worker, size: tuple[int, int] = (80, 24), **settings: Any) -> AsyncGenerator[Person, None]:
        app = TerminalApp(worker, **settings)
        async with app.run_test(size=size) as pilot:
            yield Person(app, pilot)

    return opened


SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
FULL, BACK = "\x1b[?1049h", "\x1b[?1049l"
SHOW_CURSOR = "\x1b[?25h"
CONTROLLED = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "rxworker", *sys.argv[1:]])
"""
"""Makes the terminal the one that controls the process, as it is in a window: its end is a signal then."""
HURRIED = """
import sys
from rxworker.ui.terminal import app, lifecycle
app.TerminalApp.leave.__defaults__ = (0.2,)
lifecycle.Guard.__init__.__kwdefaults__["grace"] = 0.5
from rxworker.cli import main
sys.exit(main())
"""


class Terminal:
    """A process in a terminal: what is typed, what is shown.

    Args:
        arguments: Of the command.
        folder: Where it works.
        controls: Whether the terminal controls the process.
        hurried: Whether the app has half a second to end after a signal, and not three, and less to leave a run.
        errors: The file that its standard error goes to, in place of the terminal.
        columns: Of the terminal.
        environment: What the process has beside the environment of the tests.
    """

    def __init__(
        self,
        arguments: list[str],
        folder: Path,
        *,
        controls: bool = False,
        hurried: bool = False,
        errors: Path | None = None,
        columns: int = 100,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        import termios

        self._ours, self._theirs = os.openpty()
        termios.tcsetwinsize(self._theirs, (30, columns))
        self.before = termios.tcgetattr(self._theirs)
        command = ["-c", CONTROLLED] if controls else ["-m", "rxworker"]
        command = ["-c", HURRIED] if hurried else command
        with _heard(signal.SIGINT, signal.SIGHUP), ExitStack() as files:
            self.process = subprocess.Popen(
                [sys.executable, *command, *arguments],
                stdin=self._theirs,
                stdout=self._theirs,
                stderr=files.enter_context(errors.open("wb")) if errors else self._theirs,
                start_new_session=True,
                cwd=folder,
                env={**os.environ, "TERM": "xterm-256color", "PYTHONUTF8": "1", **environment},
            )
        self.raw = ""
        self._data = b""
        self._seen = 0

    def wait_for(self, text: str) -> None:
        """Wait until this is shown, after what was waited for before."""
        until = time.monotonic() + PATIENCE
        while (at := self.shown.find(text, self._seen)) < 0:
            assert time.monotonic() < until, f"{text!r} did not come: {self.shown!r}"
            assert self._read(), f"it ended before {text!r}: {self.shown!r}"
        self._seen = at + len(text)

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._ours, text.encode())

    def answer(self, text: str, keys: str) -> None:
        """Wait until this is shown, and then press keys."""
        self.wait_for(text)
        self.type(keys)

    def end(self) -> int:
        """Wait until it has ended; the exit code."""
        until = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < until, f"it did not end: {self.shown!r}"
            self._read()
        while self._read(0.0):
            pass
        return self.process.returncode

    def until(self, is_so: Callable[[], bool]) -> None:
        """Read what is shown until something is so."""
        until = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < until
            self._read()

    def until_still(self) -> None:
        """Read nothing until the process does nothing any more."""
        until, before, since = time.monotonic() + PATIENCE, -1, time.monotonic()
        while time.monotonic() < since + STILL:
            assert time.monotonic() < until, "it never stood still"
            if (spent := self._spent()) != before:
                before, since = spent, time.monotonic()
            select.select([], [], [], 0.1)

    def end_unread(self, seconds: float) -> int:
        """Wait until it has ended, without reading what it shows; the exit code."""
        return self.process.wait(seconds)

    def hang_up(self) -> None:
        """Close the terminal, as one closes its window."""
        os.close(self._theirs)
        os.close(self._ours)
        self._ours = self._theirs = -1

    @property
    def shown(self) -> str:
        """What was written, without the sequences that move and colour."""
        return SEQUENCE.sub("", self.raw)

    @property
    def is_restored(self) -> bool:
        """Whether the terminal is as it was: its modes, its screen, its cursor."""
        import termios

        same = termios.tcgetattr(self._theirs)[:4] == self.before[:4]
        left = self.raw.rfind(BACK) > self.raw.rfind(FULL)
        return same and left and self.raw.rfind(SHOW_CURSOR) > self.raw.rfind("\x1b[?25l")

    def close(self) -> None:
        """Leave nothing behind: neither the process, nor what it may have started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)
        if self._ours >= 0:
            self.hang_up()

    def _spent(self) -> int:
        """The processor's time that it has taken."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def _read(self, seconds: float = 0.1) -> bool:
        ready, _, _ = select.select([self._ours], [], [], seconds)
        if not ready:
            return self.process.poll() is None
        self._data += os.read(self._ours, 65536)
        self.raw = self._data.decode("utf-8", "replace")
        return True


@contextmanager
def _heard(*numbers: int) -> Generator[None, None, None]:
    """A process that is started meanwhile does not ignore these signals, as under ``nohup`` or in the background."""
    ignored = [number for number in numbers if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)


@pytest.fixture
def chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Terminal]]:
    """Opens ``rxworker chat`` in a terminal, with the address of a server and options."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    opened: list[Terminal] = []

    def open_chat(address: str, *options: str, **settings: Any) -> Terminal:
        asked = ["chat", "--provider", "anthropic", "--model", "m", "--base-url", address]
        opened.append(Terminal([*asked, *options], tmp_path, **settings))
        return opened[-1]

    yield open_chat
    for each in opened:
        each.close()
