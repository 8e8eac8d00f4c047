"""One call, up to the error that the model will read.

Each attempt has a `_Line` to the watchers. It belongs to the event loop's thread: progress told in another thread is
handed over. It is closed when the attempt ends, so that a thread that was given up is heard no more.

One coroutine does it all, since each that stands between a run and its tool costs every call.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct, field
from msgspec.json import Encoder

from rxworker.errors import (
    ExecutionFailedError,
    InvalidArgumentError,
    ToolError,
    ToolTimeoutError,
)
from rxworker.events import Record, ToolProgress, ToolStart
from rxworker.messages import Json, ResultContent, ToolCall
from rxworker.tools.base import Tool, ToolPolicy
from rxworker.tools.context import ToolContext
from rxworker.tools.results import describe, to_content
from rxworker.tools.stop import TooLateError, at_work, within

Emit: TypeAlias = Callable[[ToolStart | ToolProgress], None]
Relay: TypeAlias = Callable[[str, Record], None]
"""Takes the id of a call, and a record of a run that this call has begun."""

encode = Encoder().encode


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


class _Line(ToolContext):
    """What one attempt is given: the context of its tool, which tells the watchers.

    It fills itself in, since the keywords of a `ToolContext` take as long as all the rest; a test holds it to have the same.
    """

    def __init__(
        self, call: ToolCall, around: Surroundings, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.call_id = call.id
        self.tool = call.name
        self.idempotency_key = f"{around.scope}/{call.id}" if around.scope else call.id
        self.variables = around.variables
        self.cancelled = False
        self._around = around
        self._loop = loop
        self._home = threading.get_ident()

    def _report(self, value: Json) -> None:
        """Tell progress, from any thread."""
        if threading.get_ident() == self._home:
            self._deliver(value)
        else:
            # The loop may be closed while a thread that was given up still talks.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._deliver, value)

    def _deliver(self, value: Json) -> None:
        if not self.cancelled:
            self._around.emit(ToolProgress(self.call_id, value))

    def _relay(self, record: Record) -> None:
        self._around.relay(self.call_id, record)


async def attempts(
    tool: Tool,
    policy: ToolPolicy,
    call: ToolCall,
    around: Surroundings,
    loop: asyncio.AbstractEventLoop,
    task: asyncio.Task[Any] | None,
    *,
    own_task: bool,
) -> ResultContent:
    """Run a tool, again and again as far as its policy allows. What it raises becomes a `ToolError`.

    Args:
        tool: What to run.
        policy: How it may be run.
        call: What it was called with.
        around: What it shares with the other calls.
        loop: The event loop.
        task: The task in which it runs.
        own_task: Whether that is the call's own, which `stop_all` may leave behind.

    Raises:
        ToolError: What the last attempt came to.
    """
    cancels = 0 if task is None else task.cancelling()
    left = policy.retries
    try:
        arguments = call.input if isinstance(call.input, str) else encode(call.input)
    except Exception as error:  # what a hook has put there may raise anything
        text = f"invalid arguments at $: this has no JSON form: {error}"
        raise InvalidArgumentError(text, tool=call.name) from error
    while True:
        line = _Line(call, around, loop)
        try:
            if own_task and task is not None and policy.timeout is None:
                at_work[task] = line
                value = await tool.execute(arguments, line)
            else:
                work = _executed(tool, arguments, line)
                value = await within(work, policy.timeout, call.name)
            return value if isinstance(value, str) else to_content(value, call.name)
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            is_cancelled = task is None or task.cancelling() > cancels
            if is_cancelled and isinstance(error, asyncio.CancelledError):
                raise
            failure = _failure(error, call, policy)
            if left <= 0 or is_cancelled or isinstance(failure, InvalidArgumentError):
                if failure is error:
                    raise
                raise failure from error
            left -= 1
        finally:
            line.close()
            if task is not None:
                at_work.pop(task, None)


def _failure(error: BaseException, call: ToolCall, policy: ToolPolicy) -> ToolError:
    """What an attempt that raised has come to."""
    if isinstance(error, ToolError):
        return error
    if isinstance(error, TooLateError):
        text = f"{call.name} gave no result within {policy.timeout:g} seconds"
        if not error.stopped:
            text += (
                " and does not stop: it is left behind, and whether it has an effect is not known"
            )
        return ToolTimeoutError(text, tool=call.name)
    if isinstance(error, asyncio.CancelledError):
        # Nobody cancelled us: something that the tool waited for was cancelled.
        return ExecutionFailedError("what it waited for was cancelled", tool=call.name)
    return ExecutionFailedError(describe(error), tool=call.name)


async def _executed(tool: Tool, arguments: str | bytes, context: ToolContext) -> ResultContent:
    try:
        return await tool.execute(arguments, context)
    except SystemExit as error:  # as the exception of a task it would end the event loop
        raise ExecutionFailedError(describe(error), tool=context.tool) from error


__all__ = ["Emit", "Relay", "Surroundings", "attempts", "ignore", "ignore_record"]
