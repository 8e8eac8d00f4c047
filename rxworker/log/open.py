"""Open a log by its address."""

from __future__ import annotations

from pathlib import Path

from rxworker.errors import ConfigurationError
from rxworker.log.base import EventLog
from rxworker.log.leases import LEASE
from rxworker.log.memory import MemoryLog
from rxworker.log.sqlite import SQLiteLog
from rxworker.log.store import Codec, masked

EXAMPLE = "give sqlite:FILE, for example sqlite:runs.db, postgresql://USER@HOST/DATABASE, nats://HOST/NAME, or memory:"


def open_log(address: str, *, codec: Codec | None = None, owner: str = "", lease: float = LEASE) -> EventLog:
    """Open the log at an address.

    ``sqlite:runs.db`` (relative to the working directory), ``sqlite:/var/lib/runs.db``,
    ``postgresql://me@db.example/runs`` (see `PostgresLog`), ``nats://host:4222/name`` (see `NatsLog`), or ``memory:``.

    Args:
        address: The address.
        codec: Applied to what is stored.
        owner: The name of this process in claims.
        lease: Seconds that a claim lasts without a heartbeat.

    Raises:
        ConfigurationError: The address is not one of these, or the package that it needs is not installed.
        LogError: The log cannot be opened.

    >>> open_log("memory:").owner != ""
    True
    """
    scheme, colon, rest = address.partition(":")
    if colon and scheme == "memory" and not rest:
        return MemoryLog(codec=codec, owner=owner, lease=lease)
    if colon and scheme == "sqlite" and rest:
        return SQLiteLog(rest, codec=codec, owner=owner, lease=lease)
    try:  # these need an extra
        if colon and scheme in ("postgresql", "postgres"):
            from rxworker.log.postgres import PostgresLog

            return PostgresLog(address, codec=codec, owner=owner, lease=lease)
        if colon and scheme == "nats":
            from rxworker.log.nats import NatsLog

            return NatsLog(address, codec=codec, owner=owner, lease=lease)
    except ImportError as error:
        raise ConfigurationError(str(error)) from error
    raise ConfigurationError(f"{masked(address)!r} is not the address of a log: {EXAMPLE}")


def open_stored(address: str) -> EventLog:
    """Open a log that is there: one in a file that is not is not made.

    Raises:
        ConfigurationError: There is no such file, or as for `open_log`.
        LogError: The log cannot be opened.
    """
    scheme, _, path = address.partition(":")
    if scheme == "sqlite" and not Path(path).exists():
        raise ConfigurationError(f"there is no log at {path}: give sqlite:FILE of a worker with a log")
    return open_log(address)
