"""A session of a client: a conversation, its prompts one by one, and the questions that runs pause for.

Theory of operation. A session is one of a worker. A prompt starts a run, and its records become updates until it has
ended. A run that pauses ends: it requests the decision of the client's user, which resumes it as a new run of the same
prompt. A prompt that finds a paused run, which a client left without a decision, requests the decision first, and then
resumes that run with the new message; one that finds a run whose process has ended continues that run, and sends the
message into it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing, suppress

from reactivex import operators as ops

from rxworker.adapters.acp.peer import INTERNAL_ERROR, INVALID_REQUEST, Peer, RpcError
from rxworker.decisions import CHOICES, Approve, ApproveAlways, Deny, PendingCalls, read_choice
from rxworker.desk.conversation import OpenConversation
from rxworker.events import Event, RunStart
from rxworker.events.form import form_problem
from rxworker.events.pause import UNTIL
from rxworker.hub import Coalesce
from rxworker.hub.history import expand
from rxworker.log import RunInfo
from rxworker.messages import Conversation, Message, StopKind
from rxworker.protocols.acp import AcpEncoder, read_prompt, wire
from rxworker.protocols.acp.encode import call_fields, call_update, content_of, edits_of
from rxworker.protocols.acp.wire import OptionKind, StopReason
from rxworker.protocols.common import Wire, pump
from rxworker.resume.stored import LoadedRun, read_run, title_of
from rxworker.run.run import Run
from rxworker.views.changes import ViewAbort, ViewFinish, ViewPause
from rxworker.worker import Decision
from rxworker.worker.session import Session

DELIVERY = Coalesce(every=1 / 30)

CANCELLED = "the client has cancelled it"
REJECTED = "The user does not allow this call."

OPTIONS: dict[OptionKind, str] = {
    "allow_once": "Allow",
    "allow_always": "Always allow in this session",
    "reject_once": "Reject",
    "reject_always": "Always reject in this session",
}
"""The user's options, and the label of each."""

ONCE: tuple[OptionKind, ...] = ("allow_once", "reject_once")
"""The options where no answer holds for later calls."""

REFUSALS = frozenset({StopKind.REFUSAL, StopKind.CONTENT_FILTER})
LIMITS: dict[str, StopReason] = {
    "max_tokens": "max_tokens",
    "budget.max_tokens": "max_tokens",
    "max_turns": "max_turn_requests",
    "max_tool_calls": "max_turn_requests",
    "max_continuations": "max_turn_requests",
}
"""The limits of a run for which the protocol has a reason."""


