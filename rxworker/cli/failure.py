"""What went wrong, in one line that says what to do."""

from __future__ import annotations

import importlib

from rxworker.errors import RxWorkerError
from rxworker.ui.clean import one_line

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


__all__ = ["FAILED", "INTERRUPTED", "MISUSED", "CommandError", "explain", "need_rich"]
