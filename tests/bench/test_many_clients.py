"""Many clients of one run, over real connections: all get the whole story, and the work is shared."""

from __future__ import annotations

import asyncio
import time

import pytest

from rxworker import Worker, on_message_send
from rxworker.events import Record
from rxworker.framing import SseDecoder
from rxworker.protocols import decode_record
from rxworker.state import fold_run
from rxworker.testing import ScriptedModel, say
from rxworker.ui.web import Settings, WebServer
from rxworker.ui.web.runs import entry as entries

CLIENTS = 500
DELTAS = 150
TEXT = "word " * DELTAS


class Heard:
    """What one client has heard.

    Attributes:
        body: The bytes of the answer.
    """

    def __init__(self) -> None:
        self.body = bytearray()

    def records(self) -> list[Record]:
        frames = SseDecoder().feed(bytes(self.body))
        assert frames[-1].event == "end"
        return [decode_record(frame.data) for frame in frames[:-1]]


async def listen(host: str, port: int, path: str, heard: Heard, opened: asyncio.Barrier) -> None:
    """Be a client: a bare connection, since a real one would cost more than what is measured."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 200 " in head.split(b"\r\n")[0]
    await opened.wait()
    while size := int(await reader.readline(), 16):
        heard.body += await reader.readexactly(size)
        await reader.readexactly(2)
    writer.close()


async def test_five_hundred_clients_get_the_whole_story_and_each_record_is_encoded_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    encoded: list[tuple[int, int]] = []
    honest = entries.encode_record

    def encode_record(record: Record) -> bytes:
        encoded.append((record.first, record.seq))
        return honest(record)

    monkeypatch.setattr(entries, "encode_record", encode_record)
    begin = asyncio.Event()
    # Two milliseconds a delta: faster than five hundred clients can be served one by one.
    model = ScriptedModel([say(TEXT, chunk=5)], delay=0.002)

    async def wait(context: object) -> None:
        await begin.wait()

    def make() -> Worker:
        return Worker(model, hooks=[on_message_send(wait)])

    settings = Settings(max_watchers=CLIENTS + 1, max_watchers_per_run=CLIENTS + 1)
    async with WebServer(make, port=0, settings=settings) as server:
        host, _, port = server.url.removeprefix("http://").rstrip("/").partition(":")
        state = server.state
        entry = state.runs.start("go")
        path = f"/api/runs/{entry.id}/events"
        clients = [Heard() for _ in range(CLIENTS)]
        opened = asyncio.Barrier(CLIENTS + 1)
        async with asyncio.TaskGroup() as group:
            for heard in clients:
                group.create_task(listen(host, int(port), path, heard, opened))
            await opened.wait()
            assert len(entry.run.watchers.now) == CLIENTS
            started, worked = time.perf_counter(), time.process_time()
            begin.set()
        took, work = time.perf_counter() - started, time.process_time() - worked
        last = entry.run.last_seq

    distinct = set[tuple[int, int]]()
    for heard in clients:
        ranges = [(record.first, record.seq) for record in heard.records()]
        assert [first for first, _ in ranges] == [1, *(seq + 1 for _, seq in ranges[:-1])]
        assert ranges[-1][1] == last
        distinct.update(ranges)
    state_of_one = fold_run(clients[-1].records())
    assert state_of_one.conversation.messages[-1].text == TEXT
    # Not once a client: once a record, though a few may be made again for clients that were behind.
    assert encoded
    assert len(encoded) <= 1.1 * len(distinct) + 10
    with capsys.disabled():
        print(
            f"\n{CLIENTS} clients, {last} records, {len(distinct)} as sent, {len(encoded)} encoded: "
            f"{took:.2f} s, {work / CLIENTS * 1000:.2f} ms of work a client, both ends"
        )
