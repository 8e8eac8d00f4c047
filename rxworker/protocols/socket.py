"""What a client and a server say to each other over a WebSocket that carries several runs. Pure.

Every message is one JSON object in a text message, and says with ``type`` what it is. The client names for each run the last record
that it has; the server sends what follows. A connection that broke is made again in the same way, so nothing is lost or comes twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from rxworker.errors import RemoteProtocolError
from rxworker.events import Record
from rxworker.protocols.native import EncodeRecord, encode_json, encode_record

DeliveryName: TypeAlias = Literal["coalesce", "reliable", "latest", "drop_oldest"]
"""How a client wants a run: see the hub's deliveries."""

MAX_NAME = 80
"""The most characters of a name or an id in a client's message."""


class WatchRun(Struct, frozen=True, tag="watch", omit_defaults=True):
    """The client wants the records of a run.

    Attributes:
        run: The run's id.
        after: The number of the last record that it has.
        delivery: How it wants them.
        name: What it wants to be called among the watchers.
    """

    run: str
    after: int = 0
    delivery: DeliveryName = "coalesce"
    name: str = ""


class UnwatchRun(Struct, frozen=True, tag="unwatch"):
    """The client wants no more of a run.

    Attributes:
        run: The run's id.
    """

    run: str


class ListRuns(Struct, frozen=True, tag="list"):
    """The client wants the list of runs, now and whenever it changes."""


ClientMessage: TypeAlias = WatchRun | UnwatchRun | ListRuns


class Hello(Struct, frozen=True, tag="hello"):
    """The server's first words.

    Attributes:
        instance: Another with each start of the server: what was known of an earlier one is gone.
    """

    instance: str


class RunList(Struct, frozen=True, tag="runs"):
    """The runs, the newest first.

    Attributes:
        runs: Each as the JSON of a `RunSummary`.
    """

    runs: list[msgspec.Raw]


class RunRecords(Struct, frozen=True, tag="records"):
    """More records of a run.

    Attributes:
        run: The run's id.
        records: Each as `encode_record` has written it.
    """

    run: str
    records: list[msgspec.Raw]


class RunEnd(Struct, frozen=True, tag="end"):
    """All records of a run were sent.

    Attributes:
        run: The run's id.
        status: How it ended: ``finished``, ``paused`` or ``aborted``.
        reason: Why, for people.
    """

    run: str
    status: str
    reason: str = ""


class RunGone(Struct, frozen=True, tag="gone"):
    """The server does not know the run: it was forgotten, or the server was started anew.

    Attributes:
        run: The run's id.
    """

    run: str


class Refusal(Struct, frozen=True, tag="error", omit_defaults=True):
    """What the client asked for cannot be had.

    Attributes:
        code: What went wrong, in a word.
        message: What to do, for people.
        run: The run that it is about.
    """

    code: str
    message: str
    run: str | None = None


ServerMessage: TypeAlias = Hello | RunList | RunRecords | RunEnd | RunGone | Refusal

_client = msgspec.json.Decoder(ClientMessage)
_server = msgspec.json.Decoder(ServerMessage)


def read_client_message(data: bytes | str) -> ClientMessage:
    """What a client says.

    Raises:
        RemoteProtocolError: It is no message of a client's.

    >>> read_client_message('{"type":"watch","run":"run-1","after":17}')
    WatchRun(run='run-1', after=17, delivery='coalesce', name='')
    """
    try:
        message = _client.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise RemoteProtocolError(f"this is no message of a client's: {error}") from error
    if isinstance(message, WatchRun):
        if not 0 <= message.after < 1 << 53:
            raise RemoteProtocolError("after is the number of a record, from 0")
        if len(message.name) > MAX_NAME:
            raise RemoteProtocolError(f"a name has at most {MAX_NAME} characters")
    if not isinstance(message, ListRuns) and len(message.run) > MAX_NAME:
        raise RemoteProtocolError(f"a run's id has at most {MAX_NAME} characters")
    return message


def read_server_message(data: bytes | str) -> ServerMessage:
    """What a server says.

    Raises:
        RemoteProtocolError: It is no message of a server's.

    >>> read_server_message('{"type":"gone","run":"run-1"}')
    RunGone(run='run-1')
    """
    try:
        return _server.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise RemoteProtocolError(f"this is no message of a server's: {error}") from error


def socket_message(message: ClientMessage | ServerMessage) -> bytes:
    """The message as the text that is sent.

    >>> socket_message(RunGone("run-1"))
    b'{"type":"gone","run":"run-1"}'
    """
    return encode_json(message)


def records_message(
    run: str, records: Iterable[Record], encode: EncodeRecord = encode_record
) -> bytes:
    """The records of a run as the text that is sent.

    >>> from rxworker.events import TurnStop
    >>> data = records_message("run-1", [Record(5, "run-1", 1, 1, 2.5, TurnStop())])
    >>> len(read_server_message(data).records)
    1
    """
    return encode_json(RunRecords(run, [msgspec.Raw(encode(record)) for record in records]))


__all__ = [
    "MAX_NAME",
    "ClientMessage",
    "DeliveryName",
    "Hello",
    "ListRuns",
    "Refusal",
    "RunEnd",
    "RunGone",
    "RunList",
    "RunRecords",
    "ServerMessage",
    "UnwatchRun",
    "WatchRun",
    "read_client_message",
    "read_server_message",
    "records_message",
    "socket_message",
]
