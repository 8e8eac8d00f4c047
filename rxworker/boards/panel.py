"""What a dashboard consists of: panels, each an operator over records and the way its values are shown.

Values; what computes them is a `Board`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, cast, get_args

from msgspec import Struct

from rxworker.errors import ConfigurationError, nearest
from rxworker.events import AttemptStart, ConversationCompact, Fork, Record, RunResume, RunStart
from rxworker.log.kept import conversation_of
from rxworker.messages import Json
from rxworker.messages.settings import Settings, check_number, check_plain, check_type
from rxworker.operators.factories import expect_operator
from rxworker.operators.kernel import NO_KINDS, Kinds, Operator
from rxworker.views.amounts import duration, money

A = TypeVar("A")

View: TypeAlias = Literal["number", "line", "area", "bar", "table", "heat", "lane", "text", "state"]
"""How the values of a panel are shown: see `panel`."""

Group: TypeAlias = Callable[[Record], str | None]
"""The name of the group that a record belongs to; ``None`` for a record that belongs to none."""

MAX_RUNS = 10_000
"""The maximum number of runs whose labels a group keeps: of further ones the oldest are dropped."""
LONGEST = 200
"""The maximum number of characters of the name of a group, which a model may have written; the others are cut off."""
STEP = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)Z/PT(\d+[HM])")
"""A step of time in the name of a group, an interval of ISO 8601."""
BETWEEN = " · "
"""Between the names of several groups."""


def named_kinds(group: Group | None) -> Kinds | None:
    """The classes of the events of which a group has some; ``None`` for all."""
    return getattr(group, "names", None)


def kept_kinds(group: Group | None, read: Kinds) -> Kinds | None:
    """The classes of the events that a panel has to be given, of which its pipelines read some; ``None`` for all.

    A function of the program may read any record.
    """
    if group is None:
        return read
    keeps: Kinds | None = getattr(group, "keeps", None)
    names = named_kinds(group)
    return None if keeps is None else keeps | (read if names is None else read & names)


class Known(dict[str, A]):
    """What is known of runs, by their ids: of more than `MAX_RUNS` the oldest are dropped."""

    def __setitem__(self, run: str, known: A, /) -> None:
        super().__setitem__(run, known)
        if len(self) > MAX_RUNS:
            del self[next(iter(self))]


class LabelGroup:
    """The label of the run of a record, as a group. Made by `label_of`.

    Args:
        name: The name of the label.
        default: The group of a run without it.

    Attributes:
        name: The name of the label.
        keeps: The classes of the events by which it knows the label, which it must be given.
    """

    keeps: ClassVar[Kinds] = frozenset({RunStart, RunResume, Fork})

    def __init__(self, name: str, default: str | None) -> None:
        self.name = name
        self._default = default
        self._known = Known[str | None]()

    def begin(self) -> LabelGroup:
        """One that has seen no run, for a panel that is computed."""
        return type(self)(self.name, self._default)

    def __call__(self, record: Record) -> str | None:
        """The group of the next record."""
        event = record.event
        if isinstance(event, RunStart | RunResume | Fork) and not record.path:
            self._known[record.run_id] = self._found(event)
        return self._known.get(record.run_id, self._default)

    def _found(self, first: RunStart | RunResume | Fork) -> str | None:
        return first.labels.get(self.name, self._default)


class WorkerGroup(LabelGroup):
    """The name of the worker of the run of a record, as a group. See `rxworker.panels.worker_of`."""

    def _found(self, first: RunStart | RunResume | Fork) -> str | None:
        return first.worker or self._default


class ConversationGroup(LabelGroup):
    """The conversation of the run of a record, as a group. See `rxworker.panels.conversation_of`."""

    def __call__(self, record: Record) -> str:
        """The group of the next record: a run without the label began its conversation, or resumes one that did."""
        return super().__call__(record) or conversation_of({}, record.run_id)

    def _found(self, first: RunStart | RunResume | Fork) -> str | None:
        label = super()._found(first)
        if label or not isinstance(first, RunResume):
            return label
        return self._known.get(first.resumes) or conversation_of({}, first.resumes)


class RunGroup:
    """The run of a record, as a group: a run that resumes a paused one belongs to that one.

    Made by `begin`; see `rxworker.panels.RUNS`.

    Attributes:
        keeps: As of `LabelGroup`.
    """

    name = "run"
    keeps: ClassVar[Kinds] = frozenset({RunResume})

    def __init__(self) -> None:
        self._known = Known[str]()

    def begin(self) -> RunGroup:
        """One that has seen no run, for a panel that is computed."""
        return RunGroup()

    def __call__(self, record: Record) -> str:
        """The group of the next record."""
        return self._known.get(record.run_id) or self._first(record)

    def _first(self, record: Record) -> str:
        known, run, event = self._known, record.run_id, record.event
        paused = event.resumes if isinstance(event, RunResume) and not record.path else ""
        known[run] = known.get(paused, paused) or run
        return known[run]


class ModelGroup:
    """The model of the request that a record belongs to, as a group, of each run on its own.

    See `rxworker.panels.model_of`.

    Attributes:
        keeps: As of `LabelGroup`.
    """

    name = "model"
    keeps: ClassVar[Kinds] = frozenset({AttemptStart, ConversationCompact})

    def __init__(self, known: Known[dict[tuple[str, ...], str]] | None = None) -> None:
        self._known = known

    def begin(self) -> ModelGroup:
        """One that has seen no run, for a panel that is computed."""
        return ModelGroup(Known())

    def __call__(self, record: Record) -> str | None:
        """The group of the next record."""
        event, known = record.event, self._known
        if isinstance(event, AttemptStart):
            model = event.model or UNNAMED
            if known is not None:
                known[record.run_id] = {**known.get(record.run_id, {}), record.path: model}
            return model
        if isinstance(event, ConversationCompact):
            return event.model or UNNAMED
        of_run = None if known is None else known.get(record.run_id)
        return None if of_run is None else of_run.get(record.path)


class JointGroup:
    """Several groups as one: a record belongs to it if it belongs to each of them. Made by `panel`.

    Args:
        groups: The groups.

    Attributes:
        columns: The columns of a table that have their names.
        keeps: As of `LabelGroup`; ``None`` for all, if one of the groups is a function of the program.
        names: The classes of the events of which each group has some; ``None`` for all.
    """

    def __init__(self, groups: Sequence[Group]) -> None:
        self._groups = tuple(groups)
        keeps: list[Kinds | None] = [getattr(each, "keeps", None) for each in groups]
        names = [each for each in map(named_kinds, groups) if each is not None]
        columns = [column_of(each) for each in groups]
        self.columns = tuple(f"{each}_{n}" if each in columns[:n] else each for n, each in enumerate(columns))
        self.keeps = None if None in keeps else NO_KINDS.union(*filter(None, keeps))
        self.names = names[0].intersection(*names) if names else None
        self._longest = LONGEST // len(self._groups) - len(BETWEEN)

    def begin(self) -> JointGroup:
        """One that has seen no run, for a panel that is computed."""
        return JointGroup([begun(each) for each in self._groups])

    def __call__(self, record: Record) -> str | None:
        """The group of the next record."""
        found = [group(record) for group in self._groups]  # each, since it may know later records by this one
        if None in found:
            return None
        # The separator stands between two names alone, so that a table divides them again.
        return BETWEEN.join([str(each)[: self._longest].replace(BETWEEN, " ") for each in found])


def begun(group: Group) -> Group:
    """The group for a panel that is computed, which has seen no run."""
    return group.begin() if isinstance(group, LabelGroup | RunGroup | ModelGroup | JointGroup) else group


def column_of(group: Group) -> str:
    """The column of a table that has the names of the groups: ``tenant`` for a label, ``tool`` for `tool_of`."""
    name = getattr(group, "name", None) or getattr(group, "__name__", "")
    return name.removesuffix("_of") if str(name).isidentifier() else "group"


UNNAMED = "unknown"
"""The name of a model whose request was not seen."""


class Partial(Struct, frozen=True):
    """A figure of which a part is not known, such as a cost.

    A panel of numbers shows what is known, and what is missing.

    Attributes:
        value: What is known; ``None`` if nothing is.
        missing: What is not known: the names of the models whose prices are not.

    >>> Partial(None, ("my-model",)).missing
    ('my-model',)
    """

    value: float | Mapping[str, float] | None
    missing: tuple[str, ...]


Shown: TypeAlias = float | str | Mapping[str, float | None] | Mapping[str, str] | Sequence[Mapping[str, Json]] | None
"""What a panel shows: a number or a text, one of them for each group, or rows.

