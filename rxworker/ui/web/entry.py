"""A run as the server keeps it, and its conversation.

The connections of the client that a run belongs to, and the end of a run whose client has stopped it.

Theory of operation. `useChat` and AG-UI stop a run by closing the connection that carries its answer. A reload of the page and a lost
network close it in the same way, so the server decides by what follows. A client that comes back within
the grace goes on with the run. A message in the same conversation means that the client has given up the run, which then is cancelled at
once. Otherwise the run is cancelled after the grace, unless the client has shown that it resumes: a page with ``resume: true`` asks for
the stream of its chat when it is opened, and to such a page a closed connection is no stop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

from aiohttp import web

from rxworker.events import Record
from rxworker.hub import Coalesce
from rxworker.messages import Conversation, Message
from rxworker.protocols import (
    EncodedRecords,
    RunSummary,
    WatcherSummary,
    encode_json,
    encode_record,
    pause_of,
    reason_of,
)
from rxworker.ui.clean import json_hider
from rxworker.ui.web.responses import ApiError
from rxworker.ui.web.settings import Settings
from rxworker.worker import Paused, Run, Worker

NOTICE = 0.5
"""Seconds within which the server notices that a connection was closed."""

STOPPED = "its client has stopped it"


class Clients:
    """The connections on which a client gets the answer of its run.

    Args:
        run: The run.
        grace: Seconds after which the run is cancelled when no connection is left; ``None``: never.
    """

    def __init__(self, run: Run[object], grace: float | None) -> None:
        self._run = run
        self._grace = grace
        self._requests: dict[int, web.Request] = {}  # by identity: a request is not hashable
        self._gone = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def connected(
        self, request: web.Request, *, resumes: bool = False
    ) -> Generator[None, None, None]:
        """The client is connected while this lasts.

        Args:
            request: The request that is answered.
            resumes: Whether the client resumes: its run then goes on without a connection.
        """
        self._requests[id(request)] = request
        self._gone.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            yield
        finally:
            del self._requests[id(request)]
            if not self._requests:
                self._gone.set()
                if self._grace is not None and not resumes and not self._run.done():
                    loop = asyncio.get_running_loop()
                    self._timer = loop.call_later(self._grace, self.stop)

    async def have_left(self) -> bool:
        """Whether the client has given up the run: no connection is left, or none in a moment."""
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
        transports = [request.transport for request in self._requests.values()]
        return any(t is not None and not t.is_closing() for t in transports)

    def stop(self) -> asyncio.Future[None]:
        """Cancel the run.

        Returns:
            Done when it has ended.
        """
        return self._run.cancel(reason=STOPPED)


RunStatus: TypeAlias = Literal["running", "paused", "finished", "aborted"]

TITLE = 120
"""The most characters of a run's title."""

LIST_WATCHER = "list of runs"
"""What the list of runs is called among a run's watchers. It is not shown."""

MOST_UNHEARD = 32
"""The most messages that may wait until a run can hear them."""


