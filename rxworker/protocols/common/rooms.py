"""The scopes of a run, the run's own and those of the runs inside it, and what is open in each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rxworker.messages import StopReason
from rxworker.protocols.common.block_book import BlockBook
from rxworker.protocols.common.call_book import CallBook
from rxworker.protocols.common.changes import (
    Change,
    Scope,
    ScopeClose,
    ScopeOpen,
    StepClose,
    StepOpen,
)

Path = tuple[str, ...]

NOT_RUN = "This call was not run."


class Room:
    """What is open in one scope.

    Args:
        scope: Which.
        run: The run's id.
        calls: The scope's calls.

    Attributes:
        scope: Which.
        calls: Its calls.
        blocks: Its blocks.
        turn: The turn that is open.
        has_begun: Whether its start was seen.
        stop_reason: Why its last response ended.
    """

    def __init__(self, scope: Scope, run: str, calls: CallBook) -> None:
        self.scope = scope
        self.calls = calls
        self.blocks = BlockBook(scope, f"{run}.{scope.id}" if scope.id else run, calls)
        self.turn: int | None = None
        self.has_begun = False
        self.stop_reason: StopReason | None = None

    def open_step(self, turn: int) -> Iterator[Change]:
        """A turn begins; none is open."""
        self.turn = turn
        yield StepOpen(self.scope, turn)

    def close_step(self) -> Iterator[Change]:
        """The turn that is open is over."""
        if self.turn is not None:
            turn, self.turn = self.turn, None
            yield StepClose(self.scope, turn)

    def end(self, reason: str, answer: str | None = NOT_RUN) -> Iterator[Change]:
        """Everything that is open ends; calls without a result get the answer, if there is one."""
        yield from self.blocks.end(reason)
        if answer is not None:
            yield from self.calls.give_up_all(answer)
        yield from self.close_step()


class Rooms:
    """The scopes that are open, by their path."""

    def __init__(self) -> None:
        self._run = ""
        self._rooms: dict[Path, Room] = {}
        self._times: Counter[Path] = Counter()

    def begin(self, run: str, calls: CallBook) -> Room:
        """The run's own."""
        self._run = run
        room = self._rooms[()] = Room(Scope(), run, calls)
        return room

    def __iter__(self) -> Iterator[Room]:
        return iter(self._rooms.values())

    def find(self, path: Path) -> Room | None:
        """The one of this path, if it is open."""
        return self._rooms.get(path)

    def enter(self, path: Path, changes: list[Change]) -> Room:
        """The one of this path; it and those around it open if they are not."""
        room = self._rooms.get(path)
        if room is not None:
            return room
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
        room = self._rooms[path] = Room(scope, self._run, CallBook(scope, Counter()))
        changes.append(ScopeOpen(scope))
        return room

    def leave(
        self, path: Path, error: str | None, cause: str = "", answer: str | None = NOT_RUN
    ) -> Iterator[Change]:
        """A run inside has ended, and those inside it."""
        below = [other for other in self._rooms if other[: len(path)] == path and other != path]
        for other in (*sorted(below, key=len, reverse=True), path):
            room = self._rooms.pop(other, None)
            if room is not None:
                why, what = (error, cause) if other == path else ("the run around it ended", "")
                yield from room.end(why or "", answer)
                yield ScopeClose(room.scope, why, what)

    def end(self, reason: str, answer: str | None) -> Iterator[Change]:
        """All of them end."""
        for path in [path for path in self._rooms if len(path) == 1]:
            yield from self.leave(path, reason or "the run around it ended", answer=answer)
        top = self._rooms.get(())
        if top is not None:
            yield from top.end(reason, answer)


__all__ = ["NOT_RUN", "Path", "Room", "Rooms"]
