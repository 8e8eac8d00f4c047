"""What a protocol of user interfaces reads and encodes: the request of a client, and a run that it watches."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from rxworker.events import Record
from rxworker.messages import Conversation, Json, Message, ToolMeta, ToolResult
from rxworker.protocols.common import InterruptReply

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
        shared_state: The state that it shares with the worker; an empty one counts as absent.
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
