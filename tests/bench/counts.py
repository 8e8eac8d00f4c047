"""How many functions of Python are called for a request, a run and a tool loop, by provider.

Figures that do not depend on the machine.

    python tests/bench/counts.py            what is called now, beside what `counts.json` has
    python tests/bench/counts.py --write    the same, and it becomes that of `counts.json` and the page on performance
    python tests/bench/counts.py --where request anthropic      which functions, those called most first

A *request* is `Client.stream(...)` through `text_deltas()`, of 20 deltas. A *run* is the same answer through
`Worker.run`. A *loop* is a run of four rounds with four calls each, and that answer. All go over HTTP on this machine,
an event an HTTP chunk, and each answer is written at once. aiohttp and asyncio count, too; this file does not. The
answers come from the selector of the event loop, so that the server takes no turn of it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import re
import selectors
import socket
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import CodeType, FrameType

import msgspec

from rxworker import Limits, Worker, tool
from rxworker.operators import text_deltas
from rxworker.providers import PROVIDERS
from rxworker.testing import Call, Reply, say
from rxworker.testing.wire import wire_for
from rxworker.transport import Client, close_session

FILE = Path(__file__).with_name("counts.json")
PAGE = FILE.parents[2] / "docs" / "explanation" / "performance.md"
WARM = 3
"""How often each is done before it is counted: what is made at the first use is not counted."""

ROUNDS = 4
ANSWER = say("word" * 20)
CALLS = Reply(
    tool_calls=(
        Call("get_weather", {"city": "Zürich", "unit": "celsius", "days": 3}),
        Call("get_time", {"zone": "Europe/Zurich", "format": "iso-8601"}),
        Call("lookup", {"key": "customer/8412/orders/latest"}),
        Call("add", {"a": 1234567, "b": 7654321}),
    ),
    chunk=6,
)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ntransfer-encoding: chunked\r\n\r\n"


async def get_weather(city: str, unit: str, days: int) -> str:
    """Get the weather."""
    return f"{city}: 21 {unit} for {days} days"


async def get_time(zone: str, format: str) -> str:  # noqa: A002 - as models name it
    """Get the time."""
    return f"{zone}: {format}"


async def lookup(key: str) -> str:
    """Look something up."""
    return key


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Replay(selectors.DefaultSelector):
    """A selector that answers what was written to it, before it selects.

    Each answer is there at the next turn of the loop.
    """

    def __init__(self) -> None:
        super().__init__()
        self.script: list[Reply] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.setblocking(False)
        self._connections: dict[socket.socket, bytearray] = {}
        self._requests = 0

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Answer, which is not counted, then select."""
        counting = sys.getprofile()
        sys.setprofile(None)
        self._accept()
        for connection, received in self._connections.items():
            self._answer(connection, received)
        sys.setprofile(counting)
        return super().select(timeout)

    def close(self) -> None:
        """Close the server with the loop."""
        for closed in (self._listening, *self._connections):
            closed.close()
        super().close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listening.accept()
        except BlockingIOError:
            return
        connection.setblocking(False)
        self._connections[connection] = bytearray()

    def _answer(self, connection: socket.socket, received: bytearray) -> None:
        try:
            received += connection.recv(1 << 20)
        except BlockingIOError:
            return
        head, end, body = received.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        if end and length and len(body) >= int(length[1]):
            received.clear()
            connection.sendall(self._answer_to(head.split(b" ")[1].decode(), bytes(body)))

    def _answer_to(self, path: str, body: bytes) -> bytes:
        wire = wire_for(path)
        assert wire is not None, path
        self._requests += 1
        frames = wire.frames(self.script.pop(0), self._requests, msgspec.json.decode(body))
        chunks = [b"%x\r\n%b\r\n" % (len(frame), frame) for frame in frames]
        return b"".join((HEAD % wire.content_type.encode(), *chunks, b"0\r\n\r\n"))


