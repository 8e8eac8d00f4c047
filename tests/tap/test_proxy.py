"""The proxy: what passes is what was sent, and its runs are what was said."""

from __future__ import annotations

import asyncio
import gc
import gzip
import io
import json
import logging
import random
import weakref
import zlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from yarl import URL

from rxworker import Worker, tool
from rxworker.errors import ConfigurationError
from rxworker.events import AttemptRetract, Record, ResponseStatus, RunAbort, RunStart, Status, ToolStop
from rxworker.log import MemoryLog
from rxworker.providers import Anthropic, Gemini, GeminiInteractions, Ollama, OpenAIChat, OpenAIResponses, Provider
from rxworker.run.run import Run, end_of
from rxworker.state.response import fold_response
from rxworker.tap import recorder
from rxworker.tap.proxy import TOKEN_HEADER, TapProxy
from rxworker.testing import ReplayServer, ServedResponse, anthropic_frames, call, say
from rxworker.testing.conformance import lint
from rxworker.transport import Client, Retry, WebSocketTransport
from tests.decoded import answer_of, decoded
from tests.over_recordings import provider_of
from tests.over_recordings import pytest_generate_tests as pytest_generate_tests
from tests.transport.socket_service import Service, serving

KEY = "sk-test-0123456789abcdef"
PATHS = {
    "anthropic": "/v1/messages",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "gemini": "/v1beta/models/m:streamGenerateContent?alt=sse&key=" + KEY,
    "gemini_interactions": "/v1beta/interactions",
    "ollama": "/api/chat",
    "bedrock": "/model/m/converse-stream",
}
BODY = {
    "model": "m",
    "messages": [{"role": "user", "content": "Hi"}],
    "input": "Hi",
    "contents": [{"parts": [{"text": "Hi"}]}],
}
KEYS = {"authorization": f"Bearer {KEY}", "x-api-key": KEY, "cookie": f"session={KEY}", "x-goog-api-key": KEY}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has come is decoded in the next turn of the event loop."""
    monkeypatch.setattr(recorder, "INTERVAL", 0.0)
    monkeypatch.setattr(recorder, "FOR_EACH", 0.0)
    monkeypatch.setattr(recorder, "PIECE", 1000)


class Tapped:
    """A proxy before a service, and what it records."""

    def __init__(self, proxy: TapProxy, client: aiohttp.ClientSession) -> None:
        self.proxy, self.client = proxy, client
        self.runs: list[Run[None]] = []
        self._came = asyncio.Event()
        proxy.runs.subscribe(self._add)

    def _add(self, run: Run[None]) -> None:
        self.runs.append(run)
        self._came.set()

    async def run(self, number: int = 0) -> Run[None]:
        """A run, when it has ended."""
        async with asyncio.timeout(5):
            while len(self.runs) <= number:
                self._came.clear()
                await self._came.wait()
            await end_of(self.runs[number])
        return self.runs[number]

    async def post(self, path: str, body: Any = BODY, **headers: str) -> tuple[int, bytes]:
        """The status and the body of a response, as it came."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.client.post(self.proxy.url + path[1:], data=data, headers=headers) as response:
            return response.status, await response.read()


@asynccontextmanager
async def tapped(to: str, **options: Any) -> AsyncGenerator[Tapped, None]:
    async with (
        TapProxy(to, port=0, **options) as proxy,
        aiohttp.ClientSession(auto_decompress=False, headers={"user-agent": "acme-cli/1.2 (secret)"}) as client,
    ):
        yield Tapped(proxy, client)


async def records_of(run: Run[None]) -> list[Record]:
    await end_of(run)
    return list(run._journal.hub.history.records(0))  # pyright: ignore[reportPrivateUsage]