class ConversationEntry:
    """A conversation, and the worker that carries it on.

    Attributes:
        id: Its name.
        name: The name of what made the worker.
        worker: Who carries it on.
        owner: The user whose it is; ``None`` where the server has no users.
        made: What the worker was made with.
        runs: The ids of its runs that are kept, in order.
        current: Its last run.
        received: What a client of another protocol sent last behind the last answer that it had; empty where the last run was begun otherwise.
    """

    __slots__ = ("_before", "current", "id", "made", "name", "owner", "received", "runs", "worker")

    def __init__(self, id: str, name: str, worker: Worker, owner: str | None = None) -> None:  # noqa: A002 - what it is
        self.id = id
        self.owner = owner
        self.name = name
        self.worker = worker
        self.made = worker.conversation
        self.runs: list[str] = []
        self.current: RunEntry | None = None
        self.received: tuple[Message, ...] = ()
        self._before: tuple[Conversation, tuple[Message, ...]] | None = None

    def run(self, messages: tuple[Message, ...]) -> Run[Any]:
        """Begin the next run."""
        before = self.worker.conversation
        run = self.worker.run(messages)
        self._before = before, messages
        self.received = ()
        return run

    def new_in(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages that are not part of the conversation yet.

        A client whose last run ended without an answer sends the input of that run again, before the next message.
        """
        known = len(self.received)
        if self._before is None or not known or messages[:known] != self.received:
            return messages
        before, said = self._before
        start = len(before.messages)
        is_kept = self.worker.conversation.messages[start : start + len(said)] == said
        return messages[known:] if is_kept and len(messages) > known else messages

    def before(self, messages: tuple[Message, ...]) -> Conversation | None:
        """What was said before these messages, if they were the last input; ``None`` otherwise."""
        if self._before is None or self._before[1] != messages:
            return None
        return self._before[0]


class RunEntry:
    """A run, and what the server knows of it.

    Attributes:
        run: The run.
        conversation: Whose it is.
        title: The beginning of its input.
        started: When it began.
        ended: When it ended.
        paused: What it came to, where it was paused.
        resumes: The run that it goes on with.
        resumed_as: The run that goes on with it.
        message_id: The id of the message that it is shown as, where a client of the UI Message Stream goes on with one.
        hide: Takes secrets of the environment out of what is sent.
        encode: Encodes its records, once for all clients.
        delivery: How clients are given its records by default.
        watching: How many clients watch.
        clients: The connections of the client of another protocol that it belongs to.
        left_out_at: When a history of the chat was served without its answer, in the time of the event loop; ``None`` when none was since
            its answer was streamed.
        is_added: Whether the program began it: the server neither counts it among the runs of clients nor ends it.
        dismissed: Why it was cancelled while it was paused; ``None`` where it was not.
    """

    __slots__ = (
        "_known",
        "_prices",
        "_unheard",
        "clients",
        "conversation",
        "delivery",
        "dismissed",
        "encode",
        "ended",
        "hide",
        "is_added",
        "left_out_at",
        "message_id",
        "paused",
        "resumed_as",
        "resumes",
        "run",
        "started",
        "title",
        "watching",
    )

    def __init__(
        self,
        run: Run[Any],
        conversation: ConversationEntry,
        title: str,
        settings: Settings,
        resumes: str | None = None,
    ) -> None:
        self.run = run
        self.conversation = conversation
        self.title = title[:TITLE]
        self.started = time.time()
        self.ended: float | None = None
        self.paused: Paused[Any] | None = None
        self.resumes = resumes
        self.resumed_as: str | None = None
        self.message_id: str | None = None
        self.clients: Clients | None = None
        self.is_added = False
        self.left_out_at: float | None = None
        self.dismissed: str | None = None
        hide = self.hide = json_hider()

        def encode(record: Record, /) -> bytes:
            return hide(encode_record(record))

        self.encode = EncodedRecords(encode=encode)
        self.watching = 0
        self._prices = settings.prices
        rate = settings.writes_per_second
        self.delivery = Coalesce(every=None if rate is None else 1 / rate)
        self._unheard = 0
        self._known: bytes | None = None

    @property
    def id(self) -> str:
        """The run's id."""
        return self.run.id

    def send(self, text: str) -> None:
        """Say something into the run.

        Raises:
            ApiError: What was said before waits still.
            LocalProtocolError: The run has ended.
        """
        if self._unheard >= MOST_UNHEARD:
            message = f"{self._unheard} messages wait to be heard: wait until the model answers"
            raise ApiError(429, "too_many_messages", message)

        def heard(_future: asyncio.Future[None]) -> None:
            self._unheard -= 1

        self.run.send(text).add_done_callback(heard)
        self._unheard += 1

    @property
    def status(self) -> RunStatus:
        """How it stands. A run that was cancelled while it was paused is aborted."""
        if self.dismissed is not None:
            return "aborted"
        status = self.run.state.status
        return "running" if not self.run.done() or status == "new" else status

    @property
    def reason(self) -> str:
        """Why it stands so: why it is paused, or what ended it early."""
        return reason_of(self.run.state) if self.dismissed is None else self.dismissed

    def dismiss(self, reason: str) -> None:
        """Cancel a run that is paused: it waits no longer, and cannot be resumed."""
        self.paused = None
        self.dismissed = reason
        self.changed()

    def summary(self) -> RunSummary:
        """The run in a few words."""
        run, state = self.run, self.run.state
        usage = state.usage
        is_dismissed = self.dismissed is not None
        prices = self._prices.get(self.conversation.worker.model.model)
        return RunSummary(
            id=run.id,
            conversation=self.conversation.id,
            worker=self.conversation.name,
            status=self.status,
            title=self.title,
            started=self.started,
            ended=self.ended,
            seq=state.seq,
            turns=state.turns,
            tool_calls=state.all_tool_calls,
            usage=usage,
            cost=None if prices is None else prices.cost(usage),
            reason=self.reason,
            cause="cancel" if is_dismissed else state.cause,
            pause=None if is_dismissed else pause_of(state),
            resumes=self.resumes,
            resumed_as=self.resumed_as,
            watchers=watchers_of(run),
        )

    def encoded(self) -> bytes:
        """The summary as JSON. That of a run that has ended is encoded once, for nothing changes but who watches."""
        if self._known is not None:
            return self._known
        data = self.hide(encode_json(self.summary()))
        if self.ended is not None and not self.watching:
            self._known = data
        return data

    def settle(self) -> None:
        """Hold no more than is needed for a run that has ended and that nobody watches."""
        if self.ended is not None and not self.watching:
            self.encode.clear()

    def changed(self) -> None:
        """The summary is another now."""
        self._known = None


def watchers_of(run: Run[Any]) -> tuple[WatcherSummary, ...]:
    """Who watches a run."""
    return tuple(
        WatcherSummary(
            name=w.name,
            delivery=w.delivery,
            seq=w.seq,
            lag=w.lag,
            delivered=w.delivered,
            merged=w.merged,
            dropped=w.dropped,
        )
        for w in run.watchers.now
        if w.name != LIST_WATCHER
    )
