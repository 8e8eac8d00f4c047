"""A Postgres log: servers that are killed, connections that are lost, clocks that differ, and what cannot be opened."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import NoReturn

import pytest

from rxworker import Run, Worker
from rxworker.errors import ConfigurationError, LeaseHeldError, LocalProtocolError, LogError, RunStatusError
from rxworker.log import EventLog, RunInfo, open_log
from rxworker.log.format import Entry
from rxworker.log.values import Command, RunRow
from rxworker.testing import ScriptedModel
from tests.log.postgres_server import PASSWORD, PostgresServer, require_postgres, why_missing
from tests.log.processes import RUN, entries, numbers

if why_missing():
    require_postgres()

import psycopg

from rxworker.log import postgres as module
from rxworker.log import postgres_connection as connections
from rxworker.log.postgres import PostgresLog


async def test_the_index_of_texts_is_made_by_the_first_search_and_holds_no_deleted_text(
    postgres: PostgresServer,
) -> None:
    address, schema = postgres.address("searched"), "searched"
    async with PostgresLog(address) as log, PostgresLog(address) as other:
        model = ScriptedModel(["Rain \ud800 and\0 snow.", "More RAIN."])
        worker = Worker(model, log=log)
        first = worker.run("The weather")
        await first
        assert execute(postgres, "SELECT to_regclass('searched') IS NULL", schema) == [(True,)]
        searches = [[one.excerpt async for one in each.search("rain and snow")] for each in (log, other)]
        assert [len(found) for found in searches] == [1, 1]
        await worker.run("Later")
        assert len([one async for one in other.search("rain")]) == 2
        await log.delete(first.id)
        assert execute(postgres, "SELECT count(*) FROM searched WHERE lower LIKE '%snow%'", schema) == [(0,)]
        assert [one.info.row.title async for one in log.search("rain")] == ["Later"]


async def test_a_user_who_may_make_no_table_searches_titles(postgres: PostgresServer) -> None:
    address = postgres.address("closed")
    async with PostgresLog(address) as log:
        await Worker(ScriptedModel(["Rain."]), log=log).run("The weather")
        refusal = LogError("no")
        refusal.__cause__ = psycopg.errors.InsufficientPrivilege()

        async def refuse(query: object, values: object = (), link: object = None) -> NoReturn:
            raise refusal

        log._query = refuse
        assert [one async for one in log.search("rain")] == []
        assert [one.info.row.title async for one in log.search("weather")] == ["The weather"]


async def take(source: AsyncIterator[Entry], last: int) -> list[int]:
    """The numbers up to one."""
    seen: list[int] = []
    async for entry in source:
        seen.append(entry.last)
        if entry.last == last:
            return seen
    raise AssertionError(seen)


def execute(server: PostgresServer, query: str, schema: str = "public") -> list[tuple[object, ...]]:
    with psycopg.connect(server.address(), autocommit=True) as connection:
        connection.execute(f"SET search_path={schema}".encode())
        cursor = connection.execute(query.encode())
        return cursor.fetchall() if cursor.description else []


def schema_of(address: str) -> str:
    return address.rpartition("=")[2]


OTHERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rxworker' AND pid <> "
    "pg_backend_pid()"
)


# The server is killed


async def test_what_a_killed_server_has_lost_is_written_again(postgres: PostgresServer) -> None:
    address = postgres.new_address()
    async with PostgresLog(address) as log, PostgresLog(address) as other:
        claim = await log.claim(RUN, create=True)
        following = other.follow(RUN)
        await log.append(claim, entries(1), after=0)
        assert await take(following, 1) == [1]
        assert other._writes._task is not None
        await other._writes._task  # a new connection flushes
        postgres.stop_flushing()
        for after in range(1, 6):
            await log.append(claim, entries(1, after), after=after, durable=False)
        assert await take(following, 6) == [2, 3, 4, 5, 6]
        postgres.kill()
        postgres.start()
        (lost,) = execute(postgres, "SELECT last FROM runs", schema_of(address))
        assert lost == (1,)
        await log.append(claim, entries(1, 6), after=6, durable=False)
        assert await take(following, 7) == [7]
        assert await numbers(other) == [1, 2, 3, 4, 5, 6, 7]


async def test_appends_are_kept_until_they_are_on_the_disk(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = postgres.new_address()
    async with PostgresLog(address) as log:
        postgres.stop_flushing()
        claim = await log.claim(RUN, create=True)
        await log.append(claim, entries(1), after=0, durable=False)
        assert len(log._unflushed) == 1
        execute(postgres, module.SQL["flush"].decode())
        await log.append(claim, entries(1, 1), after=1, durable=False)
        assert [jobs[0].append.after for _, jobs in log._unflushed] == [1]
        await log.append(claim, entries(1, 2), after=2)
        assert not log._unflushed
        monkeypatch.setattr(module, "UNFLUSHED", 10)
        await log.append(claim, entries(1, 3), after=3, durable=False)
        await log.append(claim, entries(1, 4), after=4, durable=False)
        assert not log._unflushed
        postgres.kill()
        postgres.start()
        assert execute(postgres, "SELECT last FROM runs", schema_of(address)) == [(5,)]


async def until_caught_up(changes: AsyncGenerator[list[RunInfo], None]) -> None:
    while await anext(changes):
        pass


async def test_changes_after_those_that_were_lost_are_seen(postgres: PostgresServer) -> None:
    address = postgres.new_address()
    async with open_log(address) as log, open_log(address) as other:
        claim = await log.claim(RUN, create=True)
        await log.append(claim, entries(1), after=0)
        changes = other.changes(every=0.0)
        await until_caught_up(changes)
        for after in range(1, 50):
            await log.append(claim, entries(1, after), after=after, durable=False)
        async with aclosing(changes):
            async for infos in changes:
                if infos[-1].last_seq == 50:
                    break
            postgres.kill()
            postgres.start()
            await log.append(claim, [], after=50, row=RunRow("finished"))
            async for infos in changes:
                if infos[-1].status == "finished":
                    break


async def test_a_server_that_stays_away_is_an_error_and_nothing_is_lost(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_log(postgres.new_address()) as log:
        claim = await log.claim(RUN, create=True)
        await log.append(claim, entries(1), after=0)
        following = log.follow(RUN)
        assert await take(following, 1) == [1]
        waiting = asyncio.ensure_future(take(following, 2))
        with monkeypatch.context() as patch:
            patch.setattr(connections, "PATIENCE", 0.2)
            postgres.kill()
            try:
                with pytest.raises(LogError, match=r"no answer for 0\.2 s: .*Check that the server runs"):
                    await log.append(claim, entries(1, 1), after=1)
                with pytest.raises(LogError, match="no answer"):
                    await waiting
            finally:
                postgres.start()
        await log.append(claim, entries(1, 1), after=1)
        assert await numbers(log) == [1, 2]


# Connections are lost


async def test_connections_that_are_lost_again_and_again_lose_nothing_and_log_no_warning(
    postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    address = postgres.new_address()
    names = [f"run-{n}" for n in range(5)]

    async def write(log: EventLog, run_id: str, own: psycopg.AsyncConnection) -> int:
        claim = await log.claim(run_id, create=True)
        for after in range(40):
            await log.append(claim, entries(1, after), after=after, durable=after % 7 == 0)
            if after % 10 == 0:
                if run_id == names[0]:
                    await own.execute(OTHERS)  # while the others write
                await log.send(run_id, Command("pause", {"reason": f"{after}"}))
        await log.release(claim)
        return claim.epoch

    connection = await psycopg.AsyncConnection.connect(postgres.address(), autocommit=True)
    async with connection as own, open_log(address) as log, open_log(address) as other, asyncio.timeout(60):
        writing = [asyncio.create_task(write(log, run, own)) for run in names]
        while await other.info(names[-1]) is None:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0)
        watching = [asyncio.create_task(take(other.follow(run), 40)) for run in names]
        assert await asyncio.gather(*writing) == [1] * 5
        assert await asyncio.gather(*watching) == [list(range(1, 41))] * 5
        for run in names:
            assert await numbers(other, run) == list(range(1, 41))
            assert [command.data["reason"] for command in await other.sent(run)] == ["0", "10", "20", "30"]
            assert (await other.claim(run)).epoch == 2
    assert caplog.text == ""


@pytest.mark.parametrize("what", ["claim", "append", "send", "delete"])
async def test_a_write_whose_outcome_is_not_known_is_done_once(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    address = postgres.new_address()
    async with open_log(address, lease=0.0) as log:
        claim = await log.claim(RUN, create=True)
        await log.append(claim, entries(1), after=0)
        execute(postgres, "CREATE SEQUENCE cut", schema_of(address))
        # It is committed, and then the connection ends before this is known.
        flush = "SELECT CASE WHEN nextval('cut') = 1 THEN pg_terminate_backend(pg_backend_pid()) END"
        monkeypatch.setitem(module.SQL, "flush", flush.encode())
        if what == "claim":
            assert (await log.claim(RUN)).epoch == 2
        elif what == "append":
            await log.append(claim, entries(1, 1), after=1)
            assert await numbers(log) == [1, 2]
        elif what == "send":
            assert await log.send(RUN, Command("cancel")) == 1
            assert len(await log.sent(RUN)) == 1
        else:
            await log.delete(RUN)
            assert await log.list() == []
        assert execute(postgres, "SELECT last_value > 1 FROM cut", schema_of(address)) == [(True,)]


async def test_a_server_that_does_not_answer_is_an_error(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = postgres.new_address()
    async with open_log(address) as log:
        assert await log.list() == []
        with psycopg.connect(postgres.address()) as holder, monkeypatch.context() as patch:
            holder.execute(f"LOCK TABLE {schema_of(address)}.runs".encode())
            patch.setattr(connections, "PATIENCE", 0.2)
            with pytest.raises(LogError, match=r"no answer for 0\.2 s"):
                await log.list()
        assert await log.list() == []


async def test_a_claim_is_renewed_over_a_lost_connection(postgres: PostgresServer) -> None:
    async with open_log(postgres.new_address(), lease=60.0) as log:
        claim = await log.claim(RUN, create=True)
        assert log.renew([claim]) == []
        execute(postgres, OTHERS)
        assert log.renew([claim]) == []


# Several processes


async def test_no_change_is_missed_while_many_write(postgres: PostgresServer) -> None:
    address = postgres.new_address()
    last: dict[str, int] = {}

    async def write(log: EventLog, run_id: str) -> None:
        claim = await log.claim(run_id, create=True)
        for after in range(20):
            await log.append(claim, entries(1, after), after=after, durable=after % 5 == 0)

    async with open_log(address) as reader, open_log(address) as one, open_log(address) as two:
        changes = reader.changes(every=0.0)
        await until_caught_up(changes)
        names = [f"run-{n}" for n in range(10)]
        writing = asyncio.gather(*(write((one, two)[n % 2], run) for n, run in enumerate(names)))
        async with aclosing(changes), asyncio.timeout(60):
            async for infos in changes:
                for info in infos:
                    assert info.last_seq >= last.get(info.run_id, 0)
                    last[info.run_id] = info.last_seq
                if last == dict.fromkeys(names, 20):
                    break
        await writing


async def test_of_two_that_recover_a_run_one_does(postgres: PostgresServer) -> None:
    address = postgres.new_address()
    async with open_log(address) as dead, open_log(address) as one, open_log(address) as two:
        for n in range(5):
            claim = await dead.claim(f"run-{n}", create=True)
            await dead.append(claim, entries(1), after=0)
            await dead.release(claim)
            workers = [Worker(ScriptedModel(["..."], delay=60), log=log) for log in (one, two)]
            runs = await asyncio.gather(
                *(worker.recover(claim.run_id).started() for worker in workers), return_exceptions=True
            )
            (run,) = [each for each in runs if isinstance(each, Run)]
            assert sum(isinstance(each, LeaseHeldError) for each in runs) == 1
            info = await one.info(claim.run_id)
            assert info is not None
            assert (info.epoch, info.status) == (2, "running")
            await run.cancel()


@pytest.mark.parametrize("skew", [-60.0, 60.0])
async def test_a_clock_that_is_wrong_changes_nothing(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, skew: float
) -> None:
    address = postgres.new_address()
    right = time.time
    async with open_log(address, lease=15.0, owner="right") as one:
        claim = await one.claim(RUN, create=True)
        await one.append(claim, entries(1), after=0)
        monkeypatch.setattr(time, "time", lambda: right() + skew)
        async with open_log(address, lease=0.0) as other:
            (info,) = await other.list(status="running")
            assert not info.is_cut_off()
            assert 0 < info.lease_until - time.time() <= 15.5
            assert abs(info.updated - time.time()) < 5
            with pytest.raises(LeaseHeldError, match="held by right") as caught:
                await other.claim(RUN)
            assert 0 < caught.value.until - time.time() <= 15
            await one.release(claim)
            new = await other.claim(RUN)
            await other.append(new, entries(1, 1, 2), after=1)
            (info,) = await other.list()
            assert info.lease_until < time.time() + 0.5
            assert await other.prune(max_age=30) == []
            assert (await one.claim(RUN)).epoch == 3


# What is refused


async def test_what_cannot_be_stored_or_read_fails_alone(postgres: PostgresServer) -> None:
    async with open_log(postgres.new_address()) as log:
        claim = await log.claim(RUN, create=True)
        await log.append(claim, entries(1), after=0)
        results = await asyncio.gather(
            log.append(claim, entries(1, 1), after=1),
            log.claim("a\0b", create=True),
            log.send(RUN, Command("cancel")),
            log.info("a\0b"),
            log.info(RUN),
            log.info("\ud800"),
            return_exceptions=True,
        )
        errors = [isinstance(result, LogError) for result in results]
        assert errors == [False, True, False, True, False, True], results
        assert await numbers(log) == [1, 2]


async def test_a_closed_log_takes_nothing(postgres: PostgresServer) -> None:
    log = open_log(postgres.new_address())
    claim = await log.claim(RUN, create=True)
    await log.close()
    with pytest.raises(LocalProtocolError, match="closed"):
        await log.release(claim)


async def test_logs_share_a_database(postgres: PostgresServer) -> None:
    async with open_log(postgres.new_address()) as one, open_log(postgres.new_address()) as two:
        assert one.id != two.id
        claim = await one.claim(RUN, create=True)
        await one.append(claim, entries(1), after=0)
        assert await two.list() == []
        assert await two.info(RUN) is None


async def test_a_log_is_created_once_by_many(postgres: PostgresServer) -> None:
    address = postgres.new_address()
    logs = await asyncio.gather(*(asyncio.to_thread(open_log, address) for _ in range(4)))
    assert len({log.id for log in logs}) == 1
    for log in logs:
        await log.close()


async def test_a_log_of_the_first_version_is_upgraded_when_it_is_opened(postgres: PostgresServer) -> None:
    """Its function claimed runs that had ended.

    What is stored stays, and a second process that opens it changes nothing.
    """
    address = postgres.new_address()
    async with PostgresLog(address) as log:
        claim = await log.claim(RUN, create=True)
        await log.append(claim, entries(1), after=0, row=RunRow("finished"))
        await log.release(claim)
    new = "claim_run(text, boolean, bytea, text, text, float8, text[])"
    schema = schema_of(address)
    given = "name text, is_new boolean, given_data bytea, claimant text, given_token text, seconds float8"
    found = (
        "OUT is_taken boolean, OUT found_epoch bigint, OUT found_last bigint, OUT found_status text, OUT found_owner "
        "text, OUT remaining float8"
    )
    body = "SELECT true, 9::bigint, 1::bigint, ''::text, ''::text, 0.0::float8"
    execute(
        postgres,
        f"DROP FUNCTION {new}; CREATE FUNCTION claim_run({given}, {found}) LANGUAGE sql AS $${body}$$; UPDATE log SET "
        "format = 1",
        schema,
    )
    for _ in range(2):
        async with PostgresLog(address) as log:
            with pytest.raises(RunStatusError):
                await log.claim(RUN)
            assert [info.run_id for info in await log.list()] == [RUN]
    assert execute(postgres, "SELECT format FROM log", schema) == [(module.FORMAT,)]
    # A process of the first version that is still open.
    claimed = f"SELECT is_taken, found_status FROM claim_run('{RUN}', false, '', 'old', 'token', 15)"
    assert execute(postgres, claimed, schema) == [(False, "finished")]


def test_a_log_of_a_newer_version_is_refused(postgres: PostgresServer) -> None:
    address = postgres.new_address()
    open_log(address)
    execute(postgres, "UPDATE log SET format = 99", schema_of(address))
    with pytest.raises(LogError, match=r"version 99.*use a newer rxworker"):
        open_log(address)


@pytest.mark.parametrize("table", ["runs(id int)", "log(line text)"])
def test_a_schema_of_something_else_is_refused(postgres: PostgresServer, table: str) -> None:
    address = postgres.new_address()
    schema = schema_of(address)
    execute(postgres, f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.{table}")
    with pytest.raises(LogError, match="has other tables, but not a log"):
        open_log(address)


def test_a_password_is_in_no_error(postgres: PostgresServer) -> None:
    right = postgres.address("with_password", password=PASSWORD)
    secret = PASSWORD.replace(" ", "%20")
    assert "***" in repr(open_log(right))
    bad = [
        right.replace(secret, "another%20secret"),
        right.replace("/postgres?", "/nowhere?"),
        right.replace(f":{postgres.port}", ":1"),
        right.replace("?", "?nonsense=1&"),
        right.replace(f":{secret}", "") + "&password=another%20secret",
        right.replace("postgresql", "postgressql"),
        right.replace(secret, f"{secret}%"),
        right.replace("schema=", "schema=A-"),
    ]
    for address in bad:
        with pytest.raises((LogError, ConfigurationError)) as caught:
            open_log(address)
        text = "".join(traceback.format_exception(caught.value))
        texts = (text, str(caught.value), repr(caught.value))
        assert not any(word in each for word in ("secret", secret) for each in texts), texts
        assert "127.0.0.1" in str(caught.value) or "schema" in str(caught.value)


def test_a_wrong_password_or_database_is_named(postgres: PostgresServer) -> None:
    right = postgres.address("with_password", password=PASSWORD)
    with pytest.raises(LogError, match=r"password authentication failed.*the password and the database"):
        open_log(right.replace("a%20secret", "wrong"))
    with pytest.raises(LogError, match=r"\"nowhere\" does not exist.*the database in the address"):
        open_log(right.replace("/postgres?", "/nowhere?"))


def test_a_user_without_rights_is_named(postgres: PostgresServer) -> None:
    execute(postgres, "DROP ROLE IF EXISTS guest")
    execute(postgres, "CREATE ROLE guest LOGIN")
    address = postgres.new_address().replace("rx@", "guest@")
    with pytest.raises(LogError, match="Grant the user CREATE on the database"):
        open_log(address)
