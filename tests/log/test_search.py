"""A log finds runs by their texts."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import rxworker.log.sqlite as sqlite_log
from rxworker import Worker, tool
from rxworker.errors import ProviderError
from rxworker.events import Annotation, Record, TextDelta
from rxworker.log import EventLog, MemoryLog, SQLiteLog, open_log
from rxworker.log.format import entries_of
from rxworker.log.search import texts_of
from rxworker.messages import Json
from rxworker.testing import ScriptedModel, call, fail, say, think


@tool
async def look(path: str) -> str:
    """Look into a file.

    Args:
        path: The file.
    """
    return f"{path} is about 池塘 and frogs"


async def found(log: EventLog, text: str = "", tool: str = "") -> list[str]:
    return [one.info.row.title async for one in log.search(text, tool=tool)]


async def fill(log: EventLog) -> str:
    model = ScriptedModel([call("look", path="src/Pond.py"), "An old silent pond."])
    await Worker(model, tools=[look], log=log).run("A haiku!")
    run = Worker(ScriptedModel(['Rain "falls".']), log=log).run("The weather")
    await run
    return run.id


@pytest.mark.parametrize("store", ["memory", "sqlite", "postgres"])
async def test_a_search_finds_words_in_messages_answers_and_results(
    store: str, new_address: Callable[[str], str]
) -> None:
    async with MemoryLog() if store == "memory" else open_log(new_address(store)) as log:
        run = await fill(log)
        for text in ("POND", "silent old", "po", "池塘", "frog", "src/pond.py", "haiku frogs"):
            assert await found(log, text) == ["A haiku!"], text
        for text in ('"falls"', "weather rain", "we ra"):
            assert await found(log, text) == ["The weather"], text
        for text in ("snow", "pond rain", 'x" OR "pond', "%", "\0\0"):
            assert text == "\0\0" or await found(log, text) == [], text
        assert await found(log) == ["The weather", "A haiku!"]
        assert (await found(log, tool="look"), await found(log, tool="loo")) == (["A haiku!"], [])
        assert await found(log, "rain", tool="look") == []
        # What is written and deleted later is found and gone.
        await Worker(ScriptedModel(["More rain."]), log=log).run("Later")
        await log.delete(run)
        assert await found(log, "rain") == ["Later"]


async def test_the_index_is_made_by_the_first_search_and_holds_no_deleted_text(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with SQLiteLog(path) as log:
        run = await fill(log)
        with closing(sqlite3.connect(path)) as db, db:
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
            assert "search" not in tables
        assert await found(log, "rain") == ["The weather"]
        await log.delete(run)
        with closing(sqlite3.connect(path)) as db, db:
            assert db.execute("SELECT count(*) FROM search WHERE text LIKE '%rain%'").fetchone() == (0,)  # fmt: skip


class Reversed:
    def encode(self, data: bytes, run_id: str) -> bytes:
        return b"!" + data[::-1]

    def decode(self, data: bytes, run_id: str) -> bytes:
        return data[:0:-1]


def has_none(db: sqlite3.Connection) -> bool:
    del db
    return False


@pytest.mark.parametrize("why", ["codec", "no FTS5"])
async def test_a_log_that_may_or_can_have_no_index_searches_titles(
    why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why == "no FTS5":
        monkeypatch.setattr(sqlite_log, "has_full_text", has_none)
    codec = Reversed() if why == "codec" else None
    async with SQLiteLog(tmp_path / "runs.db", codec=codec) as log:
        await fill(log)
        assert await found(log, "weather") == ["The weather"]
        assert await found(log, "pond") == []
        assert await found(log, tool="look") == ["A haiku!"]
    with closing(sqlite3.connect(tmp_path / "runs.db")) as db, db:
        assert not db.execute("SELECT 1 FROM sqlite_master WHERE name='searched'").fetchone()


def text_of(records: list[Record]) -> str:
    return texts_of(entries_of(records, 1)).text


def test_what_runs_and_blocks_write_at_the_same_time_is_not_joined() -> None:
    deltas = [("a", 0, "shal"), ("b", 0, "shal"), ("a", 0, "low."), ("b", 0, "low "), ("b", 1, "sea")]
    records = [
        Record(n, "run-1", 1, 1, float(n), TextDelta(index, text), (path,))
        for n, (path, index, text) in enumerate(deltas, 1)
    ]
    assert text_of(records) == "\nshallow.\nshallow \nsea"
    again = [Record(n, "run-1", 1, n, float(n), TextDelta(0, "An old")) for n in (1, 2)]
    assert text_of(again) == "\nAn old\nAn old"  # of two attempts


def test_what_is_annotated_is_searched() -> None:
    values: list[Json] = ["dry", 5, False, ["wet", "池"], {"sea": None}]
    given = [Annotation("rating", value, "Why?", by="anna").custom for value in values]
    records = [Record(n, "run-1", 1, 1, float(n), event) for n, event in enumerate(given, 1)]
    shown = ("dry", "5", "false", '["wet", "池"]', '{"sea": null}')
    assert text_of(records) == "".join(f"\nrating\n{each}\nWhy?\nanna" for each in shown)


async def test_why_a_run_has_failed_is_searched(log: MemoryLog) -> None:
    worker = Worker(ScriptedModel([fail("too many requests", "rate_limit", retryable=False)]), log=log)
    with pytest.raises(ProviderError):
        await worker.run("Hi")
    assert await found(log, "many requests") == ["Hi"]


async def test_thinking_is_searched(log: MemoryLog) -> None:
    await Worker(ScriptedModel([think("abyss") + say("Hello.")]), log=log).run("Hi")
    assert [one.excerpt async for one in log.search("abyss")] == ["abyss Hello."]
