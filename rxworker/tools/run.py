"""The calls of a response that run, each in a task of its own: their starts, progress, ends and results.

A failure of a call becomes a result that the model reads, and does not end the run, even if the tool calls
``sys.exit``. Only a cancellation of the task and ``KeyboardInterrupt`` propagate.

`run_tools` keeps a row of calls in order for each subscription. When a call ends, the head of the row is looked at:
what is done there is emitted, up to the first that still runs. All of this happens in the event loop's thread.

`Limiter` lets calls in, from a queue. The first one enters as soon as there is room: a call that runs alone, when no
other call is inside; any other call, when no call inside runs alone and fewer than the limit are inside. No call
overtakes another, so that the calls after one that runs alone wait until it has left.

`attempts` is one call, up to the error that the model will read: one coroutine does it all, since each that stands
between a run and its tool costs every call. Each attempt has a `_Line` to the watchers. It belongs to the event loop's
thread: progress reported in another thread is handed over. It is closed when the attempt ends, so that the reports of
an abandoned thread are dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from functools import partial
from hashlib import sha256
from itertools import count
from os import urandom
from typing import Any, TypeAlias

from msgspec import Struct, field
from msgspec.json import Encoder
from msgspec.structs import replace
from reactivex.internal import noop

from rxworker.errors import (
    ConfigurationError,
    ExecutionFailedError,
    InvalidArgumentError,
    ToolError,
    ToolTimeoutError,
    describe,
)
from rxworker.events import BackgroundStart, Custom, LoopHold, PausedCall, Record, ToolProgress, ToolStart, ToolStop
from rxworker.events.arguments import arguments_object, decode_arguments
from rxworker.events.pause import NESTED, QUESTION, UNTIL, BackgroundCall
from rxworker.events.turn import DISCARDED_EARLY
from rxworker.messages import Json, ToolCall, ToolResult
from rxworker.messages.content import ResultContent
from rxworker.messages.settings import awaited, check_type
from rxworker.operators.kernel import Operator
from rxworker.redact import without_secrets
from rxworker.tools.base import LaterError, QuestionError, SharedState, Tool, ToolContext, ToolPolicy, policy_of
from rxworker.tools.calls import CallItem, FinishedCall, PendingCall
from rxworker.tools.cancellation import TooLateError, at_work, keep, stop_all, within
from rxworker.tools.coroutines import Following, Rest, following
from rxworker.tools.results import change_texts, clean, must_pass, to_result, truncate
from rxworker.tools.toolbox import Toolbox
from rxworker.watchdog import watched

ToolEvent: TypeAlias = ToolStart | ToolProgress | ToolStop | LoopHold | Custom | BackgroundStart
Emit: TypeAlias = Callable[[ToolEvent], None]
"""Receives the start, the progress and the end of each call."""
Forwarder: TypeAlias = Callable[[str, Record], None]
"""Takes the id of a call, and a record of a run that this call has begun."""

encode = Encoder().encode
encode_sorted = Encoder(order="sorted").encode


CallEnd: TypeAlias = FinishedCall | PendingCall
"""What becomes of a call that runs."""


NOT_DELIVERABLE = "nothing here can deliver the result of this call later"


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
        keep: Stores with the next progress of the call of a place, or of one with an id in the background, how that
            call goes on.
        is_left: Returns whether another process goes on with the calls.
        can_ask: Whether a person can answer the questions of tools. Such a call ends with the question, without a
            `ToolStop`.
        can_wait: Whether a call whose tool waits ends with what it waits for, too.
        start_task: Starts the task of a call.
        tasks: The tasks of calls that were discarded and still clean up.
        background: Takes a call that goes into the background, and whether its result is delivered from outside; from
            then on its events. ``None``: none can.
    """

    key: str = ""
    variables: dict[str, Any] | None = None
    shared: SharedState | None = None
    relay: Forwarder = noop
    barrier: Callable[[], Awaitable[None]] | None = None
    keep: Callable[[int | str, Json], None] | None = None
    is_left: Callable[[], bool] | None = None
    can_ask: bool = False
    can_wait: bool = False
    start_task: Callable[[Coroutine[object, None, CallEnd]], asyncio.Task[CallEnd]] = asyncio.create_task
    tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    background: Callable[[RunningCall, bool], BackgroundCall] | None = None


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
        line: The context of the present attempt.
        limiter: What it leaves when it ends, or goes into the background.
        on_detach: Takes its outcome when it goes into the background. A call that began early has none until it is
            taken; `detach_as` holds until then whether its result is delivered from outside.
        background: The call in the background, if it is there.
    """

    __slots__ = (
        *("background", "detach_as", "each", "emit", "has_started", "is_running", "is_wanted", "limiter", "line"),
        *("on_detach", "scope", "task", "tool"),
    )

    task: asyncio.Task[CallEnd]

    def __init__(self, each: PausedCall, scope: CallScope, emit: Emit = noop) -> None:
        self.each = each
        self.scope = scope
        self.emit = emit
        self.tool: Tool | None = None
        self.has_started = self.is_running = False
        self.is_wanted = True
        self.on_detach: Callable[[RunningCall, CallEnd], None] | None = None
        self.detach_as: bool | None = None
        self.line: ToolContext | None = None
        self.limiter: Limiter | None = None
        self.background: BackgroundCall | None = None

    def detach(self, is_delivered: bool = False) -> bool:
        """Let the call go on in the background; its turn has a placeholder as its result.

        Args:
            is_delivered: Whether its result is delivered from outside.

        Returns:
            Whether it goes on there.
        """
        into = self.scope.background
        if into is None:
            return False
        if self.background is not None:
            if is_delivered:
                self.report(BackgroundStart(replace(self.background, is_delivered=True)))
        elif self.on_detach is None:
            self.detach_as = bool(self.detach_as) or is_delivered
        elif self.is_running and not self.task.cancelling():
            emit = self.emit
            self.background = into(self, is_delivered)
            result = self.background.placeholder
            emit(BackgroundStart(self.background))
            emit(ToolStop(result, place=self.each.place))
            if self.limiter is not None:
                self.limiter.leave()
            self.on_detach(self, FinishedCall(self.each, result, self.tool, is_final=True))
        return True

    def is_of(self, each: PausedCall) -> bool:
        """Whether it is this very call: the same id, tool and arguments."""
        mine, other = self.each.call, each.call
        return mine is other or (mine.id, mine.name, mine.input) == (other.id, other.name, other.input)

    def report(self, event: ToolEvent) -> None:
        """Emit an event, unless the call is not wanted any more."""
        if self.is_wanted:
            if type(event) is ToolStart:
                self.has_started = self.is_running = True
            elif type(event) is ToolStop:
                self.is_running = False
            self.emit(event)


class _Line(ToolContext):
    """The context of one attempt of a tool, which reports to the watchers.

    It fills itself in, since the keywords of a `ToolContext` take as long as all the rest; a test holds it to have the
    same.
    """

    __slots__ = ("_home", "_loop", "_running")

    def __init__(self, running: RunningCall, loop: asyncio.AbstractEventLoop) -> None:
        call, scope = running.each.call, running.scope
        self.call_id = call.id
        self.tool = call.name
        self.variables = {} if scope.variables is None else scope.variables
        self.cancelled = False
        self.begun = running.each.begun
        self.can_ask = scope.can_ask
        self.can_wait = scope.can_wait
        self._passed = None
        self._running = running
        self._loop = loop
        self._home = threading.get_ident()
        self._shared = SharedState() if scope.shared is None else scope.shared

    @property
    def idempotency_key(self) -> str:
        # Computed at its first use: few tools use it, and a digest costs a tenth of a short call.
        return key_of(self._running.each.call, self._running.each.place, self._running.scope.key)

    @property
    def is_left(self) -> bool:
        is_left = self._running.scope.is_left
        return is_left is not None and is_left()

    async def keep(self, state: Json, progress: object = None) -> None:
        scope, background = self._running.scope, self._running.background
        if scope.keep is not None:
            scope.keep(self._running.each.place if background is None else background.id, state)
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

    def detach(self) -> None:
        if self.cancelled:
            return
        if threading.get_ident() == self._home:
            self._running.detach()
        else:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._running.detach)

    def note_hold(self, seconds: float) -> None:
        self._running.report(LoopHold("tool", self.tool, seconds))

    def _relay(self, record: Record) -> None:
        if self._running.is_wanted:
            self._running.scope.relay(self.call_id, record)


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
        QuestionError: The tool waits, and the call is one of a run that can pause.
    """
    loop = asyncio.get_running_loop()
    cancels = 0 if task is None else task.cancelling()
    call, left = running.each.call, policy.retries
    try:
        given = decode_arguments(call.input, tool.meta)
        arguments = encode(arguments_object(given, tool.meta) if isinstance(given, str) else given)
    except InvalidArgumentError:
        raise
    except Exception as error:  # half a character, or a number beyond 64 bits
        raise InvalidArgumentError(f"invalid arguments at $: this has no JSON form: {error}", tool=call.name) from error
    while True:
        line = running.line = _Line(running, loop)
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
            can_leave = isinstance(error, QuestionError) and line.can_ask
            if can_leave or (isinstance(error, LaterError) and running.scope.background is not None):
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
            line.cancelled = True
            running.line = None  # which has the call
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
    if isinstance(error, LaterError):
        return ExecutionFailedError(NOT_DELIVERABLE, tool=call.name)
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


