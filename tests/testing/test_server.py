import asyncio
import io
import time
import urllib.request
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import msgspec
import pytest
import pytest_asyncio

from rxworker.errors import LocalProtocolError
from rxworker.messages import Json
from rxworker.testing import (
    ReplayServer,
    Reply,
    ServedResponse,
    anthropic_frames,
    call,
    gemini_frames,
    ollama_frames,
    openai_chat_frames,
    openai_responses_frames,
    say,
    stall,
)
from rxworker.testing.server import GARBAGE, Received

REPLY = say("Hello, world.") + call("get_weather", city="Kyoto")
ANTHROPIC, OPENAI = "/v1/messages", "/v1/chat/completions"


@pytest_asyncio.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def ask(client: aiohttp.ClientSession, server: ReplayServer, path: str = ANTHROPIC, body: Json = None) -> bytes:
    async with client.post(server.base_url + path, json=body or {}) as answer:
        return await answer.read()


@pytest.mark.parametrize("chunk", [1, 7, None])
async def test_a_reply_arrives_as_it_was_rendered(client: aiohttp.ClientSession, chunk: int | None) -> None:
    answer = ServedResponse(REPLY, chunk=chunk)
    async with ReplayServer([answer, answer]) as server:
        anthropic = await ask(client, server, body={"model": "m"})
        openai = await ask(client, server, OPENAI, {"model": "m"})

    assert anthropic == b"".join(anthropic_frames(REPLY, number=1, model="m"))
    assert openai == b"".join(openai_chat_frames(REPLY, number=2, model="m", include_usage=False))


@pytest.mark.parametrize(
    ("path", "frames", "kind"),
    [
        ("/v1/responses", openai_responses_frames, "text/event-stream"),
        ("/v1beta/models/m:streamGenerateContent?alt=sse", gemini_frames, "text/event-stream"),
        ("/api/chat", ollama_frames, "application/x-ndjson"),
    ],
)
async def test_each_path_speaks_its_format_under_its_content_type(
    client: aiohttp.ClientSession, path: str, frames: Callable[..., list[bytes]], kind: str
) -> None:
    async with ReplayServer([REPLY]) as server, client.post(server.base_url + path, json={}) as answer:
        assert await answer.read() == b"".join(frames(REPLY))
        assert answer.content_type == kind


async def test_the_usage_chunk_is_sent_on_request(client: aiohttp.ClientSession) -> None:
    async with ReplayServer([REPLY]) as server:
        body = await ask(client, server, OPENAI, {"stream_options": {"include_usage": True}})

    assert b'"usage":{"prompt_tokens":10' in body


@pytest.mark.parametrize("path", [ANTHROPIC, "/v1beta/models/m:streamGenerateContent?alt=sse"])
async def test_a_recording_arrives_byte_for_byte_at_any_path(
    client: aiohttp.ClientSession, tmp_path: Path, path: str
) -> None:
    data = b"\xef\xbb\xbfdata: \xe4\xb8\x96\r\n\r\n: note\r\n\r\ndata: cut"
    recording = tmp_path / "a.sse"
    recording.write_bytes(data)

    async with ReplayServer([recording]) as server, client.post(server.base_url + path, json={}) as answer:
        assert await answer.read() == data
        assert answer.content_type == "text/event-stream"


async def test_a_text_is_short_for_a_reply_and_a_function_sees_the_request(client: aiohttp.ClientSession) -> None:
    def echo(received: Received) -> str:
        assert isinstance(received.body, dict)
        return str(received.body["say"])

    async with ReplayServer(echo) as server:
        assert b"abc" in await ask(client, server, body={"say": "abc"})


async def test_requests_are_kept_with_their_keys_masked(client: aiohttp.ClientSession) -> None:
    headers = {"X-Api-Key": "secret", "Authorization": "Bearer secret", "X-Other": "shown"}
    async with ReplayServer(["a"]) as server:
        url = server.base_url + ANTHROPIC + "?beta=true"
        async with client.post(url, json={"a": [1]}, headers=headers) as answer:
            await answer.read()
        (received,) = server.requests

    assert (received.method, received.path, received.body) == ("POST", ANTHROPIC + "?beta=true", {"a": [1]})
    assert received.headers["x-other"] == "shown"
    assert "secret" not in repr(received)


