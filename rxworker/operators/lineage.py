"""Which run and which tool call came out of which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from rxworker.events import (
    Record,
    RunAbort,
    RunPause,
    RunResume,
    RunStart,
    RunStop,
    ToolStart,
)
from rxworker.messages import ToolCall
from rxworker.operators.decode import decode
from rxworker.operators.types import Operator

Place: TypeAlias = tuple[str, tuple[str, ...]]
"""Where something stands: the id of the outermost run, and the tool calls that lead to it."""


class Link(Struct, frozen=True):
    """A run or a tool call that began, and what it came out of.

    Attributes:
        kind: ``run``: a run of its own. ``resumed``: a run that goes on from a paused one. ``call``: a tool call. ``inner``: a run that
            the tool call at its place began.
        run: The id of the outermost run.
        path: The tool calls that lead to it; of a call, itself the last.
        name: The tool's name, of a call.
        resumes: The id of the run that was paused.
    """

    kind: Literal["run", "resumed", "call", "inner"]
    run: str
    path: tuple[str, ...] = ()
    name: str = ""
    resumes: str = ""

    @property
    def place(self) -> Place:
        """Where it stands; an inner run stands where its call does."""
        return self.run, self.path

    @property
    def parent(self) -> Place | None:
        """Where that stands which it came out of; ``None``: out of nothing that was seen.

        >>> Link("call", "r", ("call_1", "call_2"), "look").parent
        ('r', ('call_1',))
        """
        if self.kind == "call":
            return self.run, self.path[:-1]
        if self.kind == "inner":
            return self.place
        return (self.resumes, ()) if self.resumes else None


def lineage() -> Operator[Record, Link]:
    """Which run and which tool call came out of which, as each begins.

        -r-c-i-k-p---s-|       r RunStart, c and k ToolStart, i RunStart within c, p RunPause, s RunResume
        [ lineage() ]
        -R-C-I-K-----S-|       C is of R, I is of C, K is of I, S goes on from R

    For the records of one run or of several, see `merge_runs`. Parents come before their children. A call that is started twice
    is told once. A resumed run is a run of its own.

    >>> from reactivex import of
    >>> from rxworker.messages import Conversation
    >>> def record(seq: int, event: object, *path: str) -> Record:
    ...     return Record(seq=seq, run="r", turn=1, attempt=1, time=0.0, event=event, path=path)
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
    return decode(_Lineage)


class _Lineage:
    """What was told already, for the runs that are on."""

    def __init__(self) -> None:
        self._told: dict[str, set[tuple[str, ...]]] = {}

    def feed(self, data: Record) -> Sequence[Link]:
        event = data.event
        kind = event.__class__  # every delta comes by here
        if kind not in _TELLING:
            return ()
        if isinstance(event, ToolStart):
            return self._call(data, event.call)
        if isinstance(event, RunStart):
            return (Link("inner" if data.path else "run", data.run, data.path),)
        if data.path:
            return ()
        if isinstance(event, RunResume):
            return (Link("resumed", data.run, resumes=event.resumes),)
        self._told.pop(data.run, None)
        return ()

    def finish(self) -> Sequence[Link]:
        return ()

    def _call(self, record: Record, call: ToolCall) -> Sequence[Link]:
        path = (*record.path, call.id)
        told = self._told.setdefault(record.run, set())
        if path in told:
            return ()
        told.add(path)
        return (Link("call", record.run, path, call.name),)


_TELLING = frozenset({RunStart, RunResume, ToolStart, RunPause, RunStop, RunAbort})

__all__ = ["Link", "Place", "lineage"]
