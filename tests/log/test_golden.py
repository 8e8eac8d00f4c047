"""Logs that earlier versions have written are read, continued and resumed."""

from __future__ import annotations

import hashlib
import hmac
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from reactivex import operators as ops

from rxworker import Answer, Approve, Deny, Finished, Paused, RunResult, before_tool_call
from rxworker.errors import LocalProtocolError
from rxworker.events import PausedCall, PauseState, Record
from rxworker.hooks import Hook, ToolCallContext
from rxworker.log import EventLog, MemoryLog, SQLiteLog, export_run, import_run
from rxworker.log.format import Entry, read_line, record_of, records_of, upgrade_pause, without_results
from rxworker.log.values import StoredStatus
from rxworker.messages import ToolCall, ToolResult
from rxworker.testing import say
from rxworker.views import RunView
from rxworker.views.changes import ViewPause
from rxworker.worker import Decisions, load_paused, save_paused
from tests.log.golden import GOLDEN, HELD, NAME, limit, lines, note, states, worker

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
    for state in then.values():
        state.pop("round", None)  # the last round of calls: a state has all recent ones now
        state["inner"].pop("models")  # those of the requests that are open, which know their models now
    assert as_then(await states(log), then) == then


def test_there_is_one_of_this_format() -> None:
    assert NAME in [folder.name for folder in FORMATS], "run: python -m tests.log.golden"


async def test_its_states_are_what_they_were(golden: Path, path: Path) -> None:
    async with SQLiteLog(path) as log:
        await check_states(log, golden)


async def test_its_runs_are_exported_as_they_were(golden: Path, path: Path) -> None:
    async with SQLiteLog(path) as log:
        assert {info.row.labels["case"] for info in await log.list()} == {*PAUSED, *CUT, *ENDED}
        if golden.name == NAME:
            assert await lines(log) == exported(golden)


async def test_its_exported_runs_are_imported(golden: Path, log: MemoryLog) -> None:
    for run, each in exported(golden).items():
        assert await import_run(log, each) == run
        if golden.name == NAME:
            again = [line.rstrip() async for line in export_run(log, run)]
            assert again[1:] == each[1:]
    await check_states(log, golden)


def test_its_entries_read_the_same_without_the_results_that_are_kept_beside(golden: Path) -> None:
    changed = 0
    for rows in exported(golden).values():
        for entry in [read_line(row) for row in rows if b'"body":' in row]:
            left = without_results(entry)
            if left is not entry:
                changed += 1
                assert record_of(left, "run-1") == record_of(entry, "run-1")
    assert changed > 0 or golden.name == NAME


def test_a_result_with_half_of_a_surrogate_pair_is_removed_too() -> None:
    private = {"held": {"tool_use_id": "a", "content": "b"}}
    event = {"type": "tool_stop", "call_id": "a", "result": {"tool_use_id": "a", "content": "\\ud83d"}}
    body = msgspec.json.encode({"turn": 1, "attempt": 1, "event": event, "private": private})
    entry = Entry(1, 1, 1, "tool_stop", 0.0, body.replace(b"\\\\ud83d", b"\\ud83d"), True)
    assert without_results(entry).body.count(b"\\ud83d") == 1


async def run_of(log: EventLog, case: str, status: StoredStatus) -> str:
    """The last run of a case with this status."""
    return next(each.run_id for each in await log.list(status=status) if each.row.labels["case"] == case)


def results_in(result: RunResult[object]) -> list[str]:
    return [each.text for message in result.conversation.messages for each in message.tool_results]


ENDED = ("finished", "resumed", "aborted")
CUT: dict[str, list[str]] = {"cut": ["booked 1!"], "held": ["booked 7!"], "resumed and cut": ["by hand!", "booked 1!"]}
"""Runs whose process has ended, and the results of their calls when they are recovered."""
PAUSED: dict[str, tuple[Decisions, list[str]]] = {
    "call": ([Approve()], ["paid 3!"]),
    "turn": ([], []),
    "caller": ([Deny("no"), Answer("by hand")], ["no", "by hand!"]),
    "several": ([None, Approve(), Deny("no")], ["booked 2!", "too much", "paid 3!", "no"]),
    "client": ([Answer("seen")], ["booked 3!", "seen!"]),
}
"""Runs that wait, decisions about their calls, and the results then."""


@pytest.mark.parametrize("case", CUT)
async def test_its_run_that_was_cut_is_recovered(path: Path, case: str) -> None:
    HELD.set()
    async with SQLiteLog(path) as log:
        name = await run_of(log, case, "running")
        result = await worker(log, case, say("Done.")).recover(name)
        assert (result.text, results_in(result)) == ("Done.", CUT[case])


@pytest.mark.parametrize("case", PAUSED)
async def test_its_paused_run_is_decided_about(path: Path, case: str) -> None:
    """The hooks that have agreed to a call do not run again, and the hook behind the one that paused does."""
    decisions, results = PAUSED[case]
    async with SQLiteLog(path) as log:
        name = await run_of(log, case, "paused")
        ran: list[str] = []
        clerk = worker(log, case, say("Done."))
        rest = [hook for hook in clerk.hooks if hook.name not in (limit.name, note.name)]
        clerk.hooks.clear()
        clerk.hooks.add(counted(limit, ran), counted(note, ran), *rest)
        result = await clerk.decide(name, decisions)
        assert isinstance(result, Finished)
        assert results_in(result) == results
        assert ran == (["note"] if case in ("call", "several") else [])


