"""A call that went wrong, as the model reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from rxworker.errors import InvalidArgumentError, ToolError, ToolTimeoutError

ErrorFormatter: TypeAlias = Callable[[ToolError], str]
"""Makes the text that the model reads of an error. The error knows the tool; what the tool raised is its ``__cause__``."""


def tell(error: ToolError) -> str:
    """An error as the model reads it, where nobody says otherwise.

    >>> tell(ToolTimeoutError("look gave no result within 5 seconds", tool="look"))
    'The call was given up: look gave no result within 5 seconds.'
    """
    if isinstance(error, InvalidArgumentError):
        return f"The call was not run, {error.message}. Correct the arguments and call again."
    if isinstance(error, ToolTimeoutError):
        return f"The call was given up: {error.message}."
    return f"The tool failed: {error.message}"


__all__ = ["ErrorFormatter", "tell"]
