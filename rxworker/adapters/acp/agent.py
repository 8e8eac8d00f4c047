"""A worker as an agent of the Agent Client Protocol: its methods, and the sessions of one client.

Source: https://agentclientprotocol.com/protocol/v1/overview

Theory of operation. A session is one of a worker: a conversation, its prompts one by one, and the questions that runs
pause for. A prompt starts a run, and its records become updates until it has
ended. A run that pauses ends: it requests the decision of the client's user, which resumes it as a new run of the same
prompt. A prompt that finds a paused run, which a client left without a decision, requests the decision first, and then
resumes that run with the new message; one that finds a run whose process has ended continues that run, and sends the
message into it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from copy import copy
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import Any

from msgspec import DecodeError, Raw
from msgspec.json import decode
from reactivex import operators as ops

from rxworker.adapters.acp.peer import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    NOT_FOUND,
    Lines,
    Method,
    Peer,
    RpcError,
)
from rxworker.adapters.stdio import standard_streams
from rxworker.decisions import CHOICES, Approve, ApproveAlways, Deny, PendingCalls, read_choice
from rxworker.desk.conversation import (
    OpenConversation,
    Prompt,
    conversation_id,
    conversations_in,
    delete_runs,
    new_conversation,
    stored_runs,
)
from rxworker.desk.meanwhile import Meanwhile
from rxworker.errors import ConfigurationError, RxWorkerError
from rxworker.events import Event, PauseState, Record, RunStart
from rxworker.events.form import form_problem
from rxworker.events.pause import UNTIL
from rxworker.hub import Coalesce
from rxworker.hub.history import expand
from rxworker.log import EventLog, RunInfo
from rxworker.log.values import CONVERSATION
from rxworker.messages import Conversation, Message, StopKind
from rxworker.messages.settings import check_plain
from rxworker.operators.gate import InputGate, check_gate
from rxworker.protocols.acp import AcpEncoder, read_prompt, wire
from rxworker.protocols.acp.encode import call_fields, call_update, content_of, edits_of
from rxworker.protocols.acp.wire import PROTOCOL_VERSION, OptionKind, StopReason
from rxworker.protocols.common import Wire, pump
from rxworker.resume.stored import LoadedRun, read_run, title_of
from rxworker.run.run import Run
from rxworker.tools import Toolbox, mcp_tools
from rxworker.views.changes import ViewAbort, ViewFinish, ViewPause
from rxworker.worker import Decision
from rxworker.worker.definition import Definition
from rxworker.worker.session import Session, Worker

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
        self._prompts: set[Prompt] = set()  # those that are checked or answered
        self._prompt = Prompt()  # the one that is answered, if it is one of these
        self._meanwhile = Meanwhile(self._ask)
        # The items that the client has received of a run that another process may continue.
        self._shown: tuple[str, AcpEncoder] | None = None
        # The conversation before a prompt that the model refused to answer.
        self._before_refusal: Conversation | None = None

    def check_free(self) -> None:
        """Check that no prompt is being answered.

        Raises:
            RpcError: One is.
        """
        if self._prompt in self._prompts:
            raise RpcError(INVALID_REQUEST, f"a prompt of {self.id} is being answered: wait for it, or cancel it")

    async def prompt(self, given: Coroutine[Any, Any, wire.Prompt]) -> StopReason:
        """Answer a prompt, unless it is cancelled while it is read, which a gate may delay.

        Raises:
            RpcError: Another prompt is being answered, it cannot be read, or the run failed.
            LocalProtocolError: The prompt is empty.
            InputRefusedError: The gate has not let it pass.
            LogError: The log cannot be read or written.
        """
        prompt = Prompt()
        self._prompts.add(prompt)
        try:
            if (read := await prompt.wait_for(given)) is None:
                return "cancelled"
            self.check_free()
            message = read_prompt(read.prompt)
            self._prompt = prompt
            return await self._answer(message)
        finally:
            self._prompts.discard(prompt)

    async def _answer(self, message: Message) -> StopReason:
        self.opened.decided.clear()  # of a prompt that was cancelled between two questions
        try:
            run = await self._begin(message)
            return "cancelled" if run is None else await self._follow(run)
        except asyncio.CancelledError:  # the request itself was cancelled
            if self.opened.run is not None and not self.opened.run.done():
                self.opened.run.cancel(reason=CANCELLED)
            raise
        finally:
            self._meanwhile.close()

    async def cancel(self) -> None:
        """Cancel the prompts that have come, with the run and what they wait for."""
        for prompt in self._prompts:
            prompt.cancel()
        await self.opened.cancel(CANCELLED)

    async def leave(self) -> None:
        """The client has left: cancel what is being checked, and end the run, or hand it over."""
        for prompt in self._prompts - {self._prompt}:
            prompt.cancel()
        await self.opened.leave(LEFT)

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
        if self._prompt.is_cancelled:
            return None
        is_first = not opened.known
        run = opened.begin(message)
        title = title_of(run.state.conversation.messages[-1:])
        await self._begun(run)
        if is_first:
            await self._notify({"sessionUpdate": "session_info_update", "title": title})
        return run

    async def _begun(self, run: Run[object]) -> Run[object]:
        await run.barrier()
        if self._prompt.is_cancelled:
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
            self._pause, pause = encoder.end, self.opened.paused.pause
            self.opened.decided.update(await self._meanwhile.answered(pause) or {})
            resumed = await self._resume(encoder.end)
            if resumed is None:
                return "cancelled" if self._prompt.is_cancelled else "end_turn"
            run = resumed

    async def _show(self, run: Run[object]) -> AcpEncoder:
        name, encoder = self._shown or ("", AcpEncoder(self._cwd))
        if name != run.id:
            encoder = AcpEncoder(self._cwd)
        self._shown = None
        watch = run.watch(DELIVERY, after=encoder.seq, name="acp")

        def feed(record: Record) -> list[Wire]:
            self._meanwhile.look(run, record.event)
            return encoder.feed(record)

        async with aclosing(pump(watch.batches(), feed, encoder.close)) as pieces:
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
            case _ if self._prompt.is_cancelled:
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
        is_decided = not self._prompt.is_cancelled
        while is_decided and (index := opened.next) is not None:
            decision = await self._decide(pending, index, pause.pending[index].id, pause.reason)
            if decision is None:
                is_decided = False
            else:
                opened.decided[index] = decision
        # At the end of a turn, or where the application has paused; a message for the model is reason enough to go on.
        if is_decided and not (pending.required or pending.by_client or add):
            title = pause.reason or f"Continue after the pause of {pause.hook}?"
            call: Wire = {"toolCallId": f"{pause.run_id}.pause", "title": title}
            is_decided = await self._choose(call, ONCE) == "allow_once"
        if not is_decided or self._prompt.is_cancelled:
            await opened.dismiss(CANCELLED)
            for each in pause.pending:
                await self._notify(call_update(each.id, status="failed"))
            return None
        return await self._begun(await opened.decide(add).started())

    async def _ask(self, shown: PauseState) -> dict[int, Decision] | None:
        """Request the decisions about what waits in the background while the run goes on."""
        pending, decided = PendingCalls.of(shown), dict[int, Decision]()
        for index in pending.required:
            if (decision := await self._decide(pending, index, pending.node(index).name)) is None:
                return None
            decided[index] = decision
        return decided

    async def _decide(self, pending: PendingCalls, index: int, shown_id: str, reason: str = "") -> Decision | None:
        """The decision about a call that needs one; ``None`` if the prompt was cancelled instead."""
        waiting = pending.node(index)
        cause = pending.allowable if pending.required == (index,) else None
        if cause is not None and cause in self._rejected:
            return Deny(REJECTED)
        if cause is not None and cause in await self.opened.session.allowed_now():
            return Approve()
        call = call_fields(shown_id, waiting.call, self._cwd)
        question = waiting.question
        shown = (waiting.reason or reason) if question is None else str(question)
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
        answer = self._peer.request("session/request_permission", request, wire.PermissionResult)
        result = await self._prompt.wait_for(answer)
        if result is None or result.outcome.outcome == "cancelled":
            self._prompt.is_cancelled = True
            return None
        return read_choice(result.outcome.option_id, kinds)

    async def _notify(self, update: Wire) -> None:
        await self._peer.notify("session/update", {"sessionId": self.id, "update": update})


def _encode(found: LoadedRun, encoder: AcpEncoder) -> list[Wire]:
    """The updates of a stored run."""
    records = [each for record in found.records for each in expand(record)]
    return [update for record in records for update in encoder.feed(record)]


CWD = "cwd"
"""The label of a run with the folder of its session."""

MAX_LINE = 32 * 1024 * 1024
"""The maximum number of bytes of a message of a client."""

MAX_SESSIONS = 100
"""How many sessions a list has, the newest."""

LEFT = "the client has disconnected"

logger = logging.getLogger("rxworker.adapters.acp")


class AcpAgent:
    """Serves a worker to one client of the Agent Client Protocol.

    Args:
        worker: The worker, or a function that makes one for each session.
        connection: The connection to the client.
        log: Where runs are stored. With it, sessions can be listed, loaded, resumed and deleted, and a run whose client
            leaves is handed over.
        gate: What `rxworker.operators.hold_back` returned: the texts in what the client sends must pass its checks
            before anything of it is stored, shown or sent to a model. Not the ``env`` and ``headers`` of its MCP
            servers.

    Raises:
        ConfigurationError: ``worker`` or ``gate`` is something else.

    Example:
        >>> from rxworker.testing import ScriptedModel
        >>> class Client:
        ...     async def lines(self):
        ...         yield b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}'
        ...     async def write(self, line):
        ...         print(line.decode()[:53])
        >>> asyncio.run(AcpAgent(Worker(ScriptedModel(["Hello!"])), Client()).serve())
        {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1
    """

    def __init__(
        self,
        worker: Worker | Callable[[], Worker],
        connection: Lines,
        *,
        log: EventLog | None = None,
        gate: InputGate | None = None,
    ) -> None:
        if not isinstance(worker, Worker) and not callable(worker):
            raise ConfigurationError(f"worker is {worker!r:.60}: give a Worker, or a function that makes one")
        check_plain("AcpAgent(worker)", worker)
        check_gate(gate)
        self._worker, self._log = worker, log
        self._sessions: dict[str, AcpSession] = {}
        self._peer = Peer(connection, self._methods(), gate)

    async def serve(self) -> None:
        """Serve until the client disconnects. Then its runs are cancelled, or handed over if they are stored."""
        try:
            await self._peer.serve()
        finally:
            await asyncio.gather(*[each.leave() for each in self._sessions.values()])
            await self._peer.close()
            for session in self._sessions.values():
                await session.resources.aclose()

    def _methods(self) -> dict[str, Method]:
        methods = {
            "initialize": Method(wire.Initialize, self._initialize),
            "session/new": Method(wire.NewSession, self._new),
            "session/prompt": Method(Raw, self._prompt, at_once=True),
            "session/cancel": Method(wire.SessionRef, self._cancel, at_once=True),
            "session/close": Method(wire.SessionRef, self._close),
        }
        if (log := self._log) is not None:
            methods |= {
                "session/load": Method(wire.OldSession, partial(self._open, log, replays=True)),
                "session/resume": Method(wire.OldSession, partial(self._open, log)),
                "session/list": Method(wire.ListSessions, partial(self._list, log)),
                "session/delete": Method(wire.SessionRef, partial(self._delete, log)),
            }
        return methods

    async def _initialize(self, _: wire.Initialize) -> Wire:
        is_stored = self._log is not None
        sessions = ("list", "resume", "close", "delete") if is_stored else ("close",)
        capabilities: Wire = {
            "loadSession": is_stored,
            "promptCapabilities": {"image": True, "embeddedContext": True},
            "mcpCapabilities": {"http": find_spec("mcp") is not None},
            "sessionCapabilities": {name: {} for name in sessions},
        }
        return {
            "protocolVersion": PROTOCOL_VERSION,  # also for a client of another version, which then disconnects
            "agentCapabilities": capabilities,
            "agentInfo": {"name": "rxworker", "version": metadata.version("rxworker")},
            "authMethods": [],
        }

    async def _new(self, given: wire.NewSession) -> wire.SessionRef:
        check_folder(given.cwd)
        return wire.SessionRef((await self._begin(new_conversation(), given)).id)

    async def _open(self, log: EventLog, given: wire.OldSession, *, replays: bool = False) -> Wire:
        check_folder(given.cwd)
        session = await self._begin(given.session_id, given, await self._take(log, given.session_id))
        if replays:
            await session.replay()
        return {}

    async def _begin(
        self, name: str, given: wire.NewSession | wire.OldSession, before: Sequence[RunInfo] = ()
    ) -> AcpSession:
        """Begin a session, with a copy of the worker that has the folder, and the tools of the client's MCP servers."""
        worker = copy(self._worker if isinstance(self._worker, Worker) else self._worker())
        session = Session(worker, log=self._log, labels={CONVERSATION: name, CWD: given.cwd})
        worker.workspace, session.name = Path(given.cwd), worker.name or "worker"
        worker.tools = Toolbox(worker.tools)
        begun = self._sessions[name] = AcpSession(session, given.cwd, self._peer, before)
        await asyncio.gather(*[connect(s, given.cwd, worker, begun.resources) for s in given.mcp_servers or ()])
        return begun

    async def _prompt(self, given: Raw) -> Wire:
        read, session = self._peer.read(given, wire.Prompt), None
        with suppress(DecodeError, UnicodeError, RecursionError):
            session = self._sessions.get(decode(given, type=wire.SessionRef).session_id)
        if session is None:
            raise no_session((await read).session_id)
        return {"stopReason": await session.prompt(read)}

    async def _cancel(self, given: wire.SessionRef) -> None:
        await self._session(given.session_id).cancel()

    async def _close(self, given: wire.SessionRef) -> Wire:
        session = self._session(given.session_id)
        await session.cancel()
        await session.resources.aclose()
        del self._sessions[given.session_id]
        return {}

    async def _list(self, log: EventLog, given: wire.ListSessions) -> Wire:
        def is_of(info: RunInfo) -> bool:
            return CWD in info.row.labels and given.cwd in (None, info.row.labels[CWD])

        found: list[Wire] = []
        for each in conversations_in(await stored_runs(log, is_of))[:MAX_SESSIONS]:
            row = each.runs[0].row  # the first run has the title
            updated = datetime.fromtimestamp(each.last.ended, UTC).isoformat(timespec="seconds")
            found.append({"sessionId": each.id, "cwd": row.labels[CWD], "title": row.title, "updatedAt": updated})
        return {"sessions": found}

    async def _delete(self, log: EventLog, given: wire.SessionRef) -> Wire:
        await delete_runs(log, await self._take(log, given.session_id, nested=True))
        return {}

    def _session(self, name: str) -> AcpSession:
        session = self._sessions.get(name)
        if session is None:
            raise no_session(name)
        return session

    async def _take(self, log: EventLog, name: str, *, nested: bool = False) -> list[RunInfo]:
        """Close a session, if it is open, and return its stored runs, the oldest first."""
        if name in self._sessions:
            self._sessions[name].check_free()
        runs = await stored_runs(log, lambda info: conversation_id(info) == name, nested=nested)
        if not runs:
            raise no_session(name)
        if name in self._sessions:
            await self._close(wire.SessionRef(name))
        return runs


async def connect(server: wire.McpServer, cwd: str, worker: Definition, resources: AsyncExitStack) -> None:
    """Give a worker the tools of an MCP server. One that cannot be used is logged, and does not prevent the session."""
    values = {each.name: each.value for each in server.env or ()}
    headers = {each.name: each.value for each in server.headers or ()}
    command = [server.command, *(server.args or ())] if server.command else None
    try:
        if server.type not in ("stdio", "http"):
            raise RpcError(INVALID_PARAMS, f"its transport {server.type!r} is not supported")
        tools = await resources.enter_async_context(
            mcp_tools(command, url=server.url or None, env=values, cwd=cwd, headers=headers, prefix=f"{server.name}__")
        )
        for tool in tools:
            worker.tools.add(tool)
    except (RxWorkerError, RpcError) as error:
        logger.warning(
            "the MCP server %r of the client is left out: %s",
            server.name[:80],
            error,
            extra={"server": server.name[:80]},
        )


def check_folder(cwd: str) -> None:
    """Check that the folder of a session is an absolute path.

    Raises:
        RpcError: It is not.
    """
    if not PurePath(cwd).is_absolute():
        raise RpcError(INVALID_PARAMS, f"cwd is {cwd[:80]!r}: give an absolute path")


def no_session(name: str) -> RpcError:
    """The error for an unknown session."""
    return RpcError(NOT_FOUND, f"there is no session {name[:80]!r}: begin one with session/new")


async def serve_acp(
    worker: Worker | Callable[[], Worker], *, log: EventLog | None = None, gate: InputGate | None = None
) -> None:
    """Serve a worker to the client on standard input and output, until it disconnects.

    Meanwhile, whatever else the process and its children print to standard output appears on standard error.

    Args:
        worker: The worker, or a function that makes one for each session.
        log: The log of the runs; the caller closes it afterwards.
        gate: As for `AcpAgent`.

    Raises:
        ConfigurationError: ``worker`` or ``gate`` is something else.
    """
    with standard_streams(limit=MAX_LINE) as streams:
        await AcpAgent(worker, streams, log=log, gate=gate).serve()