class Limiter:
    """A FIFO concurrency limiter; an exclusive holder runs alone.

    Args:
        limit: How many may be in.

    Raises:
        ConfigurationError: The limit is below 1.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ConfigurationError(f"limit={limit!r}: at least one call must be able to run", page="tools")
        self._limit = limit
        self._in = 0
        self._alone = False
        self._row: deque[tuple[asyncio.Future[None], bool]] = deque()

    def enter_now(self, alone: bool, *, is_first: bool = False) -> bool:
        """Enter, if there is room and no other task waits; return whether it has.

        A task that has entered must call `leave`.

        Args:
            alone: Whether it runs alone.
            is_first: Whether it is the task that has waited longest.
        """
        if self._alone or self._in >= (1 if alone else self._limit) or (self._row and not is_first):
            return False
        self._in, self._alone = self._in + 1, alone
        return True

    async def enter(self, alone: bool) -> None:
        """Wait in the queue for a place. The caller must `leave` afterwards."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._row.append((turn, alone))
        self._let_in()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()  # it was admitted and cancelled in the same moment
            turn.cancel()
            self._let_in()
            raise

    def leave(self) -> None:
        """Give the place back."""
        self._in -= 1
        self._alone = False
        if self._row:
            self._let_in()

    def _let_in(self) -> None:
        while self._row:
            turn, alone = self._row[0]
            if not turn.done():
                if not self.enter_now(alone, is_first=True):
                    return
                turn.set_result(None)
            self._row.popleft()


