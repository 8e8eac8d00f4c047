"""The lanes of the attempts that are on: an attempt may be taken back, with all that happens inside it. Pure."""

from __future__ import annotations

from typing import TypeAlias

from rxworker.ui.terminal.lane import Lane, Stage

Path: TypeAlias = tuple[str, ...]
"""The calls that lead to a run inside the run."""


class Attempts:
    """Remembers, for each run, what its present attempt has brought.

    >>> attempts, lane = Attempts(), Lane("text")
    >>> attempts.add((), lane)
    >>> [lane.stage for lane in attempts.end((), 1.0, "retracted")]
    ['retracted']
    """

    def __init__(self) -> None:
        self._lanes: dict[Path, list[Lane]] = {}
        self._answering: set[Path] = set()

    def add(self, path: Path, lane: Lane) -> None:
        """A lane begins."""
        self._lanes.setdefault(path, []).append(lane)

    def answer(self, path: Path) -> bool:
        """A response starts; whether one has started before in this attempt."""
        is_again = path in self._answering
        self._answering.add(path)
        return is_again

    def inside(self, path: Path) -> list[Path]:
        """The runs that have an attempt on: this one, and those inside it."""
        return [each for each in self._lanes if each[: len(path)] == path]

    def end(self, path: Path, now: float, stage: Stage) -> list[Lane]:
        """Nothing of the attempt, nor of what runs inside it, goes on; the lanes that have changed by that."""
        changed: list[Lane] = []
        for inner in self.inside(path):
            for lane in self._lanes[inner]:
                if stage == "retracted":
                    lane.stage, lane.ended = stage, now
                    changed.append(lane)
                elif not lane.is_over:
                    lane.end(now, stage)
                    changed.append(lane)
        return changed

    def forget(self, path: Path) -> list[Lane]:
        """The attempt is over: its lanes, which can no longer be taken back."""
        self._answering.discard(path)
        return self._lanes.pop(path, [])

    def keep_all(self) -> None:
        """Nothing that has begun can be taken back any more."""
        self._lanes.clear()


__all__ = ["Attempts", "Path"]
