"""Responses that go on without their connection: taken up again where it was cut, and cancelled when they are left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
import reactivex
from reactivex import Observable
from reactivex import operators as ops
from reactivex.scheduler import HistoricalScheduler
from reactivex.subject import Subject

from rxworker import Worker
from rxworker.errors import ConfigurationError, ProviderError, RxWorkerError, TransportError
from rxworker.events import ResponseEvent, TextDelta
from rxworker.log import MemoryLog
from rxworker.messages import Conversation, JsonObject, Message
from rxworker.providers import OpenAIResponses, Options, Request
from rxworker.providers.base import HttpRequest
from rxworker.testing import ReplayServer, ServedResponse, lint
from rxworker.transport import Client, Retry, Timeouts
from rxworker.transport.answer import NAME_SECONDS, _cancelling, settle_cancellations
from tests.runs import reached
from tests.seen import until_end

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
RawServer = Callable[[Handler], Awaitable[str]]
AGAIN = Retry(retries=2, first=0.0)
ASKED = Request(Conversation((Message.user("hi"),)), options=Options(extra={"background": True}))
PART: JsonObject = {"type": "output_text", "text": "one two three", "annotations": []}
ITEM: JsonObject = {"type": "message", "id": "msg", "role": "assistant", "content": [PART]}


def events() -> list[JsonObject]:
    """What the service says, in numbered events."""
    head: JsonObject = {"id": "resp/1", "model": "m", "status": "in_progress", "output": []}
    said: list[JsonObject] = [
        {"type": "response.created", "response": head},
        {"type": "response.queued", "response": head},
        {"type": "response.output_item.added", "output_index": 0, "item": {**ITEM, "content": []}},
    ]
    for piece in ("one", " two", " three"):
        said.append({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": piece})
    said.append({"type": "response.output_item.done", "output_index": 0, "item": ITEM})
    done: JsonObject = {**head, "status": "completed", "output": [ITEM]}
    said.append({"type": "response.completed", "response": done})
    return [{**event, "sequence_number": number} for number, event in enumerate(said)]


FRAMES = [b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), msgspec.json.encode(event)) for event in events()]


def part(begin: int, end: int | None = None, **faults: Any) -> ServedResponse:
    return ServedResponse.from_frames(FRAMES[begin:end], **faults)


def client(server: ReplayServer, **settings: Any) -> Client:
    provider = OpenAIResponses("m", api_key="k", base_url=server.base_url)
    settings = {"retry": AGAIN, **settings}
    return Client(provider, **settings)


async def taken(model: Client) -> tuple[list[ResponseEvent], Exception | None]:
    """The events of a response, and how it failed."""
    return await until_end(model.stream(ASKED))


async def whole() -> list[ResponseEvent]:
    async with ReplayServer([part(0)]) as server:
        got, error = await taken(client(server))
    assert error is None
    return got


def being_cancelled() -> list[asyncio.Future[None]]:
    """The responses that this event loop cancels now; another test may have left some with its loop."""
    loop = asyncio.get_running_loop()
    return [each for each in _cancelling.values() if each and each.get_loop() is loop]


def paths(server: ReplayServer) -> list[str]:
    return [f"{one.method} {one.path}" for one in server.requests]


@pytest.mark.parametrize("cut", range(1, len(FRAMES)))
async def test_a_cut_response_is_taken_up_behind_its_last_event(cut: int) -> None:
    async with ReplayServer([part(0, cut_after=cut), part(cut)]) as server:
        got, error = await taken(client(server))
        begun, resumed = server.requests
    assert error is None
    assert got == await whole()
    assert begun.method == "POST"
    assert isinstance(begun.body, dict)
    assert (begun.body["background"], begun.body["store"]) == (True, True)
    assert resumed.method == "GET"
    assert resumed.path == (
        f"/v1/responses/resp%2F1?stream=true&starting_after={cut - 1}&include%5B%5D=reasoning.encrypted_content"
    )
    assert resumed.body == ""


@pytest.mark.parametrize("at", range(len(b"".join(FRAMES[:2])), len(b"".join(FRAMES)) - 1, 37))
async def test_a_response_is_cut_anywhere(at: int) -> None:
    """Also in the middle of a frame, whose half is forgotten; and a server that sends too much changes nothing."""
    async with ReplayServer([part(0, cut_at=at), part(1)]) as server:
        got, error = await taken(client(server))
    assert error is None
    assert got == await whole()


async def test_a_connection_that_just_ends_is_not_an_end_of_the_response() -> None:
    async with ReplayServer([part(0, 4), part(4, 6), part(6)]) as server:
        got, error = await taken(client(server))
        assert len(server.requests) == 3
    assert error is None
    assert got == await whole()


async def test_a_response_that_falls_silent_is_taken_up_again() -> None:
    async with ReplayServer([part(0, stall_after=4), part(4)]) as server:
        got, error = await taken(client(server, timeouts=Timeouts(idle=0.05)))
    assert error is None
    assert got == await whole()


async def test_a_refused_resumption_is_tried_again() -> None:
    busy = ServedResponse.from_status(503, body={"error": {"message": "busy"}})
    async with ReplayServer([part(0, cut_after=4), busy, part(4)]) as server:
        got, error = await taken(client(server))
    assert error is None
    assert got == await whole()


async def test_too_many_failures_in_a_row_end_it_and_cancel_the_response() -> None:
    cut = part(4, cut_at=0)
    async with ReplayServer([part(0, cut_after=4), cut, cut, ServedResponse.from_json({})]) as server:
        got, error = await taken(client(server))
        await server.wait_requests(4)
        assert paths(server)[-1] == "POST /v1/responses/resp%2F1/cancel"
    assert isinstance(error, TransportError)
    assert lint(got) == []
    assert len(server.requests) == 4


async def test_events_that_were_seen_are_not_progress() -> None:
    """A server that sends the same event again and again does not keep the client for ever."""
    seen = part(3, 4)
    async with ReplayServer([part(0, 4), seen, seen, ServedResponse.from_json({})]) as server:
        got, error = await taken(client(server))
        await server.wait_requests(4)
    assert isinstance(error, RxWorkerError)
    assert [event.text for event in got if isinstance(event, TextDelta)] == ["one"]


async def test_a_response_that_is_gone_is_an_error() -> None:
    gone = ServedResponse.from_status(404, body={"error": {"message": "no such response"}})
    async with ReplayServer([part(0, cut_after=4), gone, ServedResponse.from_json({})]) as server:
        _, error = await taken(client(server))
    assert isinstance(error, ProviderError)
    assert "no such response" in str(error)
    assert error.retryable  # by a new request


@pytest.mark.parametrize("status", [404, 410])
async def test_a_worker_requests_a_response_that_is_gone_again(status: int) -> None:
    gone = ServedResponse.from_status(status, body={"error": {"message": "no such response"}})
    options = Options(extra={"background": True})
    async with ReplayServer([part(0, cut_after=4), gone, part(0)]) as server:
        run = Worker(client(server), options=options, response_retry=AGAIN).run("hi")
        result = await run
        records = [record async for record in run]
        assert [one.method for one in server.requests] == ["POST", "GET", "POST"]
    assert result.text == "one two three"
    assert lint(records) == []
    assert [type(r.event).__name__ for r in records].count("AttemptRetract") == 1


async def test_a_response_that_failed_is_not_taken_up() -> None:
    failed: JsonObject = {"id": "resp/1", "status": "failed", "error": {"code": "server_error", "message": "no"}}
    last = {"type": "response.failed", "sequence_number": 4, "response": failed}
    frames = [*FRAMES[:4], b"data: " + msgspec.json.encode(last) + b"\n\n"]
    async with ReplayServer([ServedResponse.from_frames(frames)]) as server:
        _, error = await taken(client(server))
        assert len(server.requests) == 1
    assert isinstance(error, RxWorkerError)


async def test_a_cut_response_that_is_not_in_the_background_is_an_error() -> None:
    async with ReplayServer([part(0, cut_after=4)]) as server:
        with pytest.raises(RxWorkerError):
            await client(server).stream("hi")
        assert len(server.requests) == 1


def test_a_response_is_cancelled_once_also_when_its_bytes_have_ended() -> None:
    provider = OpenAIResponses("m", api_key="k")
    sent = provider.request(ASKED.conversation, (), ASKED.options)
    decoder = provider.background_decoder()
    assert decoder.cancel(sent) is None
    decoder.feed(b"".join(FRAMES[:4]))
    decoder.finish()
    assert decoder.resume(sent) is None
    request = decoder.cancel(sent)
    assert request is not None
    assert (request.method, request.url) == ("POST", "https://api.openai.com/v1/responses/resp%2F1/cancel")
    assert decoder.cancel(sent) is None


async def test_leaving_cancels_the_response() -> None:
    async with ReplayServer([part(0, stall_after=4), ServedResponse.from_json({"id": "resp/1"})]) as server:
        first: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def see(event: ResponseEvent) -> None:
            if isinstance(event, TextDelta) and not first.done():
                first.set_result(None)

        subscription = client(server).stream(ASKED).subscribe(see)
        await first
        subscription.dispose()
        subscription.dispose()
        await server.wait_requests(2)
        assert paths(server)[1:] == ["POST /v1/responses/resp%2F1/cancel"]


class Slow:
    """A service that answers when it is let, and keeps the first lines of requests."""

    def __init__(self, body: bytes = b"".join(FRAMES[:1])) -> None:
        self.body = body
        self.asked: list[str] = []
        self.arrived, self.may_answer, self.cancelled = (asyncio.Event() for _ in range(3))

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(head.partition(" HTTP")[0])
        if "/cancel" in self.asked[-1]:
            self.cancelled.set()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
            return
        self.arrived.set()
        await self.may_answer.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + self.body)
        await writer.drain()
        if self.body:
            await reader.read()  # until the client closes


async def test_leaving_before_the_response_has_a_name_cancels_it_when_it_has_one(raw_server: RawServer) -> None:
    """The service goes on with what it was sent, also without a connection."""
    service, got = Slow(), list[ResponseEvent]()
    provider = OpenAIResponses("m", api_key="k", base_url=await raw_server(service))
    subscription = Client(provider, retry=AGAIN).stream(ASKED).subscribe(got.append)
    await service.arrived.wait()
    subscription.dispose()
    subscription.dispose()
    service.may_answer.set()
    await service.cancelled.wait()
    assert service.asked == ["POST /v1/responses", "POST /v1/responses/resp%2F1/cancel"]
    assert got == []


@pytest.mark.parametrize("is_handed_over", [False, True])
async def test_a_run_that_is_left_before_its_response_has_a_name_cancels_it(
    is_handed_over: bool, raw_server: RawServer, log: MemoryLog
) -> None:
    """The process that continues the run sends its request again."""
    service = Slow()
    provider = OpenAIResponses("m", api_key="k", base_url=await raw_server(service))
    options = Options(extra={"background": True})
    run = Worker(Client(provider), options=options, log=log).run("hi")
    await service.arrived.wait()
    leaving = asyncio.ensure_future(run.hand_over() if is_handed_over else run.cancel())
    service.may_answer.set()
    await leaving
    if is_handed_over:
        await service.cancelled.wait()
    assert service.cancelled.is_set()


async def test_a_response_that_is_left_and_gets_no_name_is_not_sent_again(raw_server: RawServer) -> None:
    service = Slow(b"")
    provider = OpenAIResponses("m", api_key="k", base_url=await raw_server(service))
    errors: list[Exception] = []
    subscription = Client(provider, retry=AGAIN).stream(ASKED).subscribe(on_error=errors.append)
    await service.arrived.wait()
    subscription.dispose()
    service.may_answer.set()
    await settle_cancellations(5)
    assert (service.asked, errors, being_cancelled()) == (["POST /v1/responses"], [], [])


async def test_a_response_that_never_gets_a_name_is_left_after_a_while() -> None:
    scheduler = HistoricalScheduler()
    bytes_of: Subject[bytes] = Subject()

    class Silent:
        def send(self, request: HttpRequest) -> Observable[bytes]:
            return bytes_of

    provider = OpenAIResponses("m", api_key="k")
    model = Client(provider, transport=Silent(), scheduler=scheduler)
    at_once = model.stream(ASKED).subscribe()
    at_once.dispose()
    assert bytes_of.observers == []
    subscription = model.stream(ASKED).subscribe()
    await asyncio.sleep(0)
    subscription.dispose()
    assert len(bytes_of.observers) == 1
    scheduler.advance_by(NAME_SECONDS)
    assert (bytes_of.observers, being_cancelled()) == ([], [])


async def test_leaving_while_it_waits_to_go_on_cancels_it() -> None:
    scheduler = HistoricalScheduler()  # whose time stands still
    async with ReplayServer([part(0, cut_after=4), ServedResponse.from_json({})]) as server:
        model = client(server, retry=Retry(first=60.0), scheduler=scheduler)
        subscription = model.stream(ASKED).subscribe()
        await server.wait_requests(1)
        await server.wait_closed()
        subscription.dispose()
        await server.wait_requests(2)
        assert paths(server)[1:] == ["POST /v1/responses/resp%2F1/cancel"]


async def test_a_response_that_is_over_is_not_cancelled() -> None:
    async with ReplayServer([part(0)]) as server:
        ended = asyncio.Event()
        stream = client(server).stream(ASKED)
        subscription = stream.subscribe(on_completed=ended.set)
        await ended.wait()
        subscription.dispose()
        await client(server).stream("hi").pipe(ops.catch(reactivex.empty())).pipe(ops.to_list())
        assert [one.method for one in server.requests] == ["POST", "POST"]


async def test_a_worker_goes_on_through_a_cut() -> None:
    options = Options(extra={"background": True})
    async with ReplayServer([part(0, cut_after=4), part(4)]) as server:
        run = Worker(client(server), options=options).run("hi")
        result = await run
        records = [record async for record in run]
    assert result.text == "one two three"
    assert lint(records) == []
    assert [type(r.event).__name__ for r in records].count("AttemptStart") == 1


async def test_cancelling_a_run_cancels_the_response() -> None:
    options = Options(extra={"background": True})
    async with ReplayServer([part(0, stall_after=4), ServedResponse.from_json({})]) as server:
        run = Worker(client(server), options=options).run("hi")
        await reached(run, TextDelta)
        await run.cancel()
        await server.wait_requests(2)
        assert paths(server)[1:] == ["POST /v1/responses/resp%2F1/cancel"]


async def test_a_response_is_continued_by_its_name() -> None:
    """Another process has begun it. Its connection may be cut here, too."""
    async with ReplayServer([part(1, cut_after=3), part(4)]) as server:
        got: list[ResponseEvent] = []
        source = client(server).stream(msgspec.structs.replace(ASKED, cursor="resp/1"))
        await source.pipe(ops.do_action(got.append), ops.to_list())
        assert [one.method for one in server.requests] == ["GET", "GET"]
        numbers = [one.path.partition("starting_after=")[2][:1] for one in server.requests]
        assert numbers == ["0", "3"]
    assert got == await whole()


async def test_a_response_without_background_cannot_be_continued() -> None:
    async with ReplayServer([]) as server:
        asked = Request(ASKED.conversation, cursor="resp/1")
        with pytest.raises(ConfigurationError, match="without its cursor"):
            await client(server).stream(asked)
        assert server.requests == []


async def test_a_key_that_a_function_gives_is_on_each_request() -> None:
    async with ReplayServer([part(0, cut_after=4), part(4)]) as server:
        provider = OpenAIResponses("m", api_key=lambda: "late", base_url=server.base_url)
        _, error = await taken(Client(provider, retry=AGAIN))
        assert ["authorization" in one.headers for one in server.requests] == [True, True]
    assert error is None
