"""How many functions and files of the library a delta passes, from the socket to a subscriber of the run."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType

import pytest

import rxworker
from rxworker import Worker
from rxworker.events import Record, ResponseEvent, TextDelta
from rxworker.providers import PROVIDERS
from rxworker.transport.client import Client
from tests.over_recordings import provider_of

HOME = str(Path(rxworker.__file__).parent)
FRAMES, FILES = 22, 14
"""At most so many, the subscriber's function among the frames."""

# Not Gemini, each of whose deltas brings the usage too.
RECORDED = [
    "anthropic/text-basic.sse",
    "openai_chat/text-include-usage.sse",
    "openai_responses/text.sse",
    "ollama/text-llama3.ndjson",
]
HEAD = "HTTP/1.1 200 OK\r\nContent-Type: {}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
TYPES = {".sse": "text/event-stream", ".ndjson": "application/x-ndjson"}


def cut(path: Path) -> tuple[list[bytes], int]:
    """The response in pieces: up to a text delta in its middle, that delta, the next one, and the rest.

    Also how many events the first piece has.
    """
    end = b"\n\n" if path.suffix == ".sse" else b"\n"
    frames = [frame + end for frame in path.read_bytes().split(end) if frame]
    decoder = PROVIDERS[provider_of(path)]("a-model").decoder()
    events = [[*decoder.feed(frame)] for frame in frames]
    whole = [[type(event) for event in found] == [TextDelta] for found in events]
    at = min((n for n in range(len(frames) - 1) if whole[n] and whole[n + 1]), key=lambda n: abs(n - len(frames) // 2))
    pieces = [b"".join(frames[:at]), frames[at], frames[at + 1], b"".join(frames[at + 2 :])]
    return pieces, sum(map(len, events[:at]))


@asynccontextmanager
async def serve(path: Path, pieces: list[bytes], ready: asyncio.Event) -> AsyncGenerator[str]:
    """Answer one request with the pieces, each when ``ready`` is set."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD.format(TYPES[path.suffix]).encode())
        for piece in pieces:
            await ready.wait()
            ready.clear()
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        writer.write(b"0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.ungrammatical  # no user checks records
@pytest.mark.parametrize("recorded", RECORDED)
async def test_a_delta_passes_few_functions_and_files(recordings: Path, recorded: str) -> None:
    path = recordings / recorded
    pieces, before = cut(path)
    ready, received = asyncio.Event(), asyncio.Event()
    passed: list[str] = []
    profiled = sys.getprofile()
    awaited = before

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(HOME):
            passed.append(frame.f_code.co_filename)

    def receive(record: Record) -> None:
        nonlocal awaited
        sys.setprofile(profiled)
        awaited -= isinstance(record.event, ResponseEvent)
        if awaited == 0:
            received.set()

    async with serve(path, pieces, ready) as address:
        provider = PROVIDERS[provider_of(path)]("a-model", api_key="k", base_url=address)
        run = Worker(Client(provider)).run("Hi")
        run.subscribe(receive)
        ready.set()
        await received.wait()
        for is_counted in (False, True):  # the first delta makes what later ones share
            received.clear()
            awaited = 1
            ready.set()
            await asyncio.sleep(0)  # the server writes
            sys.setprofile(note if is_counted else profiled)
            await received.wait()
        ready.set()
        await run

    assert len(passed) + 1 <= FRAMES, passed
    assert len(set(passed)) <= FILES, sorted(set(passed))
