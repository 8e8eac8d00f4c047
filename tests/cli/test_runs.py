"""``rxworker runs``."""

from __future__ import annotations

import asyncio
import io
import json
import re
import sqlite3
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Protocol

import pytest

from rxworker import Worker, tool
from rxworker.cli import main
from rxworker.errors import LogError, ProviderError
from rxworker.log import MemoryLog, SQLiteLog, export_run, fork_run, import_run
from rxworker.testing import ScriptedModel, call, fail, say, think
from rxworker.tools import ToolContext
from tests.log.victim import ByTurn

REPLIES = [say("Let me see.\x1b[31m") + call("look", n=1), say("Done.")]


@tool(effect="idempotent")
async def look(n: int) -> str:
    """Look."""
    return f"saw {n}"


@pytest.fixture
def log(tmp_path: Path) -> str:
    """The address of a log with a run that has finished, and one that is cut off."""

    async def main() -> None:
        async with SQLiteLog(tmp_path / "runs.db") as log:
            labels = {"tenant": "acme", "desk": "a=b"}
            await Worker(ByTurn(REPLIES), tools=[look], log=log, labels=labels).run("What is there?")
            await Worker(ByTurn(REPLIES), tools=[look], log=log).run("And here?").hand_over()

    asyncio.run(main())
    return f"sqlite:{tmp_path}/runs.db"


class Rxworker(Protocol):
    def __call__(self, *args: str, given: str = "", code: int = 0) -> str: ...


