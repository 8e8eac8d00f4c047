"""`HttpTransport` over real connections: what arrives, what goes wrong, and who closes what."""

from __future__ import annotations

import asyncio
import gc
import gzip
import socket
from collections.abc import Awaitable, Callable

import pytest
from reactivex import Observable
from reactivex import operators as ops

from rxworker.errors import HttpStatusError, LocalProtocolError, TransportError, TransportTimeoutError
from rxworker.operators.kernel import Sink, connect
from rxworker.providers.base import HttpRequest
from rxworker.testing import ReplayServer, ServedResponse, stall
from rxworker.testing.server import Faults
from rxworker.transport import HttpTransport

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
RawServer = Callable[[Handler], Awaitable[str]]

FRAMES = [b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\n"]


def request(base_url: str) -> HttpRequest:
    headers = {"content-type": "application/json", "x-api-key": "sk-ant-very-secret"}
    return HttpRequest(base_url + "/v1/messages", headers, b'{"stream": true}')


def send(base_url: str) -> Observable[bytes]:
    return HttpTransport().send(request(base_url))


async def body_of(source: Observable[bytes]) -> bytes:
    chunks: list[bytes] = await source.pipe(ops.to_list())
    return b"".join(chunks)


async def failure_of(source: Observable[bytes]) -> TransportError:
    with pytest.raises(TransportError) as caught:
        await source.pipe(ops.to_list())
    return caught.value


async def next_of(source: Observable[bytes]) -> tuple[bytes, Callable[[], None]]:
    """The first chunk, and what leaves."""
    first: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def on_next(chunk: bytes) -> None:
        if not first.done():
            first.set_result(chunk)

    subscription = source.subscribe(on_next)
    return await first, subscription.dispose


async def test_the_body_arrives_as_it_is_sent() -> None:
    async with ReplayServer([ServedResponse.from_frames(FRAMES, chunk=4)]) as server:
        assert await body_of(send(server.base_url)) == b"".join(FRAMES)
        assert server.requests[0].body == {"stream": True}
        assert server.requests[0].method == "POST"


async def test_each_subscription_makes_its_own_request() -> None:
    async with ReplayServer([ServedResponse.from_frames([b"one"]), ServedResponse.from_frames([b"two"])]) as server:
        source = send(server.base_url)
        assert len(server.requests) == 0
        assert (await body_of(source), await body_of(source)) == (b"one", b"two")
        assert len(server.requests) == 2


async def test_disposing_before_the_answer_closes_the_connection() -> None:
    async with ReplayServer([ServedResponse.from_frames([], delay=60)]) as server:
        subscription = send(server.base_url).subscribe()
        await server.wait_requests(1)
        subscription.dispose()
        await server.wait_closed()
        assert server.disconnects == 1


async def test_disposing_at_once_sends_nothing() -> None:
    async with ReplayServer(["never asked"]) as server:
        send(server.base_url).subscribe().dispose()
        await asyncio.sleep(0)
        assert await body_of(send(server.base_url))
        assert len(server.requests) == 1


async def test_an_observer_that_raises_closes_the_connection_and_the_loop_reports_why() -> None:
    heard: list[object] = []

    def hear(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        heard.append(context["exception"])

    def boom(_: bytes) -> None:
        raise ValueError("not my day")

    asyncio.get_running_loop().set_exception_handler(hear)
    async with ReplayServer([ServedResponse.from_frames(FRAMES, stall_after=3)]) as server:
        send(server.base_url).subscribe(boom)
        await server.wait_requests(1)
        await server.wait_closed()
        assert server.disconnects == 1
    assert [repr(error) for error in heard] == ["ValueError('not my day')"]


async def test_one_connection_serves_request_after_request(raw_server: RawServer) -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while await reader.readline():
            await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(len(b'{"stream": true}'))
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
            writer.write(b"content-length: 2\r\n\r\nok")

    url = await raw_server(serve)
    for _ in range(3):
        assert await body_of(send(url)) == b"ok"
    assert connections == 1


@pytest.mark.parametrize("is_cut", [False, True])
async def test_a_long_answer_that_comes_at_once_is_emitted_whole(raw_server: RawServer, is_cut: bool) -> None:
    pieces = [b"data: %d\n\n" % n for n in range(10_000)]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b'{"stream": true}')
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
        writer.write(b"transfer-encoding: chunked\r\n\r\n")
        writer.write(b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces))
        if not is_cut:
            writer.write(b"0\r\n\r\n")
        writer.close()

    got: list[bytes] = []
    source = send(await raw_server(serve)).pipe(ops.do_action(got.append))
    if is_cut:
        assert "was cut" in str(await failure_of(source))
    else:
        await source
    assert b"".join(got) == b"".join(pieces)