logger = logging.getLogger("rxworker.tools")


async def run_at(limiter: Limiter, toolbox: Toolbox, running: RunningCall, *, own_task: bool = True) -> CallEnd:
    """Run one call when its turn has come.

    Args:
        limiter: Lets it in.
        toolbox: The toolbox of its tool.
        running: The call.
        own_task: Whether it has a task that its creator ends with `stop_all`.

    Returns:
        The call with its result, or with what its tool waits for. Of a call in the background the limiter, and its
        turn, have had the outcome before.
    """
    call, place, barrier = running.each.call, running.each.place, running.scope.barrier
    policy = policy_of(tool := toolbox.get(call.name))
    if not limiter.enter_now(policy.barrier):
        await limiter.enter(policy.barrier)
        policy = policy_of(tool := toolbox.get(call.name))  # tools come and go
    running.tool, running.limiter = tool, limiter
    timer: asyncio.TimerHandle | None = None
    try:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)  # an eager one runs before `running` has it
        began = loop.time()
        cancels = 0 if task is None else task.cancelling()
        running.report(ToolStart(call, place))
        if barrier is not None and policy.effect != "pure":
            await barrier()
        if policy.background is True and own_task:
            running.detach()
        elif policy.background is not False and own_task:
            timer = loop.call_later(policy.background, running.detach)
        is_error = True
        if tool is None:
            content = toolbox.missing(call.name)
        else:
            try:
                value = await attempts(tool, policy, running, task=task, own_task=own_task)
                if isinstance(value, str) or not isinstance(value, ToolResult):
                    content, is_error = value, False
                else:
                    content, is_error = value.content, value.is_error
            except ToolError as error:
                _log_failure(call, error)
                content = await awaited(toolbox.format_error(error))
            except QuestionError as error:
                return waiting_call(replace(running.each, begun=error.begun))
            except LaterError:
                running.detach(is_delivered=True)
                return FinishedCall(running.each, ToolResult(call.id, "", name=call.name), tool)
        if is_error:
            content = change_texts(content, without_secrets)
        content = truncate(content, policy.max_output)
        if not (isinstance(content, str) and content.isascii()):
            content = clean(content)  # of what is left, as many characters as before
        result = ToolResult(call.id, content, is_error, call.name)
        # Of a call that is cancelled, the one that cancels it reports the end.
        if task is None or task.cancelling() <= cancels:
            running.report(ToolStop(result, loop.time() - began, call.id, place, is_error, call.name))
        return FinishedCall(running.each, result, running.tool)
    finally:
        if timer is not None:
            timer.cancel()
        if running.background is None:
            running.limiter = None
            limiter.leave()


