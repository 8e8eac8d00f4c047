"""The process of a command: its streams, its messages and errors, Ctrl-C, and the event loop."""

from __future__ import annotations

import asyncio
import errno
import gc
import io
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeAlias, TypeVar

from rxworker.adapters.logs import JsonFormatter, to_line
from rxworker.errors import ConfigurationError, LogError, RxWorkerError
from rxworker.messages import JsonObject
from rxworker.redact import redact
from rxworker.ui.clean import clean, one_line

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from rxworker.log import EventLog

logger = logging.getLogger("rxworker.cli")


def prepare_streams() -> None:
    """Show question marks for characters that the terminal lacks, instead of raising, and write whole texts."""
    sys.stdout, sys.stderr = _write_whole(sys.stdout), _write_whole(sys.stderr)
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _write_whole(stream: TextIO) -> TextIO:
    # With PYTHONUNBUFFERED=1 or `python -u`, Python loses the rest of a text if a signal, such as Ctrl-C, ends a write
    # that waits for a slow terminal. Then the cursor stayed hidden, since the text that shows it was in that rest.
    raw = getattr(stream, "buffer", None)
    if not isinstance(raw, io.RawIOBase):
        return stream
    return io.TextIOWrapper(_WholeWrites(raw, stream.name), stream.encoding, write_through=True)


class _WholeWrites(io.BufferedIOBase):
    """Writes without a buffer, each of them whole."""

    def __init__(self, raw: io.RawIOBase, name: str) -> None:
        self._raw = raw
        self.name = name

    def write(self, data: ReadableBuffer, /) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        while left:
            written = self._raw.write(left)
            if written is None:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            left = left[written:]
        return size

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._raw.isatty()

    def fileno(self) -> int:
        return self._raw.fileno()


def write_line(text: str) -> None:
    """Write a line to standard output."""
    print(text, flush=True)


def write_error(text: str) -> None:
    """Write a line to standard error, unless it is closed."""
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def write_json(value: JsonObject) -> None:
    """Write one line of JSON to standard output, in UTF-8 regardless of the terminal's encoding."""
    data = (to_line(value) + "\n").encode("utf-8", "backslashreplace")
    buffer = getattr(sys.stdout, "buffer", None)
    if isinstance(buffer, io.BufferedIOBase):
        sys.stdout.flush()
        buffer.write(data)
        buffer.flush()
    else:
        print(data.decode(), end="", flush=True)


def read_file(file: str) -> bytes:
    """Read a whole file, or standard input if its name is ``-``.

    Raises:
        CommandError: It cannot be read.
    """
    try:
        if file != "-":
            return Path(file).read_bytes()
        if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - closed with <&-
            raise OSError("standard input is closed")
        buffer = getattr(sys.stdin, "buffer", None)
        return buffer.read() if isinstance(buffer, io.BufferedIOBase) else sys.stdin.read().encode()
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise CommandError(f"cannot read {file!r}: {reason}", MISUSED) from error


def flush() -> None:
    """Flush the streams, so that a closed pipe is noticed here and not at exit."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # pyright: ignore[reportUnnecessaryComparison] - closed with >&-
            stream.flush()


def silence() -> None:
    """Redirect standard output to the null device, since its reader has closed the pipe."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


Level: TypeAlias = Literal["debug", "info", "warning", "error"]
Format: TypeAlias = Literal["text", "json"]

TEXT = "%(asctime)s %(levelname)s %(name)s %(message)s"


def set_up_logging(level: Level = "info", form: Format = "text") -> None:
    """Write the messages of Python's logging to standard error, without secrets of the environment.

    Args:
        level: The least important messages to write.
        form: ``text``, or ``json`` for one object a line; see `JsonFormatter`.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else _TextFormatter(TEXT))
    handler.addFilter(lambda record: record.name != "watchfiles.main" or record.levelno > logging.INFO)  # each change
    logging.basicConfig(level=level.upper(), handlers=[handler])


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        # An exception of a tool may contain anything, also commands for the terminal.
        return clean(redact(super().format(record)))


FAILED = 1
MISUSED = 2
INTERRUPTED = 130

# The errors name arguments of Python calls; on the command line these are options.
_OPTIONS = {
    "pass api_key=...": "name another with --api-key-env",
    "api_key=...": "--api-key-env",
    "base_url": "--base-url",
    "with port=...": "with --port",
}


class CommandError(Exception):
    """The command failed.

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


B = TypeVar("B")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """An event loop of uvloop, which takes half the time for the same bytes, or of asyncio without uvloop."""
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


def run_async(main: Coroutine[Any, Any, B]) -> B:
    """Like ``asyncio.run``, on such an event loop.

    >>> async def answer() -> int:
    ...     return 42
    >>> run_async(answer())
    42
    """
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


COLLECTOR = (10_000, 20, 50)
"""The thresholds of the garbage collector in a process with many runs.

Nearly all of a run is freed without it, so that by Python's own it would go through all runs that are on for a few
objects: a third of the CPU of 600 runs that begin."""


def run_until_stopped(main: Callable[[], Coroutine[Any, Any, object]]) -> int:
    """Run until Ctrl-C or SIGTERM, which cancel it once, so that its cleanup is not cancelled.

    Returns:
        0 after SIGTERM, or when it has ended by itself.

    Raises:
        CommandError: It raised a `ConfigurationError` or a `LogError`.
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    from rxworker.ui.terminal.lifecycle import on_signals  # with the worker, which takes a while

    received: set[int] = set()

    async def run() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def stop(number: int) -> None:
            if not received:
                loop.call_soon_threadsafe(task.cancel)
            received.add(number)

        with on_signals(stop, (signal.SIGINT, signal.SIGTERM)):
            await main()

    usual = gc.get_threshold()
    gc.freeze()  # what is imported stays
    gc.set_threshold(*COLLECTOR)
    try:
        run_async(run())
    except asyncio.CancelledError:
        if signal.SIGTERM not in received:
            raise KeyboardInterrupt from None
    except (ConfigurationError, LogError) as error:
        raise CommandError(explain(error)) from error
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()
    return 0


@contextmanager
def misuse(where: str = "") -> Generator[None]:
    """Report a `ConfigurationError` as a misuse of the command.

    Args:
        where: Precedes the message, such as the option and a colon.

    Raises:
        CommandError: A `ConfigurationError` was raised.
    """
    try:
        yield
    except ConfigurationError as error:
        raise CommandError(f"{where}{explain(error)}", MISUSED) from error


OPENING = (0.5, 1.0, 2.0, 5.0)
"""Seconds until a log that is not ready is opened again: after the first failure, the second and so on."""
PATIENCE = 60.0
"""Seconds after which it is given up."""


async def open_patiently(address: str) -> EventLog:
    """Open a log whose server may still be starting: it is tried again for a minute.

    Raises:
        ConfigurationError: It is not the address of a log.
        LogError: The log cannot be opened.
    """
    from rxworker.log import open_log  # most commands need no log

    pauses, pause, waited = iter(OPENING), 0.0, 0.0
    while True:
        try:
            return open_log(address)
        except LogError as error:
            pause = next(pauses, pause)
            waited += pause
            if not error.retryable or waited > PATIENCE:
                raise
            logger.warning("the log is not ready: %s. It is tried again in %g s", error, pause)
        await asyncio.sleep(pause)
