"""Third stage of a turn: make the tool calls of the response.

The ``before_tool_call`` hooks run for all calls, one by one and in order, before any call runs. The allowed calls run
in parallel, and each is reported when it ends. When all have ended, the ``after_tool_call`` hooks run for the results,
one by one and in order. A result that hooks may change reaches neither the model nor a watcher before that.

The arguments of all calls are decoded before the first hook runs. A call whose arguments cannot be decoded is given to
no hook, no person and no client: there is nothing that they could check. Its result is an error with the reason.

Pure tools start early, while the model still streams. When the block of a call closes and no ``before_tool_call`` hook
matches it, the tool starts, and `call_tools` takes its result after the end of the response. A result that is not taken
is discarded: when the response fails, is cut or retracted, and when the run pauses. The start and the end of such a
call are emitted like those of any other call. If the response is requested again, the `AttemptRetract` retracts them
with it: a pure tool has no effects, so the calls of the next response start again. If no tool may start early, nothing
is added to the path of the events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import TypeAlias, TypeVar

import reactivex
from msgspec.structs import replace
from reactivex import Observable, abc
from reactivex import operators as ops

from rxworker.errors import ConfigurationError, HookError
from rxworker.events import (
    BlockStop,
    BlockType,
    Custom,
    Event,
    LoopHold,
    MessageAdd,
    PausedCall,
    PauseState,
    ResponseStatus,
    RunPause,
    Status,
    ToolOutput,
    ToolProgress,
    ToolStart,
    ToolStop,
)
from rxworker.events.kinds import Deltas, Parts
from rxworker.events.pause import BY_CALLER, CLIENT_TOOL, NESTED, QUESTION, RECOVERY, UNTIL
from rxworker.hooks import HookPoint
from rxworker.hooks.registry import names_in
from rxworker.messages import Message, ToolCall, ToolResult
from rxworker.operators.factories import expect_operator
from rxworker.operators.kernel import Operator, Sink, many, stage
from rxworker.state import content_of, step_block
from rxworker.state.run import call_ends
from rxworker.tools.base import policy_of
from rxworker.tools.calls import CallItem, FinishedCall, FinishedCalls, PausedCalls, PendingCall
from rxworker.tools.coroutines import CoroutineObservable, Emitter, Following, Rest, following, in_turn
from rxworker.tools.results import clean, to_content, truncate
from rxworker.tools.run import GIVEN_CALLS, NO_CALLS, RunningCalls, ToolEvent, run_begun, run_tools, waiting_call
from rxworker.transport.base import ACCOUNT, PRESSURE
from rxworker.turn.account import RunAccount
from rxworker.turn.apply import apply_operators
from rxworker.turn.context import (
    Emit,
    RunContext,
    Turn,
    TurnScope,
    before_calls,
    calls_of,
    check_limits,
    ignore,
    let_watchers_act,
)
from rxworker.turn.gate import gate_calls, gates_of
from rxworker.turn.permit import HookScope, permit, refused, revise, shown

A = TypeVar("A")

# A constant, since a member of an enumeration is slow to look up.
BEFORE = HookPoint.BEFORE_TOOL_CALL


def start_early(context: RunContext, scope: TurnScope, source: Observable[Event]) -> Observable[Event]:
    """Pass the response on, and start pure tools when their blocks close. Used if there is a pure tool.

    --s--d--e--m--|      e the stop of a block that calls a pure tool
    [ start_early ]
    --s--d--e--m--|      with the start of the tool after e, in the records
    """

    def make(observer: abc.ObserverBase[Event]) -> Sink[Event]:
        push_many = many(observer)

        def begun(event: ToolEvent) -> None:
            writer = context.journal.writer
            if isinstance(event, ToolStop):
                event = shown(context.worker.hooks, event, None if writer is None else writer.hold_result)
            _stored(context, context.journal.emit)(event)

        def on_next(event: Event) -> None:
            call = _whole_call(context, event) if isinstance(event, BlockStop) else None
            if isinstance(event, Status) and event.status is ResponseStatus.STARTED:
                # A new response: the calls of the previous one are retracted.
                discard_early(context, scope)
            observer.on_next(event)
            if call is not None and _may_start(context, scope, call.call):
                if scope.early is None:
                    # With the barrier of the calls that are not pure, which begin there later.
                    shared = hook_scope(context, scope)
                    scope.early = RunningCalls(context.worker.tools, shared, context.worker.parallel)
                scope.early.begin_early(call, begun)

        def on_many(parts: Parts[Event]) -> None:
            for part in parts:
                if isinstance(part, Deltas):
                    push_many((part,))
                else:
                    on_next(part)

        return Sink(on_next, observer.on_error, observer.on_completed, on_many)

    return stage(source, make)


def discard_early(context: RunContext, scope: TurnScope) -> None:
    """Cancel the early calls that were not taken over, and emit their ends."""
    if scope.early is not None:
        scope.early.discard(context.journal.emit)


def _stored(context: RunContext, emit: Emit, calls: Sequence[PausedCall] = ()) -> Emit:
    """Emit the events of calls, each start with what a process needs that makes the call again.

    Args:
        context: The run.
        emit: Emits an event.
        calls: The calls, some of which a person may have approved.
    """
    writer, history = context.journal.writer, context.journal.hub.history
    if writer is None:
        return emit
    approved = {each.place for each in calls if each.is_approved}

    def emit_stored(event: Event) -> None:
        if not isinstance(event, ToolStart):
            emit(event)
            return
        hooks, is_approved = context.worker.hooks.orders[BEFORE], event.place in approved
        if hooks or is_approved:
            writer.keep_agreement(event.place, names_in(hooks), approved=is_approved)
        before = history.last_seq
        emit(event)
        _expect_start(context, event, before)

    return emit_stored


def _expect_start(context: RunContext, event: ToolStart, before: int) -> None:
    """Check that the start of a call of a logged run is recorded before the call is made.

    A process that continues the run would make it again.
    """
    journal = context.journal
    for record in journal.hub.history.records(before):
        if isinstance(record.event, ToolStart) and record.event.place == event.place:
            return
    if journal.writer is not None and journal.writer.is_open and not journal.hub.ended:
        raise ConfigurationError(_NO_START)


def _whole_call(context: RunContext, event: BlockStop) -> PausedCall | None:
    """The tool call whose block this event closes, if it closes one, with its index among the calls so far."""
    if event.block_type is not BlockType.TOOL_USE:
        return None
    response = context.journal.state.response
    if response is None or (block := response.open.get(event.index)) is None or block.choice != 0:
        return None
    call = content_of(step_block(block, event))
    if not isinstance(call, ToolCall):
        return None
    before = [b for b in response.blocks if b.index < event.index and b.choice == 0]
    return PausedCall(sum(b.block_type is BlockType.TOOL_USE for b in before), call)


def _may_start(context: RunContext, scope: TurnScope, call: ToolCall) -> bool:
    """Whether no hook runs for the call, its arguments are decoded, and the limits allow another call."""
    if isinstance(call.input, str) or any(hook.matches(call.name) for hook in context.worker.hooks.orders[BEFORE]):
        return False
    most = context.worker.limits.max_tool_calls
    if most is None:
        return True
    waiting = 0 if scope.early is None else sum(not each.has_started for each in scope.early.begun)
    return context.journal.state.all_tool_calls + waiting < most


def hook_scope(context: RunContext, scope: TurnScope) -> HookScope:
    """What the calls of a turn share with each other and with their hooks."""
    journal, writer = context.journal, context.journal.writer
    if not scope.pause.key:
        # It stays the same however often the turn is paused, so that no call is made twice.
        scope.pause = replace(scope.pause, key=f"{journal.run_id}/{journal.state.turns}")
    return HookScope(
        key=scope.pause.key,
        variables=scope.variables,
        shared=context.shared,
        relay=journal.relay,
        barrier=None if writer is None else journal.barrier,
        keep=None if writer is None else writer.keep_state,
        is_left=lambda: any(run.journal.is_left for run in context.line),
        can_ask=True,
        can_wait=writer is not None,
        start_task=partial(_start_task, context),
        tasks=context.tasks,
        background=partial(context.background.begin, context.worker.hooks),
        hook_input=partial(context.hook_input, scope.variables),
        allows=context.allows,
        early=scope.early,
        hold=None if writer is None else writer.hold_result,
        held=partial(_held_back, context),
    )


def _start_task(context: RunContext, work: Coroutine[object, None, A]) -> asyncio.Task[A]:
    """Start the task of a call: what it requests is counted as that of a tool, and a pipe in it is not of the run."""
    of_call = copy_context()
    of_call.run(ACCOUNT.set, RunAccount(context, "tool"))
    if PRESSURE.get() is not None:  # to set a variable costs ten times as much as to read it
        of_call.run(PRESSURE.set, None)
    if GIVEN_CALLS.get() is not NO_CALLS:
        of_call.run(GIVEN_CALLS.set, NO_CALLS)
    return asyncio.get_running_loop().create_task(work, context=of_call)


Executor: TypeAlias = Operator[ToolCall, ToolResult] | Operator[ToolCall, CallItem]
EXECUTED = {ToolResult, FinishedCall, PendingCall, ToolStart, ToolProgress, ToolStop, LoopHold, Custom}
Told: TypeAlias = dict[tuple[type[Event], int], list[Event]]
TOOL_EVENTS = (ToolStart, ToolStop, ToolOutput)
_CHANGED = (
    "the stage call_tools, or an operator around it, changed a {}: watchers would see something other than what the "
    "tool received or the model reads. Change arguments in a before_tool_call hook, and results in an after_tool_call "
    "hook or in an executor of call_tools"
)
_NO_START = (
    "an operator around the stage call_tools drops or holds back the start of a call, which a run with a log stores "
    "before the call is made, so that no other process makes it again: pass each ToolStart on at once"
)
_NO_RESULT = "the executor of call_tools emitted a {}: it takes calls and emits a ToolResult for each"


def call_tools(turn: Turn, *, executor: Executor | None = None) -> Observable[Event]:
    """Run the hooks of the calls, the calls, and the hooks of the results, and add the results to the conversation.

        response       --c--c--|                    c the end of a block with a call
        [ call_tools ]
                               --s--s--p--o--o--m|  s ToolStart, p ToolProgress, o ToolStop, m MessageAdd of the results

    It is the calls, and four operators: ``permit``, `run_tools`, ``revise`` and `settle`. Without calls it is empty. If
    a hook pauses the run, the last event is a `RunPause`.

    Args:
        turn: The turn.
        executor: Runs the calls that the hooks permit, in place of the tools: emits a result for each, in any order. No
            pure tool then starts early. Where the tools are elsewhere: ``Worker(stages={"call_tools":
            partial(call_tools, executor=remote)})``. `run_tools` is one, too: for some of the calls, for example.

    Raises:
        LimitExceededError: The limit of tool calls is reached, or the run makes no progress.
        RunAbortedError: A hook ended the run.
        HookError: A hook failed.
        ConfigurationError: The executor has emitted something other than a result of a call, or completed without one
            of a call.
    """
    if executor is not None:
        expect_operator(executor)
    work = partial(_call_tools, turn._context, turn._scope, executor=executor)
    return CoroutineObservable(work, turn._context.tasks)


async def _call_tools(
    context: RunContext, scope: TurnScope, emitter: Emitter[Event], executor: Executor | None
) -> None:
    flushes = context.journal.hub.flush_scheduler
    if flushes.is_needed and not scope.is_resumed:
        await let_watchers_act(flushes)
    if scope.noted and not scope.called:
        end_calls(context, scope, scope.noted)  # those that the try before has left
    waiting = calls_of(context, scope)
    for each in waiting:
        context.called[each.call.name] = None
    try:
        if waiting or scope.pause.calls or scope.pause.refused:
            emit = emitter.emit if scope.noted is None else _noted(scope, scope.noted, emitter.emit)
            emit = _stored(context, emit, waiting)
            await Emitter(emit).follow(_pipe(context, scope, waiting, executor))
    finally:
        discard_early(context, scope)


def _pipe(
    context: RunContext, scope: TurnScope, waiting: Sequence[PausedCall], executor: Executor | None
) -> Observable[Event]:
    """The calls of a turn through their operators."""
    hooks, box, shared = context.worker.hooks, context.worker.tools, hook_scope(context, scope)
    if executor is not None:  # what runs elsewhere is not in the background here
        run = following(partial(_Execute, context, replace(shared, background=None), executor))
    else:
        run = run_begun(scope.early) if scope.early else run_tools(box, context.worker.parallel, shared)
    stages = [permit(hooks, box, shared), run, revise(hooks, box, shared)]
    if (context.worker.operators or context.parents) and (gates := gates_of(context)):
        written, revised = gate_calls(gates, context)
        stages[2:] = [written, stages[2], revised]
    calls = CoroutineObservable(partial(_calls, context, scope, waiting), set()).pipe(*stages)
    if scope.pause.calls or scope.pause.refused:  # their hooks run before those of the calls that wait
        calls = in_turn(_answers(scope).pipe(revise(hooks, box, shared)), calls)
    return settle(context, scope)(calls)


def _answers(scope: TurnScope) -> Observable[CallItem]:
    """The calls of a turn that have a result already: by a person, a client, a hook, or a process before this one."""

    async def answers(emitter: Emitter[CallItem]) -> None:
        for place, result in scope.pause.refused.items():
            call = ToolCall(result.tool_use_id, result.name, {})
            emitter.emit(FinishedCall(PausedCall(place, call), result, is_final=True))
        for each in scope.pause.calls:
            answer = scope.answered.get(each.place)
            if answer is None:
                continue
            if each.place not in scope.ended:
                emitter.emit(ToolStop(answer, place=each.place))
            emitter.emit(FinishedCall(each, answer))

    return CoroutineObservable(answers, set())


async def _calls(
    context: RunContext, scope: TurnScope, waiting: Sequence[PausedCall], emitter: Emitter[CallItem]
) -> None:
    """Emit the calls of a turn that wait.

    Raises:
        LimitExceededError: The limit of tool calls is reached.
    """
    items: Sequence[CallItem] = waiting
    reason = context.pause_request.reason
    if scope.unknown:
        left = [(PausedCall(w.place, w.call, begun=w.begun), w.place in scope.unknown) for w in waiting]
        items = [PendingCall(each, RECOVERY, scope.why, is_required=is_lost) for each, is_lost in left]
    elif not scope.finished_by and reason is not None:
        # The hooks run for all of these when the run resumes.
        left = [
            PendingCall(PausedCall(w.place, w.call, begun=w.begun, held=w.held), BY_CALLER, reason) for w in waiting
        ]
        items = [PausedCalls(BY_CALLER, reason), *left]
    else:
        # The calls that started early are already counted.
        begun = 0 if scope.early is None else sum(each.has_started for each in scope.early.begun)
        if scope.is_resumed:  # what was not decided about goes on waiting
            items = [waiting_call(each) if each.waits else each for each in waiting]
            begun += sum(each.waits for each in waiting)
        before_calls(context, len(waiting) - begun, emitter.emit)
        if scope.finished_by:  # by the process before this one, or by a hook for the result of a person
            items = refused(waiting, scope.finished_by, scope.early)
    for item in items:
        emitter.emit(item)


def settle(context: RunContext, scope: TurnScope) -> Operator[CallItem, Event]:
    """Make the message of the results, or the pause if a call waits.

    --a---b-|      the calls with their results
    [ settle ]
    --------(m)|   m MessageAdd
    """
    return following(partial(_Settle, context, scope))


class _Settle(Following[CallItem, Event]):
    """What becomes of the calls of one turn."""

    def __init__(self, context: RunContext, scope: TurnScope, emit: Emit, fail: Callable[[Exception], None]) -> None:
        super().__init__(emit, fail)
        self._context = context
        self._scope = scope
        self._results: dict[int, ToolResult] = {}
        self._waiting: list[PendingCall] = []
        self._by_caller = False

    def take(self, item: CallItem) -> None:
        """Collect the calls, and pass the events on."""
        if type(item) is FinishedCall:
            self._results[item.paused.place] = item.result
        elif type(item) is PendingCall:
            self._waiting.append(item)
        elif type(item) is PausedCalls:
            self._by_caller = True
        elif type(item) is FinishedCalls:
            finish_run(self._context, self._scope, item)
        elif type(item) is not PausedCall:
            self._emit(item)

    def finish(self) -> None:
        """Make the message of the results, or the pause."""
        context, scope, emit = self._context, self._scope, self._emit
        if scope.finished_by and not scope.unknown:
            for item in refused([each.paused for each in self._waiting], scope.finished_by, None):
                self.take(item)
        elif self._waiting or self._by_caller:
            discard_early(context, scope)
            _pause(context, scope, self._waiting, self._results, emit)
            return
        scope.called = True
        emit(MessageAdd((Message("user", tuple(dict(sorted(self._results.items())).values())),), "tools"))
        # A run that repeats its calls makes no progress.
        check_limits(emit, context.worker.limits, max_repeats=context.journal.state.repeats)


def _pause(
    context: RunContext, scope: TurnScope, waiting: Sequence[PendingCall], results: Mapping[int, ToolResult], emit: Emit
) -> None:
    """Pause the run, with what this turn leaves undone."""
    left = sorted(waiting, key=attrgetter("paused.place"))
    # A person answers a question before a client runs the others, and what waits for something else is woken last.
    left_over = sorted([each.hook for each in left], key=lambda each: each == UNTIL)
    hooks = [each.hook for each in left if each.is_required] + [each.hook for each in left if each.hook == NESTED]
    # The hook that paused at a call counts before the questions of others.
    others = [*hooks, *left_over, BY_CALLER]
    hook = next((each for each in hooks if each not in (QUESTION, NESTED)), others[0])
    required = tuple([at for at, each in enumerate(left) if each.is_required])
    reason = "\n".join(dict.fromkeys(each.reason for each in left if each.hook in (hook, NESTED) and each.reason))
    if hook == CLIENT_TOOL:
        reason = f"{', '.join(dict.fromkeys(each.paused.call.name for each in left))} runs in the client"
    calls = tuple([each.paused for each in left])
    pause = PauseState(hook, calls, required, reason, dict(sorted(results.items())), scope.pause.key)
    if hook == BY_CALLER:
        context.pause_request.take(emit, pause)
    else:
        emit(RunPause(pause))


def finish_run(context: RunContext, scope: TurnScope, finished: FinishedCalls) -> None:
    """Let the run end after this turn.

    Raises:
        HookError: The run must return a value, and the model has not answered yet.
    """
    hook = finished.hook
    if context.output is not None:
        text = (
            f"hook {hook!r} answered Finish(final=True) at {finished.point}, where the run has no value of its output "
            "type yet: use Abort"
        )
        raise HookError(text, hook=hook, point=finished.point, kind="verdict")
    scope.finished_by = scope.finished_by or hook


@dataclass(eq=False)
class _Execute(Following[CallItem, CallItem]):
    """`run_tools` by an operator of the application."""

    _context: RunContext
    _shared: HookScope
    _executor: Executor
    _emit: Callable[[CallItem], None]
    _fail: Callable[[Exception], None]
    _left: list[PausedCall] = field(default_factory=list[PausedCall])
    _began: float = 0.0

    def take(self, item: CallItem) -> None:
        """Collect a call, and pass everything else on."""
        if isinstance(item, PausedCall):
            self._left.append(item)
        else:
            self._emit(item)

    def finish(self) -> Rest | None:
        """Run the calls, if there are any."""
        return self._execute() if self._left else None

    async def _execute(self) -> None:
        context, shared, left = self._context, self._shared, self._left
        for each in left:
            self._emit(ToolStart(each.call, each.place))
        if shared.barrier is not None:
            await shared.barrier()
        self._began = asyncio.get_running_loop().time()
        calls = reactivex.from_iterable([each.call for each in left])
        executed = apply_operators((self._executor,), calls, context.scheduler, EXECUTED, _NO_RESULT)
        account, known = ACCOUNT.set(RunAccount(context, "tool")), GIVEN_CALLS.set((shared, tuple(left)))
        try:
            # Here an exception of ``_receive`` is an error of the stream, in whatever thread the executor emits.
            await Emitter[object](ignore).listen(executed.pipe(ops.do_action(self._receive)))
        finally:
            GIVEN_CALLS.reset(known)
            ACCOUNT.reset(account)
        if left:
            names = ", ".join(each.call.id for each in left)
            raise ConfigurationError(f"the executor of call_tools completed without a result of {names}")

    def _receive(self, item: CallItem | ToolResult) -> None:
        """Take what the executor emits: the results; and of `run_tools` also progress and questions."""
        if isinstance(item, ToolProgress | LoopHold | Custom):
            self._emit(item)
        elif isinstance(item, PendingCall):
            self._left.remove(self._named(item.paused.call.id))
            self._emit(item)
        elif isinstance(item, FinishedCall | ToolResult):
            result = item.result if isinstance(item, FinishedCall) else item
            each = self._named(result.tool_use_id)
            self._left.remove(each)
            tool = self._context.worker.tools.get(each.call.name)
            content = result.content
            if isinstance(item, ToolResult):  # its executor, as a tool, may give anything that has a JSON form
                content = to_content(content, each.call.name)
            content = clean(truncate(content, policy_of(tool).max_output))
            result = replace(result, content=content, name=each.call.name)
            seconds = asyncio.get_running_loop().time() - self._began
            self._emit(ToolStop(result, seconds, each.call.id, each.place, result.is_error))
            self._emit(FinishedCall(each, result, tool))

    def _named(self, id: str) -> PausedCall:  # noqa: A002 - the word of calls
        for each in self._left:
            if each.call.id == id:
                return each
        text = (
            f"the executor of call_tools emitted a result of {id!r}, which is not a waiting call: give each result the "
            "id of its call"
        )
        raise ConfigurationError(text)


def _noted(scope: TurnScope, told: Told, emit: Emit) -> Emit:
    """Note the events of tools, so that `expect_told` finds what an operator around the stage makes of them."""

    def emit_noted(event: Event) -> None:
        if isinstance(event, ToolStart) and scope.noted is not told:
            raise ConfigurationError("the stage call_tools was cut off: no further call starts")
        if isinstance(event, TOOL_EVENTS):
            told.setdefault((event.__class__, event.place), []).append(event)
        emit(event)

    return emit_noted


def end_calls(context: RunContext, scope: TurnScope, told: Told) -> None:
    """Emit the ends of the calls that an operator has cut off, and those that it has dropped."""
    discard_early(context, scope)
    for (kind, _), events in told.items():
        for event in events if kind is not ToolStart else ():
            context.journal.emit(event)
    told.clear()
    for event in call_ends(context.journal.state, "cut"):
        context.journal.emit(event)


def expect_told(context: RunContext, told: Told, event: Event) -> None:
    """Check that an event of a tool is what the tool received, and what the model will read.

    Raises:
        ConfigurationError: An operator has changed it.
    """
    if isinstance(event, TOOL_EVENTS):
        known = told.get((event.__class__, event.place))
        if known is None:
            return  # of a stage of the application
        if event not in known:
            raise ConfigurationError(_CHANGED.format(type(event).__name__))
        known.remove(event)
    elif isinstance(event, MessageAdd):
        calls = context.journal.state.calls
        for result in (each for message in event.messages for each in message.tool_results):
            ends = [c.result for c in calls if c.call.id == result.tool_use_id and c.phase == "ended"]
            if ends and None not in ends and result not in ends:
                raise ConfigurationError(_CHANGED.format("MessageAdd"))


def _held_back(context: RunContext) -> set[int]:
    """The places of the calls that ended without their results."""
    calls = context.journal.state.calls
    return {each.place for each in calls if each.phase == "ended" and each.result is None}
