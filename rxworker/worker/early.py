"""Tools that only look start as soon as their call is known, while the model still streams.

Theory of operation. When the block of a call closes and no ``before_tool_call`` hook is there to be asked about it, a pure
tool starts. `call_tools` asks for its result when the response has come to its end. What nobody asks for is thrown away:
when the response fails, is cut or taken back, and when the run pauses. The start and the end of such a call are emitted like
those of any other. Where the response is requested again they are taken back with it, by the `AttemptRetract`: a pure tool has no
effects, so the calls of the next response begin anew. Where no tool may start early nothing stands in the way of the events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from msgspec.structs import replace
from reactivex import Observable, abc

from rxworker.events import BlockStop, BlockType, Event, ResponseStatus, Status, ToolStop
from rxworker.events.deltas import Deltas, Parts
from rxworker.events.turn import DISCARDED_EARLY
from rxworker.hooks import HookPoint
from rxworker.messages import ToolCall, ToolResult
from rxworker.operators.disposables import Both, Call
from rxworker.operators.stage import Sink, Stage, connect, many
from rxworker.state import content_of, step_block
from rxworker.tools import EarlyCalls, Surroundings
from rxworker.worker.context import CALLING, RunContext, TurnScope


def start_early(
    context: RunContext, scope: TurnScope, source: Observable[Event]
) -> Observable[Event]:
    """Pass the response on, and start pure tools as their blocks close. To be asked where there is such a tool.

    --s--d--e--m--|      e the stop of a block of a call of a pure tool
    [ start_early ]
    --s--d--e--m--|      with the start of the tool behind e, among the records
    """

    def subscribe(
        observer: abc.ObserverBase[Event], scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        is_over = False  # also when it was left: what has come together still comes by

        def on_next(event: Event) -> None:
            call = _whole_call(context, event) if isinstance(event, BlockStop) else None
            if isinstance(event, Status) and event.status is ResponseStatus.STARTED:
                throw_away(context, scope)  # what was said before is taken back
            observer.on_next(event)
            if call is not None and not is_over and _may_start(context, scope, call[0]):
                token = CALLING.set(context)
                _early_of(context, scope).start(*call)
                CALLING.reset(token)

        def on_error(error: Exception) -> None:
            nonlocal is_over
            is_over = True
            throw_away(context, scope)
            observer.on_error(error)

        def on_completed() -> None:
            nonlocal is_over
            is_over = True
            observer.on_completed()

        def leave() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                throw_away(context, scope)

        def on_many(parts: Parts[Event]) -> None:
            for part in parts:
                if isinstance(part, Deltas):
                    push_many((part,))
                else:
                    on_next(part)

        push_many = many(observer)
        sink = Sink(on_next, on_error, on_completed, on_many)
        return Both(connect(source, sink, scheduler), Call(leave))

    return Stage(subscribe)


def throw_away(
    context: RunContext, scope: TurnScope, keep: Mapping[int, ToolCall] | None = None
) -> None:
    """Cancel the early calls that nobody will ask for, and tell the watchers of their end.

    Args:
        context: The run.
        scope: The turn.
        keep: The calls that will be asked for, as they will be run, by their places.
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


def hold_back(context: RunContext, emit: Callable[[Event], None]) -> Callable[[Event], None]:
    """Emit the ends of calls without their results where ``after_tool_call`` hooks may change these: nothing may show them before."""

    def emit_checked(event: Event) -> None:
        if isinstance(event, ToolStop) and event.result is not None:
            hooks = context.hooks.at(HookPoint.AFTER_TOOL_CALL)
            if any(hook.matches(event.result.name) for hook in hooks):
                event = replace(event, result=None)
        emit(event)

    return emit_checked


def _whole_call(context: RunContext, event: BlockStop) -> tuple[ToolCall, int] | None:
    """The call whose block this event closes, where it is one of a tool, and its index among the calls so far."""
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
    """Whether nobody has a say in it, and the run may make another call."""
    hooks = context.hooks.at(HookPoint.BEFORE_TOOL_CALL)
    if any(hook.matches(call.name) for hook in hooks):
        return False
    most = context.limits.max_tool_calls
    if most is None:
        return True
    waiting = 0 if scope.early is None else scope.early.accepted - scope.early.begun
    return context.journal.state.all_tool_calls + waiting < most


def _early_of(context: RunContext, scope: TurnScope) -> EarlyCalls:
    if scope.early is None:
        journal = context.journal
        scope.key = f"{journal.run}/{journal.state.turns}"
        emit = hold_back(context, journal.emit)
        around = Surroundings(emit, journal.relay, scope.key, scope.variables)
        scope.early = EarlyCalls(context.tools, around, limit=context.parallel)
    return scope.early


__all__ = ["hold_back", "start_early", "throw_away"]
