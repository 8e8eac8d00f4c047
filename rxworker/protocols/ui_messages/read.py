"""From the requests of ``DefaultChatTransport`` to messages and decisions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from rxworker.errors import LocalProtocolError
from rxworker.messages import (
    Content,
    Conversation,
    Json,
    JsonObject,
    Message,
    Text,
    ToolCall,
    ToolMeta,
    ToolResult,
)
from rxworker.messages.lenient_json import encode_lenient
from rxworker.protocols.common import (
    InterruptReply,
    MessageCollector,
    media,
    split_interrupt,
    tool_meta,
)
from rxworker.state.shared_state import checked_json
from rxworker.worker import Answer, Approve, Deny

DENIED = "This call was not approved."
NO_RESULT = "This call has no result."


class ChatRequest(Struct, frozen=True):
    """The request of a client.

    Attributes:
        id: The client's id of the chat.
        messages: The user's messages after the last answer; may be empty.
        conversation: The whole conversation, as the client has it, without reasoning, which a client cannot vouch for.
        replies: Its replies to a paused run.
        results: The results of tools in the last answer, those of the client among them.
        tools: The tools of the client, if its requests have a member ``tools``.
        state: The state that it shares with the worker, if its requests have a member ``state``.
        trigger: ``submit-message``, or ``regenerate-message`` to regenerate the last answer.
        message_id: The message to regenerate or edit.
        last_message_id: The last answer, which a resumed run continues.
    """

    id: str
    messages: tuple[Message, ...] = ()
    conversation: Conversation = Conversation()
    replies: tuple[InterruptReply, ...] = ()
    results: tuple[ToolResult, ...] = ()
    tools: tuple[ToolMeta, ...] = ()
    state: Json = None
    trigger: str = "submit-message"
    message_id: str | None = None
    last_message_id: str | None = None


class _Approval(Struct, frozen=True, rename="camel"):
    id: str = ""
    approved: bool | None = None
    reason: str | None = None
    is_automatic: bool = False


class _Part(Struct, frozen=True, rename="camel"):
    type: str
    text: str = ""
    media_type: str = ""
    url: str = ""
    filename: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    state: str | None = None
    input: Any = None
    raw_input: Any = None
    output: Any = None
    error_text: str | None = None
    preliminary: bool | None = None
    approval: _Approval | None = None


class _Message(Struct, frozen=True):
    role: str
    parts: tuple[_Part, ...]
    id: str | None = None


class _Tool(Struct, frozen=True):
    description: str = ""
    parameters: JsonObject | None = None


class _Request(Struct, frozen=True, rename="camel"):
    id: str
    messages: tuple[_Message, ...]
    trigger: str = "submit-message"
    message_id: str | None = None
    # No part of the protocol: what a page adds to the body. The tools are as assistant-ui sends them.
    tools: dict[str, _Tool] | None = None
    state: Any = None


_DECODER = msgspec.json.Decoder(_Request)


def read_chat_request(data: bytes) -> ChatRequest:
    """Read a request.

    Raises:
        LocalProtocolError: It is not one, or has content that is not supported.

    >>> given = read_chat_request(
    ...     b'{"id":"c","messages":[{"id":"1","role":"user","parts":[{"type":"text","text":"hi"}]}]}')
    >>> given.messages[0].text
    'hi'
    """
    try:
        read = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LocalProtocolError(f"this is no request of useChat: {error}") from error
    if read.trigger not in ("submit-message", "regenerate-message"):
        raise LocalProtocolError(
            f"the trigger is {read.trigger!r}: it must be submit-message or regenerate-message"
        )
    collector = MessageCollector()
    for message in read.messages:
        _collect(message, collector)
    sent = collector.messages
    last = read.messages[-1] if read.messages else None
    is_answer = last is not None and last.role == "assistant"
    replies = tuple(_replies(last.parts)) if last is not None and is_answer else ()
    return ChatRequest(
        read.id,
        sent.latest,
        sent.conversation,
        replies,
        sent.results,
        tuple([tool_meta(n, t.description, t.parameters) for n, t in (read.tools or {}).items()]),
        checked_json(read.state),
        read.trigger,
        read.message_id,
        last.id if last is not None and is_answer else None,
    )


def _collect(message: _Message, collector: MessageCollector) -> None:
    if message.role not in ("user", "assistant", "system"):
        raise LocalProtocolError(
            f"a message has the role {message.role!r}: it must be user, assistant or system"
        )
    content: list[Content] = []
    results: list[ToolResult] = []
    for part in message.parts:
        if part.type == "step-start" or (results and not _is_call(part) and _block(part)):
            _add(collector, message.role, content, results)
            content, results = [], []
        if _is_call(part):
            call = _call(part)
            content.append(call)
            result = _result(part, call)
            if result is not None:
                results.append(result)
        elif (block := _block(part)) is not None:
            content.append(block)
    _add(collector, message.role, content, results)


def _add(
    collector: MessageCollector, role: str, content: list[Content], results: list[ToolResult]
) -> None:
    if content:
        collector.add(role, content)
    for result in results:
        collector.add_result(result)


def _block(part: _Part) -> Content | None:
    if part.type == "text":
        return Text(part.text) if part.text else None
    if part.type == "file":
        return media(part.media_type, url=part.url, title=part.filename)
    return None  # reasoning, sources, data, and what is not known


def _is_call(part: _Part) -> bool:
    return part.type == "dynamic-tool" or part.type.startswith("tool-")


def _call(part: _Part) -> ToolCall:
    if not part.tool_call_id:
        raise LocalProtocolError(f"a part of type {part.type!r} has no toolCallId")
    name = part.tool_name or part.type.removeprefix("tool-")
    value = part.input if part.input is not None else part.raw_input
    if value is None:
        return ToolCall(part.tool_call_id, name, {})
    try:
        return ToolCall(part.tool_call_id, name, msgspec.convert(value, JsonObject | str))
    except msgspec.ValidationError as error:
        message = f"the input of {name} is neither an object nor a text: {error}"
        raise LocalProtocolError(message) from error


def _result(part: _Part, call: ToolCall) -> ToolResult | None:
    """The result of a call; ``None`` if it is pending."""
    match part.state:
        case "output-available" if not part.preliminary:
            return ToolResult(call.id, _text(part.output), name=call.name)
        case "output-error":
            return ToolResult(call.id, part.error_text or "", is_error=True, name=call.name)
        case "output-denied":
            reason = part.approval.reason if part.approval else None
            return ToolResult(call.id, reason or DENIED, is_error=True, name=call.name)
        case _:
            return None


def _replies(parts: tuple[_Part, ...]) -> Iterator[InterruptReply]:
    """The replies about the calls of the last answer."""
    for part in parts:
        approval = part.approval
        if not _is_call(part) or approval is None or not approval.id or approval.is_automatic:
            continue
        if part.state == "approval-responded" and approval.approved is not None:
            run, call_id = split_interrupt(approval.id)
            denied = Deny() if approval.reason is None else Deny(approval.reason)
            yield InterruptReply(run, call_id, Approve() if approval.approved else denied)
        elif part.state == "output-available" and approval.approved is None:
            # The client has given the result itself.
            run, call_id = split_interrupt(approval.id)
            yield InterruptReply(run, call_id, Answer(_text(part.output)))


def _text(output: object) -> str:
    if isinstance(output, str):
        return output
    return encode_lenient(output).decode()  # pyright: ignore[reportArgumentType] - it came as JSON
