"""A run and its conversation as the server keeps them, and the client connections that a run belongs to.

Theory of operation. `useChat` and AG-UI stop a run by closing the connection that carries its answer. A page reload and
a network failure close it in the same way, so the server decides by what follows. If the client reconnects within the
grace period, the run continues. A new message in the same conversation means that the client has stopped the run, which
is then cancelled at once. Otherwise the run is cancelled after the grace period, unless the client has shown that it
resumes: a page with ``resume: true`` requests the stream of its chat when it is opened, and for such a page a closed
connection does not stop the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from operator import is_not

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from reactivex import operators as ops
from reactivex.internal import noop

from rxworker.desk.run import STOP_SECONDS, OpenRun
from rxworker.errors import LogError
from rxworker.events import Annotation, Custom, Event, Fork, Record, RunResume, RunStart
from rxworker.events.custom import event_name
from rxworker.log import EventLog, Replica, RunInfo
from rxworker.log.fleet import RowCosts, can_requeue, usage_of
from rxworker.log.permissions import Pair
from rxworker.log.values import CONVERSATION, USER, RunRow
from rxworker.messages import Conversation, Message
from rxworker.protocols import EncodedRecords, encode_record, end_frame, record_frame
from rxworker.protocols.native import encode_json
from rxworker.protocols.socket import AllowedTool, Branch, Marks, PauseSummary, RunSummary, pause_of, records_message
from rxworker.providers.models import cost_of
from rxworker.redact import json_redactor
from rxworker.run.run import Run
from rxworker.ui.web.http.request import WebRequest
from rxworker.ui.web.http.responses import ApiError
from rxworker.ui.web.http.settings import Settings
from rxworker.worker.session import Session, Worker

BRANCH = "branch"
"""The label of a run whose conversation replaces a message of another one.

