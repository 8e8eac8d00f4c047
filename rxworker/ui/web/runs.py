"""The conversations and runs of one user, who sees and steers no others."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from aiohttp import web

from rxworker.messages import Message
from rxworker.ui.web.answers import ApiError
from rxworker.ui.web.entry import ConversationEntry, RunEntry
from rxworker.ui.web.feed import RunFeed
from rxworker.ui.web.settings import Settings
from rxworker.ui.web.store import RunStore
from rxworker.ui.web.workers import WorkerSource
from rxworker.worker import Decision, Run

STOP_SECONDS = 5.0
"""How long a run whose client has left may take to end."""


class Runs:
    """The conversations and runs of one user; of everybody, where the server has no users.

    Args:
        store: Where they are kept.
        workers: Makes a worker for each conversation.
        settings: How the server behaves.
        owner: The user.
        request: The user's request, for functions that make workers of it.
    """

    def __init__(
        self,
        store: RunStore,
        workers: WorkerSource,
        settings: Settings,
        owner: str | None = None,
        request: web.Request | None = None,
    ) -> None:
        self._store = store
        self._workers = workers
        self._settings = settings
        self._owner = owner
        self._request = request

    def __iter__(self) -> Iterator[RunEntry]:
        """The runs, the newest first."""
        return self._store.of(self._owner)

    @property
    def feed(self) -> RunFeed:
        """The list of these runs, for listeners."""
        return self._store.feed(self._owner)

    def find(self, run: str) -> RunEntry:
        """The run of that id.

        Raises:
            ApiError: There is none.
        """
        entry = self.get(run)
        if entry is None:
            message = "there is no such run: it was forgotten, or the server was started anew"
            raise ApiError(404, "no_run", message)
        return entry

    def get(self, run: str) -> RunEntry | None:
        """The run of that id, if it is known."""
        return self._store.get(run, self._owner)

    def conversation(self, id: str) -> ConversationEntry | None:  # noqa: A002 - what it is
        """The conversation of that id, if it is known."""
        return self._store.conversation(id, self._owner)

    def start(
        self,
        text: str,
        *,
        worker: str | None = None,
        conversation: str | None = None,
    ) -> RunEntry:
        """Begin a run: the next one of a conversation, or the first of a new one.

        Args:
            text: What is said.
            worker: Who carries a new conversation on.
            conversation: Which conversation goes on.

        Raises:
            ApiError: Too many runs are on, the conversation is busy, or there is no such conversation or worker.
        """
        self.check_room()
        if conversation is None:
            entry = self.begin_conversation(worker)
        else:
            found = self.conversation(conversation)
            if found is None:
                raise ApiError(
                    404, "no_conversation", "there is no such conversation; begin a new one"
                )
            entry = found
        return self.next_run(entry, (Message.user(text),), text)

    def begin_conversation(self, worker: str | None, id: str | None = None) -> ConversationEntry:  # noqa: A002 - what it is
        """A new conversation without a run. It is kept with its first run.

        Raises:
            ApiError: There is no such worker.
        """
        name, made = self._workers.make(worker, self._request)
        return ConversationEntry(id or new_id(), name, made, self._owner)

    def next_run(
        self, entry: ConversationEntry, messages: tuple[Message, ...], title: str
    ) -> RunEntry:
        """Begin the next run of a conversation.

        Raises:
            ApiError: Too many runs are on, or the conversation is busy.
        """
        self.check_room()
        self.check_free(entry)
        return self._keep(entry.run(messages), entry, title)

    def resume(
        self, run: str, decisions: Mapping[str, Decision], add: tuple[Message, ...] = ()
    ) -> RunEntry:
        """Go on with a paused run, as a new one.

        Raises:
            ApiError: There is no such run, it is not paused, it was resumed already, or too many are on.
            LocalProtocolError: A decision is for no pending call.
        """
        before = self.find(run)
        if before.paused is None:
            message = f"only a paused run is resumed, and this one is {before.status}"
            raise ApiError(409, "not_paused", message)
        self.check_room()
        self.check_free(before.conversation)
        resumed = before.conversation.worker.resume(before.paused, decisions=decisions, add=add)
        entry = self._keep(resumed, before.conversation, before.title, resumes=before.id)
        before.resumed_as = entry.id
        before.changed()
        return entry

    def check_room(self) -> None:
        """See that another run may begin.

        Raises:
            ApiError: It may not.
        """
        self._store.check_room(self._owner)

    def check_free(self, conversation: ConversationEntry) -> None:
        """See that a conversation has no run that is on.

        Raises:
            ApiError: It has.
        """
        current = conversation.current
        if current is not None and not current.run.done():
            message = f"{current.id} of this conversation is on: wait for its answer, cancel it, or send into it"
            raise ApiError(409, "busy", message)

    async def make_free(self, conversation: ConversationEntry) -> None:
        """Cancel the run that is on in a conversation if its client has left it, and wait until it has ended."""
        current = conversation.current
        if current is None or current.run.done() or current.clients is None:
            return
        if await current.clients.have_left():
            await asyncio.wait({current.clients.stop()}, timeout=STOP_SECONDS)

    def note_resuming(self, id: str) -> None:  # noqa: A002 - what it is
        """The client of this chat has asked for the stream of its run: it resumes."""
        self._store.note_resuming(id, self._owner)

    def is_resuming(self, conversation: ConversationEntry) -> bool:
        """Whether the client of this chat resumes."""
        return self._store.is_resuming(conversation)

    def changed(self, entry: RunEntry) -> None:
        """Something about a run is other than before."""
        self._store.changed(entry)

    def _keep(
        self, run: Run[Any], conversation: ConversationEntry, title: str, resumes: str | None = None
    ) -> RunEntry:
        entry = RunEntry(run, conversation, title, self._settings, resumes)
        return self._store.keep(entry)


def new_id() -> str:
    """A name for a conversation that a client has not named."""
    return f"conversation-{uuid.uuid4().hex[:12]}"


__all__ = ["Runs", "new_id"]
