"""The names of OpenTelemetry's semantic conventions for generative AI, by version, and the JSON of recorded content.

All of them are in development, so that names change; a name that a version does not have is empty, and nothing is
recorded under it. The names that begin with ``rxworker.`` are ours. `Recorder` writes messages, arguments and results
in the JSON of the conventions, where content is recorded.

Sources: https://github.com/open-telemetry/semantic-conventions, ``docs/gen-ai`` of v1.37.0 and v1.41.0, and since then
https://github.com/open-telemetry/semantic-conventions-genai, ``docs/gen-ai`` (0.1.0, October 2026); for content the
schemas ``gen-ai-input-messages.json``, ``gen-ai-output-messages.json`` and ``gen-ai-system-instructions.json`` of
v1.41.0.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rxworker.errors import ConfigurationError
from rxworker.messages import Conversation, Json, JsonObject, Message, content
from rxworker.messages.lenient_json import whole
from rxworker.messages.stop import StopKind, StopReason
from rxworker.messages.usage import Usage
from rxworker.redact import json_redactor

Semconv: TypeAlias = Literal["1.37", "1.41", "latest"]
"""A version of the conventions.

The first with messages as attributes, the last of the common repository, and that of their own repository.
"""

OPT_IN = "OTEL_SEMCONV_STABILITY_OPT_IN"
"""The environment variable of the conventions.

With ``gen_ai_latest_experimental`` in it, the latest version is the default.
"""

SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKENS = (1, 4, 16, 64, 256, *(4**n for n in range(5, 14)))


class Names(Struct, frozen=True):
    """The names of one version. The defaults are those of 1.41.

    >>> SEMCONV["latest"].duration
    'gen_ai.client.inference.duration'
    """

    schema_url: str = "https://opentelemetry.io/schemas/1.41.0"
    # attributes of several spans, and of metrics
    operation: str = "gen_ai.operation.name"
    provider: str = "gen_ai.provider.name"
    request_model: str = "gen_ai.request.model"
    conversation: str = "gen_ai.conversation.id"
    error_type: str = "error.type"
    # invoke_agent
    agent_name: str = "gen_ai.agent.name"
    run: str = "rxworker.run.id"
    status: str = "rxworker.run.status"
    cause: str = "rxworker.run.cause"
    resumes: str = "rxworker.run.resumes"
    # chat
    stream: str = "gen_ai.request.stream"
    response_id: str = "gen_ai.response.id"
    response_model: str = "gen_ai.response.model"
    finish_reasons: str = "gen_ai.response.finish_reasons"
    first_chunk_of_response: str = "gen_ai.response.time_to_first_chunk"
    usage: tuple[str, ...] = (  # of the counts of `counts_of`
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.output_tokens",
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.reasoning.output_tokens",
    )
    turn: str = "rxworker.turn"
    # execute_tool
    tool_name: str = "gen_ai.tool.name"
    tool_call_id: str = "gen_ai.tool.call.id"
    tool_type: str = "gen_ai.tool.type"
    tool_description: str = "gen_ai.tool.description"
    # content
    system_instructions: str = "gen_ai.system_instructions"
    input_messages: str = "gen_ai.input.messages"
    output_messages: str = "gen_ai.output.messages"
    tool_arguments: str = "gen_ai.tool.call.arguments"
    tool_result: str = "gen_ai.tool.call.result"
    # metrics
    duration: str = "gen_ai.client.operation.duration"
    first_chunk: str = "gen_ai.client.operation.time_to_first_chunk"
    per_chunk: str = "gen_ai.client.operation.time_per_output_chunk"
    agent_duration: str = ""
    tool_duration: str = ""
    token_usage: str = "gen_ai.client.token.usage"
    token_type: str = "gen_ai.token.type"
    token_modality: str = "gen_ai.token.modality"
    counters: tuple[str, ...] = ()  # of the counts of `counts_of`


_1_41 = Names()
SEMCONV: Mapping[Semconv, Names] = {
    "1.37": replace(
        _1_41,
        schema_url="https://opentelemetry.io/schemas/1.37.0",
        stream="",
        first_chunk_of_response="",
        usage=_1_41.usage[:2],
        tool_arguments="",
        tool_result="",
        first_chunk="",
        per_chunk="",
    ),
    "1.41": _1_41,
    "latest": replace(
        _1_41,
        schema_url="",
        usage=tuple(name.replace("cache_creation", "cache_write") for name in _1_41.usage),
        duration="gen_ai.client.inference.duration",
        first_chunk="gen_ai.client.inference.time_to_first_chunk",
        per_chunk="gen_ai.client.inference.time_per_output_chunk",
        agent_duration="gen_ai.invoke_agent.duration",
        tool_duration="gen_ai.execute_tool.duration",
        token_usage="",
        counters=(
            "gen_ai.client.inference.usage.input_tokens",
            "gen_ai.client.inference.usage.output_tokens",
            "gen_ai.client.inference.usage.cache_read.input_tokens",
            "gen_ai.client.inference.usage.cache_write.input_tokens",
            "gen_ai.client.inference.usage.reasoning.output_tokens",
        ),
    ),
}
"""The names of each version."""

PROVIDERS = {
    "openai_chat": "openai",
    "openai_responses": "openai",
    "gemini": "gcp.gemini",
    "gemini_interactions": "gcp.gemini",
}
"""The conventions' names of our providers, where they differ."""