async def check(run: Run[None], name: str, data: bytes) -> None:
    """See that a run has what its response has, and keeps the rules."""
    records, state, events = await records_of(run), run.state, decoded(name, data)
    response = fold_response(events)
    assert lint(records) == []
    assert state.labels["provider"] == name
    assert state.labels["client"] == "acme-cli"
    is_single = sum(isinstance(event, Status) and event.status is ResponseStatus.STARTED for event in events) == 1
    if is_single and response.usage is not None and response.usage.output_tokens is not None:
        assert state.usage.output_tokens == response.usage.output_tokens
    starts = [each.event for each in records if isinstance(each.event, RunStart)]
    assert [message.text for message in starts[0].conversation.messages] == ["Hi"]
    if len(state.conversation.messages) > 1 and response.error is None:
        said, recorded = answer_of(events, name), state.conversation.messages[1]
        assert recorded.text == said.text
        assert [(c.name, c.input) for c in recorded.tool_calls] == [(c.name, c.input) for c in said.tool_calls]


@pytest.mark.product(3)
async def test_every_recording_passes_and_is_decoded(recording: Path) -> None:
    name, body = provider_of(recording), recording.read_bytes()  # noqa: ASYNC240 - a small file
    served = ServedResponse.from_recording(recording)
    chunk = random.Random(recording.name).randrange(50, 5000)
    async with ReplayServer([msgspec.structs.replace(served, chunk=chunk)]) as service:
        async with tapped(service.base_url, idle=0.0, patience=0.0) as tap:
            assert await tap.post(PATHS[name]) == (200, body)
            await check(await tap.run(), name, body)
        assert service.requests[0].body == BODY


@pytest.mark.parametrize("name", PATHS)
async def test_a_response_that_is_cut_is_cut_and_may_come_again(name: str) -> None:
    rng = random.Random(name)
    reply = say("The quick brown fox. " * 20)
    async with ReplayServer(lambda request: ServedResponse(reply, cut_at=rng.randrange(1, 900), chunk=97)) as service:
        cut = service.requests
        async with tapped(service.base_url, patience=0.2) as tap:
            for _ in range(3):
                with pytest.raises(aiohttp.ClientPayloadError):
                    await tap.post(PATHS[name])
            run = await tap.run()
            records = await records_of(run)
        assert len(cut) == 3
    assert lint(records) == []
    assert run.state.status == "aborted"
    assert sum(isinstance(each.event, AttemptRetract) for each in records) == 2
    assert len(tap.runs) == 1


@pytest.mark.parametrize("at", [0, 40, 1000])
async def test_a_client_that_leaves_ends_the_request(at: int) -> None:
    reply = ServedResponse(say("Hello. " * 400), stall_at=2000)
    async with ReplayServer([reply]) as service:
        async with tapped(service.base_url) as tap:
            async with tap.client.post(tap.proxy.url + "v1/messages", json=BODY) as response:
                await response.content.readexactly(at)
            await service.wait_closed()
            run = await tap.run()
        assert service.disconnects == 1
    end = (await records_of(run))[-1].event
    assert isinstance(end, RunAbort)
    assert end.cause == "cancel"
    assert end.reason.endswith("the client has closed the connection")


def packed(encoding: str, data: bytes) -> bytes:
    if encoding == "gzip":
        return gzip.compress(data)
    return zlib.compress(data) if encoding == "deflate" else zlib.compress(data, wbits=-15)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw deflate", "br"])
async def test_what_is_compressed_passes_compressed(encoding: str) -> None:
    (frames,) = [b"".join(anthropic_frames(say("Hello, world.")))]
    if encoding == "br":
        brotli = pytest.importorskip("brotli", reason="the package brotli is not installed")
        body, sent = brotli.compress(frames), brotli.compress(json.dumps(BODY).encode())
    else:
        body, sent = packed(encoding, frames), packed(encoding, json.dumps(BODY).encode())
    header = {"content-encoding": encoding.removeprefix("raw ")}
    served = ServedResponse((body,), headers={"content-type": "text/event-stream", **header}, chunk=11)
    async with ReplayServer([served]) as service, tapped(service.base_url) as tap:
        assert await tap.post(PATHS["anthropic"], sent, **header) == (200, body)
        run = await tap.run()
        assert run.state.conversation.messages[-1].text == "Hello, world."
        assert [message.text for message in run.state.conversation.messages[:1]] == ["Hi"]