The number of the message, and the id of that conversation.
"""

MARKS = "marks"
"""The label of a run with the `StoredMarks` of its conversation."""

NOTICE = 0.5
"""Seconds within which the server detects a closed connection."""

STOPPED = "its client has stopped it"


class Clients:
    """The connections on which a client receives the answer of its run.

    Args:
        run: The run.
        grace: Seconds after which the run is cancelled if no connection is left; ``None``: never.
    """

    def __init__(self, run: Run[object], grace: float | None) -> None:
        self._run = run
        self._grace = grace
        self._requests: set[WebRequest] = set()
        self._gone = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def connected(self, request: WebRequest, *, resumes: bool = False) -> Generator[None, None, None]:
        """Context manager: the client is connected within the context.

        Args:
            request: The request that is served.
            resumes: Whether the client resumes: its run then continues without a connection.
        """
        self._requests.add(request)
        self._gone.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            yield
        finally:
            self._requests.discard(request)
            if not self._requests:
                self._gone.set()
                if self._grace is not None and not resumes and not self._run.done():
                    self._timer = asyncio.get_running_loop().call_later(self._grace, self.stop)

    async def have_left(self) -> bool:
        """Whether the client has stopped the run: no connection is left, or the last one closes within a moment."""
        if self._grace is None:
            return False
        if self._is_connected():
            try:
                async with asyncio.timeout(NOTICE):
                    await self._gone.wait()
            except TimeoutError:
                return not self._is_connected()
        return True

    def _is_connected(self) -> bool:
        return not all(request.is_closed for request in self._requests)

    def stop(self) -> asyncio.Future[None]:
        """Cancel the run.

        Returns:
            A future that is done when the run has ended.
        """
        return self._run.cancel(reason=STOPPED)


@dataclass(eq=False)
class ConversationEntry:
    """A conversation and its session.

    Attributes:
        id: The id.
        name: The name under which the worker was configured.
        owner: The user; ``None`` if the server has no users.
        branch: The message of another conversation that it replaces.
        marks: What its user has noted about it.
        runs: Its runs that are kept, in order.
        current: Its last run.
        worker: The worker of its session, without the tools and the settings of a client.
        received: The messages that a client of another protocol sent last after the last answer; empty if the last run
            was started otherwise.
        output: The type of the answers of its runs.
        allowed: The tools that its user always allows, each with the hook that pauses no run for it, as they were read
            last.
        reads: How often these were read.
        newest: Which of the reads is shown.
        is_marking: Whether its marks are not stored yet: what the log lists is older.
    """

    id: str
    name: str
    _session: Session | None = None
    owner: str | None = None
    branch: Branch | None = None
    marks: Marks = field(default_factory=Marks)
    runs: list[RunEntry] = field(default_factory=list["RunEntry"])
    current: RunEntry | None = None
    received: tuple[Message, ...] = ()
    output: type[object] | None = None
    allowed: tuple[Pair, ...] = ()
    reads: int = 0
    newest: int = 0
    is_marking: bool = False
    _before: tuple[Conversation, tuple[Message, ...]] | None = None

    def __post_init__(self) -> None:
        if self._session is not None:
            self.use(self._session)

    def begin(self, worker: Worker, log: EventLog | None) -> None:
        """Begin a session of a worker. Its runs are in the log of the worker, or else in that of the server."""
        session = worker.new_session(log=worker.log or log)
        session.name = self.name or session.name
        session.labels.update(self.labels)
        self.use(session)

    def use(self, session: Session) -> None:
        """Set the session: that of a stored conversation begins when it is needed."""
        if self._session is not None and self._session is not session:
            session.inherit(self._session)
        self._session, self.worker = session, session.worker
        if session.log is None:
            self.allowed = tuple(session.allowed)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of its runs, by which the log knows it."""
        labels = {CONVERSATION: self.id}
        if self.owner is not None:
            labels[USER] = self.owner
        if self.branch is not None:
            labels[BRANCH] = f"{self.branch.message} {self.branch.conversation}"
        if self.marks != Marks():
            labels[MARKS] = encode_json(StoredMarks(self.marks)).decode()
        return labels

    def mark(self, marks: Marks) -> None:
        """Set what is noted about it, also for its next runs."""
        if marks == self.marks:
            return
        self.marks = marks
        if self._session is not None:
            self._session.labels.pop(MARKS, None)
            self._session.labels.update(self.labels)
        self.changed()

    def changed(self) -> None:
        """Report a change of all its runs."""
        for run in self.runs:
            run.changed()

    async def refresh(self, *more: Pair) -> None:
        """Read what is always allowed in it now.

        With ``more``, what a stored decision grants as soon as another process carries it out.

        Raises:
            LogError: The log cannot be read.
        """
        self.reads += 1
        number = self.reads
        found = () if self.current is None else await self.current.allowed()
        if number < self.newest:
            found = self.allowed  # one that began later has ended before
        self.newest = max(number, self.newest)
        if (allowed := tuple(dict.fromkeys((*found, *more)))) != self.allowed:
            self.allowed = allowed
            self.changed()

    async def refresh_later(self) -> None:
        """As `refresh`; where the log cannot be read, it is read again with the next change."""
        with suppress(LogError):
            await self.refresh()

    async def disallow(self, pair: Pair) -> None:
        """Pause again for a tool that was always allowed in it, from its next call on.

        Raises:
            ApiError: The tool was not allowed.
            LogError: The log cannot be written.
        """
        await self.refresh()
        if pair not in self.allowed:
            raise ApiError(404, "not_allowed", f"{pair[0]} is not always allowed in this conversation")
        assert self.current is not None  # it has a run
        await self.current.disallow(pair)
        await self.refresh()

    def check_free(self) -> None:
        """Check that it has no running run.

        Raises:
            ApiError: It has one.
        """
        if (current := self.current) is not None and current.is_running:
            message = f"{current.id} of this conversation is running: wait for its answer, cancel it, or send into it"
            raise ApiError(409, "busy", message)

    async def make_free(self) -> None:
        """If the client of its running run has left, cancel the run and wait until it has ended."""
        current = self.current
        if current is None or not current.is_running_here or current.clients is None:
            return
        if await current.clients.have_left():
            await asyncio.wait({current.clients.stop()}, timeout=STOP_SECONDS)

    @property
    def allowed_tools(self) -> tuple[AllowedTool, ...]:
        """The tools that are always allowed, for clients."""
        return tuple([AllowedTool(*each) for each in self.allowed])

    @property
    def has_session(self) -> bool:
        """Whether it has a session in this process."""
        return self._session is not None

    @property
    def session(self) -> Session:
        """The session."""
        assert self._session is not None  # `Runs.prepare` has begun it
        return self._session

    def run(self, messages: tuple[Message, ...]) -> Run[object]:
        """Start the next run."""
        session, output = self.session, self.output
        before = session.conversation
        run = session.run(messages) if output is None else session.run(messages, output=output)
        self._before = before, run.state.conversation.messages[-len(messages) :]
        self.received = ()
        return run

    def known_of(self, received: tuple[Message, ...]) -> int:
        """Return how many of the messages, from the first, are part of the conversation already.

        A client whose last run ended without an answer sends the input of that run again, before the next message.
        """
        known = len(self.received)
        if self._before is None or received[:known] != self.received or len(received) <= known:
            return 0
        before, messages_sent = self._before
        start = len(before.messages)
        is_kept = self.session.conversation.messages[start : start + len(messages_sent)] == messages_sent
        return known if is_kept else 0

    def before(self, received: tuple[Message, ...]) -> Conversation | None:
        """Return the conversation before these messages, if they were the last input; otherwise ``None``."""
        before = self._before
        return before[0] if before is not None and before[1] == received else None


