"""The results of calls in the background join the conversation, and what their run does while they have none.

A result joins where the messages do that are sent to the run: before a request, and before the run would finish. The
``after_tool_call`` hooks run for it there, before anything shows it. Each becomes a message of the user, in the order
in which they have come, in one append with its `BackgroundStop` and the record that its command is taken, so that it
joins once, also after a crash.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from rxworker.errors import LocalProtocolError
from rxworker.events import (
    BackgroundStart,
    BackgroundStop,
    MessageAdd,
    PausedCall,
    PauseState,
    RunPause,
    RunResume,
    ToolOutput,
    TurnStop,
)
from rxworker.events.pause import BACKGROUND, NO_PAUSE, RESULT, BackgroundCall, Begun
from rxworker.hooks import HookPoint
from rxworker.hooks.registry import names_in
from rxworker.log.values import DeliveredResult
from rxworker.messages import Message, ToolResult
from rxworker.operators.gate import Gate
from rxworker.redact import without_secrets
from rxworker.tools.base import Done, NotDone, Reconciled, Tool, Unknown, in_doubt, policy_of
from rxworker.tools.calls import CallItem, FinishedCall, FinishedCalls
from rxworker.tools.cancellation import keep, stop_all
from rxworker.tools.coroutines import CoroutineObservable, Emitter
from rxworker.tools.results import change_texts, clean, truncate
from rxworker.tools.run import Limiter, RunningCall, run_at, waiting_call
from rxworker.turn.background import Arrived
from rxworker.turn.call_tools import finish_run, hook_scope
from rxworker.turn.context import Emit, RunContext, TurnScope
from rxworker.turn.gate import gate_calls, gates_of
from rxworker.turn.permit import revise

AFTER, BEFORE = HookPoint.AFTER_TOOL_CALL, HookPoint.BEFORE_TOOL_CALL

ENDED = "This call was cancelled: the run ended before it had a result."
LOST = "The process that ran this call ended before it. Whether it had an effect is not known."
HAS_RESULT = "the call has its result already"
OTHER_STEP = "the call does not wait for this decision"
OTHER_HOOKS = "The hooks of this process have not agreed to the call."


def result_message(each: BackgroundCall, result: ToolResult) -> Message:
    r"""The message that gives the model the result of a call in the background.

    >>> from rxworker.messages import ToolCall
    >>> each = BackgroundCall("call_1", ToolCall("call_1", "look", {}), "key")
    >>> result_message(each, ToolResult("call_1", "a tree")).text
    '[The result of look, call call_1, which went on in the background]\na tree'
    """
    failed = ", and has failed" if result.is_error else ""
    head = RESULT.format(each.call.name, each.id, failed)
    content = result.content
    return Message.user(f"{head}\n{content}") if isinstance(content, str) else Message.user(head, *content)


async def join(context: RunContext, scope: TurnScope, emit: Emit) -> bool:
    """Add the results that have come to the conversation. Returns whether there were any."""
    is_joined = False
    while (found := _next(context, emit)) is not None:
        await _join_one(context, scope, emit, *found)
        is_joined = True
    return is_joined


def take_steps(context: RunContext) -> None:
    """Record what calls in the background wait for, and go on with those that were decided about.

    Raises:
        LocalProtocolError: As for ``take_up``.
    """
    arrived, emit = context.background.arrived, context.journal.emit
    for one in [one for one in arrived if one.delivery.begun is not None]:
        arrived.remove(one)
        delivery, calls = one.delivery, context.journal.state.background
        each = next((each for each in calls if (each.id, each.step + 1) == (delivery.id, delivery.step)), None)
        has_result = each is not None and _has_come(context, each)  # a denial or a cancellation may be that
        ignored = HAS_RESULT if has_result else "" if each is not None else OTHER_STEP
        if one.taken is not None:
            emit(replace(one.taken, ignored=ignored))
        if each is None or has_result:
            continue
        each = replace(each, begun=delivery.begun, step=delivery.step)
        for kept in (context.background.calls, context.background.kept):
            kept.pop(each.id, None)
        emit(BackgroundStart(each))
        if not each.waits:
            _go_on(context, each, _not_agreed(context, each) or NotDone())
        elif context.background.commands is not None:
            context.background.commands.wake(each)


def _has_come(context: RunContext, each: BackgroundCall) -> bool:
    """Whether a result of a call waits to join."""
    several = [one.delivery for one in context.background.arrived]
    return any(one.begun is None and one.id in (each.id, each.key) for one in several)


def _next(context: RunContext, emit: Emit) -> tuple[BackgroundCall, Arrived] | None:
    """The next result of a call in the background. One that came before its call went there waits for that."""
    arrived, state = context.background.arrived, context.journal.state
    for at, one in enumerate(arrived):
        id = one.delivery.id  # noqa: A001 - what it is
        for each in state.background:
            if id in (each.id, each.key):
                del arrived[at]
                return each, one
        if id in state.delivered:
            del arrived[at]
            if one.taken is not None:
                emit(replace(one.taken, ignored=HAS_RESULT))
            return _next(context, emit)
    return None


async def _join_one(context: RunContext, scope: TurnScope, emit: Emit, each: BackgroundCall, arrived: Arrived) -> None:
    call, delivery, tool = each.call, arrived.delivery, context.worker.tools.get(each.call.name)
    running = context.background.calls.pop(each.id, None)
    if running is not None and not running.task.done():
        running.is_wanted = False  # its result was delivered from outside
        keep(stop_all([running.task]), context.tasks)
    content = delivery.content
    if not delivery.seconds:  # otherwise the tool has returned it, and this is done
        content = change_texts(content, without_secrets) if delivery.is_error else content
        content = clean(truncate(content, policy_of(tool).max_output))
    result = ToolResult(call.id, content, delivery.is_error, call.name)
    gates = gates_of(context)
    if context.worker.hooks.orders[AFTER] or gates:
        result = await _revised(context, scope, gates, emit, FinishedCall(PausedCall(each.place, call), result, tool))
    if arrived.taken is not None:
        emit(arrived.taken)
    emit(BackgroundStop(each.id, result, delivery.seconds))
    emit(MessageAdd((result_message(each, result),), BACKGROUND))


async def _revised(
    context: RunContext, scope: TurnScope, gates: Sequence[Gate], emit: Emit, done: FinishedCall
) -> ToolResult:
    """The result as the gates and the ``after_tool_call`` hooks leave it."""
    left = done.result

    async def one(emitter: Emitter[CallItem]) -> None:
        emitter.emit(done)

    def take(item: CallItem) -> None:
        nonlocal left
        if isinstance(item, FinishedCall):
            left = item.result
        elif isinstance(item, FinishedCalls):
            finish_run(context, scope, item)
        elif not isinstance(item, PausedCall | ToolOutput):  # the message shows it
            emit(item)  # pyright: ignore[reportArgumentType] - of a call with a result, only events are left

    several = revise(context.worker.hooks, context.worker.tools, hook_scope(context, scope))
    written, revised = gate_calls(gates, context)
    await Emitter(take).follow(CoroutineObservable(one, set()).pipe(written, several, revised))
    return left


async def ends_turn(context: RunContext, scope: TurnScope, emit: Emit) -> bool:
    """Do what calls in the background want when the model has ended its answer.

    Wait for a result, or for a message; or pause. Returns whether the turn has ended with it; else the run may end.
    """
    while not await join(context, scope, emit) and not context.mailbox.deliver(emit):
        several = context.journal.state.background
        ends = {each.at_end for each in several if not each.waits}
        needs_decision = any(each.waits and each.at_end != "cancel" for each in several)
        if context.pause_request.reason is not None or context.background.is_stopping:
            emit(TurnStop())
            context.pause_request.take(emit, NO_PAUSE)
            return True
        if "wait" in ends or ("wake" in ends and not needs_decision and _is_woken(context, scope)):
            await _changed(context)
        elif "wake" in ends or needs_decision:
            emit(TurnStop())
            emit(RunPause(PauseState(BACKGROUND, (), (), _reason(context))))
            return True
        else:
            return False
    if scope.finished_by:
        return False
    emit(TurnStop())
    return True


def _is_woken(context: RunContext, scope: TurnScope) -> bool:
    """Whether this turn resumes a run that has paused for results: then it waits for the next one."""
    first = context.journal.first
    return scope.is_resumed and isinstance(first, RunResume) and first.pause.hook == BACKGROUND


def _reason(context: RunContext) -> str:
    calls = context.journal.state.background
    more = [each.reason for each in calls if each.reason]
    more += [waiting_call(PausedCall(each.place, each.call, begun=each.begun)).reason for each in calls if each.waits]
    names = ", ".join(dict.fromkeys(each.call.name for each in calls))
    return "\n".join(dict.fromkeys([f"waits for the result of {names}", *more]))


async def _changed(context: RunContext) -> None:
    """Wait until a result or a message comes, or the run is to pause or to stop."""
    changed = asyncio.Event()
    several = (context.background, context.mailbox, context.pause_request)
    for each in several:
        each.changed = changed
    try:
        await changed.wait()
    finally:
        for each in several:
            each.changed = None


async def cancel_calls(context: RunContext, emit: Emit) -> None:
    """Cancel the calls in the background, since the run ends, and wait for their ends."""
    await context.background.stop()
    for each in context.journal.state.background:
        emit(BackgroundStop(each.id, ToolResult(each.call.id, ENDED, is_error=True, name=each.call.name)))


async def take_up(context: RunContext) -> None:
    """Go on with the calls in the background whose process has ended, as the effects of their tools allow.

    Raises:
        LocalProtocolError: The effect of one is not known, and ``on_unknown`` of the worker is ``fail``.
    """
    background = context.background
    take_steps(context)
    for each in context.journal.state.background:
        if each.is_delivered or _has_come(context, each) or each.id in background.calls:
            continue
        if each.begun is not None and each.waits and not (each.reason or background.is_foreign):
            if each.begun.run:
                background.nested.setdefault(each.begun.run, None)
            if background.commands is not None:
                background.commands.wake(each)
            continue
        found: Reconciled | None = _not_agreed(context, each)
        if found is None:  # one that has kept with what it goes on is called with that
            tool = context.worker.tools.get(each.call.name)
            found = NotDone() if each.id in background.kept else await in_doubt(tool, each.call, each.key)
        _go_on(context, each, found)


def _not_agreed(context: RunContext, each: BackgroundCall) -> Unknown | None:
    """Why this process does not make a call again; ``None`` if it may."""
    hooks = tuple(names_in(context.worker.hooks.orders[BEFORE]))
    may = not each.reason and not context.background.is_foreign and hooks == each.agreed
    return None if may else Unknown(each.reason or OTHER_HOOKS)


def _go_on(context: RunContext, each: BackgroundCall, found: Reconciled) -> None:
    """Go on with a call in the background that no task runs, by what is known of its effect."""
    background, call, tool = context.background, each.call, context.worker.tools.get(each.call.name)
    on_unknown = context.worker.on_unknown
    if isinstance(found, NotDone) and tool is not None:
        _run_again(context, each, tool)
        return
    if isinstance(found, Done):
        background.arrive(DeliveredResult(each.id, found.content, found.is_error))
        return
    reason = found.reason if isinstance(found, Unknown) else ""
    why = f"{LOST} {reason}".strip()
    if on_unknown == "fail":
        raise LocalProtocolError(f"the call {each.id} of {call.name} in the background: {why}")
    if on_unknown == "ask" and not context.parents:  # a person delivers its result
        context.journal.emit(BackgroundStart(replace(each, is_delivered=True, at_end="wake", reason=why, begun=None)))
    else:  # a nested run cannot wait for a person
        background.arrive(DeliveredResult(each.id, why, is_error=True))


def _run_again(context: RunContext, each: BackgroundCall, tool: Tool) -> None:
    """Make a call again, in the background, with the same key."""
    shared = hook_scope(context, TurnScope(variables=context.variables))
    kept = context.background.kept
    begun = Begun(kept[each.id]) if each.id in kept else each.begun
    shared = replace(shared, key=each.key.rsplit("/", 2)[0])
    running = RunningCall(PausedCall(each.place, each.call, begun=begun), shared)
    running.tool, running.background = tool, each
    running.task = shared.start_task(run_at(Limiter(1), context.worker.tools, running))
    context.background.follow(each, running)
