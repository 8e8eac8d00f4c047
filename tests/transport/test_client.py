"""`Client` over real HTTP: when it tries again, how long it waits, and when it gives up."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
from collections.abc import Awaitable, Callable

import pytest
from reactivex import Observable, abc, typing
from reactivex import operators as ops
from reactivex.scheduler import VirtualTimeScheduler
from reactivex.scheduler.eventloop import AsyncIOScheduler

from rxworker.errors import (
    ConfigurationError,
    ProviderError,
    RemoteProtocolError,
    RxWorkerError,
    TransportError,
    TransportTimeoutError,
    TruncatedError,
)
from rxworker.events import BlockAbort, Error, ResponseEvent, ResponseStatus, Status, TextDelta
from rxworker.messages import Conversation, JsonObject, Message
from rxworker.operators import text_deltas
from rxworker.providers import Anthropic, Provider, Request
from rxworker.testing import ReplayServer, ServedResponse, cut, fail, lint, say, stall
from rxworker.testing.server import AnswerLike
from rxworker.transport import Client, Retry, Timeouts
from tests.seen import until_end

MakeProvider = Callable[[str], Provider]
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
RawServer = Callable[[Handler], Awaitable[str]]

SLOW_DOWN: JsonObject = {"error": {"type": "rate_limit_error", "message": "slow down"}}
PATIENT = Timeouts(first=None, idle=None)


class Impatient(AsyncIOScheduler):
    """The loop's scheduler, but it notes how long it is asked to wait, and does not."""

    def __init__(self) -> None:
        super().__init__(asyncio.get_running_loop())
        self.waits: list[float] = []

    def schedule_relative(
        self, duetime: typing.RelativeTime, action: abc.ScheduledAction[object], state: object = None
    ) -> abc.DisposableBase:
        self.waits.append(self.to_seconds(duetime))
        return self.schedule(action, state)


def refusal(status: int, headers: dict[str, str] | None = None) -> ServedResponse:
    return ServedResponse.from_status(status, headers=headers, body=SLOW_DOWN)


async def texts_of(source: Observable[ResponseEvent]) -> str:
    pieces: list[str] = await source.pipe(text_deltas(), ops.to_list())
    return "".join(pieces)


async def failure_of(source: Observable[ResponseEvent]) -> RxWorkerError:
    with pytest.raises(RxWorkerError) as caught:
        await source.pipe(ops.to_list())
    return caught.value


async def asked(
    make_provider: MakeProvider, answers: list[AnswerLike], retry: Retry | None = None
) -> tuple[str, list[float], int]:
    """What a client hears, how long it waited before each retry, and how many requests it made."""
    clock = Impatient()
    async with ReplayServer(answers) as server:
        client = Client(make_provider(server.base_url), retry=retry, timeouts=PATIENT, scheduler=clock)
        return await texts_of(client.stream("hi")), clock.waits, len(server.requests)


async def test_an_answer_becomes_events(make_provider: MakeProvider) -> None:
    async with ReplayServer(["Hello"]) as server:
        client = Client(make_provider(server.base_url))
        events: list[ResponseEvent] = await client.stream("hi").pipe(ops.to_list())
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "Hello"
    assert lint(events) == []


async def test_a_stream_is_cold(make_provider: MakeProvider) -> None:
    async with ReplayServer(["one", "two"]) as server:
        stream = Client(make_provider(server.base_url)).stream("hi")
        assert (await texts_of(stream), await texts_of(stream)) == ("one", "two")
        assert server.requests[0].body == server.requests[1].body


async def test_a_request_may_be_a_text_a_conversation_or_a_request(make_provider: MakeProvider) -> None:
    conversation = Conversation((Message.user("hi"),))
    async with ReplayServer(["a", "b", "c"]) as server:
        client = Client(make_provider(server.base_url))
        for given in ("hi", conversation, Request(conversation)):
            await texts_of(client.stream(given))
        assert server.requests[0].body == server.requests[1].body == server.requests[2].body


