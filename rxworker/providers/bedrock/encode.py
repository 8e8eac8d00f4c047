"""A conversation and the settings to the body of a Converse request.

- Roles alternate: what stands in a row under one role becomes one message, and tool results come first in theirs.
- Pictures, documents and audio are sent as bytes, or by an address in S3; other addresses are refused.
- Thinking is sent back if it is Bedrock's own and has its seal. Calls and results of the service's own tools are sent
  back as they came.
- A conversation with calls needs the tools of these calls: those that are not offered any more are declared by their
  names alone. Since the model may then call them, such a conversation is refused with ``tool_choice="none"``.
- The amount of thinking is sent in each family's own words, in ``additionalModelRequestFields``; for an unknown family
  it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import TypeAlias, get_args

import msgspec

from rxworker.errors import ConfigurationError, LocalProtocolError
from rxworker.messages import Json, JsonObject, Message, OutputFormat, ToolMeta, content
from rxworker.messages.lenient_json import as_object, objects_in, word
from rxworker.providers.anthropic.options import encode_thinking, longest
from rxworker.providers.base import AUTO, Options, Request, ToolChoice, cached_parts
from rxworker.providers.content import FAILED, arguments, check_role, plain_text, split_system, user_echo
from rxworker.providers.encode_cache import Body
from rxworker.providers.fit import settings_as, with_extra
from rxworker.providers.models import ModelInfo
from rxworker.providers.schema import closed
from rxworker.providers.takes import FORMATS, TAKES, Encoders, encoded_parts, media, safe_name

NAME = "bedrock"
MAX_POINTS = 4
"""Cache points that a request may have. A family that takes none refuses the request.

