"""A worker as an agent of the Agent Client Protocol: its methods, and the sessions of one client.

Source: https://agentclientprotocol.com/protocol/v1/overview
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path, PurePath

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
from rxworker.adapters.acp.session import Session
from rxworker.adapters.stdio import standard_streams
from rxworker.errors import RxWorkerError
from rxworker.log import EventLog, RunInfo
from rxworker.log.values import CONVERSATION
from rxworker.protocols.acp import PROTOCOL_VERSION, wire
from rxworker.tools import mcp_tools
from rxworker.ui.web.entry import ConversationEntry
from rxworker.ui.web.responses import ApiError
from rxworker.ui.web.runs import Runs
from rxworker.ui.web.settings import Settings
from rxworker.ui.web.store import RunStore
from rxworker.ui.web.workers import WorkerSource
from rxworker.worker import Worker
from rxworker.worker.definition import Definition

CWD = "cwd"
"""The label of a run with the folder of its session."""

MAX_LINE = 32 * 1024 * 1024
"""The maximum number of bytes of a message of a client."""

PAGE = 500
MOST_SESSIONS = 100
"""How many sessions a list has, the newest."""

LEFT = "the client has disconnected"

logger = logging.getLogger("rxworker.adapters.acp")


class AcpAgent:
    """Serves workers to one client of the Agent Client Protocol. Each session has a worker of its own.

    Args:
        make: Returns a worker.
        connection: The connection to the client.
        log: Where runs are stored. With it, sessions can be listed, loaded, resumed and deleted, and a run whose client leaves is handed over.

    Example:
        >>> from rxworker.testing import ScriptedModel
        >>> class Client:
        ...     async def lines(self):
        ...         yield b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}'
        ...     async def write(self, line):
        ...         print(line.decode()[:53])
        >>> asyncio.run(AcpAgent(lambda: Worker(ScriptedModel(["Hello!"])), Client()).serve())
        {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1
    """

    def __init__(
        self, make: Callable[[], Worker], connection: Lines, *, log: EventLog | None = None
    ) -> None:
        settings = Settings(title="rxworker acp")
        self._log = log
        self._store = RunStore(settings, log=log)
        self._runs = Runs(self._store, WorkerSource(make), settings)
        self._sessions: dict[str, Session] = {}
        self._peer = Peer(connection, self._methods())

    async def serve(self) -> None:
        """Serve until the client disconnects. Then its runs are cancelled, or handed over if they are stored."""
        try:
            await self._peer.serve()
        finally:
            await self._store.close(LEFT)
            await self._peer.close()
            for session in self._sessions.values():
                await session.resources.aclose()
            self._store.forget()

    def _methods(self) -> dict[str, Method]:
        methods = {
            "initialize": Method(wire.Initialize, self._initialize),
            "session/new": Method(wire.NewSession, self._new),
            "session/prompt": Method(wire.Prompt, self._prompt),
            "session/cancel": Method(wire.SessionRef, self._cancel),
            "session/close": Method(wire.SessionRef, self._close),
        }
        if self._log is not None:
            methods |= {
                "session/load": Method(wire.OldSession, partial(self._open, replays=True)),
                "session/resume": Method(wire.OldSession, self._open),
                "session/list": Method(wire.ListSessions, partial(self._list, self._log)),
                "session/delete": Method(wire.SessionRef, partial(self._delete, self._log)),
            }
        return methods

    async def _initialize(self, _: wire.Initialize) -> wire.Initialized:
        is_stored = None if self._log is None else wire.Available()
        return wire.Initialized(
            PROTOCOL_VERSION,  # also for a client of another version, which then disconnects
            wire.AgentCapabilities(
                load_session=self._log is not None,
                prompt_capabilities=wire.PromptCapabilities(image=True, embedded_context=True),
                mcp_capabilities=wire.McpCapabilities(http=find_spec("mcp") is not None),
                session_capabilities=wire.SessionCapabilities(
                    list=is_stored, resume=is_stored, close=wire.Available(), delete=is_stored
                ),
            ),
            wire.Implementation("rxworker", metadata.version("rxworker")),
        )

    async def _new(self, given: wire.NewSession) -> wire.SessionRef:
        check_folder(given.cwd)
        conversation = self._runs.begin_conversation(None)
        await self._begin(conversation, given)
        return wire.SessionRef(conversation.id)

    async def _open(self, given: wire.OldSession, *, replays: bool = False) -> wire.Empty:
        check_folder(given.cwd)
        before = self._sessions.get(given.session_id)
        if before is not None:
            before.check_free()
            await before.resources.aclose()
        conversation = await self._find(given.session_id)
        try:
            await self._runs.prepare(conversation)
        except ApiError as error:
            raise rpc_error(error) from error
        session = await self._begin(conversation, given)
        if replays:
            await session.replay()
        return wire.Empty()

    async def _begin(
        self, conversation: ConversationEntry, given: wire.NewSession | wire.OldSession
    ) -> Session:
        """Prepare a session and its worker: the folder, and the tools of the client's MCP servers."""
        worker = conversation.session.worker
        worker.workspace = Path(given.cwd)
        conversation.session.labels[CWD] = given.cwd
        session = Session(conversation, given.cwd, self._runs, self._peer)
        self._sessions[conversation.id] = session
        await asyncio.gather(
            *[connect(s, given.cwd, worker, session.resources) for s in given.mcp_servers or ()]
        )
        return session

    async def _prompt(self, given: wire.Prompt) -> wire.PromptResult:
        session = self._session(given.session_id)
        if self._log is not None:
            await self._note_stored(given.session_id, MOST_SESSIONS)
        try:
            return wire.PromptResult(await session.prompt(given))
        except ApiError as error:
            raise rpc_error(error) from error

    async def _cancel(self, given: wire.SessionRef) -> None:
        await self._session(given.session_id).cancel()

    async def _close(self, given: wire.SessionRef) -> wire.Empty:
        session = self._session(given.session_id)
        await session.cancel()
        await session.resources.aclose()
        del self._sessions[given.session_id]
        return wire.Empty()

    async def _list(self, log: EventLog, given: wire.ListSessions) -> wire.SessionList:
        found: dict[str, wire.SessionInfo] = {}
        async for info in stored_runs(log):
            name, cwd = info.row.labels.get(CONVERSATION), info.row.labels.get(CWD)
            if name is None or cwd is None or given.cwd not in (None, cwd):
                continue
            if name in found:  # the first run has the title
                found[name] = wire.SessionInfo(name, cwd, info.row.title, found[name].updated_at)
            elif len(found) < MOST_SESSIONS:
                updated = datetime.fromtimestamp(info.updated, UTC).isoformat(timespec="seconds")
                found[name] = wire.SessionInfo(name, cwd, info.row.title, updated)
        return wire.SessionList([*found.values()])

    async def _delete(self, log: EventLog, given: wire.SessionRef) -> wire.Empty:
        conversation = await self._find(given.session_id)
        session = self._sessions.get(given.session_id)
        if session is not None:
            session.check_free()
            await self._close(given)
        for run in list(conversation.runs):
            await log.delete(run)
            info = await log.info(run)
            if info is not None:
                self._store.note(info)
        return wire.Empty()

    def _session(self, name: str) -> Session:
        session = self._sessions.get(name)
        if session is None:
            raise no_session(name)
        return session

    async def _find(self, name: str) -> ConversationEntry:
        """The conversation of a session that may be stored."""
        await self._note_stored(name)
        conversation = self._runs.conversation(name)
        if conversation is None or conversation.current is None:
            raise no_session(name)
        return conversation

    async def _note_stored(self, name: str, most: int | None = None) -> None:
        """Note the stored runs of a session, also those that another process has begun."""
        assert self._log is not None
        found: list[RunInfo] = []
        async for info in stored_runs(self._log, most):
            if info.row.labels.get(CONVERSATION) == name:
                found.append(info)
        for info in sorted(found, key=lambda info: info.created):
            self._store.note(info)


async def stored_runs(log: EventLog, most: int | None = None) -> AsyncGenerator[RunInfo, None]:
    """The stored runs, the newest first; at most so many."""
    infos = await log.list(limit=most or PAGE)
    while infos:
        for info in infos:
            yield info
        infos = [] if most else await log.list(before=infos[-1].run, limit=PAGE)


async def connect(
    server: wire.McpServer, cwd: str, worker: Definition, resources: AsyncExitStack
) -> None:
    """Give a worker the tools of an MCP server. One that cannot be used is logged, and does not prevent the session."""
    values = {each.name: each.value for each in server.env or ()}
    headers = {each.name: each.value for each in server.headers or ()}
    command = [server.command, *(server.args or ())] if server.command else None
    try:
        if server.type not in ("stdio", "http"):
            raise RpcError(INVALID_PARAMS, f"its transport {server.type!r} is not supported")
        tools = await resources.enter_async_context(
            mcp_tools(
                command,
                url=server.url or None,
                env=values,
                cwd=cwd,
                headers=headers,
                prefix=f"{server.name}__",
            )
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


def rpc_error(error: ApiError) -> RpcError:
    """An error of the runs as one of the protocol."""
    return RpcError(INVALID_REQUEST if error.status < 500 else INTERNAL_ERROR, error.message)


async def serve_acp(make: Callable[[], Worker], *, log: EventLog | None = None) -> None:
    """Serve workers to the client on standard input and output, until it disconnects.

    Meanwhile, whatever else the process and its children print to standard output appears on standard error.

    Args:
        make: Returns a worker; called once for each session.
        log: The log of the runs; the caller closes it afterwards.

    Raises:
        ConfigurationError: ``make`` is not callable.
    """
    with standard_streams(limit=MAX_LINE) as streams:
        await AcpAgent(make, streams, log=log).serve()