class Counted:
    """What is counted, of one provider."""

    def __init__(self, provider: str, server: Replay) -> None:
        made = PROVIDERS[provider]("some-model", api_key="key", base_url=server.address)
        self._client = Client(made)
        self._server = server
        self._tools = [tool(get_weather), tool(get_time), tool(lookup), tool(add)]

    async def request(self) -> str:
        """A request and its answer."""
        self._server.script = [ANSWER]
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        texts: list[str] = []

        def completed() -> None:
            over.set_result(None)

        deltas = self._client.stream("Go on.").pipe(text_deltas())
        deltas.subscribe(texts.append, over.set_exception, completed)
        await over
        return "".join(texts)

    async def run(self) -> str:
        """A run of one answer."""
        self._server.script = [ANSWER]
        return await self._run(Worker(self._client))

    async def loop(self) -> str:
        """A run of four rounds with four calls, and an answer."""
        self._server.script = [*[CALLS] * ROUNDS, ANSWER]
        limits = Limits(max_repeats=None)
        return await self._run(Worker(self._client, tools=self._tools, limits=limits))

    async def _run(self, worker: Worker) -> str:
        texts: list[str] = []
        run = worker.run("Go on.")
        run.events.pipe(text_deltas()).subscribe(texts.append)
        await run
        return "".join(texts)


async def counted(task: Callable[[], Awaitable[str]]) -> Counter[CodeType]:
    """How often each function is called while the task runs. A coroutine counts each time that it goes on."""
    calls: Counter[CodeType] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename != __file__:
            calls[frame.f_code] += 1

    for _ in range(WARM):
        assert await task() == ANSWER.text
    gc.collect()
    gc.disable()  # what a collection finalizes is not of this task
    sys.setprofile(note)
    try:
        await task()
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


def count(provider: str) -> dict[str, Counter[CodeType]]:
    """The calls of a provider's request, run and loop."""
    server = Replay()

    async def count_each() -> dict[str, Counter[CodeType]]:
        of = Counted(provider, server)
        try:
            return {task.__name__: await counted(task) for task in (of.request, of.run, of.loop)}
        finally:
            await close_session()

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(server)) as runner:
        return runner.run(count_each())


def row_of(provider: str, row: dict[str, int]) -> str:
    """A line of the table of the page."""
    return f"| {PROVIDERS[provider].__name__} | {' | '.join(f'{n:,}' for n in row.values())} |\n"


def main() -> None:
    """Count, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    flag = parser.add_argument
    flag("--write", action="store_true", help="write what is counted to counts.json")
    flag("--json", action="store_true", help="print it as counts.json has it, for programs")
    flag("--where", nargs=2, metavar=("WHAT", "PROVIDER"), help="which functions these are")
    args = parser.parse_args()
    if args.where:
        for code, calls in count(args.where[1])[args.where[0]].most_common():
            print(f"{calls:5} {code.co_filename}:{code.co_firstlineno} {code.co_qualname}")
        return
    now = {provider: {what: calls.total() for what, calls in count(provider).items()} for provider in PROVIDERS}
    text = msgspec.json.format(msgspec.json.encode(now)) + b"\n"
    if args.json:
        print(text.decode())
        return
    held: dict[str, dict[str, int]] = msgspec.json.decode(FILE.read_bytes())
    for provider, row in now.items():
        of = held.get(provider, {})
        print(f"{provider:20}", *(f"{what} {n:5} ({of.get(what)})  " for what, n in row.items()))
    if args.write:
        FILE.write_bytes(text)
        page = PAGE.read_text(encoding="utf-8")
        head, border, rest = page.partition("|---|---:|---:|---:|\n")
        rows = "".join(row_of(provider, row) for provider, row in now.items())
        PAGE.write_text(head + border + rows + rest[rest.index("\n\n") + 1 :], encoding="utf-8")


if __name__ == "__main__":
    main()
