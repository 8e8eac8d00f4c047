"""Opening the terminal app. Textual is imported here and not before, so that whoever has it not can be told."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from rxworker.errors import ConfigurationError, LocalProtocolError
from rxworker.ui.terminal.lifecycle import on_signals
from rxworker.worker import Worker

if TYPE_CHECKING:
    from rxworker.ui.terminal.app import TerminalApp

Wording = Callable[[BaseException], str]


def run_app(worker: Worker, *, wording: Wording | None = None) -> int:
    """Talk to a worker in full screen, until the person leaves.

    The runs live on the app's event loop. What was said is in ``worker.conversation`` afterwards.

    Args:
        worker: Who answers, with its tools and hooks.
        wording: Makes the line that says what went wrong; by default the error's own.

    Returns:
        An exit code: 0, 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP or when the terminal was closed. After these two
        the run that was on has a second to be cancelled, and the app three to end; then the process ends.

    Raises:
        ConfigurationError: Textual is not installed, or standard input or output is not a terminal.
        LocalProtocolError: An event loop runs in this thread.

    Example:
        >>> from rxworker import Worker
        >>> from rxworker.testing import ScriptedModel
        >>> from rxworker.ui.terminal import run_app
        >>> worker = Worker(ScriptedModel(["Hello!"]))
        >>> run_app(worker)  # doctest: +SKIP
        0
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        app = _make(worker, wording)
        with _kept_from_hanging(app):
            app.run()
        return app.return_code or 0
    raise LocalProtocolError("an event loop runs here: await run_app_async(worker)")


async def run_app_async(worker: Worker, *, wording: Wording | None = None) -> int:
    """As `run_app`, where an event loop runs already, for example inside the connection to an MCP server.

    Args:
        worker: Who answers.
        wording: Makes the line that says what went wrong.

    Raises:
        ConfigurationError: Textual is not installed, or standard input or output is not a terminal.
    """
    app = _make(worker, wording)
    with _kept_from_hanging(app):
        await app.run_async()
    return app.return_code or 0


def has_textual() -> bool:
    """Whether the app can be opened here."""
    try:
        importlib.import_module("textual")
    except ImportError:
        return False
    return True


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a standard stream is open and is a terminal."""
    return stream is not None and not stream.closed and stream.isatty()


def _make(worker: Worker, wording: Wording | None) -> TerminalApp:
    if not has_textual():
        message = (
            "the terminal app needs textual, which is not installed: pip install 'rxworker[tui]'"
        )
        raise ConfigurationError(message)
    # Standard error may be redirected: the app draws on standard output then.
    streams = {"standard input": sys.__stdin__, "standard output": sys.__stdout__}
    redirected = [name for name, stream in streams.items() if not is_terminal(stream)]
    if redirected:
        what = "is not a terminal" if len(redirected) == 1 else "are not terminals"
        message = f"the terminal app cannot start: {' and '.join(redirected)} {what}. Run it in a terminal without redirecting that"
        raise ConfigurationError(message)
    from rxworker.ui.terminal.app import TerminalApp

    return TerminalApp(worker, wording=wording)


@contextmanager
def _kept_from_hanging(app: TerminalApp) -> Generator[None, None, None]:
    """Signals are heard, and the end of the terminal is noticed, whatever the app is doing."""
    with app.guard, on_signals(app.hear):
        try:
            yield
        except OSError:
            if not app.is_gone:  # otherwise there is nobody to tell
                raise
