"""Whom the connection of a run waits for: the watchers of the run, and those of the runs around it."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from rxworker.worker.context import RunContext


class RunPressure(Struct, frozen=True, eq=False):
    """The watchers of a run that cannot take more.

    Attributes:
        context: Of the run. What it says is shown by the runs around it, too, so that their watchers count.
    """

    context: RunContext

    @property
    def is_full(self) -> bool:
        """Whether nothing should be read now."""
        if self.context.journal.hub.is_full:
            return True
        for run in self.context.around:  # noqa: SIM110 - `any` makes a generator for each read
            if run.journal.hub.is_full:
                return True
        return False

    def hold(self) -> asyncio.Future[None] | None:
        """What to wait for before the next read."""
        for run in self.context.line:
            held = run.journal.hub.hold()
            if held is not None:
                return held
        return None


__all__ = ["RunPressure"]
