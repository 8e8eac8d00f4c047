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
        hub = context.journal.hub
        self._hubs = (
            (hub, *(run.journal.hub for run in context.around)) if context.around else (hub,)
        )

    @property
    def is_full(self) -> bool:
        """Whether nothing should be read now."""
        for hub in self._hubs:  # noqa: SIM110 - `any` makes a generator for each read
            if hub.is_full:
                return True
        return False

    def hold(self) -> asyncio.Future[None] | None:
        """What to wait for before the next read."""
        for hub in self._hubs:
            held = hub.hold()
            if held is not None:
                return held
        return None


__all__ = ["RunPressure"]
