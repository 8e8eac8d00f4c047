"""Where the limits of a run are looked at: before a request, before tools run, and after them."""

from __future__ import annotations

from collections.abc import Callable

from rxworker.errors import LimitExceededError
from rxworker.events import Event, LimitReached
from rxworker.state import RunState
from rxworker.worker.context import RunContext
from rxworker.worker.limits import Limits

Emit = Callable[[Event], None]


def before_request(context: RunContext, state: RunState, emit: Emit) -> None:
    """Whether another request may go out, as far as the limits say; `admit` asks the budgets.

    Raises:
        LimitExceededError: The run has had all it may.
    """
    limits = context.limits
    if limits.max_turns is not None and state.turns >= limits.max_turns:
        raise _reached("max_turns", limits.max_turns, emit)
    _within(limits, state, emit)
    for run in context.around:
        _within(run.limits, run.journal.state, emit)
    if limits.max_depth is not None and len(context.around) > limits.max_depth:
        raise _reached("max_depth", limits.max_depth, emit)


async def admit(context: RunContext, emit: Emit) -> None:
    """Whether the budgets let another request go out. Waits while one is held.

    Raises:
        LimitExceededError: One is used up.
    """
    report(context)
    for budget in context.budgets:
        found = await budget.admit()
        if found is not None:
            raise _reached(*found, emit)


def report(context: RunContext) -> None:
    """Tell the budgets, its own and those of the runs around it, what the run itself has taken."""
    for budget in context.budgets:
        budget.report(context.journal.run, context.journal.state.own_usage)


def _within(limits: Limits, state: RunState, emit: Emit) -> None:
    """Whether a run that has taken so much, with the runs inside it, may take more."""
    if limits.max_tokens is not None and state.usage.total_tokens >= limits.max_tokens:
        raise _reached("max_tokens", limits.max_tokens, emit)
    if limits.max_cost is not None and limits.prices is not None:
        cost = limits.prices.cost(state.usage)
        if cost > 0 and cost >= limits.max_cost:
            raise _reached("max_cost", limits.max_cost, emit)


def before_calls(context: RunContext, state: RunState, more: int, emit: Emit) -> None:
    """Whether so many more tools may run.

    Raises:
        LimitExceededError: They may not.
    """
    _may_call(context.limits, state, more, emit)
    for run in context.around:
        _may_call(run.limits, run.journal.state, more, emit)


def _may_call(limits: Limits, state: RunState, more: int, emit: Emit) -> None:
    most = limits.max_tool_calls
    if most is not None and state.all_tool_calls + more > most:
        raise _reached("max_tool_calls", most, emit)


def after_calls(context: RunContext, emit: Emit) -> None:
    """Whether the run gets anywhere.

    Raises:
        LimitExceededError: The same calls have come to the same results too often in a row.
    """
    most = context.limits.max_repeats
    if most is not None and context.journal.state.repeats >= most:
        raise _reached("max_repeats", most, emit)


def after_answer(context: RunContext, emit: Emit) -> None:
    """Whether hooks may send the answer back once more; the verdict of now is already among the records.

    Raises:
        LimitExceededError: They have done so too often.
    """
    most = context.limits.max_continuations
    if most is not None and context.journal.state.continuations > most:
        raise _reached("max_continuations", most, emit)


def _reached(limit: str, value: float, emit: Emit) -> LimitExceededError:
    emit(LimitReached(limit, value))
    return LimitExceededError(limit, value)


__all__ = ["admit", "after_answer", "after_calls", "before_calls", "before_request", "report"]
