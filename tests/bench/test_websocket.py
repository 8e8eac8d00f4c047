"""A tool loop over a WebSocket and over HTTP, with the same service: bytes are compared, time is printed.

``pytest -q -s tests/bench/test_websocket.py`` prints both. The service runs in the same process and thinks for no time, so that the time is that of
the requests alone.
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
TIMES = 7
RESULT = "a line of a file that the model has read\n" * 100


@tool
def read(path: str) -> str:
    """Read a file."""
    return f"{path}\n{RESULT}"


async def loop(transport: Transport) -> tuple[float, int]:
    """The milliseconds of a run, and the bytes that were sent."""
    script = [call("read", path=f"file_{number}.py") for number in range(ROUNDS)]
    async with serving(Service([*script, say("Done.")])) as service:
        provider = OpenAIResponses("gpt-5", api_key="k", base_url=service.address)
        worker = Worker(Client(provider, transport=transport), tools=[read])
        begun = time.perf_counter()
        await worker.run("Read all files.")
        taken = (time.perf_counter() - begun) * 1000
        assert len(service.understood) == ROUNDS + 1
        return taken, service.taken


@pytest.mark.bench
async def test_a_loop_over_a_socket_sends_a_tenth_of_what_http_sends() -> None:
    times: dict[str, list[float]] = {"socket": [], "http": []}
    sent: dict[str, int] = {}
    for _ in range(TIMES):  # one right behind the other, so that the machine drops out
        for name, transport in (("socket", WebSocketTransport()), ("http", HttpTransport())):
            taken, sent[name] = await loop(transport)
            times[name].append(taken)
    for name, several in times.items():
        median = statistics.median(several)
        print(f"{name}: {ROUNDS} rounds in {median:.1f} ms, {sent[name]:,} bytes sent")
    assert sent["socket"] * 10 < sent["http"]
