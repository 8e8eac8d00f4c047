"""One call, up to the error that the model will read.

Each attempt has a `_Line` to the watchers. It belongs to the event loop's thread: progress told in another thread is
handed over. It is cut when the attempt ends, so that a thread that was given up is heard no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from rxworker.errors import (
    ExecutionFailedError,
    InvalidArgumentError,
    ToolError,
    ToolTimeoutError,
)
from rxworker.events import ToolProgress, ToolStart
from rxworker.messages import Json, ResultContent, ToolCall
from rxworker.tools.base import Tool, ToolPolicy, policy_of
from rxworker.tools.context import ToolContext
from rxworker.tools.results import describe, to_content

Emit: TypeAlias = Callable[[ToolStart | ToolProgress], None]


class _Line:
    """What one call tells the watchers."""

    def __init__(self, call_id: str, emit: Emit) -> None:
        self._call_id = call_id
        self._emit = emit
        self._loop = asyncio.get_running_loop()
        self._home = threading.get_ident()
        self._cut = False

    def report(self, value: Json) -> None:
        """Tell progress, from any thread."""
        if threading.get_ident() == self._home:
            self._deliver(value)
        else:
            # The loop may be closed while a thread that was given up still talks.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._deliver, value)

    def cut(self) -> None:
        """The call has ended."""
        self._cut = True

    def _deliver(self, value: Json) -> None:
        if not self._cut:
            self._emit(ToolProgress(self._call_id, value))


async def attempts(
    tool: Tool, call: ToolCall, emit: Emit, key: str, variables: dict[str, Any]
) -> ResultContent:
    """Run a tool, again and again as far as its policy allows.

    Args:
        tool: What to run.
        call: What it was called with.
        emit: Is told how far it is.
        key: The idempotency key, the same for each attempt.
        variables: Values that the tools share.

    Raises:
        ToolError: What the last attempt came to.
    """
    policy = policy_of(tool)
    left = policy.retries
    while True:
        line = _Line(call.id, emit)
        context = ToolContext(
            call.id, call.name, idempotency_key=key, variables=variables, report=line.report
        )
        try:
            return await _attempt(tool, call, context, policy)
        except InvalidArgumentError:
            raise
        except ToolError:
            if left <= 0:
                raise
            left -= 1
        finally:
            context.close()
            line.cut()


async def _attempt(
    tool: Tool, call: ToolCall, context: ToolContext, policy: ToolPolicy
) -> ResultContent:
    """Run a tool once; what it raises becomes a `ToolError`."""
    clock = asyncio.timeout(policy.timeout)
    try:
        async with clock:
            return to_content(await tool.execute(_input(call), context), call.name)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Nobody cancelled us: something that the tool waited for was cancelled.
        raise ExecutionFailedError("what it waited for was cancelled", tool=call.name) from error
    except Exception as error:
        if clock.expired():
            raise ToolTimeoutError(
                f"{call.name} gave no result within {policy.timeout:g} seconds", tool=call.name
            ) from error
        if isinstance(error, ToolError):
            raise
        raise ExecutionFailedError(describe(error), tool=call.name) from error


def _input(call: ToolCall) -> str | bytes:
    if isinstance(call.input, str):
        return call.input
    try:
        return msgspec.json.encode(call.input)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"invalid arguments at $: this has no JSON form: {error}", tool=call.name
        ) from error


def tell(error: ToolError) -> str:
    """An error as the model reads it."""
    if isinstance(error, InvalidArgumentError):
        return f"The call was not run, {error.message}. Correct the arguments and call again."
    if isinstance(error, ToolTimeoutError):
        return f"The call was given up: {error.message}."
    return f"The tool failed: {error.message}"


__all__ = ["Emit", "attempts", "tell"]
