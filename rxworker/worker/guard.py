"""Where the limits of a run are looked at: before a request, before tools run, and after them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rxworker.errors import LimitExceededError
from rxworker.events import Event, LimitReached
from rxworker.worker.budget import Budget
from rxworker.worker.context import RunContext

Emit = Callable[[Event], None]


async def before_request(context: RunContext, emit: Emit) -> None:
    """Whether another request may go out. Waits while the shared budget is held.

    Raises:
        LimitExceededError: The run, or the budget that it shares, has had all it may.
    """
    limits, state = context.limits, context.journal.state
    if limits.max_turns is not None and state.turns >= limits.max_turns:
        raise _reached("max_turns", limits.max_turns, emit)
    for run in (context, *context.around):
        _within(run, emit)
    if limits.max_depth is not None and len(context.around) > limits.max_depth:
        raise _reached("max_depth", limits.max_depth, emit)
    for budget in report(context):
        found = await budget.admit()
        if found is not None:
            raise _reached(*found, emit)


def report(context: RunContext) -> Iterable[Budget]:
    """Tell the budgets, its own and those of the runs around it, what the run itself has taken. Which they are."""
    if context.budget is None and not context.around:  # as most
        return ()
    # Each budget once: a run and the run around it may share one.
    budgets = {id(c.budget): c.budget for c in context.line if c.budget is not None}.values()
    for budget in budgets:
        budget.report(context.journal.run, context.journal.state.own_usage)
    return budgets


def _within(context: RunContext, emit: Emit) -> None:
    """Whether a run, with the runs inside it, may take more tokens."""
    limits, usage = context.limits, context.journal.state.usage
    if limits.max_tokens is not None and usage.total_tokens >= limits.max_tokens:
        raise _reached("max_tokens", limits.max_tokens, emit)
    if limits.max_cost is not None and limits.prices is not None:
        cost = limits.prices.cost(usage)
        if cost > 0 and cost >= limits.max_cost:
            raise _reached("max_cost", limits.max_cost, emit)


def before_calls(context: RunContext, more: int, emit: Emit) -> None:
    """Whether so many more tools may run.

    Raises:
        LimitExceededError: They may not.
    """
    for run in (context, *context.around):
        most = run.limits.max_tool_calls
        if most is not None and run.journal.state.all_tool_calls + more > most:
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


__all__ = ["after_answer", "after_calls", "before_calls", "before_request", "report"]
