"""One tool call in a task of its own, and those of a response that have begun.

A failure of a call becomes a result that the model reads, and does not end the run, even if the tool calls
``sys.exit``. Only a cancellation of the task and ``KeyboardInterrupt`` propagate.

A FIFO concurrency limiter for calls, of which some run alone.

Calls wait in a queue. The first one enters as soon as there is room: a call that runs alone, when no other call is
inside; any other call, when no call inside runs alone and fewer than the limit are inside. No call overtakes another,
so that the calls after one that runs alone wait until it has left.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from msgspec.structs import replace

from rxworker.errors import ConfigurationError, ToolError
from rxworker.events import PausedCall, ToolStart, ToolStop
from rxworker.events.pause import QUESTION
from rxworker.events.turn import DISCARDED_EARLY
from rxworker.messages import ToolCall, ToolResult
from rxworker.messages.settings import awaited
from rxworker.redact import without_secrets
from rxworker.tools.base import policy_of
from rxworker.tools.calls import FinishedCall, PendingCall
from rxworker.tools.cancellation import stop_all
from rxworker.tools.context import QuestionError
from rxworker.tools.invocation import NO_SCOPE, CallEnd, CallScope, Emit, RunningCall, attempts, ignore
from rxworker.tools.results import change_texts, clean, truncate
from rxworker.tools.toolbox import Toolbox


class Limiter:
    """A FIFO concurrency limiter; an exclusive holder runs alone.

    Args:
        limit: How many may be in.

    Raises:
        ConfigurationError: The limit is below 1.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ConfigurationError(f"limit={limit!r}: at least one call must be able to run")
        self._limit = limit
        self._in = 0
        self._alone = False
        self._row: deque[tuple[asyncio.Future[None], bool]] = deque()

    def enter_now(self, alone: bool) -> bool:
        """Enter, if no task waits and there is room; return whether there was.

        A task that has entered must call `leave`.
        """
        return not self._row and self._admit(alone)

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
                if not self._admit(alone):
                    return
                turn.set_result(None)
            self._row.popleft()

    def _admit(self, alone: bool) -> bool:
        """Count one more inside, if there is room; return whether there was."""
        if self._alone or self._in >= (1 if alone else self._limit):
            return False
        self._in, self._alone = self._in + 1, alone
        return True


logger = logging.getLogger("rxworker.tools")


async def run_at(limiter: Limiter, toolbox: Toolbox, running: RunningCall, *, own_task: bool = True) -> CallEnd:
    """Run one call when its turn has come.

    Args:
        limiter: Lets it in.
        toolbox: The toolbox of its tool.
        running: The call.
        own_task: Whether it has a task that its creator ends with `stop_all`.

    Returns:
        The call with its result, or with the question that its tool waits for.
    """
    call, place, barrier = running.each.call, running.each.place, running.scope.barrier
    tool, policy = toolbox.find(call.name)
    if not limiter.enter_now(policy.barrier):
        await limiter.enter(policy.barrier)
        tool, policy = toolbox.find(call.name)  # tools come and go
    running.tool = tool
    try:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        began = loop.time()
        cancels = 0 if task is None else task.cancelling()
        running.report(ToolStart(call, place))
        if barrier is not None and policy.effect != "pure":
            await barrier()
        is_error = True
        if tool is None:
            content = toolbox.missing(call.name)
        else:
            try:
                value = await attempts(tool, policy, running, task=task, own_task=own_task)
                content, is_error = (value.content, value.is_error) if isinstance(value, ToolResult) else (value, False)
            except ToolError as error:
                logger.debug(
                    "tool %s, call %s: %s",
                    call.name,
                    call.id,
                    error,
                    exc_info=error,
                    extra={"tool": call.name, "call": call.id},
                )
                content = await awaited(toolbox.format_error(error))
            except QuestionError as error:
                asking = replace(running.each, begun=error.begun)
                return PendingCall(asking, QUESTION, str(asking.question), is_required=True)
        if is_error:
            content = change_texts(content, without_secrets)
        content = truncate(content, policy.max_output)
        if not (isinstance(content, str) and content.isascii()):
            content = clean(content)  # of what is left, as many characters as before
        result = ToolResult(call.id, content, is_error, call.name)
        # Of a call that is cancelled, the one that cancels it reports the end.
        if task is None or task.cancelling() <= cancels:
            running.report(ToolStop(result, loop.time() - began, call.id, place, is_error))
        return FinishedCall(running.each, result, running.tool)
    finally:
        limiter.leave()


async def run_call(toolbox: Toolbox, call: ToolCall, scope: CallScope = NO_SCOPE, emit: Emit = ignore) -> ToolResult:
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
    running = RunningCall(PausedCall(0, call), scope, emit)
    done = await run_at(Limiter(1), toolbox, running, own_task=False)
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
    ...     early.begin_early(each, ignore)
    ...     done = await early.take(each, ignore).task
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
            running = self._early[each.place] = self._begin(each, emit)
            self.begun.append(running)

    def _begin(self, each: PausedCall, emit: Emit) -> RunningCall:
        running = RunningCall(each, self.scope, emit)
        running.task = self.scope.start_task(run_at(self._limiter, self._toolbox, running))
        return running

    def has_begun(self, each: PausedCall) -> bool:
        """Whether this very call began early: the same place, id, tool and arguments."""
        running = self._early.get(each.place)
        return running is not None and running.is_of(each)

    def take(self, each: PausedCall, emit: Emit) -> RunningCall:
        """The call as it runs, from now on with these events: begun now, if it did not begin early."""
        if not (self._early and self.has_begun(each)):
            return self._begin(each, emit)
        running = self._early.pop(each.place)
        running.emit = emit
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
            task = asyncio.get_running_loop().create_task(stop_all([running.task for running in gone]))
            self.scope.tasks.add(task)
            task.add_done_callback(self.scope.tasks.discard)
