"""The open parts of each scope of a run: the run itself, and the runs inside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rxworker.messages import StopReason
from rxworker.views.block_tracker import BlockTracker
from rxworker.views.call_tracker import CallTracker
from rxworker.views.changes import (
    Change,
    Scope,
    ScopeClose,
    ScopeOpen,
    StepClose,
    StepOpen,
)

Path = tuple[str, ...]

NOT_RUN = "This call was not run."


class ScopeTracker:
    """The open parts of one scope.

    Args:
        scope: The scope.
        run_id: The run's id.
        calls: The scope's calls.
        is_detailed: Whether further choices and single values of arguments are shown.

    Attributes:
        scope: The scope.
        calls: Its calls.
        blocks: Its blocks.
        turn: The number of the open turn; ``None`` between turns.
        has_begun: Whether its start was received.
        stop_reason: Why its last response ended.
    """

    def __init__(
        self, scope: Scope, run_id: str, calls: CallTracker, *, is_detailed: bool = False
    ) -> None:
        self.scope = scope
        self.calls = calls
        prefix = f"{run_id}.{scope.id}" if scope.id else run_id
        self.blocks = BlockTracker(scope, prefix, calls, is_detailed=is_detailed)
        self.turn: int | None = None
        self.has_begun = False
        self.stop_reason: StopReason | None = None

    def open_step(self, turn: int) -> Iterator[Change]:
        """Open a turn, when none is open."""
        self.turn = turn
        yield StepOpen(self.scope, turn)

    def close_step(self) -> Iterator[Change]:
        """Close the open turn, if there is one."""
        if self.turn is not None:
            turn, self.turn = self.turn, None
            yield StepClose(self.scope, turn)

    def end(self, reason: str, answer: str | None = NOT_RUN) -> Iterator[Change]:
        """End everything that is open; calls without a result get this placeholder, unless it is ``None``."""
        yield from self.blocks.end(reason)
        if answer is not None:
            yield from self.calls.give_up_all(answer)
        yield from self.close_step()


class Scopes:
    """The open scopes by their path."""

    def __init__(self, *, is_detailed: bool = False) -> None:
        self._run = ""
        self._is_detailed = is_detailed
        self._trackers: dict[Path, ScopeTracker] = {}
        self._times: Counter[Path] = Counter()

    def begin(self, run_id: str, calls: CallTracker) -> ScopeTracker:
        """Open the scope of the run itself."""
        self._run = run_id
        tracker = self._trackers[()] = ScopeTracker(
            Scope(), run_id, calls, is_detailed=self._is_detailed
        )
        return tracker

    def __iter__(self) -> Iterator[ScopeTracker]:
        return iter(self._trackers.values())

    def find(self, path: Path) -> ScopeTracker | None:
        """The scope of this path, if it is open."""
        return self._trackers.get(path)

    def enter(self, path: Path, changes: list[Change]) -> ScopeTracker:
        """The scope of this path; it and its parents are opened if they are not open."""
        tracker = self._trackers.get(path)
        if tracker is not None:
            return tracker
        around = self.enter(path[:-1], changes)
        self._times[path] += 1
        again = self._times[path]
        call = around.calls.find(path[-1])
        scope = Scope(
            id="/".join(path) + (f"~{again}" if again > 1 else ""),
            path=path,
            name=call.name if call else "",
            call_id=call.shown if call else "",
            parent=around.scope.id,
        )
        tracker = self._trackers[path] = ScopeTracker(
            scope, self._run, CallTracker(scope, Counter())
        )
        changes.append(ScopeOpen(scope))
        return tracker

    def leave(
        self, path: Path, error: str | None, cause: str = "", answer: str | None = NOT_RUN
    ) -> Iterator[Change]:
        """Close the scope of a run inside, and those inside it."""
        below = [other for other in self._trackers if other[: len(path)] == path and other != path]
        for other in (*sorted(below, key=len, reverse=True), path):
            tracker = self._trackers.pop(other, None)
            if tracker is not None:
                why, what = (error, cause) if other == path else ("the run around it ended", "")
                yield from tracker.end(why or "", answer)
                yield ScopeClose(tracker.scope, why, what)

    def end(self, reason: str, answer: str | None) -> Iterator[Change]:
        """Close all scopes inside, and end what is open in the run itself."""
        for path in [path for path in self._trackers if len(path) == 1]:
            yield from self.leave(path, reason or "the run around it ended", answer=answer)
        top = self._trackers.get(())
        if top is not None:
            yield from top.end(reason, answer)


class TrackerState:
    """The state of a `Tracker`.

    Attributes:
        run: The run's id.
        seq: The number of the last record.
        has_begun: Whether the first change was returned.
        is_over: Whether the last change was returned.
        scopes: The scopes that are open.
        refused: The ids of calls that a person refused, and whose results follow.
    """

    def __init__(self, *, is_detailed: bool = False) -> None:
        self.run = ""
        self.seq = 0
        self.has_begun = False
        self.is_over = False
        self.scopes = Scopes(is_detailed=is_detailed)
        self.refused: set[str] = set()
