"""Asking a person for a line, with line editing, while the event loop runs on in its thread.

Theory of operation. ``input`` edits lines with readline, whose loop in C looks at signals only when one wakes its
``select``. A Ctrl-C that comes just before it sleeps is seen with the next key. So the signal is also written to a pipe,
which the event loop reads; when the person is still being asked a moment later, it sends the signal once more.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

from rxworker.cli.background import Background

PROMPT = "> "
MOMENT = 0.1


def ask_line(background: Background) -> str | None:
    """The next line that the person types; ``None``: there are no more.

    Args:
        background: Runs the event loop.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    with suppress(ImportError):
        # Once imported, input() lets one edit the line and go back to earlier ones.
        importlib.import_module("readline")
    with _sent_again(background):
        print()
        try:
            return input(PROMPT)
        except EOFError:
            print()
            return None


@contextmanager
def _sent_again(background: Background) -> Generator[None, None, None]:
    """Send a Ctrl-C again that has not ended this after a moment."""
    is_main = threading.current_thread() is threading.main_thread()
    if sys.platform == "win32" or not is_main:
        yield
        return
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    main, loop = threading.get_ident(), background.loop
    is_asking = True

    def send_again() -> None:
        if is_asking:
            signal.pthread_kill(main, signal.SIGINT)

    def hear() -> None:
        if signal.SIGINT in os.read(read_end, 64):
            loop.call_later(MOMENT, send_again)

    background.call(lambda: loop.add_reader(read_end, hear))
    before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    try:
        yield
    finally:
        is_asking = False
        signal.set_wakeup_fd(before)
        background.call(lambda: loop.remove_reader(read_end))
        os.close(read_end)
        os.close(write_end)


__all__ = ["ask_line"]
