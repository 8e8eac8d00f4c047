"""What the proxy costs beside a bare one: the CPU of its process, and how much later a frame arrives.

    python tests/bench/proxy.py            200 streams each, with a frame every 50 ms: some minutes
    python tests/bench/proxy.py --quick    fewer frames, one round

Both proxies run at the same time, each in a process of its own, between one server and one client, so that what else
the machine does affects both. The bare one passes bytes with aiohttp and does nothing else. The other decodes all and
writes it to a log in an SQLite file. The client gets the moments at which frames were sent from the server, when a
stream has ended. The clock is that of the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

import aiohttp
from aiohttp import web

from rxworker.cli.tap import TapLine, begin
from rxworker.log import SQLiteLog
from rxworker.testing import say
from rxworker.testing.wire import wire_for

HOST = "127.0.0.1"
PATHS = ("/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1beta/models/m:streamGenerateContent?alt=sse")
WORDS = "The quick brown fox jumps over the lazy dog, and so on. "


def frames_at(path: str, count: int) -> list[bytes]:
    """About so many frames of an answer."""
    text = (WORDS * (count * 4 // len(WORDS) + 1))[: count * 4]
    wire = wire_for(path)
    assert wire is not None
    return [frame.replace(b"\r\n", b"\n") for frame in wire.frames(say(text, chunk=4), 1, {"model": "m"})]


async def serve(frames: int, pause: float) -> None:
    """The service: a frame of each stream every so many seconds."""
    bodies = {path.partition("?")[0]: frames_at(path, frames) for path in PATHS}
    sent: dict[str, list[int]] = {}

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "GET":
            return web.json_response(sent.pop(request.path[1:]))
        await request.content.read()
        moments = sent[request.headers["x-stream"]] = []
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        loop = asyncio.get_running_loop()
        due = loop.time()
        for frame in bodies[request.path]:
            due += pause
            await asyncio.sleep(due - loop.time())
            moments.append(time.monotonic_ns())
            await response.write(frame)
        await response.write_eof()
        return response

    await listen(web.Server(answer, access_log=None))


async def listen(server: web.Server) -> None:
    """Print the port, and serve until the input ends."""
    listening = await asyncio.get_running_loop().create_server(server, HOST, 0, backlog=1024)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await wait_for_input()


async def wait_for_input() -> None:
    """Wait for lines: to each the CPU so far is printed. Return at the end."""
    while await asyncio.to_thread(sys.stdin.readline):
        print(time.process_time(), flush=True)


async def bare(to: str) -> None:
    """A proxy that does nothing but pass bytes."""
    session = aiohttp.ClientSession(auto_decompress=False, connector=aiohttp.TCPConnector(limit=0))

    async def passed(request: web.BaseRequest) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() != "host"}
        url = to + request.raw_path
        async with session.request(request.method, url, headers=headers, data=request.content) as upstream:
            response = web.StreamResponse(status=upstream.status, headers={"content-type": upstream.content_type})
            await response.prepare(request)
            async for chunk in upstream.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response

    async with session:
        await listen(web.Server(passed, access_log=None))


async def tapped(to: str, folder: str) -> None:
    """The proxy of the library, with a log, as ``rxworker tap proxy`` begins it."""
    async with contextlib.AsyncExitStack() as opened:
        log = await opened.enter_async_context(SQLiteLog(Path(folder) / "runs.db"))
        begun = await begin(TapLine(source="proxy", to=to, listen=(None, 0)), log, opened)
        print(re.findall(r":(\d+) as the base URL", begun.text)[0], flush=True)
        await wait_for_input()


async def read(url: str, service: str, streams: int, pause: float) -> list[float]:
    """Read all streams at once; how many milliseconds each frame took."""
    took: list[float] = []
    connector = aiohttp.TCPConnector(limit=0)

    async def one(session: aiohttp.ClientSession, number: int) -> None:
        await asyncio.sleep(number * pause * 0.618 % pause * 10)
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": f"Question {number}"}]}
        name, came = f"{time.monotonic_ns()}-{number}", list[int]()
        headers = {"x-stream": name}
        async with session.post(url + PATHS[number % len(PATHS)], json=body, headers=headers) as response:
            async for chunk in response.content.iter_any():
                came += [time.monotonic_ns()] * chunk.count(b"\n\n")
        async with session.get(f"{service}/{name}") as response:
            took.extend((there - here) / 1e6 for there, here in zip(came, await response.json(), strict=True))

    async with aiohttp.ClientSession(connector=connector) as session:
        await asyncio.gather(*(one(session, number) for number in range(streams)))
    return took


@contextlib.contextmanager
def started(*arguments: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """A process of this file, and the port that it prints."""
    command = [sys.executable, __file__, *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process, f"http://{HOST}:{int(process.stdout.readline())}"
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


def cpu_of(process: subprocess.Popen[str]) -> float:
    """The CPU that a process has taken so far."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return float(process.stdout.readline())


async def read_both(urls: list[str], service: str, streams: int, pause: float) -> list[list[float]]:
    """The same over each address, at the same time."""
    return await asyncio.gather(*(read(url, service, streams, pause) for url in urls))


def quantile(took: list[float]) -> float:
    """The milliseconds that 99 of 100 frames took at most."""
    return statistics.quantiles(took, n=100)[98]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What the proxy costs beside a bare one.")
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--frames", type=int, default=500)
    parser.add_argument("--pause", type=float, default=0.05, help="seconds between two frames of a stream")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="100 frames, one round")
    args = parser.parse_args()
    frames, rounds = (100, 1) if args.quick else (args.frames, args.rounds)
    ratios, added = list[float](), list[float]()
    for _ in range(rounds):
        with (
            tempfile.TemporaryDirectory() as folder,
            started("serve", str(frames), str(args.pause)) as (_, service),
            started("bare", service) as (bare_process, bare_url),
            started("tapped", service, folder) as (process, url),
        ):
            asyncio.run(read_both([bare_url, url], service, 8, args.pause))  # imports, and connections
            before = [cpu_of(bare_process), cpu_of(process)]
            took = asyncio.run(read_both([bare_url, url], service, args.streams, args.pause))
            time.sleep(1.5)  # what waits to be decoded or written counts
            after = [cpu_of(bare_process), cpu_of(process)]
        spent = [(b - a) / len(took[0]) * 1e6 for a, b in zip(before, after, strict=True)]
        late = [quantile(each) for each in took]
        ratios.append(spent[1] / spent[0])
        added.append(late[1] - late[0])
        print(
            f"us of CPU a frame: bare {spent[0]:.1f}, tapped {spent[1]:.1f}, {ratios[-1]:.3f} x; "
            f"p99: {late[0]:.2f} ms, {late[1]:.2f} ms, {added[-1]:+.2f} ms; {len(took[0])} frames",
            flush=True,
        )
    print(f"CPU {statistics.median(ratios):.3f} x; p99 {statistics.median(added):+.2f} ms")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", count, seconds]:
            asyncio.run(serve(int(count), float(seconds)))
        case ["bare", to]:
            asyncio.run(bare(to))
        case ["tapped", to, folder]:
            asyncio.run(tapped(to, folder))
        case _:
            main()
