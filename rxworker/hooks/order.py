"""The order in which the hooks of a point are asked."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from rxworker.errors import ConfigurationError
from rxworker.hooks.base import AnyHook


def in_order(hooks: Sequence[AnyHook]) -> tuple[AnyHook, ...]:
    """The hooks of one point as they are asked.

    Of those that may come next, since all that have to come before them have come, it is the one with the highest
    priority, and of these the one that was registered first. A name that nobody has constrains nothing.

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
    followers, waits = _edges(hooks)
    ready = [(-hook.priority, place) for place, hook in enumerate(hooks) if not waits[place]]
    heapq.heapify(ready)
    ordered: list[AnyHook] = []
    while ready:
        _, place = heapq.heappop(ready)
        ordered.append(hooks[place])
        for follower in followers[place]:
            waits[follower] -= 1
            if not waits[follower]:
                heapq.heappush(ready, (-hooks[follower].priority, follower))
    if len(ordered) < len(hooks):
        stuck = {place for place, count in enumerate(waits) if count}
        names = " -> ".join(hooks[place].name for place in _circle(followers, stuck))
        where = hooks[0].point.value
        raise ConfigurationError(f"the hooks at {where} cannot be put in order: {names}")
    return tuple(ordered)


def _edges(hooks: Sequence[AnyHook]) -> tuple[list[set[int]], list[int]]:
    """For each hook those that have to come after it, and how many have to come before it."""
    places: dict[str, list[int]] = {}
    for place, hook in enumerate(hooks):
        places.setdefault(hook.name, []).append(place)
    followers: list[set[int]] = [set() for _ in hooks]
    for place, hook in enumerate(hooks):
        for name in hook.before:
            followers[place].update(places.get(name, ()))
        for name in hook.after:
            for other in places.get(name, ()):
                followers[other].add(place)
    waits = [0] * len(hooks)
    for behind in followers:
        for place in behind:
            waits[place] += 1
    return followers, waits


def _circle(followers: Sequence[set[int]], stuck: set[int]) -> list[int]:
    """One circle, its first hook once more at its end.

    Every stuck hook waits for a stuck one. To go from each to one that it waits for is to come round some time.
    """
    waits_for: dict[int, int] = {}
    for place in sorted(stuck):
        for follower in followers[place] & stuck:
            waits_for[follower] = place
    trail: list[int] = []
    seen: dict[int, int] = {}
    place = min(stuck)
    while place not in seen:
        seen[place] = len(trail)
        trail.append(place)
        place = waits_for[place]
    circle = trail[seen[place] :]
    circle.reverse()
    begin = circle.index(min(circle))
    return [*circle[begin:], *circle[: begin + 1]]


__all__ = ["in_order"]
