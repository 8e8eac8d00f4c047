"""The process of a command: its streams, its errors, Ctrl-C, and the event loop.

`Background` runs an event loop in a second thread, and the main thread reads lines, writes to a slow terminal and handles Ctrl-C. So none of these
blocks a run.
"""

from __future__ import annotations

import asyncio
import importlib
import io
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from types import FrameType, TracebackType
from typing import Any, Self, TextIO, TypeVar

from rxworker.errors import RxWorkerError
from rxworker.messages import JsonObject
from rxworker.ui.clean import one_line

# JSON leaves these as they are; a terminal may take some for the beginning of a command.
_LATE_CONTROLS = re.compile("[\x7f-\x9f]")


def prepare_streams() -> None:
    """Let a character that the terminal's encoding does not have become a question mark, not an exception."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person is at the other end; nobody is where the stream was closed."""
    return stream is not None and stream.isatty()


def write_line(text: str) -> None:
    """A line on standard output."""
    print(text, flush=True)


def write_error(text: str) -> None:
    """A line on standard error, which may be gone."""
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def write_json(value: JsonObject) -> None:
    """One line of JSON on standard output, in UTF-8 whatever the terminal's encoding is."""
    data = (to_line(value) + "\n").encode("utf-8", "backslashreplace")
    buffer = getattr(sys.stdout, "buffer", None)
    if isinstance(buffer, io.BufferedIOBase):
        sys.stdout.flush()
        buffer.write(data)
        buffer.flush()
    else:
        print(data.decode(), end="", flush=True)


def to_line(value: JsonObject) -> str:
    r"""The value as one line of JSON without control characters.

    >>> to_line({"text": "京\n\x9b"})
    '{"text": "京\\n\\u009b"}'
    """
    return _LATE_CONTROLS.sub(_escape, json.dumps(value, ensure_ascii=False))


def read_input() -> bytes:
    """All of standard input.

    Raises:
        OSError: It is closed, or cannot be read.
    """
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - closed with <&-
        raise OSError("standard input is closed")
    buffer = getattr(sys.stdin, "buffer", None)
    return buffer.read() if isinstance(buffer, io.BufferedIOBase) else sys.stdin.read().encode()


def flush() -> None:
    """Write out what is held back, so that a reader who is gone is noticed here and not at exit."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # pyright: ignore[reportUnnecessaryComparison] - closed with >&-
            stream.flush()


def silence() -> None:
    """Nobody reads standard output any more: let what is held back go nowhere."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


FAILED = 1
MISUSED = 2
INTERRUPTED = 130

# The errors speak of arguments of Python calls; here these are options.
_OPTIONS = {
    "pass api_key=...": "name another with --api-key-env",
    "api_key=...": "--api-key-env",
    "base_url": "--base-url",
}


class CommandError(Exception):
    """The command cannot do what it was asked.

    Attributes:
        code: The exit code.
    """

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


def explain(error: BaseException) -> str:
    """An error as one line.

    >>> from rxworker.errors import TransportError
    >>> explain(TransportError("cannot connect. Is base_url right?"))
    'cannot connect. Is --base-url right?'
    >>> explain(ValueError("no such city"))
    'ValueError: no such city'
    """
    line = one_line(str(error))
    if not isinstance(error, RxWorkerError):
        kind = type(error).__qualname__
        return f"{kind}: {line}" if line else kind
    for argument, option in _OPTIONS.items():
        line = line.replace(argument, option)
    return line


def need_rich(command: str) -> None:
    """See that rich can be imported.

    Raises:
        CommandError: It is not installed.
    """
    try:
        importlib.import_module("rich")
    except ImportError as error:
        raise CommandError(
            f"{command} draws with rich, which is not installed: pip install 'rxworker[cli]'"
        ) from error


@contextmanager
def on_interrupt(act: Callable[[], None]) -> Generator[None, None, None]:
    """While it lasts, Ctrl-C calls ``act`` and raises nothing.

    Outside the main thread, and where Ctrl-C is ignored, as in a background job, it changes nothing.

    Args:
        act: Must be brief, and safe at any moment: put something in a queue, schedule something on a loop.

    >>> heard: list[str] = []
    >>> with on_interrupt(lambda: heard.append("Ctrl-C")):
    ...     signal.raise_signal(signal.SIGINT)
    >>> heard
    ['Ctrl-C']
    """
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or before in (signal.SIG_IGN, None):
        yield
        return

    def handle(_number: int, _frame: FrameType | None) -> None:
        act()

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


B = TypeVar("B")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop's, or of asyncio's where uvloop is not installed."""
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


def run_async(main: Coroutine[Any, Any, B]) -> B:
    """What ``asyncio.run`` is, on such a loop.

    >>> async def answer() -> int:
    ...     return 42
    >>> run_async(answer())
    42
    """
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


PATIENCE = 1.0


class Background:
    """Runs an event loop while it is entered. Leaving cancels what still runs on it, and waits, but not for ever.

    >>> import asyncio
    >>> with Background() as background:
    ...     background.call(lambda: asyncio.get_running_loop().is_running())
    True
    """

    def __init__(self) -> None:
        self._ready = threading.Event()
        # A daemon: a tool that refuses to be cancelled must not keep the process.
        self._thread = threading.Thread(target=self._run, name="rxworker-loop", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop, while it is entered."""
        return self._loop

    def call(self, function: Callable[[], B]) -> B:
        """Call a function on the loop, and wait for what it returns or raises."""

        async def work() -> B:
            return function()

        return asyncio.run_coroutine_threadsafe(work(), self._loop).result()

    def _run(self) -> None:
        run_async(self._wait())

    async def _wait(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        await self._stop.wait()
