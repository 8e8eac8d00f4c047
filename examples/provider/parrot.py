"""Parrot: a small protocol as a provider of your own.

docs/how-to/add-a-provider.md describes the protocol, which has a line of JSON at a time, and the parts below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct, field

from rxworker.errors import ProviderError
from rxworker.events import (
    BlockType,
    InputJsonDelta,
    Opaque,
    ResponseEvent,
    ResponseStatus,
    Status,
    TextDelta,
    ToolUseMetadata,
    Usage,
)
from rxworker.messages import (
    Conversation,
    Counts,
    Json,
    JsonObject,
    Message,
    StopKind,
    StopReason,
    Text,
    ToolCall,
    ToolMeta,
    ToolResult,
)
from rxworker.providers.kit import (
    CUT,
    BatchDecoder,
    BlockFactory,
    Failure,
    HttpRequest,
    NdjsonDecoder,
    Options,
    ResponseDecoder,
    arguments,
    base_address,
    checked_headers,
    current_secrets,
    endpoint,
    explain,
    read_failure,
    read_json,
    read_key,
    unreadable,
)


class WireDo(Struct, frozen=True):
    """A call of a tool, whole."""

    id: str
    name: str
    arguments: JsonObject = field(name="with", default_factory=dict[str, Json])


class WireLine(Struct, frozen=True):
    """One line."""

    say: str | None = None
    do: WireDo | None = None
    end: str | None = None
    spent: tuple[int, int] | None = None
    oops: Json = None


decode_line = msgspec.json.Decoder(WireLine).decode


STOPS = {"ok": StopKind.END_TURN, "full": StopKind.MAX_TOKENS}


def read_stop(raw: str, *, called: bool) -> StopReason:
    kind = STOPS.get(raw)
    if called and kind in (None, StopKind.END_TURN):
        kind = StopKind.TOOL_USE
    return StopReason(kind or StopKind.OTHER, raw)


class ParrotDecoder:
    """Lines to events, for one response."""

    def __init__(self) -> None:
        self.blocks = BlockFactory()
        self._text: int | None = None  # the open block
        self._called = self._started = self._broken = self._over = False

    def feed(self, line: bytes, /) -> Sequence[ResponseEvent]:
        """Return the events of a line."""
        if self._over:
            return ()
        if self._broken:
            return self._fail(Failure("Parrot sent JSON that cannot be read", "bad_json", "server"))
        try:
            wire = decode_line(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return self._take_odd(line)
        return list(self._take(wire, line))

    def finish(self) -> Sequence[ResponseEvent]:
        """Return what follows from the end of the bytes."""
        return () if self._over else self._fail(CUT)

    def _take(self, wire: WireLine, line: bytes) -> Iterator[ResponseEvent]:
        if wire.oops:
            yield from self._fail(read_failure({"error": wire.oops}) or CUT)
            return
        if not self._started:
            self._started = True
            yield Status(ResponseStatus.STARTED)
        if wire.say:
            yield from self._say(wire.say)
        elif wire.do:
            yield from self._do(wire.do)
        elif wire.end:
            yield from self._end(wire.end, wire.spent)
        else:
            yield Opaque("line", read_json(line))

    def _say(self, text: str) -> Iterator[ResponseEvent]:
        if self._text is None:
            start = self.blocks.start(BlockType.TEXT)
            self._text = start.index
            yield start
        yield TextDelta(self._text, text)

    def _do(self, do: WireDo) -> Iterator[ResponseEvent]:
        yield from self._close_text()
        self._called = True
        start = self.blocks.start(BlockType.TOOL_USE, ToolUseMetadata(do.id, do.name))
        yield start
        yield InputJsonDelta(start.index, msgspec.json.encode(do.arguments).decode())
        yield self.blocks.stop(start.index)

    def _close_text(self) -> Iterator[ResponseEvent]:
        if self._text is not None:
            yield self.blocks.stop(self._text)
            self._text = None

    def _end(self, raw: str, spent: tuple[int, int] | None) -> Iterator[ResponseEvent]:
        self._over = True
        yield from self._close_text()
        if spent:
            yield Usage(*spent, raw={"spent": list(spent)})
        stop = read_stop(raw, called=self._called)
        yield Status(ResponseStatus.COMPLETED, stop_reason=stop)

    def _fail(self, failure: Failure) -> Sequence[ResponseEvent]:
        self._over = True
        return self.blocks.fail(failure)

    def _take_odd(self, line: bytes) -> Sequence[ResponseEvent]:
        """A line that does not fit. Half a line at the very end is a stream that was cut."""
        raw = read_json(line)
        if raw is None and unreadable(line):
            self._broken = True
            return ()
        return [Opaque("line", line.decode("utf-8", "replace") if raw is None else raw)]


NAME = "parrot"
WHO = {"system": "app", "user": "you", "assistant": "me"}


def encode(model: str, conversation: Conversation, tools: Sequence[ToolMeta], options: Options) -> JsonObject:
    turns = [turn for message in conversation.messages for turn in encode_message(message)]
    if conversation.system:
        turns.insert(0, {"who": "app", "say": conversation.system})
    body: JsonObject = {"model": model, "turns": list(turns)}
    if tools:
        body["tools"] = [{"name": tool.name, "takes": tool.input_schema} for tool in tools]
    if options.max_tokens is not None:
        body["most"] = options.max_tokens
    return body | options.extra


def encode_message(message: Message) -> Iterator[JsonObject]:
    for block in message.content:
        match block:
            case Text(text) if text:
                yield {"who": WHO[message.role], "say": text}
            case ToolCall(id, name):
                yield {"who": "me", "do": {"id": id, "name": name, "with": arguments(block)}}
            case ToolResult(tool_use_id):
                yield {"who": "tool", "did": tool_use_id, "say": block.text}
            case _:
                pass


KEY = "PARROT_API_KEY"
STREAM = "application/x-ndjson"


class Parrot:
    """A model that speaks the Parrot protocol."""

    def __init__(self, model: str, *, api_key: str | None = None, base_url: str | None = None) -> None:
        self._model = model
        self._api_key = api_key
        self._base_url = base_url

    @property
    def name(self) -> str:
        """The name of the provider."""
        return NAME

    @property
    def model(self) -> str:
        """The name of the model."""
        return self._model

    def request(self, conversation: Conversation, tools: Sequence[ToolMeta], options: Options) -> HttpRequest:
        """Encode a request."""
        base = base_address(self._base_url, "PARROT_BASE_URL", "https://parrot.example.com")
        headers = {"content-type": "application/json", "accept": STREAM}
        key = read_key(self._api_key, KEY, needed=self._base_url is None)
        if key:
            headers["authorization"] = f"Bearer {key}"
        body = msgspec.json.encode(encode(self._model, conversation, tools, options))
        headers |= checked_headers(options.headers)
        return HttpRequest(endpoint(base, "/say"), headers, body, accept=(STREAM,))

    def decoder(self) -> ResponseDecoder:
        """Make the decoder of a response."""
        return BatchDecoder(NdjsonDecoder(), ParrotDecoder())

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """Explain an answer that is not a stream."""
        secrets = current_secrets(self._api_key, KEY)
        return explain(NAME, status, headers, body, model=self._model, variable=KEY, secrets=secrets)

    def counts(self, usage: Usage) -> Counts:
        """The usage as Parrot counts it."""
        return Counts(usage.input_tokens, usage.output_tokens)