async def test_leaving_closes_the_connection(make_provider: MakeProvider) -> None:
    async with ReplayServer([say("Hello") + stall(), say("Hello") + stall()]) as server:
        client = Client(make_provider(server.base_url))
        await client.stream("hi").pipe(ops.take(1))
        await server.wait_closed()
        heard = asyncio.Event()
        subscription = client.stream("hi").subscribe(lambda _: heard.set())
        await heard.wait()
        subscription.dispose()
        await server.wait_closed()
        assert server.disconnects == 2


@pytest.mark.parametrize(("headers", "wait"), [({"retry-after": "7"}, 7.0), ({}, None)])
async def test_a_429_is_tried_again_after_the_time_that_it_specifies(
    make_provider: MakeProvider, headers: dict[str, str], wait: float | None
) -> None:
    text, waits, requests = await asked(make_provider, [refusal(429, headers), "Hello"])
    assert (text, requests, len(waits)) == ("Hello", 2, 1)
    if wait is None:
        assert 0.375 <= waits[0] <= 0.5  # our own pause, less up to a quarter
    else:
        assert waits == [wait]


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_what_may_pass_is_tried_again(make_provider: MakeProvider, status: int) -> None:
    text, _, requests = await asked(make_provider, [refusal(status), "Hello"])
    assert (text, requests) == ("Hello", 2)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_what_stays_wrong_is_not_tried_again(make_provider: MakeProvider, status: int) -> None:
    body: JsonObject = {"error": {"message": "no", "type": "invalid_request_error"}}
    async with ReplayServer([ServedResponse.from_status(status, body=body)]) as server:
        error = await failure_of(Client(make_provider(server.base_url)).stream("hi"))
        assert len(server.requests) == 1
    assert isinstance(error, ProviderError)
    assert (error.status, error.retryable) == (status, False)


async def test_the_providers_own_word_on_retries_comes_first(make_provider: MakeProvider) -> None:
    yes = refusal(400, {"x-should-retry": "true"})
    assert (await asked(make_provider, [yes, "Hello"]))[0] == "Hello"
    no = refusal(529, {"x-should-retry": "false"})
    async with ReplayServer([no]) as server:
        await failure_of(Client(make_provider(server.base_url)).stream("hi"))
        assert len(server.requests) == 1


async def test_pauses_grow(make_provider: MakeProvider) -> None:
    refusals: list[AnswerLike] = [refusal(503) for _ in range(6)]
    _, waits, requests = await asked(make_provider, [*refusals, "Hello"], Retry(retries=6))
    assert requests == 7
    for wait, most in zip(waits, [0.5, 1.0, 2.0, 4.0, 8.0, 8.0], strict=True):
        assert most * 0.75 <= wait <= most


async def test_when_the_retries_are_spent_the_last_error_is_reported(make_provider: MakeProvider) -> None:
    answers = [refusal(429), refusal(503), refusal(529, {"request-id": "req_last"}), "too late"]
    async with ReplayServer(answers) as server:
        client = Client(make_provider(server.base_url), timeouts=PATIENT, scheduler=Impatient())
        error = await failure_of(client.stream("hi"))
        assert len(server.requests) == 3
    assert isinstance(error, ProviderError)
    assert (error.status, error.request_id) == (529, "req_last")


async def test_a_provider_that_wants_to_be_left_alone_for_long_is_not_waited_for(make_provider: MakeProvider) -> None:
    async with ReplayServer([refusal(429, {"retry-after": "3600"})]) as server:
        error = await failure_of(Client(make_provider(server.base_url)).stream("hi"))
        assert len(server.requests) == 1
    assert error.retry_after == 3600
    assert "wait 3600 s" in str(error)


