"""The streams of a NATS log: made for a new log, and checked for another."""

from __future__ import annotations

import uuid

from rxworker.errors import ConfigurationError, LogError
from rxworker.log.nats.connection import EXPECTED, NOT_FOUND, TAKEN, ApiError, Connection, SequenceError
from rxworker.log.nats.format import FORMAT, STREAMS, Address, Config, decode, encode
from rxworker.log.nats.session import Session

CONSUMERS = 100_000
"""How many consumers a stream may have: one for each process and run. The default is 1,000."""


async def prepare(session: Session, address: Address, wanted: int | None, replicas: int) -> None:
    """Make the streams of a new log, and check those of another. The session has their number from then on.

    Raises:
        LogError: The log has another number of streams, or is of a newer version; or they cannot be made.
    """
    connection, rows = session.connection, f"{session.name}-rows"
    try:
        await session.read_time()
    except LogError as error:
        if not isinstance(error.__cause__, ApiError) or error.__cause__.code != NOT_FOUND:
            raise
        subjects = [f"{session.name}.config", f"{session.name}.row.*", f"{session.name}.beat.*"]
        more: dict[str, object] = {"max_msgs_per_subject": 1, "allow_msg_ttl": True}
        await create(connection, rows, subjects, replicas, more)
        await session.read_time()
    subject = f"{session.name}.config"
    while (found := await connection.last(rows, subject)) is None:
        first = encode(Config(FORMAT, wanted or STREAMS))
        try:
            await connection.publish(subject, first, {EXPECTED: "0"}, uuid.uuid4().hex)
        except SequenceError:
            continue
        for number in range(wanted or STREAMS):
            await _create_runs(session, number, replicas)
    config = decode(found.data, Config, session.name)
    if config.v > FORMAT:
        raise LogError(
            f"{address!r} is a log of version {config.v}, and this rxworker knows versions up to {FORMAT}: use a "
            "newer rxworker"
        )
    if wanted is not None and wanted != config.streams:
        raise ConfigurationError(
            f"{address!r} has {config.streams} streams, and streams={wanted} was given: leave it out, since the "
            "number decides in which stream a run is"
        )
    session.streams = config.streams
    # The process that has made it may have ended before the last of them.
    last = f"STREAM.INFO.{session.name}-{config.streams - 1}"
    if await connection.request(last, unless=NOT_FOUND) is None:
        for number in range(config.streams):
            await _create_runs(session, number, replicas)


async def _create_runs(session: Session, number: int, replicas: int) -> None:
    """Make the stream of the entries of those runs that have this number."""
    await create(
        session.connection,
        f"{session.name}-{number}",
        [f"{session.name}.{number}.>"],
        replicas,
        {"allow_atomic": True, "max_consumers": CONSUMERS},
    )


async def create(
    connection: Connection, stream: str, subjects: list[str], replicas: int, more: dict[str, object]
) -> None:
    """Make a stream, unless there is one of this name."""
    config = {
        "name": stream,
        "subjects": subjects,
        "storage": "file",
        "retention": "limits",
        "num_replicas": replicas,
        "allow_direct": True,
        **more,
    }
    # Another process may have made it, with other replicas.
    await connection.request(f"STREAM.CREATE.{stream}", config, unless=TAKEN)
