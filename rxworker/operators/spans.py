"""Durations between two records, and the relation between runs and the tool calls that started them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import Struct

from rxworker.events import Record, RunAbort, RunPause, RunResume, RunStart, RunStop, ToolStart
from rxworker.events.kinds import Deltas
from rxworker.framing import Decoder
from rxworker.messages import ToolCall
from rxworker.operators.decode import decoding
from rxworker.operators.expect import entries_given, expect_callable, refusal
from rxworker.operators.kernel import Kinds, Operator

Marker: TypeAlias = Callable[[Record], Hashable | None]
"""A name for what begins, or ends, with a record; ``None`` where nothing does."""


class Span(Struct, frozen=True):
    """From one record to another.

    Attributes:
        begin: The record that it began with.
        end: The record that it ended with.
    """

    begin: Record
    end: Record

    @property
    def seconds(self) -> float:
        """How long it was, by the times of the records."""
        return self.end.time - self.begin.time


def spans(begins: Marker, ends: Marker) -> Operator[Record, Span]:
    """Pairs each start record with the next record that ends it.

        -q---t-t-q-t-|         q begins, t ends
        [ spans(q, t) ]
        -----A-----B-|         A is from q to t, B as well

    A mark gives what begins, or ends, a name, for example the id of a call. Names of different runs, and of runs inside
    them, are kept apart. What begins again before it ended is measured from the second time. What is open when its run
    ends is dropped.

    Args:
        begins: The name of what begins with a record, or ``None``.
        ends: The name of what ends with a record, or ``None``. One record may end something and begin it again.

    Raises:
        ConfigurationError: A mark is not a function, or is a coroutine function.

    >>> from reactivex import of
    >>> from rxworker.events import AttemptStart, TextDelta
    >>> def requested(record: Record) -> str | None:
    ...     return "request" if isinstance(record.event, AttemptStart) else None
    >>> def answered(record: Record) -> str | None:
    ...     return "request" if isinstance(record.event, TextDelta) else None
    >>> def record(time: float, event: object) -> Record:
    ...     return Record(seq=1, run_id="r", turn=1, attempt=1, time=time, event=event)
    >>> records = of(record(1.0, AttemptStart()), record(1.5, TextDelta(0, "Hi")), record(1.6, TextDelta(0, "!")))
    >>> records.pipe(spans(requested, answered)).subscribe(lambda span: print(span.seconds)) and None
    0.5
    """
    expect_callable("spans(begins)", begins, "a function of a record")
    expect_callable("spans(ends)", ends, "a function of a record")

    return decoding(partial(_Spans, begins, ends), "spans(...)", begins, ends)


class _Spans(Decoder[Record, Span]):
    """The open spans, by run, and by the path of a run inside it and their name."""

    def __init__(self, begins: Marker, ends: Marker) -> None:
        self._begins = begins
        self._ends = ends
        self._open: dict[str, dict[tuple[tuple[str, ...], Hashable], Record]] = {}

    def feed(self, data: Record) -> Sequence[Span]:
        if data.__class__ is not Record:
            raise refusal("spans(...)", "records", data)
        event: Any = data.event
        if event.__class__ is Deltas:
            raise entries_given("spans(...)")
        run, path = data.run_id, data.path
        found: Sequence[Span] = ()
        name = self._ends(data)
        if name is not None:
            begin = self._open.get(run, {}).pop((path, name), None)
            if begin is not None:
                found = (Span(begin, data),)
        name = self._begins(data)
        if name is not None:
            self._open.setdefault(run, {})[path, name] = data
        if event.__class__ in _OVER:
            open_ = self._open.pop(run, {})
            if path:
                self._open[run] = {key: begin for key, begin in open_.items() if key[0] != path}
        return found


_OVER = frozenset({RunStop, RunAbort, RunPause})


Position: TypeAlias = tuple[str, tuple[str, ...]]
"""Where something stands: the id of the outermost run, and the tool calls that lead to it."""


class Link(Struct, frozen=True):
    """A run or a tool call that began, and what it came out of.

    Attributes:
        kind: ``run``: a run of its own. ``resumed``: a run that goes on from a paused one. ``call``: a tool call.
            ``inner``: a run that the tool call at its place began.
        run_id: The id of the outermost run.
        path: The tool calls that lead to it; of a call, itself the last.
        name: The tool's name, of a call.
        resumes: The id of the run that was paused.
    """

    kind: Literal["run", "resumed", "call", "inner"]
    run_id: str
    path: tuple[str, ...] = ()
    name: str = ""
    resumes: str = ""

    @property
    def place(self) -> Position:
        """Where it stands; an inner run stands where its call does."""
        return self.run_id, self.path

    @property
    def parent(self) -> Position | None:
        """Where that stands which it came out of; ``None``: out of nothing that was seen.

        >>> Link("call", "r", ("call_1", "call_2"), "look").parent
        ('r', ('call_1',))
        """
        if self.kind == "call":
            return self.run_id, self.path[:-1]
        if self.kind == "inner":
            return self.place
        return (self.resumes, ()) if self.resumes else None


def lineage() -> Operator[Record, Link]:
    """Which run and which tool call came out of which, as each begins.

        -r-c-i-k-p---s-|       r RunStart, c and k ToolStart, i RunStart within c, p RunPause, s RunResume
        [ lineage() ]
        -R-C-I-K-----S-|       C is of R, I is of C, K is of I, S goes on from R

    For the records of one run or of several, see `merge_runs`. Parents come before their children. A call that is
    started twice is emitted once. A resumed run is a run of its own.

    >>> from reactivex import of
    >>> from rxworker.messages import Conversation
    >>> def record(seq: int, event: object, *path: str) -> Record:
    ...     return Record(seq=seq, run_id="r", turn=1, attempt=1, time=0.0, event=event, path=path)
    >>> records = of(
    ...     record(1, RunStart(Conversation())),
    ...     record(2, ToolStart(ToolCall("c1", "ask_poet", {}))),
    ...     record(3, RunStart(Conversation()), "c1"),
    ...     record(4, ToolStart(ToolCall("c2", "find_rhyme", {})), "c1"),
    ... )
    >>> def show(link: Link) -> None:
    ...     print("  " * len(link.path) + (link.name or link.kind))
    >>> records.pipe(lineage()).subscribe(show) and None
    run
      ask_poet
      inner
        find_rhyme
    """
    return decoding(_Lineage, "lineage()")


class _Lineage(Decoder[Record, Link]):
    """The relations that were emitted already, for the runs that are running."""

    reads: ClassVar[Kinds]

    def __init__(self) -> None:
        self._told: dict[str, set[tuple[str, ...]]] = {}

    def feed(self, data: Record) -> Sequence[Link]:
        if data.__class__ is not Record:
            raise refusal("lineage()", "records", data)
        event = data.event
        kind = event.__class__  # every delta comes by here
        if kind not in _TELLING:
            return ()
        if isinstance(event, ToolStart):
            return self._call(data, event.call)
        if isinstance(event, RunStart):
            return (Link("inner" if data.path else "run", data.run_id, data.path),)
        if data.path:
            return ()
        if isinstance(event, RunResume):
            return (Link("resumed", data.run_id, resumes=event.resumes),)
        self._told.pop(data.run_id, None)
        return ()

    def _call(self, record: Record, call: ToolCall) -> Sequence[Link]:
        path = (*record.path, call.id)
        told = self._told.setdefault(record.run_id, set())
        if path in told:
            return ()
        told.add(path)
        return (Link("call", record.run_id, path, call.name),)


_TELLING = _Lineage.reads = frozenset({RunStart, RunResume, ToolStart, RunPause, RunStop, RunAbort})