def _log_failure(call: ToolCall, error: ToolError) -> None:
    logger.debug(
        "tool %s, call %s: %s", call.name, call.id, error, exc_info=error, extra={"tool": call.name, "call": call.id}
    )


def waiting_call(each: PausedCall) -> PendingCall:
    """A call that waits: for the answer to its question, with the run that it has begun, or for something else."""
    if each.waiting is not None:
        return PendingCall(each, UNTIL, f"{each.call.name} waits for {each.waiting.wait}", has_begun=True)
    if (inside := each.inner) is not None:
        return PendingCall(each, NESTED, f"{each.call.name}: {inside.reason or inside.hook}", has_begun=True)
    return PendingCall(each, QUESTION, str(each.question), is_required=True, has_begun=True)


async def run_call(toolbox: Toolbox, call: ToolCall, scope: CallScope = NO_SCOPE, emit: Emit = noop) -> ToolResult:
    """Run one call. A failure becomes an error result.

    Args:
        toolbox: The toolbox of the tool.
        call: The call to run.
        scope: What it shares with others; by default nothing.
        emit: Receives its start, its progress and its end.

    >>> result = asyncio.run(run_call(Toolbox(), ToolCall("1", "fly", {})))
    >>> result.is_error, result.text
    (True, "There is no tool called 'fly'. These are the tools: none.")
    """
    done = await run_at(Limiter(1), toolbox, RunningCall(PausedCall(0, call), scope, emit), own_task=False)
    assert isinstance(done, FinishedCall), "nothing here can answer a question"
    return done.result


