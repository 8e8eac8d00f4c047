"""The terminal app: theme, global keys, signals, shutdown, and a driver for a terminal that may be slow or disappear.

`ConversationScreen` shows the conversation.

Theory of operation. Signals arrive in the main thread at any time; a hangup of the terminal arrives in the thread that
reads it. Both are forwarded to the event loop, which ends the app as if a key had been pressed. If the loop is blocked
because it waits for the terminal, the driver stops waiting; if it is blocked for another reason, the guard ends the
process.

Textual writes in a thread, from a queue of thirty pieces. If that thread ended with the terminal, or blocked on a
terminal that is not read, the queue would fill and the event loop would block forever. Therefore `Output` never raises,
and waits in steps: it opens the terminal a second time, non-blocking for this process only, and while the terminal is
full, the thread waits for room or for `limit_wait`. What a terminal does not accept is dropped.

Textual's parser takes all characters between an escape character within pasted text and the end of the paste for keys:
such a paste could send messages and approve calls. Therefore `Pastes` replaces it before the parser reads them.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import termios
from codecs import getincrementaldecoder
from contextlib import suppress
from typing import IO, Any, ClassVar, Unpack, cast

from rich.text import Text
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver

from rxworker.ui.clean import clean
from rxworker.ui.terminal.bars import NARROW, Quit, usage_line
from rxworker.ui.terminal.conversation import ConversationScreen
from rxworker.ui.terminal.lifecycle import HUNG_UP, Guard, is_terminal
from rxworker.ui.terminal.session import AppOptions, TerminalSession
from rxworker.ui.terminal.themes import DARK, LIGHT, THEMES
from rxworker.ui.terminal.transcript import Transcript
from rxworker.worker.session import Session, Worker

WRITE_TIMEOUT = 0.5
"""Seconds a terminal has to accept data after `Output.limit_wait`."""
POLL_SECONDS = 0.1
"""Seconds between two looks whether the app ends, while the terminal sends nothing or accepts nothing."""


class Output:
    """A text file that Textual takes for a terminal.

    Args:
        fileno: The file descriptor of the terminal.
        encoding: The encoding of the terminal.

    Attributes:
        is_gone: Whether the terminal is closed and writes are dropped.
    """

    def __init__(self, fileno: int, encoding: str = "utf-8") -> None:
        self.is_gone = False
        self._encoding = encoding
        self._given = fileno
        self._fd = _open_again(fileno)
        self._timeout: float | None = None

    def write(self, text: str) -> int:
        """Write a text as soon as the terminal accepts it; drop it if the terminal is gone."""
        data = memoryview(text.encode(self._encoding, "replace"))
        while data and not self.is_gone:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:
                self._wait()
            except OSError:
                self.is_gone = True
        return len(text)

    def flush(self) -> None:
        """Do nothing: writes are not buffered."""

    def fileno(self) -> int:
        """The file descriptor of the terminal."""
        return self._given

    def isatty(self) -> bool:
        """True."""
        return True

    def limit_wait(self) -> None:
        """From now on, treat a terminal that accepts nothing for a moment as gone. Safe in a signal handler."""
        self._timeout = WRITE_TIMEOUT

    def give_up(self) -> None:
        """Stop writing. Thread-safe."""
        self.is_gone = True

    def close(self) -> None:
        """Close the file descriptor, unless it is the one that was given."""
        if self._fd != self._given:
            os.close(self._fd)

    def _wait(self) -> None:
        """Wait a moment for room, and look whether `limit_wait` or `give_up` was called meanwhile."""
        timeout, waiting = self._timeout, select.poll()
        waiting.register(self._fd, select.POLLOUT)
        if not waiting.poll((POLL_SECONDS if timeout is None else timeout) * 1000) and timeout is not None:
            self.is_gone = True


def _open_again(fileno: int) -> int:
    """Open the same terminal with its own flags; the given descriptor is shared with other processes."""
    try:
        return os.open(os.ttyname(fileno), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return fileno


PASTE, END = "\x1b[200~", "\x1b[201~"
"""Before and after pasted text."""


class Pastes:
    r"""Replaces the control characters in pasted text, but ends of lines.

    It is fed with what a terminal sends, cut anywhere.

    >>> Pastes().feed("\x1b[A\x1b[200~red: \x1b[31m\x1b[201~\x1b")
    '\x1b[A\x1b[200~red: ␛[31m\x1b[201~\x1b'
    """

    def __init__(self) -> None:
        self._is_inside = False
        self._before = self._held = ""

    def feed(self, text: str) -> str:
        """Return what the parser may read. Of pasted text, what could be the begin of its end is held back."""
        shown: list[str] = []
        while text:
            if self._is_inside:
                inside, end, rest = (self._held + text).partition(END)
                cuts = range(0 if end else len(END) - 1, 0, -1)
                held = next((size for size in cuts if inside.endswith(END[:size])), 0)
                self._held = inside[len(inside) - held :]
                lines = inside[: len(inside) - held].split("\r")
                shown += ["\r".join(map(clean, lines)), end]
                text, self._is_inside, self._before = rest, not end, ""
            else:
                # The begin is not held back: an escape character may be a key.
                known = len(self._before)
                before, begin, rest = (self._before + text).partition(PASTE)
                outside = before + begin
                shown.append(outside[known:])
                text, self._is_inside, self._before = rest, bool(begin), outside[1 - len(PASTE) :]
        return "".join(shown)


RESTORED = "\x1b[?2004l\x1b[?7h\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l"
"""Escape sequences that restore the terminal.

