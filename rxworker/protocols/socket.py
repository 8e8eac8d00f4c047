"""The messages of a WebSocket that carries runs and published streams, and the summary of a run in the list. Pure.

Every message is one JSON object in a text message, and its ``type`` names its kind. The client names for each run the
last record that it has; the server sends what follows. A client reconnects in the same way, so nothing is lost and
nothing comes twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from rxworker.decisions import PendingCalls
from rxworker.errors import RemoteProtocolError
from rxworker.events import Record
from rxworker.events.pause import Question
from rxworker.hub import WatcherState
from rxworker.messages import Json
from rxworker.messages.usage import Usage
from rxworker.protocols.native import EncodeRecord, encode_json, encode_record
from rxworker.state import RunState

A = TypeVar("A")
DeliveryName: TypeAlias = Literal["coalesce", "reliable", "latest", "drop_oldest"]
"""The names of the hub's deliveries."""

Name: TypeAlias = Annotated[str, Meta(max_length=80)]
"""A name or an id in a client's message."""


class WatchRun(Struct, frozen=True, tag="watch", omit_defaults=True):
    """Subscribe to the records of a run.

    Attributes:
        run_id: The run's id.
        after: The number of the last record that the client has.
        delivery: The delivery.
        name: The name of the watcher.
    """

    run_id: Name = field(name="run")
    after: Annotated[int, Meta(ge=0, lt=1 << 53)] = 0
    delivery: DeliveryName = "coalesce"
    name: Name = ""


class UnwatchRun(Struct, frozen=True, tag="unwatch"):
    """Unsubscribe from a run.

    Attributes:
        run_id: The run's id.
    """

    run_id: Name = field(name="run")


class ListRuns(Struct, frozen=True, tag="list"):
    """Subscribe to the list of runs."""


class WatchStream(Struct, frozen=True, tag="watch_stream", omit_defaults=True):
    """Subscribe to the items of a published stream.

    Attributes:
        stream: The name of the stream.
        after: The cursor of the last item that the client has: the epoch of the stream and the number of the item, as
            ``epoch-seq``. A cursor of another epoch counts as none.
        delivery: The delivery; ``None`` for that of the stream.
        name: The name of the watcher.
    """

    stream: Name
    after: Annotated[str, Meta(max_length=40)] = ""
    delivery: DeliveryName | None = None
    name: Name = ""


class UnwatchStream(Struct, frozen=True, tag="unwatch_stream"):
    """Unsubscribe from a published stream.

    Attributes:
        stream: The name of the stream.
    """

    stream: Name


ClientMessage: TypeAlias = WatchRun | UnwatchRun | ListRuns | WatchStream | UnwatchStream
"""Any message of a client."""


class Hello(Struct, frozen=True, tag="hello"):
    """The first message of the server.

    Attributes:
        instance: The id of this start of the server. Runs of an earlier one are gone.
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
        run_id: The run's id.
        records: Each as encoded by `encode_record`.
    """

    run_id: str = field(name="run")
    records: list[msgspec.Raw]


class RunEnd(Struct, frozen=True, tag="end"):
    """The end of a run: all its records were sent.

    Attributes:
        run_id: The run's id.
        status: Its final status: ``finished``, ``paused`` or ``aborted``.
        reason: The reason. Shown to users; not interpreted.
    """

    run_id: str = field(name="run")
    status: str
    reason: str = ""


class RunGone(Struct, frozen=True, tag="gone"):
    """The server does not know the run: it was forgotten, or the server was restarted.

    Attributes:
        run_id: The run's id.
    """

    run_id: str = field(name="run")


class StreamItems(Struct, frozen=True, tag="items"):
    """More items of a published stream.

    Attributes:
        stream: The name of the stream.
        epoch: The epoch of the stream, which changes with each start of the program.
        items: Each as ``{"seq", "time", "value"}``.
    """

    stream: str
    epoch: int
    items: list[msgspec.Raw]


class EndOfStream(Struct, frozen=True, tag="stream_end"):
    """The end of a published stream: all its items were sent.

    Attributes:
        stream: The name of the stream.
        status: ``finished``, or ``aborted`` by an error.
        reason: The error.
    """

    stream: str
    status: str
    reason: str = ""


class StreamGone(Struct, frozen=True, tag="stream_gone"):
    """The server does not serve the stream to this client.

    Attributes:
        stream: The name of the stream.
    """

    stream: str


class RequestRefused(Struct, frozen=True, tag="error", omit_defaults=True):
    """The request of the client failed.

    Attributes:
        code: The error code.
        message: The cause and the remedy. Shown to users; not interpreted.
        run_id: The run of the request.
        stream: The published stream of the request.
    """

    code: str
    message: str
    run_id: str | None = field(default=None, name="run")
    stream: str | None = None


ServerMessage: TypeAlias = (
    Hello | RunList | RunRecords | RunEnd | RunGone | StreamItems | EndOfStream | StreamGone | RequestRefused
)
"""Any message of a server."""

_client = msgspec.json.Decoder(ClientMessage)
_server = msgspec.json.Decoder(ServerMessage)


def read_client_message(data: bytes | str) -> ClientMessage:
    """Decode a message of a client.

    Raises:
        RemoteProtocolError: It is not one.

    >>> read_client_message('{"type":"watch","run":"run-1","after":17}')
    WatchRun(run_id='run-1', after=17, delivery='coalesce', name='')
    """
    return _read(_client, data, "client")


