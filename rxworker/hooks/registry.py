"""The hooks of a worker, in the order in which they are asked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias, cast

from rxworker.errors import ConfigurationError, HookError
from rxworker.events import HookVerdict
from rxworker.hooks.contexts import HookContext, ToolCallContext, ToolResultContext
from rxworker.hooks.hook import VERDICTS, Hook, HookPoint
from rxworker.hooks.verdicts import Continue, Finish, Verdict

# A hook of any point: which context it takes is known by its point.
AnyHook: TypeAlias = Hook[Any]
Report = Callable[[HookVerdict], None]


class Hooks:
    """An ordered list of hooks. Those of a point are asked in the order of registration.

    Args:
        hooks: Hooks made by the point decorators, or objects with methods named like points.

    Raises:
        ConfigurationError: Something is neither.

    >>> class Audit:
    ...     def on_abort(self, context: HookContext) -> None: ...
    >>> Hooks([Audit()]).list()
    [('Audit', 'on_abort')]
    """

    def __init__(self, hooks: Iterable[object] = ()) -> None:
        self._hooks: tuple[AnyHook, ...] = ()
        for hook in hooks:
            self.add(hook)

    def __iter__(self) -> Iterator[AnyHook]:
        return iter(self._hooks)

    def add(self, hook: object) -> None:
        """Register one more hook, behind the others.

        Args:
            hook: A `Hook`, or an object with methods named like points; what it does not implement does nothing.
        """
        self._hooks += tuple(_hooks_of(hook))

    def list(self) -> list[tuple[str, str]]:
        """The name and point of each hook, in order."""
        return [(hook.name, hook.point.value) for hook in self._hooks]

    def remove(self, name: str) -> bool:
        """Take out the hooks of that name; whether there was one. A chain that is being asked goes on as it is."""
        kept = tuple(hook for hook in self._hooks if hook.name != name)
        found = len(kept) < len(self._hooks)
        self._hooks = kept
        return found

    def clear(self, point: HookPoint | str | None = None) -> None:
        """Take out all hooks, or those of a point."""
        at = None if point is None else HookPoint(point)
        self._hooks = tuple(h for h in self._hooks if at is not None and h.point is not at)

    def at(self, point: HookPoint) -> Sequence[AnyHook]:
        """The hooks of a point, in order."""
        return [hook for hook in self._hooks if hook.point is point]

    async def ask(
        self, point: HookPoint, context: HookContext, report: Report
    ) -> tuple[Verdict, str]:
        """Ask the hooks of a point one after the other, until one says something other than to go on.

        Args:
            point: Which point.
            context: What each hook is given; it sees what the hooks before it changed.
            report: Hears of a verdict that is not to go on.

        Returns:
            The last verdict, and the name of the hook that gave it.

        Raises:
            HookError: A hook raised, or answered with what its point does not have.
        """
        for hook in self.at(point):
            if isinstance(context, ToolCallContext) and not hook.matches(context.call.name):
                continue
            if isinstance(context, ToolResultContext) and not hook.matches(context.call.name):
                continue
            verdict = await self.ask_one(hook, context)
            if not isinstance(verdict, Continue | Finish):
                report(_verdict_event(hook, verdict, context))
                return verdict, hook.name
        return (Finish() if point is HookPoint.ON_TURN_END else Continue()), ""

    async def ask_one(self, hook: AnyHook, context: HookContext) -> Verdict:
        """Ask one hook.

        Raises:
            HookError: It raised, or answered with what its point does not have.
        """
        context.hook = hook.name
        return await _ask(hook, context)


async def _ask(hook: AnyHook, context: HookContext) -> Verdict:
    try:
        answer: object = await hook(context)
    except Exception as error:
        message = (
            f"hook {hook.name!r} failed at {hook.point.value}: {type(error).__name__}: {error}"
        )
        raise HookError(message, hook=hook.name, point=hook.point.value) from error
    if answer is None:
        return Continue()
    if not isinstance(answer, VERDICTS[hook.point]):
        allowed = ", ".join(verdict.__name__ for verdict in VERDICTS[hook.point])
        message = (
            f"hook {hook.name!r} answered {answer!r} at {hook.point.value}, where it may answer "
            f"{allowed + ' or ' if allowed else ''}None"
        )
        raise HookError(message, hook=hook.name, point=hook.point.value)
    return answer


def _verdict_event(hook: AnyHook, verdict: Verdict, context: HookContext) -> HookVerdict:
    call_id = context.call.id if isinstance(context, ToolCallContext | ToolResultContext) else None
    reason: str = getattr(verdict, "reason", "")
    return HookVerdict(hook.name, hook.point.value, type(verdict).__name__, reason, call_id)


def _hooks_of(hook: object) -> Iterable[AnyHook]:
    if isinstance(hook, Hook):
        return (cast("AnyHook", hook),)
    if inspect.isclass(hook):
        message = f"{hook.__name__} is a class: register an object of it, {hook.__name__}()"
        raise ConfigurationError(message)
    methods = [(point, getattr(hook, point.value, None)) for point in HookPoint]
    name: str = getattr(hook, "name", type(hook).__name__)
    matcher: str | None = getattr(hook, "matcher", None)
    made = [
        Hook[Any](method, point, name=name, matcher=matcher)
        for point, method in methods
        if method is not None
    ]
    if not made:
        points = ", ".join(point.value for point in HookPoint)
        message = (
            f"{hook!r} is no hook: decorate a function with its point, for example @before_tool_call, or "
            f"give an object with one of the methods {points}"
        )
        raise ConfigurationError(message)
    return made


__all__ = ["Hooks"]