class RunningCalls:
    """The calls of one response that run: those that `run_tools` begins, and those that began early.

    A tool without effects may start as soon as its call is complete, while the response is still being received. It may
    never be needed: the response may fail, or a hook may change the arguments. Then it is discarded.

    Args:
        toolbox: The tools.
        scope: What the calls share.
        limit: How many calls may run at once, including those that started early.

    Attributes:
        scope: What the calls share.
        begun: The calls that began early.

    Raises:
        ConfigurationError: The limit is below 1.

    >>> from rxworker import tool
    >>> @tool(effect="pure")
    ... async def look(where: str) -> str:
    ...     return f"nothing {where}"
    >>> async def main() -> str:
    ...     each = PausedCall(0, ToolCall("1", "look", {"where": "here"}))
    ...     early = RunningCalls(Toolbox([look]))
    ...     early.begin_early(each, noop)
    ...     done = await early.take(each, noop).task
    ...     return done.result.text
    >>> asyncio.run(main())
    'nothing here'
    """

    def __init__(self, toolbox: Toolbox, scope: CallScope = NO_SCOPE, limit: int = 8) -> None:
        self.scope = scope
        self.begun: list[RunningCall] = []
        self._limiter = Limiter(limit)
        self._toolbox = toolbox
        self._early: dict[int, RunningCall] = {}
        self._is_held = False

    def begin_early(self, each: PausedCall, emit: Emit) -> None:
        """Begin a call, if its tool has no effects and needs no approval, and no call that runs alone came before it.

        Args:
            each: The call.
            emit: Receives its events.
        """
        tool = self._toolbox.get(each.call.name)
        if tool is None or each.place in self._early:
            return
        policy = policy_of(tool)
        self._is_held = self._is_held or policy.barrier
        if not self._is_held and policy.starts_early:
            running = self._early[each.place] = self.take(each, emit)
            self.begun.append(running)

    def has_begun(self, each: PausedCall) -> bool:
        """Whether this very call began early: the same place, id, tool and arguments."""
        running = self._early.get(each.place)
        return running is not None and running.is_of(each)

    def take(self, each: PausedCall, emit: Emit) -> RunningCall:
        """The call as it runs, from now on with these events: begun now, if it did not begin early."""
        if self._early and self.has_begun(each):
            running = self._early.pop(each.place)
            running.emit = emit
        else:
            running = RunningCall(each, self.scope, emit)
            running.task = self.scope.start_task(run_at(self._limiter, self._toolbox, running))
        return running

    def discard(self, emit: Callable[[ToolStop], None]) -> None:
        """Cancel the calls that began early and were not taken. Of those that run, emit the ends."""
        gone, self._early = [*self._early.values()], {}
        for running in gone:
            running.is_wanted = False
            running.task.cancel()
            if running.is_running:
                call = running.each.call
                result = ToolResult(call.id, DISCARDED_EARLY, is_error=True, name=call.name)
                emit(ToolStop(result, place=running.each.place))
        if gone:
            keep(stop_all([running.task for running in gone]), self.scope.tasks)


def run_tools(
    toolbox: Toolbox, limit: int = 8, scope: CallScope | None = None
) -> Operator[ToolCall | CallItem, CallItem]:
    """Run each call as it comes, side by side; emit what happens at once, and the results in the order of the calls.

        --a--b------c-|              b is quicker than a
        [ run_tools(toolbox) ]
        --s--s-e-e(a,b)s-(e,c)|      s ToolStart, e ToolStop; a, b and c the calls with their results

    A result is a `FinishedCall`; ``only(FinishedCall)`` leaves out the rest. A call that fails has a result too. A tool
    that waits for the answer of a person ends its call as a `PendingCall`. Everything else, such as calls that have
    their results already, passes at once. An error of the source ends the stream and cancels what runs, and so does
    disposing the subscription. A tool with ``barrier=True`` runs alone: the calls before it end first, those after it
    wait for it. It must be subscribed to, and the source must notify, in the event loop's thread.

    Args:
        toolbox: The tools.
        limit: How many calls may run at once; the others wait for their turn.
        scope: What the calls share. By default that of the run for which it is subscribed to; outside of a run they
            share nothing. The calls of a run have the places that they have there.

    Raises:
        ConfigurationError: The limit is below 1, or there is no toolbox.

    >>> import reactivex
    >>> from rxworker import tool
    >>> from rxworker.operators import only
    >>> @tool
    ... async def double(number: int) -> int:
    ...     return 2 * number
    >>> async def main() -> str:
    ...     calls = reactivex.just(ToolCall("1", "double", {"number": 21}))
    ...     return (await calls.pipe(run_tools(Toolbox([double])), only(FinishedCall))).result.text
    >>> asyncio.run(main())
    '42'
    """
    check_type("toolbox", toolbox, Toolbox, "run_tools(Toolbox([get_weather]))")
    Limiter(limit)  # refuse a limit that cannot be right here, and not when it is too late

    def make(emit: Callable[[CallItem], None], fail: Callable[[Exception], None]) -> _Row:
        shared, given = GIVEN_CALLS.get()
        if scope is not None:
            shared = scope
        if not shared.key:
            shared = replace(shared, key=f"calls-{urandom(6).hex()}")
        return _Row(RunningCalls(toolbox, shared, limit), given, emit, fail)

    return following(make)


def run_begun(calls: RunningCalls) -> Operator[ToolCall | CallItem, CallItem]:
    """The same for a stream of which some calls began early. Those that do not come are discarded."""
    return following(partial(_Row, calls, ()))


