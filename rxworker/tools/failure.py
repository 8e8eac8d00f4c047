"""A call that went wrong, as the model reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias, cast

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


def must_pass(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Whether an exception that left a tool is not the tool's failure: an interrupt, or the end of the coroutine that runs it.

    ``SystemExit`` is a failure: text of the model that reaches ``argparse`` must not end the program.

    Args:
        error: What left the tool.
        task: The task in which the tool ran.
    """
    if isinstance(error, BaseExceptionGroup):
        members = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return any(must_pass(member, task) for member in members)
    if isinstance(error, GeneratorExit):
        # Raised where a coroutine is closed, which a task does not do to its own; otherwise the tool has raised it.
        return asyncio.current_task() is not task if _has_loop() else True
    return isinstance(error, KeyboardInterrupt)


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


__all__ = ["ErrorFormatter", "must_pass", "tell"]
