from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from rxworker.events import Record
from rxworker.protocols import decode_record
from rxworker.protocols.native import encode_json
from rxworker.state import fold_run
from rxworker.testing import call, say, stall
from rxworker.ui.web import Settings

from .conftest import OpenDesk

Message = dict[str, Any]


async def next_of(socket: aiohttp.ClientWebSocketResponse, kind: str) -> Message:
    """The next message of this type."""
    while True:
        message: Message = await socket.receive_json(timeout=60)
        if message["type"] == kind:
            return message


async def story(socket: aiohttp.ClientWebSocketResponse, *runs: str) -> dict[str, list[Record]]:
    """The records of these runs, to the end of each."""
    told: dict[str, list[Record]] = {run: [] for run in runs}
    open_runs = set(runs)
    while open_runs:
        message: Message = await socket.receive_json(timeout=60)
        if message["type"] == "records":
            told[message["run"]] += [decode_record(encode_json(r)) for r in message["records"]]
        elif message["type"] == "end":
            open_runs.remove(message["run"])
    return told


def assert_contiguous(records: list[Record], after: int = 0) -> None:
    firsts = [record.first for record in records]
    assert firsts == [after + 1, *(record.seq + 1 for record in records[:-1])]


async def test_the_server_greets_with_its_instance(open_desk: OpenDesk) -> None:
    desk = await open_desk()
    async with desk.socket() as socket:
        hello = await socket.receive_json()
        info = (await desk.get("api/info"))[1]
        assert hello == {"type": "hello", "instance": info["instance"]}


async def test_a_server_that_stops_takes_no_page_that_connects_again(open_desk: OpenDesk) -> None:
    desk = await open_desk()
    await desk.server.state.store.close()
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await desk.socket()
    assert refused.value.status == 503


async def test_two_runs_come_on_one_connection_each_with_its_own_cursor(open_desk: OpenDesk) -> None:
    desk = await open_desk(always=say("abc" * 30, chunk=3), delay=0.0005)
    one, two = [(await desk.begin())["id"] for _ in range(2)]
    async with desk.socket() as socket:
        await socket.send_json({"type": "watch", "run": one})
        await socket.send_json({"type": "watch", "run": two})
        told = await story(socket, one, two)
    for run in (one, two):
        assert_contiguous(told[run])
        assert {record.run_id for record in told[run]} == {run}
        assert fold_run(told[run]).status == "finished"
    async with desk.socket() as socket:
        await socket.send_json({"type": "watch", "run": one, "after": 5})
        await socket.send_json({"type": "watch", "run": two, "after": 9})
        told = await story(socket, one, two)
    assert_contiguous(told[one], 5)
    assert_contiguous(told[two], 9)


async def test_behind_the_last_record_comes_the_end(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("delete", path="a"))
    run = await desk.begin()
    async with desk.socket() as socket:
        await socket.send_json({"type": "watch", "run": run["id"]})
        end = await next_of(socket, "end")
        assert end["status"] == "paused"
        assert end["reason"] == "Deleting cannot be undone."
        last = (await desk.get(f"api/runs/{run['id']}"))[1]["seq"]
        await socket.send_json({"type": "watch", "run": run["id"], "after": last})
        assert (await socket.receive_json())["type"] == "end"


async def test_a_run_that_is_not_known_is_gone(open_desk: OpenDesk) -> None:
    desk = await open_desk()
    async with desk.socket() as socket:
        await socket.send_json({"type": "watch", "run": "run-of-yesterday", "after": 7})
        assert await next_of(socket, "gone") == {"type": "gone", "run": "run-of-yesterday"}


async def test_the_list_comes_at_once_and_whenever_it_changes(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("wait"), "Done.")
    async with desk.socket() as socket:
        await socket.send_json({"type": "list"})
        assert (await next_of(socket, "runs"))["runs"] == []
        run = await desk.begin()
        seen: list[Message] = []
        while not seen or not seen[-1]["tool_calls"]:
            seen += (await next_of(socket, "runs"))["runs"]
        assert seen[-1]["status"] == "running"
        assert seen[-1]["watchers"] == [], "the list itself is not shown as a watcher"
        desk.release.set()
        while seen[-1]["status"] == "running":
            seen += (await next_of(socket, "runs"))["runs"]
        assert (seen[-1]["id"], seen[-1]["status"]) == (run["id"], "finished")


async def test_the_list_shows_who_watches_and_that_they_left(open_desk: OpenDesk) -> None:
    desk = await open_desk(say("...") + stall())
    run = (await desk.begin())["id"]
    async with desk.socket() as lister, desk.socket() as watcher:
        await lister.send_json({"type": "list"})
        await watcher.send_json({"type": "watch", "run": run, "name": "<b>me</b>", "delivery": "latest"})
        watchers: list[Message] = []
        while not watchers:
            watchers = (await next_of(lister, "runs"))["runs"][0]["watchers"]
        assert (watchers[0]["name"], watchers[0]["delivery"]) == ("<b>me</b>", "latest")
        await watcher.send_json({"type": "unwatch", "run": run})
        while watchers:
            watchers = (await next_of(lister, "runs"))["runs"][0]["watchers"]


@pytest.mark.unlogged
async def test_without_listeners_to_the_list_no_run_is_observed(open_desk: OpenDesk) -> None:
    desk = await open_desk(say("...") + stall())
    run = (await desk.begin())["id"]
    observed = desk.server.state.store.feed(None)._observing
    assert not observed
    async with desk.socket() as socket:
        await socket.send_json({"type": "list"})
        [shown] = (await next_of(socket, "runs"))["runs"]
        assert ([*observed], shown["watchers"]) == ([run], [])
    while observed:  # noqa: ASYNC110
        await asyncio.sleep(0)


