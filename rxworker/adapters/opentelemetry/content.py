"""Messages, arguments and results in the JSON of the semantic conventions, where content is recorded.

Source: the schemas ``gen-ai-input-messages.json``, ``gen-ai-output-messages.json`` and
``gen-ai-system-instructions.json`` of https://github.com/open-telemetry/semantic-conventions, v1.41.0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from rxworker.messages import (
    Audio,
    CachePoint,
    Conversation,
    Document,
    Image,
    Json,
    JsonObject,
    Message,
    OpaqueBlock,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from rxworker.messages.content import Content, ResultContent
from rxworker.messages.lenient_json import whole
from rxworker.messages.stop import StopKind, StopReason
from rxworker.ui.clean import json_redactor

Redact: TypeAlias = Callable[[str], str]
"""Takes a text of the content, and returns what is recorded instead."""

FINISH = {
    StopKind.END_TURN: "stop",
    StopKind.STOP_SEQUENCE: "stop",
    StopKind.MAX_TOKENS: "length",
    StopKind.TOOL_USE: "tool_call",
    StopKind.REFUSAL: "content_filter",
    StopKind.CONTENT_FILTER: "content_filter",
}


def finish_reason(stop: StopReason | None) -> str:
    """The conventions' word for a stop reason.

    >>> finish_reason(StopReason(StopKind.MAX_TOKENS)), finish_reason(None)
    ('length', 'error')
    """
    if stop is None:
        return "error"
    return FINISH.get(stop.kind) or stop.raw or "error"


class Recorder:
    """Writes content as JSON.

    Args:
        redact: Applied to each text: of messages, of thoughts, within arguments, and of results. Where it raises, its
            place is taken by a note.
    """

    def __init__(self, redact: Redact | None = None) -> None:
        self._redact = redact
        self._hide_secrets = json_redactor()

    def system(self, text: str) -> str:
        """The system prompt."""
        return self._json([{"type": "text", "content": self._text(text)}])

    def output(self, message: Message, stop: StopReason | None) -> str:
        """The answer of a model."""
        return self._json([{**self._message(message), "finish_reason": finish_reason(stop)}])

    def arguments(self, given: JsonObject | str) -> str:
        """The arguments of a call."""
        return self._json(self._value(given))

    def result(self, content: ResultContent) -> str:
        """The result of a call."""
        return self._json(self._result(content))

    def input(self, conversation: Conversation, last: int | None = None) -> str:
        """The last messages of a conversation, or all."""
        messages = conversation.messages
        shown = messages if last is None else messages[len(messages) - last :]
        return self._json([self._message(message) for message in shown])

    def _json(self, value: Json) -> str:
        try:
            data = msgspec.json.encode(value)
        except (TypeError, UnicodeError, RecursionError) as error:
            data = msgspec.json.encode(f"(not JSON: {type(error).__name__})")
        return self._hide_secrets(data).decode()

    def _text(self, text: str) -> str:
        if self._redact is None:
            return whole(text)
        try:
            return whole(str(self._redact(text)))
        except Exception as error:  # the text is what must not be recorded
            return f"(not recorded: redact raised {type(error).__name__})"

    def _value(self, value: Json) -> Json:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return {key: self._value(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._value(each) for each in value]
        return value

    def _message(self, message: Message) -> JsonObject:
        content = [block for block in message.content if not isinstance(block, CachePoint)]
        is_tool = bool(content) and all(isinstance(block, ToolResult) for block in content)
        parts: list[Json] = [self._part(block) for block in content]
        return {"role": "tool" if is_tool else message.role, "parts": parts}

    def _part(self, block: Content) -> JsonObject:
        match block:
            case Text(text=text):
                return {"type": "text", "content": self._text(text)}
            case Thinking(text=text):
                return {"type": "reasoning", "content": self._text(text)}
            case Refusal(text=text):
                return {"type": "refusal", "content": self._text(text)}
            case ToolCall():
                called: JsonObject = {"type": "tool_call", "id": block.id, "name": block.name}
                return {**called, "arguments": self._value(block.input)}
            case ToolResult():
                answered: JsonObject = {"type": "tool_call_response", "id": block.tool_use_id}
                return {**answered, "response": self._result(block.content)}
            case Image() | Document() | Audio():
                return _medium(block)
            case ServerToolCall():
                kind, given = "server_tool_call", self._value(block.input)
                about: JsonObject = {"type": kind, "id": block.id, "name": block.name}
                return {**about, kind: {"type": block.name, "input": given}}
            case ServerToolResult():
                kind = "server_tool_call_response"
                return {"type": kind, "id": block.tool_use_id, kind: {"type": block.name}}
            case OpaqueBlock(kind=kind):
                return {"type": kind}
            case CachePoint():
                return {"type": "cache_point"}

    def _result(self, content: ResultContent) -> Json:
        if isinstance(content, str):
            return self._text(content)
        return [self._part(block) for block in content]


def _medium(block: Image | Document | Audio) -> JsonObject:
    """A file: where it is, or how long it is.

    The bytes are not recorded, since no back end shows them and most refuse them.
    """
    modality = type(block).__name__.lower()
    part: JsonObject = {"mime_type": block.media_type, "modality": modality}
    if not isinstance(block, Audio):
        if block.url is not None:
            return {"type": "uri", **part, "uri": block.url}
        if block.file_id is not None:
            return {"type": "file", **part, "file_id": block.file_id}
    return {"type": "blob", **part, "content": "", "base64_length": len(block.data or "")}
