"""What a panel shows of the values that its pipelines emit: numbers, their courses and alerts, rows and texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Any, cast

import msgspec
from msgspec import Struct
from reactivex import abc

from rxworker.boards.clock import PanelClock, RecordClock
from rxworker.boards.panel import (
    BETWEEN,
    LONGEST,
    NUMBERS,
    TABLES,
    AlertChange,
    Group,
    JointGroup,
    Panel,
    PanelState,
    Partial,
    Shown,
    column_of,
)
from rxworker.errors import ConfigurationError
from rxworker.events import Record
from rxworker.messages import JsonObject
from rxworker.operators import Span
from rxworker.operators.kernel import NOTHING

MAX_GROUPS = 100
"""The maximum number of groups that are shown.

Of numbers, all further ones are counted together as `OTHERS`; of others, those with the last records are shown.
"""
OTHERS = "others"
MAX_EMITTED = 1_000_000
"""How many values a pipeline may emit at once: one that never ends would stop all that the event loop does."""
MAX_ROWS = 200
"""The maximum number of rows, and of spans; the oldest are dropped."""
MAX_POINTS = 300
"""The maximum number of points of a line. Above it the line gets coarser."""
MAX_OF_STEP = 3
"""How many points a step of a line has, at most."""
FINEST = 0.05
"""Seconds between two points of a line, at least."""
_PLAIN = frozenset({int, float})


class Series:
    """The course of a number, in at most `MAX_POINTS` points.

    The least, the greatest and the last value of each step, which is doubled as the line gets longer.

    >>> series = Series()
    >>> for at in range(1000):
    ...     series.add(float(at), 7 if at == 501 else at % 2)
    >>> len(series.points) <= MAX_POINTS, series.points[-1], max(value for _, value in series.points)
    (True, (999.0, 1), 7)
    """

    __slots__ = ("_begin", "_step", "points")

    def __init__(self) -> None:
        self._step = FINEST
        self._begin = 0
        self.points: list[tuple[float, float]] = []

    def add(self, time: float, value: float) -> None:
        """Add a point, not before the last one."""
        points = self.points
        if points and points[-1][0] // self._step != time // self._step:
            self._begin = len(points)  # of the step
        points.append((time, value))
        if len(points) - self._begin > MAX_OF_STEP:
            points[self._begin :] = _outline(points[self._begin :])
        if len(points) > MAX_POINTS:
            self._step = max(2 * self._step, 2 * MAX_OF_STEP * (time - points[0][0]) / MAX_POINTS)
            steps: dict[float, list[tuple[float, float]]] = {}
            for point in points:
                steps.setdefault(point[0] // self._step, []).append(point)
            outlines = [_outline(each) for each in steps.values()]
            self.points = [point for each in outlines for point in each]
            self._begin = len(self.points) - len(outlines[-1])


def _outline(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The least, the greatest and the last of the points of a step, in their order."""
    places = range(len(points))
    kept = {min(places, key=lambda at: points[at][1]), max(places, key=lambda at: points[at][1]), len(points) - 1}
    return [points[at] for at in sorted(kept)]


class _Alerts:
    """The values of a panel that are beyond its limit, and those that are about to be."""

    def __init__(self, panel: Panel, clock: PanelClock, report: Callable[[str, float, bool], None]) -> None:
        self._alert = panel.alert
        self._clock = clock
        self._report = report
        self._since: dict[str, abc.DisposableBase] = {}
        self.firing: dict[str, float] = {}

    def take(self, key: str, number: float | None, cause: float, *, is_whole: bool) -> None:
        """Take a value of the moment ``cause``. One that is not known, or not whole, may be beyond the limit."""
        alert = self._alert
        if alert is None:
            return
        if number is not None and is_whole and not alert.matches(number):
            self.end(key, cause)
        elif key not in self._since:
            self._since[key] = NOTHING
            due = cause + alert.lasting
            if alert.lasting:
                fire = partial(self._fire, key, due)
                self._since[key] = self._clock.schedule_absolute(self._clock.to_datetime(due), fire)
            else:
                self._fire(key, due)

    def end(self, key: str, cause: float) -> None:
        """The value is not beyond the limit."""
        if (waiting := self._since.pop(key, None)) is not None:
            waiting.dispose()
        if self.firing.pop(key, None) is not None:
            self._report(key, cause, False)

    def _fire(self, key: str, time: float, *_: object) -> None:
        self.firing[key] = time
        self._report(key, time, True)


