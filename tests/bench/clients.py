"""What many clients of one run cost the server: the run's time, the server's CPU time, and the bytes, paced and not.

    python tests/bench/clients.py [clients ...]

The model says 2,000 deltas, one each 2 ms. The clients are bare connections in a process of their own. The floor is the
run without any.
"""

from __future__ import annotations

import asyncio
import sys
import time

from reactivex import operators as ops

from rxworker import Worker, on_message_send
from rxworker.testing import ScriptedModel, say
from rxworker.ui.web import Settings, WebServer

DELTAS = 2000
DELAY = 0.002
RATES: tuple[float | None, ...] = (None, 30.0)
COUNTS = (0, 1, 100, 500)


async def listen(port: int, path: str) -> int:
    """Be a client to the end; how many bytes came."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    count = 0
    while data := await reader.read(1 << 16):
        count += len(data)
    writer.close()
    return count


async def be_clients(port: int, path: str, number: int) -> None:
    """The process of the clients: it prints how many bytes came."""
    print(sum(await asyncio.gather(*[listen(port, path) for _ in range(number)])))


async def measure(number: int, rate: float | None) -> tuple[float, float, int]:
    """Seconds of the run, seconds of CPU of the server, and bytes to each client."""
    begin = asyncio.Event()

    async def wait(_: object) -> None:
        await begin.wait()

    def make() -> Worker:
        model = ScriptedModel([say("word " * DELTAS, chunk=5)], delay=DELAY)
        return Worker(model, hooks=[on_message_send(wait)])

    settings = Settings(writes_per_second=rate, max_watchers=number + 1, max_watchers_per_run=number + 1)
    async with WebServer(make, port=0, settings=settings) as server:
        entry = server.state.runs.start("go")
        port = server.url.rsplit(":", 1)[1].rstrip("/")
        path = f"/api/runs/{entry.id}/events"
        clients = None
        if number:
            clients = await asyncio.create_subprocess_exec(
                sys.executable, __file__, "--be", port, path, str(number), stdout=-1
            )

        def are_there(watchers: tuple[object, ...]) -> bool:
            return len(watchers) >= number

        await entry.run.watchers.pipe(ops.filter(are_there), ops.first())
        started, worked = time.perf_counter(), time.process_time()
        begin.set()
        assert entry.here is not None
        await entry.here
        took = time.perf_counter() - started
        came = (await clients.communicate())[0] if clients is not None else b"0"
        work = time.process_time() - worked
    return took, work, int(came) // max(number, 1)


async def main(counts: list[int]) -> None:
    """Print a row for each number of clients and each rate."""
    print(f"{'clients':>7} {'writes/s':>8} {'run, s':>7} {'server CPU, s':>13} {'KB a client':>11}")
    for number in counts:
        for rate in RATES if number else RATES[:1]:
            took, work, size = await measure(number, rate)
            shown = "all" if rate is None else f"{rate:g}"
            print(f"{number:>7} {shown:>8} {took:>7.2f} {work:>13.2f} {size / 1000:>11.0f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--be"]:
        asyncio.run(be_clients(int(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
    else:
        asyncio.run(main([int(given) for given in sys.argv[1:]] or list(COUNTS)))
