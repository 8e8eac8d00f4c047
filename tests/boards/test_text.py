"""Panels as text, and ``rxworker dash``."""

from __future__ import annotations

import asyncio
import signal
import sys
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from reactivex import Observable
from reactivex import operators as ops

from rxworker import Worker
from rxworker.boards import Dashboard, PanelState, View, board_text, fold_log, panel
from rxworker.cli import main
from rxworker.errors import LogError
from rxworker.events import Record
from rxworker.log import MemoryLog, SQLiteLog
from rxworker.testing import ScriptedModel


def seq_of(record: Record) -> int:
    return record.seq


def run_of(record: Record) -> str:
    return record.run_id


def order(records: Observable[Record]) -> Observable[bool]:
    """Whether no record was earlier than the one before it."""

    def step(known: tuple[float, bool], record: Record) -> tuple[float, bool]:
        return record.time, known[1] and record.time >= known[0]

    return records.pipe(ops.scan(step, (0.0, True)), ops.map(lambda known: known[1]))


BOARD = Dashboard(
    [
        panel("Last", ops.map(seq_of)),
        panel("By run", ops.map(seq_of), view="bar", group=run_of),
        panel("In order", order),
    ]
)


def shown(view: View, value: Any, **more: Any) -> list[str]:
    board = Dashboard([panel("P", ops.map(seq_of), view=view, unit="s")])
    return board_text(board, [PanelState("p", value=value, **more)], width=40).splitlines()


@pytest.mark.parametrize(
    ("view", "value", "expected"),
    [
        ("number", None, ["P  ..."]),
        ("number", 2.5, ["P  2.5 s"]),
        ("number", {"a": 1, "bb": 2}, ["P", "  a   1 s", "  bb  2 s"]),
        (
            "number",
            {"a · 2026-11-26T07:00Z/PT1H": 1, "2026-11-26T00:00Z/PT24H": 2},
            ["P", "  2026-11-26            2 s", "  a · 2026-11-26 07:00  1 s"],
        ),
        ("table", [{"hour": "2026-11-26T07:00Z/PT1H"}], ["P", "  hour", "  2026-11-26 07:00"]),
        ("bar", {"a": 2, "b": 0, "c": -1}, None),
        ("text", "one\n two", ["P  one two"]),
        ("table", [], ["P"]),
        ("table", [{"a": 1, "b": "x"}, {"a": 22}], ["P", "  a     b", "  1 s   x", "  22 s  ..."]),
        ("lane", [], ["P"]),
        ("lane", [{"lane": "x", "from": 0, "to": 1}, {"lane": "y", "from": 1, "to": 2}], None),
    ],
)
def test_each_view_has_a_text(view: View, value: Any, expected: list[str] | None) -> None:
    lines = shown(view, value)
    assert all(len(line) <= 40 for line in lines)
    if expected is None:
        assert len(lines) == 1 + (3 if view == "bar" else 2)
        assert "█" in lines[1]
    else:
        assert lines == expected


def test_a_line_a_limit_and_an_error_are_shown() -> None:
    lines = shown("line", 3, points={"": [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]}, alerts={"": 1.0})
    assert lines == ["P  3 s (!)  ▃▆█"]
    lines = shown("number", 3, error="OSError: no")
    assert lines == ["P  3 s", "  has stopped: OSError: no"]


def test_many_groups_and_rows_are_cut_and_it_is_reported() -> None:
    assert shown("bar", {f"g{n}": n for n in range(30)})[-1] == "  and 10 more"
    assert shown("table", [{"n": n} for n in range(30)])[-1] == "  and 10 earlier ones"


def test_of_many_steps_of_time_in_groups_the_newest_are_shown() -> None:
    steps = {f"{group} · 1970-01-{day}T00:00Z/PT24H": day for group in "ab" for day in range(10, 30)}
    lines = shown("bar", steps)
    assert [line.split()[:3] for line in lines[1:-1]] == [
        [group, "·", f"1970-01-{day}"] for group in "ab" for day in range(20, 30)
    ]


