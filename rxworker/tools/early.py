"""Calls that start before the response that makes them has ended.

A tool without effects may start as soon as its call is complete. Its events and its result are kept until `run_calls` needs them. It
may never need them: the response may fail, or a hook may change the arguments. Then the call is cancelled, and its events are dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec.structs import replace

from rxworker.events import Record, ToolStart, ToolStop
from rxworker.messages import ToolCall
from rxworker.tools.base import policy_of
from rxworker.tools.cancellation import stop_all
from rxworker.tools.invocation import CallScope, ToolEvent
from rxworker.tools.limiter import Gate
from rxworker.tools.run import FinishedCall, run_at
from rxworker.tools.toolbox import Toolbox


class EarlyCalls:
    """The calls of one response that start while it is still being received. An argument of `run_calls`.

    Args:
        toolbox: The tools.
        call_scope: The context of these calls.
        limit: How many calls may run at once, including those that start later.

    Attributes:
        gate: Limits how many calls of the response run at once.
        accepted: The number of calls that may start.
        begun: The number of calls that have started.

    Raises:
        ConfigurationError: The limit is below 1.

    >>> from rxworker.tools import tool
    >>> @tool(effect="pure")
    ... async def look(where: str) -> str:
    ...     return f"nothing {where}"
    >>> async def main() -> str:
    ...     early = EarlyCalls(Toolbox([look]))
    ...     early.start(ToolCall("1", "look", {"where": "here"}))
    ...     task = early.take(ToolCall("1", "look", {"where": "here"}))
    ...     return (await task).result.text
    >>> asyncio.run(main())
    'nothing here'
    """

    def __init__(
        self, toolbox: Toolbox, call_scope: CallScope | None = None, *, limit: int = 8
    ) -> None:
        self.gate = Gate(limit)
        self.accepted = 0
        self.begun = 0
        self._toolbox = toolbox
        self._call_scope = call_scope or CallScope()
        self._calls: dict[int, _Early] = {}
        self._leaving: list[asyncio.Task[FinishedCall]] = []
        self._is_held = False

    def start(self, call: ToolCall, place: int = 0) -> bool:
        """Start a call, if its tool has no effects and needs no approval, and no call that runs alone came before it.

        Args:
            call: The call.
            place: Its index among the calls of the response.

        Returns:
            Whether it starts.
        """
        tool = self._toolbox.get(call.name)
        if tool is None or place in self._calls:
            return False
        policy = policy_of(tool)
        self._is_held = self._is_held or policy.barrier
        if self._is_held or not policy.starts_early:
            return False
        self._calls[place] = _Early(self, call, place)
        self.accepted += 1
        return True

    def take(self, call: ToolCall, place: int = 0) -> asyncio.Task[FinishedCall] | None:
        """Hand a call over, once, if this very one has started: the same place, id, tool and arguments."""
        early = self._calls.get(place)
        if early is None or not early.is_for(call):
            return None
        del self._calls[place]
        return early.task

    def cancel(self, keep: Mapping[int, ToolCall] | None = None) -> list[tuple[ToolCall, int]]:
        """Cancel the calls that were not handed over. They emit nothing any more.

        Args:
            keep: The calls that are still wanted, by their places. One that is not the same any more is cancelled.

        Returns:
            The cancelled calls that were running, with their places.
        """
        kept = keep or {}
        gone = [
            early
            for place, early in self._calls.items()
            if place not in kept or not early.is_for(kept[place])
        ]
        for early in gone:
            del self._calls[early.place]
            early.leave()
            self._leaving.append(early.task)
        return [(early.call, early.place) for early in gone if early.is_running]

    @property
    def is_leaving(self) -> bool:
        """Whether calls that were cancelled still clean up."""
        return bool(self._leaving)

    async def settled(self) -> None:
        """Wait until what was thrown away has cleaned up."""
        leaving, self._leaving = self._leaving, []
        await stop_all(leaving)

    def run(self, early: _Early) -> asyncio.Task[FinishedCall]:
        """Begin to run; made for the calls themselves."""
        call_scope = replace(self._call_scope, emit=early.emit, relay=early.relay)
        loop = asyncio.get_running_loop()
        return loop.create_task(
            run_at(self.gate, self._toolbox, early.call, early.place, call_scope, loop)
        )

    def emit(self, event: ToolEvent) -> None:
        """Emit an event to the watchers; called by the calls themselves."""
        self.begun += isinstance(event, ToolStart)
        self._call_scope.emit(event)

    def relay(self, call_id: str, record: Record) -> None:
        """Show the watchers a record; made for the calls themselves."""
        self._call_scope.relay(call_id, record)


class _Early:
    """One call, and whether its events are still emitted."""

    def __init__(self, owner: EarlyCalls, call: ToolCall, place: int) -> None:
        self.call = call
        self.place = place
        self.is_running = False
        self._owner: EarlyCalls | None = owner
        self.task = owner.run(self)

    def is_for(self, call: ToolCall) -> bool:
        mine = self.call
        return (mine.id, mine.name, mine.input) == (call.id, call.name, call.input)

    def emit(self, event: ToolEvent) -> None:
        if self._owner is not None:
            self.is_running = not isinstance(event, ToolStop)
            self._owner.emit(event)

    def relay(self, call_id: str, record: Record) -> None:
        if self._owner is not None:
            self._owner.relay(call_id, record)

    def leave(self) -> None:
        self._owner = None
        self.task.cancel()
