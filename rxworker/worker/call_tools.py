"""Third stage of a turn: the tools that the response calls.

All are asked about, one by one and in order, before any runs. The allowed ones run in parallel. All results are looked
at, one by one and in order, before the model hears any.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from rxworker.errors import RunAbortedError
from rxworker.events import Event, MessageAdd, RunPause, ToolStop
from rxworker.hooks import Abort, HookPoint, Pause, Skip, ToolCallContext, ToolResultContext
from rxworker.hooks.verdicts import Verdict
from rxworker.messages import Message, ToolCall, ToolResult
from rxworker.timeline import RunState
from rxworker.tools import Finished as FinishedCall
from rxworker.tools import Tool, policy_of, run_calls
from rxworker.worker.checks import call_of, result_of
from rxworker.worker.context import CALLING, RunContext, TurnScope
from rxworker.worker.early import throw_away
from rxworker.worker.guard import after_calls, before_calls
from rxworker.worker.pausing import BY_CALLER
from rxworker.worker.stage import Voice

Emit = Callable[[Event], None]

# Here, since a member of an enumeration is dear to look up.
BEFORE, AFTER = HookPoint.BEFORE_TOOL_CALL, HookPoint.AFTER_TOOL_CALL


async def call_tools(context: RunContext, scope: TurnScope, voice: Voice[Event]) -> None:
    """Ask, run, look at the results, and put them into the conversation.

    Raises:
        LimitExceededError: The run has had all its tool calls, or makes no progress.
        RunAbortedError: A hook ended the run.
        HookError: A hook failed.
    """
    state = context.journal.state
    # The calls of a response that was cut short are not pending: the state has answered them already.
    calls = scope.resumed if scope.is_resumed else state.pending
    try:
        if calls or scope.refused:
            # What idempotency keys begin with is the same however often the turn is paused, so that no call is made twice.
            scope.key = scope.key or f"{context.journal.run}/{state.turns}"
            await _ask_and_run(context, scope, state, calls, voice)
    finally:
        if scope.early is not None:
            throw_away(context, scope)


async def _ask_and_run(
    context: RunContext,
    scope: TurnScope,
    state: RunState,
    calls: tuple[ToolCall, ...],
    voice: Voice[Event],
) -> None:
    emit = voice.emit
    if context.pausing.reason is not None:
        # Nothing has been asked or decided about these yet: the hooks are asked about all of them when the run goes on.
        throw_away(context, scope)
        context.pausing.take(emit, RunPause(BY_CALLER, calls, refused=scope.refused, key=scope.key))
        scope.paused = True
        return
    early = scope.early
    # Those that have started early are counted already.
    before_calls(context, state, len(calls) - (0 if early is None else early.begun), emit)
    allowed: Sequence[ToolCall] = calls
    refused: Sequence[ToolResult] = scope.refused
    if context.hooks.at(BEFORE) or context.tools.wants_approval(calls):
        allowed, refused = await _ask(context, scope, calls, emit)
        if scope.paused:
            return
    if early is not None:
        throw_away(context, scope, keep=allowed)
    CALLING.set(context)
    finished = await run_calls(
        context.tools,
        allowed,
        limit=context.parallel,
        emit=emit,
        relay=context.journal.relay,
        scope=scope.key,
        variables=scope.variables,
        early=early,
    )
    is_looked_at = bool(context.hooks.at(AFTER))
    if is_looked_at:
        finished = await _look_at_all(context, scope, allowed, finished, emit)
    scope.called = True
    results: list[ToolResult] = []
    ends: list[Event] = []
    for done in finished:
        results.append(done.result)
        ends.append(ToolStop(done.result, done.seconds))
    # Without others among them they are in the order of the calls.
    answers = _in_call_order(_called(context), [*results, *refused]) if refused else results
    added = MessageAdd((Message("user", tuple(answers)),), "tools")
    if is_looked_at:
        emit(added)
    else:  # nobody has a say in between
        ends.append(added)
        voice.on_many(ends)
    after_calls(context, emit)


def _pause(
    scope: TurnScope,
    hook: str,
    pending: tuple[ToolCall, ...],
    reason: str,
    refused: Sequence[ToolResult],
    let_through: int,
) -> RunPause:
    """The pause at the call that stands behind those that were let through."""
    return RunPause(
        hook,
        pending,
        pending[let_through].id,
        reason,
        tuple(refused),
        let_through,
        scope.key,
    )


def _called(context: RunContext) -> tuple[ToolCall, ...]:
    """The calls as the model made them, refused ones among them."""
    messages = context.journal.state.conversation.messages
    return next((m.tool_calls for m in reversed(messages) if m.role == "assistant"), ())


async def _ask(
    context: RunContext, scope: TurnScope, calls: tuple[ToolCall, ...], emit: Emit
) -> tuple[list[ToolCall], list[ToolResult]]:
    """The calls that may run, and the results of those that may not."""
    allowed: list[ToolCall] = []
    refused = list(scope.refused)
    is_hooked = bool(context.hooks.at(BEFORE))
    for place, call in enumerate(calls):
        tool = context.tools.get(call.name)
        is_free = not is_hooked and not policy_of(tool).requires_approval
        if is_free or tool is None or place in scope.approved:
            allowed.append(call)
            continue
        verdict, hook, left = await _ask_about(context, scope, call, tool, emit)
        match verdict:
            case Skip(reason=reason):
                refused.append(ToolResult(call.id, reason, is_error=True, name=call.name))
                emit(ToolStop(refused[-1]))
            case Abort(reason=reason):
                raise RunAbortedError(reason, hook=hook)
            case Pause(reason=reason):
                pending = (*allowed, left, *calls[place + 1 :])
                throw_away(context, scope)
                emit(_pause(scope, hook, pending, reason, refused, len(allowed)))
                scope.paused = True
                break
            case _ if policy_of(tool).requires_approval:
                pending = (*allowed, left, *calls[place + 1 :])
                reason = f"{call.name} requires approval"
                throw_away(context, scope)
                hook = "requires_approval"
                emit(_pause(scope, hook, pending, reason, refused, len(allowed)))
                scope.paused = True
                break
            case _:
                allowed.append(left)
    return allowed, refused


async def _ask_about(
    context: RunContext, scope: TurnScope, call: ToolCall, tool: Tool, emit: Emit
) -> tuple[Verdict, str, ToolCall]:
    """What the hooks say to a call, which of them, and what they leave of it."""
    asked = ToolCallContext(
        # The watchers hold the original; what a hook changes in place is a copy.
        call=replace(call, input=copy.deepcopy(call.input)),
        tool=tool,
        **context.situation(scope.variables),
    )
    verdict, hook = await context.hooks.ask(BEFORE, asked, emit)
    return verdict, hook, call_of(asked, call)


async def _look_at_all(
    context: RunContext,
    scope: TurnScope,
    calls: Sequence[ToolCall],
    finished: Sequence[FinishedCall],
    emit: Emit,
) -> list[FinishedCall]:
    """The results as the hooks leave them. Each is told before the next is looked at."""
    looked_at: list[FinishedCall] = []
    for call, done in zip(calls, finished, strict=True):
        result = await _look_at(context, scope, call, done.result, emit)
        emit(ToolStop(result, done.seconds))
        looked_at.append(replace(done, result=result))
    return looked_at


async def _look_at(
    context: RunContext, scope: TurnScope, call: ToolCall, result: ToolResult, emit: Emit
) -> ToolResult:
    """One result as the hooks leave it."""
    tool = context.tools.get(call.name)
    if tool is None:
        return result
    asked = ToolResultContext(
        call=call,
        result=result,
        tool=tool,
        **context.situation(scope.variables),
    )
    verdict, hook = await context.hooks.ask(AFTER, asked, emit)
    if isinstance(verdict, Abort):
        raise RunAbortedError(verdict.reason, hook=hook)
    return result_of(asked, result)


def _in_call_order(
    calls: tuple[ToolCall, ...], results: Sequence[ToolResult]
) -> tuple[ToolResult, ...]:
    """The results in the order of the calls, each used once: a provider may give two calls one id."""
    left = list(results)
    ordered: list[ToolResult] = []
    for call in calls:
        place = next((i for i, result in enumerate(left) if result.tool_use_id == call.id), None)
        if place is not None:
            ordered.append(left.pop(place))
    return (*ordered, *left)


__all__ = ["call_tools"]
