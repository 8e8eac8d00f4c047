"""The protocols of user interfaces, by name: how each reads a client's request, and how it encodes a run.

A web server serves every protocol of `UI_PROTOCOLS` at the protocol's path. To add one, add a row.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from msgspec import Struct

from rxworker.events import Record
from rxworker.messages import Conversation, Json, Message, ToolMeta, ToolResult
from rxworker.protocols.ag_ui import AgUiEncoder, ag_ui_stream, read_run_input
from rxworker.protocols.common import InterruptReply
from rxworker.protocols.native import SSE_HEADERS
from rxworker.protocols.ui_messages import read_chat_request, ui_message_stream
from rxworker.protocols.ui_messages.encode import HEADERS

Batches: TypeAlias = AsyncIterable[Sequence[Record]]
"""The records of a run, as a watcher receives them."""


class WatchedRun(Struct, frozen=True):
    """A run that a client watches from its first record.

    Attributes:
        batches: Its records.
        id: Its id.
        conversation_id: The id of its conversation.
        message_id: The client's message that it continues; ``None`` unless it was resumed.
        continues: Whether the client has that message, as far as the paused run has made it.
        earlier: The records of the runs that it continues, in order, for a client that replaces the whole message.
        query: The parameters in the address of the request.
    """

    batches: Batches
    id: str
    conversation_id: str
    message_id: str | None = None
    continues: bool = False
    earlier: tuple[Batches, ...] = ()
    query: Mapping[str, str] = {}


EncodeRun: TypeAlias = Callable[[WatchedRun], AsyncGenerator[bytes, None]]
"""Encodes a run as the body of a response."""


class RunRequest(Struct, frozen=True):
    """A client's request to start a run, or to resume a paused one.

    Attributes:
        conversation_id: The client's id for the conversation.
        messages: The user's messages after the last answer; may be empty.
        conversation: The whole conversation, as the client has it.
        replies: The client's replies to a paused run.
        results: The results of the client's tools after the last answer. Those that no run waits for are ignored.
        tools: The tools of the client.
        shared_state: The state that it shares with the worker; an empty one is none.
        replaces: Whether the client replaces messages: it edits one, or regenerates an answer.
        message_id: The client's message that a resumed run continues.
        stream: Encodes the run for this client, if the encoding depends on the request.
    """

    conversation_id: str
    messages: tuple[Message, ...]
    conversation: Conversation = Conversation()
    replies: tuple[InterruptReply, ...] = ()
    results: tuple[ToolResult, ...] = ()
    tools: tuple[ToolMeta, ...] = ()
    shared_state: Json = None
    replaces: bool = False
    message_id: str | None = None
    stream: EncodeRun | None = None


class UiProtocol(Struct, frozen=True):
    """A protocol of user interfaces.

    Attributes:
        path: The path at which a web server accepts requests of the protocol (``POST``). A run is watched at ``/api/runs/{id}/{name}``.
        read: Reads the body of a request. Raises `LocalProtocolError` if it cannot.
        stream: Encodes a run.
        headers: The headers of the response.
    """

    path: str
    read: Callable[[bytes], RunRequest]
    stream: EncodeRun
    headers: Mapping[str, str] = MappingProxyType(SSE_HEADERS)


def _read_ag_ui(data: bytes) -> RunRequest:
    given = read_run_input(data)

    def stream(run: WatchedRun) -> AsyncGenerator[bytes, None]:
        encoder = AgUiEncoder(
            given.thread_id,
            given.run_id,
            protocol=given.protocol,
            parent_run_id=given.parent_run_id,
            answered=[result.tool_use_id for result in given.results],
        )
        return ag_ui_stream(run.batches, encoder)

    return RunRequest(
        given.thread_id,
        given.messages,
        given.conversation,
        given.replies,
        given.results,
        given.tools,
        given.state or None,
        stream=stream,
    )


def _stream_ag_ui(run: WatchedRun) -> AsyncGenerator[bytes, None]:
    protocol = run.query.get("protocol")
    encoder = AgUiEncoder(run.conversation_id, run.id, protocol=protocol, snapshot=True)
    return ag_ui_stream(run.batches, encoder)


def _read_chat(data: bytes) -> RunRequest:
    given = read_chat_request(data)
    return RunRequest(
        given.id,
        given.messages,
        given.conversation,
        given.replies,
        given.results,
        given.tools,
        given.state or None,
        replaces=given.trigger == "regenerate-message" or given.message_id is not None,
        message_id=given.last_message_id if given.replies or given.results else None,
    )


def _stream_chat(run: WatchedRun) -> AsyncGenerator[bytes, None]:
    # A client that reconnects recognises the message by its id.
    return ui_message_stream(
        run.batches,
        run.message_id or run.id,
        continues=run.continues,
        before=run.earlier,
    )


UI_PROTOCOLS: dict[str, UiProtocol] = {
    "ag-ui": UiProtocol("/ag-ui", _read_ag_ui, _stream_ag_ui),
    "chat": UiProtocol("/api/chat", _read_chat, _stream_chat, HEADERS),
}
"""The protocols by name. A web server that is made after a row was added serves it too."""