async def test_a_compressed_answer_is_not_taken_all_at_once(raw_server: RawServer) -> None:
    body = b"data: 1\n\n" * 1_000_000
    packed = gzip.compress(body)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b'{"stream": true}')
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
        writer.write(b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed))
        writer.write(packed)

    chunks: list[bytes] = await send(await raw_server(serve)).pipe(ops.to_list())
    assert b"".join(chunks) == body
    assert max(map(len, chunks)) < 1024 * 1024


async def test_many_streams_run_side_by_side() -> None:
    async with ReplayServer(lambda _: ServedResponse.from_frames(FRAMES)) as server:
        bodies = await asyncio.gather(*(body_of(send(server.base_url)) for _ in range(50)))
    assert set(bodies) == {b"".join(FRAMES)}


def test_without_an_event_loop_it_names_the_remedy() -> None:
    errors: list[Exception] = []
    source = send("http://127.0.0.1:9")
    source.subscribe(on_error=errors.append)
    assert isinstance(errors[0], LocalProtocolError)
    assert "within asyncio.run" in str(errors[0])


@pytest.mark.parametrize(
    ("answer", "status", "says"),
    [
        (ServedResponse.from_status(429, headers={"retry-after": "7"}, body={"a": 1}), 429, b'{"a":1}'),
        (ServedResponse.from_json({"error": "no"}), 200, b'{"error":"no"}'),
        (ServedResponse.from_html("<p>hello", status=200), 200, b"<p>hello"),
        (ServedResponse.from_status(302, headers={"location": "http://127.0.0.1:9/"}), 302, b""),
        (ServedResponse.from_status(204), 204, b""),
    ],
)
async def test_an_answer_that_is_not_a_stream_is_an_error_with_all_of_it(
    answer: ServedResponse, status: int, says: bytes
) -> None:
    async with ReplayServer([answer]) as server:
        error = await failure_of(send(server.base_url))
    assert isinstance(error, HttpStatusError)
    assert (error.status, error.body) == (status, says)
    assert f"answered {status}" in str(error)
    assert error.url == server.base_url + "/v1/messages"
    assert {name.lower() for name in error.headers} == set(error.headers)


async def test_a_redirect_is_not_followed_since_the_key_would_go_along() -> None:
    async with ReplayServer(["never asked"]) as other:
        there = {"location": other.base_url + "/v1/messages"}
        async with ReplayServer([ServedResponse.from_status(307, headers=there)]) as server:
            await failure_of(send(server.base_url))
        assert len(other.requests) == 0


@pytest.mark.parametrize("kind", ["text/event-stream", "text/plain", "application/octet-stream"])
async def test_some_servers_do_not_name_their_stream(kind: str) -> None:
    async with ReplayServer([ServedResponse.from_frames([b"ok"], kind)]) as server:
        assert await body_of(send(server.base_url)) == b"ok"


async def test_of_a_huge_error_only_the_beginning_is_kept() -> None:
    async with ReplayServer([ServedResponse.from_status(500, body=b"x" * 1_000_000)]) as server:
        error = await failure_of(send(server.base_url))
        await server.wait_closed()
    assert isinstance(error, HttpStatusError)
    assert len(error.body) == 64 * 1024


@pytest.mark.parametrize("faults", [Faults(stall_at=5), Faults(chunk=1, pace=0.02)])
async def test_an_error_whose_body_never_ends_keeps_its_status(monkeypatch: pytest.MonkeyPatch, faults: Faults) -> None:
    monkeypatch.setattr("rxworker.transport.http.ERROR_PAUSE", 0.1)
    monkeypatch.setattr("rxworker.transport.http.ERROR_SECONDS", 0.2)
    body = b'{"error": ' + b" " * 1000
    answer = ServedResponse.from_status(500, body=body, **faults)
    async with ReplayServer([answer]) as server:
        error = await failure_of(send(server.base_url))
        await server.wait_closed()
    assert isinstance(error, HttpStatusError)
    assert error.status == 500
    assert body.startswith(error.body)
    assert error.body


async def test_an_error_whose_body_is_cut_keeps_its_status_and_headers() -> None:
    answer = ServedResponse.from_status(429, headers={"retry-after": "7"}, body=b"x" * 100, cut_at=5)
    async with ReplayServer([answer]) as server:
        error = await failure_of(send(server.base_url))
    assert isinstance(error, HttpStatusError)
    assert (error.status, error.headers["retry-after"], error.body) == (429, "7", b"xxxxx")


