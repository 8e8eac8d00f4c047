"""A conversation to the body of a Messages request.

Roles alternate: what stands in a row under one role becomes one message, and tool results come first in theirs. What an
answer of Anthropic's carried for the next request (signatures, sealed thinking, blocks of server tools) is sent back as
it came; what another provider's answer carried is left out. Where a conversation marks what may be cached, `cache` puts
the marks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from operator import attrgetter, itemgetter
from typing import TypeAlias, get_args

from msgspec import Raw

from rxworker.messages import Json, JsonObject, Message, content
from rxworker.providers.anthropic.container import CONTAINER, RESULT, OwnCalls, container_extra, container_id, valid_id
from rxworker.providers.anthropic.options import (
    MAX_MARKS,
    THOUGHTS,
    TOOLSET,
    cache_control,
    code_tool,
    encode_choice,
    encode_compaction,
    encode_thinking,
    encode_tool,
    leading_point,
    limit_of,
    longest,
    mark_last,
    mark_prefix,
    with_toolsets,
)
from rxworker.providers.base import Request, cached_parts
from rxworker.providers.content import FAILED, arguments, plain_text, split_system, user_echo
from rxworker.providers.encode_cache import Body, MessageEncoder, Part, Remembered, array
from rxworker.providers.fit import settings_as, with_extra
from rxworker.providers.schema import closed
from rxworker.providers.takes import TAKES, Encoders, encoded_parts, media, safe_name

DEFAULT_MAX_TOKENS = 8192
NAME = "anthropic"

Encoded: TypeAlias = tuple[str, list[JsonObject]]
"""The role and the blocks of a message."""
Place: TypeAlias = tuple[int, int, content.CachePoint]
"""What a cache point follows: so many messages, and so many blocks of the last of these."""

_MARK = attrgetter("cache_control")


class RequestEncoder:
    """Encodes the requests of one model.

    Args:
        model: The name of the model.
        max_tokens: The maximum of tokens of an answer, if the request's options have none.
        version: The version of the protocol that a cloud names in the body.
        without: The members that a cloud has elsewhere.
        now: Gives the seconds since the epoch; a container that has expired is not sent.
    """

    def __init__(
        self,
        model: str,
        max_tokens: int,
        version: str = "",
        without: Sequence[str] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        self._model = model
        self._max_tokens = max_tokens
        self._version = version
        self._without = without
        self._now = now
        self._remembered = Remembered[MessagesEncoder](encode_tool)

    def encode(self, request: Request, *, betas: str | None = None, takes_unsealed: bool = False) -> bytes:
        """The JSON of a request.

        Args:
            request: The conversation so far, the tools that the model may call, and the settings.
            betas: The names of the header ``anthropic-beta``, where a cloud reads them in the body.
            takes_unsealed: Whether the service takes thinking without a signature.

        Raises:
            ConfigurationError: The thinking budget leaves no room for the answer, or a tool requires something that the
                protocol does not have.
        """
        new = MessagesEncoder(takes_unsealed=takes_unsealed)
        return self._remembered.encode(request.conversation.messages, new, partial(self._body, request, betas))

    def _body(self, request: Request, betas: str | None, encoder: MessagesEncoder) -> Body:
        conversation, options = request.conversation, request.options
        tools = with_toolsets(request.tools)
        system, messages = split_system(conversation)
        point, head = leading_point(conversation)
        encoder.feed_new(messages)
        body: Body = {
            "model": self._model,
            "max_tokens": limit_of(options, self._max_tokens),
            "messages": Raw(b"[]"),  # how many marks they may carry is known at the end
            "stream": True,
        }
        if system:
            body["system"] = system
        if tools:
            is_marked = point or tools[-1].defer_loading or any(map(_MARK, tools))
            if is_marked or "tools" in options.extra:
                body["tools"] = [*map(encode_tool, tools, repeat(code_tool(options.extra)))]
            else:
                body["tools"] = self._remembered.tools(tools)
            if options.tool_choice is not None or options.parallel_tool_calls is not None:
                body["tool_choice"] = encode_choice(options.tool_choice, options.parallel_tool_calls)
        body |= settings_as(options, stop_sequences="stop_sequences", temperature="temperature")
        if options.thinking is not None:
            body |= encode_thinking(options.thinking)
        if options.output is not None:
            form: JsonObject = {"type": "json_schema", "schema": closed(options.output.schema)}
            body = with_extra(body, {"output_config": {"format": form}})
        if options.compact_at is not None:
            body["context_management"] = encode_compaction(options.compact_at)
        container = valid_id(encoder.echo, self._now()) if encoder.echo else None
        if container is not None:
            body[CONTAINER] = container
        if options.extra:
            body = with_extra(body, container_extra(options.extra, container), whole=(CONTAINER,))
            container = container_id(body)
        marks, moving = MAX_MARKS, None
        # Without any of these there is nothing to mark, and no mark to count: the tools that are known have none.
        if options.cache or point or encoder.points or isinstance(body.get("tools"), list):
            parts = cached_parts(options)
            moving = content.CachePoint(options.cache_ttl) if options.cache == "auto" else None
            if moving and system and encoder.points:
                parts = parts[1:]  # the system text's mark holds the tools: one more is left for the points
            ttl = longest(options.cache_ttl, *[mark.ttl for _, _, mark in encoder.points])
            body, marks = mark_prefix(body, parts, point, ttl, head=head, most_of_tools=1 if moving else MAX_MARKS)
        if "messages" not in options.extra:
            body["messages"] = encoder.messages(marks, container, moving)
        for name in self._without:
            del body[name]
        if self._version:
            body.setdefault("anthropic_version", self._version)
        if betas:
            body.setdefault("anthropic_beta", [*map(str.strip, betas.split(","))])
        return body


class MessagesEncoder(MessageEncoder):
    """Messages to those of the protocol.

    A message is done when two more follow it, or one of the user's: the last may grow, and an answer may lose what only
    the last may hold; if nothing is left of it, the one before it grows. After a cache point nothing is done, since
    which points count is known at the end. Nor is anything done while a call of Anthropic's own tools may still be
    answered, see `container`.

    Attributes:
        echo: That of the last answer of Anthropic's that has one.
        points: The cache points so far.
        takes_unsealed: Whether the service takes thinking without a signature, as those do that are compatible with
            Anthropic.
    """

    def __init__(self, *, takes_unsealed: bool = False) -> None:
        self.settings = (takes_unsealed,)
        self.takes_unsealed = takes_unsealed
        self.echo: JsonObject | None = None
        self._own_calls = OwnCalls()
        self._toolsets: dict[str, Json] = {}  # of the calls, by their ids
        self._done: list[Part] = []
        self._open: list[Encoded] = []  # what follows that
        self.points: list[Place] = []

    def feed(self, message: Message) -> None:
        """Take the next message."""
        open_messages = self._open
        role = "assistant" if message.role == "assistant" else "user"
        encoders = ASSISTANT if role == "assistant" else USER
        own = message.provider == NAME
        first = len(open_messages[-1][1]) if open_messages and open_messages[-1][0] == role else 0
        for block in message.content:
            encoder = encoders.get(type(block))
            encoded: JsonObject | None = encoder(block, own) if encoder else None
            if encoded is None and own and self.takes_unsealed and isinstance(block, content.Thinking):
                encoded = {"type": "thinking", "thinking": block.text}
            if encoded is not None:
                if self._toolsets or TOOLSET in encoded:
                    self._pair(encoded)
                if not open_messages or open_messages[-1][0] != role:
                    open_messages.append((role, []))
                open_messages[-1][1].append(encoded)
            elif isinstance(block, content.CachePoint):
                self.points.append((len(open_messages), len(open_messages[-1][1]) if open_messages else 0, block))
        if own:
            self.echo = message.echo or self.echo
            if open_messages and open_messages[-1][0] == role:
                self._own_calls.add(open_messages[-1][1][first:], container_id(message.echo))

    def _pair(self, encoded: JsonObject) -> None:
        """Give the result of a call its toolset."""
        if TOOLSET in encoded:
            self._toolsets[str(encoded["id"])] = encoded[TOOLSET]
        elif encoded["type"] == RESULT and (toolset := self._toolsets.get(str(encoded["tool_use_id"]))) is not None:
            encoded[TOOLSET] = toolset

    def messages(
        self, marks: int = MAX_MARKS, container: str | None = None, moving: content.CachePoint | None = None
    ) -> Raw | tuple[Raw | JsonObject, ...]:
        """The messages so far: roles alternate, and none is empty.

        Args:
            marks: How many cache points may be in it; the last ones count.
            container: The id of the container that is sent.
            moving: A point for the ends of this request and of the one before.
        """
        if self.points or self._own_calls.is_open(self._open):
            # Its encoded form is not known before the end, so all of it is kept unchanged.
            open_messages = _marked(self._open, self.points, moving, marks)
            self._own_calls.settle(open_messages, container)
            open_messages = _settled(open_messages)
        else:
            self._own_calls.settle(self._open, container)
            open_messages = _settled(self._open)
            # The last user message may grow, but will not be empty. Those that have a mark now will have none later.
            left = 1 if open_messages and open_messages[-1][0] == "user" else 2
            left += 2 if moving else 0
            if len(open_messages) > left:
                self._done += self.parts([*map(_message, open_messages[:-left])])
            self._open = open_messages = open_messages[-left:]
            if moving:
                open_messages = _marked(open_messages, [], moving, marks)
        return array([*self._done, *self.parts([*map(_message, open_messages)])] if open_messages else self._done)


def _marked(
    messages: Sequence[Encoded], points: Sequence[Place], moving: content.CachePoint | None, marks: int
) -> list[Encoded]:
    """Copies of the messages, with a mark for each of the last so many points.

    Those that move come before the others.
    """
    ends = _ends(messages, moving) if moving else []
    others = max(marks - len(ends), 0)
    counting = sorted([*points[max(len(points) - others, 0) :], *ends], key=itemgetter(0, 1))
    marked = [(role, [*blocks]) for role, blocks in messages]
    ttl: str | None = None
    for place, end, point in counting[::-1][: max(marks, 0)]:
        ttl = longest(point.ttl, ttl)
        if place:
            mark_last(marked[place - 1][1], end, cache_control(ttl))
    return marked


def _ends(messages: Sequence[Encoded], moving: content.CachePoint) -> list[Place]:
    """The end of the last message, and of the user's before it, with which the request before ended.

    So the next request has a mark exactly where this one has its last, however many blocks have been added since.
    """
    users = [at for at, (role, _) in enumerate(messages[:-1], 1) if role == "user"]
    return [(at, _end(*messages[at - 1]), moving) for at in (*users[-1:], len(messages)) if at]


def _end(role: str, blocks: Sequence[JsonObject]) -> int:
    """After which block a message ends when it is sent, where results come first."""
    others = [at for at, block in enumerate(blocks, 1) if block["type"] != RESULT]
    return others[-1] if role == "user" and others else len(blocks)


def _message(open_messages: Encoded) -> JsonObject:
    role, blocks = open_messages
    # Results come first in a user message.
    if role == "user" and len(blocks) > 1:
        results = [block for block in blocks if block["type"] == RESULT]
        if 0 < len(results) < len(blocks):
            results += [block for block in blocks if block["type"] != RESULT]
            blocks = results
    return {"role": role, "content": [*blocks]}


def _settled(encoded: list[Encoded]) -> list[Encoded]:
    """The messages without what only the last may hold; roles alternate still."""
    settled: list[Encoded] = []
    for place, (role, blocks) in enumerate(encoded, 1):
        if role == "assistant" and place < len(encoded):
            while blocks and blocks[-1]["type"] in THOUGHTS:  # it led to nothing
                blocks.pop()
        if blocks and settled and settled[-1][0] == role:
            settled[-1][1].extend(blocks)
        elif blocks:
            settled.append((role, blocks))
    return settled


def _text(block: content.Text | content.Refusal, own: bool) -> JsonObject | None:
    if not block.text.strip():  # Anthropic refuses text without a letter
        return None
    encoded: JsonObject = {"type": "text", "text": block.text}
    if own and isinstance(block, content.Text) and block.citations:
        encoded["citations"] = list(block.citations)
    return encoded


def _thinking_block(block: content.Thinking, own: bool) -> JsonObject | None:
    if not own:
        return None
    if block.echo and "type" in block.echo:
        return block.echo
    if not block.signature:  # cut off before its seal came: Anthropic would refuse it
        return None
    return {"type": "thinking", "thinking": block.text, "signature": block.signature}


def _tool_call(block: content.ToolCall, own: bool) -> JsonObject:
    call: JsonObject = {
        "type": "tool_use",
        "id": safe_name(block.id),
        "name": safe_name(block.name),
        "input": arguments(block) if isinstance(block.input, str) else block.input,
    }
    return block.echo | call if own and block.echo else call


def _echoed(block: content.ProviderBlock, own: bool) -> JsonObject | None:
    return block.echo if own and block.echo and "type" in block.echo else None


def _opaque(block: content.OpaqueBlock, _: bool) -> JsonObject:
    return user_echo(block)


def _tool_result(block: content.ToolResult, _: bool) -> JsonObject:
    shown: Json = block.content if isinstance(block.content, str) else encoded_parts(block, USER)
    encoded: JsonObject = {"type": RESULT, "tool_use_id": safe_name(block.tool_use_id)}
    if block.is_error:
        encoded["is_error"] = True
        shown = shown or FAILED
    if shown:
        encoded["content"] = shown
    return encoded


def _audio(block: content.Audio, _: bool) -> JsonObject:
    return {"type": "audio", "data": media(block, TAKES[NAME]).data}  # it takes none, and this raises


def _image(block: content.Image, _: bool) -> JsonObject:
    return {"type": "image", "source": _source(media(block, TAKES[NAME]))}


def _document(block: content.Document, _: bool) -> JsonObject:
    block = media(block, TAKES[NAME])
    encoded: JsonObject = {"type": "document"}
    if block.data and not block.url and block.media_type.startswith("text/"):
        encoded["source"] = {"type": "text", "media_type": "text/plain", "data": plain_text(block)}
    else:
        encoded["source"] = _source(block)
    if block.title:
        encoded["title"] = block.title
    if block.context:
        encoded["context"] = block.context
    if block.citations:
        encoded["citations"] = {"enabled": True}
    return encoded


def _source(block: content.Image | content.Document) -> JsonObject:
    if block.url:
        return {"type": "url", "url": block.url}
    # the files API, which needs its beta header: https://docs.claude.com/en/docs/build-with-claude/files
    if not block.data:
        return {"type": "file", "file_id": block.file_id}
    return {"type": "base64", "media_type": block.media_type, "data": block.data}


# What a block becomes, by who speaks. Blocks that are not in the table cannot be sent in that role.
USER: Encoders = {
    content.Text: _text,
    content.Refusal: _text,
    content.Image: _image,
    content.Document: _document,
    content.Audio: _audio,
    content.OpaqueBlock: _opaque,
    content.ToolResult: _tool_result,
}
ASSISTANT: Encoders = {
    content.Text: _text,
    content.Refusal: _text,
    content.Thinking: _thinking_block,
    content.ToolCall: _tool_call,
    **dict.fromkeys(get_args(content.ProviderBlock), _echoed),
}