class Values:
    """What the pipelines of a panel have emitted, as its view shows it.

    Args:
        panel: The panel.
        group: The group of a record, as it has begun.
        clock: The clock of the board.
        timers: The clock of the panel, for its alert.
        on_alert: Called when a value has gone beyond the limit, or come back.
        board: The name of its dashboard, for alerts.

    Attributes:
        version: How often what is shown has changed.
        emitted: How many values were emitted since the last record or timer.
        error: What has stopped a pipeline.
        on_made: Called with the name of a group, or of a number, and the record that has made a value of it.
    """

    def __init__(
        self,
        panel: Panel,
        group: Group | None,
        clock: RecordClock,
        timers: PanelClock,
        on_alert: Callable[[AlertChange], object],
        board: str,
    ) -> None:
        self._panel, self._group, self._clock = panel, group, clock
        self._on_alert, self._board = on_alert, board
        self.on_made: Callable[[str, Record], object] | None = None
        self.version = self.emitted = 0
        self.error = ""
        self._changed = 0.0
        self._is_number = panel.view in NUMBERS
        self._has_course = panel.view in ("line", "area")
        self._needs_each = self._has_course or group is not None or panel.alert is not None
        self._values: dict[str, Any] = {}
        self._keys: dict[str, tuple[str, ...]] = {}
        self._missing: dict[str, tuple[str, ...]] = {}
        self._series: dict[str, Series] = {}
        self._alerts = _Alerts(panel, timers, self._report)

    @property
    def shows_last(self) -> bool:
        """Whether it only needs the last value that is emitted at a moment."""
        return self._is_number and not self._needs_each and self.on_made is None

    def state(self, groups: Iterable[str]) -> PanelState:
        """What the panel shows, with its groups in the order of their last records."""
        return PanelState(
            self._panel.name,
            round(self._changed, 6),  # as a date has it
            self._shown(groups),
            {name: [*series.points] for name, series in self._series.items()},
            {**self._alerts.firing},
            self.error,
            {**self._missing},
        )

    def note(self) -> None:
        """What is shown has changed."""
        self._changed = self._clock.at
        self.version += 1

    def drop(self, name: str) -> None:
        """Show a group no more."""
        self._values.pop(name, None)

    def put(self, name: str, value: object) -> None:
        """Take what the pipeline of a group has emitted."""
        panel = self._panel
        self.emitted += 1
        if self.emitted > MAX_EMITTED:
            raise ConfigurationError("the pipeline emits without end: give it a period above 0")
        if self._is_number:
            if value.__class__ not in _PLAIN or self._missing:
                self._put_numbers(name, value)
            elif self.shows_last and isfinite(cast("float", value)):  # as for nearly every delta
                self._values[name] = value
            else:
                self._put_number(name, value)
        elif panel.view in TABLES:
            self._put_rows(name, value)
        elif panel.view == "lane":
            self._add_row(_span_row(name, value, panel))
        elif isinstance(value, str):
            self._values[name] = value
        else:
            raise misfit(panel, value, "texts")
        if not self._is_number:
            self._note_maker(name)
        self.note()

    def _put_numbers(self, name: str, value: object) -> None:
        missing: tuple[str, ...] = ()
        if isinstance(value, Partial):
            value, missing = cast("object", value.value), value.missing
            self._missing[name] = missing
        else:
            self._missing.pop(name, None)
        if not isinstance(value, Mapping):
            self._put_number(name, value, is_whole=not missing)
            return
        given = cast("Mapping[object, object]", value)
        if self._put_plain(given):
            return
        found = self._greatest(given, missing)
        is_grouped = self._panel.group is not None
        if is_grouped:
            found = {f"{name}: {key}": number for key, number in found.items()}
        known = self._keys.get(name, ()) if is_grouped else self._values
        for gone in [key for key in known if key not in found]:
            self._alerts.end(gone, self._cause)
            del self._values[gone]
        self._keys[name] = (*found,)
        for key, number in found.items():
            self._put_number(key, number, is_whole=not missing)

    def _put_plain(self, given: Mapping[object, object]) -> bool:
        """Show numbers by name, if none needs a look of its own: bars over time emit dozens of them at each record."""
        if not self.shows_last or not 0 < len(given) <= MAX_GROUPS:
            return False  # as `_greatest` and `_put_number` take each
        if not {*map(type, given.values())} <= _PLAIN or {*map(type, given)} != {str}:
            return False
        found = cast("dict[str, float]", given)
        if not isfinite(sum(found.values())) or max(map(len, found)) > LONGEST:
            return False
        for gone in self._values.keys() - found.keys():
            del self._values[gone]
        self._values.update(found)
        return True

    def _put_number(self, key: str, value: object, *, is_whole: bool = True) -> None:
        """Show a number; ``None`` is one that is not known, if it is not whole."""
        number = None if value is None and not is_whole else _number(self._panel, value)
        if self.on_made is not None and (key not in self._values or self._values[key] != number):
            self._note_maker(key)
        self._values[key] = number
        if self._has_course and number is not None:
            self._add_point(key, self._clock.seconds, number)
        if self._panel.alert is not None:
            self._alerts.take(key, number, self._cause, is_whole=is_whole)

    def _note_maker(self, key: str) -> None:
        if self.on_made is not None and self._clock.record is not None:
            self.on_made(key, self._clock.record)

    @property
    def _cause(self) -> float:
        """The time of the record that is taken, also if the clock was past it when it came; else that of the timer."""
        record = self._clock.record
        return self._clock.seconds if record is None else record.time

    def _greatest(self, given: Mapping[object, object], missing: tuple[str, ...]) -> dict[str, float | None]:
        """The numbers by name; those beyond the limit as one, which is their sum."""
        panel = self._panel
        found: dict[str, float | None] = {}
        for key, each in given.items():
            name = str(key)[:LONGEST]
            number = None if each is None and missing else _number(panel, each)
            found[name] = _sum(found[name], number) if name in found else number  # of a name that is cut
        names = found.keys() - {OTHERS}
        if len(names) <= MAX_GROUPS:
            return found
        # Of equal ones the first by name, so that they do not take turns.
        others = {*sorted(names, key=lambda name: (-(found[name] or 0), name))[MAX_GROUPS:]}
        rest: float | None = found.pop(OTHERS, 0)
        for name in others:
            rest = _sum(rest, found[name])
        kept = {name: number for name, number in found.items() if name not in others}
        return {**kept, OTHERS: _number(panel, rest)}

    def _add_point(self, key: str, now: float, number: float) -> None:
        series = self._series
        if key not in series and len(series) > MAX_GROUPS:
            if (gone := next((name for name in series if name not in self._values), None)) is None:
                return
            del series[gone]
        series.setdefault(key, Series()).add(now, number)

    def _report(self, key: str, time: float, is_firing: bool) -> None:
        if is_firing:
            self.note()
        value, missing = self._values[key], self._missing.get(key, ())
        self._on_alert(AlertChange(self._panel.name, time, value, is_firing, key, self._board, missing))

    def _put_rows(self, name: str, value: object) -> None:
        is_several = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        given = cast("Sequence[object]", value if is_several else (value,))[-MAX_ROWS:]
        rows = [self._of_group(name, _row(self._panel, each)) for each in given]
        if is_several or self._panel.group is not None:
            self._values[name] = rows
        else:
            self._add_row(rows[0])

    def _of_group(self, name: str, row: JsonObject) -> JsonObject:
        """A row with a column of the name of its group, or of each of its groups, unless it has such a column."""
        group = self._group
        if group is None:
            return row
        is_joint = isinstance(group, JointGroup)
        columns = zip(group.columns, name.split(BETWEEN), strict=False) if is_joint else ((column_of(group), name),)
        return {**{column: each for column, each in columns if column not in row}, **row}

    def _add_row(self, row: JsonObject) -> None:
        rows = self._values.setdefault("", [])
        rows.append(row)
        del rows[:-MAX_ROWS]

    def _shown(self, groups: Iterable[str]) -> Shown:
        panel, values = self._panel, self._values
        if not self._is_number and len(values) > MAX_GROUPS:
            last = {*[name for name in groups if name in values][-MAX_GROUPS:]}
            values = {name: value for name, value in values.items() if name in last}
        if panel.view in TABLES or panel.view == "lane":
            rows: list[JsonObject] = [row for each in values.values() for row in each]
            return rows[-MAX_ROWS:] if self._changed else None
        if "" in values and panel.group is None:
            return values[""]
        return {**values} if values else None


