"""From the body of a request of any of the protocols to its messages. Pure, and lenient: it is only watched.

The protocols differ in the names of their members, and hardly in what these mean, so that one reader has a row for each
form of a part. What has another form is kept as it is.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import blake2b
from urllib.parse import unquote

import msgspec
from aiohttp.compression_utils import HAS_BROTLI, HAS_ZSTD, BrotliDecompressor, ZSTDDecompressor
from msgspec import Struct

from rxworker.errors import LocalProtocolError
from rxworker.events.arguments import parse_arguments
from rxworker.messages import (
    Content,
    Image,
    Json,
    JsonObject,
    Message,
    OpaqueBlock,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from rxworker.messages.lenient_json import as_array, as_object, objects_in, word
from rxworker.messages.message import Role
from rxworker.protocols.common import latest_from, media, tool_result

_PATHS = {
    "anthropic": r"/messages",
    "openai_chat": r"/chat/completions",
    "openai_responses": r"/responses",
    "gemini": r"/(?P<model>[^/]+):(?:streamG|g)enerateContent",
    "gemini_interactions": r"/interactions",
    "ollama": r"/api/chat",
    "bedrock": r"/model/(?P<model>[^/]+)/converse-stream",
}
_PATTERNS = {name: re.compile(f".*{path}/?", re.DOTALL) for name, path in _PATHS.items()}


def protocol_at(path: str) -> tuple[str, str]:
    """The name of the provider whose protocol is spoken at a path, and the model that the path names; empty if none.

    >>> protocol_at("/v1beta/models/gemini-3.8-flash:streamGenerateContent"), protocol_at("/v1/models")
    (('gemini', 'gemini-3.8-flash'), ('', ''))
    """
    for name, pattern in _PATTERNS.items():
        if found := pattern.fullmatch(path):
            return name, unquote(found.groupdict().get("model", ""))
    return "", ""


def unpacker(encoding: str) -> Callable[[bytes], bytes]:
    """What decompresses a body piece by piece.

    Raises:
        LocalProtocolError: The encoding is not known, or its package is not installed.

    >>> import gzip
    >>> unpacker("gzip")(gzip.compress(b"Hi"))
    b'Hi'
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return bytes
    if encoding in ("gzip", "x-gzip", "deflate"):
        return partial(_inflated, [])
    if encoding == "br" and HAS_BROTLI:
        return BrotliDecompressor().decompress_sync
    if encoding == "zstd" and HAS_ZSTD:
        return ZSTDDecompressor().decompress_sync
    package = {"br": "brotli", "zstd": "backports.zstd"}.get(encoding, "one that reads it")
    raise LocalProtocolError(f"content-encoding {encoding[:20]!r} cannot be read: install {package}")


def _inflated(made: list[Callable[[bytes], bytes]], data: bytes) -> bytes:
    """Two formats are called deflate, and gzip is a third: the first byte shows which it is."""
    if not made:
        made.append(zlib.decompressobj(wbits=47 if data[0] & 15 == 8 or data[0] == 31 else -15).decompress)
    return made[0](data)


class TappedRequest(Struct, frozen=True):
    """What is known of a request.

    Attributes:
        model: The name of the model; empty if the body has none.
        system: The system prompt.
        messages: The messages, in the pieces in which the protocol has them.
        previous: The id of the response that it continues, if the service keeps the conversation.
        keys: A hash of the messages up to each, which does not depend on marks of caches and on thinking.
    """

    model: str
    system: str | None
    messages: tuple[Message, ...]
    previous: str
    keys: tuple[bytes, ...]

    @property
    def key(self) -> bytes:
        """A hash of all messages; empty if there are none."""
        return self.keys[-1] if self.keys else b""

    @property
    def last(self) -> int:
        """How many messages there are up to the last one of the model."""
        return latest_from(self.messages)

    @property
    def new(self) -> tuple[Message, ...]:
        """The messages after those."""
        return self.messages[self.last :]

    @property
    def results(self) -> list[ToolResult]:
        """The results of tools in them."""
        return [result for message in self.new for result in message.tool_results]


def read_request(data: bytes) -> TappedRequest:
    """Read a request.

    Raises:
        DecodeError: It is not a JSON object.

    >>> read_request(b'{"model":"m","contents":[{"parts":[{"text":"Hi"}]}]}').messages[0].text
    'Hi'
    """
    body = msgspec.json.decode(data, type=JsonObject)
    told = body.get("system") or body.get("systemInstruction") or body.get("system_instruction")
    system = [_text_of(told or body.get("instructions"))]
    messages: list[Message] = []
    listed = body.get("messages") or body.get("contents") or body.get("input")
    for item in [listed] if isinstance(listed, str | dict) else as_array(listed):
        role, content = _read_item(item)
        if role == "system":
            system.append("".join(block.text for block in content if isinstance(block, Text)))
        else:
            messages.append(Message(role, content))
    previous = word(body.get("previous_response_id")) or word(body.get("previous_interaction_id"))
    keys = (*_keys(messages, previous),)
    return TappedRequest(
        word(body.get("model")), "\n\n".join(filter(None, system)) or None, (*messages,), previous, keys
    )


