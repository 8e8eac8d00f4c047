"""Dashboards: lists of panels, computed over records as they come, or at a moment of the past."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from time import perf_counter
from typing import Any, TypeAlias, TypeVar, cast

from msgspec.structs import force_setattr, replace
from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable
from reactivex.internal import noop

from rxworker.boards.cell import Cell
from rxworker.boards.clock import RecordClock
from rxworker.boards.panel import NOT_KNOWN, AlertChange, Panel, PanelState, number, one_name, read_name
from rxworker.boards.selection import EVERYTHING, Selecting, Selection
from rxworker.boards.xray import XRay, explain
from rxworker.errors import ConfigurationError, LocalProtocolError, nearest
from rxworker.events import Record
from rxworker.messages.settings import Settings, check_number, check_type
from rxworker.operators import Records, merge_runs
from rxworker.operators.kernel import SerialDisposable, Sink, Source, Stage, connect
from rxworker.transport.clock import loop_clock
from rxworker.watchdog import running_loop, watchdog

A = TypeVar("A")

logger = logging.getLogger("rxworker.boards")

EVERY = 0.25
"""Seconds between two changes of a panel that is shown, at least."""
IN_ORDER = attrgetter("time", "run_id", "seq")
"""The order of records that are folded.

By their times, and at one time by their runs, so that it is the same each time.
"""
LATE = 1.0
"""Seconds: a record that is older belongs to a history that is still read.