async def test_a_connection_that_drops_before_any_byte_is_tried_again(make_provider: MakeProvider) -> None:
    """As a connection that was kept from the request before may do, when the server has given it up."""
    answers: list[AnswerLike] = ["first", ServedResponse.dropped(), "second"]
    async with ReplayServer(answers) as server:
        client = Client(make_provider(server.base_url), timeouts=PATIENT, scheduler=Impatient())
        assert await texts_of(client.stream("hi")) == "first"
        assert await texts_of(client.stream("hi")) == "second"
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    "broken",
    [
        ServedResponse.from_frames([b": a comment\n\n"], cut_after=1),
        ServedResponse.from_frames([b"data: {"], cut_after=1),
        ServedResponse.from_frames([b": a comment\n\n"]),
        ServedResponse.from_frames([]),
        fail("busy", "overloaded"),
        ServedResponse.from_json({"error": {"message": "busy", "type": "overloaded_error"}}),
    ],
)
async def test_an_answer_that_ends_before_its_first_event_or_with_it_is_tried_again(
    make_provider: MakeProvider, broken: AnswerLike
) -> None:
    text, waits, requests = await asked(make_provider, [broken, "Hello"])
    assert (text, requests, len(waits)) == ("Hello", 2, 1)


async def test_an_error_that_is_the_first_event_and_stays_is_reported(make_provider: MakeProvider) -> None:
    async with ReplayServer([fail("no credit", "quota")]) as server:
        error = await failure_of(Client(make_provider(server.base_url)).stream("hi"))
        assert len(server.requests) == 1
    assert isinstance(error, ProviderError)
    assert (error.kind, str(error)) == ("quota", "no credit")


@pytest.mark.parametrize(
    ("answer", "kind", "word"),
    [
        (ServedResponse.from_reply(say("Hello, world"), cut_after=4), TransportError, "connection"),
        (say("Hello") + cut(), TruncatedError, "truncated"),
        (say("Hello") + fail("busy", "overloaded"), ProviderError, "overloaded"),
    ],
)
async def test_after_the_first_event_nothing_is_tried_again(
    make_provider: MakeProvider, answer: AnswerLike, kind: type[RxWorkerError], word: str
) -> None:
    async with ReplayServer([answer, "never asked"]) as server:
        events, error = await until_end(Client(make_provider(server.base_url)).stream("hi"))
        assert len(server.requests) == 1
    assert isinstance(error, kind)
    assert error.retryable
    assert lint(events) == []
    assert any(isinstance(event, BlockAbort) for event in events)
    (told,) = (event for event in events if isinstance(event, Error))
    assert told.kind == word
    assert told.message in str(error)
    assert events[-1] == Status(ResponseStatus.FAILED)


async def test_a_connection_that_is_cut_in_its_first_line_is_made_again(make_provider: MakeProvider) -> None:
    """Half a name of a field is not text of the server's."""
    for at in range(1, 8):
        answers = [ServedResponse.from_reply("Hello", cut_at=at), "Hello"]
        async with ReplayServer(answers) as server:
            model = Client(make_provider(server.base_url), retry=Retry(first=0.0))
            events: list[ResponseEvent] = await model.stream("hi").pipe(ops.to_list())
            assert len(server.requests) == 2
        assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "Hello"


async def test_silence_before_the_first_event_is_an_error(make_provider: MakeProvider) -> None:
    time = VirtualTimeScheduler()
    async with ReplayServer([stall_before_anything(), stall_before_anything()]) as server:
        client = Client(
            make_provider(server.base_url),
            retry=Retry(retries=1, first=1.0),
            timeouts=Timeouts(first=120.0, idle=30.0),
            scheduler=time,
        )
        errors: list[Exception] = []
        client.stream("hi").subscribe(on_error=errors.append)
        await server.wait_requests(1)
        time.advance_by(119.0)
        assert len(server.requests) == 1
        time.advance_by(1.5)  # too long: it is tried again after its pause
        await server.wait_closed()
        time.advance_by(1.0)
        await server.wait_requests(2)
        assert errors == []
        time.advance_by(120.0)
        await server.wait_closed()
        assert server.disconnects == 2
    assert isinstance(errors[0], TransportTimeoutError)
    assert "nothing came within 120 seconds" in str(errors[0])


