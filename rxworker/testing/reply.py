"""The answer of a scripted model, as a value.

A reply is put together with ``+`` from small parts: thinking, text, calls, and how it ends. The same
reply can be emitted as events (`ScriptedModel`) or over real HTTP in a provider's own format (`ReplayServer`).

>>> reply = think("Rain?") + say("Let me look.") + call("get_weather", city="Kyoto")
>>> reply.text, reply.tool_calls[0].input
('Let me look.', {'city': 'Kyoto'})
>>> reply.stop_reason.kind.value
'ToolUse'
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Struct, field

from rxworker import events
from rxworker.errors import ConfigurationError
from rxworker.events import BlockType, Error, ResponseEvent, ResponseStatus, Status
from rxworker.events.meta import TRUNCATED
from rxworker.messages import Json, JsonObject, StopKind, StopReason, Text, Thinking, ToolCall
from rxworker.messages.usage import Usage

USAGE = Usage(input_tokens=10, output_tokens=5)
CHUNK = 4
RETRYABLE = frozenset({"rate_limit", "overloaded", "timeout", "server"})

ReplyBlock: TypeAlias = Thinking | Text | ToolCall


class Call(Struct, frozen=True):
    """A tool call of a reply.

    Attributes:
        name: The tool's name.
        input: Its arguments. A string is sent as it is, for arguments that are cut or are not JSON.
        id: The call's id; ``None``: made from the number of the request and the place of the call.
    """

    name: str
    input: JsonObject | str = field(default_factory=dict[str, Json])
    id: str | None = None


class Reply(Struct, frozen=True):
    """One answer of a model.

    Attributes:
        text: The text.
        thinking: The thinking before the text.
        tool_calls: The calls after the text.
        stop: Why it ends; ``None``: ``ToolUse`` when it calls tools, ``EndTurn`` when it does not.
        usage: The tokens it took; ``None``: the provider does not report them.
        error: The failure after all of its content; its last block is then not finished.
        stalls: Whether it falls silent after all of its content, and keeps the connection open.
        chunk: How many characters a delta has.
        signature: The seal on the thinking.
    """

    text: str = ""
    thinking: str = ""
    tool_calls: tuple[Call, ...] = ()
    stop: StopKind | StopReason | None = None
    usage: Usage | None = USAGE
    error: Error | None = None
    stalls: bool = False
    chunk: int = CHUNK
    signature: str | None = None

    def __add__(self, other: Reply) -> Reply:
        """Both replies in one: texts and calls joined; how it ends is the second's word, if it has one."""
        return Reply(
            text=self.text + other.text,
            thinking=self.thinking + other.thinking,
            tool_calls=self.tool_calls + other.tool_calls,
            stop=other.stop or self.stop,
            usage=self.usage if other.usage is USAGE else other.usage,
            error=other.error or self.error,
            stalls=other.stalls or self.stalls,
            chunk=self.chunk if other.chunk == CHUNK else other.chunk,
            signature=other.signature or self.signature,
        )

    @property
    def stop_reason(self) -> StopReason:
        """Why it ends, in the normal form."""
        if isinstance(self.stop, StopReason):
            return self.stop
        inferred = StopKind.TOOL_USE if self.tool_calls else StopKind.END_TURN
        return StopReason(self.stop or inferred)

    @property
    def breaks(self) -> bool:
        """Whether it never ends normally."""
        return self.stalls or self.error is not None

    def blocks(self, prefix: str) -> tuple[ReplyBlock, ...]:
        """Its blocks, in order: thinking, text, calls; calls without an id get ``<prefix>_<place>``."""
        thinking = (Thinking(self.thinking, self.signature),) if self.thinking else ()
        text = (Text(self.text),) if self.text else ()
        calls = tuple(
            ToolCall(call.id or f"{prefix}_{place}", call.name, call.input)
            for place, call in enumerate(self.tool_calls, start=1)
        )
        return (*thinking, *text, *calls)

    def pieces(self, text: str) -> list[str]:
        """The text cut into deltas.

        >>> Reply(chunk=3).pieces("abcdefgh")
        ['abc', 'def', 'gh']
        """
        return [text[at : at + self.chunk] for at in range(0, len(text), self.chunk)]


def say(
    text: str, *, stop: StopKind | StopReason | None = None, usage: Usage | None = USAGE, chunk: int = CHUNK
) -> Reply:
    """A reply with a text.

    >>> say("Hello").stop_reason.kind.value
    'EndTurn'
    """
    return Reply(text=text, stop=stop, usage=usage, chunk=chunk)


def think(text: str, signature: str | None = None) -> Reply:
    """A reply with thinking; add the text after it."""
    return Reply(thinking=text, signature=signature)


