"""From the records of a conversation to its lanes. A machine: feed it records, take what changed.

Theory of operation. It remembers only what may still change: the open blocks, the lanes of the attempt that may be taken
back, and the calls without a result. What is over it forgets; whoever shows the lanes keeps as many as it likes. The calls
of a paused run are remembered, since the run that resumes it goes on with them. Runs inside the run are told apart by
their paths.
"""

from __future__ import annotations

from collections.abc import Iterable

from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockStart,
    BlockStop,
    CitationDelta,
    InputJsonDelta,
    InputValueDelta,
    Opaque,
    Record,
    RefusalDelta,
    ResponseStatus,
    RunAbort,
    RunPause,
    RunResume,
    RunStart,
    RunStop,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolOutput,
    ToolProgress,
    ToolStart,
    ToolStop,
)
from rxworker.ui.clean import clean, one_line
from rxworker.ui.describe import describe_json
from rxworker.ui.terminal.attempts import Attempts, Path
from rxworker.ui.terminal.blocks import Blocks
from rxworker.ui.terminal.calls import Calls
from rxworker.ui.terminal.lane import Lane, Stage
from rxworker.ui.terminal.notes import note_of, note_opaque, user_lanes


class Lanes:
    """Folds records to lanes.

    >>> lanes = Lanes()
    >>> record = Record(seq=1, run="r", turn=1, attempt=1, time=0.0, event=TextDelta(0, "Hello"))
    >>> [(lane.kind, lane.text) for lane in lanes.feed([record])]
    [('text', 'Hello')]
    """

    def __init__(self) -> None:
        self._attempts = Attempts()
        self._calls = Calls(self._attempts)
        self._blocks = Blocks(self._attempts, self._calls)
        self._unknown: dict[tuple[Path, str], Lane] = {}
        self._panels: list[Lane] = []

    def feed(self, records: Iterable[Record]) -> list[Lane]:
        """Take records; return the lanes that are new or have changed, the new ones in order."""
        changed: dict[Lane, None] = {}
        for record in records:
            for lane in self._take(record):
                changed[lane] = None
        return list(changed)

    def _take(self, record: Record) -> Iterable[Lane]:
        event, path = record.event, record.path
        match event:
            case TextDelta() | ThinkingDelta() | RefusalDelta() | InputJsonDelta():
                return [self._blocks.write(record, event, clean(event.text))]
            case InputValueDelta(path=where, value=value, append=append):
                told = clean(value) if append and isinstance(value, str) else describe_json(value)
                told = told if append else f"\n{one_line(where)} {told}"
                return [self._blocks.write(record, event, told)]
            case CitationDelta():
                return [self._blocks.cite(record, event)]
            case BlockStart():
                return [self._blocks.start(record, event)]
            case BlockStop() | BlockAbort():
                return self._blocks.stop(record, event)
            case ToolStart() | ToolProgress() | ToolStop() | ToolOutput():
                return [self._calls.step(record, event)]
            case Opaque():
                return [self._count(record, event)]
            case AttemptStart():
                self._forget(path)
                return ()
            case Status(status=ResponseStatus.STARTED):
                # A response that starts for a second time takes back what it said.
                is_again = self._attempts.answer(path)
                return self._end(record, "retracted") if is_again else ()
            case AttemptRetract():
                return [*self._end(record, "retracted"), *note_of(record)]
            case RunStart() if not path:
                waited = self._calls.refuse_all(record.time)
                return [*self._go_on(record), *waited, *user_lanes(record)]
            case RunPause() if not path:
                return self._pause(note_of(record))
            case RunResume() if not path:
                return self._go_on(record)
            case RunStop() | RunAbort():
                stage: Stage = "done" if isinstance(event, RunStop) else "stopped"
                return [*self._end(record, stage), *note_of(record)]
            case _:
                return note_of(record)

    def _end(self, record: Record, stage: Stage) -> list[Lane]:
        """Nothing of the attempt, nor of what runs inside it, goes on."""
        changed = self._attempts.end(record.path, record.time, stage)
        for inner in self._attempts.inside(record.path):
            self._forget(inner)
        if isinstance(record.event, Status):
            self._attempts.answer(record.path)
        return changed

    def _forget(self, path: Path) -> None:
        self._calls.forget(path, self._attempts.forget(path))
        self._blocks.forget(path)
        self._unknown = {key: lane for key, lane in self._unknown.items() if key[0] != path}

    def _pause(self, panels: Iterable[Lane]) -> list[Lane]:
        """The calls that have not run wait; the run that goes on will find them."""
        self._attempts.keep_all()
        self._panels = list(panels)
        return [*self._calls.waiting, *self._panels]

    def _go_on(self, record: Record) -> list[Lane]:
        """Nobody is waited for any more."""
        panels, self._panels = self._panels, []
        for panel in panels:
            panel.end(record.time)
        return panels

    def _count(self, record: Record, event: Opaque) -> Lane:
        """Of what is not known here, the first of its kind is shown, and how many there are."""
        lane = self._unknown.get((record.path, event.kind))
        if lane is None:
            lane = self._unknown[record.path, event.kind] = note_opaque(record, event)
            self._attempts.add(record.path, lane)
        else:
            lane.times += 1
        return lane


__all__ = ["Lanes"]