def read_server_message(data: bytes | str) -> ServerMessage:
    """Decode a message of a server.

    Raises:
        RemoteProtocolError: It is not one.

    >>> read_server_message('{"type":"gone","run":"run-1"}')
    RunGone(run_id='run-1')
    """
    return _read(_server, data, "server")


def _read(decoder: msgspec.json.Decoder[A], data: bytes | str, sender: str) -> A:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise RemoteProtocolError(f"this is not a message of a {sender}: {error}") from error


def socket_message(message: ClientMessage | ServerMessage) -> bytes:
    """Encode a message.

    >>> socket_message(RunGone("run-1"))
    b'{"type":"gone","run":"run-1"}'
    """
    return encode_json(message)


def records_message(run_id: str, records: Iterable[Record], encode: EncodeRecord = encode_record) -> bytes:
    """Encode a `RunRecords` message.

    >>> from rxworker.events import TurnStop
    >>> data = records_message("run-1", [Record(5, "run-1", 1, 1, 2.5, TurnStop())])
    >>> len(read_server_message(data).records)
    1
    """
    return encode_json(RunRecords(run_id, [msgspec.Raw(encode(record)) for record in records]))


class PendingCall(Struct, frozen=True):
    """A tool call that waits for a decision.

    Attributes:
        id: The id, for the decision.
        name: The tool's name.
        input: Its exact arguments.
        needs_decision: Whether the run cannot be resumed without a decision about it.
        question: The question of its tool: the decision answers it, and approves with the content of the form as its
            input.
        path: The ids of the calls down to its run; empty for a call of the run itself.
        reason: Why its run waits; shown to users.
    """

    id: str
    name: str
    input: Json
    needs_decision: bool = False
    question: Question | None = None
    path: tuple[str, ...] = ()
    reason: str = ""


class PauseSummary(Struct, frozen=True):
    """The pause of a run.

    Attributes:
        hook: The name of the hook that paused it.
        reason: Shown to users; not interpreted.
        paused_at: The ``id`` of the call that it paused at; ``None`` at the end of a turn.
        pending: The calls that wait, in order.
    """

    hook: str
    reason: str
    paused_at: str | None
    pending: tuple[PendingCall, ...]


class AllowedTool(Struct, frozen=True, forbid_unknown_fields=True):
    """A tool that a person always allows in a conversation.

    Attributes:
        tool: The name of the tool.
        hook: The name of the hook that then pauses no run for it.
    """

    tool: str
    hook: str


class Branch(Struct, frozen=True):
    """The message that a conversation replaces: it begins as another one did before that message.

    Attributes:
        conversation: The id of that conversation. It is the one that had the message first, also when a replaced
            message is replaced again.
        message: The number of the message among those of the user, from 0.
    """

    conversation: str
    message: int


class Marks(Struct, frozen=True):
    """What a person has noted about a conversation.

    Attributes:
        title: Its name; empty for the beginning of its newest input.
        tags: Its tags.
        pinned: Whether lists show it first.
    """

    title: str = ""
    tags: tuple[str, ...] = ()
    pinned: bool = False


class RunSummary(Struct, frozen=True):
    """The summary of a run.

    Attributes:
        id: The run's id.
        conversation: The id of its conversation.
        worker: The name of its worker.
        status: ``running``, ``paused``, ``finished`` or ``aborted``.
        title: The beginning of its input.
        started: The time of its start, in seconds since the epoch.
        ended: The time at which it ended or paused.
        seq: The number of its last record.
        turns: The number of turns that started.
        tool_calls: The number of tool calls that started, nested runs included.
        usage: Its tokens.
        cost: The cost of those whose prices are known; ``None`` if none are.
        reason: Why it was aborted or paused.
        cause: The cause of the abort; ``queued``, ``recovering``, ``cut_off`` or ``waiting`` while no process
            runs it.
        pause: The pause, if it is paused.
        resumes: The run that it resumes.
        resumed_as: The run that resumes it.
        watchers: Its watchers.
        allowed: The tools that are always allowed in its conversation.
        can_requeue: Whether it has failed, or was set aside, and a log can put it back.
        branch: The message of another conversation that its conversation replaces.
        marks: What a person has noted about its conversation.
        unpriced: The models whose prices are not known: the cost is without their tokens.
        currency: The currency of the cost; empty without one.
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
    watchers: tuple[WatcherState, ...]
    allowed: tuple[AllowedTool, ...] = ()
    can_requeue: bool = False
    branch: Branch | None = None
    marks: Marks = Marks()
    unpriced: tuple[str, ...] = ()
    currency: str = ""


def pause_of(state: RunState) -> PauseSummary | None:
    """What a run waits for that is paused, or that is running while calls in its background wait; else ``None``.

    >>> pause_of(RunState()) is None
    True
    """
    pause = state.waiting
    if state.status not in ("paused", "running") or pause is None:
        return None
    pending = tuple(
        PendingCall(n.name, n.call.name, n.call.input, n.needs_decision, n.question, n.path, n.reason)
        for n in PendingCalls.of(pause).nodes
    )
    return PauseSummary(pause.hook, pause.reason, None if pause.at is None else pause.calls[pause.at].call.id, pending)


def reason_of(state: RunState) -> str:
    """The reason why a run was aborted or paused.

    >>> reason_of(RunState(status="aborted", reason="enough"))
    'enough'
    """
    return state.reason if state.pause is None else state.pause.reason