def branch_in(labels: Mapping[str, str]) -> Branch | None:
    """Return the branch that the labels of a run state.

    ``None`` if they state none, for example since an application has a label of that name.

    >>> branch_in({"branch": "2 conversation-1"})
    Branch(conversation='conversation-1', message=2)
    >>> branch_in({"branch": "main"}) is None
    True
    """
    number, _, conversation = labels.get(BRANCH, "").partition(" ")
    if not (number.isascii() and number.isdecimal() and conversation):
        return None
    return Branch(conversation, int(number))


class OncePerBatch:
    """Encodes a batch of records once for the clients that receive it one after the other.

    Args:
        encode: Encodes a batch.
    """

    __slots__ = ("_data", "_encode", "_known")

    def __init__(self, encode: Callable[[Sequence[Record]], bytes]) -> None:
        self._encode = encode
        self.clear()

    def __call__(self, records: Sequence[Record]) -> bytes:
        """The batch, encoded."""
        known = self._known
        if len(known) != len(records) or any(map(is_not, known, records)):
            self._data = self._encode(records)
            self._known = tuple(records)
        return self._data

    def clear(self) -> None:
        """Release the last batch."""
        self._known: tuple[Record, ...] = ()
        self._data = b""


class StoredMarks(Struct, frozen=True, omit_defaults=True):
    """What is noted about a conversation, as its newest run has it in the log.

    Attributes:
        marks: What is noted.
        seq: The number of the last record of the run when it was stored, if the run had ended.
        ended: When the run had ended then: the log counts a change of labels as an update of the run.
    """

    marks: Marks = Marks()
    seq: int = 0
    ended: float = 0.0

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> StoredMarks:
        """Read the labels of a run, of which an application may have others of that name."""
        try:
            return msgspec.json.decode(labels.get(MARKS, "{}"), type=StoredMarks)
        except msgspec.DecodeError:
            return StoredMarks()


def ended_at(info: RunInfo) -> float:
    """When a stored run ended or paused, whatever was noted about it since."""
    stored = StoredMarks.of(info.row.labels)
    return stored.ended if stored.ended and stored.seq == info.last_seq else info.ended


def marked_row(marks: Marks, info: RunInfo) -> RunRow:
    """The row of a stored run with other marks."""
    stored = StoredMarks(marks, info.last_seq, ended_at(info))
    return replace(info.row, labels={**info.row.labels, MARKS: encode_json(stored).decode()})


