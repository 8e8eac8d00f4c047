"""The hooks of a worker, in the order in which they are asked."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from rxworker.errors import HookError, RunAbortedError
from rxworker.events import HookVerdict
from rxworker.hooks.ask import Answer, Report, ask_all
from rxworker.hooks.base import AnyHook
from rxworker.hooks.context import HookContext
from rxworker.hooks.made import hooks_of
from rxworker.hooks.objects import HookLike
from rxworker.hooks.order import in_order
from rxworker.hooks.points import HookPoint, point_of
from rxworker.hooks.verdicts import Continue, EndRun, Finish


class Hooks:
    """The hooks of a worker. They may come and go while a run is on: a chain that is being asked goes on as it was.

    Two hooks may have one name: constraints and ``remove`` then mean both.

    Args:
        hooks: Hooks made by the point decorators, or objects with methods named like points.

    Raises:
        ConfigurationError: Something is neither, or their order goes round in a circle.

    >>> class Audit:
    ...     def on_abort(self, context: HookContext) -> None: ...
    >>> Hooks([Audit()]).list()
    [('Audit', 'on_abort')]
    """

    def __init__(self, hooks: Iterable[HookLike] = ()) -> None:
        self._hooks: tuple[AnyHook, ...] = ()
        self._orders: dict[HookPoint, tuple[AnyHook, ...]] = {}
        if hooks:
            self.add(*hooks)

    def __iter__(self) -> Iterator[AnyHook]:
        return iter(self._hooks)

    def __len__(self) -> int:
        return len(self._hooks)

    def add(self, *hooks: HookLike) -> None:
        """Register hooks, behind the others: all of them, or with an error none.

        Args:
            hooks: `Hook` s, or objects with methods named like points; what they do not implement does nothing.

        Raises:
            ConfigurationError: Something is neither, or their order goes round in a circle.
        """
        self._take((*self._hooks, *(made for hook in hooks for made in hooks_of(hook))))

    def list(self) -> list[tuple[str, str]]:
        """The name and point of each hook, in the order of registration."""
        return [(hook.name, hook.point.value) for hook in self._hooks]

    def remove(self, name: str) -> bool:
        """Take out the hooks of that name; whether there was one."""
        before = len(self._hooks)
        self._take(tuple(hook for hook in self._hooks if hook.name != name))
        return len(self._hooks) < before

    def remove_at(self, point: HookPoint | str) -> int:
        """Take out the hooks of a point; how many there were.

        Raises:
            ConfigurationError: There is no such point.
        """
        at, before = point_of(point), len(self._hooks)
        self._take(tuple(hook for hook in self._hooks if hook.point is not at))
        return before - len(self._hooks)

    def clear(self, point: HookPoint | str | None = None) -> None:
        """Take out all hooks, or those of a point.

        Raises:
            ConfigurationError: There is no such point.
        """
        if point is not None:
            self.remove_at(point)
        else:
            self._take(())

    def at(self, point: HookPoint | str) -> Sequence[AnyHook]:
        """The hooks of a point, in the order in which they are asked."""
        known = point if isinstance(point, HookPoint) else point_of(point)
        # Most have none, and a member of an enumeration is dear to look up.
        return self._orders.get(known, ()) if self._orders else ()

    async def ask(self, point: HookPoint, context: HookContext, report: Report) -> Answer:
        """Ask the hooks of a point one after the other, until one says something other than to go on.

        Args:
            point: Which point.
            context: What each hook is given; it sees what the hooks before it changed.
            report: Hears of every verdict that is not to go on, and of every failure.

        Returns:
            The last verdict, and the name of the hook that gave it.

        Raises:
            HookError: A hook failed whose failure ends the run, or answered with what its point does not have.
        """
        try:
            answer = await ask_all(self.at(point), context, report)
        except EndRun as ended:
            raise RunAbortedError(ended.reason, hook=ended.hook) from None
        if answer is not None:
            return answer
        return (Finish() if point is HookPoint.ON_TURN_END else Continue()), ""

    async def ask_one(self, hook: AnyHook, context: HookContext) -> None:
        """Ask one hook by itself, whatever it answers.

        Raises:
            HookError: It failed, also where that would end nothing.
        """
        failures: deque[HookVerdict] = deque()

        def hear(event: HookVerdict) -> None:
            if event.verdict == "Failed":
                failures.append(event)

        await ask_all((hook,), context, hear)
        for failure in failures:
            raise HookError(failure.reason, hook=failure.hook, point=failure.point)

    def _take(self, hooks: tuple[AnyHook, ...]) -> None:
        points = dict.fromkeys(hook.point for hook in hooks)
        orders = {
            point: in_order([hook for hook in hooks if hook.point is point]) for point in points
        }
        self._hooks, self._orders = hooks, orders


__all__ = ["Hooks"]