async def test_a_refusal_has_its_status_headers_and_body(client: aiohttp.ClientSession) -> None:
    refusal = ServedResponse.from_status(429, headers={"retry-after": "1"}, body={"error": "slow"})
    async with ReplayServer([refusal]) as server, client.post(server.base_url + ANTHROPIC, json={}) as answer:
        assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        assert await answer.json() == {"error": "slow"}


@pytest.mark.parametrize(
    ("answer", "status", "kind", "body"),
    [
        (ServedResponse.from_json({"a": 1}), 200, "application/json", b'{"a":1}'),
        (ServedResponse.from_html("<p>", status=502), 502, "text/html", b"<p>"),
        (ServedResponse.garbage(), 200, "text/event-stream", GARBAGE),
        (ServedResponse.from_status(500), 500, "application/json", b""),
    ],
)
async def test_an_answer_may_be_something_other_than_a_stream(
    client: aiohttp.ClientSession, answer: ServedResponse, status: int, kind: str, body: bytes
) -> None:
    async with ReplayServer([answer]) as server, client.post(server.base_url + ANTHROPIC, json={}) as got:
        assert (got.status, got.content_type, await got.read()) == (status, kind, body)


async def test_a_cut_closes_the_connection_within_the_body(client: aiohttp.ClientSession) -> None:
    frames = anthropic_frames(REPLY, model="m")
    async with ReplayServer([ServedResponse.from_reply(REPLY, cut_after=2)]) as server:
        async with client.post(server.base_url + ANTHROPIC, json={"model": "m"}) as answer:
            got = await answer.content.readexactly(len(frames[0]) + len(frames[1]))
            assert got == frames[0] + frames[1]
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.content.read()
        await server.wait_closed()

        assert server.disconnects == 0  # the server left, not the client


async def test_a_dropped_connection_answers_nothing(client: aiohttp.ClientSession) -> None:
    async with ReplayServer([ServedResponse.dropped(), "a"]) as server:
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await ask(client, server)

        assert await ask(client, server)


@pytest.mark.parametrize(
    "answer",
    [
        ServedResponse(say("half") + stall()),
        ServedResponse(say("half"), stall_after=4),
        ServedResponse(say("half"), stall_at=400),
        ServedResponse(say("half" * 1000), pace=0.01),
    ],
)
async def test_a_client_that_leaves_is_noticed(client: aiohttp.ClientSession, answer: ServedResponse) -> None:
    async with ReplayServer([answer]) as server:
        async with client.post(server.base_url + ANTHROPIC, json={}) as got:
            await got.content.readline()
            assert (server.open_connections, server.disconnects) == (1, 0)
            got.close()
        await server.wait_closed()

        assert (server.open_connections, server.disconnects) == (0, 1)


async def test_a_client_that_does_not_wait_for_the_headers_is_noticed(client: aiohttp.ClientSession) -> None:
    async with ReplayServer([ServedResponse(REPLY, delay=60)]) as server:
        asking = asyncio.create_task(ask(client, server))
        await server.wait_requests(1)
        asking.cancel()
        await server.wait_closed()

        assert server.disconnects == 1


async def test_a_wait_that_times_out_reports_what_was_received() -> None:
    async with ReplayServer(["a"]) as server:
        with pytest.raises(TimeoutError, match=r"waited 0.01 s for 1 requests: 0 requests, 0 open"):
            await server.wait_requests(1, timeout=0.01)


