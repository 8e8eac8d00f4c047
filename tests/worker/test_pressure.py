"""A watcher that makes the run wait: as far as the provider's socket, and no longer than it watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

import pytest
from reactivex.testing import TestScheduler

from rxworker import Run, Worker, after_tool_call, before_tool_call, on_message_send, tool, worker_tool
from rxworker.errors import RunCancelledError
from rxworker.hub import Coalesce, Delivery, DropOldest, Latest, Reliable
from rxworker.providers import Anthropic
from rxworker.testing import ScriptedModel, anthropic_frames, call, say
from rxworker.transport import Client, Retry, close_session
from rxworker.transport.answer import Timeouts
from rxworker.transport.base import PRESSURE
from rxworker.transport.listening import stop_listening

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
MAX = 32 * 1024 * 1024
"""Far more than aiohttp and the machine hold between a client and a server."""


class Source:
    """A server whose answer is long: one delta again and again, and then its end."""

    def __init__(self, most: int) -> None:
        frames = list(anthropic_frames(say("a")))
        [place] = [n for n, frame in enumerate(frames) if b"content_block_delta" in frame]
        self.begin = b"".join(frames[:place])
        self.delta = frames[place].replace(b'"a"', b'"' + b"word" * 1_000 + b'"')
        self.end = b"".join(frames[place + 1 :])
        self.most = most
        self.sent = 0
        self.gone = asyncio.Event()
        self.base_url = ""
        self.clock = TestScheduler()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + self.begin)
        try:
            while self.sent < self.most:
                writer.write(self.delta)
                self.sent += len(self.delta)
                await writer.drain()
            writer.write(self.end)
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            self.gone.set()
            writer.close()

    def client(self) -> Client:
        provider = Anthropic("m", api_key="k", base_url=self.base_url)
        return Client(provider, retry=Retry(retries=0), timeouts=Timeouts(first=80, idle=80), scheduler=self.clock)


@pytest.fixture
async def serve() -> AsyncGenerator[Callable[[int], Source], None]:
    sources: list[Source] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await sources[-1].answer(reader, writer)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    def make(most: int) -> Source:
        sources.append(Source(most))
        sources[-1].base_url = f"http://127.0.0.1:{port}"
        return sources[-1]

    yield make
    await close_session()
    await stop_listening(server)
    async with asyncio.timeout(60):
        for source in sources:
            if source.sent:
                await source.gone.wait()


async def flat(count: Callable[[], int], turns: int = 500) -> int:
    """Turns of the event loop pass until a count has stood still for many of them; gives the count."""
    last, still = count(), 0
    async with asyncio.timeout(60):
        while still < turns or not last:
            await asyncio.sleep(0)
            last, still = (last, still + 1) if count() == last else (count(), 0)
    return last


async def held(run: Run, source: Source, delivery: Delivery) -> tuple[AsyncGenerator[object], int]:
    """A watcher that has stopped reading, and how much the server has sent when nothing moves any more."""
    batches = run.watch(delivery, name="slow").batches()
    await anext(batches)
    return batches, await flat(lambda: source.sent)


async def test_a_watcher_that_stops_reading_makes_the_server_stop_and_then_go_on(
    serve: Callable[[int], Source],
) -> None:
    source = serve(MAX)
    worker = Worker(source.client())
    run = worker.run("Go.")
    batches, sent = await held(run, source, Reliable(limit=8))
    assert sent < MAX / 2
    seq = run.last_seq
    source.clock.advance_by(1000)  # far longer than the client would wait in silence
    assert (run.last_seq, run.done()) == (seq, False)
    assert source.sent < sent + 1024 * 1024
    async for _ in batches:
        pass
    result = await run
    assert source.sent >= MAX
    assert len(result.text) > 0.9 * MAX


async def test_the_run_continues_when_the_watcher_leaves(serve: Callable[[int], Source]) -> None:
    source = serve(MAX)
    run = Worker(source.client()).run("Go.")
    batches, sent = await held(run, source, Reliable(limit=8))
    assert sent < MAX / 2
    await batches.aclose()
    assert len((await run).text) > 0.9 * MAX


async def test_cancel_does_not_wait_for_the_watcher(serve: Callable[[int], Source]) -> None:
    source = serve(MAX)
    run = Worker(source.client()).run("Go.")
    batches, _ = await held(run, source, Reliable(limit=8))
    async with asyncio.timeout(60):
        await run.cancel(reason="enough")
        await source.gone.wait()
    with pytest.raises(RunCancelledError, match="enough"):
        await run
    await batches.aclose()


async def test_the_run_inside_waits_for_who_watches_the_run_around_it(serve: Callable[[int], Source]) -> None:
    source = serve(MAX)
    inner = worker_tool(Worker(source.client()), name="ask", description="Ask somebody.")
    run = Worker(ScriptedModel([call("ask", task="Why?"), "So."]), tools=[inner]).run("Go.")
    batches, sent = await held(run, source, Reliable(limit=8))
    assert sent < MAX / 2
    source.clock.advance_by(1000)
    assert source.sent < sent + 1024 * 1024
    await batches.aclose()
    assert (await run).text == "So."
    assert source.sent >= MAX


@pytest.mark.parametrize("delivery", [Coalesce(), Latest(), DropOldest(limit=8), Reliable(limit=None)], ids=str)
async def test_no_other_watcher_makes_it_wait(serve: Callable[[int], Source], delivery: Delivery) -> None:
    source = serve(4 * 1024 * 1024)
    run = Worker(source.client()).run("Go.")
    batches = run.watch(delivery).batches()
    await anext(batches)
    async with asyncio.timeout(60):
        assert len((await run).text) > 0.9 * source.most
    await batches.aclose()


async def test_requests_of_tools_and_hooks_do_not_wait_for_the_watchers_of_the_run() -> None:
    """The pressure of a run is that of its own requests alone."""
    found: list[object] = []

    @tool
    async def look() -> str:
        """Look."""
        found.append(PRESSURE.get())
        return ""

    @tool(effect="pure")
    async def peek() -> str:
        """Peek, while the response is still received."""
        found.append(PRESSURE.get())
        return ""

    def note(_: object) -> None:
        found.append(PRESSURE.get())

    replies = [call("look") + call("peek"), say("Done.")]
    hooks = [before_tool_call(note, matcher="look"), after_tool_call(note), on_message_send(note)]
    await Worker(ScriptedModel(replies), tools=[look, peek], hooks=hooks).run("Go")
    assert found == [None] * len(found)
    assert len(found) == 7