async def test_comments_alone_do_not_hold_a_response_open(make_provider: MakeProvider) -> None:
    """A proxy may send comments for ever; what counts is an event."""
    time = VirtualTimeScheduler()
    answer = ServedResponse.from_frames([b": PROCESSING\n\n"], stall_after=1)
    async with ReplayServer([answer]) as server:
        client = Client(make_provider(server.base_url), retry=Retry(retries=0), scheduler=time)
        errors: list[Exception] = []
        client.stream("hi").subscribe(on_error=errors.append)
        await server.wait_requests(1)
        time.advance_by(300.0)
        await server.wait_closed()
    assert isinstance(errors[0], TransportTimeoutError)


async def test_a_frame_above_the_limit_ends_the_response_and_closes_its_blocks(make_provider: MakeProvider) -> None:
    async with ReplayServer([say("x" * 10_000, chunk=10_000)]) as server:
        client = Client(make_provider(server.base_url), max_frame=5_000)
        events, error = await until_end(client.stream("hi"))
        await server.wait_closed()
        assert len(server.requests) == 1
    assert lint(events) == []
    assert [type(event) for event in events[:1]] == [Status]  # what came before it is kept
    (told,) = (event for event in events if isinstance(event, Error))
    assert (told.kind, told.retryable) == ("protocol", False)
    assert isinstance(error, RemoteProtocolError)
    assert "max_frame" in str(error)


@pytest.mark.parametrize("flood", [b"data: " + b"x" * 20_000_000, b": comment\n\n" * 1_000_000])
async def test_a_small_compressed_answer_cannot_fill_the_memory(
    raw_server: RawServer, make_provider: MakeProvider, flood: bytes
) -> None:
    packed = gzip.compress(flood)
    assert len(packed) < 50_000

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
        writer.write(b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed))
        writer.write(packed)

    provider = make_provider(await raw_server(serve))
    client = Client(provider, max_frame=1_000_000, retry=Retry(retries=0))
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError) as caught:
            await client.stream("hi").pipe(ops.to_list())
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(caught.value, TruncatedError) is flood.startswith(b":")
    assert most < 8_000_000


async def test_without_a_limit_a_frame_may_be_of_any_size(make_provider: MakeProvider) -> None:
    async with ReplayServer([say("x" * 10_000, chunk=10_000)]) as server:
        client = Client(make_provider(server.base_url), max_frame=None)
        events = await client.stream("hi").pipe(ops.to_list())
    assert max(len(e.text) for e in events if isinstance(e, TextDelta)) == 10_000


async def test_silence_in_the_middle_is_an_error_that_closes_the_blocks(make_provider: MakeProvider) -> None:
    time = VirtualTimeScheduler()
    async with ReplayServer([say("Hello") + stall()]) as server:
        client = Client(make_provider(server.base_url), timeouts=Timeouts(idle=30.0), scheduler=time)
        heard = asyncio.Event()
        events: list[ResponseEvent] = []
        errors: list[Exception] = []

        def on_next(event: ResponseEvent) -> None:
            events.append(event)
            if isinstance(event, TextDelta):
                heard.set()

        client.stream("hi").subscribe(on_next, errors.append)
        await heard.wait()
        time.advance_by(60.0)
        await server.wait_closed()
        assert (server.disconnects, len(server.requests)) == (1, 1)
    assert lint(events) == []
    assert isinstance(errors[0], TransportTimeoutError)
    assert errors[0].retryable
    assert "nothing came for 30 seconds" in str(errors[0])


async def test_leaving_while_it_waits_for_a_retry_makes_no_request(make_provider: MakeProvider) -> None:
    time = VirtualTimeScheduler()
    async with ReplayServer([refusal(503), "never asked"]) as server:
        client = Client(make_provider(server.base_url), timeouts=PATIENT, scheduler=time)
        subscription = client.stream("hi").subscribe()
        await server.wait_requests(1)
        subscription.dispose()
        time.advance_by(60.0)
        await server.wait_closed()
        assert len(server.requests) == 1


async def test_a_missing_key_is_an_error_for_the_subscriber_and_nothing_is_sent() -> None:
    error = await failure_of(Client(Anthropic("a-model")).stream("hi"))
    assert isinstance(error, ConfigurationError)
    assert "ANTHROPIC_API_KEY" in str(error)


def stall_before_anything() -> ServedResponse:
    return ServedResponse.from_frames([], delay=3600)
