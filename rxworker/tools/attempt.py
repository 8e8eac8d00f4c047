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
from msgspec import Struct, field

from rxworker.errors import (
    ExecutionFailedError,
    InvalidArgumentError,
    ToolError,
    ToolTimeoutError,
)
from rxworker.events import Record, ToolProgress, ToolStart
from rxworker.messages import Json, ResultContent, ToolCall
from rxworker.tools.base import Tool, ToolPolicy, policy_of
from rxworker.tools.context import ToolContext
from rxworker.tools.results import describe, to_content
from rxworker.tools.stop import TooLateError, within

Emit: TypeAlias = Callable[[ToolStart | ToolProgress], None]
Relay: TypeAlias = Callable[[str, Record], None]
"""Takes the id of a call, and a record of a run that this call has begun."""


def ignore(event: ToolStart | ToolProgress) -> None:
    """Tell nobody."""


def ignore_record(call_id: str, record: Record) -> None:
    """Show it to nobody."""


class Surroundings(Struct, frozen=True):
    """What the calls of a response share.

    Attributes:
        emit: Is told when a call starts and how far it is, in the event loop's thread. It must not raise.
        relay: Is shown the records of runs that tools begin, in the event loop's thread. It must not raise.
        scope: What makes a call's id unique, such as the run and the turn: idempotency keys begin with it.
        variables: Values that the tools share.
    """

    emit: Emit = ignore
    relay: Relay = ignore_record
    scope: str = ""
    variables: dict[str, Any] = field(default_factory=dict[str, Any])


class _Line:
    """What one call tells the watchers."""

    def __init__(self, call_id: str, around: Surroundings) -> None:
        self._call_id = call_id
        self._around = around
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

    def relay(self, record: Record) -> None:
        """Show a record of a run that the call has begun."""
        if not self._cut:
            self._around.relay(self._call_id, record)

    def cut(self) -> None:
        """The call has ended."""
        self._cut = True

    def _deliver(self, value: Json) -> None:
        if not self._cut:
            self._around.emit(ToolProgress(self._call_id, value))


async def attempts(tool: Tool, call: ToolCall, around: Surroundings) -> ResultContent:
    """Run a tool, again and again as far as its policy allows.

    Args:
        tool: What to run.
        call: What it was called with.
        around: What it shares with the other calls.

    Raises:
        ToolError: What the last attempt came to.
    """
    policy = policy_of(tool)
    left = policy.retries
    key = f"{around.scope}/{call.id}" if around.scope else call.id
    while True:
        line = _Line(call.id, around)
        context = ToolContext(
            call.id,
            call.name,
            idempotency_key=key,
            variables=around.variables,
            report=line.report,
            relay=line.relay,
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
    try:
        arguments = _input(call)
        value = await within(_executed(tool, arguments, context), policy.timeout, call.name)
        return to_content(value, call.name)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Nobody cancelled us: something that the tool waited for was cancelled.
        raise ExecutionFailedError("what it waited for was cancelled", tool=call.name) from error
    except TooLateError as error:
        text = f"{call.name} gave no result within {policy.timeout:g} seconds"
        if not error.stopped:
            text += (
                " and does not stop: it is left behind, and whether it has an effect is not known"
            )
        raise ToolTimeoutError(text, tool=call.name) from error
    except ToolError:
        raise
    except Exception as error:
        raise ExecutionFailedError(describe(error), tool=call.name) from error


async def _executed(tool: Tool, arguments: str | bytes, context: ToolContext) -> ResultContent:
    return await tool.execute(arguments, context)


def _input(call: ToolCall) -> str | bytes:
    if isinstance(call.input, str):
        return call.input
    try:
        return msgspec.json.encode(call.input)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"invalid arguments at $: this has no JSON form: {error}", tool=call.name
        ) from error


__all__ = ["Emit", "Relay", "Surroundings", "attempts", "ignore", "ignore_record"]
