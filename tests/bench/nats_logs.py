"""Appends to NATS JetStream beside bare publishing of the same bytes by the same library, as many of them at once."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nats

from rxworker.log.format import Entry
from rxworker.log.nats import NatsLog
from rxworker.log.nats.session import Session
from tests.log.nats_server import MISSING, NatsServer, find_server

ROUNDS = 5
RUNS = 64
"""Runs that append at once, each after its own last append."""
SIZE = 1
"""Spans of an append, as in a run that is watched."""
APPENDS = 50


@contextmanager
def bench_server() -> Generator[str]:
    """The address of a server that has nothing else to do."""
    program = find_server()
    assert program is not None, MISSING
    with tempfile.TemporaryDirectory() as folder:
        server = NatsServer(program, Path(folder) / "nats")
        server.start()
        try:
            yield server.address
        finally:
            server.kill()


async def ratio_of_appends(address: str, entries: Sequence[Entry]) -> tuple[float, float]:
    """Appends in bare publishing; and microseconds an append."""
    ratios: list[float] = []
    each: list[float] = []
    async with NatsLog(address) as log:
        for number in range(ROUNDS):
            claims = [await log.claim(f"r{number}-{n}", create=True) for n in range(RUNS)]

            async def append(claim: object) -> None:
                after = 0
                for n in range(APPENDS):
                    some = entries[n * SIZE : (n + 1) * SIZE]
                    await log.append(claim, some, after=after, durable=False)  # pyright: ignore[reportArgumentType]
                    after = some[-1].last

            began = time.perf_counter()
            await asyncio.gather(*(append(claim) for claim in claims))
            ours = time.perf_counter() - began
            session = await log._open()  # pyright: ignore[reportPrivateUsage]
            payloads = await _payloads(session, [claim.run_id for claim in claims])
            bare = await _bare(address.rpartition("/")[0], f"bare-{number}", payloads)
            ratios.append(ours / bare)
            each.append(ours / (RUNS * APPENDS) * 1e6)
    return statistics.median(ratios), statistics.median(each)


async def _payloads(session: Session, runs: Sequence[str]) -> list[list[bytes]]:
    """What was stored."""
    found: list[list[bytes]] = []
    for run in runs:
        place = session.place(run)
        messages = await session.connection.read(place.stream, place.entries, 1)
        found.append([message.data for message in messages])
    return found


async def _bare(server: str, name: str, payloads: Sequence[Sequence[bytes]]) -> float:
    """Seconds to publish the same, to as many streams."""
    client: Any = await nats.connect(server)  # pyright: ignore[reportUnknownMemberType]
    stream = client.jetstream()
    for number in range(4):
        await stream.add_stream(name=f"{name}-{number}", subjects=[f"{name}.{number}.>"])

    async def publish(number: int, messages: Sequence[bytes]) -> None:
        for message in messages:
            await stream.publish(f"{name}.{number % 4}.run-{number}.e", message)

    began = time.perf_counter()
    await asyncio.gather(*(publish(*each) for each in enumerate(payloads)))
    seconds = time.perf_counter() - began
    await client.close()
    return seconds