A number that is not known is ``None``.
"""


class Alert(Settings, frozen=True):
    """A limit of the values of a panel. Made by `above` and `below`.

    Attributes:
        limit: The limit.
        is_above: Whether values above it are reported, and not those below it.
        lasting: For how many seconds a value must be beyond the limit.
    """

    limit: float
    is_above: bool = True
    lasting: float = 0.0

    def __post_init__(self) -> None:
        check_number("Alert(limit)", self.limit, least=float("-inf"))
        check_number("Alert(lasting)", self.lasting)

    def matches(self, value: float) -> bool:
        """Whether a value is beyond the limit."""
        return value > self.limit if self.is_above else value < self.limit


def above(limit: float, *, lasting: float = 0.0) -> Alert:
    """Report values above a limit.

    Args:
        limit: The limit.
        lasting: For how many seconds a value must be above it.

    Raises:
        ConfigurationError: An argument is not such a number.

    >>> above(0.05, lasting=60).matches(0.06)
    True
    """
    return Alert(limit, lasting=lasting)


def below(limit: float, *, lasting: float = 0.0) -> Alert:
    """Report values below a limit; see `above`.

    >>> below(10).matches(12)
    False
    """
    return Alert(limit, is_above=False, lasting=lasting)


class Panel(Struct, frozen=True):
    """A panel of a dashboard. Made by `panel`, which see.

    Attributes:
        title: The title that users see.
        pipeline: The operator.
        view: How its values are shown.
        name: Its name in addresses and metrics.
        unit: The unit of its numbers.
        group: The group of a record, if there is a pipeline for each group.
        alert: The limit of its values.
        through: A function through which each record passes before its group and the pipeline.
        width: Its columns on a page, 1 to 4; 0 for those that its view usually has.
        height: Its rows on a page, 1 to 3.
    """

    title: str
    pipeline: Operator[Record, Any]
    view: View = "number"
    name: str = ""
    unit: str = ""
    group: Group | None = None
    alert: Alert | None = None
    through: Callable[[Record], Record] | None = None
    width: int = 0
    height: int = 1


class PanelState(Struct, frozen=True, omit_defaults=True):
    """What a panel shows at a moment.

    Attributes:
        panel: The name of the panel.
        time: When it last changed, in seconds since the epoch, by the times of the records.
        value: What it shows; ``None`` before the first value.
        points: The course of a ``line`` or an ``area``: for each group, or for the empty name, pairs of a time and a
            value, the oldest first.
        alerts: The groups whose value is beyond the limit, with the time since which each has been reported; of a panel
            without groups the empty name.
        error: Why it, or one of its groups, has stopped.
        reading: While stored runs are still read: how many are, and how many there are; what is shown is that of those,
            unless there is a ``since``.
        missing: What is not known of a group, or for the empty name: the models whose prices are not; the value is
            without them.
        since: While stored runs are still read: what is shown is that of all records since then, in seconds since the
            epoch.
    """

    panel: str
    time: float = 0.0
    value: Shown = None
    points: dict[str, list[tuple[float, float]]] = {}
    alerts: dict[str, float] = {}
    error: str = ""
    missing: dict[str, tuple[str, ...]] = {}
    reading: tuple[int, int] | None = None
    since: float | None = None


class AlertChange(Struct, frozen=True):
    """A value has gone beyond the limit of its panel, or has come back.

    Attributes:
        panel: The name of the panel.
        time: When, in seconds since the epoch, by the times of the records.
        value: The value; ``None`` if it is not known.
        is_firing: Whether it is beyond the limit, or not known, so that it may be.
        group: The group; empty without groups.
        board: The name of the dashboard.
        missing: What is not known of the value; see `PanelState`.
    """

    panel: str
    time: float
    value: float | None
    is_firing: bool
    group: str = ""
    board: str = ""
    missing: tuple[str, ...] = ()


def one_name(change: AlertChange) -> str:
    r"""The panel and the group of an alert on one line of a log: a group may be any text.

    >>> one_name(AlertChange("cost", 0.0, 3.0, True, "acme\n[31mERROR"))
    'cost: acme  [31mERROR'
    """
    text = f"{change.panel}: {change.group}" if change.group else change.panel
    return "".join([each if each.isprintable() else " " for each in text])


VIEWS: tuple[View, ...] = get_args(View)
NOTHING_YET = "..."
NOT_KNOWN = "unknown"
MAX_DIGITS = 1e15
"""From this number on, only the first digits are printed."""
MAX_FLOAT = sys.float_info.max
NUMBERS = frozenset({"number", "line", "area", "bar"})
"""The views that show numbers."""
TABLES = frozenset({"table", "heat"})
"""The views that show rows of a table."""


def panel(
    title: str,
    pipeline: Operator[Record, Any],
    *,
    view: View = "number",
    unit: str = "",
    group: Group | tuple[Group, ...] | None = None,
    alert: Alert | None = None,
    name: str = "",
    width: int | None = None,
    height: int = 1,
) -> Panel:
    """A panel: an operator over records, and how its values are shown.

    The last value that the operator has emitted is shown. Its source does not complete, so that an operator that waits
    for the end, such as ``ops.count``, shows nothing: use ``ops.scan``. What each view takes:

    - ``number``: a number. ``text``: a text. ``state``: a text that is one of a few, such as a status.
    - ``line``, ``area``: a number; each is a point at the time of the board.
    - ``bar``: a number for each group, or numbers by name.
    - ``table``: a sequence of Structs or mappings, which are all rows; or one Struct or mapping, which is one more row
      or, with groups, the row of its group.
    - ``heat``: as a table, whose numbers have a colour by their size, such as a histogram for each hour.
    - ``lane``: a `Span`; each is drawn in the lane of its group.

    In place of a number, every view of numbers takes a mapping of names to numbers, which are its groups; with
    ``group=``, the names are those of the group and of the number, such as ``acme: median``. A `Partial` is a number,
    or such a mapping, of which a part is not known. Operators that look at a time, such as `rate`, need no scheduler in
    a panel.

    Args:
        title: The title that users see.
        pipeline: The operator, over the records of one run or of many.
        view: How its values are shown.
        unit: The unit of its numbers, for example ``USD`` or ``s``.
        group: The name of the group that a record belongs to. Each group has a pipeline of its own. A table has a
            column with the name, unless its rows have one. Of several, such as ``(label_of("tenant"), hour_of)``, the
            names are joined by `` · ``, a table has a column for each, and a record without one of them belongs to
            none.
        alert: A limit of its numbers: `above` or `below`.
        name: Its name in addresses and metrics; by default made from the title.
        width: Its columns on the page of a dashboard, 1 to 4; by default 1, and of tables and lanes all.
        height: Its rows there, 1 to 3.

    Raises:
        ConfigurationError: The pipeline is not an operator, there is no such view, the name is not made of letters,
            digits and dashes, an alert is on texts or rows, or the size is not one of these.

    >>> from reactivex import operators as ops
    >>> panel("Last record", ops.map(lambda record: record.seq)).name
    'last-record'
    """
    expect_operator(pipeline)
    if view not in VIEWS:
        raise ConfigurationError(f"view={view!r}: the views are {', '.join(VIEWS)}{nearest(str(view), VIEWS)}")
    if not isinstance(title, str) or not title.strip():  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
        raise ConfigurationError('a panel needs a title: panel("Cost", ...)')
    groups: Sequence[object] = cast("tuple[object, ...]", group) if isinstance(group, tuple) else [group]
    if group is not None and not (groups and all(map(callable, groups))):
        raise ConfigurationError(f"group={group!r:.60}: give a function of a record that returns the name of its group")
    check_plain("panel(group)", *groups)
    for each in groups:
        if getattr(each, "__annotations__", {}).get("return") in ("Group", Group):
            name = getattr(each, "__name__", "")
            raise ConfigurationError(f"group={name}: that makes a group and is not one: write {name}(...)")
    if isinstance(group, tuple):
        group = JointGroup(cast("Sequence[Group]", groups))
    check_type(f"the alert of panel({title!r})", alert, Alert, "alert=above(5)", optional=True)
    if alert is not None and view not in NUMBERS:
        raise ConfigurationError(f"the panel {title!r} shows no numbers: it cannot have an alert")
    if width not in (None, 1, 2, 3, 4) or height not in (1, 2, 3):
        raise ConfigurationError(f"width={width!r}, height={height!r}: a panel has 1 to 4 columns and 1 to 3 rows")
    name = read_name("panel", name, title)
    return Panel(title, pipeline, view, name, unit, group, alert, width=width or 0, height=height)


def slug(title: str) -> str:
    """A title as a name in addresses.

    >>> slug("Cost by tool (USD)")
    'cost-by-tool-usd'
    """
    return re.sub(r"[^a-z0-9]+", "-", title.casefold()).strip("-")[:80]


def number(value: object, unit: str = "") -> str:
    """A value as users see it: money, a duration, or a number with four significant digits and its unit.

    >>> number(0.00004213, "USD"), number(1234567), number(2.0, "s"), number(None)
    ('0.00004213 USD', '1,234,567', '2 s', '...')
    """
    if value is None:
        return NOTHING_YET
    if isinstance(value, bool) or not isinstance(value, int | float):
        return " ".join(str(value).split())
    if not abs(value) < MAX_DIGITS:
        if isinstance(value, int):  # which may be greater than any float
            value = min(max(value, -MAX_FLOAT), MAX_FLOAT)
        text = f"{value:.4g}"
    elif unit == "s":
        return duration(value).replace(".0 s", " s")
    elif re.fullmatch("[A-Z]{3}", unit):
        return money(value, unit)
    elif abs(value) >= 1000 or float(value).is_integer():
        text = f"{value:,.0f}"
    else:
        text = f"{Decimal(f'{value:.4g}'):f}"
    return f"{text} {unit}".rstrip()


def read_name(what: str, name: str, title: str) -> str:
    """The name in addresses: the given one, or that of the title.

    Raises:
        ConfigurationError: It is not made of letters, digits and dashes.

    >>> read_name("panel", "", "Cost by tool")
    'cost-by-tool'
    """
    name = name or slug(title)
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,79}", name):
        raise ConfigurationError(f"name={name!r}: give the {what} {title!r} a name of a-z, 0-9 and dashes")
    return name
