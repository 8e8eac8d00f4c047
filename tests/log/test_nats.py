"""A log in NATS JetStream: servers that are old, away, killed or cut off, and processes that are stopped."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from rxworker.errors import ConfigurationError, LeaseHeldError, LogError
from rxworker.events import TextDelta, TurnStart
from rxworker.log import Claim, EventLog, open_log
from rxworker.log.nats import NatsLog
from rxworker.log.nats import connection as nats_connection
from rxworker.log.nats.format import Address
from rxworker.log.nats.session import OwnedRuns
from rxworker.log.values import Command, RunRow
from tests.log.conftest import until
from tests.log.nats_server import NatsServer
from tests.log.processes import RUN, entries, numbers, stored
from tests.log.proxy import Proxy
from tests.log.test_conformance import message
from tests.ports import free_port


async def begun(log: EventLog, count: int = 1) -> Claim:
    claim = await log.claim(RUN, create=True)
    await log.append(claim, entries(count), after=0)
    return claim


async def watch(log: EventLog, count: int, run_id: str = RUN) -> list[int]:
    """The numbers of the first records, as a follower sees them."""
    seen: list[int] = []
    async with aclosing(log.follow(run_id)) as following:
        async for entry in following:
            seen += range(entry.first, entry.last + 1)
            if len(seen) >= count:
                return seen
    return seen


# Errors


def test_a_missing_package_is_named() -> None:
    code = """
    import sys
    sys.modules["nats"] = sys.modules["psycopg"] = None
    from rxworker.errors import ConfigurationError
    from rxworker.log import open_log
    try:
        import rxworker.log.nats
    except ImportError as error:
        print(error)
    for address in ("nats://localhost", "postgresql://localhost/runs"):
        try:
            open_log(address)
        except ConfigurationError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, capture_output=True, text=True)
    assert re.findall(r"pip install '/path/to/the/checkout\[(\w+)\]'", done.stdout) == ["nats", "nats", "postgres"]


