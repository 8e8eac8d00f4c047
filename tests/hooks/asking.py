"""Ask the hooks of a point about one context, as a run does."""

from __future__ import annotations

from collections.abc import Callable

from rxworker.events import HookVerdict
from rxworker.hooks import Continue, Finish, HookContext, HookPoint, Hooks, Verdict
from rxworker.tools.coroutines import pass_through


async def verdict_of(
    hooks: Hooks, point: HookPoint | None, context: HookContext, report: Callable[[HookVerdict], None]
) -> tuple[Verdict, str]:
    """The verdict, and the name of the hook that gave it, if they have not all agreed."""
    assert point is not None
    answer = await pass_through(hooks.operator(point, report), context)
    if isinstance(answer, HookContext):
        return (Finish() if point is HookPoint.ON_TURN_END else Continue()), ""
    return answer, context.hook