def call(name: str, /, **arguments: Json) -> Reply:
    """A reply that calls a tool; for an id of your own, or arguments that are not JSON, write out the `Call`.

    >>> (call("look", at="a") + call("look", at="b")).blocks("call_1")[1].id
    'call_1_2'
    """
    return Reply(tool_calls=(Call(name, arguments),))


def fail(
    message: str,
    kind: str = "server",
    *,
    code: str | None = None,
    retryable: bool | None = None,
    request_id: str | None = None,
) -> Reply:
    """A reply that ends with an error of the provider's, at once or after what it is added to.

    Args:
        message: The provider's text, shown to users.
        kind: The kind of the failure, see `ProviderError.kind`.
        code: The provider's word for it; by default the kind.
        retryable: Whether the same request may succeed; by default as it is usual for the kind.
        request_id: The provider's name for the request.

    >>> (say("half a sen") + fail("Overloaded", "overloaded")).error.retryable
    True
    """
    again = kind in RETRYABLE if retryable is None else retryable
    return Reply(error=Error(code or kind, message, again, kind, request_id))


def cut() -> Reply:
    """A reply whose stream just stops, without its terminal event, after what it is added to."""
    return Reply(error=Error(TRUNCATED, "the stream ended before its terminal event", True, TRUNCATED))


def stall() -> Reply:
    """A reply that falls silent for ever, after what it is added to."""
    return Reply(stalls=True)


def to_reply(answer: Reply | str) -> Reply:
    """A text is short for a reply with that text.

    Raises:
        ConfigurationError: It is neither.
    """
    reply = say(answer) if isinstance(answer, str) else answer
    if not isinstance(reply, Reply):  # pyright: ignore[reportUnnecessaryIsInstance] - users give it
        raise ConfigurationError(
            "a scripted reply is a text, or a Reply as rxworker.testing makes it, added with +; "
            f"not {type(reply).__name__}"
        )
    return reply


def input_text(block: ToolCall) -> str:
    """The arguments of a call as the JSON text that a provider streams."""
    return block.input if isinstance(block.input, str) else msgspec.json.encode(block.input).decode()


BLOCK_TYPES: dict[type[ReplyBlock], BlockType] = {Thinking: BlockType.THINKING, Text: BlockType.TEXT}


def reply_events(reply: Reply, number: int = 1, model: str = "scripted") -> list[ResponseEvent]:
    """Everything that happens while a model gives this reply.

    A reply that fails before any content fails before it has started, as a refused request does.

    Args:
        reply: Its reply.
        number: The number of the request, from 1; the ids are made from it.
        model: The model's name.

    >>> from rxworker.testing.reply import say
    >>> [type(event).__name__ for event in reply_events(say("Hello"))]
    ['Status', 'BlockStart', 'TextDelta', 'TextDelta', 'BlockStop', 'Usage', 'Status']
    """
    blocks = reply.blocks(f"call_{number}")
    made: list[ResponseEvent] = []
    if blocks or reply.error is None:
        made.append(Status(ResponseStatus.STARTED, f"response_{number}", model))
    for index, block in enumerate(blocks):
        made += _block_events(reply, index, block)
    if reply.breaks and blocks:
        made.pop()  # the last block stays open
    if made and reply.usage is not None:
        made.append(reply.usage)
    return made + _end(reply, blocks)


def _block_events(reply: Reply, index: int, block: ReplyBlock) -> list[ResponseEvent]:
    """The life of one block."""
    kind = BLOCK_TYPES.get(type(block), BlockType.TOOL_USE)
    made: list[ResponseEvent] = []
    if isinstance(block, Thinking):
        made += [events.ThinkingDelta(index, piece) for piece in reply.pieces(block.text)]
        made += [events.SignatureDelta(index, block.signature)] if block.signature else []
    elif isinstance(block, Text):
        made += [events.TextDelta(index, piece) for piece in reply.pieces(block.text)]
    else:
        made += [events.InputJsonDelta(index, piece) for piece in reply.pieces(input_text(block))]
        which = events.ToolUseMetadata(block.id, block.name)
        return [events.BlockStart(index, kind, which), *made, events.BlockStop(index, kind, metadata=which)]
    return [events.BlockStart(index, kind), *made, events.BlockStop(index, kind)]


def _end(reply: Reply, blocks: tuple[ReplyBlock, ...]) -> list[ResponseEvent]:
    """How the response ends, when it does."""
    if reply.error is not None:
        made: list[ResponseEvent] = [reply.error, Status(ResponseStatus.FAILED)]
        if blocks:
            kind = BLOCK_TYPES.get(type(blocks[-1]), BlockType.TOOL_USE)
            made.insert(0, events.BlockAbort(len(blocks) - 1, kind, reply.error.message))
        return made
    if reply.stalls:
        return []
    return [Status(ResponseStatus.COMPLETED, stop_reason=reply.stop_reason)]