No mouse, no bracketed paste, wrapped lines, plain keys, previous screen, cursor.
"""


class TerminalDriver(LinuxDriver):
    """Textual's driver, but a terminal that is gone or not read does not block it.

    Args:
        app: The app.
        debug: See Textual's driver.
        mouse: See Textual's driver.
        size: See Textual's driver.

    Attributes:
        output: Writes to the terminal.
    """

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType] - it takes a generic App
            app, debug=debug, mouse=mouse, size=size
        )
        # As Textual does, unless standard error is redirected: then it draws on standard output.
        stream = sys.__stderr__ if is_terminal(sys.__stderr__) else sys.__stdout__
        assert stream is not None
        self.output = Output(stream.fileno(), stream.encoding)
        self._file = cast("IO[str]", self.output)

    def give_up(self) -> None:
        """Stop writing, and stop reading, which would return at once and forever."""
        self.output.give_up()
        self.exit_event.set()

    def run_input_thread(self) -> None:
        """Read keys and pastes. At the end of input, the terminal is gone."""
        parser, pastes = XTermParser(self._debug), Pastes()
        decode = getincrementaldecoder("utf-8")("replace").decode
        with suppress(OSError):
            while not self.exit_event.is_set():
                if select.select([self.fileno], [], [], POLL_SECONDS)[0]:
                    data = os.read(self.fileno, 4096)
                    if not data:
                        break
                    if text := pastes.feed(decode(data)):  # an empty one would end the parser
                        for event in parser.feed(text):
                            self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)
        if not self.exit_event.is_set() and isinstance(self._app, TerminalApp):
            self._app.hang_up()

    def restore(self) -> None:
        """Restore the terminal at once, bypassing all queues, as far as possible."""
        if self.attrs_before is not None:
            with suppress(termios.error):
                termios.tcsetattr(self.fileno, termios.TCSANOW, self.attrs_before)
        self.output.write(RESTORED)


LEAVE_SECONDS = 2.0
SIGNAL_SECONDS = 1.0
LOST = "This conversation is not stored. Press the key again to leave and lose it; /export writes it to a file."
"""Seconds a run has to end: when the user leaves, and when a signal or a hangup ends the app."""


class TerminalApp(App[None]):
    """A conversation with a worker in full screen. It handles signals and the loss of its terminal.

    Args:
        worker: Answers the messages; or the session that the app continues.
        options: As for `run_app`.

    Attributes:
        guard: Context manager to enter around the whole run of the app.
    """

    CSS_PATH = "app.tcss"
    TITLE = "rxworker"
    COMMAND_PALETTE_BINDING = "ctrl+backslash"
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - Textual types it so
        (0, "-narrow"),
        (NARROW, "-wide"),
    ]
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012
        (0, "-low"),
        (18, "-high"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "leave", "Leave", show=False, priority=True),
        Binding("ctrl+t", "theme", "Light/dark", priority=True, show=False),
    ]

    def __init__(self, worker: Worker | Session, **options: Unpack[AppOptions]) -> None:
        super().__init__()
        self.guard = Guard(self._restore)
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._early: list[int] = []
        self._is_pending = False
        for theme in THEMES:
            self.register_theme(theme)
        if "TEXTUAL_THEME" not in os.environ:
            self.theme = DARK
        self.session = TerminalSession(worker, **options)
        self.conversation = ConversationScreen(self.session, **options)
        self._leaving: int | None = None
        self._asked = ""

    def get_default_screen(self) -> ConversationScreen:
        """The conversation."""
        return self.conversation

    def on_mount(self) -> None:
        """Set up the event loop, and handle the signals that arrived before it ran."""
        self._event_loop = asyncio.get_running_loop()
        # Textual starts tasks eagerly, inside the code that creates them. Runs expect tasks to start later.
        self._event_loop.set_task_factory(None)
        for number in self._early:
            self._handle(number)

    async def on_unmount(self) -> None:
        """Give the conversation back."""
        await self.session.close()

    def on_quit(self, message: Quit) -> None:
        """Leave after Ctrl-D, after a command, or after Ctrl-C if it did not cancel a run."""
        self.run_worker(self.action_leave(message.code))

    def watch_theme(self, _before: str, _now: str) -> None:
        """Redraw the parts that have colours of their own."""
        if self.is_running:
            for transcript in self.query(Transcript):
                transcript.draw_again()

    def action_theme(self) -> None:
        """Switch between the light and the dark theme."""
        self.theme = LIGHT if self.current_theme.dark else DARK

    async def action_leave(self, code: int = 0) -> None:
        """Leave; if a conversation is lost with the app, only when this is pressed again.

        Args:
            code: The exit code.
        """
        session = self.session
        is_new = not session.is_stored and session.latest != self._asked
        if is_new and session.status != "cancelling":  # then it is the second Ctrl-C
            self._asked = session.latest
            self.notify(LOST, severity="warning", timeout=10)
            return
        await self.leave(code)

    async def leave(self, code: int, seconds: float = LEAVE_SECONDS) -> None:
        """Leave. A running run is cancelled first and gets a limited time to end.

        Args:
            code: The exit code.
            seconds: Seconds the run has to end.
        """
        if self._leaving is not None:
            self.exit(return_code=self._leaving)
            return
        self._leaving, self.conversation.is_left = code, True
        is_stuck = self.session.status == "cancelling"
        if (ended := self.session.cancel()) is not None and not is_stuck:
            await asyncio.wait([ended], timeout=seconds)
        usage = usage_line(self.session.totals.usage, self.session.worker.prices)
        self.exit(return_code=code, message=Text(usage, "dim") if usage and not self.is_gone else None)

    # Signals, and the loss of the terminal.

    @property
    def is_gone(self) -> bool:
        """Whether the terminal is closed."""
        return self._terminal is not None and self._terminal.output.is_gone

    def get_driver_class(self) -> type[Driver]:
        """A driver that survives the loss of the terminal."""
        usual = super().get_driver_class()
        return TerminalDriver if usual is LinuxDriver else usual

    def forward_signal(self, number: int) -> None:
        """Forward a signal to the event loop. Safe in a signal handler."""
        is_again, self._is_pending = self._is_pending, True
        if number != signal.SIGINT or is_again:
            self.guard.expect_end(128 + number)
            if self._terminal is not None:
                self._terminal.output.limit_wait()
        self._post(number)

    def hang_up(self) -> None:
        """Handle the loss of the terminal. Thread-safe."""
        self.guard.expect_end(HUNG_UP)
        if self._terminal is not None:
            self._terminal.give_up()
        self._post(HUNG_UP - 128)

    @property
    def _terminal(self) -> TerminalDriver | None:
        return self._driver if isinstance(self._driver, TerminalDriver) else None

    def _restore(self) -> None:
        if self._terminal is not None:
            self._terminal.restore()

    def _post(self, number: int) -> None:
        if self._event_loop is None:
            self._early.append(number)
            return
        with suppress(RuntimeError):  # the loop is closed: the app has ended
            self._event_loop.call_soon_threadsafe(self._handle, number)

    def _handle(self, number: int) -> None:
        """SIGINT cancels the running run, any other signal leaves.

        SIGHUP also if the terminal closed without a signal.
        """
        self._is_pending = False
        if number == signal.SIGINT and self.session.active is not None:
            self.conversation.action_cancel()
        elif self._leaving is None:  # a terminal that closes may send the signal twice
            self.run_worker(self.leave(128 + number, SIGNAL_SECONDS))
