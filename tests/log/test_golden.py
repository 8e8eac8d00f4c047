"""Logs that earlier versions have written are read, continued and resumed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from rxworker import Approve
from rxworker.log import EventLog, MemoryLog, SQLiteLog, export_run, import_run
from rxworker.testing import call, say
from tests.log.golden import GOLDEN, NAME, lines, states, worker

FORMATS = sorted(folder for folder in GOLDEN.iterdir() if folder.is_dir())


@pytest.fixture(params=FORMATS, ids=lambda folder: folder.name)
def golden(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture
def path(golden: Path, tmp_path: Path) -> Path:
    """A copy of the log, which may be changed."""
    for file in golden.glob("runs.db*"):
        shutil.copy(file, tmp_path)
    return tmp_path / "runs.db"


def exported(golden: Path) -> dict[str, list[bytes]]:
    return {file.stem: file.read_bytes().splitlines() for file in golden.glob("*.jsonl")}


def as_then(state: Any, then: Any) -> Any:
    """A state without the fields that it did not have then."""
    if not isinstance(then, dict):
        return state
    now = cast("dict[str, Any]", state)
    known = cast("dict[str, Any]", then)
    return {name: as_then(now[name], each) for name, each in known.items() if name in now}


async def check_states(log: EventLog, golden: Path) -> None:
    then = msgspec.json.decode((golden / "states.json").read_bytes())
    assert as_then(await states(log), then) == then


def test_there_is_one_of_this_format() -> None:
    assert NAME in [folder.name for folder in FORMATS], "run: python -m tests.log.golden"


async def test_its_states_are_what_they_were(golden: Path, path: Path) -> None:
    async with SQLiteLog(path) as log:
        await check_states(log, golden)


async def test_its_runs_are_exported_as_they_were(golden: Path, path: Path) -> None:
    async with SQLiteLog(path) as log:
        if golden.name == NAME:
            assert await lines(log) == exported(golden)
        assert {(info.status, info.row.labels["customer"]) for info in await log.list()} == {
            (status, "c-17") for status in ("finished", "paused", "running")
        }


async def test_its_exported_runs_are_imported(golden: Path) -> None:
    async with MemoryLog() as log:
        for run, each in exported(golden).items():
            assert await import_run(log, each) == run
            if golden.name == NAME:
                again = [line.rstrip() async for line in export_run(log, run)]
                assert again[1:] == each[1:]
        await check_states(log, golden)


async def test_its_run_that_was_cut_is_recovered(path: Path) -> None:
    async with SQLiteLog(path) as log:
        (cut,) = await log.list(status="running")
        run = await worker(log, call("book", seats=1), say("Booked.")).recover(cut.run)
        assert (await run).text == "Booked."


async def test_its_paused_run_is_resumed(path: Path) -> None:
    async with SQLiteLog(path) as log:
        (paused,) = await log.list(status="paused")
        run = await worker(log, say("Paid.")).decide(paused.run, [Approve()])
        finished = await run
        assert finished.text == "Paid."
        assert run.state.conversation.messages[-2].tool_results[0].content == "paid 3"
