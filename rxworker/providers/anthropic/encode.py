"""A conversation to the body of a Messages request.

Roles alternate: what stands in a row under one role becomes one message, and tool results come first in theirs. What an
answer of Anthropic's carried for the next request (signatures, sealed thinking, blocks of server tools) is sent back as
it came; what another provider's answer carried is left out. Where a conversation says what may be cached, `cache` puts
the marks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from rxworker.messages import (
    CachePoint,
    Content,
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
    ToolMeta,
    ToolResult,
)
from rxworker.providers.anthropic.cache import (
    MOST_MARKS,
    cache_control,
    kept_points,
    leading_point,
    mark_last,
    mark_prefix,
)
from rxworker.providers.anthropic.options import (
    encode_choice,
    encode_output,
    encode_thinking,
    encode_tool,
    limit_of,
    with_extra,
)
from rxworker.providers.base import Options
from rxworker.providers.content import arguments, plain_text, split_system
from rxworker.providers.ids import in_letters

NAME = "anthropic"

OWN_CALLS = ("server_tool_use", "mcp_tool_use")
THOUGHTS = ("thinking", "redacted_thinking")

_NOT_AN_ID = re.compile(r"[^a-zA-Z0-9_-]")


def encode(
    model: str,
    conversation: Conversation,
    tools: Sequence[ToolMeta],
    options: Options,
    max_tokens: int,
) -> JsonObject:
    """The body.

    Args:
        model: The model to ask.
        conversation: Everything said so far.
        tools: What it may call.
        options: Settings.
        max_tokens: The most to write, where the options do not say.

    Raises:
        ConfigurationError: The thinking budget leaves no room for the answer.
    """
    system, messages = split_system(conversation)
    point = leading_point(conversation)
    marks = MOST_MARKS - len(set(options.cache)) - bool(point)
    body: JsonObject = {
        "model": model,
        "max_tokens": limit_of(options, max_tokens),
        "messages": list(encode_messages(messages, marks)),
        "stream": True,
    }
    if system:
        body["system"] = system
    if tools:
        body["tools"] = [encode_tool(tool) for tool in tools]
        choice = encode_choice(options.tool_choice, options.parallel_tool_calls)
        if choice:
            body["tool_choice"] = choice
    if options.stop_sequences:
        body["stop_sequences"] = list(options.stop_sequences)
    if options.temperature is not None:
        body["temperature"] = options.temperature
    body |= encode_thinking(options.thinking)
    form = encode_output(options.output)
    if form:
        effort = body.get("output_config")
        body["output_config"] = {**effort, **form} if isinstance(effort, dict) else form
    body = with_extra(body, options.extra)
    return mark_prefix(body, options.cache, point)


def encode_messages(messages: Sequence[Message], marks: int = MOST_MARKS) -> list[JsonObject]:
    """The messages, roles alternating, none of them empty.

    Args:
        messages: What was said.
        marks: How many cache points may be among them; the last ones count.
    """
    points = kept_points(messages, marks)
    encoded: list[tuple[str, list[JsonObject]]] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        for block in message.content:
            if isinstance(block, CachePoint):
                kept = next(points)
                if encoded and kept:
                    mark_last(encoded[-1][1], cache_control(block.ttl))
                continue
            said = _encode_block(block, role, message.provider == NAME)
            if said is None:
                continue
            if not encoded or encoded[-1][0] != role:
                encoded.append((role, []))
            encoded[-1][1].append(said)
    return [
        {"role": role, "content": [*_results_first(blocks)]} for role, blocks in _settled(encoded)
    ]


def _settled(encoded: list[tuple[str, list[JsonObject]]]) -> list[tuple[str, list[JsonObject]]]:
    """The messages without what only the last may hold; roles alternate still."""
    settled: list[tuple[str, list[JsonObject]]] = []
    for place, (role, blocks) in enumerate(encoded, 1):
        if role == "assistant" and place < len(encoded):
            blocks = _let_go(blocks)
        if blocks and settled and settled[-1][0] == role:
            settled[-1][1].extend(blocks)
        elif blocks:
            settled.append((role, blocks))
    return settled


def _let_go(blocks: list[JsonObject]) -> list[JsonObject]:
    """An answer that was left in the middle, without what Anthropic takes only in the last message.

    That is a call of its own tools whose result never came, and thinking with nothing behind it.
    """
    answered = [block.get("tool_use_id") for block in blocks]
    kept = [b for b in blocks if b["type"] not in OWN_CALLS or b.get("id") in answered]
    while kept and kept[-1]["type"] in THOUGHTS:
        kept.pop()
    return kept


def _results_first(blocks: list[JsonObject]) -> list[JsonObject]:
    return sorted(blocks, key=_is_no_result)


def _is_no_result(block: JsonObject) -> bool:
    return block["type"] != "tool_result"


def _encode_block(block: Content, role: str, own: bool) -> JsonObject | None:
    encoder = (ASSISTANT if role == "assistant" else USER).get(type(block))
    return encoder(block, own) if encoder else None


def _text(block: Text, own: bool) -> JsonObject | None:
    if not block.text.strip():  # Anthropic refuses text without a letter
        return None
    encoded: JsonObject = {"type": "text", "text": block.text}
    if own and block.citations:
        encoded["citations"] = list(block.citations)
    return encoded


def _refusal(block: Refusal, _: bool) -> JsonObject | None:
    return {"type": "text", "text": block.text} if block.text.strip() else None


def _thinking_block(block: Thinking, own: bool) -> JsonObject | None:
    if not own:
        return None
    if block.echo and "type" in block.echo:
        return block.echo
    if not block.signature:  # cut off before its seal came: Anthropic would refuse it
        return None
    return {"type": "thinking", "thinking": block.text, "signature": block.signature}


def _tool_call(block: ToolCall, own: bool) -> JsonObject:
    call: JsonObject = {
        "type": "tool_use",
        "id": safe_id(block.id),
        "name": block.name,
        "input": arguments(block),
    }
    return block.echo | call if own and block.echo else call


def _echoed(block: ServerToolCall | ServerToolResult | OpaqueBlock, own: bool) -> JsonObject | None:
    return block.echo if own and block.echo and "type" in block.echo else None


def _tool_result(block: ToolResult, _: bool) -> JsonObject:
    content: Json
    if isinstance(block.content, str):
        content = block.content
    else:
        parts = (USER[type(part)](part, False) for part in block.content)
        content = [part for part in parts if part is not None]
    encoded: JsonObject = {"type": "tool_result", "tool_use_id": safe_id(block.tool_use_id)}
    if block.is_error:
        encoded["is_error"] = True
        content = content or "The tool failed and gave no reason."
    if content:
        encoded["content"] = content
    return encoded


def _image(block: Image, _: bool) -> JsonObject:
    if block.url:
        return {"type": "image", "source": {"type": "url", "url": block.url}}
    return {"type": "image", "source": _source(block)}


def _document(block: Document, _: bool) -> JsonObject:
    encoded: JsonObject = {"type": "document"}
    if block.url:
        encoded["source"] = {"type": "url", "url": block.url}
    elif block.media_type.startswith("text/"):
        text = plain_text(block)
        encoded["source"] = {"type": "text", "media_type": "text/plain", "data": text}
    else:
        encoded["source"] = _source(block)
    if block.title:
        encoded["title"] = block.title
    return encoded


def _source(block: Image | Document) -> JsonObject:
    return {"type": "base64", "media_type": block.media_type, "data": block.data or ""}


def safe_id(tool_id: str) -> str:
    """A call's id in the letters that Anthropic allows; other providers allow more.

    >>> safe_id("toolu_1"), safe_id("functions.look:0")
    ('toolu_1', 'functions_look_0_ec000204')
    """
    return in_letters(tool_id, _NOT_AN_ID) or "_"


# What a block becomes, by who speaks. What is not in the table cannot be said in that role.
USER: dict[type, Callable[[Any, bool], JsonObject | None]] = {
    Text: _text,
    Refusal: _refusal,
    Image: _image,
    Document: _document,
    ToolResult: _tool_result,
}
ASSISTANT: dict[type, Callable[[Any, bool], JsonObject | None]] = {
    Text: _text,
    Refusal: _refusal,
    Thinking: _thinking_block,
    ToolCall: _tool_call,
    ServerToolCall: _echoed,
    ServerToolResult: _echoed,
    OpaqueBlock: _echoed,
}

__all__ = ["NAME", "encode", "encode_messages", "safe_id"]