@pytest.mark.unlogged
async def test_the_list_follows_a_run_without_being_a_watcher_of_it(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("wait"), say("...") + stall(), settings=Settings(grace=1000.0))
    await desk.begin()
    await desk.waiting.wait()
    async with desk.socket() as socket:
        await socket.send_json({"type": "list"})
        [shown] = (await next_of(socket, "runs"))["runs"]
        assert shown["turns"] == 1
        desk.release.set()
        while shown["turns"] == 1:
            [shown] = (await next_of(socket, "runs"))["runs"]
        assert (shown["status"], shown["watchers"]) == ("running", [])


@pytest.mark.parametrize("delivery", ["coalesce", "reliable", "latest", "drop_oldest"])
async def test_every_delivery_accounts_for_every_number(open_desk: OpenDesk, delivery: str) -> None:
    desk = await open_desk(say("abc" * 200, chunk=3), delay=0.0)
    run = (await desk.begin())["id"]
    await desk.ended(run)
    async with desk.socket() as socket:
        await socket.send_json({"type": "watch", "run": run, "delivery": delivery})
        told = await story(socket, run)
    assert_contiguous(told[run])


async def test_watching_again_begins_at_the_new_place(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("wait"), "Done.")
    run = (await desk.begin())["id"]
    await desk.waiting.wait()
    async with desk.socket() as socket:
        await socket.send_json({"type": "watch", "run": run})
        assert (await next_of(socket, "records"))["records"][0]["seq"] == 1
        await socket.send_json({"type": "watch", "run": run, "after": 2})
        assert (await next_of(socket, "records"))["records"][0]["seq"] == 3
        desk.release.set()
        told = await story(socket, run)
        assert_contiguous(told[run], told[run][0].first - 1)


async def test_a_place_that_the_run_has_not_come_to_is_refused(open_desk: OpenDesk) -> None:
    desk = await open_desk(say("...") + stall())
    run = (await desk.begin())["id"]
    async with desk.socket() as socket:
        await socket.send_json({"type": "watch", "run": run, "after": 10_000})
        refusal = await next_of(socket, "error")
        assert (refusal["code"], refusal["run"]) == ("bad_cursor", run)


BAD = [
    "{",
    "[]",
    '{"type":"dance"}',
    '{"type":"watch"}',
    '{"type":"watch","run":"r","after":-1}',
    '{"type":"watch","run":"r","after":"1"}',
    '{"type":"watch","run":"r","delivery":"owl"}',
    '{"type":"unwatch","run":"' + "r" * 1000 + '"}',
    '{"type":"watch","run":"r","name":"' + "n" * 1000 + '"}',
    "[" * 10_000,
]


@pytest.mark.parametrize("text", BAD)
async def test_an_invalid_message_is_answered_and_the_next_is_read(open_desk: OpenDesk, text: str) -> None:
    desk = await open_desk()
    async with desk.socket() as socket:
        await socket.send_str(text)
        assert (await next_of(socket, "error"))["code"] == "bad_message"
        await socket.send_json({"type": "list"})
        await next_of(socket, "runs")


async def test_a_client_that_sends_too_many_invalid_messages_is_disconnected(open_desk: OpenDesk) -> None:
    desk = await open_desk()
    async with desk.socket() as socket:
        for _ in range(50):
            await socket.send_bytes(b"\x00")
        codes: list[str] = []
        async for message in socket:
            codes.append(message.json()["type"])
        assert 0 < codes.count("error") < 50
        assert socket.close_code == aiohttp.WSCloseCode.POLICY_VIOLATION


async def test_a_client_that_sends_too_much_is_disconnected(open_desk: OpenDesk) -> None:
    desk = await open_desk()
    async with desk.socket() as socket:
        for _ in range(1000):
            await socket.send_str('{"type":"unwatch","run":"r"}')
        last = await next_of(socket, "error")
        assert last["code"] == "too_many_messages"
        await socket.receive()
        assert socket.close_code == aiohttp.WSCloseCode.POLICY_VIOLATION


async def test_a_message_that_is_too_long_ends_the_connection(open_desk: OpenDesk) -> None:
    desk = await open_desk()
    async with desk.socket() as socket:
        await socket.send_str("x" * 1_000_000)
        async for _ in socket:
            pass
        assert socket.close_code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG


async def test_a_client_that_does_not_read_is_given_merged_records_later(open_desk: OpenDesk) -> None:
    texts = ["x" * 1_000_000] * 8
    replies = [say(text, chunk=2_000) + call("wait", n=n) for n, text in enumerate(texts)]
    desk = await open_desk(*replies, "Done.", settings=Settings(heartbeat=300))
    desk.release.set()
    # The client's buffer is small: what it does not read stays with the server.
    async with desk.http.ws_connect(desk.url("api/ws"), max_msg_size=0) as socket:
        run = (await desk.begin())["id"]
        await socket.send_json({"type": "watch", "run": run})
        assert (await desk.ended(run))["status"] == "finished"
        told = await story(socket, run)
    assert_contiguous(told[run])
    assert len(told[run]) < told[run][-1].seq / 4
    state = fold_run(told[run])
    assert [m.text for m in state.conversation.messages if m.role == "assistant"][:8] == texts


async def test_too_many_watchers_are_refused_on_a_socket_too(open_desk: OpenDesk) -> None:
    settings = Settings(max_watchers=2)
    desk = await open_desk(always=say("...") + stall(), settings=settings)
    one, two = [(await desk.begin())["id"] for _ in range(2)]
    async with desk.socket() as socket:
        await socket.send_json({"type": "watch", "run": one})
        await socket.send_json({"type": "watch", "run": two})
        assert (await next_of(socket, "error"))["code"] == "too_many_watchers"
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await desk.socket()
        assert refused.value.status == 429
