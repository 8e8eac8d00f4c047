"""Last stage of a turn: is the model done?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rxworker.errors import HookError
from rxworker.events import (
    Event,
    HookVerdict,
    MessageAdd,
    RunPause,
    RunStop,
    TurnStop,
)
from rxworker.hooks import ContinueWithMessages, Finish, HookPoint, Pause, TurnEndContext
from rxworker.hooks.ask import names_in
from rxworker.hooks.verdicts import Verdict
from rxworker.messages import StopKind, StopReason
from rxworker.worker.context import RunContext, TurnScope
from rxworker.worker.guard import after_answer
from rxworker.worker.output import Output
from rxworker.worker.pausing import BY_CALLER

Emit = Callable[[Event], None]

# Here, since a member of an enumeration is dear to look up.
POINT, PAUSE_TURN = HookPoint.ON_TURN_END, StopKind.PAUSE_TURN
REFUSALS = (StopKind.REFUSAL, StopKind.CONTENT_FILTER)


async def decide(context: RunContext, scope: TurnScope, emit: Emit) -> None:
    """Go on after tools, after a provider's own pause, and with what was sent to the run; else ask ``on_turn_end``, and stop the run.

    Raises:
        LimitExceededError: Hooks have sent the answer back too often.
        HookError: A hook failed.
    """
    if scope.paused:
        return
    if scope.called:
        emit(TurnStop())
        if context.pausing.reason is not None:
            context.pausing.take(emit, RunPause(BY_CALLER))
        return
    reason = context.journal.state.stop_reason
    if reason is not None and reason.kind is PAUSE_TURN:
        # The provider wants its own words back to go on with.
        emit(TurnStop())
        return
    if context.inbox.waiting:
        context.inbox.deliver(emit)
        emit(TurnStop())
        return
    complaint = None if context.output is None else _complaint(context, context.output, reason)
    if complaint is not None:
        emit(HookVerdict("output", "on_turn_end", "ContinueWithMessages", complaint))
        _send_back(context, ContinueWithMessages.user(complaint), "output", emit)
        emit(TurnStop())
        return
    verdict, hook, asked = Finish(), "", 0
    hooks = context.hooks.at(POINT)
    if hooks:
        verdict, hook, asked = await _ask(context, scope, emit)
    match verdict:
        case ContinueWithMessages():
            _send_back(context, verdict, hook, emit)
            emit(TurnStop())
        case Pause(reason=reason):
            emit(TurnStop())
            emit(RunPause(hook, reason=reason, hooks=tuple(names_in(hooks)), asked=asked))
        case _:
            # The hooks may have taken their time, and something may have been sent meanwhile.
            if context.inbox.waiting:
                context.inbox.deliver(emit)
                emit(TurnStop())
                return
            emit(TurnStop())
            if context.pausing.reason is None:
                emit(RunStop())
            else:
                names = tuple(names_in(hooks))
                context.pausing.take(emit, RunPause(BY_CALLER, hooks=names, asked=len(names)))


async def _ask(context: RunContext, scope: TurnScope, emit: Emit) -> tuple[Verdict, str, int]:
    """The verdict of the hooks, the name of the hook that gave it, and how many of them it took."""
    asked = TurnEndContext(
        since=context.since,
        called=tuple(context.called),
        spared=scope.spared,
        **context.situation(scope.variables),
    )
    verdict, hook = await context.hooks.ask(POINT, asked, emit)
    return verdict, hook, len(asked.asked)


def _complaint(context: RunContext, output: Output[Any], reason: StopReason | None) -> str | None:
    """What is wrong with the answer, where it should be a value. A refusal is an answer of its own."""
    if reason is not None and reason.kind in REFUSALS:
        return None
    last = context.journal.state.conversation.last
    return output.complaint(last.text if last is not None else "")


def _send_back(context: RunContext, verdict: ContinueWithMessages, hook: str, emit: Emit) -> None:
    if not verdict.messages:
        text = f"hook {hook!r} answered ContinueWithMessages without messages"
        raise HookError(text, hook=hook, point=POINT.value)
    after_answer(context, emit)
    emit(MessageAdd(tuple(verdict.messages), hook))


__all__ = ["decide"]