def _number(panel: Panel, value: object) -> float:
    if not isinstance(value, (int, float)):  # a union is made anew each time
        raise misfit(panel, value, "numbers")
    if not isfinite(value):
        raise ConfigurationError(f"the pipeline emitted {value}: emit a finite number")
    return value


def _sum(one: float | None, other: float | None) -> float | None:
    """The sum of two numbers, which is not known if one of them is not."""
    return None if one is None or other is None else one + other


def _row(panel: Panel, value: object) -> JsonObject:
    if not isinstance(value, Struct | Mapping):
        raise misfit(panel, value, "Structs or mappings, or a sequence of them")
    # As a dict, also a mapping of another class, and a Struct that is written as an array.
    given: object = (
        dict(cast("Mapping[object, object]", value))
        if isinstance(value, Mapping)
        else msgspec.structs.asdict(value)
        if value.__struct_config__.array_like
        else value
    )
    return cast("JsonObject", msgspec.to_builtins(given, str_keys=True, enc_hook=str))


def _span_row(name: str, value: object, panel: Panel) -> JsonObject:
    if not isinstance(value, Span):
        raise misfit(panel, value, "Spans")
    run = value.begin.run_id
    return {"lane": name or run, "from": value.begin.time, "to": value.end.time, "run": run}


def misfit(panel: Panel, value: object, takes: str) -> ConfigurationError:
    """The error of a value that a view does not show."""
    return ConfigurationError(
        f"the pipeline emitted a {type(value).__name__}, and the view {panel.view!r} shows {takes}: add ops.map(...), "
        "or choose another view"
    )
