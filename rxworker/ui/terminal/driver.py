"""Textual's terminal driver, for a terminal that may be slow or disappear while the app is open.

Theory of operation. Textual writes in a thread, from a queue of thirty pieces. If that thread ended with the terminal,
or blocked on a terminal that is not read, the queue would fill and the event loop would block forever. Therefore
`Output` never raises, and its wait can be interrupted: it opens the terminal a second time, non-blocking for this
process only, and while the terminal is full, the thread waits for room or for `limit_wait`. What a terminal does not
accept is dropped.

Textual's parser takes all characters between an escape character within pasted text and the end of the paste for keys:
such a paste could send messages and approve calls. Therefore `Pastes` replaces it before the parser reads them.
"""

from __future__ import annotations

import os
import select
import sys
import termios
from codecs import getincrementaldecoder
from contextlib import suppress
from typing import IO, Any, cast

from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

from rxworker.ui.clean import clean
from rxworker.ui.terminal.lifecycle import is_terminal

WRITE_TIMEOUT = 0.5
"""Seconds a terminal has to accept data after `Output.limit_wait`."""


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
        self._wake_read, self._wake_write = os.pipe()
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
        self._call()

    def give_up(self) -> None:
        """Stop writing. Thread-safe."""
        self.is_gone = True
        self._timeout = 0.0
        self._call()

    def close(self) -> None:
        """Close the file descriptors."""
        for fd in {self._fd, self._wake_read, self._wake_write} - {self._given}:
            os.close(fd)

    def _wait(self) -> None:
        """Wait until there is room, or until `limit_wait` or `give_up` is called."""
        timeout, waiting = self._timeout, select.poll()
        waiting.register(self._fd, select.POLLOUT)
        if timeout is None:
            waiting.register(self._wake_read, select.POLLIN)
        ready = waiting.poll(None if timeout is None else timeout * 1000)
        if not ready:
            self.is_gone = True

    def _call(self) -> None:
        with suppress(OSError):
            os.write(self._wake_write, b"!")


def _open_again(fileno: int) -> int:
    """Open the same terminal with its own flags; the given descriptor is shared with other processes."""
    try:
        return os.open(os.ttyname(fileno), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return fileno


PASTE, END = "\x1b[200~", "\x1b[201~"
"""Before and after pasted text."""
READ_SECONDS = 0.1


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
        self,
        app: App[Any],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
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
        """Read keys and pastes. End of input is not an error; `Guard` detects it too."""
        parser, pastes = XTermParser(self._debug), Pastes()
        decode = getincrementaldecoder("utf-8")("replace").decode
        with suppress(OSError):
            while not self.exit_event.is_set():
                if select.select([self.fileno], [], [], READ_SECONDS)[0]:
                    data = os.read(self.fileno, 4096)
                    if not data:
                        return
                    if text := pastes.feed(decode(data)):  # an empty one would end the parser
                        for event in parser.feed(text):
                            self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)

    def restore(self) -> None:
        """Restore the terminal at once, bypassing all queues, as far as possible."""
        if self.attrs_before is not None:
            with suppress(termios.error):
                termios.tcsetattr(self.fileno, termios.TCSANOW, self.attrs_before)
        self.output.write(RESTORED)
