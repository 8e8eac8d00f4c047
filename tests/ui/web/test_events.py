from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from rxworker.events import Gap, Record
from rxworker.protocols import decode_record
from rxworker.state import fold_run
from rxworker.testing import call, say, stall
from rxworker.ui.web import Settings

from .conftest import OpenDesk

LONG = "The quick brown fox jumps over the lazy dog. " * 4


def records_of(frames: list[dict[str, str]]) -> list[Record]:
    """The records of a stream; each frame's id is its record's number."""
    records: list[Record] = []
    for frame in frames:
        if "id" in frame:
            record = decode_record(frame["data"])
            assert frame["id"] == str(record.seq)
            records.append(record)
    return records


def is_contiguous(records: list[Record], after: int = 0) -> bool:
    seen = after
    for record in records:
        if record.first != seen + 1:
            return False
        seen = record.seq
    return True


async def test_the_whole_story_comes_in_order_and_then_its_end(open_desk: OpenDesk) -> None:
    desk = await open_desk(say(LONG, chunk=5), delay=0.0005)
    run = await desk.begin()
    async with desk.http.get(desk.url(f"api/runs/{run['id']}/events")) as response:
        assert response.content_type == "text/event-stream"
        assert response.headers["X-Accel-Buffering"] == "no"
        assert "no-store" in response.headers["Cache-Control"]
        text = await response.text()
    assert text.startswith("retry: 1000\n\n")
    frames = await desk.frames(f"api/runs/{run['id']}/events")
    records = records_of(frames)
    assert is_contiguous(records)
    assert frames[-1] == {"event": "end", "data": '{"status":"finished","reason":""}'}
    state = fold_run(records)
    assert state.status == "finished"
    assert state.conversation.messages[-1].text == LONG


async def test_from_any_number_on_exactly_the_rest_comes(open_desk: OpenDesk) -> None:
    desk = await open_desk(say(LONG, chunk=5))
    run = await desk.begin()
    path = f"api/runs/{run['id']}/events"
    last = (await desk.ended(run["id"]))["seq"]
    whole = records_of(await desk.frames(path))
    assert len(whole) < last, "the deltas of a run that is over come merged"
    for after in range(last):
        headers = {"Last-Event-ID": str(after)}
        rest = records_of(await desk.frames(path, headers=headers))
        assert is_contiguous(rest, after)
        assert rest[-1].seq == last
        assert records_of(await desk.frames(f"{path}?after={after}")) == rest


async def test_where_nothing_follows_the_client_must_not_connect_again(open_desk: OpenDesk) -> None:
    desk = await open_desk("Hello!")
    run = await desk.begin()
    last = (await desk.ended(run["id"]))["seq"]
    path = f"api/runs/{run['id']}/events"
    assert await desk.get(path, headers={"Last-Event-ID": str(last)}) == (204, "")
    assert await desk.get(f"{path}?after={last}") == (204, "")


async def test_the_last_event_of_a_client_counts_more_than_the_address(open_desk: OpenDesk) -> None:
    desk = await open_desk("Hello!")
    run = await desk.begin()
    last = (await desk.ended(run["id"]))["seq"]
    path = f"api/runs/{run['id']}/events?after=0"
    assert await desk.get(path, headers={"Last-Event-ID": str(last)}) == (204, "")


@pytest.mark.parametrize("after", ["-1", "x", "1.5", "9" * 30, "\u0661", "1e3"])
async def test_what_is_not_a_number_of_a_record_is_refused(open_desk: OpenDesk, after: str) -> None:
    desk = await open_desk("Hello!")
    run = await desk.begin()
    status, _ = await desk.get(f"api/runs/{run['id']}/events", params={"after": after})
    assert status == 400


async def test_no_client_has_seen_what_was_not_there_yet(open_desk: OpenDesk) -> None:
    desk = await open_desk(say("...") + stall())
    run = await desk.begin()
    status, told = await desk.get(f"api/runs/{run['id']}/events?after=1000")
    assert (status, told["error"]["code"]) == (400, "bad_cursor")


