"""A session of a client: a conversation, its prompts one by one, and the questions that runs pause for.

Theory of operation. A prompt starts a run, and its records become updates until it has ended. A run that pauses ends: it requests the decision of the client's user, which
resumes it as a new run of the same prompt. A prompt that finds a paused run, which a client left without a decision, requests the decision first, and then
resumes that run with the new message; one that finds a run whose process has ended continues that run, and sends the message into it.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing

from msgspec.structs import replace

from rxworker.adapters.acp.peer import INTERNAL_ERROR, INVALID_REQUEST, Peer, RpcError
from rxworker.events import Record, RunStart
from rxworker.messages import Conversation, Message, StopKind
from rxworker.protocols import AllowedTool
from rxworker.protocols.acp import AcpEncoder, call_fields, read_prompt, wire
from rxworker.protocols.acp.wire import OptionKind, PermissionOption, StopReason, Update
from rxworker.protocols.common import pump
from rxworker.ui.web.entry import ConversationEntry, LiveEntry, RunEntry
from rxworker.ui.web.runs import STOP_SECONDS, Runs, pending_of
from rxworker.ui.web.stored import StoredEntry
from rxworker.views import ViewAbort, ViewFinish, ViewPause
from rxworker.worker import Approve, Decision, Deny
from rxworker.worker.decisions import CHOICES, PendingCalls, read_choice

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


class Session:
    """A conversation with a client.

    Args:
        conversation: The conversation, with its worker.
        cwd: The folder that the client works in.
        runs: Starts and resumes runs.
        peer: The client.

    Attributes:
        conversation: The conversation.
        resources: Resources that are closed with the session, such as its MCP servers.
    """

    def __init__(self, conversation: ConversationEntry, cwd: str, runs: Runs, peer: Peer) -> None:
        self.conversation = conversation
        self.resources = AsyncExitStack()
        self._cwd = cwd
        self._runs = runs
        self._peer = peer
        self._rejected: set[AllowedTool] = set()
        self._is_busy = self._is_cancelled = False
        self._request: asyncio.Task[wire.PermissionResult] | None = None
        # The items that the client has received of a run that another process may continue.
        self._shown: tuple[str, AcpEncoder] | None = None
        # The conversation before a prompt that the model refused to answer.
        self._before_refusal: Conversation | None = None

    @property
    def id(self) -> str:
        """The id, that of the conversation."""
        return self.conversation.id

    def check_free(self) -> None:
        """Check that no prompt is being answered.

        Raises:
            RpcError: One is.
        """
        if self._is_busy:
            message = f"a prompt of {self.id} is being answered: wait for it, or cancel it"
            raise RpcError(INVALID_REQUEST, message)

    async def prompt(self, given: wire.Prompt) -> StopReason:
        """Answer a prompt.

        Raises:
            RpcError: Another prompt is being answered, or the run failed.
            LocalProtocolError: The prompt is empty.
            ApiError: The run cannot be started.
        """
        self.check_free()
        message = read_prompt(given.prompt)
        self._is_busy, self._is_cancelled = True, False
        try:
            entry = await self._begin(message)
            return "cancelled" if entry is None else await self._follow(entry)
        except asyncio.CancelledError:  # the request itself was cancelled
            current = self.conversation.current
            if current is not None and current.here is not None and not current.here.done():
                current.here.cancel(reason=CANCELLED)
            raise
        finally:
            self._is_busy = False

    async def cancel(self) -> None:
        """End the run, and the question that it waits for."""
        if not self._is_busy:
            return
        self._is_cancelled = True
        if self._request is not None:
            self._request.cancel()
        await self._stop(self.conversation.current)

    async def replay(self) -> None:
        """Send the client the updates of the earlier prompts. A prompt that the model refused is left out, as the protocol requires."""
        for name in list(self.conversation.runs):
            entry = await self._runs.find(name)
            await entry.open()
            encoder = AcpEncoder(self._cwd, shows_user=True)
            updates = [update for record in records_of(entry) for update in encoder.feed(record)]
            self._shown = name, encoder
            self._note_refusal(entry, encoder)
            if self._before_refusal is None:
                for update in updates:
                    await self._notify(update)

    async def _begin(self, message: Message) -> RunEntry | None:
        """Start the run of a prompt; ``None`` if it was cancelled before that."""
        conversation, runs = self.conversation, self._runs
        entry = conversation.current
        if entry is not None:
            entry = await runs.find(entry.id)
        if isinstance(entry, StoredEntry) and entry.info.is_cut_off():
            return await self._recover(entry, message)
        if entry is not None and entry.status == "paused" and entry.resumed_as is None:
            await entry.open()
            encoder = AcpEncoder(self._cwd)
            for record in records_of(entry):
                encoder.feed(record)
            assert isinstance(encoder.end, ViewPause)
            return await self._resume(entry, encoder.end, (message,))
        await runs.prepare(conversation)
        if self._before_refusal is not None:
            conversation.session.conversation = self._before_refusal
        return await self._begun(runs.next_run(conversation, (message,), message.text))

    async def _begun(self, entry: RunEntry) -> RunEntry:
        await entry.accepted()
        if len(self.conversation.runs) == 1:
            await self._notify(wire.SessionInfoUpdate(entry.title))
        if self._is_cancelled:
            await self._stop(entry)
        return entry

    async def _recover(self, entry: StoredEntry, message: Message) -> RunEntry:
        """Continue a run whose process has ended, and send the message into it."""
        await self._runs.prepare(self.conversation)
        run = await self.conversation.session.recover(entry.id, reason="the client has come back")
        entry.here = run
        self._runs.changed(entry)
        run.send(message)
        return await self._begun(entry)

    async def _follow(self, entry: RunEntry) -> StopReason:
        """Show a run until it has ended, and request the decision that it pauses for."""
        while True:
            encoder = await self._show(entry)
            end = encoder.end
            self._note_refusal(entry, encoder)
            if not isinstance(end, ViewPause) or self._is_cancelled:
                return self._reason(encoder)
            if isinstance(entry, LiveEntry):
                await entry.over.wait()
            resumed = await self._resume(entry, end)
            if resumed is None:
                return "cancelled" if self._is_cancelled else "end_turn"
            entry = resumed

    async def _show(self, entry: RunEntry) -> AcpEncoder:
        name, encoder = self._shown or ("", AcpEncoder(self._cwd))
        if name != entry.id:
            encoder = AcpEncoder(self._cwd)
        self._shown = None
        run = entry.run if entry.here is None else entry.here
        watch = run.watch(entry.delivery, after=encoder.seq, name="acp")
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

    def _note_refusal(self, entry: RunEntry, encoder: AcpEncoder) -> None:
        """Remember the conversation before a refused prompt: neither is part of the next request."""
        self._before_refusal = None
        reason = encoder.end.stop_reason if isinstance(encoder.end, ViewFinish) else None
        if reason is None or reason.kind not in REFUSALS:
            return
        first = records_of(entry)[0].event
        if isinstance(first, RunStart):
            messages = first.conversation.messages
            kept = messages[: len(messages) - first.added]
            self._before_refusal = first.conversation.with_messages(kept)

    # Questions

    async def _resume(
        self, entry: RunEntry, pause: ViewPause, add: tuple[Message, ...] = ()
    ) -> RunEntry | None:
        """Request the user's decisions about a paused run, and resume it; ``None`` if it is not to continue."""
        pending = await pending_of(entry)
        decisions = pending.without_client()
        is_decided = True
        for index in pending.required:
            decision = decisions[index] = await self._decide(pending, index, pause)
            if decision is None:
                is_decided = False
                break
        # A message for the model is reason enough to go on.
        if not (pending.required or pending.by_client or add):
            is_decided = await self._may_go_on(pause)
        if not is_decided or self._is_cancelled:
            await entry.dismiss(CANCELLED)
            for each in pause.pending:
                await self._notify(wire.CallUpdate(tool_call_id=each.id, status="failed"))
            return None
        return await self._begun(await self._runs.resume(entry.id, decisions, add))

    async def _decide(self, pending: PendingCalls, index: int, pause: ViewPause) -> Decision | None:
        """The decision about a call that needs one; ``None`` if the prompt was cancelled instead."""
        waiting = pause.pending[index]
        cause = None if pending.allowable is None else AllowedTool(*pending.allowable)
        if cause is not None and cause in self._rejected:
            return Deny(REJECTED)
        if cause is not None and cause in self.conversation.allowed:
            return Approve()
        call = call_fields(waiting.id, waiting.call, self._cwd)
        if pause.reason:
            reason = wire.CallContent(wire.TextContent(pause.reason))
            call = replace(call, content=[*(call.content or ()), reason])
        choice = await self._choose(call, ONCE if cause is None else tuple(OPTIONS))
        if choice is None:
            return None
        if cause is not None and choice == "allow_always":
            await self._runs.allow(self.conversation, (*self.conversation.allowed, cause))
        elif cause is not None and choice == "reject_always":
            self._rejected.add(cause)
        return Approve() if CHOICES[choice] else Deny(REJECTED)

    async def _may_go_on(self, pause: ViewPause) -> bool:
        """Request a decision about a pause that is not about a call: at the end of a turn, or one that the application requested."""
        title = pause.reason or f"Continue after the pause of {pause.hook}?"
        call = wire.CallFields(tool_call_id=f"{pause.run}.pause", title=title)
        return (await self._choose(call, ONCE)) == "allow_once"

    async def _choose(
        self, call: wire.CallFields, kinds: tuple[OptionKind, ...]
    ) -> OptionKind | None:
        """The user's choice; ``None`` if the prompt was cancelled instead."""
        options = [PermissionOption(kind, OPTIONS[kind], kind) for kind in kinds]
        request = wire.PermissionRequest(self.id, call, options)
        loop = asyncio.get_running_loop()
        method = "session/request_permission"
        answer = self._peer.request(method, request, wire.PermissionResult)
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

    async def _stop(self, entry: RunEntry | None) -> None:
        if entry is not None and entry.here is not None and not entry.here.done():
            await asyncio.wait({entry.here.cancel(reason=CANCELLED)}, timeout=STOP_SECONDS)

    async def _notify(self, update: Update) -> None:
        await self._peer.notify("session/update", wire.SessionNotification(self.id, update))


def records_of(entry: RunEntry) -> list[Record]:
    """The records of a run so far."""
    records: list[Record] = []

    def ignore(_: Exception) -> None:
        """The last record has the reason."""

    run = entry.run if entry.here is None else entry.here
    run.records.subscribe(records.append, ignore).dispose()
    return records
