"""Third stage of a turn: make the tool calls of the response.

The ``before_tool_call`` hooks run for all calls, one by one and in order, before any call runs. The allowed calls run
in parallel, and each is reported when it ends. When all have ended, the ``after_tool_call`` hooks run for the results,
one by one and in order. A result that hooks may change reaches neither the model nor a watcher before that.

The arguments of all calls are decoded before the first hook runs. A call whose arguments cannot be decoded is given to
no hook, no person and no client: there is nothing that they could check. `run_calls` does not run it either: its result
is an error with the reason.

Pure tools start early, while the model still streams. When the block of a call closes and no ``before_tool_call`` hook
matches it, the tool starts, and `call_tools` takes its result after the end of the response. A result that is not taken
is discarded: when the response fails, is cut or retracted, and when the run pauses. The start and the end of such a
call are emitted like those of any other call. If the response is requested again, the `AttemptRetract` retracts them
with it: a pure tool has no effects, so the calls of the next response start again. If no tool may start early, nothing
is added to the path of the events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from operator import attrgetter
from typing import TypeAlias

import reactivex
from msgspec.structs import replace
from reactivex import Observable, abc
from reactivex import operators as ops

from rxworker.errors import ConfigurationError, HookError, RunAbortedError
from rxworker.events import (
    BlockStop,
    BlockType,
    Event,
    MessageAdd,
    PausedCall,
    PauseState,
    ResponseStatus,
    RunPause,
    Status,
    ToolOutput,
    ToolStart,
    ToolStop,
)
from rxworker.events.arguments import copy_arguments
from rxworker.events.deltas import Deltas, Parts
from rxworker.events.pause import CLIENT_TOOL, QUESTION
from rxworker.events.turn import DISCARDED_EARLY
from rxworker.hooks import (
    Abort,
    Finish,
    HookPoint,
    Pause,
    Skip,
    ToolCallContext,
    ToolResultContext,
)
from rxworker.hooks.points import REQUIRES_APPROVAL
from rxworker.hooks.runner import names_in, numbered
from rxworker.messages import Message, ToolCall, ToolResult
from rxworker.operators.factories import expect_operator
from rxworker.operators.kernel import Operator, Sink, many, stage
from rxworker.state import content_of, step_block
from rxworker.state.closing import call_ends
from rxworker.tools import ClientTool, Tool
from rxworker.tools.base import policy_of
from rxworker.tools.invocation import RUN_CALLS, CallScope
from rxworker.tools.results import clean, truncate
from rxworker.tools.run import EarlyCalls, run_call, run_calls
from rxworker.transport.base import ACCOUNT, PRESSURE
from rxworker.worker.account import RunAccount
from rxworker.worker.apply import apply_operators
from rxworker.worker.context import (
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
from rxworker.worker.journal import BY_CALLER
from rxworker.worker.loop import Emitter
from rxworker.worker.permit import decoded, missing, not_run, result_by
from rxworker.worker.result import signature_of

# Constants, since a member of an enumeration is slow to look up.
BEFORE, AFTER = HookPoint.BEFORE_TOOL_CALL, HookPoint.AFTER_TOOL_CALL


def start_early(context: RunContext, scope: TurnScope, source: Observable[Event]) -> Observable[Event]:
    """Pass the response on, and start pure tools when their blocks close. Used if there is a pure tool.

    --s--d--e--m--|      e the stop of a block that calls a pure tool
    [ start_early ]
    --s--d--e--m--|      with the start of the tool after e, in the records
    """

    def make(observer: abc.ObserverBase[Event]) -> Sink[Event]:
        push_many = many(observer)

        def on_next(event: Event) -> None:
            call = _whole_call(context, event) if isinstance(event, BlockStop) else None
            if isinstance(event, Status) and event.status is ResponseStatus.STARTED:
                # A new response: the calls of the previous one are retracted.
                discard_early(context, scope)
            observer.on_next(event)
            if call is not None and _may_start(context, scope, call[0]):
                token, pressure = ACCOUNT.set(RunAccount(context, "tool")), PRESSURE.set(None)
                _early_of(context, scope).start(*call)
                PRESSURE.reset(pressure)  # that of the response, in whose context this is called
                ACCOUNT.reset(token)

        def on_many(parts: Parts[Event]) -> None:
            for part in parts:
                if isinstance(part, Deltas):
                    push_many((part,))
                else:
                    on_next(part)

        return Sink(on_next, observer.on_error, observer.on_completed, on_many)

    return stage(source, make)


def discard_early(context: RunContext, scope: TurnScope, keep: Mapping[int, ToolCall] | None = None) -> None:
    """Cancel the early calls whose results are not needed, and emit their ends.

    Args:
        context: The run.
        scope: The turn.
        keep: The calls whose results are needed, with their final arguments, by their places.
    """
    early = scope.early
    if early is None:
        return
    for call, place in early.cancel(keep):
        result = ToolResult(call.id, DISCARDED_EARLY, is_error=True, name=call.name)
        context.journal.emit(ToolStop(result, place=place))
    if not early.is_leaving:
        return
    task = asyncio.get_running_loop().create_task(early.settled())
    context.tasks.add(task)
    task.add_done_callback(context.tasks.discard)


def hold_back(
    context: RunContext, emit: Callable[[Event], None], approved: Collection[int] = ()
) -> Callable[[Event], None]:
    """Emit the end of a call without its result if ``after_tool_call`` hooks may change it: nothing may show it before.

    The start of a call is stored with the hooks that have agreed to it, for a process that makes the call again.

    Args:
        context: The run.
        emit: Emits an event.
        approved: The places of the calls that a person has approved.
    """
    history, writer = context.journal.hub.history, context.journal.writer

    def emit_checked(event: Event) -> None:
        if writer is not None and isinstance(event, ToolStart):
            hooks, is_approved = context.worker.hooks.at(BEFORE), event.place in approved
            if hooks or is_approved:
                writer.keep_agreement(event.place, names_in(hooks), approved=is_approved)
        if isinstance(event, ToolStop) and event.result is not None:
            hooks = context.worker.hooks.at(AFTER)
            if hooks and any(hook.matches(event.result.name) for hook in hooks):
                if writer is not None:
                    writer.hold_result(event.place, event.result)
                event = replace(event, result=None)
        before = history.last_seq
        emit(event)
        if writer is not None and isinstance(event, ToolStart):
            _expect_start(context, event, before)

    return emit_checked


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


def _whole_call(context: RunContext, event: BlockStop) -> tuple[ToolCall, int] | None:
    """The tool call whose block this event closes, if it closes one, and its index among the calls so far."""
    if event.block_type is not BlockType.TOOL_USE:
        return None
    response = context.journal.state.response
    if response is None or (block := response.open.get(event.index)) is None or block.choice != 0:
        return None
    call = content_of(step_block(block, event))
    if not isinstance(call, ToolCall):
        return None
    before = [b for b in response.blocks if b.index < event.index and b.choice == 0]
    return call, sum(b.block_type is BlockType.TOOL_USE for b in before)


def _may_start(context: RunContext, scope: TurnScope, call: ToolCall) -> bool:
    """Whether no hook runs for the call, its arguments are decoded, and the limits allow another call."""
    if isinstance(call.input, str):
        return False
    hooks = context.worker.hooks.at(BEFORE)
    if any(hook.matches(call.name) for hook in hooks):
        return False
    most = context.worker.limits.max_tool_calls
    if most is None:
        return True
    waiting = 0 if scope.early is None else scope.early.accepted - scope.early.begun
    return context.journal.state.all_tool_calls + waiting < most


def _call_scope(context: RunContext, scope: TurnScope, emit: Emit) -> CallScope:
    begun = {each.place: each.begun for each in scope.pause.calls if each.begun is not None}
    return CallScope(
        emit,
        context.journal.relay,
        scope.pause.key,
        scope.variables,
        shared=context.shared,
        begun=begun,
        keep=None if context.journal.writer is None else context.journal.writer.keep_state,
        is_left=lambda: any(run.journal.is_left for run in context.line),
        # The pause of a run inside another one could not be resumed.
        can_ask=not context.parents,
    )


def _early_of(context: RunContext, scope: TurnScope) -> EarlyCalls:
    if scope.early is None:
        journal = context.journal
        key = f"{journal.run_id}/{journal.state.turns}"
        scope.pause = replace(scope.pause, key=key)
        call_scope = _call_scope(context, scope, hold_back(context, journal.emit))
        scope.early = EarlyCalls(context.worker.tools, call_scope, limit=context.worker.parallel)
    return scope.early


Executor: TypeAlias = Operator[ToolCall, ToolResult]
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


def call_tools(turn: Turn, *, executor: Operator[ToolCall, ToolResult] | None = None) -> Observable[Event]:
    """Run the hooks of the calls, the calls, and the hooks of the results, and add the results to the conversation.

        response       --c--c--|                    c the end of a block with a call
        [ call_tools ]
                               --s--s--p--o--o--m|  s ToolStart, p ToolProgress, o ToolStop, m MessageAdd of the results

    Its heart is ``response.pipe(tool_calls(), permit(hooks, toolbox), run_tools(toolbox))``: the calls, the hooks that
    permit them, and the tools. Around it are what a run needs besides: events, limits, a pause, a resumed run's
    decisions. Without calls it is empty. If a hook pauses the run, the last event is a `RunPause`.

    Args:
        turn: The turn.
        executor: Runs the calls that the hooks permit, in place of the tools: emits a result for each, in any order. No
            pure tool then starts early. Where the tools are elsewhere: ``Worker(stages={"call_tools":
            partial(call_tools, executor=remote)})``.

    Raises:
        LimitExceededError: The limit of tool calls is reached, or the run makes no progress.
        RunAbortedError: A hook ended the run.
        HookError: A hook failed.
        ConfigurationError: The executor has emitted something other than a result of a call, or completed without one
            of a call.
    """
    if executor is not None:
        expect_operator(executor)
    return turn._stage(make_calls if executor is None else partial(make_calls, executor=executor))


async def make_calls(
    context: RunContext,
    scope: TurnScope,
    emitter: Emitter[Event],
    executor: Executor | None = None,
) -> None:
    """The coroutine of `call_tools`."""
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
            # The prefix of idempotency keys stays the same however often the turn is paused, so that no call is made
            # twice.
            key = scope.pause.key or f"{context.journal.run_id}/{context.journal.state.turns}"
            scope.pause = replace(scope.pause, key=key)
            emit = emitter.emit if scope.noted is None else _noted(scope, scope.noted, emitter.emit)
            await _run_calls(context, scope, waiting, emit, executor)
    finally:
        if scope.early is not None:
            discard_early(context, scope)


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


async def _run_calls(
    context: RunContext,
    scope: TurnScope,
    waiting: tuple[PausedCall, ...],
    emit: Emit,
    executor: Executor | None,
) -> None:
    results = dict(scope.pause.refused)
    invalid: set[int] = set()
    waiting = tuple([_decoded(context, each, invalid) for each in waiting])
    for each in scope.pause.calls:
        answer = scope.answered.get(each.place)
        if answer is None:
            continue
        if each.place not in scope.ended:
            hold_back(context, emit)(ToolStop(answer, place=each.place))
        tool = context.worker.tools.get(each.call.name)
        results[each.place] = await _after_result_hooks(context, scope, each, tool, answer, emit)
    if not scope.finished_by and context.pause_request.reason is not None:
        # The hooks run for all of these when the run resumes.
        discard_early(context, scope)
        context.pause_request.take(emit, _pause(scope, BY_CALLER, map(_not_asked, waiting), results))
        return
    early = scope.early
    # The calls that started early are already counted.
    before_calls(context, len(waiting) - (0 if early is None else early.begun), emit)
    allowed: Sequence[PausedCall] = waiting
    if scope.finished_by:  # by the process before this one, or by a hook for the result of a person
        allowed = _begun(scope, waiting)
    elif context.worker.hooks.at(BEFORE) or context.worker.tools.wants_approval([each.call for each in waiting]):
        asked = await _ask(context, scope, waiting, invalid, results, emit)
        if asked is None:
            return
        allowed = asked
    if scope.finished_by:
        kept = {each.place for each in allowed}
        _refuse(scope, [each for each in waiting if each.place not in kept], results, emit)
    # A tool may be removed while it runs; its hooks run for the result all the same.
    tools = {each.place: context.worker.tools.get(each.call.name) for each in allowed}
    by_client = [each for each in allowed if isinstance(tools[each.place], ClientTool) and each.place not in invalid]
    if by_client:
        places = {each.place for each in by_client}
        allowed = [each for each in allowed if each.place not in places]
    if early is not None:
        discard_early(context, scope, keep={each.place: each.call for each in allowed})
        for each in allowed:
            tools[each.place] = tools[each.place] or early.tool_at(each.place)
    asking: list[PausedCall] = []
    emit_call = hold_back(context, emit, {each.place for each in allowed if each.is_approved})
    barrier = None if context.journal.writer is None else context.journal.barrier
    token = ACCOUNT.set(RunAccount(context, "tool"))
    try:
        if executor is not None:
            RUN_CALLS.set((scope.pause.key, tuple([(each.place, each.call) for each in allowed])))
            await _execute(context, executor, allowed, invalid, results, emit_call, barrier)
        else:
            finished = await run_calls(
                context.worker.tools,
                [each.call for each in allowed],
                replace(_call_scope(context, scope, emit_call), barrier=barrier),
                places=[each.place for each in allowed],
                limit=context.worker.parallel,
                early=early,
            )
            for each, done in zip(allowed, finished, strict=True):
                if done.begun is None:
                    results[each.place] = done.result
                else:
                    asking.append(replace(each, begun=done.begun))
    finally:
        ACCOUNT.reset(token)
    if context.worker.hooks.at(AFTER) or _held_back(context):
        for each in allowed:
            if each.place not in results:
                continue
            tool = context.worker.tools.get(each.call.name) or tools[each.place]
            result = results[each.place]
            results[each.place] = await _after_result_hooks(context, scope, each, tool, result, emit)
    if scope.finished_by:
        _refuse(scope, [*asking, *by_client], results, emit)
    elif asking or by_client:
        spared = tuple(numbered(names_in(context.worker.hooks.at(BEFORE))))
        left = sorted([*asking, *by_client], key=attrgetter("place"))
        offered = [replace(each, spared=spared, is_approved=True) for each in left]
        if asking:  # before a client runs the others
            required = tuple([at for at, each in enumerate(left) if each.question is not None])
            reason = "\n".join(str(each.question) for each in asking)
            emit(RunPause(_pause(scope, QUESTION, offered, results, reason, required)))
            return
        tool_names = ", ".join(dict.fromkeys(each.call.name for each in by_client))
        reason = f"{tool_names} runs in the client"
        emit(RunPause(_pause(scope, CLIENT_TOOL, offered, results, reason)))
        return
    scope.called = True
    emit(MessageAdd((Message("user", tuple(dict(sorted(results.items())).values())),), "tools"))
    # A run that repeats its calls makes no progress.
    check_limits(emit, context.worker.limits, max_repeats=context.journal.state.repeats)


async def _execute(
    context: RunContext,
    executor: Executor,
    allowed: Sequence[PausedCall],
    invalid: Collection[int],
    results: dict[int, ToolResult],
    emit: Emit,
    barrier: Callable[[], Awaitable[None]] | None,
) -> None:
    """Run the calls by an operator of the application."""
    loop = asyncio.get_running_loop()
    left: list[PausedCall] = []
    for each in allowed:
        emit(ToolStart(each.call, each.place))
        if each.place in invalid:
            result = await run_call(context.worker.tools, each.call)  # the error of its arguments
            results[each.place] = result
            emit(ToolStop(result, call_id=each.call.id, place=each.place, is_error=True))
        else:
            left.append(each)
    if not left:
        return
    if barrier is not None:
        await barrier()
    began = loop.time()

    def take(result: ToolResult) -> None:
        each = next((each for each in left if each.call.id == result.tool_use_id), None)
        if each is None:
            text = (
                f"the executor of call_tools emitted a result of {result.tool_use_id!r}, which is not a waiting call: "
                "give each result the id of its call"
            )
            raise ConfigurationError(text)
        left.remove(each)
        most = policy_of(context.worker.tools.get(each.call.name)).max_output
        content = clean(truncate(result.content, most))
        result = replace(result, content=content, name=each.call.name)
        results[each.place] = result
        emit(ToolStop(result, loop.time() - began, each.call.id, each.place, result.is_error))

    calls = reactivex.from_iterable([each.call for each in left])
    executed = apply_operators((executor,), calls, context.scheduler, {ToolResult}, _NO_RESULT)
    # Here an exception of ``take`` is an error of the stream, in whatever thread the executor emits.
    await Emitter[ToolResult](ignore, ignore).listen(executed.pipe(ops.do_action(take)))
    if left:
        names = ", ".join(each.call.id for each in left)
        raise ConfigurationError(f"the executor of call_tools completed without a result of {names}")


def _begun(scope: TurnScope, waiting: Sequence[PausedCall]) -> list[PausedCall]:
    """The calls of pure tools that run already."""
    early = scope.early
    return [each for each in waiting if early and early.has_started(each.call, each.place)]


def _refuse(scope: TurnScope, some: Sequence[PausedCall], results: dict[int, ToolResult], emit: Emit) -> None:
    """Give calls that will not run, since a hook has finished the run, a result.

    A conversation has one for each call.
    """
    for each in some:
        if each.place in results:
            continue
        results[each.place] = not_run(each.call, scope.finished_by)
        emit(ToolStop(results[each.place], place=each.place))


def _finish(context: RunContext, scope: TurnScope, hook: str, point: HookPoint) -> None:
    """Let the run end after this turn.

    Raises:
        HookError: The run must return a value, and the model has not answered yet.
    """
    if context.output is not None:
        text = (
            f"hook {hook!r} answered Finish(final=True) at {point.value}, where the run has no value of its output "
            "type yet: use Abort"
        )
        raise HookError(text, hook=hook, point=point.value, kind="verdict")
    scope.finished_by = scope.finished_by or hook


def _pause(
    scope: TurnScope,
    hook: str,
    calls: Iterable[PausedCall],
    results: Mapping[int, ToolResult],
    reason: str = "",
    required: tuple[int, ...] = (),
) -> PauseState:
    """What this turn leaves undone."""
    refused = dict(sorted(results.items()))
    return PauseState(hook, tuple(calls), required, reason, refused, scope.pause.key)


def _not_asked(each: PausedCall) -> PausedCall:
    """The call of a pause before its hooks: all of them run when the run resumes."""
    return PausedCall(each.place, each.call, begun=each.begun)


async def _ask(
    context: RunContext,
    scope: TurnScope,
    waiting: Sequence[PausedCall],
    invalid: Collection[int],
    results: dict[int, ToolResult],
    emit: Emit,
) -> list[PausedCall] | None:
    """The calls that may run; ``None`` if a hook has paused the run.

    The results of the others are added to ``results``.
    """
    allowed: list[PausedCall] = []
    for number, each in enumerate(waiting):
        call, place = each.call, each.place
        tool = context.worker.tools.get(call.name)
        if tool is None:
            # It is not run, even if the tool is added later: no hook has run for it. Its start has a context of its
            # own, as that of any call: an observer may set the current span.
            results[place] = missing(context.worker.tools, call)
            copy_context().run(emit, ToolStart(call, place))
            emit(ToolStop(results[place], place=place))
            continue
        if place in invalid:
            allowed.append(each)
            continue
        hooks = context.worker.hooks.at(BEFORE)
        hook_context = ToolCallContext(
            call=call,
            tool=tool,
            spared=frozenset(each.spared),
            granted=partial(context.allows, call.name),
            **context.hook_input(scope.variables),
        )
        verdict, hook = await context.worker.hooks.run(BEFORE, hook_context, emit)
        left = hook_context.call
        result = result_by(verdict, hook, call, tool)
        if result is not None:
            results[place] = result
            if isinstance(verdict, Skip):
                emit(ToolStop(result, place=place))
                continue
            hold_back(context, emit)(ToolStop(result, place=place))
            made = replace(each, call=left)
            results[place] = await _after_result_hooks(context, scope, made, tool, result, emit)
            if scope.finished_by:
                return _begun(scope, waiting)
            continue
        match verdict:
            case Finish():
                _finish(context, scope, hook, BEFORE)
                return _begun(scope, waiting)
            case Pause(reason=reason):
                pass
            case _ if (
                policy_of(tool).requires_approval
                # A person has approved exactly these arguments.
                and not (each.is_approved and (left is call or signature_of(left) == signature_of(call)))
                and not await hook_context.allows(REQUIRES_APPROVAL)
            ):
                hook, reason = REQUIRES_APPROVAL, f"{call.name} requires approval"
            case _:
                allowed.append(replace(each, call=left))
                continue
        discard_early(context, scope)
        spared = tuple(numbered(names_in(hooks)))
        calls = [replace(each, spared=spared, is_approved=True) for each in allowed]
        reached = spared[: len(hook_context.reached)]
        calls.append(PausedCall(place, left, reached, begun=each.begun))
        calls += map(_not_asked, waiting[number + 1 :])
        emit(RunPause(_pause(scope, hook, calls, results, reason, (len(allowed),))))
        return None
    return allowed


def _decoded(context: RunContext, each: PausedCall, invalid: set[int]) -> PausedCall:
    """The call with the arguments that hooks and the tool receive.

    If they cannot be decoded, its place is added to ``invalid``.
    """
    tool = context.worker.tools.get(each.call.name)
    if tool is None:
        return each
    call = decoded(each.call, tool)
    if call is None:
        invalid.add(each.place)
        return each
    return each if call is each.call else replace(each, call=call)


async def _after_result_hooks(
    context: RunContext,
    scope: TurnScope,
    each: PausedCall,
    tool: Tool | None,
    result: ToolResult,
    emit: Emit,
) -> ToolResult:
    """The result after the hooks. It is emitted unless the end of the call already had it."""
    left, hooks = result, context.worker.hooks.at(AFTER)
    # What `hold_back` goes by. The state has the calls of a process before this one, but not yet what an operator
    # around the stage passes on later.
    is_held = each.place in _held_back(context) or any(hook.matches(result.name) for hook in hooks)
    if tool is not None and hooks:
        hook_context = ToolResultContext(
            # With arguments of its own, which a hook may change in place: the watchers hold the others.
            call=replace(each.call, input=copy_arguments(each.call.input)),
            result=result,
            tool=tool,
            **context.hook_input(scope.variables),
        )
        verdict, hook = await context.worker.hooks.run(AFTER, hook_context, emit)
        if isinstance(verdict, Abort):
            raise RunAbortedError(verdict.reason, hook=hook)
        if isinstance(verdict, Finish):
            _finish(context, scope, hook, AFTER)
        changed = hook_context.result
        left = replace(changed, content=clean(changed.content), name=each.call.name)
    if left != result or is_held:
        emit(ToolOutput(left, each.place))
    return left


def _held_back(context: RunContext) -> set[int]:
    """The places of the calls that ended without their results."""
    calls = context.journal.state.calls
    return {each.place for each in calls if each.phase == "ended" and each.result is None}