See https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html
"""
UNMARKED = frozenset({"reasoningContent", "document"})

LONGEST_NAME = 200  # of a document
Encoded: TypeAlias = tuple[str, list[JsonObject]]
"""A role and its blocks."""
_NOT_A_TITLE = re.compile(r"[^a-zA-Z0-9()\[\]-]+")


def encode(model: str, request: Request, info: ModelInfo) -> Body:
    """The body.

    Args:
        model: The id of the model, which contains its family.
        info: What the model takes.
        request: The conversation so far, the tools that the model may call, and the settings.

    Raises:
        ConfigurationError: A tool or a setting requires something that the protocol or the model's family does not
            have.
        LocalProtocolError: The conversation has content that the protocol does not have.
    """
    options = request.options
    system, messages = split_system(request.conversation)
    texts: list[JsonObject] = [{"text": system}] if system else []
    contents = [*encode_messages(messages)]
    offered = encode_tools(request.tools, messages, options)
    _set_points(offered, texts, contents, options, info)
    body: Body = {"messages": [{"role": role, "content": [*blocks]} for role, blocks in contents]}
    if texts:
        body["system"] = [*texts]
    if offered:
        config: JsonObject = {"tools": [*offered]}
        if request.tools and options.tool_choice is not None:
            config["toolChoice"] = encode_choice(options.tool_choice)
        body["toolConfig"] = config
    inference = settings_as(options, max_tokens="maxTokens", temperature="temperature", stop_sequences="stopSequences")
    if inference:
        body["inferenceConfig"] = inference
    if options.output is not None:
        body["outputConfig"] = {"textFormat": encode_output(options.output)}
    if options.thinking is not None:
        body["additionalModelRequestFields"] = encode_effort(model, options.thinking)
    return with_extra(body, options.extra)


def encode_effort(model: str, thinking: int | str) -> JsonObject:
    """How hard the model thinks, in the words of its family.

    Args:
        model: The id of the model.
        thinking: The amount, as the model takes it; ``0`` turns it off.

    Raises:
        ConfigurationError: The family is not known.

    >>> encode_effort("us.anthropic.claude-haiku-4-5-20251001-v1:0", 2000)
    {'thinking': {'type': 'enabled', 'budget_tokens': 2000}}
    >>> encode_effort("openai.gpt-oss-120b-1:0", "low")
    {'reasoning_effort': 'low'}
    """
    if "anthropic." in model:
        return encode_thinking(thinking)
    if "amazon.nova" in model and thinking == 0:
        return {"reasoningConfig": {"type": "disabled"}}
    if isinstance(thinking, str):
        if "openai." in model:
            return {"reasoning_effort": thinking}
        if "amazon.nova" in model:
            return {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": thinking}}
    raise ConfigurationError(
        f"thinking={thinking!r} cannot be sent to {model!r} over Bedrock: leave it out, or send it in the model's own"
        ' words with Options(extra={"additionalModelRequestFields": {...}})'
    )


def encode_output(output: OutputFormat) -> JsonObject:
    """The required form of the answer. Its schema is a text."""
    described: JsonObject = {"schema": msgspec.json.encode(closed(output.schema)).decode(), "name": output.name}
    return {"type": "json_schema", "structure": {"jsonSchema": described}}


def encode_tools(tools: Sequence[ToolMeta], messages: Sequence[Message], options: Options) -> list[JsonObject]:
    """The tools with their cache points, and those of which the conversation has calls.

    Raises:
        ConfigurationError: The choice requires something that the protocol does not have.
    """
    choice = options.tool_choice or AUTO
    if options.parallel_tool_calls is False and tools:
        raise ConfigurationError(
            "Converse has no setting for one call at a time: leave parallel_tool_calls out, or use AnthropicBedrock"
        )
    if choice.mode == "none":
        tools = ()
    encoded: list[JsonObject] = []
    for tool in tools:
        encoded.append({"toolSpec": _tool(tool)})
        if tool.cache_control is not None:
            encoded.append(_point(tool.cache_control))
    names = {tool.name for tool in tools}
    for name in dict.fromkeys(safe_name(call.name) for message in messages for call in message.tool_calls):
        if name not in names:
            encoded.append({"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object"}}}})
    if encoded and choice.mode == "none":
        raise ConfigurationError(
            "Converse takes a conversation with calls only together with their tools, and cannot forbid the model to "
            "call them: leave tool_choice='none' out, or use AnthropicBedrock"
        )
    return encoded


def encode_choice(choice: ToolChoice) -> JsonObject:
    """Whether the model must call a tool."""
    return {choice.mode: {"name": choice.name} if choice.mode == "tool" else {}}


def _tool(tool: ToolMeta) -> JsonObject:
    encoded: JsonObject = {"name": tool.name, "inputSchema": {"json": tool.input_schema}}
    if tool.description:
        encoded["description"] = tool.description
    if tool.strict:
        encoded["strict"] = True
    return encoded


def encode_messages(messages: Sequence[Message]) -> Iterator[Encoded]:
    """The messages: roles alternate, none is empty, and results come first in theirs."""
    open_role, blocks = "", list[JsonObject]()
    names: set[str] = set()  # of documents, of which each needs its own
    for message in messages:
        check_role(message)
        role = "assistant" if message.role == "assistant" else "user"
        encoders = ASSISTANT if role == "assistant" else USER
        own = message.provider == NAME
        for block in message.content:
            encoder = encoders.get(type(block))
            encoded = encoder(block, own) if encoder else None
            if encoded is None:
                continue
            if type(block) is content.Document or (
                type(block) is content.ToolResult and not isinstance(block.content, str)
            ):
                for document in _documents(encoded):
                    document["name"] = _own_name(str(document["name"]), names)
            if role != open_role and blocks:  # a message of which nothing is left ends none
                yield _message(open_role, blocks)
                blocks = []
            open_role = role
            blocks.append(encoded)
    if blocks:
        yield _message(open_role, blocks)


def _documents(block: JsonObject) -> list[JsonObject]:
    """The documents in a block, those of a result included."""
    result = block.get("toolResult")
    within = [block] if result is None else objects_in(as_object(result).get("content"))
    return [as_object(each["document"]) for each in within if "document" in each]


def _own_name(name: str, names: set[str]) -> str:
    """A name that no other document of the request has: the service refuses equal ones."""
    own, number = name, 1
    while own in names:
        number += 1
        own = f"{name[: LONGEST_NAME - 9].strip()} {number}"
    names.add(own)
    return own


def _message(role: str, blocks: list[JsonObject]) -> Encoded:
    results = [block for block in blocks if "toolResult" in block]
    others = [block for block in blocks if "toolResult" not in block]
    kinds = {*chain(*others)}
    if "document" in kinds and "text" not in kinds:  # the service demands one beside a document
        document = next(block["document"] for block in others if "document" in block)
        others.append({"text": as_object(document)["name"]})
    return role, [*results, *others]


def _set_points(
    tools: list[JsonObject], system: list[JsonObject], messages: Sequence[Encoded], options: Options, info: ModelInfo
) -> None:
    """Set the cache points that ``Options.cache`` requires, and keep the last few of all."""
    parts: Sequence[str] = cached_parts(options)
    is_moving = options.cache == "auto"
    if is_moving:
        parts = info.marked if info.caching == "marks" else ()
        if parts:
            _add_points(messages, options.cache_ttl)
    for name, blocks in (("tools", tools), ("system", system)):
        if name in parts and blocks and "cachePoint" not in blocks[-1]:
            blocks.append(_point(content.CachePoint(options.cache_ttl)))
    contents = [*map(itemgetter(1), messages)]
    ttl: str | None = None
    for blocks in reversed([tools, system, *contents]):
        for place in range(len(blocks) - 1, -1, -1):
            if "cachePoint" in blocks[place]:  # one before one that lives longer is refused
                ttl = longest(word(as_object(blocks[place]["cachePoint"]).get("ttl")), ttl)
                blocks[place] = _point(content.CachePoint(ttl))
    left = MAX_POINTS - sum("cachePoint" in block for block in system)
    left -= _keep_last(tools, 1 if is_moving else left)
    for blocks in reversed(contents):
        left -= _keep_last(blocks, left)


def _keep_last(blocks: list[JsonObject], most: int) -> int:
    """Keep so many of the cache points, the last ones; returns how many there are then."""
    places = [place for place, block in enumerate(blocks) if "cachePoint" in block]
    kept = places[max(len(places) - most, 0) :]
    for place in reversed(places[: len(places) - len(kept)]):
        del blocks[place]
    return len(kept)


def _add_points(messages: Sequence[Encoded], ttl: str | None) -> None:
    """Put points at the end of the last message, and of the user's before it, with which the request before ended."""
    users = [message for message in messages[:-1] if message[0] == "user"]
    for _, blocks in (*users[-1:], *messages[-1:]):
        end = len(blocks)
        # The service refuses a point after thinking, and one after documents.
        while end and not UNMARKED.isdisjoint(blocks[end - 1]):
            end -= 1
        if end and "cachePoint" not in blocks[end - 1]:
            blocks.insert(end, _point(content.CachePoint(ttl)))