class AcpSession:
    """A conversation with a client.

    Args:
        session: The session of a worker, with the label of its conversation. If it has a log, other processes may
            continue its runs.
        cwd: The folder that the client works in.
        peer: The client.
        before: The stored runs of its conversation, the oldest first.

    Attributes:
        opened: The conversation.
        id: The id, that of the conversation.
        resources: Resources that are closed with the session, such as its MCP servers.
    """

    def __init__(self, session: Session, cwd: str, peer: Peer, before: Sequence[RunInfo] = ()) -> None:
        self.opened = OpenConversation(session, [info.run_id for info in before])
        self.id = self.opened.id
        self.resources = AsyncExitStack()
        self._cwd = cwd
        self._peer = peer
        self._pause: ViewPause | None = None  # as the client has been shown what waits
        self._rejected: set[tuple[str, str]] = set()
        self._is_busy = self._is_cancelled = False
        self._request: asyncio.Task[wire.PermissionResult] | None = None
        # The items that the client has received of a run that another process may continue.
        self._shown: tuple[str, AcpEncoder] | None = None
        # The conversation before a prompt that the model refused to answer.
        self._before_refusal: Conversation | None = None

    def check_free(self) -> None:
        """Check that no prompt is being answered.

        Raises:
            RpcError: One is.
        """
        if self._is_busy:
            raise RpcError(INVALID_REQUEST, f"a prompt of {self.id} is being answered: wait for it, or cancel it")

    async def prompt(self, given: wire.Prompt) -> StopReason:
        """Answer a prompt.

        Raises:
            RpcError: Another prompt is being answered, or the run failed.
            LocalProtocolError: The prompt is empty.
            LogError: The log cannot be read or written.
        """
        self.check_free()
        message = read_prompt(given.prompt)
        self._is_busy, self._is_cancelled = True, False
        try:
            run = await self._begin(message)
            return "cancelled" if run is None else await self._follow(run)
        except asyncio.CancelledError:  # the request itself was cancelled
            if self.opened.run is not None and not self.opened.run.done():
                self.opened.run.cancel(reason=CANCELLED)
            raise
        finally:
            self._is_busy = False

    async def cancel(self) -> None:
        """End the run, and the question that it waits for."""
        self._is_cancelled = True
        if self._request is not None:
            self._request.cancel()
        await self.opened.cancel(CANCELLED)

    async def replay(self) -> None:
        """Send the client the updates of the earlier prompts.

        A prompt that the model refused is left out, as the protocol requires.
        """
        assert self.opened.session.log is not None
        for name in [*self.opened.known]:
            found, encoder = await read_run(self.opened.session.log, name), AcpEncoder(self._cwd, shows_user=True)
            updates = _encode(found, encoder)
            self._shown = name, encoder
            self._note_refusal(found.records[0].event, encoder)
            if self._before_refusal is None:
                for update in updates:
                    await self._notify(update)

    async def _begin(self, message: Message) -> Run[object] | None:
        """Start the run of a prompt; ``None`` if it was cancelled before that."""
        opened = self.opened
        before = await opened.catch_up("the client has come back")
        if isinstance(before, Run):
            before.send(message)
            return await self._begun(before)
        if before is not None:
            encoder = AcpEncoder(self._cwd)
            _encode(before, encoder)
            self._pause = encoder.end if isinstance(encoder.end, ViewPause) else None
        paused, shown = opened.paused, self._pause
        if paused is not None and shown is not None and shown.run_id == paused.run_id:
            return await self._resume(shown, (message,))
        if self._before_refusal is not None:
            self.opened.session.conversation = self._before_refusal
        is_first = not opened.known
        run = opened.begin(message)
        title = title_of(run.state.conversation.messages[-1:])
        await self._begun(run)
        if is_first:
            await self._notify({"sessionUpdate": "session_info_update", "title": title})
        return run

    async def _begun(self, run: Run[object]) -> Run[object]:
        await run.barrier()
        if self._is_cancelled:
            await self.opened.cancel(CANCELLED)
        return run

    async def _follow(self, run: Run[object]) -> StopReason:
        """Show a run until it has ended, and request the decision that it pauses for."""
        while True:
            encoder = await self._show(run)
            self._note_refusal(await run.events.pipe(ops.first()), encoder)
            with suppress(Exception):  # the last record has the reason
                await run
            if self.opened.paused is None or not isinstance(encoder.end, ViewPause):
                return self._reason(encoder)
            self._pause = encoder.end
            if self._is_cancelled:
                return "cancelled"
            resumed = await self._resume(encoder.end)
            if resumed is None:
                return "cancelled" if self._is_cancelled else "end_turn"
            run = resumed

    async def _show(self, run: Run[object]) -> AcpEncoder:
        name, encoder = self._shown or ("", AcpEncoder(self._cwd))
        if name != run.id:
            encoder = AcpEncoder(self._cwd)
        self._shown = None
        watch = run.watch(DELIVERY, after=encoder.seq, name="acp")
        async with aclosing(pump(watch.batches(), encoder.feed, encoder.close)) as pieces:
            async for updates in pieces:
                for update in updates:
                    await self._notify(update)
        return encoder

    def _reason(self, encoder: AcpEncoder) -> StopReason:
        """Why the prompt's turn has ended.

        Raises:
            RpcError: The run failed.
        """
        match encoder.end:
            case _ if self._is_cancelled:
                return "cancelled"
            case ViewFinish(stop_reason=reason):
                kind = None if reason is None else reason.kind
                if kind in REFUSALS:
                    return "refusal"
                return "max_tokens" if kind is StopKind.MAX_TOKENS else "end_turn"
            case ViewAbort(cause="cancel"):
                return "cancelled"
            case ViewAbort(cause="limit") if encoder.limit in LIMITS:
                return LIMITS[encoder.limit]
            case ViewAbort(reason=reason, cause=cause):
                raise RpcError(INTERNAL_ERROR, reason or cause)
            case end:
                raise RpcError(INTERNAL_ERROR, getattr(end, "reason", "the run has not ended"))

    def _note_refusal(self, first: Event, encoder: AcpEncoder) -> None:
        """Remember the conversation before a refused prompt: neither is part of the next request."""
        self._before_refusal = None
        reason = encoder.end.stop_reason if isinstance(encoder.end, ViewFinish) else None
        if reason is None or reason.kind not in REFUSALS:
            return
        if isinstance(first, RunStart):
            messages = first.conversation.messages
            self._before_refusal = first.conversation.with_messages(messages[: len(messages) - first.added])

    # Questions

    async def _resume(self, pause: ViewPause, add: tuple[Message, ...] = ()) -> Run[object] | None:
        """Request the user's decisions about a paused run, and resume it; ``None`` if it is not to continue."""
        opened, pending = self.opened, self.opened.pending
        if pause.hook == UNTIL and not add:
            return None  # a process that works with the log wakes it
        opened.decided.clear()  # of a prompt that was cancelled between two questions
        is_decided = True
        while is_decided and (index := opened.next) is not None:
            decision = await self._decide(pending, index, pause)
            if decision is None:
                is_decided = False
            else:
                opened.decided[index] = decision
        # At the end of a turn, or where the application has paused; a message for the model is reason enough to go on.
        if not (pending.required or pending.by_client or add):
            title = pause.reason or f"Continue after the pause of {pause.hook}?"
            call: Wire = {"toolCallId": f"{pause.run_id}.pause", "title": title}
            is_decided = await self._choose(call, ONCE) == "allow_once"
        if not is_decided or self._is_cancelled:
            await opened.dismiss(CANCELLED)
            for each in pause.pending:
                await self._notify(call_update(each.id, status="failed"))
            return None
        return await self._begun(await opened.decide(add).started())

    async def _decide(self, pending: PendingCalls, index: int, pause: ViewPause) -> Decision | None:
        """The decision about a call that needs one; ``None`` if the prompt was cancelled instead."""
        waiting = pause.pending[index]
        cause = pending.allowable if pending.required == (index,) else None
        if cause is not None and cause in self._rejected:
            return Deny(REJECTED)
        if cause is not None and cause in await self.opened.session.allowed_now():
            return Approve()
        call = call_fields(waiting.id, waiting.call, self._cwd)
        question = waiting.question
        shown = (waiting.reason or pause.reason) if question is None else str(question)
        if shown:
            call["content"] = [*edits_of(waiting.call, self._cwd), content_of(wire.TextContent(shown))]
        kinds = ONCE if cause is None else tuple(OPTIONS)
        if question is not None and question.schema is not None and form_problem(question.schema, {}):
            kinds = ("reject_once",)  # the client has no form that could be filled in
        choice = await self._choose(call, kinds)
        if choice is None:
            return None
        if choice == "allow_always":
            return ApproveAlways()
        if cause is not None and choice == "reject_always":
            self._rejected.add(cause)
        return Approve() if CHOICES[choice] else Deny(REJECTED)

    async def _choose(self, call: Wire, kinds: tuple[OptionKind, ...]) -> OptionKind | None:
        """The user's choice; ``None`` if the prompt was cancelled instead."""
        options = [{"optionId": kind, "name": OPTIONS[kind], "kind": kind} for kind in kinds]
        request: Wire = {"sessionId": self.id, "toolCall": call, "options": options}
        loop = asyncio.get_running_loop()
        answer = self._peer.request("session/request_permission", request, wire.PermissionResult)
        task = self._request = loop.create_task(answer)
        try:
            await asyncio.wait({task})
        finally:
            self._request = None
            task.cancel()
        if task.cancelled():
            self._is_cancelled = True
            return None
        outcome = task.result().outcome
        if outcome.outcome == "cancelled":
            self._is_cancelled = True
            return None
        return read_choice(outcome.option_id, kinds)

    async def _notify(self, update: Wire) -> None:
        await self._peer.notify("session/update", {"sessionId": self.id, "update": update})


def _encode(found: LoadedRun, encoder: AcpEncoder) -> list[Wire]:
    """The updates of a stored run."""
    records = [each for record in found.records for each in expand(record)]
    return [update for record in records for update in encoder.feed(record)]
