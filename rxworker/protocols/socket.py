"""The messages of a WebSocket that carries several runs, and the summary of a run in the list of runs. Pure.

Every message is one JSON object in a text message, and its ``type`` names its kind. The client names for each run the last record
that it has; the server sends what follows. A client reconnects in the same way, so nothing is lost and nothing comes twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from rxworker.errors import RemoteProtocolError
from rxworker.events import Record
from rxworker.messages import Json, Usage
from rxworker.protocols.native import EncodeRecord, encode_json, encode_record
from rxworker.state import RunState

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


class RequestRefused(Struct, frozen=True, tag="error", omit_defaults=True):
    """What the client asked for cannot be had.

    Attributes:
        code: What went wrong, in a word.
        message: What to do, for people.
        run: The run that it is about.
    """

    code: str
    message: str
    run: str | None = None


ServerMessage: TypeAlias = Hello | RunList | RunRecords | RunEnd | RunGone | RequestRefused

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


class PendingCall(Struct, frozen=True):
    """A tool call that waits for somebody's decision.

    Attributes:
        id: What the decision names.
        name: The tool's name.
        input: Its exact arguments.
    """

    id: str
    name: str
    input: Json


class PauseSummary(Struct, frozen=True):
    """What a paused run waits for.

    Attributes:
        hook: The name of the hook that asked for it.
        reason: For people.
        paused_at: The ``id`` of the call that it was paused at; ``None`` at the end of a turn.
        pending: The calls that wait, in order.
    """

    hook: str
    reason: str
    paused_at: str | None
    pending: tuple[PendingCall, ...]


class WatcherSummary(Struct, frozen=True):
    """Who watches, and how far behind.

    Attributes:
        name: What it is called.
        delivery: The name of its delivery.
        seq: The number of the last record that it was given.
        lag: How many records it is behind.
        delivered: How many records it was given.
        merged: How many it was given within others.
        dropped: How many it missed.
    """

    name: str
    delivery: str
    seq: int
    lag: int
    delivered: int
    merged: int
    dropped: int


class RunSummary(Struct, frozen=True):
    """A run in a few words.

    Attributes:
        id: The run's id.
        conversation: Whose run it is.
        worker: The name of what makes its workers.
        status: ``running``, ``paused``, ``finished`` or ``aborted``.
        title: The beginning of its input.
        started: When, in seconds since the epoch.
        ended: When it ended or was paused.
        seq: The number of its last record.
        turns: How many turns have started.
        tool_calls: How many tools were started, with those of the runs inside.
        usage: Its tokens.
        cost: What they cost, where the prices are known.
        reason: Why it was aborted or paused.
        cause: What sort of abort it was.
        pause: What it waits for.
        resumes: The run that it goes on with.
        resumed_as: The run that goes on with it.
        watchers: Who watches.
    """

    id: str
    conversation: str
    worker: str
    status: Literal["running", "paused", "finished", "aborted"]
    title: str
    started: float
    ended: float | None
    seq: int
    turns: int
    tool_calls: int
    usage: Usage
    cost: float | None
    reason: str
    cause: str
    pause: PauseSummary | None
    resumes: str | None
    resumed_as: str | None
    watchers: tuple[WatcherSummary, ...]


def pause_of(state: RunState) -> PauseSummary | None:
    """What a run waits for; ``None`` where it does not.

    >>> pause_of(RunState()) is None
    True
    """
    pause = state.pause
    if state.status != "paused" or pause is None:
        return None
    pending = tuple(PendingCall(call.id, call.name, call.input) for call in pause.pending)
    return PauseSummary(pause.hook, pause.reason, pause.paused_at, pending)


def reason_of(state: RunState) -> str:
    """Why a run was aborted, or what the hook that paused it gave as its reason.

    >>> reason_of(RunState(status="aborted", reason="enough"))
    'enough'
    """
    return state.reason if state.pause is None else state.pause.reason