async def test_an_encoding_that_cannot_be_read_passes_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    served = ServedResponse((b"\x00\x01",), headers={"content-encoding": "acme"})
    async with ReplayServer([served, served]) as service, tapped(service.base_url) as tap:
        for number in range(2):
            assert await tap.post(PATHS["anthropic"]) == (200, b"\x00\x01")
            run = await tap.run(number)
            assert "content-encoding 'acme' cannot be read" in run.state.reason
    assert [record.name for record in caplog.records] == ["rxworker.tap"]  # once


ERRORS: list[tuple[int, dict[str, str], Any, bool]] = [
    (429, {"retry-after": "1"}, {"error": {"type": "rate_limit_error", "message": "Slow down"}}, True),
    (529, {}, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, True),
    (400, {}, {"error": {"type": "invalid_request_error", "message": "No"}}, False),
    (401, {}, {"error": {"type": "authentication_error", "message": f"invalid key {KEY}"}}, False),
    (429, {"x-should-retry": "false"}, {"error": {"message": "No"}}, False),
]


@pytest.mark.parametrize(("status", "headers", "body", "retries"), ERRORS)
async def test_an_error_passes_and_a_retry_is_another_attempt(
    status: int, headers: dict[str, str], body: Any, retries: bool
) -> None:
    error = ServedResponse.from_status(status, headers=headers, body=body)
    async with ReplayServer([error, "Done."]) as service:
        async with tapped(service.base_url) as tap:
            assert await tap.post(PATHS["anthropic"], **KEYS) == (status, msgspec.json.encode(body))
            assert (await tap.post(PATHS["anthropic"], **KEYS))[0] == 200
            runs = [await tap.run(number) for number in range(1 if retries else 2)]
        states = [run.state for run in runs]
        assert len(tap.runs) == len(runs)
        assert states[-1].conversation.messages[-1].text == "Done."
        if retries:
            assert (states[0].turns, states[0].attempts, states[0].status) == (1, 2, "finished")
        else:
            assert states[0].status == "aborted"
        assert KEY not in repr([await records_of(run) for run in runs])


async def test_a_failed_request_that_does_not_come_again_ends_its_run() -> None:
    error = ServedResponse.from_status(503, body={"error": {"message": "Unavailable"}})
    async with ReplayServer([error]) as service, tapped(service.base_url, patience=0.0) as tap:
        await tap.post(PATHS["openai_chat"])
        run = await tap.run()
        assert run.state.status == "aborted"
        assert "Unavailable" in run.state.reason


async def test_a_service_that_is_not_there() -> None:
    async with tapped("http://127.0.0.1:9", patience=0.0) as tap:
        status, body = await tap.post(PATHS["anthropic"])
        assert status == 502
        assert "no connection to 127.0.0.1" in json.loads(body)["error"]["message"]
        assert (await tap.run()).state.status == "aborted"