def _point(point: content.CachePoint) -> JsonObject:
    kept: JsonObject = {"type": "default"}
    return {"cachePoint": {**kept, "ttl": point.ttl} if point.ttl else kept}


def _text(block: content.Text | content.Refusal, own: bool) -> JsonObject | None:
    if not block.text.strip():  # Bedrock refuses text without a letter
        return None
    if own and isinstance(block, content.Text) and block.citations:
        cited: JsonObject = {"content": [{"text": block.text}], "citations": [*block.citations]}
        return {"citationsContent": cited}
    return {"text": block.text}


def _thinking(block: content.Thinking, own: bool) -> JsonObject | None:
    if not own or not (block.echo or block.signature):
        return None
    if block.echo:
        return block.echo
    return {"reasoningContent": {"reasoningText": {"text": block.text, "signature": block.signature}}}


def _call(block: content.ToolCall, _: bool) -> JsonObject:
    call: JsonObject = {"toolUseId": safe_name(block.id), "name": safe_name(block.name)}
    return {"toolUse": {**call, "input": arguments(block)}}


def _echoed(block: content.ProviderBlock, own: bool) -> JsonObject | None:
    return block.echo if own and block.echo else None


def _opaque(block: content.OpaqueBlock, _: bool) -> JsonObject:
    return user_echo(block, "")


def _result(block: content.ToolResult, _: bool) -> JsonObject:
    parts: list[Json] = encoded_parts(block, USER)
    if not parts and block.is_error:
        parts = [{"text": FAILED}]
    result: JsonObject = {"toolUseId": safe_name(block.tool_use_id), "content": parts}
    if block.is_error:
        result["status"] = "error"
    return {"toolResult": result}


def _image(block: content.Image, _: bool) -> JsonObject:
    block = media(block, TAKES[NAME])
    return {"image": {"format": block.media_type.partition("/")[2], "source": _source(block)}}


def _audio(block: content.Audio, _: bool) -> JsonObject:
    block = media(block, TAKES[NAME])
    return {"audio": {"format": FORMATS[block.media_type], "source": {"bytes": block.data}}}


def _document(block: content.Document, _: bool) -> JsonObject:
    block = media(block, TAKES[NAME])
    title = _NOT_A_TITLE.sub(" ", block.title or "").strip()[:LONGEST_NAME]
    named: JsonObject = {"format": FORMATS[block.media_type], "name": title or "document"}
    encoded: JsonObject = {**named, "source": _source(block)}
    if block.context:
        encoded["context"] = block.context
    if block.citations:
        encoded["citations"] = {"enabled": True}
        if block.data and block.media_type.startswith("text/"):
            encoded["source"] = {"text": plain_text(block)}
    return {"document": encoded}


def _cache_point(block: content.CachePoint, _: bool) -> JsonObject:
    return _point(block)


def _source(block: content.Image | content.Document) -> JsonObject:
    if block.url is None:
        return {"bytes": block.data}
    if block.url.startswith("s3://"):
        return {"s3Location": {"uri": block.url}}
    if block.url.startswith("data:"):
        return {"bytes": block.url.partition(",")[2]}
    kind = type(block).__name__
    raise LocalProtocolError(
        f"Bedrock takes no web address of a {kind}: use {kind}.from_file(path), or an address that begins with s3://",
        page="history",
    )


# What a block becomes, by who speaks. Blocks that are not in the table cannot be sent in that role.
USER: Encoders = {
    content.Text: _text,
    content.Refusal: _text,
    content.Image: _image,
    content.Document: _document,
    content.Audio: _audio,
    content.ToolResult: _result,
    content.OpaqueBlock: _opaque,
    content.CachePoint: _cache_point,
}
ASSISTANT: Encoders = {
    content.Text: _text,
    content.Refusal: _text,
    content.Thinking: _thinking,
    content.ToolCall: _call,
    **dict.fromkeys(get_args(content.ProviderBlock), _echoed),
    content.CachePoint: _cache_point,
}