async def test_answers_are_paced(client: aiohttp.ClientSession) -> None:
    frames = [b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\n"]
    async with ReplayServer([ServedResponse.from_frames(frames, pace=0.02, delay=0.02)]) as server:
        began = time.monotonic()
        assert await ask(client, server) == b"".join(frames)

    assert time.monotonic() - began >= 0.075


@pytest.mark.parametrize(("path", "kind"), [(ANTHROPIC, '"type":"error"'), (OPENAI, '"type":"server_error"')])
async def test_running_out_of_answers_is_an_error(client: aiohttp.ClientSession, path: str, kind: str) -> None:
    none: list[Reply] = []
    async with ReplayServer(none) as server, client.post(server.base_url + path, json={}) as answer:
        body = await answer.text()
        assert (answer.status, answer.headers["x-should-retry"]) == (500, "false")
        assert kind in body
        assert "request 1 came, but only 0 answers were scripted" in body


async def test_a_function_that_raises_is_an_error_with_its_message(client: aiohttp.ClientSession) -> None:
    def broken(_received: Received) -> Reply:
        raise KeyError("oops")

    async with ReplayServer(broken) as server:
        assert b"KeyError: 'oops'" in await ask(client, server)


async def test_a_reply_needs_a_path_whose_format_is_known(client: aiohttp.ClientSession) -> None:
    async with ReplayServer([REPLY]) as server, client.post(server.base_url + "/v1/embeddings", json={}) as answer:
        assert answer.status == 404
        text = await answer.text()
        assert "no format is known at /v1/embeddings" in text
        assert ".../chat/completions" in text


async def test_only_post_takes_an_answer(client: aiohttp.ClientSession) -> None:
    async with ReplayServer(["a"]) as server:
        async with client.get(server.base_url + ANTHROPIC) as answer:
            assert answer.status == 405
        assert await ask(client, server)


async def test_large_requests_and_answers_pass(client: aiohttp.ClientSession) -> None:
    text = "x" * 3_000_000
    async with ReplayServer([say(text, chunk=100_000)]) as server:
        url = server.base_url + ANTHROPIC
        async with client.post(url, data=io.BytesIO(msgspec.json.encode(text))) as answer:
            body = await answer.read()
        assert server.requests[0].body == text

    assert len(body) > len(text)


async def test_the_server_stops_whatever_is_still_open(client: aiohttp.ClientSession) -> None:
    async with ReplayServer([stall()]) as server:
        answer = await client.post(server.base_url + ANTHROPIC, json={})
    with pytest.raises(aiohttp.ClientError):
        await answer.read()

    assert (server.open_connections, server.disconnects) == (0, 0)


def test_it_runs_without_an_event_loop() -> None:
    with ReplayServer(["a", ServedResponse.from_reply("b", pace=0.001)]) as server:
        for _ in range(2):
            request = urllib.request.Request(server.base_url + ANTHROPIC, data=b"{}")
            with urllib.request.urlopen(request) as answer:
                assert answer.read().endswith(b'{"type":"message_stop"}\n\n')
        asyncio.run(server.wait_closed())

    assert len(server.requests) == 2


def test_a_server_in_a_thread_stops_whatever_is_still_open() -> None:
    with ReplayServer([stall()]) as server:
        request = urllib.request.Request(server.base_url + ANTHROPIC, data=b"{}")
        with urllib.request.urlopen(request) as answer:
            assert answer.readline() == b"event: message_start\n"

    assert server.open_connections == 0


def test_a_server_that_has_not_been_entered_raises() -> None:
    with pytest.raises(LocalProtocolError, match="async with"):
        _ = ReplayServer(["a"]).base_url


def test_the_bodies_of_requests_that_are_not_json_are_kept_as_text() -> None:
    with ReplayServer([ServedResponse.from_status(400)]) as server:
        request = urllib.request.Request(server.base_url + "/x", data=b"a=b")
        with pytest.raises(urllib.request.HTTPError):
            urllib.request.urlopen(request)

    assert server.requests[0].body == "a=b"


async def test_the_json_of_an_answer_is_that_of_the_frames(client: aiohttp.ClientSession) -> None:
    async with ReplayServer([ServedResponse.from_json({"error": {"message": "no"}}, status=400)]) as server:
        assert msgspec.json.decode(await ask(client, server)) == {"error": {"message": "no"}}
