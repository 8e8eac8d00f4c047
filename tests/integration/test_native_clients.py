"""The native streams as clients from npm read them, over a line that is cut again and again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from rxworker import Worker, on_message_send
from rxworker.errors import LocalProtocolError
from rxworker.protocols import end_frame, sse_frame
from rxworker.testing import ScriptedModel, say
from rxworker.transport.listening import stop_listening
from rxworker.ui.web import Settings, WebServer
from rxworker.ui.web.streams import streams
from tests.integration.npm import node_with
from tests.whole import one_of

HERE = Path(__file__).parent / "native_clients"
TEXT = "The quick brown fox jumps over the lazy dog. " * 20
PATIENCE = 60.0


@pytest.fixture
def node() -> str:
    return node_with(HERE, "ws")[0]


async def run_client(node: str, script: str, *arguments: str) -> Any:
    """What a client printed when it was done."""
    process = await asyncio.create_subprocess_exec(node, str(HERE / script), *arguments, stdout=asyncio.subprocess.PIPE)
    try:
        async with asyncio.timeout(PATIENCE):
            out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0
    return json.loads(out)


def check_story(records: list[Any]) -> None:
    """See that the records are whole: from the first on, contiguous, nothing twice.

    Raises:
        LocalProtocolError: They are not.
    """
    seen = 0
    for first, last in records:
        if first != seen + 1:
            raise LocalProtocolError(f"behind {seen} comes {first}")
        seen = last


class Line:
    """A line to a server, which is cut after so many bytes from it.

    A connection for each number, and then without a cut.

    Attributes:
        cuts: After how many bytes.
        url: Where it begins.
        made: How many connections were made.
        used: Set when the first one is.
    """

    def __init__(self, target: int, cuts: Sequence[int]) -> None:
        self.target = target
        self.cuts = cuts
        self.url = ""
        self.made = 0
        self.used = asyncio.Event()
        self._carrying: set[asyncio.Task[None]] = set()
        self._ends: list[asyncio.StreamWriter] = []

    def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._carrying.add(asyncio.create_task(self._carry(reader, writer)))

    def cut(self) -> None:
        """Cut all connections now."""
        for end in self._ends:
            end.transport.abort()
        self._ends.clear()

    async def end(self) -> None:
        for task in self._carrying:
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        most = self.cuts[self.made] if self.made < len(self.cuts) else None
        self.made += 1
        self.used.set()
        there, back = await asyncio.open_connection("127.0.0.1", self.target)
        self._ends += [writer, back]
        up = asyncio.create_task(self._up(reader, back))
        try:
            left = most
            while data := await there.read(1024 if left is None else min(left, 1024)):
                writer.write(data)
                await writer.drain()
                if left is not None:
                    left -= len(data)
                    if left <= 0:
                        break
        except ConnectionError:
            pass
        finally:
            up.cancel()
            for end in (writer, back):
                end.transport.abort() if most is not None else end.close()

    async def _up(self, reader: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(4096):
                back.write(data)
                await back.drain()


@asynccontextmanager
async def line_to(url: str, cuts: Sequence[int] = ()) -> AsyncGenerator[Line, None]:
    line = Line(int(url.rstrip("/").rpartition(":")[2]), cuts)
    server = await asyncio.start_server(line.connect, "127.0.0.1", 0)
    line.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with server:
        yield line
        await line.end()
        await stop_listening(server)


def talking(wait: asyncio.Event) -> Worker:
    """It answers when somebody is there to hear it, in two hundred pieces."""

    async def hold(context: object) -> None:
        await wait.wait()

    model = ScriptedModel([say(TEXT, chunk=4)], delay=0.003)
    return Worker(model, hooks=[on_message_send(hold)])


async def test_an_event_source_that_is_cut_gets_everything_once_and_then_stays_away(
    node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "RETRY", 50)
    begin = asyncio.Event()
    async with WebServer(lambda: talking(begin), port=0) as server:
        run = server.state.runs.start("go")
        # In the middle of a frame, in the head of the answer, in a frame again.
        async with line_to(server.url, [1501, 40, 1707]) as line:
            line.used = begin
            url = f"{line.url}api/runs/{run.id}/events"
            heard = await run_client(node, "events.mjs", url)
        assert heard["ends"] == ["finished"]
        assert heard["status"] == 204
        check_story(heard["records"])
        assert heard["records"][-1][1] == run.run.last_seq
        assert "".join(heard["texts"]) == TEXT
        # Two were cut behind the head, and one came to the end; on that one it asked again, and was told that there is
        # nothing.
        assert line.made == 4
        assert heard["opens"] == 3


async def test_a_socket_carries_two_runs_over_cuts_each_from_its_own_cursor(node: str) -> None:
    begin = asyncio.Event()
    async with WebServer(lambda: talking(begin), port=0) as server:
        runs = [server.state.runs.start(text) for text in ("one", "two")]
        cuts = [60, 300, 5003, 2001, 9000]
        async with line_to(server.url, cuts) as line:
            line.used = begin
            url = f"ws{line.url[4:]}api/ws"
            heard = await run_client(node, "socket.mjs", url, *(run.id for run in runs))
        assert line.made == len(cuts) + 1
        assert len(set(heard["instances"])) == 1
        for run in runs:
            told = heard["runs"][run.id]
            assert told["end"] == "finished"
            check_story(told["records"])
            assert told["records"][-1][1] == run.run.last_seq
            assert "".join(told["texts"]) == TEXT


@pytest.mark.parametrize(
    ("numbers", "fault"),
    one_of([([1, 2, 4, 5], "behind 2 comes 4"), ([1, 2, 2, 3], "behind 2 comes 2"), ([2, 3], "behind 0")]),
)
async def test_a_stream_that_leaves_out_or_repeats_a_record_is_found_out(
    node: str, numbers: list[int], fault: str
) -> None:
    """The check itself: what the tests above rely on must be able to fail."""
    answered = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal answered
        answered += 1
        await reader.readuntil(b"\r\n\r\n")
        if answered == 1:
            frames = [sse_frame(json.dumps({"seq": n, "event": {"type": "ping"}}).encode(), id=n) for n in numbers]
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
            writer.write(head + b"retry: 1\n\n" + b"".join(frames) + end_frame("finished"))
        else:
            writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        heard = await run_client(node, "events.mjs", f"http://127.0.0.1:{port}/")
    with pytest.raises(LocalProtocolError, match=fault):
        check_story(heard["records"])


async def test_the_client_of_openai_talks_to_a_worker(node: str) -> None:
    token = "a-very-secret-token-0123456789"

    def make() -> Worker:
        return Worker(ScriptedModel([say("Hello, you!")]))

    settings = Settings(token=token)
    async with WebServer({"desk": make}, port=0, settings=settings) as server:
        seen = await run_client(node, "openai.mjs", f"{server.url}v1", token)
    assert seen["models"] == ["desk"]
    assert "".join(seen["texts"]) == "Hello, you!"
    assert seen["numbers"] == [0, 1, 2, 3, 4]
    assert seen["more"] == list(range(5, 5 + len(seen["more"])))
    assert (seen["text"], seen["status"]) == ("Hello, you!", "completed")
    assert seen["cancelled"] == "completed"
    assert seen["error"] == ["NotFoundError", 404, "model_not_found"]
