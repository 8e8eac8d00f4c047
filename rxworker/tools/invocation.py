"""One call, up to the error that the model will read.

Each attempt has a `_Line` to the watchers. It belongs to the event loop's thread: progress reported in another thread
is handed over. It is closed when the attempt ends, so that the reports of an abandoned thread are dropped.

One coroutine does it all, since each that stands between a run and its tool costs every call.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from hashlib import sha256
from typing import Any, TypeAlias

from msgspec import Struct, field
from msgspec.json import Encoder

from rxworker.errors import ExecutionFailedError, InvalidArgumentError, ToolError, ToolTimeoutError, describe
from rxworker.events import Custom, LoopHold, Record, ToolProgress, ToolStart, ToolStop
from rxworker.events.arguments import arguments_object, decode_arguments
from rxworker.events.pause import PausedCall
from rxworker.messages import Json, ToolCall, ToolResult
from rxworker.messages.content import ResultContent
from rxworker.tools.base import QuestionError, SharedState, Tool, ToolContext, ToolPolicy
from rxworker.tools.calls import FinishedCall, PendingCall
from rxworker.tools.cancellation import TooLateError, at_work, within
from rxworker.tools.results import must_pass, to_result
from rxworker.watchdog import watched

ToolEvent: TypeAlias = ToolStart | ToolProgress | ToolStop | LoopHold | Custom
Emit: TypeAlias = Callable[[ToolEvent], None]
"""Receives the start, the progress and the end of each call."""
Forwarder: TypeAlias = Callable[[str, Record], None]
"""Takes the id of a call, and a record of a run that this call has begun."""

encode = Encoder().encode
encode_sorted = Encoder(order="sorted").encode


CallEnd: TypeAlias = FinishedCall | PendingCall
"""What becomes of a call that runs."""


def ignore(event: ToolEvent) -> None:
    """Drop the event."""


def ignore_record(call_id: str, record: Record) -> None:
    """Drop the record."""


class CallScope(Struct, frozen=True):
    """The fields that the calls of a response share.

    Attributes:
        key: The prefix of idempotency keys, such as the run and the turn; by default that of each stream of calls is
            another one, since ids of calls may come again.
        variables: Values that the tools share, and the hooks with them; by default each call has its own.
        shared: The state that tools and hooks share with user interfaces; by default each call has its own.
        relay: Receives the records of runs that tools start, in the event loop's thread. It must not raise.
        barrier: Awaited after the start of a call was emitted and before a tool with effects runs. What it raises ends
            the run.
        keep: Stores with the next progress of the call of a place how that call goes on.
        is_left: Returns whether another process goes on with the calls.
        can_ask: Whether a person can answer the questions of tools. Such a call ends with the question, without a
            `ToolStop`.
        start_task: Starts the task of a call.
        tasks: The tasks of calls that were discarded and still clean up.
    """

    key: str = ""
    variables: dict[str, Any] | None = None
    shared: SharedState | None = None
    relay: Forwarder = ignore_record
    barrier: Callable[[], Awaitable[None]] | None = None
    keep: Callable[[int, Json], None] | None = None
    is_left: Callable[[], bool] | None = None
    can_ask: bool = False
    start_task: Callable[[Coroutine[object, None, CallEnd]], asyncio.Task[CallEnd]] = asyncio.create_task
    tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])


NO_SCOPE = CallScope()
GivenCalls: TypeAlias = tuple[CallScope, tuple[PausedCall, ...]]
NO_CALLS: GivenCalls = (NO_SCOPE, ())
GIVEN_CALLS: ContextVar[GivenCalls] = ContextVar("rxworker_given_calls", default=NO_CALLS)
"""For an executor of a run: what the calls share, and the calls with their places."""


class RunningCall:
    """One call that runs, or waits for its turn.

    Attributes:
        each: The call, with its place among those of its response.
        scope: What it shares with other calls.
        emit: Receives its start, its progress and its end, in the event loop's thread.
        tool: The tool that it began with; ``None`` if there is none.
        has_started: Whether its start was emitted.
        is_running: Whether its end was not emitted since.
        is_wanted: Whether its events are still emitted.
        task: The task in which it runs, where it has one of its own.
    """

    __slots__ = ("each", "emit", "has_started", "is_running", "is_wanted", "scope", "task", "tool")

    task: asyncio.Task[CallEnd]

    def __init__(self, each: PausedCall, scope: CallScope, emit: Emit = ignore) -> None:
        self.each = each
        self.scope = scope
        self.emit = emit
        self.tool: Tool | None = None
        self.has_started = self.is_running = False
        self.is_wanted = True

    def is_of(self, each: PausedCall) -> bool:
        """Whether it is this very call: the same id, tool and arguments."""
        mine, other = self.each.call, each.call
        return mine is other or (mine.id, mine.name, mine.input) == (other.id, other.name, other.input)

    def report(self, event: ToolEvent) -> None:
        """Emit an event, unless the call is not wanted any more."""
        if self.is_wanted:
            if isinstance(event, ToolStart):
                self.has_started = self.is_running = True
            elif isinstance(event, ToolStop):
                self.is_running = False
            self.emit(event)


class _Line(ToolContext):
    """The context of one attempt of a tool, which reports to the watchers.

    It fills itself in, since the keywords of a `ToolContext` take as long as all the rest; a test holds it to have the
    same.
    """

    __slots__ = ("_home", "_loop", "_running", "_scope")

    def __init__(self, running: RunningCall, loop: asyncio.AbstractEventLoop) -> None:
        call, scope = running.each.call, running.scope
        self.call_id = call.id
        self.tool = call.name
        self.variables = {} if scope.variables is None else scope.variables
        self.cancelled = False
        self.begun = running.each.begun
        self.can_ask = scope.can_ask
        self._running = running
        self._scope = scope
        self._loop = loop
        self._home = threading.get_ident()
        self._shared = SharedState() if scope.shared is None else scope.shared

    @property
    def idempotency_key(self) -> str:
        # Computed at its first use: few tools use it, and a digest costs a tenth of a short call.
        return key_of(self._running.each.call, self._running.each.place, self._scope.key)

    @property
    def is_left(self) -> bool:
        is_left = self._scope.is_left
        return is_left is not None and is_left()

    async def keep(self, state: Json, progress: object = None) -> None:
        scope = self._scope
        if scope.keep is not None:
            scope.keep(self._running.each.place, state)
        self.progress(progress)
        if scope.barrier is not None:
            await scope.barrier()

    def _report(self, value: Json | Custom) -> None:
        """Report progress, or an event, from any thread."""
        if threading.get_ident() == self._home:
            self._deliver(value)
        else:
            # The loop may be closed while a thread that was given up still talks.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._deliver, value)

    def _deliver(self, value: Json | Custom) -> None:
        if not self.cancelled:
            is_event = isinstance(value, Custom)
            event = value if is_event else ToolProgress(self.call_id, value, self._running.each.place)
            self._running.report(event)

    def note_hold(self, seconds: float) -> None:
        self._running.report(LoopHold("tool", self.tool, seconds))

    def _relay(self, record: Record) -> None:
        if self._running.is_wanted:
            self._scope.relay(self.call_id, record)


def key_of(call: ToolCall, place: int, scope: str) -> str:
    """The idempotency key of a call: its scope, its place in the response, and a digest of its arguments.

    Two calls of one response have different keys, whatever their ids; so has a call with other arguments.

    >>> key_of(ToolCall("x", "pay", {"euros": 1}), 0, "run-1/1")
    'run-1/1/0/0239f0588303f7aa'
    """
    try:
        text = encode_sorted(call.input)
    except UnicodeError:  # half of a surrogate pair, which a model may write
        text = json.dumps(call.input, sort_keys=True).encode()
    return f"{scope or call.id}/{place}/{sha256(text).hexdigest()[:16]}"


async def attempts(
    tool: Tool, policy: ToolPolicy, running: RunningCall, *, task: asyncio.Task[object] | None, own_task: bool
) -> ResultContent | ToolResult:
    """Run a tool, again and again as far as its policy allows. What it raises becomes a `ToolError`.

    Args:
        tool: The tool to run.
        policy: Its execution policy.
        running: The call.
        task: The task in which it runs.
        own_task: Whether that is the call's own, which `stop_all` may abandon.

    Raises:
        ToolError: The error of the last attempt.
        QuestionError: The tool waits for an answer, and the call has one who can give it.
    """
    loop = asyncio.get_running_loop()
    cancels = 0 if task is None else task.cancelling()
    call, left = running.each.call, policy.retries
    try:
        given = decode_arguments(call.input, tool.meta)
        arguments = encode(arguments_object(given, tool.meta))
    except InvalidArgumentError:
        raise
    except Exception as error:  # half a character, or a number beyond 64 bits
        text = f"invalid arguments at $: this has no JSON form: {error}"
        raise InvalidArgumentError(text, tool=call.name) from error
    while True:
        line = _Line(running, loop)
        try:
            if own_task and task is not None and policy.timeout is None:
                at_work[task] = call.name, line.close
                value = await watched(tool.execute(arguments, line), "tool", call.name, line.note_hold)
            else:
                work = _executed(tool, arguments, line, line.note_hold)
                value = await within(work, policy.timeout, call.name)
            return value if isinstance(value, str) else to_result(value, call.name)
        except BaseException as error:
            if not isinstance(error, Exception) and must_pass(error, task):
                raise
            if line.can_ask and isinstance(error, QuestionError):
                raise
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
    """The error of an attempt that raised."""
    if isinstance(error, ToolError):
        error.tool = error.tool or call.name
        return error
    if isinstance(error, TooLateError):
        text = f"{call.name} gave no result within {policy.timeout:g} seconds"
        if not error.stopped:
            text += " and does not stop: it is abandoned, and whether it has an effect is not known"
        return ToolTimeoutError(text, tool=call.name)
    if isinstance(error, asyncio.CancelledError):
        # The call was not cancelled: something that the tool waited for was.
        return ExecutionFailedError("what it waited for was cancelled", tool=call.name)
    if isinstance(error, QuestionError):
        return ExecutionFailedError(f"nothing here can answer: {error}", tool=call.name)
    return ExecutionFailedError(describe(error), tool=call.name)


async def _executed(
    tool: Tool, arguments: str | bytes, context: ToolContext, held: Callable[[float], None]
) -> ResultContent | ToolResult:
    """Run a tool in a task of its own.

    ``SystemExit`` must not leave a task: asyncio would raise it out of the event loop.
    """
    try:
        return await watched(tool.execute(arguments, context), "tool", context.tool, held)
    except SystemExit as error:
        raise ExecutionFailedError(describe(error), tool=context.tool) from error