class RunEntry(OpenRun):
    """A run, and what the server keeps about it.

    Args:
        info: What a list shows of it.
        conversation: Its conversation.
        settings: The settings of the server.
        log: The log that has it; ``None`` for one that ends with this process.
        here: The run, if this process runs it, or has run it.
        is_added: Whether the program started it: the server does not count it among the runs of clients and does not
            cancel it.
        on_change: Called after each change.

    Attributes:
        conversation: Its conversation.
        message_id: The id of the message that it continues, for a client of the UI Message Stream.
        redact: Removes secrets of the environment from data that is sent.
        encode: Encodes its records, once for all clients.
        frames: Encodes records as server-sent events, once for all clients.
        shared_frames: As `frames`, for the clients of read-only links: without labels, of which one may be the name of
            a user, and without the trace of the caller.
        message: Encodes records as a message of a WebSocket, once for all clients.
        clients: The connections of the client of another protocol that it belongs to.
        left_out_at: When a history of the chat was served without its answer, in the time of the event loop; ``None``
            if not since its answer was streamed.
        is_added: Whether the program started it.
    """

    def __init__(
        self,
        info: RunInfo,
        conversation: ConversationEntry,
        settings: Settings,
        log: EventLog | None = None,
        here: Run[object] | None = None,
        *,
        is_added: bool = False,
        on_change: Callable[[], object] = noop,
    ) -> None:
        super().__init__(info, log, here)
        self.conversation = conversation
        self._on_change = on_change
        self.settings = settings
        self.message_id: str | None = None
        self.clients: Clients | None = None
        self.is_added = is_added
        self.left_out_at: float | None = None
        hide = self.redact = json_redactor()

        def encode(record: Record, /) -> bytes:
            return hide(encode_record(record))

        self.encode = EncodedRecords(encode=encode)
        self.frames, self.message = OncePerBatch(self.frames_of), OncePerBatch(self.message_of)
        self.shared_frames = OncePerBatch(self.shared_frames_of)
        self._known: bytes | None = None
        self._pause: PauseSummary | None = None
        self._grace: asyncio.TimerHandle | None = None

    def frames_of(self, records: Sequence[Record]) -> bytes:
        """Records as server-sent events."""
        return b"".join([record_frame(record, self.encode) for record in records])

    def shared_frames_of(self, records: Sequence[Record]) -> bytes:
        """Records as server-sent events for the clients of read-only links."""
        return self.frames_of([*map(without_labels, records)])

    def message_of(self, records: Sequence[Record]) -> bytes:
        """Records as a message of a WebSocket."""
        return records_message(self.id, records, self.encode)

    def end_frame(self) -> bytes:
        """The server-sent event after the last record."""
        return self.redact(end_frame(self.status, self.reason))

    def summary(self) -> RunSummary:
        """Return the summary of the run."""
        info, row, shown, prices = self.info, self.info.row, self.shown, self.settings.prices
        seq, turns, tool_calls, cause = info.last_seq, row.turns, row.tool_calls, row.cause or self.waits_for or ""
        if self.log is not None:
            usage, cost = usage_of(row), RowCosts(prices).of(row)
        else:
            state = self.run.state
            usage, cost = state.usage, cost_of(state.usage_by_model, state.prices, prices)
            seq, turns, tool_calls, cause = state.seq, state.turns, state.all_tool_calls, row.cause or state.cause
        pause = None if shown is None or self.status not in ("paused", "running") else pause_of(shown.state)
        if self.status == "paused":
            pause = pause or self._pause
        return RunSummary(
            id=self.id,
            conversation=self.conversation.id,
            worker=self.conversation.name,
            status=self.status,
            title=row.title,
            started=self.started,
            ended=ended_at(info) if self.is_over else None,
            seq=seq,
            turns=turns,
            tool_calls=tool_calls,
            usage=usage,
            cost=cost.known,
            unpriced=cost.unpriced,
            currency="" if cost.known is None else cost.currency,
            reason=self.reason,
            cause=cause,
            pause=pause,
            resumes=self.resumes,
            resumed_as=self.resumed_as,
            watchers=() if shown is None else shown.watchers.now,
            allowed=self.conversation.allowed_tools,
            can_requeue=self.log is not None and can_requeue(row),
            branch=self.conversation.branch,
            marks=self.conversation.marks,
        )

    def encoded(self) -> bytes:
        """Return the summary as JSON. The JSON of a run that has ended is stored, since only its watchers change."""
        if self._known is not None:
            return self._known
        data = self.redact(encode_json(self.summary()))
        if self.is_over and not self.watching:
            self._known = data
        return data

    def settle(self) -> None:
        """Release what a run that is not watched does not need."""
        if self.is_over and not self.watching:
            for each in (self.encode, self.frames, self.shared_frames, self.message):
                each.clear()
        if self.log is not None and not self.watching:
            self.close_later()
            self.limit_idle()

    def changed(self) -> None:
        """Discard the stored summary, and report the change."""
        self._known = None
        self._on_change()

    async def refresh(self) -> None:
        """Read newer information from the log: the list may be a moment behind."""
        await super().refresh()
        await self.keep_pause()

    async def keep_pause(self) -> None:
        """Keep what a paused run of the log waits for, which the list shows."""
        if self.log is not None and self._pause is None and self.status == "paused":
            try:
                await self.open()
            except LogError:
                return  # deleted meanwhile
            self._pause = pause_of(self.run.state)
            self.changed()

    def limit_idle(self) -> None:
        """Cancel a run that no client watches for the grace period of the settings, from now on."""
        grace, here = self.settings.grace, self.here
        if grace is None or here is None or self.is_added or here.done():
            return
        if self.log is None:
            here.cancel_when_unobserved(grace=grace)
            return

        def leave() -> None:
            if not self.watching:
                here.cancel(reason=f"it had no watcher for {grace:g} seconds")

        if self._grace is not None:
            self._grace.cancel()
        self._grace = asyncio.get_running_loop().call_later(grace, leave)


def without_labels(record: Record) -> Record:
    """A record as the clients of read-only links receive it.

    It is without labels, without the trace of the caller, and without who has annotated the run.
    """
    event = record.event
    if isinstance(event, Custom) and event.name == event_name(Annotation):
        data = {name: each for name, each in event.data.items() if name != "by"}
        return replace(record, event=replace(event, data=data))
    if isinstance(event, Fork):
        return replace(record, event=replace(event, labels={}))
    if isinstance(event, RunStart | RunResume):
        return replace(record, event=replace(event, labels={}, traceparent=""))
    return record


def first_event(run: Run[object] | Replica) -> Event:
    """Return the first event of a run."""
    first: list[Event] = []
    run.events.pipe(ops.take(1)).subscribe(first.append)
    return first[0]