class _Row(Following[ToolCall | CallItem, CallItem]):
    """The calls of one subscription, in order, from their start to their results."""

    def __init__(
        self,
        calls: RunningCalls,
        given: tuple[PausedCall, ...],
        emit: Callable[[CallItem], None],
        fail: Callable[[Exception], None],
    ) -> None:
        super().__init__(emit, fail)
        self._calls = calls
        self._given = list(given)
        self._places = count()
        self._row: deque[RunningCall] = deque()
        self._outcomes: dict[RunningCall, CallEnd] = {}
        self._error: BaseException | None = None
        self._over: asyncio.Future[None] | None = None
        self._is_stopping = False

    def take(self, item: ToolCall | CallItem) -> None:
        """Begin a call; pass everything else on."""
        if type(item) is ToolCall:
            item = self._placed(item)
        if type(item) is PausedCall:
            running = self._calls.take(item, self._emit)
            self._row.append(running)
            running.on_detach = self._on_detach
            running.task.add_done_callback(partial(self._on_done, running))
            if running.detach_as is not None:
                running.detach(running.detach_as)
        else:
            self._emit(item)

    def _placed(self, call: ToolCall) -> PausedCall:
        for at, each in enumerate(self._given):
            if each.call.id == call.id:
                return replace(self._given.pop(at), call=call)
        return PausedCall(next(self._places), call)

    def finish(self) -> Rest | None:
        """Wait until each call of the source has ended."""
        self._calls.discard(self._emit)
        return self._until_ended() if self._row or self._error is not None else None

    async def _until_ended(self) -> None:
        if self._row and not self._is_stopping and (self._error is None or not all(map(_has_ended, self._row))):
            self._over = asyncio.get_running_loop().create_future()
            await self._over
        if self._error is not None:
            raise self._error

    def stop(self) -> Rest | None:
        """Cancel the calls that run. They report until they have ended, and no longer."""
        self._is_stopping = True
        self._row = deque([each for each in self._row if each.background is None])
        for each in self._row:
            if not each.task.cancelling():
                each.task.cancel()
        return self._until_stopped() if self._row else None

    async def _until_stopped(self) -> None:
        try:
            await stop_all([each.task for each in self._row])
        finally:
            for each in self._row:
                each.is_wanted = False
        for each in self._row:
            if each.task.done() and not each.task.cancelled():
                _check(each.task.exception())

    def _on_detach(self, running: RunningCall, outcome: CallEnd) -> None:
        """A call goes into the background: its turn has the outcome."""
        self._on_done(running, None, outcome)

    def _on_done(
        self, running: RunningCall, task: asyncio.Task[CallEnd] | None, outcome: CallEnd | None = None
    ) -> None:
        if self._is_stopping or (running.background is not None and task is not None):
            return
        running.on_detach = None  # the calls that began early are kept, and would keep the pipe
        try:
            if task is None:
                assert outcome is not None
                self._outcomes[running] = outcome
            elif task.cancelled():
                # A tool that cancels its own task has failed, and the stream goes on.
                paused = running.each
                result = ToolResult(paused.call.id, "The tool cancelled itself.", True, paused.call.name)
                self._outcomes[running] = FinishedCall(paused, result, running.tool)
                running.report(ToolStop(result, place=paused.place))
            else:
                if (error := task.exception()) is not None:
                    _check(error)
                self._outcomes[running] = task.result()
            while self._row and (outcome := self._outcomes.pop(self._row[0], None)) is not None:
                self._row.popleft()
                self._emit(outcome)
        except BaseException as error:
            self._error = self._error or error
            if self._over is None and isinstance(error, Exception):
                self._fail(error)  # the source goes on
        if task is not None:
            running.emit = noop
        if self._row and (self._error is None or not all(map(_has_ended, self._row))):
            return  # an error waits for the other calls: none of them is ended by it
        if self._over is not None and not self._over.done():
            self._over.set_result(None)


def _has_ended(running: RunningCall) -> bool:
    return running.task.done() or running.background is not None


def _check(error: BaseException | None) -> None:
    """Check that a tool has not raised an interrupt.

    That has left the event loop by then; what waits for the calls is cancelled.
    """
    if isinstance(error, KeyboardInterrupt):
        raise asyncio.CancelledError from error
