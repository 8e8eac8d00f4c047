"""Leases of a NATS log: the clock that they are judged by, and the thread that renews them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from rxworker.log.nats_connection import Connection
from rxworker.log.nats_format import (
    Address,
    Beat,
    Listed,
    Owner,
    Place,
    decode,
    encode,
    subject_token,
)
from rxworker.log.values import Claim

T = TypeVar("T")

KEPT = 3600
"""Seconds for which the server keeps the last renewal of a process that has ended, at least."""
AT_ONCE = 200
"""Claims that are checked with one request."""


class ServerClock:
    """The clock of the servers, so that leases do not depend on the clocks of the machines that run workers.

    It goes on by the monotonic clock of this process between two measurements. A measurement that differs by less than
    the time that an answer may take changes nothing.
    """

    def __init__(self) -> None:
        self._offset = 0.0
        self._to_wall = 0.0
        self._measured = float("-inf")

    @property
    def age(self) -> float:
        """Seconds since the last measurement."""
        return time.monotonic() - self._measured

    def measure(self, server: float, requested: float) -> None:
        """Take the time in an answer of a server.

        Args:
            server: The time in the answer.
            requested: The monotonic time of the request.
        """
        now = time.monotonic()
        offset = server - (requested + now) / 2
        if abs(offset - self._offset) > 0.02 + (now - requested) / 2:
            self._offset = offset
        self._measured = now

    def now(self) -> float:
        """The time of the servers."""
        return time.monotonic() + self._offset

    def wall(self, server: float) -> float:
        """A time of the servers by the clock of this machine, which may have been set."""
        to_wall = time.time() - self.now()
        if abs(to_wall - self._to_wall) > 0.02:
            self._to_wall = to_wall
        return server + self._to_wall if server else 0.0


def lease_end(run: Owner | Listed, claimed: float, beat: tuple[float, Beat] | None) -> float:
    """When the lease of a run ends, by the clock of the servers; 0 if nothing owns it."""
    if not run.owner:
        return 0.0
    until = claimed + run.lease
    if beat is not None and beat[1].runs.get(run.run_id) == run.epoch:
        until = max(until, beat[0] + beat[1].lease)
    return until


class Renewer:
    """Renews claims over a connection of its own, on an event loop of its own in a thread.

    So a tool that blocks its event loop does not lose its lease.

    Args:
        address: The address of the log.
        options: More arguments of ``nats.connect``.
        owner: The name of this process in claims.
    """

    def __init__(self, address: Address, options: Mapping[str, Any], owner: str) -> None:
        self._address = address
        self._options = options
        self._name = address.name
        self._owner = owner
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._connection: Connection | None = None

    def renew(self, claims: Sequence[Claim], lease: float, streams: int) -> list[str]:
        """Renew claims. Blocks.

        Returns:
            The ids of the runs that another owner has claimed, and of those that were deleted.

        Raises:
            LogError: Nothing has answered for the time between two renewals.
        """
        with self._lock:
            return self._run(lambda: self._renew(claims, lease, streams))

    async def _renew(self, claims: Sequence[Claim], lease: float, streams: int) -> list[str]:
        if self._connection is None:
            self._connection = Connection(
                self._address,
                self._options,
                label="rxworker heartbeat",
                patience=max(lease / 3, 1.0),
            )
        epochs = {claim.run_id: claim.epoch for claim in claims}
        await self._connection.publish(
            f"{self._name}.beat.{subject_token(self._owner)}",
            encode(Beat(self._owner, lease, epochs)),
            {"Nats-TTL": f"{max(KEPT, int(lease) * 10)}s"},
            f"{self._owner}.{time.monotonic_ns()}",
        )
        subjects: dict[str, list[str]] = {}
        for run in epochs:
            place = Place(self._name, run, streams)
            subjects.setdefault(place.stream, []).append(place.owner)
        lost: list[str] = []
        for stream, names in subjects.items():
            for start in range(0, len(names), AT_ONCE):
                some = names[start : start + AT_ONCE]
                found, _ = await self._connection.direct(stream, {"multi_last": some})
                owners = [decode(each.data, Owner, each.subject) for each in found]
                # A replica that is behind may know an earlier epoch, or none.
                lost += [one.run_id for one in owners if one.epoch > epochs[one.run_id]]
        return lost

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="rxworker log heartbeat", daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(work(), self._loop).result()

    def close(self) -> None:
        """Close the connection, and stop the thread."""
        with self._lock:
            loop, thread, connection = self._loop, self._thread, self._connection
            if loop is None or thread is None:
                return
            if connection is not None:
                self._run(connection.close)
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
            self._loop = self._thread = self._connection = None