@pytest.fixture
def rxworker(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Rxworker:
    """Runs ``rxworker runs``; returns what it prints, or what it reports if it fails."""

    def run(*args: str, given: str = "", code: int = 0) -> str:
        stdin = io.TextIOWrapper(io.BytesIO(given.encode()))
        monkeypatch.setattr(sys, "stdin", stdin)
        assert main(["runs", *args]) == code, capsys.readouterr()
        done = capsys.readouterr()
        return done.out if code == 0 else done.err

    return run


def test_runs_are_listed_by_their_labels(rxworker: Rxworker, log: str) -> None:
    (line,) = rxworker("--log", log, "list", "--label", "tenant=acme").splitlines()
    assert "What is there?" in line
    both = ("--label", "tenant=acme", "--label", "desk=a=b")
    assert rxworker("--log", log, "list", *both).splitlines() == [line]
    assert rxworker("--log", log, "list", *both[:3], "desk=c") == "no runs\n"
    assert "'acme' is not a label" in rxworker("--log", log, "list", "--label", "acme", code=2)


def test_runs_are_listed_and_shown(rxworker: Rxworker, log: str) -> None:
    lines = rxworker("--log", log, "list").splitlines()
    assert len(lines) == 2
    assert "cut-off" in lines[0]
    assert "And here?" in lines[0]
    assert "finished" in lines[1]
    (line,) = rxworker("--log", log, "list", "--status", "finished").splitlines()
    shown = rxworker("--log", log, "show", line.split()[0])
    assert shown.splitlines()[:5] == [
        "user: What is there?",
        "assistant: Let me see.␛[31m",
        "call: look(n=1)",
        "result: saw 1",
        "assistant: Done.",
    ]
    assert "finished: 2 turns, 1 tool call, " in shown


EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil\r"
SHOWN = re.compile(r"[\t\n\x20-\x7e\xa0-\u061b\u2190-\uffff]*")


def test_nothing_in_a_run_of_others_moves_the_cursor(rxworker: Rxworker, log: str, tmp_path: Path) -> None:
    """What a model, a tool, a service and a tenant have written, printed by every action."""

    @tool(requires_approval=True)
    def pay(what: str) -> str:
        """Pay."""
        return what

    async def main() -> list[str]:
        calls = call(f"lo{EVIL}", what=EVIL) + call("look", n=EVIL)
        replies = [think(EVIL) + say(EVIL) + calls, call("pay", what=EVIL)]
        failing = [say(EVIL) + fail(EVIL, "invalid_request")]
        async with SQLiteLog(tmp_path / "runs.db") as opened:
            found: list[str] = []
            for script in (replies, failing):
                model = ScriptedModel(script, model=EVIL)
                labels = {"tenant": EVIL}
                run = Worker(model, tools=[pay, look], log=opened, labels=labels).run(EVIL)
                with suppress(ProviderError):
                    await run
                found.append(run.id)
            return found

    paused, failed = asyncio.run(main())
    shown = [rxworker("--log", log, "list"), rxworker("--log", log, "diff", paused, failed)]
    for run in (paused, failed):
        shown += [rxworker("--log", log, "show", run)]
        shown += [rxworker("--log", log, "replay", run, "--speed", "0")]
        shown += [rxworker("--log", log, "export", run)]
    head = json.dumps({"run": EVIL})
    for given in (EVIL, head, head + "\n" + shown[-1]):
        shown.append(rxworker("--log", log, "import", "-", given=given, code=1))
    shown.append(rxworker("--log", log, "show", EVIL, code=1))
    for text in shown:
        assert "evil" in text or "owned" in text or "line" in text
        assert SHOWN.fullmatch(text), ascii(text)
    # An export that is printed is the run, as one that is written into a file is.
    other = f"sqlite:{tmp_path}/other.db"
    exported = rxworker("--log", log, "export", failed)
    rxworker("--log", other, "import", "-", given=exported)
    assert rxworker("--log", other, "export", failed).splitlines()[1:] == exported.splitlines()[1:]


def test_a_run_is_replayed_exported_imported_and_deleted(rxworker: Rxworker, log: str, tmp_path: Path) -> None:
    run = rxworker("--log", log, "list", "--status", "finished").split()[0]
    records = [json.loads(line) for line in rxworker("--log", log, "replay", run, "--speed", "0").splitlines()]
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    exported = tmp_path / "run.jsonl"
    rxworker("--log", log, "export", run, "--file", str(exported))
    assert "already" in rxworker("--log", log, "import", str(exported), code=1)
    other = f"sqlite:{tmp_path}/other.db"
    assert rxworker("--log", other, "import", "-", given=exported.read_text()).strip() == run
    assert rxworker("--log", other, "replay", run, "--speed", "0") == rxworker(
        "--log", log, "replay", run, "--speed", "0"
    )
    rxworker("--log", other, "delete", run)
    assert rxworker("--log", other, "list") == "no runs\n"


def test_runs_are_compared_and_one_that_is_cut_off_is_replayed_to_its_end(rxworker: Rxworker, log: str) -> None:
    run = rxworker("--log", log, "list", "--status", "finished").split()[0]
    cut_off = rxworker("--log", log, "list", "--status", "cut-off").split()[0]
    last = rxworker("--log", log, "replay", cut_off, "--speed", "0").splitlines()[-1]
    assert json.loads(last)["event"]["type"] == "hand_over"
    assert rxworker("--log", log, "diff", run, run).splitlines()[2:] == ["no differences"]
    lines = rxworker("--log", log, "diff", run, cut_off).splitlines()
    assert lines[0].startswith(run)
    assert "finished  2 turns, 1 tool call, 20 tokens in, 10 out" in lines[0]
    assert lines[2] == f"equal up to record 0 of {run}"
    assert lines[3].startswith(f"{run} 1: RunStart(")
    assert lines[5:7] == ["- 1 user: What is there?", "+ 1 user: And here?"]
    assert "no run 'run-9'" in rxworker("--log", log, "diff", run, "run-9", code=1)


def test_what_is_not_there_is_one_line(rxworker: Rxworker, log: str, tmp_path: Path) -> None:
    assert "there is no log at" in rxworker("--log", f"sqlite:{tmp_path}/no.db", "list", code=1)
    assert "no run 'run-9'" in rxworker("--log", log, "show", "run-9", code=1)
    assert "not the address of a log" in rxworker("--log", "redis:x", "list", code=1)
    assert "--help" in rxworker("--log", log, "dance", code=2)


async def test_a_fork_goes_another_way_with_other_keys() -> None:
    keys: list[str] = []

    @tool(effect="idempotent")
    async def look(n: int, context: ToolContext) -> str:
        """Look."""
        keys.append(context.idempotency_key)
        return f"saw {n}"

    async with MemoryLog() as log:
        run = Worker(ByTurn(REPLIES), tools=[look], log=log).run("What is there?")
        await run
        entries = [entry async for entry in log.read(run.id)]
        completed = next(entry for entry in entries if entry.kind == "status" and b"ompleted" in entry.body)
        fork = await fork_run(log, run.id, completed.last)
        info = await log.existing(fork)
        assert (info.row.fork_of, info.is_cut_off()) == (run.id, True)
        other = [say("x"), say("It is different.")]
        result = await Worker(ByTurn(other), tools=[look], log=log).recover(fork)
        assert result.text == "It is different."
        assert len(set(keys)) == 2
        assert run.result().text == "Done."
        delta = next(entry for entry in entries if entry.last > entry.first)
        within = await fork_run(log, run.id, delta.first)
        ends = [entry.last async for entry in log.read(within)]
        assert ends[-2:] == [delta.first, delta.first + 1]
        with pytest.raises(LogError, match="cannot be forked"):
            await fork_run(log, run.id, entries[-1].last + 1)


async def test_an_export_that_lacks_something_is_refused() -> None:
    async with MemoryLog() as log:
        run = Worker(ByTurn(REPLIES), tools=[look], log=log).run("What is there?")
        await run
        lines = [line async for line in export_run(log, run.id)]
        async with MemoryLog() as other:
            with pytest.raises(LogError, match="lacks record 2"):
                await import_run(other, [*lines[:2], *lines[3:]])
            with pytest.raises(LogError, match="not an exported run"):
                await import_run(other, ["hello"])
            assert await other.list() == []
            assert await import_run(other, lines) == run.id
            assert [e async for e in other.read(run.id)] == [e async for e in log.read(run.id)]


def test_a_log_of_an_older_version_is_upgraded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "runs.db"
    upgrade = ["runs", "--log", f"sqlite:{path}", "upgrade"]
    assert main(upgrade) == 1
    assert "there is no log at" in capsys.readouterr().err

    async def keeps_bases() -> bool:
        async with SQLiteLog(path) as log:
            return log.keeps_bases

    assert asyncio.run(keeps_bases())
    with closing(sqlite3.connect(path)) as db:  # as an older version has made it
        for name in ("keep_entries", "keep_runs"):
            db.execute(f"DROP TRIGGER IF EXISTS {name}")
        db.execute("DROP TABLE bases")
    assert not asyncio.run(keeps_bases())
    assert main(upgrade) == 0
    assert asyncio.run(keeps_bases())
