"""A worker as an agent of the Agent Client Protocol: its methods, and the sessions of one client.

Source: https://agentclientprotocol.com/protocol/v1/overview
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from copy import copy
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path, PurePath

from rxworker.adapters.acp.peer import INVALID_PARAMS, NOT_FOUND, Lines, Method, Peer, RpcError
from rxworker.adapters.acp.session import AcpSession
from rxworker.adapters.stdio import standard_streams
from rxworker.desk.conversation import conversation_id, conversations_in, delete_runs, new_conversation, stored_runs
from rxworker.errors import ConfigurationError, RxWorkerError
from rxworker.log import EventLog, RunInfo
from rxworker.log.values import CONVERSATION
from rxworker.messages.settings import check_plain
from rxworker.operators.gate import InputGate, check_gate
from rxworker.protocols.acp import wire
from rxworker.protocols.acp.wire import PROTOCOL_VERSION
from rxworker.protocols.common import Wire
from rxworker.tools import Toolbox, mcp_tools
from rxworker.worker.definition import Definition
from rxworker.worker.session import Session
from rxworker.worker.worker import Worker

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
            await asyncio.gather(*[each.opened.leave(LEFT) for each in self._sessions.values()])
            await self._peer.close()
            for session in self._sessions.values():
                await session.resources.aclose()

    def _methods(self) -> dict[str, Method]:
        methods = {
            "initialize": Method(wire.Initialize, self._initialize),
            "session/new": Method(wire.NewSession, self._new),
            "session/prompt": Method(wire.Prompt, self._prompt),
            "session/cancel": Method(wire.SessionRef, self._cancel, ends=True),
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

    async def _prompt(self, given: wire.Prompt) -> Wire:
        return {"stopReason": await self._session(given.session_id).prompt(given)}

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
