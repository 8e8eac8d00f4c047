"""Where the limits of a run are looked at: before a request, before tools run, and after them."""

from __future__ import annotations

from collections.abc import Callable

from rxworker.errors import LimitExceededError
from rxworker.events import Event, LimitReached
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
    if limits.max_tokens is not None and state.usage.total_tokens >= limits.max_tokens:
        raise _reached("max_tokens", limits.max_tokens, emit)
    if limits.max_cost is not None and limits.prices is not None:
        cost = limits.prices.cost(state.usage)
        if cost > 0 and cost >= limits.max_cost:
            raise _reached("max_cost", limits.max_cost, emit)
    budget = context.budget
    if budget is not None:
        budget.report(context.journal.run, state.usage)
        found = await budget.admit()
        if found is not None:
            raise _reached(*found, emit)


def before_calls(context: RunContext, more: int, emit: Emit) -> None:
    """Whether so many more tools may run.

    Raises:
        LimitExceededError: They may not.
    """
    most = context.limits.max_tool_calls
    if most is not None and context.journal.state.tool_calls + more > most:
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


__all__ = ["after_answer", "after_calls", "before_calls", "before_request"]
