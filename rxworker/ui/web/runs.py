"""The conversations and runs that the server keeps."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from rxworker.messages import Message
from rxworker.ui.web.answers import ApiError
from rxworker.ui.web.entry import ConversationEntry, RunEntry
from rxworker.ui.web.feed import RunFeed
from rxworker.ui.web.settings import Settings
from rxworker.ui.web.workers import WorkerSource
from rxworker.worker import Decision, Paused, Run

CLOSING_SECONDS = 5.0
"""How long the runs may take to end when the server stops."""


class Runs:
    """All conversations and runs of a server.

    Args:
        workers: Makes a worker for each conversation.
        settings: How many runs it takes on, and how many it keeps.

    Attributes:
        feed: Tells the list of runs to whoever wants to hear it.
    """

    def __init__(self, workers: WorkerSource, settings: Settings) -> None:
        self._workers = workers
        self._settings = settings
        self._entries: dict[str, RunEntry] = {}
        self._conversations: dict[str, ConversationEntry] = {}
        self._following: set[asyncio.Task[None]] = set()
        self._closing = False
        self.feed = RunFeed(self, is_shy=settings.grace is not None)

    def __iter__(self) -> Iterator[RunEntry]:
        """The runs, the newest first."""
        return reversed(list(self._entries.values()))

    def find(self, run: str) -> RunEntry:
        """The run of that id.

        Raises:
            ApiError: There is none.
        """
        entry = self._entries.get(run)
        if entry is None:
            message = "there is no such run: it was forgotten, or the server was started anew"
            raise ApiError(404, "no_run", message)
        return entry

    def get(self, run: str) -> RunEntry | None:
        """The run of that id, if it is known."""
        return self._entries.get(run)

    def conversation(self, id: str) -> ConversationEntry | None:  # noqa: A002 - what it is
        """The conversation of that id, if it is known."""
        return self._conversations.get(id)

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
            found = self._conversations.get(conversation)
            if found is None:
                raise ApiError(
                    404, "no_conversation", "there is no such conversation; begin a new one"
                )
            entry = found
        self.check_free(entry)
        return self._keep(entry.run((Message.user(text),)), entry, text)

    def begin_conversation(self, worker: str | None, id: str | None = None) -> ConversationEntry:  # noqa: A002 - what it is
        """A new conversation without a run. It is kept with its first run.

        Raises:
            ApiError: There is no such worker.
        """
        name, made = self._workers.make(worker)
        return ConversationEntry(id or f"conversation-{uuid.uuid4().hex[:12]}", name, made)

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
            message = f"only a paused run is resumed, and this one is {before.summary().status}"
            raise ApiError(409, "not_paused", message)
        self.check_room()
        self.check_free(before.conversation)
        resumed = before.conversation.worker.resume(before.paused, decisions=decisions, add=add)
        entry = self._keep(resumed, before.conversation, before.title, resumes=before.id)
        before.resumed_as = entry.id
        before.changed()
        return entry

    async def close(self) -> None:
        """Cancel what is on, wait until it has ended, and forget everything."""
        self._closing = True
        on = [entry.run for entry in self._entries.values() if not entry.run.done]
        ends = [run.cancel(reason="the server was stopped") for run in on]
        if ends:
            await asyncio.wait(ends, timeout=CLOSING_SECONDS)
        for task in self._following:
            task.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)
        self.feed.close()

    def forget(self) -> None:
        """Keep no run and no worker any longer."""
        self._entries.clear()
        self._conversations.clear()

    def check_room(self) -> None:
        """See that another run may begin.

        Raises:
            ApiError: It may not.
        """
        if self._closing:
            raise ApiError(503, "closing", "the server is being stopped")
        on = sum(not entry.run.done for entry in self._entries.values())
        if on >= self._settings.max_runs:
            message = f"{on} runs are on, and no more are allowed: wait for one, or cancel one"
            raise ApiError(429, "too_many_runs", message)

    def check_free(self, conversation: ConversationEntry) -> None:
        """See that a conversation has no run that is on.

        Raises:
            ApiError: It has.
        """
        current = conversation.current
        if current is not None and not current.run.done:
            message = (
                f"{current.id} of this conversation is on: wait for it, cancel it, or send into it"
            )
            raise ApiError(409, "busy", message)

    def _keep(
        self, run: Run[Any], conversation: ConversationEntry, title: str, resumes: str | None = None
    ) -> RunEntry:
        entry = RunEntry(run, conversation, title, self._settings.prices, resumes)
        self._entries[run.id] = entry
        self._conversations[conversation.id] = conversation
        conversation.runs.append(run.id)
        conversation.current = entry
        if self._settings.grace is not None:
            run.cancel_when_unobserved(grace=self._settings.grace)
        task = asyncio.get_running_loop().create_task(self._follow(entry), name=f"follow {run.id}")
        self._following.add(task)
        task.add_done_callback(self._following.discard)
        self.feed.add(entry)
        return entry

    async def _follow(self, entry: RunEntry) -> None:
        """Wait for a run's end, and write down what it came to."""
        try:
            result = await entry.run
        except Exception:
            pass  # its records say why
        else:
            entry.paused = result if isinstance(result, Paused) else None
        entry.ended = time.time()
        entry.settle()
        self._forget_oldest()
        self.feed.changed(entry)

    def _forget_oldest(self) -> None:
        """Forget runs beyond those that are kept: of those that nobody can go on with, if possible."""
        over = [entry for entry in self._entries.values() if entry.ended is not None]
        surplus = len(over) - self._settings.max_kept
        if surplus <= 0:
            return
        over.sort(key=_is_waiting)
        for entry in over[:surplus]:
            del self._entries[entry.id]
            conversation = entry.conversation
            conversation.runs.remove(entry.id)
            if not conversation.runs:
                self._conversations.pop(conversation.id, None)


def _is_waiting(entry: RunEntry) -> bool:
    return entry.paused is not None and entry.resumed_as is None


__all__ = ["Runs"]
