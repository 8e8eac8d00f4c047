"""Third stage of a turn: the tools that the response calls.

The hooks are asked about all calls, one by one and in order, before any runs. The allowed calls run in parallel, and each is
reported as it ends. When all have ended, the hooks are asked about the results, one by one and in order. A result that hooks
may change reaches neither the model nor a watcher before that.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from rxworker.errors import RunAbortedError
from rxworker.events import Event, MessageAdd, RunPause, ToolOutput, ToolStart, ToolStop
from rxworker.hooks import Abort, HookPoint, Pause, Skip, ToolCallContext, ToolResultContext
from rxworker.hooks.ask import names_in
from rxworker.hooks.verdicts import Continue, Verdict
from rxworker.messages import Message, ToolCall, ToolResult
from rxworker.messages.pairs import calls_made
from rxworker.state import RunState
from rxworker.tools import Tool, policy_of, run_calls
from rxworker.worker.approval import APPROVAL
from rxworker.worker.checks import result_of
from rxworker.worker.context import CALLING, RunContext, TurnScope, Waiting
from rxworker.worker.early import hold_back, throw_away
from rxworker.worker.guard import after_calls, before_calls
from rxworker.worker.pausing import BY_CALLER
from rxworker.worker.seal import seal_of
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
    waiting = scope.resumed if scope.is_resumed else _made(state)
    context.called.update((each.call.name, None) for each in waiting)
    try:
        if waiting or scope.refused or scope.answered:
            # What idempotency keys begin with is the same however often the turn is paused, so that no call is made twice.
            scope.key = scope.key or f"{context.journal.run}/{state.turns}"
            await _ask_and_run(context, scope, state, waiting, voice.emit)
    finally:
        if scope.early is not None:
            throw_away(context, scope)


def _made(state: RunState) -> tuple[Waiting, ...]:
    """The calls of the response. Those of one that was cut short have been answered."""
    if not (state.is_closed and state.calls):
        return ()
    return tuple([Waiting(*placed) for placed in enumerate(calls_made(state.conversation))])


async def _ask_and_run(
    context: RunContext,
    scope: TurnScope,
    state: RunState,
    waiting: tuple[Waiting, ...],
    emit: Emit,
) -> None:
    results = dict(scope.refused)
    for each, answer in scope.answered:
        hold_back(context, emit)(ToolStop(answer, place=each.place))
        tool = context.tools.get(each.call.name)
        results[each.place] = await _look_at(context, scope, each, tool, answer, emit)
    if context.pausing.reason is not None:
        # The hooks are asked about all of these when the run goes on.
        throw_away(context, scope)
        context.pausing.take(emit, _pause(scope, BY_CALLER, waiting, results))
        scope.paused = True
        return
    early = scope.early
    # Those that have started early are counted already.
    before_calls(context, state, len(waiting) - (0 if early is None else early.begun), emit)
    allowed: Sequence[Waiting] = waiting
    if context.hooks.at(BEFORE) or context.tools.wants_approval([each.call for each in waiting]):
        allowed = await _ask(context, scope, waiting, results, emit)
        if scope.paused:
            return
    if early is not None:
        throw_away(context, scope, keep={each.place: each.call for each in allowed})
    # A tool may be removed while it runs; the hooks are asked about its result all the same.
    tools = [context.tools.get(each.call.name) for each in allowed]
    CALLING.set(context)
    finished = await run_calls(
        context.tools,
        [each.call for each in allowed],
        places=[each.place for each in allowed],
        limit=context.parallel,
        emit=hold_back(context, emit),
        relay=context.journal.relay,
        scope=scope.key,
        variables=scope.variables,
        early=early,
    )
    for each, done in zip(allowed, finished, strict=True):
        results[each.place] = done.result
    if context.hooks.at(AFTER) or _held_back(context):
        for each, was in zip(allowed, tools, strict=True):
            tool = context.tools.get(each.call.name) or was
            result = results[each.place]
            results[each.place] = await _look_at(context, scope, each, tool, result, emit)
    scope.called = True
    emit(MessageAdd((Message("user", _in_order(results)),), "tools"))
    after_calls(context, emit)


def _pause(
    scope: TurnScope,
    hook: str,
    waiting: Sequence[Waiting],
    results: Mapping[int, ToolResult],
    reason: str = "",
) -> RunPause:
    return RunPause(
        hook,
        tuple([each.call for each in waiting]),
        reason=reason,
        refused=_in_order(results),
        key=scope.key,
        places=tuple([each.place for each in waiting]),
    )


def _in_order(results: Mapping[int, ToolResult]) -> tuple[ToolResult, ...]:
    return tuple([results[place] for place in sorted(results)])


async def _ask(
    context: RunContext,
    scope: TurnScope,
    waiting: Sequence[Waiting],
    results: dict[int, ToolResult],
    emit: Emit,
) -> list[Waiting]:
    """The calls that may run. The results of those that may not are put to the others."""
    allowed: list[Waiting] = []
    for number, each in enumerate(waiting):
        call, place = each.call, each.place
        tool = context.tools.get(call.name)
        if tool is None:
            # It is not run, also if there is such a tool later: no hook has been asked about it.
            results[place] = _missing(context, each, emit)
            continue
        hooks = context.hooks.at(BEFORE)
        verdict, hook, left, asked = Continue(), "", call, 0
        if hooks:
            verdict, hook, left, asked = await _ask_about(context, scope, each, tool, emit)
        # What a person has approved are these very arguments.
        is_approved = each.is_approved and (left is call or seal_of(left) == seal_of(call))
        match verdict:
            case Skip(reason=reason):
                results[place] = ToolResult(call.id, reason, is_error=True, name=call.name)
                emit(ToolStop(results[place], place=place))
                continue
            case Abort(reason=reason):
                raise RunAbortedError(reason, hook=hook)
            case Pause(reason=reason):
                pass
            case _ if policy_of(tool).requires_approval and not is_approved:
                hook, reason = APPROVAL, f"{call.name} requires approval"
            case _:
                allowed.append(replace(each, call=left))
                continue
        throw_away(context, scope)
        pending = [*allowed, replace(each, call=left), *waiting[number + 1 :]]
        pause = replace(
            _pause(scope, hook, pending, results, reason),
            paused_at=call.id,
            let_through=len(allowed),
            hooks=tuple(names_in(hooks)),
            asked=asked,
        )
        emit(pause)
        scope.paused = True
        break
    return allowed


def _missing(context: RunContext, each: Waiting, emit: Emit) -> ToolResult:
    """The result of a call of a tool that is not there."""
    call = each.call
    result = ToolResult(call.id, context.tools.missing(call.name), is_error=True, name=call.name)
    emit(ToolStart(call, each.place))
    emit(ToolStop(result, place=each.place))
    return result


async def _ask_about(
    context: RunContext, scope: TurnScope, each: Waiting, tool: Tool, emit: Emit
) -> tuple[Verdict, str, ToolCall, int]:
    """The verdict of the hooks on a call, the name of the hook that gave it, what the hooks left of the call, and how many were asked."""
    asked = ToolCallContext(
        # The watchers hold the original; what a hook changes in place is a copy.
        call=replace(each.call, input=copy.deepcopy(each.call.input)),
        tool=tool,
        spared=each.spared,
        **context.situation(scope.variables),
    )
    verdict, hook = await context.hooks.ask(BEFORE, asked, emit)
    return verdict, hook, asked.call, len(asked.asked)


async def _look_at(
    context: RunContext,
    scope: TurnScope,
    each: Waiting,
    tool: Tool | None,
    result: ToolResult,
    emit: Emit,
) -> ToolResult:
    """A result as the hooks leave it. It is emitted where the end of the call has not shown it."""
    left = result
    if tool is not None and context.hooks.at(AFTER):
        asked = ToolResultContext(
            call=each.call,
            result=result,
            tool=tool,
            **context.situation(scope.variables),
        )
        verdict, hook = await context.hooks.ask(AFTER, asked, emit)
        if isinstance(verdict, Abort):
            raise RunAbortedError(verdict.reason, hook=hook)
        left = result_of(asked, result)
    if left != result or each.place in _held_back(context):
        emit(ToolOutput(left, each.place))
    return left


def _held_back(context: RunContext) -> set[int]:
    """The places of the calls that have ended without showing their results."""
    calls = context.journal.state.calls
    return {each.place for each in calls if each.phase == "ended" and each.result is None}


__all__ = ["call_tools"]