def key_of(*messages: Message) -> bytes:
    """A hash of adjacent messages of the model, which does not depend on how they are divided.

    >>> key_of(Message.assistant("a", "b")) == key_of(Message.assistant("ab"))
    True
    """
    calls = [[call.name, call.input] for message in messages for call in message.tool_calls]
    return blake2b(_encode(["".join(message.text for message in messages), calls]), digest_size=16).digest()


def _keys(messages: list[Message], previous: str) -> Iterator[bytes]:
    hasher = blake2b(previous.encode(), digest_size=16)
    for message in messages:
        parts = [_shown(block) for block in message.content if not isinstance(block, Thinking)]
        hasher.update(_encode([message.role, parts]))
        yield hasher.digest()


def _shown(block: Content) -> object:
    if isinstance(block, Text):
        return block.text
    if isinstance(block, ToolCall):
        return [block.name, block.input]
    return [block.name, block.text] if isinstance(block, ToolResult) else block


_encode = msgspec.json.Encoder(order="deterministic").encode
_ROLES: dict[str, Role] = {"assistant": "assistant", "model": "assistant", "system": "system", "developer": "system"}
# The items of Responses and the steps of Interactions that the model has written.
_OWN = {"function_call", "custom_tool_call", "reasoning", "thought", "model_output"}


def _read_item(item: Json) -> tuple[Role, tuple[Content, ...]]:
    """A message of a request, or an item in its place."""
    if not isinstance(item, dict):
        return "user", (*_parts(item),)
    role = _ROLES.get(word(item.get("role")), "assistant" if item.get("type") in _OWN else "user")
    if item.get("role") == "tool":  # Chat Completions and Ollama
        name = word(item.get("tool_name")) or word(item.get("name"))
        return "user", (tool_result(word(item.get("tool_call_id")), _parts(item.get("content")), name=name),)
    if "content" not in item and "parts" not in item and "tool_calls" not in item:
        return role, (*_parts(item),)
    thinking = word(item.get("reasoning_content")) or word(item.get("thinking"))
    content = [*_parts(item.get("content", item.get("parts")))]
    for call in objects_in(item.get("tool_calls")):
        function = as_object(call.get("function")) or as_object(call.get("custom"))
        content.append(_call(call.get("id"), function.get("name"), function.get("arguments", function.get("input"))))
    return role, (*([Thinking(thinking)] if thinking else ()), *content)


def _text_of(given: Json) -> str:
    given = as_object(given).get("parts", given)
    return "".join(block.text for block in _parts(given) if isinstance(block, Text))


def _parts(given: Json) -> Iterator[Content]:
    for part in as_array(given) if isinstance(given, list) else () if given is None else (given,):
        try:
            yield _read_part(part)
        except LocalProtocolError:  # a file that cannot be shown
            yield OpaqueBlock("file")


def _call(call_id: Json, name: Json, arguments: Json) -> ToolCall:
    given = parse_arguments(arguments) if isinstance(arguments, str) else as_object(arguments)
    return ToolCall(word(call_id), word(name), given)


def _read_part(part: Json) -> Content:
    match part:
        case str():
            return Text(part)
        case {"type": "thinking" | "redacted_thinking" | "reasoning" | "thought"} | {"thought": True}:
            return Thinking("")
        case {"reasoningContent": _}:
            return Thinking("")
        case {"text": str(text)} | {"refusal": str(text)}:
            return Text(text)
        case {"type": "custom_tool_call", "name": name, "input": str(text)}:
            return ToolCall(word(part.get("call_id")), word(name), text)
        case {"type": "tool_use" | "function_call", "name": name}:
            return _call(part.get("call_id") or part.get("id"), name, part.get("input", part.get("arguments")))
        case {"toolUse": dict(use)}:
            return _call(use.get("toolUseId"), use.get("name"), use.get("input"))
        case {"functionCall": dict(use)} | {"function_call": dict(use)}:
            return _call(use.get("id"), use.get("name"), use.get("args"))
        case {"type": "tool_result", "tool_use_id": str(name)}:
            return tool_result(name, _parts(part.get("content")), is_error=part.get("is_error") is True)
        case {"type": "function_call_output" | "custom_tool_call_output" | "function_result", "call_id": str(name)}:
            return tool_result(name, _parts(part.get("output", part.get("result"))), name=word(part.get("name")))
        case {"toolResult": {"toolUseId": str(name), **rest}}:
            return tool_result(name, _parts(rest.get("content")), is_error=rest.get("status") == "error")
        case {"functionResponse": dict(given)} | {"function_response": dict(given)}:
            text = _encode(given.get("response")).decode()
            return tool_result(word(given.get("id")), [Text(text)], name=word(given.get("name")))
        case {"json": value}:
            return Text(_encode(value).decode())
        case {"type": "image", "source": {"media_type": str(kind), "data": str(data)}}:
            return media(kind, data=data)
        case {"image_url": {"url": str(url)}} | {"image_url": str(url)}:
            return Image(url=url) if url.startswith("http") else media("", url=url)
        case {"inlineData": {"mimeType": str(kind), "data": str(data)}}:
            return media(kind, data=data)
        case dict():
            return OpaqueBlock(word(part.get("type")) or next(iter(part), ""), part)
        case _:
            return OpaqueBlock("unknown")
