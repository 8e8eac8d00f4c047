"""What waits in the background of a run of this process, decided about while the run goes on.

Theory of operation. A person decides about one call in the background after the other, and about all that waits with
it. Meanwhile others may decide, or the run may pause, so that the indices of the calls change. A decision belongs to
the same step of the same call, with the same arguments, as it was shown: `decided_now` finds it. A question that is
open while the run pauses stays open, and the paused run has the answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from msgspec.structs import replace

from rxworker.decisions import Decision, PendingCalls
from rxworker.events import BackgroundStart, BackgroundStop, Event
from rxworker.events.pause import PauseState, parts_of
from rxworker.run.run import Run

logger = logging.getLogger("rxworker.desk")


def asked_in(run: Run[Any] | None) -> PauseState | None:
    """What a person decides about while a run goes on: the first call in its background that needs it, alone."""
    waiting = None if run is None or run.state.status != "running" else run.state.waiting
    several = () if waiting is None else [replace(waiting, background=(each,)) for each in waiting.background]
    return next((each for each in several if PendingCalls.of(each).required), None)


def decided_now(now: PauseState, shown: PauseState, decided: Mapping[int, Decision]) -> dict[int, Decision]:
    """Decisions about a call in the background and what waits with it, by their indices in what waits now."""
    [call] = shown.background
    if call not in now.background:
        return {}  # it was decided about meanwhile, or waits no more
    places = parts_of(now.tree)[now.background.index(call) + 1]
    return {places[at]: decision for at, decision in decided.items()}


CANCELLED = "the user has cancelled it"

Decided: TypeAlias = Mapping[int, Decision] | None
"""The decisions of a person, by the indices of the calls; ``None``: to cancel the run."""


class Meanwhile:
    """Requests decisions about what waits in the background of runs while they go on.

    Args:
        request: Requests the decisions about what waits. Where it fails, or decides nothing, the paused run
            requests them again.
    """

    def __init__(self, request: Callable[[PauseState], Awaitable[Decided]]) -> None:
        self._request = request
        self._shown: PauseState | None = None
        self._task: asyncio.Task[Decided] | None = None

    def look(self, run: Run[Any] | None, event: Event) -> None:
        """Called with each event of a run. A question about what another one has decided about is cancelled."""
        if isinstance(event, BackgroundStart | BackgroundStop) and run is not None and run.state.status == "running":
            self.ask(run)

    def ask(self, run: Run[Any] | None, *, again: bool = False) -> None:
        """Request the decisions about what waits, unless that was done before."""
        shown = asked_in(run)
        if shown == self._shown and not again:
            return
        self.close()
        self._shown = shown
        if run is not None and shown is not None:
            self._task = asyncio.get_running_loop().create_task(self._decide(run, shown), name="question")

    async def answered(self, pause: PauseState) -> Decided:
        """The decisions about a run that has paused, from a person who still has the question; otherwise none."""
        task, self._task = self._task, None
        if task is None or self._shown is None:
            return {}
        decided = await task
        return None if decided is None else decided_now(pause, self._shown, decided)

    def close(self) -> asyncio.Task[Decided] | None:
        """Cancel the question. Returns its task, which ends when it is withdrawn; ``None`` if none is open."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        return task

    async def _decide(self, run: Run[Any], shown: PauseState) -> Decided:
        try:
            decided = await self._request(shown)
            if asked_in(run) == shown:  # otherwise it has paused, or another one has decided
                if decided is None:
                    run.cancel(reason=CANCELLED)
                else:
                    now = run.state.waiting or shown
                    places = decided_now(now, shown, decided)
                    run.decide([places.get(at) for at in range(len(now.tree))])
        except Exception:
            logger.warning("a decision was not taken: it is requested again when the run has paused", exc_info=True)
            return {}
        return decided