async def test_a_refused_connection_names_the_address_and_what_to_check(closed_port: int) -> None:
    url = f"http://127.0.0.1:{closed_port}"
    error = await failure_of(send(url))
    assert url in str(error)
    assert "Is the server running, and is the address right?" in str(error)
    assert error.retryable


async def test_an_unknown_host_names_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    error = await failure_of(send("http://host.invalid"))
    assert "cannot connect to http://host.invalid/v1/messages" in str(error)


async def test_a_connection_that_is_not_made_in_time_is_a_time_out(full_port: int) -> None:
    url = f"http://127.0.0.1:{full_port}"
    error = await failure_of(HttpTransport(connect_timeout=0.05).send(request(url)))
    assert isinstance(error, TransportTimeoutError)
    assert f"no connection to {url}/v1/messages within 0.05 s" in str(error)
    assert error.retryable


async def test_tls_against_a_plain_port_is_an_error_with_the_cause() -> None:
    async with ReplayServer(["never asked"]) as server:
        url = server.base_url.replace("http:", "https:")
        error = await failure_of(send(url))
    assert url in str(error)
    assert not error.retryable
    assert "http://" in str(error)  # what to try


async def test_a_connection_that_closes_before_any_byte_may_be_tried_again() -> None:
    async with ReplayServer([ServedResponse.dropped()]) as server:
        error = await failure_of(send(server.base_url))
    assert error.retryable
    assert "was cut" in str(error)


async def test_a_cut_in_the_body_comes_after_what_was_received() -> None:
    got: list[bytes] = []
    async with ReplayServer([ServedResponse.from_frames(FRAMES, cut_after=2)]) as server:
        error = await failure_of(send(server.base_url).pipe(ops.do_action(got.append)))
    assert b"".join(got) == b"".join(FRAMES[:2])
    assert error.retryable


@pytest.mark.parametrize(
    "answer", [b"\x00\xff garbage\r\n\r\n", b"HTTP/1.1 999999 what\r\n\r\n", b"HTTP/1.1 200 OK\r\n"]
)
async def test_a_server_that_speaks_no_http_is_an_error(raw_server: RawServer, answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    url = await raw_server(serve)
    error = await failure_of(send(url))
    assert url in str(error)
    assert "very-secret" not in f"{error!r} {error} {error.__cause__!r} {error.__cause__}"


async def test_a_query_in_the_address_is_not_repeated_in_messages(closed_port: int) -> None:
    sent = HttpRequest(f"http://127.0.0.1:{closed_port}/v1?key=very-secret", {}, b"")
    error = await failure_of(HttpTransport().send(sent))
    assert "very-secret" not in str(error)
    assert f"http://127.0.0.1:{closed_port}/v1:" in str(error)


async def test_observers_that_leave_close_everything() -> None:
    async with ReplayServer(lambda _: stall()) as server:
        for _ in range(5):
            _, leave = await next_of(send(server.base_url))
            leave()
        await server.wait_closed()
        assert server.disconnects == 5
        await asyncio.sleep(0)
        gc.collect()
        assert len(asyncio.all_tasks()) <= 2  # the test's, and the server's


async def test_an_observer_without_a_guard_receives_nothing_once_it_has_left() -> None:
    """Between two stages nobody else keeps the contract."""
    heard: list[object] = []
    left = asyncio.Event()

    def on_next(chunk: bytes) -> None:
        heard.append(chunk)
        subscription.dispose()
        left.set()

    async with ReplayServer([ServedResponse.from_frames([b"all of it"])]) as server:
        sink = Sink(on_next, heard.append, lambda: heard.append(None))
        subscription = connect(send(server.base_url), sink)
        await left.wait()
        await asyncio.sleep(0)
    assert heard == [b"all of it"]


async def test_an_observer_without_a_guard_receives_one_end() -> None:
    chunks: list[bytes] = []
    ends: asyncio.Queue[Exception | None] = asyncio.Queue()

    async with ReplayServer([ServedResponse.from_frames(FRAMES), ServedResponse.from_status(500)]) as server:
        for _ in range(2):
            sink = Sink[bytes](chunks.append, ends.put_nowait, lambda: ends.put_nowait(None))
            subscription = connect(send(server.base_url), sink)
            end = await ends.get()
            subscription.dispose()
            await asyncio.sleep(0)
            assert isinstance(end, HttpStatusError) == (len(server.requests) == 2)
            assert ends.empty()