def counts_of(usage: Usage) -> tuple[int | None, ...]:
    """The counts of a usage, in the order of their names.

    >>> counts_of(Usage(100, 20, reasoning_tokens=5))
    (100, 20, None, None, 5)
    """
    return (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_creation_tokens,
        usage.reasoning_tokens,
    )


def semconv_of(version: Semconv | None = None) -> Semconv:
    """The version to use: the one that is given, else the latest if the environment opts in, else 1.41.

    Raises:
        ConfigurationError: There is no such version.

    >>> semconv_of("1.37")
    '1.37'
    """
    if version is None:
        opted = [each.strip() for each in os.environ.get(OPT_IN, "").split(",")]
        return "latest" if "gen_ai_latest_experimental" in opted else "1.41"
    if version not in SEMCONV:
        raise ConfigurationError(f"semconv={version!r}: give one of {get_args(Semconv)}")
    return version


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
    return "error" if stop is None else FINISH.get(stop.kind) or stop.raw or "error"


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

    def result(self, given: content.ResultContent) -> str:
        """The result of a call."""
        return self._json(self._result(given))

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
        blocks = [block for block in message.content if not isinstance(block, content.CachePoint)]
        is_tool = bool(blocks) and all(isinstance(block, content.ToolResult) for block in blocks)
        return {"role": "tool" if is_tool else message.role, "parts": [self._part(block) for block in blocks]}

    def _part(self, block: content.Content) -> JsonObject:
        match block:
            case content.Text(text=text):
                return {"type": "text", "content": self._text(text)}
            case content.Thinking(text=text):
                return {"type": "reasoning", "content": self._text(text)}
            case content.Refusal(text=text):
                return {"type": "refusal", "content": self._text(text)}
            case content.ToolCall():
                called: JsonObject = {"type": "tool_call", "id": block.id, "name": block.name}
                return {**called, "arguments": self._value(block.input)}
            case content.ToolResult():
                answered: JsonObject = {"type": "tool_call_response", "id": block.tool_use_id}
                return {**answered, "response": self._result(block.content)}
            case content.Image() | content.Document() | content.Audio():
                return _medium(block)
            case content.ServerToolCall():
                kind, given = "server_tool_call", self._value(block.input)
                about: JsonObject = {"type": kind, "id": block.id, "name": block.name}
                return {**about, kind: {"type": block.name, "input": given}}
            case content.ServerToolResult():
                kind = "server_tool_call_response"
                return {"type": kind, "id": block.tool_use_id, kind: {"type": block.name}}
            case content.OpaqueBlock(kind=kind):
                return {"type": kind}
            case content.CachePoint():
                return {"type": "cache_point"}

    def _result(self, given: content.ResultContent) -> Json:
        return self._text(given) if isinstance(given, str) else [self._part(block) for block in given]


def _medium(block: content.Image | content.Document | content.Audio) -> JsonObject:
    """A file: where it is, or how long it is.

    The bytes are not recorded, since no back end shows them and most refuse them.
    """
    part: JsonObject = {"mime_type": block.media_type, "modality": type(block).__name__.lower()}
    if not isinstance(block, content.Audio):
        if block.url is not None:
            return {"type": "uri", **part, "uri": block.url}
        if block.file_id is not None:
            return {"type": "file", **part, "file_id": block.file_id}
    return {"type": "blob", **part, "content": "", "base64_length": len(block.data or "")}
