"""A tool loop over a WebSocket and over HTTP, with the same service: bytes are compared, time is printed.

``pytest -q -s tests/bench/test_websocket.py`` prints them. The service runs in the same process, thinks for no time and
is not reached over a network, so that the times are those of both ends alone: what fewer bytes save on the way is not
in them.
"""

from __future__ import annotations

import statistics
import time

import pytest

from rxworker import Worker, tool
from rxworker.providers import OpenAIResponses
from rxworker.testing import call, say
from rxworker.transport import Client, HttpTransport, Transport, WebSocketTransport
from tests.transport.socket_service import Service, serving

ROUNDS = 20
TIMES = 10
RESULT = "a line of a file that the model has read\n" * 100


@tool
def read(path: str) -> str:
    """Read a file."""
    return f"{path}\n{RESULT}"


async def loop(transport: Transport) -> tuple[float, float, int]:
    """The milliseconds of a run, those of the processor, and the bytes that were sent."""
    script = [call("read", path=f"file_{number}.py") for number in range(ROUNDS)]
    async with serving(Service([*script, say("Done.")])) as service:
        provider = OpenAIResponses("gpt-5", api_key="k", base_url=service.address)
        worker = Worker(Client(provider, transport=transport), tools=[read])
        begun, cpu = time.perf_counter(), time.process_time()
        await worker.run("Read all files.")
        taken, cpu = time.perf_counter() - begun, time.process_time() - cpu
        assert len(service.understood) == ROUNDS + 1
        return taken * 1000, cpu * 1000, service.taken


@pytest.mark.bench
async def test_a_loop_over_a_socket_sends_a_tenth_of_what_http_sends() -> None:
    made: list[tuple[str, type[WebSocketTransport | HttpTransport]]] = [
        ("socket", WebSocketTransport),
        ("http", HttpTransport),
    ]
    times: dict[str, list[float]] = {name: [] for name, _ in made}
    cpus: dict[str, list[float]] = {name: [] for name, _ in made}
    sent: dict[str, int] = {}
    for number in range(TIMES):  # one right behind the other, so that the machine drops out
        for name, transport in made if number % 2 else reversed(made):
            taken, cpu, sent[name] = await loop(transport())
            times[name].append(taken)
            cpus[name].append(cpu)
    for name in times:
        taken, cpu = statistics.median(times[name]), statistics.median(cpus[name])
        print(f"{name}: {ROUNDS} rounds in {taken:.1f} ms, CPU {cpu:.1f} ms, {sent[name]:,} bytes")
    assert sent["socket"] * 10 < sent["http"]
