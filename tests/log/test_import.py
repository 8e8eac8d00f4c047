"""Runs from files: a round trip, and what is refused, with the line and the cause."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rxworker import Worker
from rxworker.errors import LogError, RemoteProtocolError
from rxworker.log import EventLog, MemoryLog, export_run, import_run
from rxworker.protocols import decode_record
from rxworker.testing import ScriptedModel, say

Change = Callable[[list[dict[str, Any]]], Any]


async def exported() -> list[bytes]:
    async with MemoryLog() as log:
        run = Worker(ScriptedModel([say("An old silent pond.")]), log=log).run("A haiku!")
        await run
        return [line async for line in export_run(log, run.id)]


async def test_a_run_goes_through_a_file(tmp_path: Path, store: EventLog) -> None:
    path = tmp_path / "run.jsonl"
    lines = await exported()
    with path.open("wb") as file:
        file.writelines(lines)
    with path.open("rb") as file:
        run = await import_run(store, file)
    info = await store.existing(run)
    assert [info.began, info.ended] == [json.loads(lines[at])["time"] for at in (1, -1)]
    again = [line async for line in export_run(store, run)]
    assert [json.loads(line) for line in again[1:]] == [json.loads(line) for line in lines[1:]]


def as_texts(lines: list[bytes]) -> list[str]:
    return [line.decode().strip() for line in lines]


def with_empty_lines(lines: list[bytes]) -> list[bytes]:
    return [b"", *lines, b"\n"]


def as_text(lines: list[bytes]) -> str:
    return b"".join(lines).decode()


@pytest.mark.parametrize("form", [b"".join, as_text, as_texts, with_empty_lines])
async def test_lines_are_taken_in_any_form(form: Callable[[list[bytes]], Any], log: MemoryLog) -> None:
    run = await import_run(log, form(await exported()))
    assert [info.run_id for info in await log.list()] == [run]


def set_last(name: str, value: object, at: int = -1) -> Change:
    def change(lines: list[dict[str, Any]]) -> None:
        lines[at][name] = value

    return change


def drop(name: str, at: int = -1) -> Change:
    return lambda lines: lines[at].pop(name)


WRONG: dict[str, tuple[Change, str]] = {
    "no end": (set_last("last", 0), "not an entry of a log: records"),
    "an end before its begin": (set_last("last", 1), "not an entry of a log: records"),
    "a large number": (set_last("last", 2**63), "not an entry of a log: records"),
    "no time": (set_last("time", float("inf")), "not an entry"),
    "no body": (drop("body"), "not an entry"),
    "another body": (set_last("body", "AAAA"), "encoded"),
    "an empty body": (set_last("body", ""), "encoded"),
    "another kind": (set_last("kind", "turn_stop"), "is a run_stop, and was stored as a turn_stop"),
    "half a kind": (set_last("kind", "\ud83d"), "not a kind"),
    "no id": (set_last("run", "", 0), "its id is ''"),
    "a status of none": (set_last("row", {"status": "deleted"}, 0), "its status deleted"),
    "no head": (lambda lines: lines.pop(0), "not an exported run"),
    "a head alone": (lambda lines: [lines.pop() for _ in lines[1:]], "at least one record"),
    "a missing record": (lambda lines: lines.pop(2), "lacks record 2"),
    "a record twice": (lambda lines: lines.insert(2, lines[1]), "lacks record 2"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_what_is_wrong_is_refused_and_named(name: str, log: MemoryLog) -> None:
    change, message = WRONG[name]
    lines: list[dict[str, Any]] = [json.loads(line) for line in await exported()]
    change(lines)
    with pytest.raises(LogError, match=message):
        await import_run(log, [json.dumps(line) for line in lines])
    assert await log.list() == []
    assert [found async for found in log.search("")] == []


async def test_a_run_that_has_ended_by_its_records_and_goes_on_by_its_head_is_refused() -> None:
    head, *entries = await exported()
    stored = json.loads(head)
    for status in ("queued", "running"):
        stored["row"]["status"] = status
        async with MemoryLog() as log:
            with pytest.raises(LogError, match=f"is finished by its records, and {status} by"):
                await import_run(log, [json.dumps(stored), *entries])
            assert await log.list() == []


async def test_lines_without_newlines_are_explained(log: MemoryLog) -> None:
    lines = [line.strip() for line in await exported()]
    with pytest.raises(LogError, match=r"line 1 .* several lines in one: write each with its newline"):
        await import_run(log, [b"".join(lines)])


@pytest.mark.parametrize(
    "data", [b'{"seq":"x",\xff', '{"seq":"x","\ud83d"', b"[", b"[" * 5000, b"", "null", b'{"event":{"type":"owl"}']
)
def test_what_is_not_a_record_is_a_documented_error(data: Any) -> None:
    with pytest.raises(RemoteProtocolError, match="not a record"):
        decode_record(data)
