"""The hooks of a worker, the order in which the hooks of a point run, and several hooks as one."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import Any, Unpack

from rxworker.errors import ConfigurationError, RunAbortedError, nearest
from rxworker.hooks.base import AnyHook, Hook, HookSettings
from rxworker.hooks.context import HookContext
from rxworker.hooks.contexts import ToolResultContext
from rxworker.hooks.decorate import HookLike, hooks_of
from rxworker.hooks.operator import ContextOperator
from rxworker.hooks.points import Continue, EndRun, Finish, HookPoint, Verdict, point_of
from rxworker.hooks.runner import Report, ignore, run_hooks
from rxworker.tools.coroutines import one_by_one

logger = logging.getLogger("rxworker.hooks")
ON_ABORT = HookPoint.ON_ABORT
REMEDY = (
    'Give a regular expression for the whole name, a collection of names, or unmatched="warn" for tools that come later'
)


def in_order(hooks: Sequence[AnyHook]) -> tuple[AnyHook, ...]:
    """The hooks of one point in the order in which they run.

    Of those that may come next, since all that have to come before them have come, it is the one with the highest
    priority, and of these the one that was registered first. A name that no hook has is ignored.

    Args:
        hooks: In the order of registration.

    Raises:
        ConfigurationError: The constraints go round in a circle.

    >>> from rxworker.hooks.base import Hook
    >>> def hook(name, **settings):
    ...     return Hook(print, "on_turn_end", name=name, **settings)
    >>> [h.name for h in in_order([hook("a"), hook("b", before="a"), hook("c", priority=1), hook("d", after="x")])]
    ['c', 'b', 'a', 'd']
    """
    places: dict[str, list[int]] = {}
    for place, hook in enumerate(hooks):
        places.setdefault(hook.name, []).append(place)
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for place, hook in enumerate(hooks):
        sorter.add(place, *(other for name in hook.after for other in places.get(name, ())))
        for name in hook.before:
            for other in places.get(name, ()):
                sorter.add(other, place)
    try:
        sorter.prepare()
    except CycleError as error:
        circle: list[int] = error.args[1][1:]
        begin = circle.index(min(circle))
        names = " -> ".join(hooks[p].name for p in [*circle[begin:], *circle[: begin + 1]])
        where = hooks[0].point.value
        raise ConfigurationError(f"the hooks at {where} cannot be put in order: {names}") from error
    ready: list[tuple[float, int]] = []
    ordered: list[AnyHook] = []
    while sorter:
        for place in sorter.get_ready():
            heapq.heappush(ready, (-hooks[place].priority, place))
        _, place = heapq.heappop(ready)
        ordered.append(hooks[place])
        sorter.done(place)
    return tuple(ordered)


def chain(*hooks: HookLike, **settings: Unpack[HookSettings]) -> Hook[Any]:
    """A hook that calls several hooks, until one returns a verdict other than `Continue`.

    Each keeps its own settings. Those given here are the chain's: its condition and matcher decide about all of them,
    its time-out is for all together, and its ``on_failure`` applies when one has failed whose own is
    ``abort``. Verdicts, messages and errors carry the way to the hook: ``chain/hook``.

    Args:
        hooks: Hooks of one point, or objects with one method named like a point; chains may be among them.
        settings: As of any hook; the name is made of theirs where none is given.

    Raises:
        ConfigurationError: There is none, or they are of several points.

    >>> from rxworker import before_tool_call
    >>> @before_tool_call
    ... def permit(context: HookContext) -> None: ...
    >>> @before_tool_call
    ... def count(context: HookContext) -> None: ...
    >>> chain(permit, count)
    Hook('permit+count', before_tool_call)
    """
    links = [link for hook in hooks for link in hooks_of(hook)]
    points = {link.point for link in links}
    if len(points) != 1:
        found = ", ".join(sorted(point.value for point in points)) or "none"
        raise ConfigurationError(f"a chain is of hooks of one point; these are of: {found}")
    ordered = in_order(links)
    name = settings.get("name") or "+".join(link.name for link in ordered)
    settings["name"] = name

    async def call_all(context: HookContext) -> Verdict | None:  # if the chain is called by hand
        return await run_hooks(ordered, context, ignore, f"{name}/")

    made: Hook[Any] = Hook(call_all, points.pop(), **settings)
    made.chained = ordered
    return made


async def _decide(hooks: Hooks, point: HookPoint, report: Report, context: HookContext) -> HookContext | Verdict:
    """The context, if the hooks of the point agree, or else their verdict."""
    if point is ON_ABORT:
        return await _notify(hooks, report, context)
    try:
        verdict = await run_hooks(hooks.at(point), context, report)
    except EndRun as ended:
        raise RunAbortedError(ended.reason, hook=ended.hook) from None
    if verdict is not None and not isinstance(verdict, Continue):
        return verdict
    if isinstance(context, ToolResultContext) and context.finished_by:
        context.enter(context.finished_by)
        return Finish(final=True)
    return context


async def _notify(hooks: Hooks, report: Report, context: HookContext) -> HookContext:
    """Run each hook of a run that is ending, and raise an interrupt or a cancellation of one at the end."""
    raised: BaseException | None = None
    for number, hook in enumerate(hooks.at(ON_ABORT)):
        try:
            # Each has a context of its own: one that is abandoned after its time-out may still use it.
            await run_hooks((hook,), copy(context) if number else context, report)
        except (KeyboardInterrupt, asyncio.CancelledError) as error:
            raised = error
    if raised is not None:
        raise raised
    return context


class Hooks:
    """The hooks of a worker.

    Hooks may be added and removed during a run: a chain that is being called continues unchanged.

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
        self.has_matchers = False
        self._checked: tuple[str, ...] | None = None  # the tools that all matchers match
        self._warned: set[str] = set()  # names of hooks
        if hooks:
            self.add(*hooks)

    def __iter__(self) -> Iterator[AnyHook]:
        return iter(self._hooks)

    def __len__(self) -> int:
        return len(self._hooks)

    def add(self, *hooks: HookLike) -> None:
        """Register hooks, after the others: all of them, or with an error none.

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
        """The hooks of a point, in the order in which they run."""
        known = point if isinstance(point, HookPoint) else point_of(point)
        # Most have none, and a member of an enumeration is dear to look up.
        return self._orders.get(known, ()) if self._orders else ()

    def check_matchers(self, tools: Iterable[str]) -> None:
        """Check that each matcher matches a tool: a hook with a misspelt one never runs.

        An alternative that matches none, and a matcher of a hook with ``unmatched="warn"``, is logged once, in
        ``rxworker.hooks``.

        Args:
            tools: The names of the tools that may be called.

        Raises:
            ConfigurationError: A matcher matches none of the tools.

        >>> from rxworker import before_tool_call
        >>> @before_tool_call(matcher="delete")
        ... def never(context: HookContext) -> None: ...
        >>> try:
        ...     Hooks([never]).check_matchers(["delete_file"])
        ... except ConfigurationError as error:
        ...     print(str(error).split(";")[0])
        hook 'never' would never run: its matcher 'delete' matches none of the tools (delete_file)
        """
        names = tuple(tools)
        if names != self._checked:
            for hook in self._hooks:
                self._check(hook, names, names)
            self._checked = names

    def _check(self, hook: AnyHook, reached: Sequence[str], tools: Sequence[str]) -> None:
        """Check the matchers of a hook, and of the hooks of a chain, for the tools for which it is called."""
        left = [tool for tool in reached if hook.matches(tool)]
        missing = hook.unmatched_in(reached)
        if missing:
            what, near = " and ".join(map(repr, missing)), nearest(missing[0], tools)
            if not left and hook.unmatched == "error":
                text = f"hook {hook.name!r} would never run: its matcher {what} matches none of the tools"
                raise ConfigurationError(f"{text} ({', '.join(tools) or 'none'}){near or '.'} {REMEDY}")
            if tools and hook.name not in self._warned:
                self._warned.add(hook.name)
                logger.warning(
                    "the matcher %s of hook %r matches none of the tools%s",
                    what,
                    hook.name,
                    near,
                    extra={"hook": hook.name},
                )
        for link in hook.chained:
            self._check(link, left, tools)

    def operator(self, point: HookPoint | str, report: Report = ignore) -> ContextOperator[HookContext]:
        """The hooks of a point as one operator over contexts, which are taken one by one, in order.

            --c-----d--|     the contexts
            [ hooks.operator(point) ]
            ----c----V-|     c: all hooks agreed; V: the verdict of the first that did not

        So a run calls its hooks. The name of the hook that gave the verdict is ``context.hook``. At ``on_abort`` every
        hook runs, also when another one fails. The convention is that of `from_operator`, which makes a hook of it
        again.

        Args:
            point: Which point.
            report: Receives every verdict other than `Continue`, and every failure.

        Raises:
            ConfigurationError: There is no such point.

        An error of the stream is a `HookError`, if a hook failed whose failure ends the run, or returned a verdict that
        its point does not accept, or a `RunAbortedError`, if a hook raised `EndRun`.

        Example:
            >>> import asyncio, reactivex
            >>> from rxworker import before_tool_call
            >>> from rxworker.hooks import Skip
            >>> from rxworker.testing import call_context
            >>> @before_tool_call(matcher="delete")
            ... def never(context: HookContext) -> Skip:
            ...     return Skip("never")
            >>> async def ask(tool: str) -> object:
            ...     return await reactivex.just(call_context(tool)).pipe(Hooks([never]).operator("before_tool_call"))
            >>> asyncio.run(ask("delete"))
            Skip(reason='never')
        """
        at = point if isinstance(point, HookPoint) else point_of(point)
        return one_by_one(partial(_decide, self, at, report))

    def _take(self, hooks: tuple[AnyHook, ...]) -> None:
        points = dict.fromkeys(hook.point for hook in hooks)
        orders = {point: in_order([hook for hook in hooks if hook.point is point]) for point in points}
        self._hooks, self._orders = hooks, orders
        self.has_matchers = any(map(_has_matcher, hooks))
        self._checked = None


def _has_matcher(hook: AnyHook) -> bool:
    return hook.matcher is not None or any(map(_has_matcher, hook.chained))
