"""A permission belongs to the run that it was given to.

What a recovery, a fork, an import, and a new process make of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import pytest

from rxworker import Approve, ApproveAlways, Finished, Paused, Session, Worker, before_tool_call, tool
from rxworker.decisions import Decided
from rxworker.errors import LogError, RunCancelledError
from rxworker.events import RunResume, ToolStart
from rxworker.hooks import Pause, Skip, ToolCallContext
from rxworker.log import EventLog, MemoryLog, export_run, fork_run, import_run, set_allowed
from rxworker.log.format import Entry
from rxworker.log.recover import RunSource
from rxworker.log.values import CONVERSATION, Command, RunRow
from rxworker.resume.paused import decide_command
from rxworker.testing import call, say
from rxworker.worker import recover_all
from tests.log.processes import stored
from tests.log.test_retention import ALL
from tests.log.victim import ByTurn
from tests.pauses import pause_of

ALWAYS = ("wipe", "requires_approval")


class Disk:
    """Tools that need approval, and count what they do."""

    def __init__(self, *, requires_approval: bool = True, replies: Sequence[Any] = ()) -> None:
        self.wiped: list[str] = []
        self.replies = replies or [call("wipe", disk="a"), say("Done.")]

        @tool(effect="idempotent", requires_approval=requires_approval)
        async def wipe(disk: str) -> str:
            """Wipe a disk."""
            self.wiped.append(disk)
            return f"{disk} is empty"

        self.tools = [wipe]

    def worker(self, log: EventLog | None, **options: Any) -> Worker:
        """A worker with these tools."""
        return Worker(ByTurn(self.replies), tools=self.tools, log=log, **options)


async def cut(log: MemoryLog, run_id: str, kind: str, *, new: str = "", **row: Any) -> str:
    """Copy a run up to the first entry of a kind into the log, as the run of a process that has ended."""
    entries: list[Entry] = []
    async for entry in log.read(run_id):
        entries.append(entry)
        if entry.kind == kind:
            break
    name = new or f"{run_id}-cut"
    lease, log.lease = log.lease, 0.0
    claim = await log.claim(name, create=True)
    await log.append(claim, entries, after=0, row=RunRow(title="cut", **row))
    log.lease = lease
    return name


async def allowed_of(log: EventLog, run_id: str) -> tuple[tuple[str, str], ...]:
    info = await log.existing(run_id)
    return info.row.allowed


async def test_a_recovery_leaves_no_permission_in_its_worker(log: MemoryLog) -> None:
    disk = Disk()
    worker = disk.worker(log)
    worker.session.allowed.append(ALWAYS)
    run = worker.run("Clean up.")
    await run
    cut_off = await cut(log, run.id, "run_start", allowed=(ALWAYS,))
    other = disk.worker(log)
    assert isinstance(await other.recover(cut_off), Finished)
    assert (disk.wiped, other.session.allowed) == (["a", "a"], [])
    assert isinstance(await other.new_session().run("Something else."), Paused)
    assert disk.wiped == ["a", "a"]


async def test_a_recovered_run_has_no_permission_of_its_worker(log: MemoryLog) -> None:
    disk = Disk()
    run = disk.worker(log).run("Clean up.")
    await run
    worker = disk.worker(log)
    worker.session.allowed.append(ALWAYS)
    recovered = await worker.recover(await cut(log, run.id, "run_start")).started()
    assert isinstance(await recovered, Paused)
    assert (disk.wiped, recovered.allowed, worker.session.allowed) == ([], [], [ALWAYS])


@pytest.mark.parametrize("verb", ["decide", "recover", "resume"])
async def test_a_paused_run_that_is_resumed_from_its_log_has_its_own_permissions(verb: str) -> None:
    twice = [call("wipe", disk="a"), call("wipe", disk="b"), say("Done.")]
    for is_own in (True, False):
        disk = Disk(replies=twice)
        async with MemoryLog() as log:
            paused = disk.worker(log, labels={"tenant": "acme"}).run("Clean up.")
            await paused
            if is_own:
                await set_allowed(log, paused.id, [ALWAYS])
            worker = disk.worker(log, labels={"tenant": "other"})
            if not is_own:
                worker.session.allowed.append(ALWAYS)
            if verb == "decide":
                resumed = await worker.decide(paused.id).started()
            else:
                waiting = await pause_of(worker.load(paused.id))
                if verb == "recover":
                    await log.send(paused.id, decide_command(waiting, Decided(None)))
                begun = worker.recover(paused.id) if verb == "recover" else worker.resume(waiting)
                resumed = await begun.started()
            result = await resumed
            # The program of the session that resumes what it has may have allowed more since.
            assert isinstance(result, Finished if is_own or verb == "resume" else Paused)
            assert worker.session.allowed == ([] if is_own else [ALWAYS])
            info = await log.existing(resumed.id)
            assert info.row.labels == {"tenant": "acme"}


async def test_what_is_allowed_while_a_run_runs_is_stored_with_it_and_concerns_no_other(log: MemoryLog) -> None:
    disk = Disk(replies=[call("wipe", disk="a"), say("Done.")])
    worker = disk.worker(log)
    run = worker.run("Clean up.")
    run.allowed.append(ALWAYS)
    assert isinstance(await run, Finished)
    assert (worker.session.allowed, await allowed_of(log, run.id)) == ([], (ALWAYS,))
    assert isinstance(await worker.new_session().run("Again."), Paused)
    session = worker.new_session()
    session.allowed.append(ALWAYS)
    begun = session.run("Again.")
    session.allowed.clear()
    assert isinstance(await begun, Finished)
    assert disk.wiped == ["a", "a"]


def permit_wipe(context: ToolCallContext) -> Pause | None:
    """Pause for each call of wipe."""
    return Pause("Really?") if context.call.name == "wipe" else None


permit = before_tool_call(name="permit")(permit_wipe)


class Asked:
    """A hook that counts the calls that it is asked about, and may refuse them."""

    def __init__(self, name: str, *, skips: bool = False) -> None:
        self.count = 0

        @before_tool_call(name=name)
        def ask(context: ToolCallContext) -> Skip | None:
            self.count += 1
            return Skip("No.") if skips else None

        self.hook = ask


async def resumed(log: EventLog, disk: Disk, **options: Any) -> str:
    """A run that has paused, and that was resumed with an approval; the id of the second."""
    worker = disk.worker(log, **options)
    paused = await pause_of(worker.run("Clean up."))
    run = worker.resume(paused, decisions={paused.pending[0].id: Approve()})
    assert isinstance(await run, Finished)
    return run.id


async def test_a_fork_at_a_pause_waits_for_a_decision_of_its_own(log: MemoryLog) -> None:
    disk = Disk(requires_approval=True)
    worker = disk.worker(log)
    paused = await pause_of(worker.run("Clean up."))
    info = await log.existing(paused.run_id)
    session = worker.new_session()
    again = await pause_of(session.fork(paused.run_id, info.last_seq))
    assert again.pending == paused.pending
    assert disk.wiped == []
    await session.resume(again, decisions={again.pending[0].id: Approve()})
    assert disk.wiped == ["a"]


async def test_a_fork_begins_without_what_was_allowed_in_its_source(log: MemoryLog) -> None:
    disk = Disk()
    worker = disk.worker(log, labels={"tenant": "acme"})
    worker.session.allowed.append(ALWAYS)
    run = worker.run("Clean up.")
    await run
    fork = await fork_run(log, run.id, 1)
    assert await allowed_of(log, fork) == ()
    assert isinstance(await disk.worker(log).recover(fork), Paused)
    assert disk.wiped == ["a"]


@pytest.mark.parametrize("hooks", [(), (permit,)])
async def test_what_a_person_approved_in_the_source_needs_approval_again_in_a_fork(hooks: Any, log: MemoryLog) -> None:
    disk = Disk(requires_approval=not hooks)
    source = await resumed(log, disk, hooks=hooks)
    records = await stored(log, source)
    assert isinstance(records[0].event, RunResume)
    last = next(r.seq for r in records if isinstance(r.event, ToolStart))
    for seq in range(1, last + 1):
        fork = await fork_run(log, source, seq)
        again = await disk.worker(log, hooks=hooks).recover(fork)
        assert isinstance(again, Paused), seq
        assert disk.wiped == ["a"], seq
    # What is approved in the fork is not asked about again there.
    worker = disk.worker(log, hooks=hooks)
    fork = await fork_run(log, source, last)
    again = await pause_of(worker.recover(fork))
    assert isinstance(await worker.resume(again), Finished)
    assert disk.wiped == ["a", "a"]


async def test_a_fork_has_none_of_the_commands_and_recoveries_of_its_source(log: MemoryLog) -> None:
    disk = Disk(requires_approval=False)
    gone = asyncio.Event()

    @tool(effect="idempotent")
    async def wipe(disk: str) -> str:
        """Wipe a disk."""
        gone.set()
        await asyncio.sleep(3600)
        return disk

    disk.tools = [wipe]
    run = disk.worker(log).run("Clean up.")
    await gone.wait()
    await log.send(run.id, Command("cancel", {"reason": "enough"}))
    await asyncio.wait([asyncio.ensure_future(run.cancel())])
    records = await stored(log, run.id)
    gone.clear()
    fork = await fork_run(log, run.id, records[-2].seq)
    await log.send(fork, Command("cancel", {"reason": "the fork's own"}))
    recovered = await disk.worker(log).recover(fork).started()
    with pytest.raises(RunCancelledError, match="own"):
        await recovered


async def imported(log: EventLog, source: MemoryLog, run_id: str, status: str = "running") -> str:
    """Import a run, as a file that its author has changed."""
    lines = [line async for line in export_run(source, run_id)]
    head = msgspec.json.decode(lines[0])
    head["row"] |= {"status": status, "allowed": [list(ALWAYS)]}
    return await import_run(log, [msgspec.json.encode(head), *lines[1:]])


@pytest.mark.parametrize("status", ["running", "queued"])
async def test_an_imported_run_is_recovered_only_by_name_and_has_no_permissions(status: str) -> None:
    disk = Disk()
    async with MemoryLog() as source, MemoryLog() as log:
        worker = disk.worker(source)
        worker.session.allowed.append(ALWAYS)
        run = worker.run("Clean up.")
        await run
        started = await cut(source, run.id, "tool_start", allowed=(ALWAYS,))
        name = await imported(log, source, started, status)
        assert await allowed_of(log, name) == ()
        found = [each async for each in recover_all(log, lambda _: disk.worker(log), once=True)]
        async with RunSource(log) as runs:
            assert (found, await runs.take(wait=False)) == ([], None)
        refusing = Asked("refuse", skips=True)
        assert isinstance(await disk.worker(log, hooks=[refusing.hook]).recover(name), Finished)
        assert (refusing.count, disk.wiped) == (1, ["a"])
        name = await imported(log, source, await cut(source, run.id, "tool_start", new="other"))
        waits = await pause_of(disk.worker(log).recover(name))
        assert (waits.hook, disk.wiped) == ("requires_approval", ["a"])
        assert isinstance(await disk.worker(log).resume(waits), Finished)
        assert disk.wiped == ["a", "a"]


@pytest.mark.parametrize("how", ["recover", "requeue"])
async def test_an_imported_run_that_was_continued_by_name_is_one_of_the_log(how: str) -> None:
    disk = Disk()
    async with MemoryLog() as source, MemoryLog() as log:
        worker = disk.worker(source)
        worker.session.allowed.append(ALWAYS)
        run = worker.run("Clean up.")
        await run
        started = await cut(source, run.id, "tool_start", allowed=(ALWAYS,))
        if how == "requeue":
            await Disk(requires_approval=False).worker(source).recover(started).cancel()
            name = await imported(log, source, started, "aborted")
            await log.requeue(name)
        else:
            name = await imported(log, source, started)
            await disk.worker(log).recover(name).hand_over(seconds=0.0)
        found = [each async for each in recover_all(log, lambda _: disk.worker(log), once=True)]
        assert [each.id for each in found] == [name]
        result = await found[0]  # what the file contains still allows nothing
        assert isinstance(result, Paused if how == "recover" else Finished)
        assert disk.wiped == ["a"]  # the call of the run that was put back ended with its cancel


async def test_an_imported_pause_has_approved_nothing() -> None:
    """A file may say that hooks and a person have agreed to the calls before the one that it paused at."""
    both = [call("wipe", disk="a") + call("wipe", disk="b"), say("Done.")]
    disk = Disk(replies=both)
    async with MemoryLog() as source, MemoryLog() as log:
        run = disk.worker(source).run("Clean up.")
        assert isinstance(await run, Paused)
        lines = [line async for line in export_run(source, run.id)]
        at = next(n for n, line in enumerate(lines) if b'"run_pause"' in line)
        line = msgspec.json.decode(lines[at])
        pause = line["body"]["event"]["pause"]
        pause |= {"hook": "refuse", "required": [1]}
        pause["calls"][0] |= {"is_approved": True, "spared": [["refuse", 0]]}
        pause["calls"][1] |= {"spared": [["refuse", 0]]}
        lines[at] = msgspec.json.encode(line)
        name = await import_run(log, lines)
        refusing = Asked("refuse", skips=True)
        worker = disk.worker(log, hooks=[refusing.hook])
        assert isinstance(await worker.decide(name), Finished)
        assert (refusing.count, disk.wiped) == (2, [])
        name = await import_run(log, [lines[0].replace(run.id.encode(), b"x"), *lines[1:]])
        waits = await disk.worker(log).decide(name)
        assert isinstance(waits, Paused)  # the first call, which is not approved here
        assert (waits.pause.at, disk.wiped) == (0, [])


OLD_AND_NEW: list[tuple[tuple[str, ...], tuple[str, ...], set[str]]] = [
    ((), (), set()),
    (("log",), ("log",), set()),
    (("log",), ("log", "check"), {"check"}),
    (("log",), ("check", "log"), {"check"}),
    (("log",), (), set()),
    ((), ("check",), {"check"}),
    (("check",), ("check", "check"), {"check"}),
]


@pytest.mark.parametrize(("old", "new", "asked"), OLD_AND_NEW)
async def test_hooks_that_are_new_in_a_process_run_before_a_started_call_is_repeated(
    old: tuple[str, ...], new: tuple[str, ...], asked: set[str]
) -> None:
    for skips in (False, True):
        disk = Disk(requires_approval=False)
        async with MemoryLog() as log:
            hooks = [Asked(name) for name in old]
            run = disk.worker(log, hooks=[each.hook for each in hooks]).run("Clean up.")
            await run
            started = await cut(log, run.id, "tool_start")
            fresh = [Asked(name, skips=skips and name in asked) for name in new]
            if old == ("check",):
                fresh[0] = Asked("check")
            worker = disk.worker(log, hooks=[each.hook for each in fresh])
            assert isinstance(await worker.recover(started), Finished)
            assert {name for name, each in zip(new, fresh, strict=True) if each.count} == asked
            assert sum(each.count for each in fresh) == len(asked)
            assert disk.wiped == (["a"] if skips and asked else ["a", "a"])


@pytest.mark.parametrize("by", ["person", "always", "nobody"])
async def test_a_started_call_is_repeated_without_approval_only_if_it_had_one(by: str, log: MemoryLog) -> None:
    disk = Disk(requires_approval=by != "nobody")
    if by == "person":
        run = await resumed(log, disk)
    else:
        worker = disk.worker(log)
        worker.session.allowed.append(ALWAYS)
        begun = worker.run("Clean up.")
        await begun
        run = begun.id
    started = await cut(log, run, "tool_start", allowed=(ALWAYS,) if by == "always" else ())
    after = Disk()
    result = await after.worker(log).recover(started)
    assert isinstance(result, Paused if by == "nobody" else Finished)
    assert after.wiped == ([] if by == "nobody" else ["a"])


@pytest.mark.parametrize("kind", ["run_resume", "tool_start"])
async def test_a_new_hook_runs_for_a_call_that_a_person_has_approved(kind: str, log: MemoryLog) -> None:
    disk = Disk()
    run = await resumed(log, disk)
    refusing = Asked("refuse", skips=True)
    worker = disk.worker(log, hooks=[refusing.hook])
    assert isinstance(await worker.recover(await cut(log, run, kind)), Finished)
    assert (refusing.count, disk.wiped) == (1, ["a"])
    again = await disk.worker(log).recover(await cut(log, run, kind, new="again")).started()
    assert isinstance(await again, Finished)
    assert disk.wiped == ["a", "a"]


async def delete_all(log: EventLog) -> None:
    for info in await log.list():
        await log.delete(info.run_id)


async def prune_all(log: EventLog, **bounds: Any) -> None:
    await log.prune(**bounds)


DELETIONS: list[Callable[[EventLog], Awaitable[None]]] = [delete_all, *[partial(prune_all, **each) for each in ALL]]
"""What deletes each run of a log."""


async def is_asked(log: EventLog, conversation: str, *decisions: Any) -> bool:
    """Whether the next run of a conversation waits. It is decided about then."""
    disk = Disk()
    session = Session(disk.worker(log), labels={CONVERSATION: conversation})
    result = await session.run("Clean up.")
    if isinstance(result, Paused):
        await session.resume(result, decisions=decisions or [Approve()])
    return isinstance(result, Paused)


async def test_the_deletion_of_the_last_run_of_a_conversation_ends_what_is_allowed_in_it(store: EventLog) -> None:
    for deletion in DELETIONS:
        assert await is_asked(store, "c-1", ApproveAlways())
        for info in await store.list():  # a run that was deleted before the last one ends nothing
            assert not await is_asked(store, "c-1")
            await store.delete(info.run_id)
        assert not await is_asked(store, "c-1")
        await deletion(store)
        assert await store.list() == []
        assert await is_asked(store, "c-1")
        await delete_all(store)


async def test_a_process_that_ends_before_it_has_deleted_a_run_leaves_no_permission(
    monkeypatch: pytest.MonkeyPatch, store: EventLog
) -> None:
    async def ends(_: object) -> None:
        raise LogError("the process has ended")

    for deletion in DELETIONS[1:]:
        assert await is_asked(store, "c-1", ApproveAlways())
        with monkeypatch.context() as patch:
            patch.setattr(store, "_prune", ends)
            with pytest.raises(LogError, match="has ended"):
                await deletion(store)
        assert await is_asked(store, "c-1")
        await delete_all(store)
    assert await is_asked(store, "c-1", ApproveAlways())
    first, second = await store.list()
    await store.delete(first.run_id)
    monkeypatch.setattr(store, "_prune", ends)
    with pytest.raises(LogError, match="has ended"):
        await store.delete(second.run_id)
    assert await is_asked(store, "c-1")
