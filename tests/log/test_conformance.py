"""What every store of runs does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

import pytest
from msgspec.structs import replace

from rxworker.errors import (
    CommandConflictError,
    FencedError,
    LeaseHeldError,
    LocalProtocolError,
    LogError,
    RunStatusError,
)
from rxworker.events import Event, Record, RunAbort, RunRequeue, RunStop, TextDelta, TurnStart
from rxworker.hub.history import expand
from rxworker.log import Claim, EventLog, MemoryLog, RunInfo, base, dismiss_run, export_run, fork_run, set_allowed
from rxworker.log.format import Entry, entries_of, read_line, records_of, write_line
from rxworker.log.recover import RunSource
from rxworker.log.values import Command, RunRow, StoredStatus
from rxworker.messages import JsonObject
from tests.log.conftest import STORES, OpenLog, store_of
from tests.log.processes import RUN, START
from tests.whole import IS_WHOLE

open_store = pytest.fixture(params=STORES, name="open_store")(store_of)


def message(text: str) -> JsonObject:
    """The data of a command that sends a text."""
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": text}]}]}


def records(events: Sequence[Event], after: int = 0, run_id: str = RUN) -> list[Record]:
    return [Record(seq, run_id, 1, 1, round(seq / 8, 3), event) for seq, event in enumerate(events, after + 1)]


def entries(events: Sequence[Event], after: int = 0, epoch: int = 1) -> list[Entry]:
    return entries_of(records(events, after), epoch)


async def begun(log: EventLog, *events: Event, run_id: str = RUN) -> Claim:
    claim = await log.claim(run_id, create=True)
    await log.append(claim, entries([START, *events]), after=0)
    return claim


async def stored(log: EventLog, run_id: str = RUN, after: int = 0) -> list[Record]:
    found = [entry async for entry in log.read(run_id, after)]
    return [one for record in records_of(found, run_id, found[0].first - 1) for one in expand(record, after)]


async def take(source: AsyncIterator[Entry], count: int) -> list[int]:
    return [(await anext(source)).last for _ in range(count)]


async def test_what_is_appended_is_read_as_it_was(store: EventLog) -> None:
    deltas = [TextDelta(0, text) for text in ("An", " old ", "", "pond \U0001f438", ".")]
    claim = await begun(store, TurnStart(), *deltas)
    await store.append(claim, entries([RunStop()], 7), after=7)
    assert await stored(store) == records([START, TurnStart(), *deltas, RunStop()])
    assert [entry.kind async for entry in store.read(RUN)] == ["run_start", "turn_start", "text_delta", "run_stop"]


async def test_reading_begins_after_any_number(store: EventLog) -> None:
    deltas = [TextDelta(0, str(n)) for n in range(5)]
    await begun(store, *deltas)
    for after in range(6):
        assert [record.seq for record in await stored(store, after=after)] == list(range(after + 1, 7))
    assert [entry async for entry in store.read(RUN, 6)] == []


async def test_half_a_surrogate_pair_is_stored(store: EventLog) -> None:
    await begun(store, TextDelta(0, "a\ud83d"), TextDelta(0, "b"))
    assert [record.event for record in await stored(store, after=1)] == [TextDelta(0, "a\ud83d"), TextDelta(0, "b")]


async def test_a_long_run_is_read_in_pages(store: EventLog) -> None:
    await begun(store, *[TurnStart()] * 1700)
    assert [record.seq for record in await stored(store)] == list(range(1, 1702))


async def test_an_append_behind_another_number_is_refused(store: EventLog) -> None:
    claim = await begun(store)
    for after in (0, 2):
        with pytest.raises(FencedError, match="ends with record 1"):
            await store.append(claim, entries([RunStop()], after), after=after)
    assert len(await stored(store)) == 1


async def test_a_claim_fences_the_owner_before(store: EventLog) -> None:
    old = await begun(store)
    await store.release(old)
    new = await store.claim(RUN)
    assert (new.epoch, new.last_seq) == (2, 1)
    with pytest.raises(FencedError, match="taken over") as caught:
        await store.append(old, entries([RunStop()], 1), after=1)
    assert caught.value.run_id == RUN
    await store.append(new, entries([TurnStart()], 1, 2), after=1)
    assert [entry.epoch async for entry in store.read(RUN)] == [1, 2]


async def test_a_run_that_is_held_cannot_be_claimed(open_store: OpenLog) -> None:
    async with open_store(owner="me") as log:
        claim = await begun(log)
        with pytest.raises(LeaseHeldError, match="held by me") as caught:
            await log.claim(RUN)
        assert caught.value.until > time.time()
        await log.release(claim)
        await log.release(claim)
        assert (await log.claim(RUN)).epoch == 2


async def test_a_claim_takes_the_status_with_it(store: EventLog) -> None:
    """Each status and what is claimed.

    What has ended is not continued, and code that may write to it names its status.
    """
    statuses: tuple[StoredStatus, ...] = ("queued", "running", "paused", "finished", "aborted")
    for status in statuses:
        claim = await begun(store, run_id=status)
        await store.append(claim, [], after=1, row=RunRow(status))
        if status != "queued":  # also while its process still holds it
            with pytest.raises((RunStatusError, LeaseHeldError)) as held:
                await store.claim(status)
            assert isinstance(held.value, RunStatusError) is (status != "running")
        await store.release(claim)
        if status in ("queued", "running"):
            await store.release(await store.claim(status))
        else:
            with pytest.raises(RunStatusError, match="paused" if status == "paused" else "ended") as refused:
                await store.claim(status)
            assert (refused.value.run_id, refused.value.status) == (status, status)
            assert (await store.info(status)).epoch == 1  # pyright: ignore[reportOptionalMemberAccess]
        for other in statuses:
            if other == status:
                named = await store.claim(status, statuses=(other,))
                assert named.last_seq == 1
                await store.release(named)
            else:
                with pytest.raises(RunStatusError):
                    await store.claim(status, statuses=(other,))


async def test_a_run_that_ends_while_it_is_claimed_is_not_claimed(open_store: OpenLog) -> None:
    """Its lease has expired, and its process ends it at the moment at which another one claims it."""
    async with open_store(lease=0.0) as log, open_store(lease=0.0) as opened:
        other = log if isinstance(log, MemoryLog) else opened  # as from another process
        for number in range(10):
            run = f"run-{number}"
            claim = await begun(log, run_id=run)
            ending = log.append(claim, entries([RunStop()], 1), after=1, row=RunRow("finished"))
            ended, claimed = await asyncio.gather(ending, other.claim(run), return_exceptions=True)
            if isinstance(ended, FencedError):
                assert isinstance(claimed, Claim)
                assert claimed.last_seq == 1
            else:
                assert isinstance(claimed, RunStatusError), claimed
                assert (await log.info(run)).status == "finished"  # pyright: ignore[reportOptionalMemberAccess]


async def test_an_aborted_run_is_put_back_in_the_same_sequence(open_store: OpenLog) -> None:
    async with open_store() as log, open_store() as opened:
        other = log if isinstance(log, MemoryLog) else opened  # as from another process
        claim = await begun(log)
        await log.send(RUN, Command("cancel"))
        abort, row = (RunAbort("error", "no network"), RunRow("aborted", reason="no network", cause="error"))
        await log.append(claim, entries([abort], 1), after=1, row=row)
        with pytest.raises(LeaseHeldError):
            await other.requeue(RUN)
        await log.release(claim)
        following = other.follow(RUN)
        assert await take(following, 2) == [1, 2]
        await other.requeue(RUN, reason="again")
        assert await take(following, 1) == [3]
        with pytest.raises(RunStatusError):
            await log.requeue(RUN)
        (info,) = await log.list(status="queued")
        assert (info.row, info.last_seq, info.owner) == (RunRow("queued"), 3, "")
        assert [record.event for record in await stored(log)] == [START, abort, RunRequeue("again", 1)]
        assert (await log.claim(RUN)).last_seq == 3
        assert await log.send(RUN, Command("cancel")) == 2


async def test_a_lease_ends_unless_it_is_renewed(open_store: OpenLog) -> None:
    async with open_store(lease=0.0) as log:
        one = await log.claim("one", create=True)
        two = await log.claim("two", create=True)
        log.lease = 60.0
        assert await asyncio.to_thread(log.renew, [two]) == []
        assert (await log.claim("one")).epoch == 2
        with pytest.raises(LeaseHeldError):
            await log.claim("two")
        assert await asyncio.to_thread(log.renew, [one, two]) == ["one"]


async def test_only_one_of_many_claims_succeeds(store: EventLog) -> None:
    await store.release(await begun(store))
    claims = await asyncio.gather(*(store.claim(RUN) for _ in range(5)), return_exceptions=True)
    assert sum(isinstance(claim, Claim) for claim in claims) == 1
    assert sum(isinstance(claim, LeaseHeldError) for claim in claims) == 4


async def test_a_run_is_created_once(store: EventLog) -> None:
    with pytest.raises(LogError, match="no run 'run-1'"):
        await store.claim(RUN)
    await begun(store)
    with pytest.raises(LogError, match="already"):
        await store.claim(RUN, create=True)


NAMES = [
    "*", ">", "run-*", "a.>", "a.b", "%", "_", "a_b", "axb", "x' OR '1'='1", "x'; DELETE FROM entries; --",
    'x" OR 1=1 --', "$1", "../runs", "a/b", "a b", "\n", "\x1b[2J",
    "Ω", "{x}", "\\", "x" * 300,
]  # fmt: skip
"""What means something to a store: patterns of subjects, of LIKE and of files, and pieces of SQL."""


async def test_a_name_that_means_something_to_a_store_is_that_of_one_run(store: EventLog) -> None:
    for name in NAMES:
        row = RunRow(title=name, labels={"tenant": name})
        claim = await store.claim(name, create=True, row=row)
        events = records([START, TextDelta(0, name)], run_id=name)
        await store.append(claim, entries_of(events, claim.epoch), after=0)
        await store.release(claim)
    for names in (NAMES, NAMES[6:]):
        for gone in set(NAMES) - set(names):
            await store.delete(gone)
        assert {(each.run_id, each.row.title) for each in await store.list()} == {(name, name) for name in names}
        for name in names:
            assert (await stored(store, name))[1].event == TextDelta(0, name)


async def test_a_follower_sees_the_past_and_then_what_comes(store: EventLog) -> None:
    claim = await begun(store, TurnStart())
    following = store.follow(RUN)
    assert await take(following, 2) == [1, 2]
    waiting = asyncio.create_task(take(following, 1))
    await asyncio.sleep(0)
    assert not waiting.done()
    await store.append(claim, entries([RunStop()], 2), after=2)
    assert await waiting == [3]


async def test_a_follower_ends_when_the_log_is_closed_and_not_with_the_run(open_store: OpenLog) -> None:
    log = open_store()
    claim = await begun(log)
    await log.append(claim, entries([RunStop()], 1), after=1, row=RunRow("finished"))

    following = log.follow(RUN)
    assert await take(following, 2) == [1, 2]
    waiting = asyncio.create_task(take(following, 1))
    await asyncio.sleep(0)
    await log.info(RUN)
    assert not waiting.done()
    await log.close()
    with pytest.raises((StopAsyncIteration, RuntimeError)):
        await waiting
    assert log.followers.runs == ()
    with pytest.raises(LocalProtocolError, match="closed"):
        await log.info(RUN)


async def test_a_run_is_listed_with_its_last_values(open_store: OpenLog) -> None:
    async with open_store(owner="me") as log:
        claim = await log.claim(RUN, create=True, row=RunRow(title="Hi", worker="poet"))
        assert await log.list() == []  # a run without records has not been accepted
        info = await log.info(RUN)
        assert info is not None
        assert (info.run_id, info.status, info.row.title, info.row.worker) == (RUN, "running", "Hi", "poet")
        assert (info.epoch, info.last_seq, info.owner, info.size) == (1, 0, "me", 0)
        row = RunRow("finished", "Hi", turns=2, cost=0.5)
        await log.append(claim, entries([START, RunStop()]), after=0, row=row)
        (info,) = await log.list()
        assert (info.row, info.last_seq, info.size > 0) == (row, 2, True)
        assert info == await log.info(RUN)
        assert await log.info("run-9") is None


async def test_runs_are_listed_newest_first_in_pages_and_by_status(store: EventLog) -> None:
    for number in range(7):
        claim = await store.claim(f"run-{number}", create=True)
        status: StoredStatus = "finished" if number % 2 else "paused"
        await store.append(claim, entries([START]), after=0, row=RunRow(status))
    names: list[str] = []
    while page := await store.list(before=names[-1] if names else "", limit=3):
        names += [info.run_id for info in page]
    assert names == [f"run-{number}" for number in reversed(range(7))]
    assert [info.run_id for info in await store.list(status="finished")] == ["run-5", "run-3", "run-1"]


async def test_commands_are_numbered_and_followed(store: EventLog) -> None:
    await begun(store)
    sent = Command("send", message("And?"))
    assert await store.send(RUN, sent) == 1
    following = store.commands(RUN)
    first = await anext(following)
    assert (first.number, first.kind, first.data) == (1, "send", sent.data)
    assert abs(first.time - time.time()) < 60
    waiting = asyncio.ensure_future(anext(following))
    assert await store.send(RUN, Command("cancel")) == 2
    assert (await waiting).number == 2


async def test_a_command_with_a_key_is_sent_once(store: EventLog) -> None:
    await begun(store)
    decide = Command("decide", {"approve": True}, key="decide-9")
    sent = await asyncio.gather(*(store.send(RUN, decide) for _ in range(3)), return_exceptions=True)
    assert sum(isinstance(one, int) for one in sent) == 1
    assert sum(isinstance(one, CommandConflictError) for one in sent) == 2


async def test_what_a_run_appends_does_not_make_it_read_its_commands(
    store: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = await begun(store)
    first = asyncio.ensure_future(anext(store.commands(RUN)))
    await asyncio.sleep(0)
    reads = list[int]()
    read = type(store)._read_commands

    async def counted(self: EventLog, run_id: str, after: int) -> list[tuple[int, float, bytes]]:
        reads.append(after)
        return await read(self, run_id, after)

    monkeypatch.setattr(type(store), "_read_commands", counted)
    for after in range(1, 31):
        await store.append(claim, entries([TextDelta(0, "a")], after), after=after)
    assert len(reads) < 5  # what else the store reports of the run may come meanwhile
    await store.send(RUN, Command("send", message("b")))
    assert (await first).number == 1


async def test_a_run_that_has_ended_takes_no_commands(store: EventLog) -> None:
    claim = await begun(store)
    await store.append(claim, entries([RunStop()], 1), after=1, row=RunRow("finished"))
    with pytest.raises(LogError, match="ended"):
        await store.send(RUN, Command("cancel"))
    with pytest.raises(LogError, match="no run"):
        await store.send("run-9", Command("cancel"))


async def test_a_deleted_run_leaves_a_tombstone(store: EventLog) -> None:
    claim = await begun(store)
    with pytest.raises(LeaseHeldError):
        await store.delete(RUN)
    await store.release(claim)
    await store.delete(RUN)
    assert await store.list() == []
    info = await store.info(RUN)
    assert info is not None
    assert (info.status, info.size) == ("deleted", 0)
    with pytest.raises(FencedError, match="deleted"):
        await store.append(claim, entries([RunStop()], 1), after=1)
    for call in (store.claim(RUN), store.delete(RUN), store.send(RUN, Command("cancel")), stored(store)):
        with pytest.raises(LogError, match="no run"):
            await call
    with pytest.raises(LogError, match="already"):
        await store.claim(RUN, create=True)


async def test_a_follower_of_a_run_that_is_deleted_fails(store: EventLog) -> None:
    await store.release(await begun(store))
    following = store.follow(RUN)
    assert await take(following, 1) == [1]
    waiting = asyncio.create_task(take(following, 1))
    await asyncio.sleep(0)
    await store.delete(RUN)
    with pytest.raises(LogError, match="no run"):
        await waiting


class Reverse:
    """A codec that anyone can break."""

    def encode(self, data: bytes, run_id: str, /) -> bytes:
        return b"!" + run_id.encode() + b":" + data[::-1]

    def decode(self, data: bytes, run_id: str, /) -> bytes:
        if data[:1] == b"{":
            return data
        assert data.startswith(b"!" + run_id.encode() + b":")
        return data[len(run_id) + 2 :][::-1]


class Forgetful(Reverse):
    """A codec whose keys of some runs were deleted, and that returns damaged data for others."""

    def __init__(self) -> None:
        self.forgotten = set[str]()
        self.damaged = set[str]()

    def decode(self, data: bytes, run_id: str, /) -> bytes:
        if run_id in self.forgotten:
            raise KeyError(run_id)
        plain = super().decode(data, run_id)
        return plain[:9] + b"\xff" + plain[10:] if run_id in self.damaged else plain


async def test_a_run_that_cannot_be_decoded_hides_no_other_and_is_not_claimed(
    open_store: OpenLog, caplog: pytest.LogCaptureFixture
) -> None:
    """Its key was deleted, or a bit of it has changed. A list says so, and everything else goes on."""
    codec = Forgetful()
    statuses: tuple[StoredStatus, ...] = ("running", "paused", "finished")
    async with open_store(codec=codec) as log:
        for name in ("good", "forgotten", "damaged"):
            for status in statuses:
                run = f"{name}-{status}"
                claim = await log.claim(run, create=True, row=RunRow(title="rain"))
                start = entries_of(records([START, TextDelta(0, "rain")], run_id=run), 1)
                await log.append(claim, start, after=0, row=RunRow(status, title="rain"))
                if status == "paused":
                    await log.send(run, Command("decide", {"decisions": {}}, key="decide"))
                await log.release(claim)
        codec.forgotten = {f"forgotten-{status}" for status in statuses}
        codec.damaged = {f"damaged-{status}" for status in statuses}
        bad = codec.forgotten | codec.damaged

        def check(infos: Sequence[RunInfo]) -> None:
            found = {info.run_id: info for info in infos}
            assert found.keys() == bad | {f"good-{status}" for status in statuses}
            for run, info in found.items():
                assert info.status == run.partition("-")[2]
                assert bool(info.error) is (run in bad), info
                assert info.row.title == ("" if run in bad else "rain")
                assert (info.error or "") == (info.row.reason if run in bad else "")
                assert run in info.error or run not in bad

        check(await log.list())
        check([info for status in statuses for info in await log.list(status=status)])
        async with aclosing(log.changes(every=0.0)) as changes:
            check(await anext(changes))
        noted = list[RunInfo]()
        fleet = log.fleet(every=0.0).subscribe(noted.append)
        async with asyncio.timeout(60):
            while len(noted) < 9:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.001)
        fleet.dispose()
        check(noted)
        found = [one.info.run_id async for one in log.search("rain")]
        assert sorted(found) == sorted(f"good-{status}" for status in statuses)
        assert len([one async for one in log.search("")]) == 9
        for run in bad:
            every = (*statuses, "queued", "aborted")
            calls = (
                log.info(run),
                log.claim(run, statuses=every),
                stored(log, run),
                set_allowed(log, run, ()),
                dismiss_run(log, run, "x"),
                log.requeue(run),
                fork_run(log, run, 1),
                anext(aiter(export_run(log, run))),
            )
            for call in calls:
                with pytest.raises(LogError, match=run):
                    await call
            listed = await log.listed(run)
            assert listed is not None
            assert listed.epoch == 1

        async with RunSource(log) as source:
            taken = [await source.take(wait=False) for _ in range(3)]
            assert {info.run_id for info in taken if info is not None} == {"good-running", "good-paused"}
        warned = [record.getMessage() for record in caplog.records if "is not recovered" in record.getMessage()]
        assert sorted(text.partition(" ")[0] for text in warned) == ["damaged-running", "forgotten-running"]
        deleted = await log.prune(max_age=-1)
        assert sorted(deleted) == ["damaged-finished", "forgotten-finished", "good-finished"]
        deleted = await log.prune(max_runs=0)
        assert sorted(deleted) == ["damaged-paused", "forgotten-paused"]
        await log.delete("damaged-running")
        assert sorted(info.run_id for info in await log.list()) == ["forgotten-running", "good-paused", "good-running"]


async def test_a_codec_sees_all_texts_and_no_numbers(open_store: OpenLog) -> None:
    async with open_store(codec=Reverse()) as log:
        claim = await log.claim(RUN, create=True, row=RunRow(title="secret"))
        await log.append(claim, entries([START, TextDelta(0, "secret")]), after=0, row=RunRow(title="secret"))
        await log.send(RUN, Command("send", message("secret")))
        assert [record.event for record in await stored(log)] == [START, TextDelta(0, "secret")]
        assert (await log.list())[0].row.title == "secret"
        assert (await anext(log.commands(RUN))).data == message("secret")
        raw = await log._read(RUN, 0, 10)  # pyright: ignore[reportPrivateUsage]
        assert [(entry.first, entry.last, entry.kind) for entry in raw] == [(1, 1, "run_start"), (2, 2, "text_delta")]
        assert all(b"secret" not in entry.body for entry in raw)


async def test_an_append_that_fails_leaves_others_alone(store: EventLog) -> None:
    one, two = await store.claim("one", create=True), await store.claim("two", create=True)
    done = await asyncio.gather(
        store.append(one, entries([START]), after=5),
        store.append(two, entries([START]), after=0),
        store.append(one, entries([START]), after=0, durable=False),
        return_exceptions=True,
    )
    assert isinstance(done[0], FencedError)
    assert done[1:] == [False, False]
    assert [len(await stored(store, run)) for run in ("one", "two")] == [1, 1]


@pytest.mark.parametrize("body", [None, b"\x00\xffnot JSON"])
def test_an_entry_is_a_line_and_back(body: bytes | None) -> None:
    for entry in entries([START, TextDelta(0, "a"), TextDelta(0, "b\ud83d"), RunStop()]):
        one = entry if body is None else replace(entry, body=body)
        line = write_line(one)
        assert b"\n" not in line
        assert read_line(line) == one
    with pytest.raises(LogError, match="not an entry"):
        read_line(b'{"v":1}')


async def test_stored_runs_come_in_pages_then_an_empty_list_then_changes(
    open_store: OpenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "PAGE", 3)
    names = [f"run-{n}" for n in range(8)]
    async with open_store() as log:
        for name in names:
            claim = await begun(log, run_id=name)
            if name != "run-0":
                await log.append(claim, [], after=1, row=RunRow("finished"))
            await log.release(claim)
        for limit, found in ((None, names), (2, ["run-0", "run-6", "run-7"])):
            async with aclosing(log.changes(limit=limit, every=0.0)) as changes:
                seen = set[str]()
                while infos := await anext(changes):
                    assert len(infos) <= 3
                    seen |= {info.run_id for info in infos}
                assert sorted(seen) == found
                await log.send("run-0", Command("pause"))
                sent = 1 if limit is None else 2
                while not any(i.run_id == "run-0" and i.sent == sent for i in await anext(changes)):
                    pass  # a run may come again without a change


@pytest.mark.product(4)
@pytest.mark.parametrize("few", [0, 20])
async def test_a_lease_is_seen_when_it_is_renewed_and_when_it_has_ended(
    open_store: OpenLog, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "FEW", few)
    lease = 0.8
    async with open_store(lease=lease) as log, open_store(lease=lease) as opened:
        other = log if isinstance(log, MemoryLog) else opened  # as from another process
        claim = await begun(log)
        log.heartbeat.add(claim, lambda: None)
        ends = list[float]()
        async with aclosing(other.changes(every=0.0)) as changes, asyncio.timeout(60):
            async for infos in changes:
                for info in infos:
                    if info.is_cut_off():
                        assert len(ends) >= 3, "a lease that was renewed has not ended"
                        return
                    if not ends or info.lease_until > ends[-1]:
                        ends.append(info.lease_until)
                if len(ends) == 3:
                    log.heartbeat.remove(RUN)
    pytest.fail("the end of the lease was not reported")


async def test_two_logs_follow_each_other_and_fence_each_other(open_store: OpenLog) -> None:
    async with open_store(lease=0.0) as one, open_store() as opened:
        two = one if isinstance(one, MemoryLog) else opened
        assert one.id == two.id
        old = await begun(one)
        following = two.follow(RUN)
        assert (await anext(following)).last == 1
        waiting = asyncio.ensure_future(anext(following))
        await asyncio.sleep(0)
        await one.append(old, entries([TurnStart()], 1), after=1)
        assert (await asyncio.wait_for(waiting, 60)).last == 2
        new = await two.claim(RUN)
        with pytest.raises(FencedError, match="taken over"):
            await one.append(old, entries([TurnStart()], 2), after=2)
        await two.append(new, entries([TurnStart()], 2, 2), after=2)
        assert len(await stored(one)) == 3


@pytest.mark.parametrize("open_store", ["sqlite", "postgres", "nats"], indirect=True)
async def test_an_owner_learns_that_another_process_watches(open_store: OpenLog) -> None:
    async with open_store() as one, open_store() as two:
        claim, after, is_watched = await begun(one), 2, False
        await anext(one.follow(RUN))  # its own watcher is none of another process
        assert not await one.append(claim, entries([TurnStart()], 1), after=1)
        following = two.follow(RUN)
        await take(following, 2)
        waiting = asyncio.ensure_future(anext(following))
        async with asyncio.timeout(60):
            while not is_watched:
                is_watched = await one.append(claim, entries([TurnStart()], after), after=after)
                after += 1
        assert (await waiting).first == 3


async def test_a_lease_is_kept_while_a_tool_blocks_the_loop(open_store: OpenLog) -> None:
    lease, seconds = (15.0, 20.0) if IS_WHOLE else (0.3, 0.5)
    async with open_store(lease=lease) as log, open_store() as other:
        claim = await begun(log)
        log.heartbeat.add(claim, lambda: None)
        time.sleep(seconds)  # noqa: ASYNC251 - that is the point
        info = await log.info(RUN)
        assert info is not None
        assert info.lease_until > time.time()
        with pytest.raises(LeaseHeldError):
            await (log if isinstance(log, MemoryLog) else other).claim(RUN)


async def test_the_fleet_is_all_runs_and_then_what_changes(open_store: OpenLog) -> None:
    async with open_store() as log:
        claim = await begun(log)
        await begun(log, run_id="run-2")
        seen, done = list[tuple[str, StoredStatus]](), asyncio.Event()

        def on_next(info: RunInfo) -> None:
            seen.append((info.run_id, info.status))
            if info.status == "finished":
                done.set()
            elif len({run for run, _ in seen}) == 2:
                both.set()

        both = asyncio.Event()
        log.fleet(every=0.0).subscribe(on_next, on_completed=lambda: seen.append(("", "deleted")))
        await both.wait()
        await log.append(claim, [], after=1, row=RunRow("finished"))
        await done.wait()
    await asyncio.sleep(0)
    assert (RUN, "running") in seen
    assert ("run-2", "running") in seen
    assert seen[-1] == ("", "deleted")


async def test_a_paused_run_is_dismissed_when_its_process_has_released_it(open_store: OpenLog) -> None:
    async with open_store() as log, open_store() as opened:
        other = log if isinstance(log, MemoryLog) else opened  # as from another process
        claim = await begun(log)
        await log.append(claim, [], after=1, row=RunRow("paused"))
        dismissing = asyncio.create_task(dismiss_run(other, RUN, "not needed"))
        async with asyncio.timeout(60):
            while not await log.sent(RUN):  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0)
            assert not dismissing.done()
            await log.release(claim)
            await dismissing
        info = await other.info(RUN)
        assert info is not None
        assert (info.status, info.row.reason, info.owner) == ("aborted", "not needed", "")


async def test_a_dismissal_that_was_cancelled_is_ended_by_the_next(store: EventLog) -> None:
    claim = await begun(store)
    await store.append(claim, [], after=1, row=RunRow("paused"))
    dismissing = asyncio.create_task(dismiss_run(store, RUN, "not needed"))
    async with asyncio.timeout(60):
        while not await store.sent(RUN):  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0)
    dismissing.cancel()
    await asyncio.wait({dismissing})
    assert dismissing.cancelled()
    await store.release(claim)
    await dismiss_run(store, RUN, "again")
    info = await store.info(RUN)
    assert info is not None
    assert (info.status, info.row.reason) == ("aborted", "again")


async def test_a_log_that_is_closed_ends_a_dismissal() -> None:
    log = MemoryLog()
    claim = await begun(log)
    await log.append(claim, [], after=1, row=RunRow("paused"))
    dismissing = asyncio.create_task(dismiss_run(log, RUN, "not needed"))
    async with asyncio.timeout(60):
        while not await log.sent(RUN):  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0)
        await log.close()
        with pytest.raises((LogError, LocalProtocolError), match="closed"):
            await dismissing
