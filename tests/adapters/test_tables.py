"""Rows of runs, and rows as Parquet and Arrow, read back by pyarrow."""

from __future__ import annotations

import importlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import reactivex as rx
from msgspec import Struct
from reactivex import Subject
from reactivex import operators as ops

from rxworker import Limits, Worker, tool
from rxworker.adapters.tables import CallRow, RunRow, call_rows, response_rows, run_rows, to_table, write_table
from rxworker.errors import ConfigurationError, LimitExceededError
from rxworker.operators import merge_runs
from rxworker.testing import ScriptedModel, call, say

pytest.importorskip("pyarrow")

parquet: Any = importlib.import_module("pyarrow.parquet")
ipc: Any = importlib.import_module("pyarrow.ipc")


def read_file(path: str) -> Any:
    return ipc.open_file(path).read_all()


def read_stream(path: str) -> Any:
    return ipc.open_stream(path).read_all()


READ: dict[str, Any] = {".parquet": parquet.read_table, ".arrow": read_file, ".arrows": read_stream}


class Measure(Struct):
    name: str | None
    value: float
    at: datetime
    tags: list[str]


NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
# The first has no name: a column that is inferred would have no type.
MEASURES = [Measure(None, 1.5, NOON, ["a"]), Measure("b", 2, NOON, []), Measure("c", 3, NOON, [])]
AS_ROWS = [
    {"name": None, "value": 1.5, "at": NOON, "tags": '["a"]'},
    {"name": "b", "value": 2.0, "at": NOON, "tags": "[]"},
    {"name": "c", "value": 3.0, "at": NOON, "tags": "[]"},
]


@tool
async def look(name: str) -> str:
    """Look."""
    if name == "nowhere":
        raise LookupError(name)
    return f"found {name}"


@pytest.mark.parametrize("suffix", READ)
def test_rows_are_written_and_read_back(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows{suffix}"
    counts: list[int] = []
    rx.from_iterable(MEASURES).pipe(write_table(path, Measure, rows=2)).subscribe(counts.append)
    assert counts == [3]
    assert READ[suffix](str(path)).to_pylist() == AS_ROWS
    rx.empty().pipe(write_table(path, Measure)).subscribe(counts.append)
    assert counts == [3, 0]
    empty = READ[suffix](str(path))
    assert (empty.num_rows, empty.column_names) == (0, ["name", "value", "at", "tags"])


def test_rows_wait_in_memory_for_a_batch_and_no_longer(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    rows = ({"n": n} for n in range(10))
    rx.from_iterable(rows).pipe(write_table(path, rows=4)).subscribe()
    groups = parquet.ParquetFile(path)
    assert [groups.metadata.row_group(n).num_rows for n in range(groups.num_row_groups)] == [4, 4, 2]


@pytest.mark.parametrize("end", ["error", "dispose", "misfit"])
def test_a_file_can_be_read_however_the_stream_ends(tmp_path: Path, end: str) -> None:
    path = tmp_path / "rows.parquet"
    source: Subject[Any] = Subject()
    errors: list[Exception] = []
    subscription = source.pipe(write_table(path, rows=2)).subscribe(on_error=errors.append)
    for n in range(3):
        source.on_next({"n": n})
    match end:
        case "error":
            source.on_error(OSError("the source is gone"))
        case "dispose":
            subscription.dispose()
            subscription.dispose()
        case _:
            source.on_next({"n": "a text"})
    assert [type(error).__name__ for error in errors] == {
        "error": ["OSError"],
        "dispose": [],
        "misfit": ["ArrowInvalid"],
    }[end]
    source.on_next({"n": 9})
    written = [0, 1] if end == "misfit" else [0, 1, 2]
    assert parquet.read_table(path).column("n").to_pylist() == written


def test_a_file_that_cannot_be_written_is_an_error_of_the_stream(tmp_path: Path) -> None:
    errors: list[Exception] = []
    path = tmp_path / "missing" / "rows.parquet"
    rx.of({"n": 1}).pipe(write_table(path)).subscribe(on_error=errors.append)
    assert [type(error) for error in errors] == [FileNotFoundError]
    with pytest.raises(ConfigurationError, match=r"\.parquet, \.arrow"):
        write_table("rows.csv")


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def none(name: str, package: str | None = None) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, package)

    monkeypatch.setattr("rxworker.adapters.tables.import_module", none)
    with pytest.raises(ConfigurationError, match=r"checkout\[tables\]"):
        to_table()


async def test_runs_become_tables() -> None:
    asked = ScriptedModel([call("look", name="a") + call("look", name="nowhere"), say("Done.")])
    first = Worker(asked, tools=[look]).run("go")
    model = ScriptedModel([call("look", name="b")] * 3)
    second = Worker(model, tools=[look], limits=Limits(max_turns=1)).run("go")
    records = merge_runs([first, second])
    calls: Any = await records.pipe(call_rows(), to_table(CallRow))
    shown = [(row["tool"], row["arguments"], row["stage"]) for row in calls.to_pylist()]
    assert sorted(shown) == [
        ("look", '{"name":"a"}', "done"),
        ("look", '{"name":"b"}', "done"),
        ("look", '{"name":"nowhere"}', "failed"),
    ]
    assert set(calls.column("run").to_pylist()) == {first.id, second.id}
    runs: Any = await records.pipe(run_rows(), to_table(RunRow))
    numbers = {row["run"]: (row["status"], row["turns"], row["tool_calls"]) for row in runs.to_pylist()}
    assert numbers == {first.id: ("finished", 2, 2), second.id: ("aborted", 1, 1)}
    with pytest.raises(LimitExceededError):
        await second
    responses = await records.pipe(response_rows(), ops.to_list())
    mine = [row for row in responses if row.run == first.id]
    assert [(row.turn, row.attempt, row.status, row.stop_reason) for row in mine] == [
        (1, 1, "Completed", "ToolUse"),
        (2, 1, "Completed", "EndTurn"),
    ]
    assert all((row.first_seconds or 0) <= row.seconds for row in mine)
    assert mine[0].input_tokens
