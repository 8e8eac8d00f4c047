"""Copying runs: to lines of JSON and back, and to a fork that goes another way."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from rxworker.errors import LogError, describe
from rxworker.events import Custom, Fork, MessageAdd, Opaque, Record, RunResume, ToolOutput, ToolStart, ToolStop
from rxworker.hub.history import expand
from rxworker.log.base import EventLog
from rxworker.log.format import (
    Entry,
    entries_of,
    kind_of,
    private_of,
    read_line,
    record_of,
    records_of,
    round_time,
    without_results,
    write_line,
)
from rxworker.log.values import ENDED, OPEN, RunRow, is_storable, new_id, recorded_labels, with_figures
from rxworker.messages import ToolResult
from rxworker.state import fold_run

MANY = 500
"""How many entries are written in one transaction."""


class _Head(Struct, frozen=True):
    run_id: str = field(name="run")
    row: RunRow


async def export_run(log: EventLog, run_id: str) -> AsyncIterator[bytes]:
    r"""A run as lines of JSON, each with its newline: a head with its id and its last values, then its entries.

    The lines contain everything but results that ``after_tool_call`` hooks have not seen yet. A codec is not applied to
    them.

    Args:
        log: The log of the run.
        run_id: The run's id.

    Raises:
        LogError: There is no such run, or the log cannot be read.

    Example:
        >>> import asyncio, tempfile
        >>> from pathlib import Path
        >>> from rxworker import Worker
        >>> from rxworker.log import MemoryLog
        >>> from rxworker.testing import ScriptedModel
        >>> async def main(path: Path) -> None:
        ...     async with MemoryLog() as log, MemoryLog() as other:
        ...         run = Worker(ScriptedModel(["Fine."]), log=log).run("How are you?")
        ...         await run
        ...         with path.open("wb") as file:
        ...             file.writelines([line async for line in export_run(log, run.id)])
        ...         with path.open("rb") as file:
        ...             print(await import_run(other, file) == run.id)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     asyncio.run(main(Path(folder, "run.jsonl")))
        True
    """
    info = await log.existing(run_id)
    yield msgspec.json.encode(_Head(run_id, replace(info.row, held={}))) + b"\n"
    async for entry in log.read(run_id):
        yield write_line(without_results(entry)) + b"\n"


async def import_run(log: EventLog, lines: Iterable[bytes | str]) -> str:
    """Store a run that was exported.

    Everything in it is checked first: what is stored can be shown, searched and copied.

    Args:
        log: The log to write to.
        lines: The lines of `export_run`, such as those of a file. Empty lines are ignored.

    Returns:
        The id of the run. One that has not ended is continued only by ``worker.recover`` with its id, not by
        `recover_all`. Nothing is allowed in it: the hooks run for all its calls, and what a person had approved needs
        approval again.

    Raises:
        LogError: The lines are not a run, a number is missing, or the log has a run with this id. Nothing was stored.
    """
    head: _Head | None = None
    entries: list[Entry] = []
    records: list[Record] = []
    after = 0
    for number, line in enumerate(_split(lines), 1):
        if not line.strip():
            continue
        try:
            if head is None:
                head = _read_head(line)
                continue
            entry = read_line(line)
            if entry.first == after + 1:
                records.append(_check_entry(entry, head.run_id))
        except LogError as error:
            is_joined = "trailing characters" in str(error)
            cause = ". It has several lines in one: write each with its newline" if is_joined else ""
            raise LogError(f"line {number} of the exported run: {error}{cause}") from error
        if entry.first != after + 1:
            raise LogError(f"the exported run {head.run_id} lacks record {after + 1}: line {number} has {entry.first}")
        after = entry.last
        entries.append(entry)
    if head is None or not entries:
        raise LogError("this is not an exported run: give all lines of export_run, a head and at least one record")
    try:
        status = fold_run(records).status
    except Exception as error:  # of whatever record is in a place where it cannot be
        raise LogError(f"the records of the exported run {head.run_id} make no run: {describe(error)}") from error
    if head.row.status in OPEN and status in ENDED:
        raise LogError(
            f"the exported run {head.run_id} is {status} by its records, and {head.row.status} by its head: export it "
            "again"
        )
    end, ended = 0, 0.0
    if head.row.status in ENDED:
        last = next((each for each in reversed(records) if not isinstance(each.event, Custom)), records[-1])
        # Annotations follow its end.
        end, ended = last.seq if last is not records[-1] else 0, last.time
    # A permission belongs to the run that it was given to, and a file may contain any. Commands are numbered anew.
    row = replace(
        head.row,
        allowed=(),
        imported=after,
        held={},
        wakes=min(head.row.wakes, 1),
        end=end,
        began=min(each.time for each in records),
        ended=ended,
    )
    await _store(log, head.run_id, row, entries)
    return head.run_id


def _split(lines: Iterable[bytes | str]) -> Iterable[bytes | str]:
    """The lines, also of a whole file in one piece.

    Texts in JSON may contain all line breaks of Unicode but this one.
    """
    if isinstance(lines, str):
        return lines.split("\n")
    return lines.split(b"\n") if isinstance(lines, bytes) else lines


def _read_head(line: bytes | str) -> _Head:
    try:
        head = msgspec.json.decode(line, type=_Head)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise LogError(f"this is not an exported run: {error}") from error
    if not is_storable(head.run_id) or head.row.status == "deleted":
        raise LogError(f"this is not an exported run: its id is {head.run_id!r}, and its status {head.row.status}")
    return head


def _check_entry(entry: Entry, run_id: str) -> Record:
    """The record of an entry, whose parts have to fit each other.

    Raises:
        LogError: They do not.
    """
    if entry.body[:1] != b"{":
        raise LogError(f"record {entry.first} is encoded: export runs from a log with its codec=")
    record = record_of(entry, run_id)
    private_of(entry, run_id)
    event: Any = record.event
    kind = kind_of(event)
    if kind != entry.kind and not isinstance(event, Opaque):
        raise LogError(f"record {entry.first} is a {kind}, and was stored as a {entry.kind}")
    return record


async def fork_run(
    log: EventLog, run_id: str, seq: int, *, name: str = "", labels: Mapping[str, str] | None = None
) -> str:
    """Copy a run up to a record into a new run, which another process or `recover_all` then continues differently.

    Args:
        log: The log of the run, and of the new one.
        run_id: The id of the run.
        seq: The number of the last record to copy.
        name: The id of the new run; by default one is made.
        labels: The labels of the new run; by default those of the source.

    Returns:
        The id of the new run. It is cut off, so that ``worker.recover`` continues it. The keys of its tool calls differ
        from those of the source. Nothing is allowed in it, and what a person has approved in the source needs approval
        again.

    Raises:
        LogError: There is no such run or record, or the log cannot be read or written.
    """
    info = await log.existing(run_id)
    entries: list[Entry] = []
    later: list[Entry] = []
    async for entry in log.read(run_id):
        if entry.first <= seq:
            entries.append(entry)
        elif entry.kind in RESULTS:
            later.append(entry)
    if not entries or entries[-1].last < seq:
        raise LogError(f"{run_id} cannot be forked at record {seq}: it has {info.last_seq} records")
    if entries[-1].last > seq:
        span = entries.pop()
        some = [record for record in expand(record_of(span, run_id)) if record.seq <= seq]
        entries += entries_of(some, span.epoch)
    new = name or new_id()
    given = dict(info.row.labels if labels is None else labels)
    last = record_of(entries[-1], run_id)
    begin = Fork(run_id, seq, recorded_labels(given), info.row.worker)
    fork = Record(seq + 1, new, last.turn, last.attempt, round_time(time.time()), begin)
    state = fold_run(records_of(entries, run_id))
    copied, of_source = with_figures(RunRow(), state), info.row
    row = replace(
        copied,
        title=of_source.title,
        worker=of_source.worker,
        priority=of_source.priority,
        labels=given,
        fork_of=run_id,
        copied=copied,
        held=_results_at(entries, later, of_source, run_id),
    )
    await _store(log, new, row, [*entries, *entries_of([fork], 1)])
    return new


STEPS = ("run_resume", "turn_start", "attempt_retract", "message_add")
RESULTS = frozenset({*STEPS, "tool_start", "tool_stop", "tool_output"})
"""The kinds of the entries from which the results of calls are known."""


def _results_at(entries: Sequence[Entry], later: Iterable[Entry], row: RunRow, run_id: str) -> dict[int, ToolResult]:
    """The results that a fork has from the first.

    Of calls that have ended where the hooks have not seen the results yet, and those that a person has given.

    The source keeps none of them after that. What its hooks have made of them is in the records that follow.
    """
    missing: set[int] = set()
    for record in _own(entries, run_id):
        match record.event:
            case RunResume(pause=pause):
                missing = {each.place for each in pause.calls if not each.is_approved}
            case ToolStop(place=place, result=None):
                missing.add(place)
            case ToolStart(place=place) | ToolStop(place=place) | ToolOutput(place=place):
                missing.discard(place)
            case _:
                missing.clear()
    found: dict[int, ToolResult] = {}
    for record in _own(later, run_id) if missing else ():
        match record.event:
            case ToolStart(place=place):
                missing.discard(place)
            case ToolStop(place=place, result=ToolResult() as result) | ToolOutput(result=result, place=place):
                if place in missing:
                    found[place] = result
            case ToolStop():
                pass
            case _:
                return found
    return {place: result for place, result in row.held.items() if place in missing} | found


def _own(entries: Iterable[Entry], run_id: str) -> Iterator[Record]:
    records = (record_of(entry, run_id) for entry in entries if entry.kind in RESULTS)
    for record in records:
        # A message of a hook may come between the results.
        is_message = isinstance(record.event, MessageAdd) and record.event.source != "tools"
        if not record.path and not is_message:
            yield record


async def _store(log: EventLog, run_id: str, row: RunRow, entries: list[Entry]) -> None:
    claim = await log.claim(run_id, create=True, row=row)
    try:
        after = 0
        for start in range(0, len(entries), MANY):
            some = entries[start : start + MANY]
            is_last = start + MANY >= len(entries)
            await log.append(claim, some, after=after, row=row if is_last else None, durable=is_last)
            after = some[-1].last
    finally:
        await log.release(claim)
    if row.status in OPEN and not row.imported:
        await log.call_worker(row.worker)
