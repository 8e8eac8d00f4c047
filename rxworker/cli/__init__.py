"""The ``rxworker`` command.

If the process is the command, and nothing else handles Ctrl-C, then importing this package installs a handler: Ctrl-C
while the modules of the command are imported exits with code 130 and prints no traceback. `restore` removes the handler
when `main` starts, which handles Ctrl-C from there. After Ctrl-C, `exit_at_once` installs it again, for a Ctrl-C while
the process ends. A program that imports rxworker keeps its own handler.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import PurePath
from types import FrameType
from typing import NoReturn


def restore() -> None:
    """Let Ctrl-C raise ``KeyboardInterrupt`` again, if this package has changed that."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def exit_at_once() -> None:
    """Exit at the next Ctrl-C, if the process is the command. Nothing waits to be written."""
    if (
        _is_command()
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):
        signal.signal(signal.SIGINT, _exit)


def _exit(_number: int, _frame: FrameType | None) -> NoReturn:
    # An exception could be caught by the module that is being imported, and while Python exits it is printed.
    os._exit(130)


def _is_command() -> bool:
    command = PurePath(sys.argv[0] if sys.argv else "")
    # ``rxworker``, or ``python -m rxworker``, which runs the file ``rxworker/__main__.py``.
    return command.stem == "rxworker" or command.parts[-2:] == ("rxworker", "__main__.py")


exit_at_once()

from rxworker.cli.main import main  # noqa: E402 - the handler is there before the imports

__all__ = ["main"]
