from __future__ import annotations

import asyncio
from typing import Any

import pytest
import reactivex
from reactivex import operators as ops

from rxworker import Run, Timeline, Worker
from rxworker.errors import ConfigurationError
from rxworker.events import BlockStart, BlockType, Event, Record, TextDelta
from rxworker.operators import (
    events,
    fail_on_error,
    group_blocks,
    only,
    partial_values,
    split_meta,
    text_deltas,
    thinking_deltas,
    tool_inputs,
)
from rxworker.testing import ScriptedModel

VERBS: dict[str, Any] = {
    "text_deltas()": text_deltas(),
    "thinking_deltas()": thinking_deltas(),
    "tool_inputs()": tool_inputs(),
    "partial_values()": partial_values(),
    "group_blocks()": group_blocks(),
    "split_meta(...)": split_meta(ops.map(str), ops.map(str)),
    "only(TextDelta)": only(TextDelta),
    "fail_on_error()": fail_on_error(),
    "timeline": Timeline(),
}


@pytest.mark.parametrize("verb", list(VERBS))
async def test_a_verb_for_events_refuses_the_records_of_a_run(verb: str) -> None:
    run = Worker(ScriptedModel(["Hello"])).run("Hi")
    for source in (run, run.watch()):
        with pytest.raises(ConfigurationError, match=r"takes events .*run\.events\.pipe") as raised:
            source.pipe(VERBS[verb])
        assert verb in str(raised.value)
    run.events.pipe(VERBS[verb]).subscribe(on_error=print)
    run.pipe(events(), VERBS[verb]).subscribe(on_error=print)
    assert (await run).text == "Hello"


def record(event: Event) -> Record:
    return Record(1, "r", 1, 1, 0.0, event)


@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"only(TextDelta)", "fail_on_error()"}))
def test_a_verb_for_events_refuses_records_that_come_from_elsewhere(verb: str) -> None:
    source = reactivex.of(record(BlockStart(0, BlockType.TEXT)), record(TextDelta(0, "a")))
    errors: list[Exception] = []
    source.pipe(VERBS[verb]).subscribe(on_error=errors.append)
    assert [type(error) for error in errors] == [ConfigurationError]
    assert verb in str(errors[0])


async def test_a_watcher_that_is_given_records_by_a_filter_gets_the_error() -> None:
    run = Worker(ScriptedModel(["Hello"])).run("Hi")
    errors: list[Exception] = []
    filtered: Any = run.pipe(ops.filter(lambda r: r.turn == 1))
    filtered.pipe(text_deltas()).subscribe(on_error=errors.append)
    await run
    await asyncio.sleep(0)
    assert [type(error) for error in errors] == [ConfigurationError]


def test_only_takes_records_where_they_are_asked_for() -> None:
    async def main() -> int:
        run: Run[Any] = Worker(ScriptedModel(["Hello"])).run("Hi")
        seen: list[Record] = []
        run.pipe(only(Record)).subscribe(seen.append)
        await run
        return len(seen) - run.last_seq

    assert asyncio.run(main()) == 0