def counted(hook: Hook[Any], ran: list[str]) -> Hook[Any]:
    """The hook, which notes its name and then has nothing to say."""

    def run(context: ToolCallContext) -> None:
        ran.append(context.hook)

    return before_tool_call(name=hook.name)(run)


@pytest.mark.parametrize("case", PAUSED)
async def test_its_paused_run_is_loaded_and_shown(path: Path, case: str) -> None:
    async with SQLiteLog(path) as log:
        name = await run_of(log, case, "paused")
        loaded = await worker(log, case).load(name)
        assert isinstance(loaded, Paused)
        assert load_paused(save_paused(loaded)) == loaded
        view = RunView()
        for record in records_of([entry async for entry in log.read(name)], name):
            view.step(record)
        assert isinstance(view.end, ViewPause)
        shown = [(each.call, each.needs_decision) for each in view.end.pending]
        assert shown == [(each, index in loaded.pause.required) for index, each in enumerate(loaded.pending)]
        assert [each.name for each in loaded.pending if each.id == loaded.paused_at] == (
            ["pay"] if case in ("call", "several") else []
        )


async def test_the_run_that_was_saved_is_resumed(golden: Path, log: MemoryLog) -> None:
    decisions, results = PAUSED["several"]
    saved = load_paused((golden / "saved.json").read_bytes())
    result = await worker(log, "several", say("Done.")).resume(saved, decisions=decisions)
    assert results_in(result) == results


def test_a_resumed_run_of_the_version_before_keeps_what_was_decided() -> None:
    first, second = ToolCall("a", "show", {}), ToolCall("c", "pay", {"euros": 3})
    refused = ToolResult("b", "no", is_error=True, name="pay")
    members = msgspec.to_builtins(
        {
            "type": "run_resume",
            "pending": [first, second],
            "refused": [refused],
            "places": [0, 2],
            "key": "run-1/1",
            "spared": [[("limit", 0), ("note", 0)], []],
            "approved": [0],
            "offered": True,
        }
    )
    spared = (("limit", 0), ("note", 0))
    calls = (PausedCall(0, first, spared, is_approved=True), PausedCall(2, second))
    pause = PauseState("client_tool", calls, (), refused={1: refused}, key="run-1/1")
    assert upgrade_pause(members) == {"type": "run_resume", "pause": pause}


@pytest.mark.parametrize(("hook", "approved"), [("permit", 0), ("pause", 0), ("recovery", 0), ("client_tool", 1)])
def test_a_pause_of_the_version_before_at_no_call_approves_only_those_of_a_client(hook: str, approved: int) -> None:
    calls = [ToolCall(name, "pay", {}) for name in "ab"]
    members = {"hook": hook, "pending": calls, "places": [0, 1], "hooks": ["permit"], "asked": 1}
    pause = upgrade_pause({**members, "let_through": 1})["pause"]
    assert sum(each.is_approved or bool(each.spared) for each in pause.calls) == approved


def without(name: str) -> Callable[[dict[str, Any]], object]:
    def change(members: dict[str, Any]) -> None:
        del members[name]

    return change


CONTRADICTIONS: dict[str, Callable[[dict[str, Any]], object]] = {
    "paused_at": lambda members: members.update(paused_at="call_9"),
    "paused_at is": lambda members: members.update(let_through=3),
    "unknown": lambda members: members.update(unknown=[9]),
    "argument": lambda members: members.update(places=[0]),
    "places: ": lambda members: members.update(places=[0] * len(members["pending"])),
    "places: .*-1": lambda members: members["places"].__setitem__(0, -1),
    "asked is -1": lambda members: members.update(asked=-1),
    "asked is 9": lambda members: members.update(asked=9),
    "let_through is -1": lambda members: members.update(let_through=-1, paused_at=None),
    "let_through is 9": lambda members: members.update(let_through=9, paused_at=None),
    "approved": lambda members: members.update(approved=True),
    **{
        f"{name} is missing": without(name)
        for name in ("pending", "hook", "seals", "let_through", "places", "hooks", "unknown")
    },
}


@pytest.mark.parametrize("why", CONTRADICTIONS)
def test_a_saved_run_of_the_version_before_that_contradicts_itself_is_refused(why: str) -> None:
    saved = msgspec.json.decode((GOLDEN / "1-1" / "saved.json").read_bytes())
    CONTRADICTIONS[why](saved["state"])
    state = msgspec.json.encode(saved["state"])
    saved["seal"] = hmac.new(b"rxworker", b"2:%b" % state, hashlib.sha256).hexdigest()
    with pytest.raises(LocalProtocolError, match=why):
        load_paused(msgspec.json.encode({**saved, "state": msgspec.Raw(state)}))


async def test_all_runs_come_and_are_folded_once(path: Path) -> None:
    def count(state: int, _: Record) -> int:
        return state + 1

    async with SQLiteLog(path) as log:
        infos = [info for info in await log.list() if not info.row.outer]
        runs = await log.runs().pipe(ops.take(len(infos)), ops.to_list())
        assert sorted(run.id for run in runs) == sorted(info.run_id for info in infos)
        folded = await log.fold_stored("count", count, 0).pipe(ops.take(2), ops.last())
        assert folded > len(infos)
    async with SQLiteLog(path) as log:
        assert await log.fold_stored("count", count, 0).pipe(ops.first()) == folded
