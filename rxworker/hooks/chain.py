"""Several hooks of a point as one hook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from rxworker.errors import ConfigurationError
from rxworker.events import HookVerdict
from rxworker.hooks.ask import ask_all
from rxworker.hooks.base import AnyHook, Hook
from rxworker.hooks.context import HookContext
from rxworker.hooks.made import hooks_of
from rxworker.hooks.objects import HookLike
from rxworker.hooks.order import in_order
from rxworker.hooks.settings import HookSettings
from rxworker.hooks.verdicts import Verdict


class _Chain:
    """Asks its hooks one after the other, for whoever asks the chain by hand."""

    def __init__(self, hooks: Sequence[AnyHook], name: str) -> None:
        self.hooks = hooks
        self.__name__ = name

    async def __call__(self, context: HookContext) -> Verdict | None:
        answer = await ask_all(self.hooks, context, _unheard, f"{self.__name__}/")
        return None if answer is None else answer[0]


def chain(*hooks: HookLike, **settings: Unpack[HookSettings]) -> Hook[Any]:
    """A hook that asks several, until one says something other than to go on.

    Each keeps its own settings. Those given here are the chain's: its condition and matcher decide about all of them,
    its time-out is for all together, and its ``on_failure`` says what it means when one has failed whose own says
    ``abort``. Verdicts, messages and errors carry the way to the hook: ``chain/hook``.

    Args:
        hooks: Hooks of one point, or objects with one method named like a point; chains may be among them.
        settings: As of any hook; the name is made of theirs where none is given.

    Raises:
        ConfigurationError: There is none, or they are of several points.

    >>> from rxworker.hooks import before_tool_call
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
    made: Hook[Any] = Hook(_Chain(ordered, name), points.pop(), **settings)
    made.chained = ordered
    return made


def _unheard(event: HookVerdict) -> None:
    del event


__all__ = ["chain"]
