"""Which records a dashboard is computed over: a range of time, and filters. Pure.

Theory of operation. The records are narrowed before any operator, in the order in which they come, so that what is
shown live is what is shown when the records are folded again. A run is let in as soon as all is known by which it is
selected, with what it did until then: its labels with its first record, a model with the first request to it, a tool
with its first call, a status with the record that gives it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast, get_args

import msgspec

from rxworker import events
from rxworker.errors import ConfigurationError, nearest
from rxworker.events import Record
from rxworker.log.values import END_WORDS, OPEN, TENANT, USER, RunInfo
from rxworker.messages.settings import Settings, check_number, check_type
from rxworker.resume.stored import last_input

SelectedStatus: TypeAlias = Literal["", "finished", "failed", "cancelled", "stopped", "aborted", "paused"]
"""The status of a run that is over, or paused; empty for any."""

MAX_RUNS = 10_000
"""The maximum number of runs that are known; of further ones the oldest are dropped."""
SLACK = 60.0
"""Seconds that the first record of a run may be older than the run in the log, which is stored a little later."""
MAX_HELD = 200_000
"""The maximum number of records of runs that may be let in later; above it the oldest of these runs is left out."""


class Selection(Settings, frozen=True):
    """Which records a dashboard is computed over; by default all. Texts are found in upper and lower case.

    Attributes:
        since: Only records of this time or later, in seconds since the epoch.
        until: Only records before this time.
        labels: Only runs with these labels, such as ``{"tenant": "acme"}``.
        worker: Only runs of the worker of this name.
        model: Only runs that have sent a request to this model, without what belongs to requests to others.
        tool: Only runs that have called this tool, without the calls of others.
        status: Only runs that have got this status, with what they did until then.
        text: Only runs whose input contains each of its words.

    Raises:
        ConfigurationError: A time is not a number, ``until`` is not after ``since``, or there is no such status.

    >>> Selection(labels={"tenant": "acme"}, model="claude-sonnet-5-5").model
    'claude-sonnet-5-5'
    """

    since: float | None = None
    until: float | None = None
    labels: Mapping[str, str] = {}
    worker: str = ""
    model: str = ""
    tool: str = ""
    status: SelectedStatus = ""
    text: str = ""

    def __post_init__(self) -> None:
        for name in ("since", "until"):
            check_number(f"Selection({name})", getattr(self, name), optional=True)
            if getattr(self, name) == float("inf"):  # JSON does not have it, so that `key` were that of others
                raise ConfigurationError(f"{name}=inf: leave it out, or give seconds since the epoch")
        if self.since is not None and self.until is not None and self.until <= self.since:
            raise ConfigurationError(f"until={self.until!r} is not after since={self.since!r}: give a later time")
        check_type("Selection(labels)", self.labels, dict, 'labels={"tenant": "acme"}')
        for name in ("worker", "model", "tool", "text"):
            check_type(f"Selection({name})", getattr(self, name), str, f"{name}='...'")
        known = get_args(SelectedStatus)
        if self.status not in known:
            raise ConfigurationError(
                f"status={self.status!r:.60}: give one of {', '.join(known[1:])}{nearest(str(self.status), known)}"
            )

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def key(self) -> str:
        """The same text for equal selections, and for no others; empty for all records."""
        return "" if self == EVERYTHING else msgspec.json.encode(self, order="sorted").decode()

    @property
    def filters_runs(self) -> bool:
        """Whether it leaves out records of its time."""
        return bool(self.labels or self.worker or self.model or self.tool or self.status or self.text)

    def within(self, other: Selection) -> Selection:
        """The records of both: of a dashboard that has a selection, what a client selects.

        Raises:
            ConfigurationError: Both name a worker, a model, a tool, a status or a value of a label, and not the same;
                or there is no time that is in both.

        >>> both = Selection(model="m").within(Selection(labels={"tenant": "acme"}))
        >>> both.model, both.labels
        ('m', {'tenant': 'acme'})
        """
        since = [each for each in (self.since, other.since) if each is not None]
        until = [each for each in (self.until, other.until) if each is not None]
        ours, theirs = (_named(each) for each in (self, other))
        for name in ours.keys() & theirs.keys():
            if ours[name] != theirs[name]:
                raise ConfigurationError(f"the dashboard has another {name}: leave out this filter")
        text = " ".join(filter(None, (other.text, self.text)))
        labels, named = {**other.labels, **self.labels}, cast("Any", {**ours, **theirs})
        found = {name: named.get(name, "") for name in _NAMES}
        return Selection(max(since, default=None), min(until, default=None), labels, text=text, **found)

    def may_have(self, info: RunInfo) -> bool:
        """Whether a stored run may have such records, by what a list shows of it."""
        row = info.row
        return (
            (self.since is None or info.updated >= self.since)
            and (self.until is None or info.began - SLACK < self.until)
            and self.labels.items() <= row.labels.items()
            and self.worker in ("", row.worker)
            and (not self.status or row.status in OPEN or self.status in (row.status, END_WORDS.get(row.cause)))
        )

    def _fits(self, first: events.RunStart | events.RunResume | events.Fork) -> bool:
        """Whether a run may be selected, by its first record."""
        if not (self.labels.items() <= first.labels.items() and self.worker in ("", first.worker)):
            return False
        if not self.text:
            return True
        if isinstance(first, events.Fork):
            return False
        text = " ".join(message.text for message in last_input(first.conversation.messages)).casefold()
        return all(word in text for word in self.text.casefold().split())


_NAMES = ("worker", "model", "tool", "status")


def _named(selection: Selection) -> dict[str, str]:
    """The values that a run must have, by their names."""
    others = {name: getattr(selection, name) for name in _NAMES if getattr(selection, name)}
    return {**{f"label {name}": value for name, value in selection.labels.items()}, **others}


EVERYTHING = Selection()


def read_selection(
    filters: Iterable[tuple[str, str]], *, since: float | None = None, until: float | None = None
) -> Selection:
    """A selection from filters as a command and an address have them.

    Args:
        filters: Pairs of a name and a value: ``label`` with ``NAME=VALUE``, ``tenant``, ``user``, or an attribute.
        since: As of `Selection`.
        until: As of `Selection`.

    Raises:
        ConfigurationError: There is no such filter, one is empty, one is given twice, or as for `Selection`.

    >>> read_selection([("tenant", "acme"), ("label", "customer=c-17"), ("tool", "search")]).labels
    {'tenant': 'acme', 'customer': 'c-17'}
    """
    labels: dict[str, str] = {}
    others: dict[str, str] = {}
    for name, value in filters:
        if name not in FILTERS:
            known = ", ".join(FILTERS)
            raise ConfigurationError(f"there is no filter {name!r:.60}; give {known}{nearest(name, FILTERS)}")
        into, key, text = (labels, name, value) if name in (TENANT, USER) else (others, name, value)
        if name == "label":
            key, _, text = value.partition("=")
            into = labels
        if not key or not text:
            raise ConfigurationError(f"the filter {name}={value!r:.60} has no value: give {FILTERS[name]}")
        if into.get(key, text) != text:
            raise ConfigurationError(f"the filter {key} is given twice: give it once")
        into[key] = text
    return Selection(since, until, labels, **cast("Any", others))


FILTERS = {
    "label": "label=NAME=VALUE",
    TENANT: "tenant=NAME",
    USER: "user=NAME",
    "worker": "worker=NAME",
    "model": "model=NAME",
    "tool": "tool=NAME",
    "status": "status=failed",
    "text": "text=WORDS",
}
"""The names of filters, each with how it is given."""


@dataclass(slots=True, eq=False)
class _SelectedRun:
    """What is known of a run that may be let in.

    Attributes:
        needs: By what it is not known yet.
        held: Its records, until it is let in.
        has_ended: Whether its end was let in, which annotations may follow.
        is_left_out: Whether there was no room for its records.
        is_of_model: Whether the last request of the run, and of each inside it, was to the model, by their paths.
    """

    needs: set[str]
    held: list[Record] = field(default_factory=list[Record])
    has_ended: bool = False
    is_left_out: bool = False
    is_of_model: dict[tuple[str, ...], bool] = field(default_factory=dict[tuple[str, ...], bool])


class Selecting:
    """Lets in the records of the runs that are selected, whatever their times are.

    Args:
        selection: Which they are.
    """

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._needs = {name for name in ("model", "tool", "status") if getattr(selection, name)}
        self._runs: dict[str, _SelectedRun] = {}
        self._held = 0

    def feed(self, record: Record) -> Sequence[Record]:
        """The records that this one lets in: none, itself, or also those of its run that were held."""
        if (run := self._runs.get(record.run_id) or self._begun(record)) is None:
            return ()
        if run.is_left_out or not self._passes(run, record):
            return ()
        if not run.needs or (run.has_ended and not run.held and isinstance(record.event, events.Custom)):
            return (record,)
        run.held.append(record)
        self._held += 1
        self._note(run, record)
        if run.needs:
            if self._held > MAX_HELD:
                self._drop()
            return ()
        found, run.held = run.held, []
        self._held -= len(found)
        if self._selection.status:  # a run may be put back after its end
            run.needs, run.has_ended = {"status"}, True
        return found

    def _begun(self, record: Record) -> _SelectedRun | None:
        """A run with its first record; of another one, it is not known whether it is selected."""
        selection, event = self._selection, record.event
        if not record.path and isinstance(event, events.RunStart | events.RunResume | events.Fork):
            if not selection._fits(event):
                return None
        elif selection.labels or selection.worker or selection.text:
            return None
        run = self._runs[record.run_id] = _SelectedRun({*self._needs})
        if len(self._runs) > MAX_RUNS:
            self._let_go(self._runs.pop(next(iter(self._runs))))
        return run

    def _passes(self, run: _SelectedRun, record: Record) -> bool:
        """Whether a record belongs to no other model and no other tool."""
        selection, event = self._selection, record.event
        if selection.model:
            if isinstance(event, events.AttemptStart):
                run.is_of_model[record.path] = event.model == selection.model
            elif isinstance(event, events.TurnStart):  # its request comes later
                run.is_of_model.pop(record.path, None)
            if not run.is_of_model.get(record.path, True) and event.__class__ not in _OF_RUNS:
                return False
        if selection.tool:
            if isinstance(event, events.ToolStart):
                return event.call.name == selection.tool
            if isinstance(event, events.ToolStop):
                return event.tool == selection.tool
        return True

    def _note(self, run: _SelectedRun, record: Record) -> None:
        event = record.event
        if isinstance(event, events.AttemptStart):
            run.needs.discard("model")
        elif isinstance(event, events.ToolStart):
            run.needs.discard("tool")
        elif not record.path and isinstance(event, events.RunStop | events.RunAbort | events.RunPause):
            status = END_WORDS[event.cause] if isinstance(event, events.RunAbort) else _STATUSES[type(event)]
            if status == self._selection.status:
                run.needs.discard("status")
            if run.needs:  # it is over, and not selected
                self._let_go(run)

    def _drop(self) -> None:
        oldest = next(run for run in self._runs.values() if run.held)
        oldest.is_left_out = True
        self._let_go(oldest)

    def _let_go(self, run: _SelectedRun) -> None:
        self._held -= len(run.held)
        run.held, run.has_ended = [], False


_OF_RUNS: frozenset[type[object]] = frozenset(
    {events.RunStart, events.RunResume, events.RunRecover, events.RunRequeue}
    | {events.RunPause, events.RunStop, events.RunAbort, events.Fork}
)
_STATUSES = {events.RunStop: "finished", events.RunPause: "paused"}