The clocks of the panels stay at its time until none has come for as long.
"""
TURN = 0.005
"""Seconds for which records of before are taken until other tasks run."""

NEVER = float("inf")
MOMENT = 0.001
"""Seconds: records have their times in these steps."""


Progress: TypeAlias = Callable[[int, int], object]
"""Called with how many stored runs are read, and how many there are; 0 of 0 when nothing is left to be read."""


class Dashboard(Settings, frozen=True):
    """Panels that are shown together. A value: it can be shown in several places, over different runs.

    Attributes:
        panels: The panels, in order.
        title: The title that users see.
        name: Its name in addresses; by default made from the title.
        reach: Seconds: of all runs of a log, a server shows those that began in this time, unless a client selects
            another one.
        selection: Which records it is computed over; by default all.

    Raises:
        ConfigurationError: ``reach`` is not a number above 0, there is no panel, an item is not a panel, two have the
            same name, or the name of the dashboard is not made of letters, digits and dashes.

    Example:
        >>> import asyncio
        >>> from reactivex import operators as ops
        >>> from rxworker import Worker
        >>> from rxworker.boards import panel
        >>> from rxworker.testing import ScriptedModel
        >>> def one_more(count: int, _: Record) -> int:
        ...     return count + 1
        >>> board = Dashboard([panel("Records", ops.scan(one_more, 0))])
        >>> async def main() -> None:
        ...     run = Worker(ScriptedModel(["Hello."])).run("Hi")
        ...     await run
        ...     records = [record async for record in run]
        ...     print([state.value for state in board.at(records)] == [len(records)])
        >>> asyncio.run(main())
        True
    """

    panels: Sequence[Panel]
    title: str = "Dashboard"
    name: str = ""
    reach: float = 86400.0
    selection: Selection = EVERYTHING

    def __post_init__(self) -> None:
        panels = tuple(self.panels) if isinstance(self.panels, list | tuple) else ()
        wrong = [each for each in panels if not isinstance(each, Panel)]  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
        if wrong or not panels:
            given = repr(wrong[0] if wrong else self.panels)
            raise ConfigurationError(f"Dashboard takes a list of panels, not {given:.80}: Dashboard([panel(...), ...])")
        names = [each.name for each in panels]
        if (twice := next((name for name in names if names.count(name) > 1), None)) is not None:
            raise ConfigurationError(f"two panels have the name {twice!r}: give one of them name=")
        check_number("reach", self.reach, above=0)
        check_type("selection", self.selection, Selection, 'Selection(model="...")')
        force_setattr(self, "panels", panels)
        force_setattr(self, "name", read_name("dashboard", self.name, self.title))

    def at(self, records: Iterable[Record], time: float | None = None) -> tuple[PanelState, ...]:
        """What the panels showed at a moment, by folding the records again.

        Args:
            records: The records of one run or of several, in any order between runs.
            time: The moment, in seconds since the epoch; by default that of the last record. Later records are left
                out.

        Returns:
            The state of each panel, in order.
        """
        return self._fold(records, time).at(time)

    def alerts_in(self, records: Iterable[Record], time: float | None = None) -> tuple[AlertChange, ...]:
        """The alerts that there were until a moment, by folding the records again.

        Those that a board over them reports, at the same times.

        Args:
            records: The records of one run or of several, in any order between runs.
            time: The moment; see `at`.

        Returns:
            The changes, in order.
        """
        fold = self._fold(records, time)
        fold.at(time)
        return fold.alerts

    def _fold(self, records: Iterable[Record], time: float | None) -> Fold:
        fold = Fold(self)
        for record in sorted(records, key=IN_ORDER):
            if time is not None and record.time > time:
                break
            fold.take(record)
        return fold

    def show(
        self,
        records: Records | Iterable[Records] | Observable[Records],
        *,
        every: float = EVERY,
        scheduler: abc.SchedulerBase | None = None,
        xray: bool = False,
    ) -> Board:
        """Compute the panels over records as they come, once for any number of people who look at them.

        Args:
            records: A run, an observable of records, or what `merge_runs` takes, such as ``log.runs()``.
            every: Seconds between two changes of a panel, at least.
            scheduler: The clock; by default that of the running event loop.
            xray: Whether the operators of the panels are counted and timed; see `Board.xray`.

        Raises:
            ConfigurationError: ``every`` is not a number from 0 up.
            LocalProtocolError: No event loop runs, and there is no scheduler.
            TypeError: As for `merge_runs`.
        """
        return Board(self, records, every=every, scheduler=scheduler, xray=xray)


class Fold:
    """The panels of a dashboard, folded over records in the order of their times.

    Args:
        dashboard: The dashboard.
        on_alert: Called when a value has gone beyond the limit of its panel, or come back; by default `alerts` has
            them.

    Attributes:
        take: Takes the next record; it is left out, if it is not selected.
        clock: The clock of all panels.
        cells: The panels by their names.
        selection: Which records it takes.
        unread: The classes of the events that no panel reads, as far as it is known; their records may be left out.
        changes: How often it has changed what panels read.
        last: The time of the last record.
        until: The end of the time that is selected.
    """

    def __init__(self, dashboard: Dashboard, on_alert: Callable[[AlertChange], object] | None = None) -> None:
        self._alerts: list[AlertChange] = []
        self.clock, self._on_alert = RecordClock(), on_alert
        self.cells = {each.name: Cell(each, self.clock, self._alert, dashboard.name) for each in dashboard.panels}
        self.unread: set[type[object]] = set()
        self.selection = selection = dashboard.selection
        self._selecting = Selecting(selection) if selection.filters_runs else None
        self._since = float("-inf") if selection.since is None else selection.since
        self.until = NEVER if selection.until is None else selection.until
        # The last moment of the time that is selected: what is due at its end, such as the next hour, is not of it.
        self._end = self.until - MOMENT
        self._is_part = selection.since is not None or selection.until is not None
        selecting = self._selecting
        self.take = self._take if selecting is None else partial(self._take_selected, selecting)
        self.changes = 0
        self._readers: dict[type[object], tuple[tuple[str, Cell], ...]] = {}
        self.last = 0.0
        for cell in self.cells.values():
            cell.on_reads = self._forget

    def __getstate__(self) -> dict[str, object]:
        """A copy reports its alerts to nothing else."""
        return {**self.__dict__, "_on_alert": None}

    def _alert(self, change: AlertChange) -> None:
        (self._on_alert or self._alerts.append)(change)

    @property
    def alerts(self) -> tuple[AlertChange, ...]:
        """The alerts so far, in the order of their times."""
        return tuple(sorted(self._alerts, key=attrgetter("time")))

    def _take_selected(self, selecting: Selecting, record: Record) -> None:
        found = selecting.feed(record)
        if found:  # what was held counts from now on, as on a board that has shown the time until now
            self.clock.note(min(record.time, self._end))
        for each in found:
            self._take(each)

    def _take(self, record: Record) -> None:
        time = record.time
        if self._is_part:
            if time < self._since:
                for cell in self.cells.values():
                    cell.pass_by(record)
                return
            if time >= self.until < NEVER:
                return
        self.last = time
        kind, clock = record.event.__class__, self.clock
        if (readers := self._readers.get(kind)) is None:
            readers = self._readers[kind] = self._find(kind)
        # A timer may subscribe to more records. What no panel reads moves no timers from their grid, as on a board
        # that has run them before it came.
        if readers:
            clock.note(time)
        elif not clock.waiting:
            return
        elif clock.has_due(time):
            clock.move_to(time)
        if kind not in self._readers:
            readers = self._readers[kind] = self._find(kind)
        if not readers:
            return
        now, limit, reported = watchdog.clock, watchdog.limit, watchdog.reported
        clock.record = record
        begun = now()  # as `begin` does it, and `end`, since all panels come by here
        for name, cell in readers:
            cell.take(record)
            ended = now()
            if ended - begun > limit:
                watchdog.end(begun - reported, "panel", name)
                reported, ended = watchdog.reported, now()
            begun = ended
        if clock.waiting:
            clock.move_to(time)  # what the pipelines have scheduled for this moment

    def _find(self, kind: type[object]) -> tuple[tuple[str, Cell], ...]:
        """The panels that take notice of the records of these events."""
        found = [(name, each) for name, each in self.cells.items() if each.reads is None or kind in each.reads]
        if not found and self._selecting is None:
            self.unread.add(kind)
        return tuple(found)

    def _forget(self) -> None:
        self.changes += 1
        self.unread.clear()
        self._readers.clear()

    @property
    def due(self) -> float | None:
        """When the next timer runs, in seconds since the epoch; ``None`` without one."""
        due = self.clock.due
        return None if due is None or due > self._end else due

    def move_to(self, time: float) -> None:
        """Run what is due until then, at most until the end of the time that is selected."""
        self.clock.move_to(min(time, self._end))

    def at(self, time: float | None) -> tuple[PanelState, ...]:
        """What the panels show then, or at the last record; it takes no more records."""
        self.move_to(self.last if time is None else time)
        for cell in self.cells.values():
            cell.dispose()
        return tuple(cell.state for cell in self.cells.values())


class StoredFirst(Stage[Record]):
    """Records, of which those that are stored come first, in the order of their times.

    They need not be put in order.
    """

    def follow(
        self, observer: abc.ObserverBase[Record], board: Board | None, scheduler: abc.SchedulerBase | None
    ) -> abc.DisposableBase:
        """Subscribe; a board takes the stored records by itself: see `Board.take_stored`."""
        raise NotImplementedError


class Board:
    """A dashboard that is computed. Made by `Dashboard.show`; belongs to one event loop.

    Args:
        dashboard: The dashboard.
        records: Its records; see `Dashboard.show`.
        every: Seconds between two changes of a panel, at least.
        scheduler: The clock; by default that of the running event loop.
        xray: Whether the operators of the panels are counted and timed; see `Board.xray`.

    Attributes:
        dashboard: The dashboard.
        changes: The observable of the states that have changed, of each panel at most one in ``every`` seconds. It
            completes when the board is disposed.
        alerts: The observable of values that have gone beyond the limit of their panel or come back, since the board
            was made. Of what the records have from before, the last change of each value is emitted, once, when those
            records have been taken: an earlier process may have ended before its receiver had it. It completes with
            ``changes``.
        error: The error of the records, if they have failed; the board is disposed then, and the panels keep what they
            show.
        fold: Its panels, for what reads stored records.
    """

    def __init__(
        self,
        dashboard: Dashboard,
        records: Records | Iterable[Records] | Observable[Records],
        *,
        every: float = EVERY,
        scheduler: abc.SchedulerBase | None = None,
        xray: bool = False,
    ) -> None:
        check_number("every", every)
        if scheduler is None and running_loop() is None:
            raise LocalProtocolError("show() needs a running event loop; in a script use dashboard.at(records)")
        self.dashboard = dashboard
        self.changes: Source[PanelState] = Source()
        self.alerts: Source[AlertChange] = Source()
        self.error: Exception | None = None
        self._every = every
        self._clock = scheduler or loop_clock()
        panels = [replace(each, pipeline=explain(each.pipeline)) if xray else each for each in dashboard.panels]
        self.fold = self._fold = Fold(replace(dashboard, panels=panels), self._alert)
        self._cells, self._unread = self._fold.cells, self._fold.unread
        self._recent: dict[str, PanelState] = {}
        self._began = self._now()
        self._earlier: dict[tuple[str, str], AlertChange] = {}
        self._shown = dict.fromkeys(self._cells, 0)
        self._timer = SerialDisposable()
        self._wakes_at: float | None = None
        self._last = float("-inf")
        self._reads_until = NEVER  # no clock moves before the first record, which may be an old one
        self._is_over = False
        self._source = CompositeDisposable()
        self._runs: Source[Records] = Source()
        self._follow(merge_runs(self._runs), self._take)
        self._stored: tuple[int, int] | None = None
        self._left: Counter[str] = Counter()  # records of each run that are in the past
        self._is_reading = False
        self._past: list[Record] = []  # the first is the last of the list
        self._is_sorted = True
        self._is_beginning = True
        given: object = getattr(records, "records", records)
        if isinstance(given, StoredFirst):
            sink = Sink(self._take, self._fail, noop)
            self._stored = 0, 0
            self._source.add(given.follow(sink, self, self._clock))
        elif isinstance(given, Observable):
            self._follow(cast("Observable[Record | Records]", given), self._take_any)
        else:
            self._follow(merge_runs(cast("Iterable[Records]", given)), self._take)
        self._is_beginning = False

    def __repr__(self) -> str:
        return f"Board({self.dashboard.title!r}, {len(self._cells)} panels)"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002 - as IPython calls it
        """The board as it is now, for a notebook; `rxworker.ui.jupyter.display_board` draws it while it changes."""
        from rxworker.boards.drawing import board_html  # few programs are notebooks

        html = board_html(self.dashboard.title, self.dashboard.panels, self.states)
        return {"text/plain": repr(self), "text/html": html}

    @property
    def states(self) -> tuple[PanelState, ...]:
        """What the panels show now, in order."""
        return tuple(self._state(cell) for cell in self._cells.values())

    def soon(self) -> tuple[PanelState, ...]:
        """As `states`, but if there is much that was there already, without the rest of it.

        It is among the changes that follow.
        """
        self._take_past(TURN)
        if not self._past:
            return self.states
        reading = self.reading
        return tuple(self._shown_of(cell, reading) for cell in self._cells.values())

    @property
    def reading(self) -> tuple[int, int] | None:
        """How many of the stored runs are read, and how many there are.

        ``None`` when all are, and the panels show everything. See `PanelState`.
        """
        if self._stored is not None or not self._past:
            return self._stored
        return sum(not left for left in self._left.values()), len(self._left)

    def state(self, name: str) -> PanelState:
        """What a panel shows now.

        Raises:
            ConfigurationError: There is no such panel.
        """
        return self._state(self._cell(name))

    def xray(self, name: str) -> XRay[Record, Any]:
        """The operators of a panel, all its groups together: which of them is slow, lags, or has raised.

        Raises:
            ConfigurationError: There is no such panel, or the board was made without ``xray=True``.
        """
        pipeline = self._cell(name).panel.pipeline
        if isinstance(pipeline, XRay):
            return cast("XRay[Record, Any]", pipeline)
        raise ConfigurationError("the operators of this board are not counted: use show(records, xray=True)")

    def dispose(self) -> None:
        """Compute no more. No run is affected."""
        self._is_over = True
        self._source.dispose()
        self._timer.dispose()
        self._take_past()
        for cell in self._cells.values():
            cell.dispose()
        self.changes.on_completed()
        self.alerts.on_completed()

    def _cell(self, name: str) -> Cell:
        if (cell := self._cells.get(name)) is None:
            known = ", ".join(self._cells)
            raise ConfigurationError(f"the board has no panel {name!r}{nearest(name, self._cells)}; it has {known}")
        return cell

    def _now(self) -> float:
        return self._clock.to_seconds(self._clock.now)

    def _state(self, cell: Cell) -> PanelState:
        self._take_past()
        self._move_to(self._now())
        return self._shown_of(cell, self.reading)

    def _shown_of(self, cell: Cell, reading: tuple[int, int] | None) -> PanelState:
        if reading is None:
            return cell.state
        return replace(self._recent.get(cell.panel.name) or cell.state, reading=reading)

    def take_stored(self, record: Record) -> None:
        """Take a stored record, in the order of the times of all."""
        if not self._is_over:
            self._fold.take(record)

    def note_progress(self, read: int, total: int) -> None:
        """Note how many stored runs are read, and how many there are; 0 of 0 when nothing is left to be read."""
        self._stored = (read, total) if read < total else None
        if self._stored is None:
            self._recent = {}
            if self._fold.last:
                self._note(self._fold.last)
        self._wake(self._last + self._every)

    def recent(self, since: float) -> Fold:
        """Its panels over the records since a time, which it shows with `show_recent`.

        Until all stored records are taken.
        """
        return Fold(replace(self.dashboard, selection=replace(self.dashboard.selection, since=since)), noop)

    def show_recent(self, states: Sequence[PanelState], since: float) -> None:
        """Show what the panels show of the records since a time."""
        self._recent = {each.panel: replace(each, since=since) for each in states}
        self._wake(self._last + self._every)

    def _follow(self, source: Observable[A], take: Callable[[A], None]) -> None:
        self._source.add(connect(source, Sink(take, self._fail, noop), self._clock))

    def _take_any(self, item: Record | Records) -> None:
        """Take a record, or a run of an observable of runs."""
        if isinstance(item, Record):
            self._take(item)
        else:
            self._runs.on_next(item)

    def _take(self, record: Record) -> None:
        # No timer of before a record that no panel reads may subscribe to it.
        is_unread = record.event.__class__ in self._unread and not (self._past or self._fold.clock.has_due(record.time))
        if self._is_over or is_unread:
            return
        if self._note(record.time) or self._is_beginning or self._past:
            self._past.append(record)
            self._left[record.run_id] += 1
            self._is_sorted = False
        else:
            self._fold.take(record)
        self._wake(self._last + self._every)

    def _note(self, time: float) -> bool:
        """Let the clocks wait while a history is read. Returns whether a record of this time is of one."""
        now = self._now()
        is_old = time < now - LATE
        if is_old or self._reads_until == NEVER:
            self._reads_until = now + LATE if is_old else now
        return is_old

    def _take_past(self, seconds: float = NEVER) -> None:
        """Take what was there already, which comes run after run, in the order of its times.

        The runs may have run at the same time. At most for so many seconds.
        """
        past = self._past
        if not self._is_sorted:
            past.sort(key=IN_ORDER, reverse=True)
            self._is_sorted = True
        end = perf_counter() + seconds
        while past:
            record = past.pop()
            self._left[record.run_id] -= 1
            self._fold.take(record)
            if perf_counter() > end:
                return

    def _move_to(self, now: float) -> None:
        """Run what is due, unless a history is read: also if nothing of it was for the panels for a while."""
        if now >= self._reads_until and self._stored is None:
            self._fold.move_to(now)

    def _fail(self, error: Exception) -> None:
        self.error = error
        logger.warning("the records of the board %s have failed: %s", self.dashboard.name, error)
        self._flush()
        self.dispose()

    def _alert(self, change: AlertChange) -> None:
        key = change.panel, change.group
        self._earlier.pop(key, None)
        if change.time >= self._began:
            self._report(change)
        else:
            self._earlier[key] = change

    def _report(self, change: AlertChange) -> None:
        name, unit = one_name(change), self._cell(change.panel).panel.unit
        value = NOT_KNOWN if change.value is None else number(change.value, unit)
        if change.is_firing:
            logger.warning("%s is beyond its limit: %s", name, value, extra={"panel": change.panel})
        else:
            logger.info("%s is within its limit: %s", name, value, extra={"panel": change.panel})
        self._push(self.alerts, change)

    def _push(self, target: Source[A], item: A) -> None:
        """Push to observers, none of which can stop the board."""
        try:
            target.on_next(item)
        except Exception:
            logger.warning("an observer of the board %s failed", self.dashboard.name, exc_info=True)

    def _wake(self, time: float) -> None:
        """Show what has changed, then or before."""
        if self._wakes_at is None or time < self._wakes_at:
            self._wakes_at = time
            self._timer.put(self._clock.schedule_relative(max(time - self._now(), 0.0), self._flush))

    def _flush(self, *_: Any) -> None:
        self._wakes_at, now = None, self._now()
        self._take_past(TURN)
        if self._past:
            self._reads_until = max(self._reads_until, now + LATE)
            if now < self._last + self._every:
                self._wake(now)
                return
        self._last = now
        reading, was_reading = self.reading, self._is_reading
        self._is_reading = reading is not None
        self._move_to(now)
        for name, cell in self._cells.items():
            if cell.values.version != self._shown[name] or was_reading or self._is_reading:
                self._shown[name] = cell.values.version
                self._push(self.changes, self._shown_of(cell, reading))
        due = self._fold.due
        dues = [] if due is None else [due]
        if self._earlier and now >= self._reads_until:
            earlier, self._earlier = self._earlier, {}
            for change in earlier.values():
                self._report(change)
        elif self._earlier:
            dues.append(self._reads_until)
        if self._past:
            self._wake(now)
        elif dues and not self._is_over and self._stored is None:  # what reads the stored records wakes it
            self._wake(max(min(dues), now + self._every, self._reads_until))