async def test_a_log_is_folded_in_the_order_of_time_also_where_runs_overlap(log: MemoryLog) -> None:
    runs = [Worker(ScriptedModel(["An old pond."]), log=log).run("Hi") for _ in range(5)]
    await asyncio.gather(*runs)
    last, by_run, in_order = await fold_log(BOARD, log)
    assert by_run.value == {run.id: run.last_seq for run in runs}
    assert in_order.value == 1
    # Of records of one moment, a log has those of the first id first.
    ordered = sorted(runs, key=attrgetter("id"))
    records = [record for run in ordered async for record in run]
    moment = sorted(record.time for record in records)[len(records) // 2]
    assert await fold_log(BOARD, log, time=moment) == BOARD.at(records, moment)
    [last, by_run, _] = await fold_log(BOARD, log, runs=[runs[0].id])
    assert (last.value, by_run.value) == (runs[0].last_seq, {runs[0].id: runs[0].last_seq})
    began = (await log.existing(runs[3].id)).created
    [_, by_run, _] = await fold_log(BOARD, log, since=began)
    assert isinstance(by_run.value, dict)
    assert runs[3].id in by_run.value
    with pytest.raises(LogError):
        await fold_log(BOARD, log, runs=["run-0"])


FORGED = "look\nCost  0 USD"


@pytest.mark.parametrize(
    ("view", "state"),
    [
        ("bar", PanelState("p", value={FORGED: 1.0})),
        ("state", PanelState("p", value={FORGED: FORGED})),
        ("lane", PanelState("p", value=[{"lane": FORGED, "from": 1.0, "to": 2.0}])),
        ("table", PanelState("p", value=[{FORGED: FORGED}])),
    ],
)
def test_a_name_from_a_record_makes_no_line_of_its_own(view: View, state: PanelState) -> None:
    lines = board_text(Dashboard([panel("P", ops.map(seq_of), view=view)]), [state]).split("\n")
    assert not [line for line in lines if line.startswith("Cost")]


@pytest.mark.parametrize(
    ("view", "state"),
    [
        ("bar", PanelState("p", value={"a": 1e308, "b": 10**308})),
        ("line", PanelState("p", value=1.0, points={"": [(1.0, -1.7e308), (2.0, 1.7e308)]})),
        ("table", PanelState("p", value=[{"a": 10**400, "b": -(10**5000), "c": 2**70}])),
    ],
)
def test_the_greatest_numbers_have_a_place(view: View, state: PanelState) -> None:
    text = board_text(Dashboard([panel("P", ops.map(seq_of), view=view)]), [state])
    assert all(len(line) <= 80 for line in text.split("\n"))


def test_the_command_prints_a_dashboard(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runs.db"

    async def begin() -> int:
        async with SQLiteLog(path) as log:
            run = Worker(ScriptedModel(["An old pond."]), log=log).run("Hi")
            await run
            return run.last_seq

    last = asyncio.run(begin())
    (tmp_path / "my_dash_boards.py").write_text(_MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    command = ["dash", "--log", f"sqlite:{path}", "my_dash_boards:board"]
    assert main([*command, "--width", "40"]) == 0
    assert capsys.readouterr().out == f"Last  {last}\n"
    assert main([*command, "--at", "2001-01-01T00:00:00"]) == 0
    assert capsys.readouterr().out == "Last  ...\n"
    assert main([*command, "--explain", "--width", "40"]) == 0
    shown, explained = capsys.readouterr().out.split("\n\n")
    assert shown == f"Last  {last}"
    lines = explained.splitlines()
    assert lines[0] == "Last"
    assert lines[1].split()[:2] == ["operator", "from"]
    assert lines[3].split()[:3] == ["1", "map(seq_of)", "0"]
    for moment in ("noon", "nan"):
        assert main([*command, "--at", moment]) == 2
        assert f"'{moment}' is not a moment" in capsys.readouterr().err
    assert main([*command[:-1], "my_dash_boards:seq_of"]) == 2
    assert "not a Dashboard" in capsys.readouterr().err
    assert main(["dash", "--log", "sqlite:missing.db", "my_dash_boards:board"]) == 1
    assert "there is no log at missing.db" in capsys.readouterr().err


async def test_the_command_follows_the_runs_of_other_processes_until_it_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    (tmp_path / "my_followed_boards.py").write_text(_MODULE, encoding="utf-8")
    async with SQLiteLog(path) as log:
        await Worker(ScriptedModel(["An old pond."]), log=log).run("Hi")
        command = ["-m", "rxworker", "dash", "--log", f"sqlite:{path}", "my_followed_boards:board", "--follow"]
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        async with asyncio.timeout(60):
            await until(process.stdout, "Last  ")
            run = Worker(ScriptedModel(["A frog jumps in. " * 30]), log=log).run("Hi")
            await run
            await until(process.stdout, f"Last  {run.last_seq}\n")
        process.send_signal(signal.SIGTERM)
        _, errors = await process.communicate()
        assert (process.returncode, errors) == (0, b"")


async def until(lines: asyncio.StreamReader, wanted: str) -> None:
    """Read up to a line that begins so."""
    async for line in lines:
        if line.decode().startswith(wanted) and "..." not in line.decode():
            return
    raise AssertionError("the process has ended")


def test_the_present_of_all_runs_alone_is_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "runs.db").touch()
    for option in (["--at", "5"], ["--run", "run-1"], ["--explain"]):
        assert main(["dash", "--log", f"sqlite:{tmp_path}/runs.db", "rxworker.panels:RUNS", "--follow", *option]) == 2
        assert "leave out --at, --run and --explain" in capsys.readouterr().err


_MODULE = """
from reactivex import operators as ops
from rxworker.boards import Dashboard, panel

def seq_of(record):
    return record.seq

board = Dashboard([panel("Last", ops.map(seq_of))])
"""
