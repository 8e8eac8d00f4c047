"""From the records of a run to the events of AG-UI."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from rxworker.events import Record
from rxworker.protocols.ag_ui.blocks import BlockEvents
from rxworker.protocols.ag_ui.calls import call_progress, call_result, call_start
from rxworker.protocols.ag_ui.notes import note, take_back
from rxworker.protocols.ag_ui.runs import RunEvents
from rxworker.protocols.ag_ui.tally import Tally
from rxworker.protocols.ag_ui.wire import AgUiEvent
from rxworker.state import RunState
from rxworker.views import (
    BlockClose,
    BlockExtra,
    BlockGrow,
    BlockOpen,
    BlockWhole,
    CallProgress,
    CallResult,
    CallStart,
    Change,
    Note,
    Retract,
    ScopeClose,
    ScopeOpen,
    StepClose,
    StepOpen,
    Tracker,
    ViewAbort,
    ViewBegin,
    ViewCut,
    ViewFinish,
    ViewPause,
)

Encode = Callable[[Any], Iterator[AgUiEvent]]


class AgUiEncoder:
    """Takes the records of one run and returns events of AG-UI; any records, and always events that its clients accept.

    Args:
        thread_id: The client's name for the conversation.
        run_id: The client's name for the run.
        protocol: The version that the client speaks, as its input says; ``None`` for clients before 1.0, which know neither cancelled runs
            nor results with pictures.
        snapshot: Whether to tell first what was said before, for a client that does not have it.
        parent_run_id: The run that the client branched off, as its input says.

    Example:
        >>> from rxworker.events import TextDelta
        >>> encoder = AgUiEncoder("thread-1", "run-1")
        >>> record = Record(seq=1, run="run-1", turn=1, attempt=1, time=0.0, event=TextDelta(0, "hi"))
        >>> [type(event).__name__ for event in encoder.feed(record)]
        ['RunStarted', 'StepStarted', 'TextMessageStart', 'TextMessageContent']
        >>> [type(event).__name__ for event in encoder.close("the watcher left")]
        ['TextMessageEnd', 'StepFinished', 'RunError']
    """

    def __init__(
        self,
        thread_id: str,
        run_id: str,
        *,
        protocol: str | None = None,
        snapshot: bool = False,
        parent_run_id: str | None = None,
    ) -> None:
        is_new = protocol is not None and not protocol.startswith("0.")
        self._tracker = Tracker()
        self._tally = Tally()
        self._runs = RunEvents(
            thread_id,
            run_id,
            is_new=is_new,
            snapshot=snapshot,
            parent_run_id=parent_run_id,
            tally=self._tally,
        )
        self._table = _table(self._runs, BlockEvents(), is_new=is_new)

    @property
    def is_over(self) -> bool:
        """Whether the last event has been returned."""
        return self._tracker.is_over

    def feed(self, record: Record) -> list[AgUiEvent]:
        """The events that a record makes, which may be none."""
        if not self._tracker.is_over and record.seq > self._tracker.seq:
            self._tally.feed(record)
        return self._encoded(self._tracker.feed(record))

    def catch_up(self, state: RunState, run: str) -> list[AgUiEvent]:
        """The events that lead a late watcher to this state; the records that follow it come next.

        Args:
            state: What the records so far have come to.
            run: The run's id.
        """
        self._runs.snapshot = True
        self._tally.catch_up(state)
        return self._encoded(self._tracker.catch_up(state, run))

    def close(self, reason: str) -> list[AgUiEvent]:
        """There are no more records: close what is open and say why. Nothing, if the run has told of its end."""
        return self._encoded(self._tracker.close(reason))

    def _encoded(self, changes: list[Change]) -> list[AgUiEvent]:
        return [event for change in changes for event in self._table[type(change)](change)]


def _table(runs: RunEvents, blocks: BlockEvents, *, is_new: bool) -> dict[type[object], Encode]:
    """From changes to what encodes them."""
    return {
        ViewBegin: runs.begin,
        ViewFinish: runs.finish,
        ViewPause: runs.pause,
        ViewAbort: runs.abort,
        ViewCut: runs.cut,
        StepOpen: runs.open_step,
        StepClose: runs.close_step,
        ScopeOpen: blocks.open_scope,
        ScopeClose: blocks.close_scope,
        BlockOpen: blocks.open,
        BlockGrow: blocks.grow,
        BlockExtra: blocks.extra,
        BlockClose: blocks.close,
        BlockWhole: blocks.whole,
        CallStart: call_start,
        CallProgress: call_progress,
        CallResult: partial(call_result, is_new=is_new),
        Retract: take_back,
        Note: note,
    }


__all__ = ["AgUiEncoder"]
