"""What the type checker refuses: a verb for events over records, one for records over events, and either over texts.

Each comment below silences one error, and pyright reports a comment that silences none.
"""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true, reportUnknownMemberType=false

from __future__ import annotations

from reactivex import Observable, abc

from rxworker import Run, Worker
from rxworker.events import Event, Ping, Record, TextDelta
from rxworker.operators import (
    coalesce,
    committed,
    events,
    fail_on_error,
    fold_scope,
    group_blocks,
    hold_back,
    lineage,
    lines,
    live,
    only,
    partial_json,
    partial_values,
    rate,
    reject,
    scan_scope,
    sentences,
    spans,
    text_deltas,
    thinking_deltas,
    tool_inputs,
    usage_changes,
)
from rxworker.testing import ScriptedModel
from rxworker.timeline import Timeline


def allow(_: str) -> bool:
    return True


def count(state: int, _: object) -> int:
    return state + 1


def name(record: Record) -> str:
    return record.run_id


def verbs_for_events(source: Observable[Record], scheduler: abc.SchedulerBase) -> None:
    source.pipe(coalesce(1.0, scheduler))  # pyright: ignore[reportArgumentType]
    source.pipe(fail_on_error())  # pyright: ignore[reportArgumentType]
    source.pipe(group_blocks())  # pyright: ignore[reportArgumentType]
    source.pipe(hold_back(allow))  # pyright: ignore[reportArgumentType]
    source.pipe(lines())  # pyright: ignore[reportArgumentType]
    source.pipe(only(TextDelta))  # pyright: ignore[reportArgumentType]
    source.pipe(only(TextDelta, Ping))  # pyright: ignore[reportArgumentType]
    source.pipe(partial_values())  # pyright: ignore[reportArgumentType]
    source.pipe(reject(Ping))  # pyright: ignore[reportArgumentType]
    source.pipe(sentences())  # pyright: ignore[reportArgumentType]
    source.pipe(text_deltas())  # pyright: ignore[reportArgumentType]
    source.pipe(thinking_deltas())  # pyright: ignore[reportArgumentType]
    source.pipe(tool_inputs())  # pyright: ignore[reportArgumentType]
    source.pipe(Timeline())  # pyright: ignore[reportArgumentType]


def verbs_for_records(source: Observable[Event]) -> None:
    source.pipe(events())  # pyright: ignore[reportArgumentType]
    source.pipe(lineage())  # pyright: ignore[reportArgumentType]
    source.pipe(spans(name, name))  # pyright: ignore[reportArgumentType]
    source.pipe(usage_changes())  # pyright: ignore[reportArgumentType]


def other_verbs(source: Observable[Event], records: Observable[Record]) -> None:
    source.pipe(scan_scope(count, 0))  # pyright: ignore[reportArgumentType]
    source.pipe(fold_scope(count, 0))  # pyright: ignore[reportArgumentType]
    source.pipe(partial_json())  # pyright: ignore[reportArgumentType]
    records.pipe(partial_json())  # pyright: ignore[reportArgumentType]


def texts(source: Observable[str], scheduler: abc.SchedulerBase) -> None:
    source.pipe(committed())  # pyright: ignore[reportArgumentType]
    source.pipe(live())  # pyright: ignore[reportArgumentType]
    source.pipe(lines())  # pyright: ignore[reportArgumentType]
    source.pipe(hold_back(allow))  # pyright: ignore[reportArgumentType]
    source.pipe(only(TextDelta))  # pyright: ignore[reportArgumentType]
    source.pipe(rate(1.0, scheduler))  # pyright: ignore[reportArgumentType]


def doors_of_a_run(run: Run[None]) -> None:
    run.pipe(lines())  # pyright: ignore[reportArgumentType]
    run.records.pipe(hold_back(allow))  # pyright: ignore[reportArgumentType]
    run.entries().pipe(only(TextDelta))  # pyright: ignore[reportArgumentType]
    run.watch().pipe(sentences())  # pyright: ignore[reportArgumentType]
    run.events.pipe(lineage())  # pyright: ignore[reportArgumentType]
    run.events.pipe(lines(), sentences(), hold_back(allow), text_deltas())
    run.pipe(events(), lines(), text_deltas())


async def test_what_is_accepted_runs() -> None:
    run = Worker(ScriptedModel(["Hi. "])).run("Hello")
    seen: list[str] = []
    run.events.pipe(lines(), sentences(), hold_back(allow), text_deltas()).subscribe(seen.append)
    await run
    assert seen == ["Hi. "]
