"""`WebSocketTransport`: what it delivers equals what HTTP delivers, whatever happens to the socket.

And who closes what.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable
from typing import Any

import msgspec
import openai
import pytest
from aiohttp import WSMsgType, web
from msgspec.structs import replace
from reactivex import operators as ops

from rxworker import Session, Worker, tool
from rxworker.errors import HttpStatusError, LocalProtocolError, ProviderError, RemoteProtocolError, TransportError
from rxworker.events import ResponseEvent, TextDelta
from rxworker.messages import Conversation, Message
from rxworker.providers import OpenAIResponses, Options, Request
from rxworker.providers.base import HttpRequest
from rxworker.providers.error_table import RETRYABLE_KINDS, ROWS, WORDS, key
from rxworker.testing import Reply, call, openai_responses_frames, say, think
from rxworker.transport import Client, HttpTransport, Retry, Transport, WebSocketTransport
from rxworker.transport.base import PRESSURE
from tests.runs import settle
from tests.seen import until_end
from tests.transport.socket_service import FULL, GONE, Cut, Service, error, serving
from tests.transport.test_pressure import Gate

KEY = "sk-very-secret-0123456789"
NEVER = Retry(retries=0)
LOOP = [think("Hm.") + call("look", at="a"), call("look", at="b") + call("look", at="c"), say("It is done.")]
HELLO = Conversation((Message.user("hello"),))


@tool
def look(at: str) -> str:
    """Look."""
    return f"seen {at}"


def client(service: Service, transport: Transport | None = None, retry: Retry | None = None) -> Client:
    provider = OpenAIResponses("gpt-5", api_key=KEY, base_url=service.address)
    return Client(provider, transport=transport or WebSocketTransport(), retry=retry or NEVER)


async def run(service: Service, transport: Transport | None) -> list[Message]:
    """A run of the loop; its messages without the address."""
    provider = OpenAIResponses("gpt-5", api_key=KEY, base_url=service.address)
    worker = Worker(Client(provider, transport=transport, retry=NEVER), tools=[look])
    return [replace(message, service=None) for message in (await worker.run("hello")).conversation.messages]


async def taken(model: Client, request: Request | Conversation = HELLO) -> tuple[list[ResponseEvent], Exception | None]:
    """The events of a response, and how it failed."""
    return await until_end(model.stream(request))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what the service sees has no event
            await asyncio.sleep(0.001)


def request(service: Service, **members: Any) -> HttpRequest:
    body = {"model": "m", "input": [{"role": "user", "content": "hello"}], **members}
    url = f"{service.address}/v1/responses"
    return HttpRequest(url, {"authorization": f"Bearer {KEY}"}, msgspec.json.encode(body))


async def test_a_run_has_one_socket_on_which_only_what_is_new_is_sent() -> None:
    async with serving(Service(LOOP)) as service, serving(Service(LOOP)) as http:
        assert await run(service, WebSocketTransport()) == await run(http, None)
        assert (len(service.opened), len(service.posts)) == (1, 0)
        assert service.understood == http.understood
        assert [len(event["input"]) for event in service.created] == [1, 1, 2]
        named = [event.get("previous_response_id") for event in service.created]
        assert named == [None, "resp_1", "resp_2"]
        assert (len(http.opened), len(http.posts)) == (0, 3)
        assert service.taken < http.taken


@pytest.mark.parametrize("after", range(12))
async def test_a_response_that_is_cut_ends_as_over_http(after: int) -> None:
    """Before its first event it is requested over HTTP; after it, it has failed."""
    reply = think("Hm.") + say("one two")
    async with serving(Service([Cut(reply, after)])) as http:
        events, failure = await taken(client(http, transport=HttpTransport()))
    script = [Cut(reply, 0), Cut(reply, 0)] if after == 0 else [Cut(reply, after)]
    async with serving(Service(script)) as service:
        got, failed = await taken(client(service))
        assert len(service.posts) == (after == 0)
        await until(lambda: service.closed == len(service.opened))
    assert isinstance(failed, TransportError)
    assert isinstance(failure, TransportError)
    assert failed.retryable is failure.retryable is True
    # The last of them has the words of its failure.
    assert [type(event) for event in got] == [type(event) for event in events]
    assert text_of(got) == text_of(events)


def text_of(events: list[ResponseEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


@pytest.mark.parametrize("cut", range(3))
async def test_a_run_goes_on_where_its_socket_is_cut_before_an_answer(cut: int) -> None:
    """The whole input is sent: over a new socket for one that was kept, over HTTP for a new one."""
    script = [*LOOP[:cut], Cut(LOOP[cut], 0), *LOOP[cut:]]
    async with serving(Service(script)) as service, serving(Service(LOOP)) as http:
        got = await run(service, WebSocketTransport())
        expected = await run(http, None)
        assert service.understood == http.understood[: cut + 1] + http.understood[cut:]
        assert len(service.posts) == (3 if cut == 0 else 0)  # and all that follow, for a while
        assert got == expected


FAILED: dict[str, Any] = {"id": "r", "status": "failed", "error": {"code": GONE, "message": "lost"}}
LOST: dict[str, tuple[dict[str, Any], ...]] = {
    "nested": (error(GONE),),
    "without a status": (error(GONE, None),),
    "flat": ({"type": "error", "code": GONE, "message": "lost", "param": "previous_response_id"},),
    "in a response": ({"type": "response.failed", "response": FAILED},),
}


@pytest.mark.parametrize("lost", LOST)
async def test_a_run_goes_on_where_the_cache_is_gone(lost: str) -> None:
    async with serving(Service(LOOP, forgets=True, lost=LOST[lost])) as service, serving(Service(LOOP)) as http:
        assert await run(service, WebSocketTransport()) == await run(http, None)
        assert service.understood == http.understood
        assert len(service.posts) == 0
        named = ["previous_response_id" in event for event in service.created]
        assert named == [False, True, False, True, False]


async def test_a_run_goes_on_after_the_limit_of_a_connection() -> None:
    script = [LOOP[0], error(FULL), LOOP[1], LOOP[2]]
    async with serving(Service(script)) as service:
        await run(service, WebSocketTransport())
        assert (len(service.opened), len(service.posts)) == (2, 0)
        named = ["previous_response_id" in event for event in service.created]
        assert named == [False, True, False, True]


async def test_a_response_that_the_limit_of_a_connection_cuts_is_one_that_is_cut() -> None:
    """Its error has a status that is never requested again."""

    async def serve(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        for event in (*events_of(say("one"))[:-1], error(FULL)):
            await socket.send_json(event)
        await socket.receive()
        return socket

    async with serving(Service([], serve=serve)) as service:
        got, failure = await taken(client(service))
    assert text_of(got) == "one"
    assert isinstance(failure, TransportError)
    assert failure.retryable
    assert FULL in failure.message


def events_of(reply: Reply, number: int = 1) -> list[Any]:
    frames = openai_responses_frames(reply, number=number)
    return [msgspec.json.decode(frame.partition(b"data: ")[2]) for frame in frames]


async def test_the_end_of_a_response_that_comes_twice_does_not_end_the_next_one() -> None:
    async def serve(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        for number, word in ((1, "one"), (2, "two")):
            await socket.receive()
            if number == 2:
                await socket.send_json(events_of(say("one"))[-1])
            for event in events_of(say(word), number):
                await socket.send_json(event)
        await socket.receive()
        return socket

    async with serving(Service([], serve=serve)) as service:
        session = Session(Worker(client(service)))
        assert (await session.run("1")).text == "one"
        assert (await session.run("2")).text == "two"
        assert service.posts == []


async def test_where_a_new_socket_is_refused_http_is_used() -> None:
    async with serving(Service([error(FULL), *LOOP])) as service:
        await run(service, WebSocketTransport())
        assert (len(service.opened), len(service.posts)) == (1, 3)


async def test_a_socket_that_the_service_closed_between_two_requests_is_replaced() -> None:
    transport = WebSocketTransport()

    async with serving(Service(LOOP)) as service:

        @tool
        async def look(at: str) -> str:
            """Look."""
            await service.opened[-1].close()
            return f"seen {at}"

        provider = OpenAIResponses("gpt-5", api_key=KEY, base_url=service.address)
        worker = Worker(Client(provider, transport=transport, retry=NEVER), tools=[look])
        await worker.run("hello")
        assert [len(whole) for whole in service.understood] == [1, 4, 8]
        assert (len(service.opened), len(service.posts)) == (3, 0)


@pytest.mark.parametrize("status", [200, 302, 401, 404, 426, 429, 500])
async def test_a_refused_handshake_is_http_for_a_while(status: int, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Service(LOOP, handshake=status)) as service:
        with caplog.at_level(logging.WARNING, "rxworker.transport"):
            await run(service, WebSocketTransport())
        assert (len(service.opened), len(service.posts)) == (1, 3)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert KEY not in caplog.text


async def test_a_redirect_of_the_handshake_is_not_followed() -> None:
    """It would carry the key to another host."""

    async def elsewhere(_: web.Request) -> web.StreamResponse:
        raise web.HTTPFound(f"{other.address}/v1/responses")

    async with serving(Service([])) as other, serving(Service([say("Hi")], serve=elsewhere)) as service:
        got, failed = await taken(client(service))
        assert (text_of(got), failed) == ("Hi", None)
        assert not other.opened


async def test_the_error_of_a_closed_port_is_that_of_http(closed_port: int) -> None:
    service = Service([], address=f"http://127.0.0.1:{closed_port}")
    _, failed = await taken(client(service))
    assert isinstance(failed, TransportError)
    assert "cannot connect" in str(failed)


@pytest.mark.parametrize(
    ("code", "status"), [("rate_limit_exceeded", 429), ("invalid_api_key", 401), ("server_error", 500), ("odd", 400)]
)
async def test_an_error_in_place_of_a_response_is_that_of_http(code: str, status: int) -> None:
    refused = error(code, status, headers={"Retry-After": "7"})
    async with serving(Service([refused, refused])) as service:
        _, failed = await taken(client(service))
        model = client(service, transport=HttpTransport())
        _, expected = await taken(model)
    assert isinstance(failed, ProviderError)
    assert isinstance(expected, ProviderError)
    assert type(failed) is type(expected)
    assert str(failed) == str(expected)
    for name in ("code", "status", "retryable", "retry_after"):
        assert getattr(failed, name) == getattr(expected, name)
    assert isinstance(failed.__cause__, HttpStatusError)


async def test_an_error_is_requested_again_as_over_http() -> None:
    async with serving(Service([error("server_error", 500), say("Hi")])) as service:
        got, failed = await taken(client(service, retry=Retry(retries=1, first=0.0)))
        assert (text_of(got), failed) == ("Hi", None)
        assert len(service.opened) == 2


async def test_an_error_without_a_status_is_one_of_the_response() -> None:
    async with serving(Service([error("server_error", None)])) as service:
        _, failed = await taken(client(service))
    assert isinstance(failed, ProviderError)
    assert failed.code == "server_error"


@pytest.mark.parametrize("status", [None, 400])
async def test_a_word_of_an_error_means_over_a_socket_what_it_means_over_http(status: int | None) -> None:
    rows = [words.split() for service, _, words in ROWS if service in ("openai", "azure", "glm")]
    words = [word for row in rows for word in row if word != GONE]  # which is answered by another request
    async with serving(Service([error(word, status) for word in words])) as service:
        model = client(service)
        for word in words:
            _, failed = await taken(model)
            assert isinstance(failed, ProviderError)
            if WORDS[key(word)] not in ("server", "invalid_request"):  # 400 is more exact
                assert (failed.kind, failed.retryable) == (WORDS[key(word)], WORDS[key(word)] in RETRYABLE_KINDS)
        assert service.posts == []


async def test_disposing_closes_the_socket_and_the_next_request_has_another() -> None:
    async with serving(Service([say("one two three"), say("again")])) as service:
        model = client(service)
        assert await model.stream(HELLO).pipe(ops.take(2), ops.to_list())
        await until(lambda: service.closed == 1)
        got, failed = await taken(model)
        assert (text_of(got), failed) == ("again", None)
        assert len(service.opened) == 2


async def test_disposing_at_once_sends_nothing() -> None:
    async with serving(Service([])) as service:
        client(service).stream(HELLO).subscribe().dispose()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not service.created


async def test_an_observer_that_raises_closes_the_socket_and_the_loop_reports_why() -> None:
    heard: list[object] = []

    def hear(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        heard.append(context["exception"])

    def boom(_: bytes) -> None:
        raise ValueError("not my day")

    asyncio.get_running_loop().set_exception_handler(hear)
    async with serving(Service([say("Hi")])) as service:
        WebSocketTransport().send(request(service)).subscribe(boom)
        await until(lambda: service.closed == 1)
    gc.collect()  # of the task, which has failed
    assert [repr(one) for one in heard] == ["ValueError('not my day')"]


async def test_a_full_consumer_makes_the_service_wait() -> None:
    gate, chunks = Gate(), [0]
    gate.is_full = True
    PRESSURE.set(gate)

    def count(chunk: bytes) -> None:
        chunks[0] += len(chunk)

    long = say("x" * 16_000_000)
    async with serving(Service([msgspec.structs.replace(long, chunk=1_000_000)])) as service:
        done = asyncio.get_running_loop().create_future()
        WebSocketTransport().send(request(service)).subscribe(count, done.set_exception, lambda: done.set_result(None))
        await until(lambda: gate.is_holding)
        await settle(50)
        assert chunks[0] < 100_000  # the first event
        gate.open()
        await done
        assert chunks[0] > 16_000_000


async def test_sockets_of_runs_at_once_do_not_mix() -> None:
    """Each goes on with its own response, though they begin alike."""
    script = [call("look", at="a"), call("look", at="b"), say("one"), say("two")]
    async with serving(Service(script)) as service:
        transport = WebSocketTransport()
        provider = OpenAIResponses("gpt-5", api_key=KEY, base_url=service.address)
        worker = Worker(Client(provider, transport=transport, retry=NEVER), tools=[look])
        await asyncio.gather(*(Session(worker).run("hello") for _ in range(2)))
        assert len(service.opened) == 2
        assert [len(event["input"]) for event in service.created] == [1, 1, 1, 1]
        assert sorted(len(whole) for whole in service.understood) == [1, 1, 3, 3]


@pytest.mark.parametrize(
    ("idle_timeout", "max_age", "sockets"),
    [(300.0, 3300.0, 1), (300.0, 0.0, 3), (0.0, 3300.0, 3)],
    ids=["kept", "old", "idle"],
)
async def test_a_socket_is_left_when_it_is_old_or_was_idle(idle_timeout: float, max_age: float, sockets: int) -> None:
    @tool
    async def look(at: str) -> str:
        """Look."""
        for _ in range(5):  # the time-out of the idle socket
            await asyncio.sleep(0)
        return f"seen {at}"

    async with serving(Service(LOOP)) as service:
        provider = OpenAIResponses("gpt-5", api_key=KEY, base_url=service.address)
        transport = WebSocketTransport(idle_timeout=idle_timeout, max_age=max_age)
        worker = Worker(Client(provider, transport=transport, retry=NEVER), tools=[look])
        await worker.run("hello")
        assert len(service.opened) == sockets
        assert [len(whole) for whole in service.understood] == [1, 4, 8]
        if not idle_timeout:
            await until(lambda: service.closed == sockets)


async def test_a_socket_is_used_with_the_keys_that_it_was_opened_with() -> None:
    async with serving(Service([say("one"), say("two")])) as service:
        transport = WebSocketTransport()
        first = OpenAIResponses("gpt-5", api_key=KEY, base_url=service.address)
        other = OpenAIResponses("gpt-5", api_key="another", base_url=service.address)
        request = Request(HELLO, options=Options(extra={"generate": False}))
        for provider in (first, other):
            await taken(Client(provider, transport=transport), request)
        await taken(Client(first, transport=transport))
        assert len(service.opened) == 2
        assert service.created[-1]["input"] == []


async def test_at_most_so_many_sockets_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rxworker.transport.websocket.MAX_KEPT", 2)
    async with serving(Service([say("a"), say("b"), say("c")])) as service:
        transport = WebSocketTransport()
        for _ in range(3):
            await taken(client(service, transport))
        await until(lambda: service.closed == 1)
        assert [one.closed for one in service.opened] == [True, False, False]


async def test_a_warm_up_is_continued_by_the_first_request() -> None:
    async with serving(Service([say("Hi")])) as service:
        model = client(service)
        system = Conversation((Message("system", HELLO.messages[0].content),))
        warm = Request(system, options=Options(extra={"generate": False}))
        got, failed = await taken(model, warm)
        assert (text_of(got), failed) == ("", None)
        got, failed = await taken(model, Conversation((*system.messages, *HELLO.messages)))
        assert (text_of(got), failed) == ("Hi", None)
        assert [event.get("generate") for event in service.created] == [False, None]
        assert service.created[1]["previous_response_id"] == "resp_warm"
        assert len(service.created[1]["input"]) == 1


async def test_without_a_socket_a_warm_up_fails_and_is_not_sent() -> None:
    async with serving(Service([], handshake=404)) as service:
        request = Request(HELLO, options=Options(extra={"generate": False}))
        _, failed = await taken(client(service), request)
        assert isinstance(failed, TransportError)
        assert not failed.retryable
        assert not service.posts


async def test_a_ping_is_answered_and_is_a_sign_of_life() -> None:
    """Also while no request uses the socket."""
    pongs: list[bytes] = []

    async def serve(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        for asked in (True, False):
            if asked:
                await socket.receive()
            await socket.ping(b"it")
            message = await socket.receive()
            assert message.type is WSMsgType.PONG
            pongs.append(message.data)
            if asked:
                await socket.send_str('{"type": "response.completed", "response": {"id": "r"}}')
        await socket.receive()
        return socket

    async with serving(Service([], serve=serve)) as service:
        chunks = await WebSocketTransport().send(request(service)).pipe(ops.to_list())
        assert chunks[0] == b":\n\n"
        assert len(chunks) == 2
        await until(lambda: len(pongs) == 2)


async def test_text_over_several_lines_is_one_frame() -> None:
    async def serve(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        await socket.send_str('{"type":\r\n\n"response.completed",\n"response": {"output": []}}')
        await socket.receive()
        return socket

    async with serving(Service([], serve=serve)) as service:
        got, failed = await taken(client(service))
        assert failed is None
        assert [type(event).__name__ for event in got] == ["Status", "Status"]


async def test_an_event_that_is_too_large_is_refused() -> None:
    async with serving(Service([say("x" * 5000)])) as service:
        _, failed = await taken(client(service, WebSocketTransport(max_frame=2000)))
        assert isinstance(failed, RemoteProtocolError)


@pytest.mark.parametrize("other", [b"", b'{"messages": []}', b'{"input": "text"}'])
async def test_requests_of_other_protocols_are_refused(other: bytes) -> None:
    async with serving(Service([])) as service:
        sent = msgspec.structs.replace(request(service), body=other)
        with pytest.raises(LocalProtocolError, match="OpenAIResponses"):
            await WebSocketTransport().send(sent)
        assert not service.opened


def test_without_a_loop_it_fails() -> None:
    failed: list[Exception] = []
    WebSocketTransport().send(request(Service([]))).subscribe(on_error=failed.append)
    assert isinstance(failed[0], LocalProtocolError)


async def test_responses_in_the_background_go_over_http() -> None:
    async with serving(Service([say("Hi")])) as service:
        asked = Request(HELLO, options=Options(extra={"background": True}))
        got, failed = await taken(client(service), asked)
        assert (text_of(got), failed) == ("Hi", None)
        assert (len(service.opened), len(service.posts)) == (0, 1)


async def test_why_a_socket_was_closed_is_shown_without_the_key() -> None:
    cut = Cut(say("one two"), 3, f"the key {KEY} ran out".encode())
    async with serving(Service([cut])) as service:
        _, failed = await taken(client(service))
    assert "1011 the key *** ran out" in str(failed)
    assert KEY not in repr(WebSocketTransport())


def test_a_transport_serves_one_loop_after_the_other() -> None:
    transport = WebSocketTransport()

    async def once() -> None:
        async with serving(Service(LOOP)) as service:
            await run(service, transport)
            assert (len(service.opened), len(service.posts)) == (1, 0)

    for _ in range(2):
        asyncio.run(once())


async def test_the_official_client_sends_the_same() -> None:
    """The handshake, the events of a loop, and what comes back."""
    script = [call("look", at="a"), say("It is done.")]
    async with serving(Service(script)) as ours, serving(Service(script)) as theirs:
        await run(ours, WebSocketTransport())
        sdk = openai.AsyncOpenAI(api_key=KEY, base_url=f"{theirs.address}/v1")
        kinds: list[list[str]] = []
        async with sdk.responses.connect() as connection:
            for event in ours.created:
                await connection.response.create(**{k: v for k, v in event.items() if k != "type"})
                kinds.append([])
                async for heard in connection:
                    kinds[-1].append(heard.type)
                    if heard.type == "response.completed":
                        break
        await sdk.close()
        assert theirs.created == ours.created
        assert theirs.understood == ours.understood
        assert [one[-1] for one in kinds] == ["response.completed"] * 2
        own = {"authorization", "upgrade", "connection", "sec-websocket-version"}
        assert {k: ours.headers[k].lower() for k in own} == {k: theirs.headers[k].lower() for k in own}