@pytest.mark.parametrize("name", PATHS)
async def test_a_decoder_that_raises_changes_no_byte(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with ReplayServer(lambda request: "Hello, world.") as service:
        async with tapped(service.base_url) as plain:
            expected = await plain.post(PATHS[name])

        def broken(self: object, *given: object) -> None:
            raise ZeroDivisionError(f"a mistake about {KEY}")

        for method in ("read", "finish", "__init__"):
            monkeypatch.setattr(recorder._Reading, method, broken)  # pyright: ignore[reportPrivateUsage]
            async with tapped(service.base_url) as tap:
                for _ in range(3):
                    status, body = await tap.post(PATHS[name])
                    assert (status, strip_numbers(body)) == (200, strip_numbers(expected[1]))
                assert (await tap.run()).state.status == "aborted"
    assert len([record for record in caplog.records if record.name == "rxworker.tap"]) <= 3
    assert "ZeroDivisionError" in caplog.text


def strip_numbers(body: bytes) -> bytes:
    """The service counts its requests."""
    return bytes(byte for byte in body if not 47 < byte < 58) if body[:1] != b"\x00" else body[:0]


PROVIDER: dict[str, Callable[..., Provider]] = {
    "anthropic": Anthropic,
    "openai_chat": OpenAIChat,
    "openai_responses": OpenAIResponses,
    "gemini": Gemini,
    "gemini_interactions": GeminiInteractions,
    "ollama": Ollama,
}


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def worker(tap: Tapped, name: str, **options: Any) -> Worker:
    provider = PROVIDER[name]("m", api_key=KEY, base_url=tap.proxy.url.rstrip("/"))
    return Worker(Client(provider, retry=Retry(first=0.0), **options), tools=[add])


@pytest.mark.parametrize("name", PROVIDER)
async def test_requests_of_a_conversation_are_one_run(name: str) -> None:
    replies = [call("add", a=1, b=2) + call("add", a=3, b=4), "Both.", "Later."]
    async with ReplayServer(replies) as service, tapped(service.base_url) as tap:
        program = worker(tap, name)
        first = await program.run("What is 1 + 2, and 3 + 4?")
        run = await tap.run()
        second = await program.run("And now?")
        later = await tap.run(1)
    assert (first.text, second.text, len(tap.runs)) == ("Both.", "Later.", 2)
    state, records = run.state, await records_of(run)
    assert lint(records) == []
    assert (state.status, state.turns, state.tool_calls) == ("finished", 2, 2)
    stops = [each.event for each in records if isinstance(each.event, ToolStop)]
    texts = [stop.result.text if stop.result else "" for stop in stops]
    assert [text.removeprefix('{"output":"').removesuffix('"}') for text in texts] == ["3", "7"]
    assert all(0 <= stop.seconds < 5 for stop in stops)
    assert [len(message.tool_results) for message in state.conversation.messages] == [0, 0, 2, 0]
    assert later.state.labels["conversation"] == "conversation-" + run.id.removeprefix("run-")
    assert later.state.conversation.messages[-2].text == "And now?"
    assert lint(await records_of(later)) == []


@pytest.mark.parametrize("name", ["openai_chat", "ollama"])
async def test_conversations_that_begin_alike_differ_by_their_responses(name: str) -> None:
    """Ollama has no ids of calls."""
    replies = [call("add", a=number, b=1) for number in range(4)] + ["Done."] * 4
    async with ReplayServer(replies) as service, tapped(service.base_url) as tap:
        await asyncio.gather(*(worker(tap, name).run("The same question") for _ in range(4)))
        runs = [await tap.run(number) for number in range(4)]
        assert len(tap.runs) == 4
    for run in runs:
        (asked,) = run.state.conversation.messages[1].tool_calls
        (result,) = run.state.conversation.messages[2].tool_results
        given: Any = asked.input
        assert result.text == str(given["a"] + 1)


async def test_a_run_that_has_ended_is_not_kept() -> None:
    async with ReplayServer(["Hello"]) as service, tapped(service.base_url) as tap:
        await tap.post(PATHS["openai_chat"])
        kept = weakref.ref(await tap.run())
        tap.runs.clear()
        await asyncio.sleep(0)
        gc.collect()
        assert kept() is None


async def test_calls_whose_results_do_not_come_are_cut_off() -> None:
    async with ReplayServer([call("add", a=1, b=2)]) as service, tapped(service.base_url, idle=0.0) as tap:
        await tap.post(PATHS["anthropic"])
        run = await tap.run()
    assert run.state.status == "aborted"
    assert "no request continued it within 0 s" in run.state.reason
    assert lint(await records_of(run)) == []


async def test_a_run_that_is_cancelled_cancels_its_request() -> None:
    async with ReplayServer([ServedResponse(say("Hello. " * 400), stall_at=2000)]) as service:
        async with tapped(service.base_url) as tap:
            request = asyncio.ensure_future(tap.post(PATHS["anthropic"]))
            await service.wait_requests(1)
            while not tap.runs:  # noqa: ASYNC110 - it begins with a timer
                await asyncio.sleep(0)
            tap.runs[0].cancel(reason="enough")
            with pytest.raises(aiohttp.ClientError):
                await request
            await service.wait_closed()
        assert service.disconnects == 1


async def test_a_proxy_that_stops_ends_its_runs_as_cut_off() -> None:
    async with MemoryLog() as log, ReplayServer([call("add", a=1, b=2)]) as service:
        async with tapped(service.base_url, log=log) as tap:
            await tap.post(PATHS["anthropic"])
        (info,) = await log.list()
    assert (info.row.status, info.row.cause) == ("aborted", "abort")
    assert "the proxy was stopped" in (info.row.reason or "")


@pytest.mark.parametrize("compress", [0, 15])
async def test_a_websocket_passes_message_by_message(compress: int) -> None:
    async def echo(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=("acme",), autoping=False)
        await socket.prepare(request)
        async for message in socket:
            if message.type is aiohttp.WSMsgType.PING:
                await socket.pong(message.data)
            elif message.type is aiohttp.WSMsgType.TEXT:
                await socket.send_str(message.data)
            else:
                await socket.send_bytes(message.data)
                await socket.close(code=4001, message=b"enough")
        return socket

    async with served(echo) as url, tapped(url) as tap:
        options: Any = {"protocols": ("acme",), "compress": compress, "autoping": False, "max_msg_size": 0}
        async with connected(tap, **options) as socket:
            assert (socket.protocol, socket.compress) == ("acme", compress)
            await socket.ping(b"p")
            assert (await socket.receive()).data == b"p"
            for size in (0, 3, 200, 70_000, 2_000_000):
                text = "é" * size
                await socket.send_str(text)
                assert (await socket.receive()).data == text
            await socket.send_bytes(b"\x00\xff")
            assert (await socket.receive()).data == b"\x00\xff"
            assert (await socket.receive()).data == 4001


def connected(tap: Tapped, **options: Any) -> Any:
    client: Any = tap.client
    return client.ws_connect(tap.proxy.url + "v1/responses", **options)


async def test_a_refused_websocket_passes_with_its_body() -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.json_response({"error": "no key"}, status=401, headers={"x-why": "key"})

    async with served(refuse) as url, tapped(url) as tap:
        headers = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
        async with tap.client.get(tap.proxy.url + "v1/responses", headers=headers) as response:
            assert (response.status, response.headers["x-why"]) == (401, "key")
            assert await response.json() == {"error": "no key"}


async def test_responses_over_a_socket_are_one_run() -> None:
    service = Service([call("add", a=1, b=2), say("Three.")])
    async with serving(service):
        async with tapped(service.address.removesuffix("/v1")) as tap:
            transport = WebSocketTransport()
            provider = OpenAIResponses("m", api_key=KEY, base_url=tap.proxy.url + "v1")
            result = await Worker(Client(provider, transport=transport), tools=[add]).run("What is 1 + 2?")
            run = await tap.run()
        assert not service.posts
    state = run.state
    assert result.text == state.conversation.messages[-1].text == "Three."
    assert (state.status, state.turns, state.tool_calls, len(tap.runs)) == ("finished", 2, 1, 1)
    assert lint(await records_of(run)) == []


@asynccontextmanager
async def served(handle: Callable[[web.Request], Any]) -> AsyncGenerator[str, None]:
    """A service of a function."""
    app = web.Application(client_max_size=0)
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, auto_decompress=False, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_what_else_http_has_passes() -> None:
    seen: list[tuple[str, str, dict[str, str], int]] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        seen.append((request.method, request.raw_path, dict(request.headers), len(body)))
        if request.path.endswith("moved"):
            return web.Response(status=307, headers={"location": "/there"})
        if request.path.endswith("none"):
            return web.Response(status=204)
        response = web.Response(body=body[::-1] or b"Hello", headers={"x-a": "1", "content-type": "text/x-acme"})
        response.headers.add("set-cookie", "a=1; Path=/")
        response.headers.add("set-cookie", "b=2")
        return response

    async def chunks() -> AsyncGenerator[bytes, None]:
        for number in range(100):
            yield b"%d " % number * 1000

    async with served(handle) as url, tapped(url + "/base") as tap:
        client, at = tap.client, tap.proxy.url
        big = random.Random(1).randbytes(3_000_000)
        for method in ("GET", "PUT", "PATCH", "DELETE", "OPTIONS"):
            async with client.request(method, URL(at + "a%3Ab//c?x=%20y", encoded=True)) as response:
                assert response.headers.getall("set-cookie") == ["a=1; Path=/", "b=2"]
                assert (response.headers["content-type"], await response.read()) == ("text/x-acme", b"Hello")
        async with client.head(at + "x") as response:
            assert (response.headers["content-length"], await response.read()) == ("5", b"")
        async with client.post(at + "v1/embeddings", data=io.BytesIO(big), expect100=True) as response:
            assert await response.read() == big[::-1]
        async with client.post(at + "v1/messages", data=chunks()) as response:
            assert len(await response.read()) == sum(len(b"%d " % n) * 1000 for n in range(100))
        async with client.post(at + "moved", data=b"", allow_redirects=False) as response:
            assert (response.status, response.headers["location"]) == (307, "/there")
        async with client.get(at + "none") as response:
            assert (response.status, await response.read()) == (204, b"")
    assert [each[1] for each in seen[:5]] == [URL_OF.format("a%3Ab//c?x=%20y")] * 5
    assert all("cookie" not in {name.lower() for name in each[2]} for each in seen)  # none is kept here
    assert [(each[0], each[3]) for each in seen[5:8]] == [("HEAD", 0), ("POST", 3_000_000), ("POST", 290_000)]
    assert seen[6][2]["Content-Length"] == "3000000"
    assert all(each[2]["Host"] == url.removeprefix("http://") for each in seen)


URL_OF = "/base/{}"


async def test_bytes_of_the_wire_pass_as_they_come() -> None:
    """Trailers are dropped, as a proxy may; an unknown header of a connection is not passed on."""
    asked: list[bytes] = []
    ready = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(
            b"HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\nConnection: X-Own\r\nX-Own: 1\r\n"
        )
        writer.write(b"X-Kept: a\r\n\r\n3\r\nabc\r\n")
        await ready.wait()
        writer.write(b"2;ext=1\r\nde\r\n0\r\nX-T: 1\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, tapped(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as tap:
        port = int(tap.proxy.url.rstrip("/").rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /x HTTP/1.1\r\nHost: localhost\r\nX-Mine: \xc3\xa9\r\nTE: trailers\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(8) == b"3\r\nabc\r\n"  # before more comes
        ready.set()
        assert await reader.readexactly(12) == b"2\r\nde\r\n0\r\n\r\n"
        writer.close()
    assert head == b"HTTP/1.1 200 Fine\r\nX-Kept: a\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n"
    assert b"X-Mine: \xc3\xa9" in asked[0]
    assert b"TE:" not in asked[0]


async def test_keys_are_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echo = ServedResponse.from_status(401, body={"error": {"message": f"this key is wrong: {KEY}"}})
    async with (
        MemoryLog() as log,
        ReplayServer([echo, "Hello", ServedResponse.garbage(), ServedResponse.dropped()]) as s,
    ):
        async with tapped(s.base_url, log=log, token=KEY[::-1], patience=0.0) as tap:
            path = f"/{KEY[::-1]}{PATHS['gemini']}"
            for _ in range(3):
                await tap.post(path, **KEYS)
            with pytest.raises(aiohttp.ClientError):
                await tap.post(path, **KEYS)
            records = [record for number in range(3) for record in await records_of(await tap.run(number))]
            shown = repr((tap.proxy, tap.runs, vars(tap.proxy)["_recorder"]))
        assert s.requests[0].headers["x-api-key"] == "***"
        assert KEY in s.requests[0].path
        assert KEY[::-1] not in s.requests[0].path
        stored = repr([[entry async for entry in log.read(info.run_id)] for info in await log.list()])
    for text in (repr(records), stored, shown, caplog.text, repr([vars(record) for record in caplog.records])):
        assert KEY not in text
        assert KEY[::-1] not in text
        assert "(secret)" not in text


async def test_other_machines_need_the_token() -> None:
    with pytest.raises(ConfigurationError, match="give it a token"):
        TapProxy("https://api.example.com", host="0.0.0.0")
    for wrong in ("api.example.com", "https://h/x?key=1", "https://a:b@h", "ftp://h"):
        with pytest.raises(ConfigurationError, match="not the address of a service"):
            TapProxy(wrong)
    async with ReplayServer(["Hello"] * 2) as service, tapped(service.base_url, host="0.0.0.0", token="a-token") as tap:
        url = tap.proxy.url.replace("0.0.0.0", "127.0.0.1")
        tap.proxy.url = url
        for path, headers in (
            ("/v1/messages", {}),
            ("/b-token/v1/messages", {}),
            ("/v1/messages", {TOKEN_HEADER: "b-token"}),
        ):
            assert (await tap.post(path, **headers))[0] == 401
        assert not service.requests
        assert (await tap.post("/a-token/v1/messages"))[0] == 200
        assert (await tap.post("/v1/messages", **{TOKEN_HEADER: "a-token"}))[0] == 200
        assert [each.path for each in service.requests] == ["/v1/messages"] * 2
        assert all(TOKEN_HEADER not in each.headers for each in service.requests)


async def test_a_page_whose_name_leads_here_is_refused() -> None:
    async with ReplayServer(["Hello"]) as service, tapped(service.base_url) as tap:
        assert (await tap.post("/v1/messages", host="evil.example.com"))[0] == 403
        assert not service.requests


async def test_a_log_that_hangs_costs_neither_time_nor_memory(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def hang(*given: Any, **more: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(MemoryLog, "_claim", hang)
    monkeypatch.setattr(recorder, "MAX_BYTES", 20_000)
    monkeypatch.setattr(recorder, "CLOSING", 0.1)
    reply = "Hello, world. " * 20
    async with MemoryLog() as log, ReplayServer(lambda _: reply) as service, tapped(service.base_url, log=log) as tap:
        for _ in range(30):
            status, body = await tap.post(PATHS["openai_chat"])
            assert (status, body[-14:]) == (200, b"data: [DONE]\n\n")
        assert tap.proxy._recorder.size < 40_000  # pyright: ignore[reportPrivateUsage]
        assert "more waits to be recorded" in caplog.text
        for run in tap.runs:
            run.cancel()


async def test_decoding_takes_turns_with_what_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    took: list[tuple[float, int, object]] = []
    read = recorder._Reading.read  # pyright: ignore[reportPrivateUsage]

    def timed(self: Any, exchange: object, data: bytes) -> None:
        took.append((asyncio.get_running_loop().time(), len(data), exchange))
        read(self, exchange, data)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(recorder._Reading, "read", timed)  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(recorder, "FOR_EACH", 0.03)
    monkeypatch.setattr(recorder, "GROUP", 1)
    monkeypatch.setattr(recorder, "SLICE", 0.000001)
    async with ReplayServer(lambda _: "Hello, world. " * 200) as service, tapped(service.base_url) as tap:
        began = asyncio.get_running_loop().time()
        bodies = [data for _, data in await asyncio.gather(*(tap.post(PATHS["ollama"]) for _ in range(4)))]
        runs = [await tap.run(number) for number in range(4)]
        assert [run.state.conversation.messages[1].text for run in runs] == ["Hello, world. " * 200] * 4
    assert sum(size for _, size, _ in took) == sum(map(len, bodies))
    assert max(size for _, size, _ in took) == recorder.PIECE
    turns = sum(then is not now for (_, _, then), (_, _, now) in pairwise(took))
    assert turns >= 3
    assert took[-1][0] - began > turns * recorder.FOR_EACH


ANSWERS = {
    row["protocol"]: row["answer"]
    for row in map(
        msgspec.json.decode,
        (Path(__file__).parents[1] / "recordings" / "whole_answers.jsonl").read_bytes().splitlines(),
    )
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_an_answer_that_comes_whole_is_decoded(name: str) -> None:
    body = msgspec.json.format(msgspec.json.encode(ANSWERS[name]), indent=1)
    path = PATHS[name].replace("streamGenerateContent?alt=sse&", "generateContent?")
    answer = ServedResponse((body,), headers={"content-type": "application/json"}, chunk=33)
    async with ReplayServer([answer]) as service, tapped(service.base_url, idle=0.0) as tap:
        assert await tap.post(path) == (200, body)
        message = (await tap.run()).state.conversation.messages[1]
    assert message.text == "It is sunny."
    assert [(each.name, each.input) for each in message.tool_calls] == [("look", {"city": "Rome"})]


def package(name: str) -> Any:
    return pytest.importorskip(name, reason=f"the package {name} is not installed")


async def with_anthropic(url: str) -> tuple[str, str]:
    asked: Any = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    async with package("anthropic").AsyncAnthropic(api_key=KEY, base_url=url) as client:
        async with client.messages.stream(**asked) as stream:
            text = await stream.get_final_text()
        return text, (await client.messages.create(**asked)).content[1].text


async def with_openai_chat(url: str) -> tuple[str, str]:
    asked: Any = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    async with package("openai").AsyncOpenAI(api_key=KEY, base_url=url + "v1") as client:
        stream = await client.chat.completions.create(**asked, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
        return text, (await client.chat.completions.create(**asked)).choices[0].message.content


async def with_openai_responses(url: str) -> tuple[str, str]:
    async with package("openai").AsyncOpenAI(api_key=KEY, base_url=url + "v1") as client:
        stream = await client.responses.create(model="m", input="Hi", stream=True)
        text = "".join([each.delta async for each in stream if each.type == "response.output_text.delta"])
        return text, (await client.responses.create(model="m", input="Hi")).output_text


async def with_gemini(url: str) -> tuple[str, str]:
    client = package("google.genai").Client(api_key=KEY, http_options={"base_url": url.rstrip("/")})
    async with client.aio as models:
        stream = await models.models.generate_content_stream(model="m", contents="Hi")
        text = "".join([chunk.text or "" async for chunk in stream])
        answer = await models.models.generate_content(model="m", contents="Hi")
        return text, answer.candidates[0].content.parts[1].text


SDKS = {
    "anthropic": with_anthropic,
    "openai_chat": with_openai_chat,
    "openai_responses": with_openai_responses,
    "gemini": with_gemini,
}


@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession")  # of Google's client
@pytest.mark.parametrize("name", SDKS)
async def test_official_clients_pass(name: str) -> None:
    error = ServedResponse.from_status(429, headers={"retry-after-ms": "1"}, body={"error": {"message": "Wait"}})
    answers = [error, "Hello, world.", ServedResponse.from_json(ANSWERS[name])]
    if name == "gemini":
        del answers[0]  # its client does not try again
    async with ReplayServer(answers) as service, tapped(service.base_url) as tap:
        assert await SDKS[name](tap.proxy.url) == ("Hello, world.", "It is sunny.")
        first, second = await tap.run(), tap.runs[1]
        assert first.state.conversation.messages[-1].text == "Hello, world."
        assert first.state.attempts == len(answers) - 1
        assert [each.text for each in first.state.conversation.messages] == ["Hi", "Hello, world."]
        assert first.state.labels["client"]
    assert second.state.conversation.messages[1].text == "It is sunny."
    assert KEY not in repr([await records_of(run) for run in tap.runs])
