"""Whom the connection of a run waits for: the watchers of the run, and those of the runs around it."""

from __future__ import annotations

import asyncio

from rxworker.worker.context import RunContext


class RunPressure:
    """The watchers of a run that cannot take more.

    Args:
        context: Of the run. What it says is shown by the runs around it, too, so that their watchers count.
    """

    def __init__(self, context: RunContext) -> None:
        self._hubs = [around.journal.hub for around in context.line]

    @property
    def is_full(self) -> bool:
        """Whether nothing should be read now."""
        return any(hub.is_full for hub in self._hubs)

    def hold(self) -> asyncio.Future[None] | None:
        """What to wait for before the next read."""
        for hub in self._hubs:
            held = hub.hold()
            if held is not None:
                return held
        return None


__all__ = ["RunPressure"]