@pytest.mark.parametrize("version", ["2.9.10", "2.11.8"])
async def test_an_old_server_is_refused(version: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        info = {"server_id": "x", "version": version, "max_payload": 1 << 20, "headers": True}
        writer.write(f"INFO {json.dumps(info)}\r\n".encode())
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, NatsLog(f"nats://127.0.0.1:{port}") as log:
        with pytest.raises(LogError, match=rf"version {version}.*2\.12 or later"):
            await log.list()


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("nats://me:secret@", "address of a NATS log"),
        ("nats://me:secret@host/two words", "name of a NATS log"),
        ("nats://me:secret@host?replicas=7", "1 to 5"),
        ("nats://me:secret@host?user=me", "address of a NATS log"),
    ],
)
def test_wrong_addresses_are_errors(address: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as caught:
        open_log(address)
    assert "secret" not in str(caught.value)


async def test_credentials_are_shown_nowhere(
    nats_program: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    server = NatsServer(nats_program, tmp_path / "nats", options=["--user", "me", "--pass", "hush"])
    server.start()
    errors: list[BaseException] = []
    try:
        async with open_log(f"nats://me:hush@127.0.0.1:{server.port}/x") as log:
            await begun(log)
            assert repr(log) == f"NatsLog('nats://127.0.0.1:{server.port}/x')"
        for log in (
            open_log(f"nats://me:wrong-hush@127.0.0.1:{server.port}/x"),
            open_log(f"nats://hush@127.0.0.1:{server.port}/x"),
        ):
            async with log:
                with pytest.raises(LogError, match="refuses these credentials") as refused:
                    await log.list()
                errors.append(refused.value)
    finally:
        server.kill()
    async with open_log(f"nats://me:hush@127.0.0.1:{server.port}/x") as log:
        assert isinstance(log, NatsLog)
        log.patience = 0.2
        with pytest.raises(LogError, match=r"cannot be reached.*start nats-server") as away:
            await log.list()
        errors.append(away.value)
    shown = [caplog.text, *(f"{error!r} {error.__cause__!r} {error.__context__!r}" for error in errors)]
    assert not any("hush" in text for text in shown)


@pytest.mark.parametrize(("unless", "is_error"), [(None, True), (10059, True), (404, False)])
async def test_a_refusal_is_an_error_unless_it_is_expected(
    unless: int | None, is_error: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> bytes:
        raise nats_connection.ApiError(nats_connection._Error(404, description="not found"))

    monkeypatch.setattr(nats_connection.Connection, "call", refuse)
    options = {} if unless is None else {"unless": unless}
    connection = nats_connection.Connection(Address("nats://localhost:1"), {}, label="test")
    if is_error:
        with pytest.raises(LogError, match="not found"):
            await connection.request("STREAM.PURGE.log-0", **options)
    else:
        assert await connection.request("STREAM.INFO.log-0", **options) is None


async def test_a_server_without_jetstream_is_an_error(nats_program: str) -> None:
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        nats_program, "-a", "127.0.0.1", "-p", str(port), stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        while b"Server is ready" not in await process.stderr.readline():
            pass
        async with NatsLog(f"nats://127.0.0.1:{port}", patience=0.3) as log:
            with pytest.raises(LogError, match="JetStream"):
                await log.list()
    finally:
        process.kill()
        await process.communicate()


async def test_another_number_of_streams_is_an_error(nats_address: str) -> None:
    async with NatsLog(nats_address, streams=2) as log:
        await begun(log)
    async with NatsLog(nats_address) as log:
        assert await numbers(log) == [1]
    async with NatsLog(nats_address, streams=3) as log:
        with pytest.raises(ConfigurationError, match="has 2 streams"):
            await log.info(RUN)


async def test_two_processes_may_create_a_log_at_once(nats_address: str) -> None:
    async with AsyncExitStack() as stack:
        logs = [await stack.enter_async_context(NatsLog(nats_address)) for _ in range(4)]
        claims = await asyncio.gather(*(log.claim(f"run-{n}", create=True) for n, log in enumerate(logs)))
        assert [claim.epoch for claim in claims] == [1, 1, 1, 1]


# What is stored


async def test_what_is_larger_than_a_message_is_stored(nats_address: str) -> None:
    text = "x" * 1_500_000
    async with NatsLog(nats_address) as one, NatsLog(nats_address) as two:
        claim = await begun(one)
        await one.append(claim, entries(2, 1, event=TextDelta(0, text)), after=1)
        await one.append(claim, entries(1, 3), after=3)
        sent = Command("send", message(text))
        await one.send(RUN, sent)
        await one.send(RUN, structs.replace(sent, key="a"))
        assert [command.data for command in await two.sent(RUN)] == [sent.data] * 2
        seen = [record.event for record in await stored(two)]
        assert seen[1:] == [TextDelta(0, text), TextDelta(0, text), TurnStart()]
        for after in range(4):
            entry = await anext(two.read(RUN, after))
            assert entry.first <= after + 1 <= entry.last
        assert await watch(two, 4) == [1, 2, 3, 4]


async def test_reading_begins_anywhere_among_the_entries_of_others(nats_address: str) -> None:
    async with NatsLog(nats_address, streams=1) as log:
        claim = await begun(log)
        other = await log.claim("run-2", create=True)
        for after in range(1, 40):
            await log.append(claim, entries(1, after), after=after, durable=False)
            await log.append(other, entries(1, after - 1), after=after - 1, durable=False)
    async with NatsLog(nats_address) as log:
        for after in (0, 1, 7, 20, 38, 39):
            found = [entry.last async for entry in log.read(RUN, after)]
            assert found == list(range(after + 1, 41))
        assert [entry async for entry in log.read(RUN, 40)] == []


async def test_a_list_that_was_not_written_is_repaired(nats_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ended between the last append and what the list shows."""

    async def nothing(*_: object) -> None:
        pass

    async with NatsLog(nats_address) as one, NatsLog(nats_address) as two:
        claim = await begun(one)
        monkeypatch.setattr(OwnedRuns, "_list_held", nothing)
        await one.append(claim, entries(1, 1), after=1, row=RunRow("finished", "Hi"))
        assert [info.status for info in await two.list()] == ["running"]
        info = await two.info(RUN)
        assert info is not None
        assert (info.status, info.row.title, info.last_seq) == ("finished", "Hi", 2)
        assert await two.list() == [info]


# Owners and watchers


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the first loop ends with an open connection
def test_a_log_may_be_used_on_one_event_loop_after_the_other(nats_address: str) -> None:
    def use(log: NatsLog) -> None:
        async def end() -> list[int]:
            async with log:
                return await numbers(log)

        claim = asyncio.run(begun(log))
        asyncio.run(log.append(claim, entries(1, 1), after=1))
        assert asyncio.run(end()) == [1, 2]

    use(NatsLog(nats_address))
    gc.collect()  # here, where its warning is ignored


async def test_a_clock_that_is_wrong_by_a_minute_changes_nothing(
    nats_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    async with NatsLog(nats_address, lease=1.0) as one, NatsLog(nats_address) as two:
        await begun(one)
        for skew in (60.0, -60.0):
            monkeypatch.setattr(time, "time", lambda skew=skew: real() + skew)
            with pytest.raises(LeaseHeldError) as held:
                await two.claim(RUN)
            assert 0 < held.value.until - time.time() < 1.1
            for info in (await two.info(RUN), *await two.list()):
                assert info is not None
                assert not info.is_cut_off()
                assert info.lease_until - time.time() < 1.1
        await asyncio.sleep(held.value.until - time.time() + 0.05)
        (info,) = await two.list()
        assert info.is_cut_off()
        assert (await two.claim(RUN)).epoch == 2


async def test_many_watchers_share_a_consumer(nats_address: str) -> None:
    """400 watchers in two processes, and the owner, which takes commands: three consumers."""
    async with NatsLog(nats_address, streams=1) as owner, AsyncExitStack() as stack:
        claim = await begun(owner)
        commands = asyncio.ensure_future(anext(owner.commands(RUN)))
        logs = [await stack.enter_async_context(NatsLog(nats_address)) for _ in range(2)]
        watching = [asyncio.create_task(watch(log, 21)) for log in logs for _ in range(200)]
        for after in range(1, 20):
            await owner.append(claim, entries(1, after), after=after, durable=False)
        session = await owner._open()
        async with asyncio.timeout(60):
            for log in logs:
                while RUN not in log._tails:  # noqa: ASYNC110 - that it has begun has no event
                    await asyncio.sleep(0.001)
                await log._tails[RUN].reach()
            await logs[0].send(RUN, Command("pause"))
            await commands
        info: Any = json.loads(await session.connection.call(f"STREAM.INFO.{session.name}-0"))
        assert 1 <= info["state"]["consumer_count"] <= 3
        # Until now they all wait for one more.
        await owner.append(claim, entries(1, 20), after=20)
        assert await asyncio.gather(*watching) == [list(range(1, 22))] * 400


async def test_who_reads_from_memory_reads_on_when_that_is_given_up(
    nats_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list, and the end of a run, are followed in memory as long as there is a follower; other tasks read too."""
    async with NatsLog(nats_address, patience=5.0) as log:
        claim = await begun(log)
        listing = asyncio.create_task(log.list())
        await until(lambda: log._index)
        assert [row.run_id for row in await log._changed_since(0, 9)] == [RUN]
        assert [info.run_id for info in await listing] == [RUN]

        following = log.follow(RUN)
        await anext(following)
        tail = log._tails[RUN]
        await tail.ready()
        monkeypatch.setattr(tail, "_receive", bool)  # it takes each message, and keeps none
        await log.append(claim, entries(1, 1), after=1)
        reading = asyncio.ensure_future(anext(log.read(RUN, 1)))
        await until(lambda: tail._reached._waiting)
        await following.aclose()
        assert (await reading).last == 2

        # What does not come in time is an error.
        again = log.follow(RUN)
        await anext(again)
        await log._tails[RUN].ready()
        monkeypatch.setattr(log._tails[RUN], "_receive", bool)
        await log.append(claim, entries(1, 2), after=2)
        monkeypatch.setattr((await log._open()).connection, "patience", 0.1)
        with pytest.raises(LogError, match=r"record 3 of run-1, which is stored, has not arrived for 0\.1 s"):
            await anext(log.read(RUN, 2))


# Servers that are killed


async def test_nothing_is_written_behind_records_that_a_server_has_lost(nats_program: str, tmp_path: Path) -> None:
    """As after a loss of power: the server has acknowledged them before they were on the disk."""
    server = NatsServer(nats_program, tmp_path / "nats")
    server.start()
    try:
        async with NatsLog(f"{server.address}/x") as log:
            claim = await begun(log)
            session = log._session  # pyright: ignore[reportPrivateUsage]
            assert session is not None
            up = session.connection._up  # pyright: ignore[reportPrivateUsage]
            server.kill()
            shutil.copytree(server.folder, tmp_path / "disk")
            server.start()
            await log.append(claim, entries(2, 1), after=1)
            await until(up.is_set)
            server.kill()
            # A test blocks the event loop meanwhile; the client must notice it before the server is back, as it does
            # while a machine starts.
            await until(lambda: not up.is_set())
            shutil.rmtree(server.folder)
            shutil.copytree(tmp_path / "disk", server.folder)
            server.start()
            with pytest.raises(LogError, match=r"has lost the records 2 to 3 of run-1"):
                await log.append(claim, entries(1, 3), after=3)
            assert await numbers(log) == [1]
    finally:
        server.kill()


async def test_waiting_for_a_server_has_an_end(nats_program: str, tmp_path: Path) -> None:
    server = NatsServer(nats_program, tmp_path / "nats")
    server.start()
    try:
        async with NatsLog(f"{server.address}/x", patience=0.3) as log:
            claim = await begun(log)
            server.kill()
            with pytest.raises(LogError, match=r"has not answered for 0\.3 s.*start its servers"):
                await log.append(claim, entries(1, 1), after=1)
            server.start()
            await log.append(claim, entries(1, 1), after=1)
            assert await numbers(log) == [1, 2]
    finally:
        server.kill()


@asynccontextmanager
async def cluster(program: str, folder: Path) -> AsyncGenerator[dict[str, NatsServer]]:
    """Three servers with JetStream."""
    routes = [free_port() for _ in range(3)]
    servers = {
        f"s{n}": NatsServer(
            program,
            folder / f"s{n}",
            options=[
                "--name",
                f"s{n}",
                "--cluster_name",
                "c",
                "--cluster",
                f"nats://127.0.0.1:{routes[n]}",
                "--routes",
                ",".join(f"nats://127.0.0.1:{port}" for port in routes),
            ],
        )
        for n in range(3)
    }
    try:
        for server in servers.values():
            server.start()
        yield servers
    finally:
        for server in servers.values():
            server.kill()


@pytest.mark.slow
async def test_a_cluster_loses_the_leader_of_a_stream_while_a_run_goes_on(
    nats_program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_connection, "ATTEMPT", 0.2)  # what is requested before there is a leader has no answer
    async with cluster(nats_program, tmp_path) as servers:
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers.values())
        address = f"nats://{hosts}/x?replicas=3"
        async with NatsLog(address, streams=1) as log, NatsLog(address) as other:
            claim = await begun(log)
            session = await log._open()
            info: Any = json.loads(await session.connection.call("STREAM.INFO.x-0"))
            assert info["config"]["num_replicas"] == 3
            watching = asyncio.create_task(watch(other, 60))
            for after in range(1, 60):
                if after == 30:
                    servers[info["cluster"]["leader"]].kill()
                await log.append(claim, entries(1, after), after=after)
            async with asyncio.timeout(60):
                assert await watching == list(range(1, 61))
            assert await numbers(other) == list(range(1, 61))


# Networks that are cut


async def test_an_acknowledgement_that_was_lost_stores_nothing_twice(
    nats_server: NatsServer, nats_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_connection, "ATTEMPT", 0.2)
    async with Proxy(nats_server.port) as proxy:
        address = nats_address.replace(str(nats_server.port), str(proxy.port))
        async with NatsLog(address) as log, NatsLog(nats_address) as other:
            claim = await begun(log)
            proxy.cut(answers_only=True)
            appending = asyncio.create_task(log.append(claim, entries(1, 1), after=1))
            assert await watch(other, 2) == [1, 2]
            await asyncio.sleep(0.5)  # it is repeated
            assert not appending.done()
            proxy.heal()
            await appending
            await log.append(claim, entries(1, 2), after=2)
            session = await other._open()
            place = session.place(RUN)
            assert len(await session.connection.read(place.stream, place.entries, 1)) == 3


@pytest.mark.parametrize(
    ("code", "err_code", "is_temporary"), [(503, 0, True), (400, 10158, True), (400, 10005, True), (404, 10014, False)]
)
def test_what_passes_by_itself_is_requested_again(code: int, err_code: int, is_temporary: bool) -> None:
    raised = nats_connection._raised(nats_connection._Error(code, err_code, "why"))
    assert isinstance(raised, nats_connection.AwayError) is is_temporary
