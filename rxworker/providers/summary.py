"""A response in one value: a pure fold of its events, for the command line, for logs and for tests."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from rxworker.events import (
    TRUNCATED,
    BlockAbort,
    BlockStart,
    BlockType,
    Error,
    InputJsonDelta,
    InputValueDelta,
    OpaqueMetadata,
    RefusalDelta,
    ResponseEvent,
    ResponseStatus,
    SignatureDelta,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolResultMetadata,
    ToolUseMetadata,
)
from rxworker.events.arguments import assemble_arguments
from rxworker.messages import Json, JsonObject, StopReason, Usage
from rxworker.messages.lenient_json import read_mended
from rxworker.providers.base import Provider
from rxworker.providers.ids import wire_id

INVALID = "__invalid_json__"


class CalledTool(Struct, frozen=True):
    """A tool call as it arrived.

    Attributes:
        id: Its id as the provider sent it; ``None`` where it sent none.
        name: The tool's name.
        arguments: The JSON text, whole or not.
        aborted: Whether it was cut off.
        is_free_text: Whether the arguments are a text that the tool takes as it is.
    """

    id: str | None
    name: str
    arguments: str
    aborted: bool = False
    is_free_text: bool = False

    @property
    def input(self) -> Json:
        """The arguments; ``{}`` for none, ``{"__invalid_json__": text}`` for what is no JSON."""
        if self.is_free_text:
            return self.arguments
        decoded = read_mended(self.arguments.encode() or b"{}")
        if decoded is None and self.arguments.strip() != "null":
            return {INVALID: self.arguments}
        return decoded


class Summary(Struct, frozen=True):
    """What a response came to. Of several choices, the first.

    Attributes:
        text: The visible text.
        thinking: All thinking.
        refusal: The words of a refusal.
        tool_calls: The calls a client must run, also those that were cut off.
        server_tool_calls: The calls the provider ran itself.
        signatures: The seals on thinking blocks.
        stop_reason: Why it ended.
        usage: The last snapshot.
        error: What went wrong; a truncated stream is told by ``truncated``.
        truncated: Whether the stream ended before the response did.
        response_id: The provider's name for it.
        model: The model that answered.
        block_types: What the blocks were, in the provider's words where it has some.
    """

    text: str = ""
    thinking: str = ""
    refusal: str = ""
    tool_calls: tuple[CalledTool, ...] = ()
    server_tool_calls: tuple[CalledTool, ...] = ()
    signatures: tuple[str, ...] = ()
    stop_reason: StopReason | None = None
    usage: Usage | None = None
    error: Error | None = None
    truncated: bool = False
    response_id: str | None = None
    model: str | None = None
    block_types: tuple[str, ...] = ()


class _Gathered:
    """What grows while the events are read: pieces, joined once at the end."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.thinking: list[str] = []
        self.refusal: list[str] = []
        self.starts: dict[int, BlockStart] = {}
        self.arguments: dict[int, list[str]] = {}
        self.values: dict[int, list[InputValueDelta]] = {}
        self.signatures: dict[int, str] = {}
        self.aborted: set[int] = set()


def summarise(events: Iterable[ResponseEvent]) -> Summary:
    """Fold the events of one response.

    >>> summarise([BlockStart(0, BlockType.TEXT), TextDelta(0, "Hello")]).text
    'Hello'
    """
    gathered = _Gathered()
    started = ended = Status(ResponseStatus.STARTED)
    usage: Usage | None = None
    error: Error | None = None
    for event in events:
        if isinstance(event, Status):
            if event.status is ResponseStatus.STARTED:
                gathered, started, usage = _Gathered(), event, None
            ended = event
        elif isinstance(event, Usage):
            usage = event
        elif isinstance(event, Error):
            error = event
        else:
            _gather(gathered, event)
    cut = error is not None and error.code == TRUNCATED
    return Summary(
        text="".join(gathered.text),
        thinking="".join(gathered.thinking),
        refusal="".join(gathered.refusal),
        tool_calls=_calls(gathered, BlockType.TOOL_USE),
        server_tool_calls=_calls(gathered, BlockType.SERVER_TOOL_USE),
        signatures=tuple(gathered.signatures.values()),
        stop_reason=ended.stop_reason,
        usage=usage,
        error=None if cut else error,
        truncated=cut,
        response_id=ended.response_id or started.response_id,
        model=started.model,
        block_types=tuple(_type(start) for start in gathered.starts.values()),
    )


def to_json(summary: Summary, provider: Provider) -> JsonObject:
    """The summary as JSON, tokens counted as the provider counts them."""
    stop, error = summary.stop_reason, summary.error
    counts = provider.counts(summary.usage or Usage())
    return {
        "text": summary.text,
        "thinking": summary.thinking,
        "tool_calls": [{"id": c.id, "name": c.name, "input": c.input} for c in summary.tool_calls],
        "stop_reason": {"kind": stop.kind.value, "raw": stop.raw} if stop else None,
        "usage": msgspec.to_builtins(counts),
        "error": {"code": _code(error.code), "message": error.message} if error else None,
        "truncated": summary.truncated,
    }


def _gather(gathered: _Gathered, event: ResponseEvent) -> None:
    match event:
        case TextDelta(choice=0):
            gathered.text.append(event.text)
        case ThinkingDelta(choice=0):
            gathered.thinking.append(event.text)
        case RefusalDelta(choice=0):
            gathered.refusal.append(event.text)
        case BlockStart(choice=0):
            gathered.starts[event.index] = event
        case InputJsonDelta():
            gathered.arguments.setdefault(event.index, []).append(event.text)
        case InputValueDelta():
            gathered.values.setdefault(event.index, []).append(event)
        case SignatureDelta():
            gathered.signatures[event.index] = event.signature
        case BlockAbort():
            gathered.aborted.add(event.index)
        case _:
            pass


def _code(code: str | None) -> str | int | None:
    """The code as the wire has it: one of digits alone came as a number."""
    return int(code) if code is not None and code.isdecimal() else code


def _calls(gathered: _Gathered, block_type: BlockType) -> tuple[CalledTool, ...]:
    return tuple(
        CalledTool(
            wire_id(start.metadata.id),
            start.metadata.name,
            _arguments(gathered, index),
            index in gathered.aborted,
            start.metadata.is_free_text,
        )
        for index, start in gathered.starts.items()
        if start.block_type is block_type and isinstance(start.metadata, ToolUseMetadata)
    )


def _arguments(gathered: _Gathered, index: int) -> str:
    values = gathered.values.get(index)
    if values:
        return msgspec.json.encode(assemble_arguments(values)).decode()
    return "".join(gathered.arguments.get(index, ()))


def _type(start: BlockStart) -> str:
    echoed = start.echo.get("type") if start.echo else None
    if isinstance(echoed, str):
        return echoed
    if isinstance(start.metadata, OpaqueMetadata):
        return start.metadata.kind
    if isinstance(start.metadata, ToolResultMetadata) and start.metadata.name:
        return start.metadata.name
    return start.block_type.value


__all__ = ["CalledTool", "Summary", "summarise", "to_json"]