async def test_a_silent_run_lets_the_client_know_that_the_connection_lives(open_desk: OpenDesk) -> None:
    desk = await open_desk(say("...") + stall(), settings=Settings(heartbeat=0.02))
    run = await desk.begin()
    async with desk.http.get(desk.url(f"api/runs/{run['id']}/events")) as response:
        pings = 0
        async for line in response.content:
            pings += line == b": ping\n"
            if pings == 3:
                break


async def test_a_run_that_was_cancelled_ends_its_stream_with_the_reason(open_desk: OpenDesk) -> None:
    desk = await open_desk(say("...") + stall())
    run = await desk.begin()
    reading = asyncio.create_task(desk.frames(f"api/runs/{run['id']}/events"))
    await desk.post(f"api/runs/{run['id']}/cancel", {"reason": "enough"})
    frames = await reading
    assert is_contiguous(records_of(frames))
    end = json.loads(frames[-1]["data"])
    assert (end["status"], "enough" in end["reason"]) == ("aborted", True)


async def test_a_paused_run_ends_its_stream_with_the_reason(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("delete", path="a"))
    run = await desk.begin()
    frames = await desk.frames(f"api/runs/{run['id']}/events")
    end = json.loads(frames[-1]["data"])
    assert end == {"status": "paused", "reason": "Deleting cannot be undone."}


async def test_a_client_that_leaves_is_not_a_watcher_any_more_and_the_run_goes_on(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("wait"), "Done.")
    run = await desk.begin()
    await desk.waiting.wait()
    async with desk.http.get(desk.url(f"api/runs/{run['id']}/events")) as response:
        await response.content.readline()
        shown = (await desk.get(f"api/runs/{run['id']}"))[1]
        assert [w["delivery"] for w in shown["watchers"]] == ["coalesce"]
        response.close()
    while (await desk.get(f"api/runs/{run['id']}"))[1]["watchers"]:
        pass
    desk.release.set()
    assert (await desk.ended(run["id"]))["status"] == "finished"


async def test_no_more_watch_than_may(open_desk: OpenDesk) -> None:
    settings = Settings(max_watchers=3, max_watchers_per_run=2)
    desk = await open_desk(always=say("...") + stall(), settings=settings)
    runs = [(await desk.begin())["id"] for _ in range(2)]
    open_now: list[Any] = []
    statuses: list[int] = []
    for run in (runs[0], runs[0], runs[0], runs[1], runs[1]):
        response = await desk.http.get(desk.url(f"api/runs/{run}/events"))
        statuses.append(response.status)
        open_now.append(response)
    assert statuses == [200, 200, 429, 200, 429]
    for response in open_now:
        response.close()
    while (await desk.get(f"api/runs/{runs[0]}"))[1]["watchers"]:
        pass
    (await desk.http.get(desk.url(f"api/runs/{runs[0]}/events"))).close()


async def test_a_client_that_takes_nothing_is_let_go_and_may_come_back(open_desk: OpenDesk) -> None:
    settings = Settings(stall_seconds=0.5)
    desk = await open_desk(say("x" * 20_000_000, chunk=100_000), "unused", settings=settings)
    run = await desk.begin()
    server = desk.server.url.removeprefix("http://").rstrip("/")
    host, _, port = server.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
    writer.write(f"GET /api/runs/{run['id']}/events HTTP/1.1\r\nHost: {server}\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    await reader.readuntil(b"retry: 1000\n\n")
    # Nothing is read from here on; the server cannot write 20 MB into the buffers between us.
    while (await desk.get(f"api/runs/{run['id']}"))[1]["watchers"]:
        pass
    writer.close()
    frames = records_of(await desk.frames(f"api/runs/{run['id']}/events"))
    assert is_contiguous(frames)
    assert not any(isinstance(record.event, Gap) for record in frames)
