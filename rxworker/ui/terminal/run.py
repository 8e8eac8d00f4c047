"""Opens the terminal app. Textual is imported here on demand, to raise a helpful error if it is not installed."""

from __future__ import annotations

import asyncio
import importlib
import sys
from typing import Unpack

from rxworker.errors import ConfigurationError, LocalProtocolError
from rxworker.messages.settings import check_plain
from rxworker.operators.gate import check_gate
from rxworker.ui.terminal.lifecycle import is_terminal, on_signals
from rxworker.ui.terminal.session import AppOptions
from rxworker.watchdog import running_loop
from rxworker.worker.session import Session, Worker


def run_app(worker: Worker | Session, **options: Unpack[AppOptions]) -> int:
    """Run a conversation with a worker in full screen until the user leaves.

    The runs live on the app's event loop. Afterwards, the conversation is in ``worker.session.conversation``.

    Args:
        worker: Answers the messages, with its tools and hooks; or the session to continue.
        wording: Returns the line that describes an error; by default the text of the error.
        models: Other models that the command ``/model`` offers.
        find_model: Returns the model of a provider's name and a model's name, so that ``/model`` takes any; raises a
            `ConfigurationError` if there is none.
        goes_on: Whether it begins with the stored conversation that was used last.
        dashboard: What ``/usage`` shows of the conversation; by default `rxworker.panels.USAGE`.
        gate: What `rxworker.operators.hold_back` returned: what the user types must pass its checks before anything of
            it is stored or sent to a model.

    Returns:
        An exit code: 0, 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP or if the terminal was closed. After a
            signal or a
        closed terminal, the run has one second to be cancelled and the app three seconds to end; then the process ends.

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
    if running_loop() is None:
        return asyncio.run(run_app_async(worker, **options))
    raise LocalProtocolError("an event loop runs here: await run_app_async(worker)")


async def run_app_async(worker: Worker | Session, **options: Unpack[AppOptions]) -> int:
    """Like `run_app`, if an event loop is already running, for example inside the connection to an MCP server.

    Args:
        worker: Answers the messages; or the session to continue.
        wording: Returns the line that describes an error.
        models: Other models that the command ``/model`` offers.
        find_model: Returns other models by their names.
        goes_on: As for `run_app`.
        dashboard: As for `run_app`.
        gate: As for `run_app`.

    Raises:
        ConfigurationError: Textual is not installed, or standard input or output is not a terminal.
    """
    check_plain("wording or find_model", options.get("wording"), options.get("find_model"))
    check_gate(options.get("gate"))
    if not has_textual():
        message = "the terminal app needs textual, which is not installed: pip install '/path/to/the/checkout[tui]'"
        raise ConfigurationError(message)
    # Standard error may be redirected: then the app draws on standard output.
    streams = {"standard input": sys.__stdin__, "standard output": sys.__stdout__}
    if redirected := [name for name, stream in streams.items() if not is_terminal(stream)]:
        what = "is not a terminal" if len(redirected) == 1 else "are not terminals"
        raise ConfigurationError(
            f"the terminal app cannot start: {' and '.join(redirected)} {what}. Run it in a terminal without "
            "redirecting that"
        )
    from rxworker.ui.terminal.app import TerminalApp

    app = TerminalApp(worker, **options)
    with app.guard, on_signals(app.forward_signal):
        try:
            await app.run_async()
        except OSError:
            if not app.is_gone:  # otherwise no terminal is left to show it
                raise
    return app.return_code or 0


def has_textual() -> bool:
    """Whether Textual is installed."""
    try:
        importlib.import_module("textual")
    except ImportError:
        return False
    return True
