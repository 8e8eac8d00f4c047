"""A panel that is computed: its pipelines, their clock, and what it shows. Pure: the clock is that of the records.

Theory of operation. Each group has a pipeline of its own, and all of a board have one `RecordClock`, which is moved to
the time of each record before the pipelines are given it, and to other moments to run what is due in between. So what a
panel shows at a moment depends on the records and the moment alone, and folding the records again shows the same. What
a pipeline raises when it takes a record stops its group. What a timer raises stops all groups of the panel, since the
clock does not know whose timer it was. Neither stops another panel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import reactivex
from reactivex import abc
from reactivex.internal import noop

from rxworker.boards.clock import Action, PanelClock, RecordClock
from rxworker.boards.operator_names import explained
from rxworker.boards.panel import LONGEST, NUMBERS, AlertChange, Panel, PanelState, begun, kept_kinds, named_kinds
from rxworker.boards.values import MAX_GROUPS, OTHERS, Values
from rxworker.boards.xray import XRay, not_an_observable, source_of
from rxworker.events import Record
from rxworker.operators.kernel import NO_KINDS, Kinds, Sink, Source, connect, reads_of

MAX_KEPT = 300
"""The maximum number of groups of rows and texts.

The one that has had no record for the longest time is dropped, and begins anew with its next one. Records count that
the panel is given, as for the order above: those that its operators read.
"""


class Cell:
    """A panel with its pipelines.

    Args:
        panel: The panel.
        clock: The clock of the board.
        on_alert: Called when a value has gone beyond the limit, or come back.
        board: The name of its dashboard, for alerts.

    Attributes:
        panel: The panel.
        values: What it shows.
        reads: The classes of the events whose records it takes notice of; ``None`` for all. The others may be left out.
        on_reads: Called when ``reads`` has changed.
    """

    def __init__(
        self, panel: Panel, clock: RecordClock, on_alert: Callable[[AlertChange], object], board: str = ""
    ) -> None:
        self.panel = panel
        self.on_reads: Callable[[], object] = noop
        self._read_by_lanes: Kinds | None = NO_KINDS
        names = named_kinds(panel.group)  # another record opens no pipeline
        self.reads: Kinds | None = None if names is None else kept_kinds(panel.group, names)
        self._through, group = panel.through, panel.group
        self._group = None if group is None else begun(group)
        self._is_plain = group is None and panel.through is None and not isinstance(panel.pipeline, XRay)
        self._board_clock, self._clock = clock, PanelClock(clock, self._run)
        self._is_number = panel.view in NUMBERS
        self._most = MAX_GROUPS if self._is_number else MAX_KEPT
        # In the order of their last records where the others are dropped; `None` of one that has stopped.
        self._lanes: dict[str, Source[Record] | None] = {}
        self._lane: Source[Record] | None = None  # that of a panel without groups
        self._subscriptions: dict[str, abc.DisposableBase] = {}
        self.values = Values(panel, self._group, clock, self._clock, on_alert, board)

    @property
    def state(self) -> PanelState:
        """What it shows."""
        return self.values.state(self._lanes)

    def take(self, record: Record) -> None:
        """Take the next record; the clock has its time."""
        self.values.emitted = 0
        try:
            if self._lane is not None:  # as for nearly every record
                self._lane.push(record)
                return
            if self._through is not None:
                record = self._through(record)
            found = "" if self._group is None else self._group(record)
            if found is None:
                return
            name = self._open(str(found)[:LONGEST])
        except Exception as error:
            self._stop(None, error)
            return
        lane = self._lanes[name]
        if lane is not None:
            try:
                lane.on_next(record)
            except Exception as error:
                self._stop(name, error)

    def pass_by(self, record: Record) -> None:
        """Take notice of a record before the time that is shown: its group may know later ones by it."""
        if self._group is not None:
            try:
                self._group(record if self._through is None else self._through(record))
            except Exception as error:
                self._stop(None, error)

    def _run(self, timer: Action, clock: abc.SchedulerBase, state: Any) -> abc.DisposableBase | None:
        self.values.emitted, self._board_clock.record = 0, None
        try:
            return timer(clock, state)
        except Exception as error:
            self._stop(None, error)
            return None

    def dispose(self) -> None:
        """Dispose the pipelines."""
        for subscription in self._subscriptions.values():
            subscription.dispose()
        self._subscriptions.clear()
        self._lanes = dict.fromkeys(self._lanes)
        self._lane = None

    # Pipelines

    def _note_reads(self, observers: Iterable[abc.ObserverBase[Record]]) -> None:
        """A pipeline has subscribed to its records. The first record opens it, since none reads before its time."""
        reads, so_far = reads_of(observers), self._read_by_lanes
        found = self._read_by_lanes = None if reads is None or so_far is None else so_far | reads
        if found is not None:
            found = kept_kinds(self.panel.group, found)
        if reads != NO_KINDS and found != self.reads:
            self.reads = found
            self.on_reads()

    def _open(self, name: str) -> str:
        """The name of the group, whose pipeline runs from now on."""
        lanes = self._lanes
        is_sum = self._is_number
        if name in lanes:
            if not is_sum:
                lanes[name] = lanes.pop(name)
            return name
        if len(lanes) >= self._most and name != OTHERS:
            if is_sum:
                return self._open(OTHERS)
            oldest = next(iter(lanes))
            self._end(oldest)
            self.values.drop(oldest)
            del lanes[oldest]
        pipeline = self.panel.pipeline
        lane = lanes[name] = source_of(pipeline)
        lane.served = self._note_reads
        if self._is_plain:
            self._lane = lane
        sink = Sink[Any](partial(self.values.put, name), partial(self._stop, name), partial(self._end, name))
        before = self.values.version, self._board_clock.timers
        try:
            result = pipeline(lane)
            if not isinstance(result, reactivex.Observable):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
                raise not_an_observable(result)
            self._subscriptions[name] = connect(result, sink, self._clock)
        except Exception as error:
            self._stop(name, error)
        if self.panel.group is not None and before != (self.values.version, self._board_clock.timers):
            # A group shows something as soon as it begins, so that any record may be the first of one.
            self._read_by_lanes = self.reads = None
            self.on_reads()
        return name

    def _end(self, name: str) -> None:
        """The pipeline emits nothing more: what it has emitted stays."""
        if name in self._lanes:
            self._lanes[name] = self._lane = None
            if self._is_plain:
                self.reads = NO_KINDS
                self.on_reads()
        if (subscription := self._subscriptions.pop(name, None)) is not None:
            subscription.dispose()

    def _stop(self, name: str | None, error: Exception) -> None:
        """Stop a group, or, where it is not known, all of them."""
        for each in [*self._lanes] if name is None else [name]:
            self._end(each)
        pipeline = self.panel.pipeline
        operator = pipeline.operator_of(error) if isinstance(pipeline, XRay) else ""
        self.values.error = explained(error, name or "", operator)
        self.values.note()
