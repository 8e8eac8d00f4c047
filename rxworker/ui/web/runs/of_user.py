"""The runs and conversations of one user."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from rxworker.decisions import Decided, decide, granted_by, read_resume
from rxworker.desk.conversation import new_conversation
from rxworker.desk.run import resume_run
from rxworker.errors import CommandConflictError, DecisionError, SessionBusyError
from rxworker.log import EventLog
from rxworker.log.recover import outermost, resumed_id, routed
from rxworker.messages import Json, Message, ToolResult
from rxworker.protocols.socket import Branch
from rxworker.resume.stored import title_of
from rxworker.ui.web.http.request import WebRequest
from rxworker.ui.web.http.responses import ApiError, refused
from rxworker.ui.web.runs.entry import ConversationEntry, RunEntry
from rxworker.ui.web.runs.store import RunStore
from rxworker.ui.web.runs.workers import WorkerSource
from rxworker.worker import Decisions, session_of
from rxworker.worker.definition import Definition
from rxworker.worker.queue import QueuedSession
from rxworker.worker.session import Session


@dataclass(frozen=True, eq=False, slots=True)
class Runs:
    """The conversations and runs of one user; of all clients, if the server has no users.

    Args:
        store: Stores the runs.
        workers: Creates a worker for each conversation.
        owner: The user.
        request: The user's request, for functions that create workers from it.
    """

    store: RunStore
    workers: WorkerSource
    owner: str | None = None
    request: WebRequest | None = None

    def of(self, request: WebRequest) -> Runs:
        """Return the runs that the client of this request may see and control."""
        return Runs(self.store, self.workers, request.owner, request)

    def __iter__(self) -> Iterator[RunEntry]:
        """Iterate over the runs, newest first."""
        return self.store.of(self.owner)

    async def find(self, run_id: str) -> RunEntry:
        """Return the run with this id, also from the log.

        Raises:
            ApiError: There is none.
        """
        entry = self.get(run_id)
        if entry is None or entry.log is not None:
            info = await self.store.listed(run_id)
            if info is not None and info.last_seq:
                self.store.note(info)
            if (entry := self.get(run_id)) is not None:
                await entry.keep_pause()
        if entry is None:
            raise _no_run()
        return entry

    async def settled(self, run_id: str) -> RunEntry:
        """Return the run with this id; one whose last record is published, when it is released.

        Raises:
            ApiError: There is none.
        """
        entry = await self.find(run_id)
        await entry.done()
        return entry

    async def find_paused(self, run_id: str) -> RunEntry:
        """Return the run with this id, which waits, opened: every door finds it so, and decides about it by `resume`.

        Raises:
            ApiError: There is none, it is not paused, or it was resumed already.
        """
        entry = await self.settled(run_id)
        _check_paused(entry)
        await entry.open()
        return entry

    async def latest(self, run_id: str) -> RunEntry:
        """Return the run with this id.

        If it paused and was resumed, here or in another process, the last run that continues it.

        Raises:
            ApiError: There is none.
        """
        entry = await self.find(run_id)
        while entry.status == "paused":
            try:
                entry = await self.find(entry.resumed_as or resumed_id(entry.id))
            except ApiError:
                break
        return entry

    def get(self, run_id: str) -> RunEntry | None:
        """Return the run with this id, or ``None``."""
        return self.store.get(run_id, self.owner)

    def conversation(self, id: str) -> ConversationEntry | None:  # noqa: A002 - what it is
        """Return the conversation with this id, or ``None``."""
        return self.store.conversation(id, self.owner)

    def current(self, conversation: str) -> RunEntry | None:
        """Return the last run of the conversation with this id; ``None`` without one."""
        found = self.conversation(conversation)
        return None if found is None else found.current

    async def prepare(self, conversation: ConversationEntry | None) -> None:
        """Prepare a conversation for its next run.

        If the last record of its last run is published, wait until that run is done. Begin the session of a stored
        conversation, with its messages, unless this process has run it last.

        Raises:
            ApiError: This server has no such worker.
        """
        entry = None if conversation is None else conversation.current
        if entry is not None:
            await entry.done()
        if conversation is None or entry is None or entry.log is None:
            return
        session = self._session_of(conversation)
        if entry.here is not None and entry.here.session is session and not isinstance(session, QueuedSession):
            return
        if (info := await entry.log.info(entry.id)) is not None:
            self.store.note(info)
        await entry.open()
        await session.go_on_after(entry.info, entry.run.state)

    def _session_of(self, conversation: ConversationEntry) -> Session:
        if not conversation.has_session:
            _, worker = self.workers.make(conversation.name or None, self.request)
            conversation.begin(worker, self.store.log)
        return conversation.session

    def worker_of(self, entry: RunEntry) -> Definition | None:
        """Return the worker of a run; ``None`` if this server has no such worker."""
        if entry.here is not None:
            return session_of(entry.here).worker
        try:
            return self._session_of(entry.conversation).worker
        except ApiError:
            return None

    def start(self, sent: str | Message, *, worker: str | None = None, conversation: str | None = None) -> RunEntry:
        """Start a run: the next one of a conversation, or the first of a new one.

        Args:
            sent: The user's message.
            worker: The name of the worker of a new conversation.
            conversation: The id of the conversation to continue.

        Raises:
            ApiError: Too many runs are running, the conversation is busy, or there is no such conversation or worker.
        """
        message = Message.user(sent) if isinstance(sent, str) else sent
        self.store.check_room(self.owner)
        if conversation is None:
            return self.next_run(self.begin_conversation(worker), (message,))
        return self.next_run(self.existing(conversation), (message,))

    async def start_instead(self, run_id: str, number: int, text: str, message: Message) -> RunEntry:
        """Start a run of a new conversation, which begins with what precedes a message of the user in another run.

        Args:
            run_id: The id of that run.
            number: The number of the message among those of the user, from 0.
            text: Its text, to recognise it.
            message: The message that takes its place.

        Raises:
            ApiError: There is no such run or worker, too many runs are running, or that message has another text.
        """
        before = await self.find(run_id)
        self.store.check_room(self.owner)
        await before.open()
        messages = before.run.state.conversation.messages
        places = [at for at, one in enumerate(messages) if is_said(one)]
        worker, known = self.worker_of(before), [text]
        if worker is not None:
            known.append(worker.mapped((Message.user(text),))[0].text)
        if not 0 <= number < len(places) or messages[places[number]].text not in known:
            raise ApiError(409, "no_message", f"{run_id} has no such message any more: reload the page")
        branch = _branch(self, before.conversation, number)
        conversation = self.begin_conversation(before.conversation.name or None, branch=branch)
        conversation.mark(before.conversation.marks)
        session = conversation.session
        session.conversation = session.conversation.with_messages(messages[: places[number]])
        return self.next_run(conversation, (message,))

    def begin_conversation(
        self,
        worker: str | None,
        id: str | None = None,  # noqa: A002 - what it is
        branch: Branch | None = None,
    ) -> ConversationEntry:
        """Return a new conversation without a run. It is stored with its first run.

        Raises:
            ApiError: There is no such worker.
        """
        name, made = self.workers.make(worker, self.request)
        conversation = ConversationEntry(id or new_conversation(), name, owner=self.owner, branch=branch)
        conversation.begin(made, self.store.log)
        return conversation

    async def following(self, before: RunEntry, worker: str) -> ConversationEntry:
        """Return the conversation in which a worker continues a run.

        Its own, or a copy up to that run if it is another worker's, or others have followed.

        Raises:
            ApiError: It is busy, or there is no such worker.
        """
        conversation = before.conversation
        is_own = conversation.name == worker
        if is_own and conversation.current is before:
            await self.prepare(conversation)
        if is_own and conversation.current is before:  # still: another one may have followed
            conversation.check_free()
            return conversation
        copy = self.begin_conversation(worker)
        await before.open()
        copy.session.conversation = before.run.state.conversation
        return copy

    def next_run(self, entry: ConversationEntry, messages: tuple[Message, ...]) -> RunEntry:
        """Start the next run of a conversation.

        Raises:
            ApiError: Too many runs are running, or the conversation is busy.
        """
        self.store.check_room(self.owner)
        entry.check_free()
        run = entry.run(messages)
        return self.store.keep(run, entry, title_of(run.state.conversation.messages[-len(messages) :]))

    async def resume(
        self, before: RunEntry, decisions: Decisions, add: tuple[Message, ...] = (), *, shared_state: Json = None
    ) -> RunEntry:
        """Resume a paused run as a new run.

        A shared state replaces that of the run, unless the worker runs in other processes.

        Args:
            before: The run, as it was found.
            decisions: The decisions about the calls that wait. `ApproveAlways` also allows calls of the tool from now
                on in this conversation.
            add: Messages to add.
            shared_state: The new shared state.

        Raises:
            ApiError: It was dropped, is not paused, was resumed already, or too many runs are running.
            DecisionError: A decision is about no call that waits, or a call needs a decision and has none; or a call is
                always allowed that cannot be; or there is neither a result of a call that a client runs nor a message,
                so that the run would pause again.
        """
        _check_paused(before)
        self.store.check_room(self.owner)
        before.conversation.check_free()
        pending = before.pending
        decided = decide(pending, decisions, wakes=not add)
        if pending.by_client and not add and not any(decided):
            names = ", ".join(dict.fromkeys(pending.calls[at].name for at in pending.by_client))
            raise DecisionError(
                f"the run waits until its client runs {names}: answer the call with its result, or deny it"
            )
        given = Decided(decided, add, shared_state)
        always = granted_by(pending, decided)
        await self.prepare(before.conversation)
        if self.get(before.id) is not before:  # it was deleted meanwhile
            raise _no_run()
        _check_paused(before)
        try:
            run = await resume_run(before.conversation.session, before, given)
        except (CommandConflictError, SessionBusyError) as error:
            raise ApiError(409, "conflict", f"{before.id} was resumed already") from error
        entry = self.store.keep(run, before.conversation, before.info.row.title, resumes=before.id)
        if always is not None:
            await entry.conversation.refresh(always)
        return entry

    def existing(self, conversation: str) -> ConversationEntry:
        """Return the conversation with this id.

        Raises:
            ApiError: There is no such conversation.
        """
        if (found := self.conversation(conversation)) is None:
            message = "there is no such conversation: it was deleted, or the server was restarted"
            raise ApiError(404, "no_conversation", message)
        return found

    async def cancel(self, entry: RunEntry, reason: str, when: Literal["now", "after_turn"] = "now") -> None:
        """Cancel a run; with ``now``, wait a moment for its end. A paused run can no longer be resumed.

        Raises:
            ApiError: It was paused, and resumed meanwhile.
        """
        with refused(CommandConflictError, 409, "resumed"):
            await entry.cancel(reason, when)


def _branch(runs: Runs, conversation: ConversationEntry, number: int) -> Branch:
    """The place of a message in the conversation that had it first.

    A branch has copies of the messages before the one that it replaces.
    """
    branch = conversation.branch
    while branch is not None and number <= branch.message:
        known = runs.conversation(branch.conversation)
        if known is None or known.branch is None or number > known.branch.message:
            return Branch(branch.conversation, number)
        branch = known.branch
    return Branch(conversation.id, number)


async def outermost_id(log: EventLog | None, run_id: str) -> str:
    """The id of the outermost run that has the run with this id inside; that id itself, if there is no such run."""
    if log is None or (info := await log.listed(run_id)) is None:
        return run_id
    return (await outermost(log, info)).run_id


async def resume_at(runs: Runs, run_id: str, body: bytes) -> RunEntry:
    """Resume the paused run with this id by decisions, as `read_resume` reads them.

    For a run inside another one, the outermost run takes its decisions; a run that is running takes those about what
    waits in its background, and goes on.

    Raises:
        ApiError: As for ``find_paused`` and ``resume``.
        CommandConflictError: It was decided about already.
        DecisionError: As for ``resume``; or the decisions cannot be read.
        RunStatusError: The run with that id does not wait any more.
    """
    log, outer = runs.store.log, await outermost_id(runs.store.log, run_id)
    entry = await runs.settled(outer)
    await entry.open()
    is_waiting = entry.status == "running" and entry.run.state.waiting is not None
    if is_waiting and await entry.decide(Decided(read_resume(body)), run_id):
        return entry
    waiting = await runs.find_paused(outer)
    decisions: Decisions = read_resume(body)
    if log is not None and run_id != waiting.id and (info := await log.listed(run_id)) is not None:
        decisions = (await routed(log, info, Decided(decisions)))[1].decisions or {}
    return await runs.resume(waiting, decisions)


def _check_paused(run: RunEntry) -> None:
    """Check that a run waits.

    Raises:
        ApiError: It does not, or was resumed already.
    """
    if run.resumed_as is not None:
        message = f"{run.id} was resumed already as {run.resumed_as}: decide about what that one waits for"
        raise ApiError(409, "conflict", message)
    if run.status != "paused":
        raise ApiError(409, "not_paused", f"only a paused run can be resumed, and this one is {run.status}")


def _no_run() -> ApiError:
    return ApiError(404, "no_run", "there is no such run: it was dropped, or the server was restarted")


def is_said(message: Message) -> bool:
    """Whether a message of the user has more than the results of tools."""
    return message.role == "user" and any(not isinstance(block, ToolResult) for block in message.content)
