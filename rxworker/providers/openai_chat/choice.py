"""One choice of a Chat Completions stream: text, thinking, refusals and calls, as blocks with indexes of our own.

The wire has no blocks. Adjacent text becomes one block; thinking or a call ends it. Calls stay open until the choice
ends, since their pieces may alternate. OpenRouter's reasoning details are collected from their pieces, to be sent back.

Tool calls arrive in pieces, and are distinguished by whatever the server sends. By the protocol a piece names its call
with ``index``, and the first piece of a call has id and name. Compatible servers leave the index out, send 0 for every
call, send ids again or empty, or send each call in one piece. The rules:

- A piece with an index belongs to the call of that index. If it has another id together with a name, it begins a new
  call, provided that the call so far may be complete: its name is another, or its arguments are complete or not JSON,
  or neither it nor the piece has any. Otherwise the server repeats the name in every piece.
- A piece without an index belongs to the call of its id; a new id begins a new call; without an id it belongs to the
  last one.
- A piece without an id, but with a name and arguments that are complete by themselves, begins a new call if the call it
  would belong to has arguments already.
- A piece whose arguments begin where those of a call with an id are complete begins this call again; see
  `rxworker.providers.block_factory`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec
from msgspec import Struct

from rxworker.events import (
    BlockType,
    CitationDelta,
    InputJsonDelta,
    Opaque,
    RefusalDelta,
    ResponseEvent,
    TextDelta,
    ThinkingDelta,
    ToolUseMetadata,
)
from rxworker.events.arguments import parse_arguments
from rxworker.messages import Json, JsonObject, StopReason
from rxworker.messages.json_reader import JsonReader
from rxworker.messages.lenient_json import as_object, json_text, objects_in, word
from rxworker.providers.block_factory import BlockFactory
from rxworker.providers.finish_reasons import NORMAL, known_kind
from rxworker.providers.openai_chat.wire import Calls, WireChoice, WireDelta, WireFunction, WireToolCall, read_stop
from rxworker.providers.takes import made_id

Emit: TypeAlias = Callable[[ResponseEvent], None]

NO_FUNCTION = WireFunction()
TOOL_USE = BlockType.TOOL_USE
CUSTOM = "custom"
FREE_TEXT: JsonObject = {"type": CUSTOM}
"""What is kept of a call of a tool with free text."""
NULL = "null"  # how Groq writes the arguments of a call without any


class PendingCall(Struct, eq=False):
    """One call. It starts as a block when its name is known; what comes before that waits.

    Attributes:
        wire_id: The id that the server sent, empty if none.
        name: The tool's name, empty while unknown.
        index: The index of its block; ``None`` before the start.
        pieces: Of its arguments.
        echo: Content that the server requires back.
        started_echo: The part of it that was emitted with the start of the block.
        reader: Reads its arguments; made when their completeness is first checked.
        read: How many of the pieces it has read.
    """

    wire_id: str = ""
    name: str = ""
    index: int | None = None
    pieces: list[str] = []
    echo: JsonObject | None = None
    started_echo: JsonObject | None = None
    reader: JsonReader | None = None
    read: int = 0

    def is_whole(self) -> bool:
        """Whether nothing more can belong to the arguments: they are whole, or not JSON.

        Each piece is read once at most.
        """
        reader = self.reader = self.reader or JsonReader()
        for piece in self.pieces[self.read :]:
            reader.feed(piece)
        self.read = len(self.pieces)
        is_null = len(self.pieces) <= len(NULL) and "".join(self.pieces).strip() == NULL
        return reader.is_complete or reader.is_broken or is_null

    def is_json(self) -> bool:
        """Whether the arguments are whole JSON."""
        return isinstance(parse_arguments("".join(self.pieces)), dict)

    def begins_again(self, text: str) -> bool:
        """Whether arguments that follow are those of this call, sent again: nothing can follow an object that is whole.

        Some servers send an empty object before the first piece.
        """
        begins = text.lstrip()[:1] in ("{", "n") and self.wire_id and self.echo != FREE_TEXT
        if not (begins and self.is_whole() and self.is_json()):
            return False
        return _is_whole(text) or "".join(self.pieces).strip() != "{}"


class ToolCalls:
    """The calls of one choice.

    Args:
        blocks: Opens blocks.
        choice: The index of the choice with the calls.
        emit: Receives each event.
    """

    def __init__(self, blocks: BlockFactory, choice: int, emit: Emit) -> None:
        self._blocks = blocks
        self._choice = choice
        self._emit = emit
        self._by_index: dict[int, PendingCall] = {}
        self._by_id: dict[str, PendingCall] = {}
        self._last: PendingCall | None = None
        self._open: list[PendingCall] = []
        self._closed = Calls()  # those that were open when the choice ended

    @property
    def have_come(self) -> bool:
        """Whether a call has begun."""
        return bool(self._open) or self._closed.named

    def grow(self, index: int, texts: list[str]) -> InputJsonDelta | None:
        """Add to the arguments of the call of this index, and return the delta of the first piece.

        ``None`` if its block is not open, or the arguments may begin again.
        """
        call = self._by_index.get(index)
        if call is None or call.index is None or (call.pieces and texts[0][0] == "{"):
            return None
        call.pieces += texts
        self._last = call
        return InputJsonDelta(call.index, texts[0])

    def take(self, piece: WireToolCall) -> None:
        """A piece of a call: perhaps a start, perhaps arguments."""
        function = piece.function or NO_FUNCTION
        if piece.custom is not None:
            function = WireFunction(piece.custom.name, piece.custom.input)
        text = function.arguments
        if type(text) is not str:
            text = json_text(text)
        call = self._find(piece, function, text)
        call.wire_id = call.wire_id or piece.id or ""
        if piece.extra_content or piece.thought_signature or piece.thoughtSignature or piece.provider_specific_fields:
            call.echo = (call.echo or {}) | piece.sealed()
        elif piece.custom is not None:
            call.echo = FREE_TEXT
        if text:
            call.pieces.append(text)
        if call.index is None:
            call.name = function.name or call.name
            if call.name:
                self._start(call)
        elif text:
            self._emit(InputJsonDelta(call.index, text))

    def close(self, stop: StopReason | None, *, runs: bool, raw: str | None) -> None:
        """The choice ended: the calls stop if they are whole, else they are aborted.

        One that names no tool never was a block.
        """
        if not self._open:
            return
        if not runs:
            self._closed = Calls(nameless=self._closed.nameless, whole=False)
        for call in self._open:
            index = call.index
            if index is None:
                text = "".join(call.pieces)
                self._emit(Opaque("tool_call", {"id": call.wire_id, "arguments": text}))
            elif runs:
                self._emit(self._blocks.stop(index, stop, None if call.echo == call.started_echo else call.echo))
            else:
                self._emit(self._blocks.abort(index, f"the response was cut: {raw}"))
        self._open = []
        self._by_index, self._by_id, self._last = {}, {}, None

    def outcome(self, *, is_certain: bool) -> Calls:
        """The properties of the calls that decide why the choice ended.

        Args:
            is_certain: Whether the server reports that the calls are complete, so that their arguments need not be
                read.
        """
        calls, before = self._open, self._closed
        if calls:
            self._closed = Calls(
                named=before.named or any(call.name for call in calls),
                nameless=before.nameless or not all(call.name for call in calls),
                whole=before.whole and (is_certain or all(call.is_json() for call in calls)),
            )
        return self._closed

    def _find(self, piece: WireToolCall, function: WireFunction, text: str) -> PendingCall:
        known: PendingCall | None
        if piece.index is not None:
            known = self._by_index.get(piece.index)
        else:
            known = self._by_id.get(piece.id) if piece.id else self._last
        if known is None or _is_another(known, piece, function, text):
            known = PendingCall()
            self._open.append(known)
        elif known.pieces and known.begins_again(text):
            known = PendingCall(known.wire_id, known.name)
            self._open.append(known)
        if piece.index is not None:
            self._by_index[piece.index] = known
        if piece.id:
            self._by_id[piece.id] = known
        self._last = known
        return known

    def _start(self, call: PendingCall) -> None:
        metadata = ToolUseMetadata(call.wire_id or made_id(), call.name, call.echo == FREE_TEXT)
        start = self._blocks.start(TOOL_USE, metadata, call.echo, choice=self._choice)
        index = start.index
        call.index, call.started_echo = index, call.echo
        self._emit(start)
        if call.pieces:
            self._emit(InputJsonDelta(index, "".join(call.pieces)))


def _is_another(known: PendingCall, piece: WireToolCall, function: WireFunction, text: str) -> bool:
    """Whether a piece is of another call than the one that it would belong to."""
    if not function.name:
        return False
    has_other_id = piece.id and known.wire_id not in ("", piece.id)
    if piece.index is not None and has_other_id and _begins_anew(known, function.name, text):
        return True
    return not piece.id and bool(known.pieces) and _is_whole(text)


def _begins_anew(known: PendingCall, name: str, text: str) -> bool:
    """Whether a piece under the same index, with another id, is the beginning of another call."""
    if known.name and known.name != name:
        return True
    return known.is_whole() if known.pieces else bool(known.name and not text)


def _is_whole(text: str) -> bool:
    try:
        value: Json = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return value is None or isinstance(value, dict)


def merge_details(details: Iterable[JsonObject]) -> list[Json]:
    """The details with the pieces of one joined: those that follow each other and name the same.

    >>> merge_details([{"type": "reasoning.text", "text": "a"}, {"type": "reasoning.text", "text": "b"}])
    [{'type': 'reasoning.text', 'text': 'ab'}]
    """
    groups: list[list[JsonObject]] = []
    for detail in details:
        if groups and _same(groups[-1][0], detail):
            groups[-1].append(detail)
        else:
            groups.append([detail])
    return [_join(group) for group in groups]


def _same(first: JsonObject, next_: JsonObject) -> bool:
    kind = next_.get("type")
    if not isinstance(kind, str) or kind == "reasoning.encrypted":
        return False
    return all(
        first.get(key) == next_.get(key) or (key == "id" and None in (first.get(key), next_.get(key)))
        for key in ("type", "index", "id")
    )


def _join(group: list[JsonObject]) -> JsonObject:
    if len(group) == 1:
        return group[0]
    joined: JsonObject = {}
    for detail in group:
        joined |= {k: v for k, v in detail.items() if v is not None or k not in joined}
    for field in ("text", "summary"):
        if field in joined:
            joined[field] = "".join(word(detail.get(field)) for detail in group)
    return joined


# The encoder finds this in the echo of thinking that must be sent back under its name.
FIELD = "field"
REASONING_CONTENT = "reasoning_content"
REASONING = "reasoning"
DETAILS = "reasoning_details"

NO_REASON = WireChoice()
TEXT = BlockType.TEXT
DELTAS = {TEXT: TextDelta, BlockType.THINKING: ThinkingDelta, BlockType.REFUSAL: RefusalDelta}


class Choice:
    """The open blocks of a choice, and how it ended.

    Args:
        index: The choice's number.
        blocks: Opens blocks; shared by all choices.
        emit: Receives each event.

    Attributes:
        ended: Whether its finish reason has come.
        stop: Why it ended.
        tools: Its calls.
        text: The index of its open text block, if text is what is open.
    """

    def __init__(self, index: int, blocks: BlockFactory, emit: Emit) -> None:
        self.index = index
        self.ended = False
        self.stop: StopReason | None = None
        self.text: int | None = None
        self._blocks = blocks
        self._emit = emit
        self.tools = ToolCalls(blocks, index, emit)
        self._open_text: int | None = None
        self._kind = TEXT
        self._kinds: set[BlockType] = set()  # of the blocks that have begun, without calls
        self._reason = NO_REASON
        self._refused = False
        self._details: list[JsonObject] = []
        self._owes_reasoning = False  # an empty one was received, and must be echoed with calls

    def grow(self, call: int | None, texts: list[str]) -> TextDelta | InputJsonDelta | None:
        """Add to the open text, or to an open call; ``None`` if there is none, or something has to be closed first.

        Args:
            call: The number of the call; ``None`` for the text.
            texts: What is added, in pieces.

        Returns:
            The delta of the first piece.
        """
        if call is not None:
            is_free = self._open_text is None and not self._owes_reasoning
            return self.tools.grow(call, texts) if is_free else None
        return None if self.text is None else TextDelta(self.text, texts[0], self.index)

    def take(self, wire: WireChoice) -> None:
        """A piece of the choice."""
        delta = wire.delta
        if wire.message is not None:
            if delta is not None:
                self._take_delta(delta)
            delta = self._new_in(wire.message)
        if delta is not None:
            self._take_delta(delta)
        elif wire.content_filter_offsets is not None:
            self._emit(Opaque("content_filter", {"choice": wire.index, "offsets": wire.content_filter_offsets}))
        if wire.finish_reason:  # some servers send an empty one with every piece
            self._reason = wire
            self.end()

    def end(self) -> None:
        """The choice ended, or the response did; a second time changes nothing, unless calls came after the reason."""
        raw = self._reason.finish_reason  # some servers never send one
        calls = self.tools.outcome(is_certain=raw is None or known_kind(raw) in NORMAL)
        self.stop = read_stop(self._reason, calls, refused=self._refused)
        self.ended = self.ended or raw is not None
        if self._open_text is not None:
            self._close_prose()
        reason = self.stop if self.index else None
        self.tools.close(reason, runs=self.stop is None or self.stop.kind in NORMAL, raw=raw)

    def _new_in(self, whole: WireDelta) -> WireDelta:
        """The new part of a choice that the server sends whole, perhaps after its pieces. A call is found by its id."""
        came, calls = self._kinds, self.tools.have_come
        if not (came or calls):
            return whole
        thinks = BlockType.THINKING in came
        return WireDelta(
            content=None if TEXT in came else whole.content,
            refusal=None if BlockType.REFUSAL in came else whole.refusal,
            reasoning_content=None if thinks else whole.reasoning_content,
            reasoning=None if thinks else whole.reasoning,
            reasoning_details=None if thinks else whole.reasoning_details,
            tool_calls=[call for call in whole.tool_calls or () if call.id or not calls],
        )

    def _take_delta(self, delta: WireDelta) -> None:
        if delta.reasoning_content is not None or delta.reasoning or delta.reasoning_details:
            self._take_thinking(delta)
        content = delta.content
        if isinstance(content, str):
            self._say(TEXT, content)
        elif content is not None:
            for part in content:
                self._take_part(part)
        if delta.refusal:
            self._refused = True
            self._say(BlockType.REFUSAL, delta.refusal)
        for annotation in delta.annotations or ():
            if self.text is not None:
                self._emit(CitationDelta(self.text, annotation))
            else:
                self._emit(Opaque("annotation", annotation))
        pieces = delta.tool_calls or ()
        if delta.function_call is not None:
            pieces = (*pieces, WireToolCall(function=delta.function_call))
        if pieces:
            if self._open_text is not None or self._owes_reasoning:
                self._make_way()
            for piece in pieces:
                self.tools.take(piece)
        if delta.audio is not None or delta.images is not None or delta.executed_tools is not None:
            self._take_media(delta)

    def _take_media(self, delta: WireDelta) -> None:
        """Speech, whose transcript is the text of the answer; pictures; and what Groq's own tools did."""
        audio: Json = delta.audio
        if isinstance(audio, dict) and isinstance(transcript := audio.get("transcript"), str):
            self._say(TEXT, transcript)
        for field in ("audio", "executed_tools"):
            if getattr(delta, field):
                self._emit(Opaque(field, getattr(delta, field)))
        images: Json = delta.images
        for image in images if isinstance(images, list) else [images] if images else ():
            if isinstance(image, dict) and as_object(image.get("image_url")).get("url"):
                self._close_prose()
                start = self._blocks.start(BlockType.IMAGE, echo=image, choice=self.index)
                self._emit(start)
                self._emit(self._blocks.stop(start.index))
            else:
                self._emit(Opaque("images", image))

    def _take_thinking(self, delta: WireDelta) -> None:
        details = delta.reasoning_details
        text = delta.reasoning_content or delta.reasoning
        if not text and details:
            text = "".join(word(detail.get("text") or detail.get("summary")) for detail in details)
        if delta.reasoning_content is not None and not text and self._open_text is None:
            self._owes_reasoning = True
        if not text and not details:
            return
        echo: JsonObject | None = None
        if delta.reasoning_content is not None:
            echo = {FIELD: REASONING_CONTENT}
            self._owes_reasoning = False
        elif not details:
            echo = {FIELD: REASONING}
        self._open(BlockType.THINKING, echo)
        self._details += details or ()
        self._say(BlockType.THINKING, text or "")

    def _take_part(self, part: JsonObject | str) -> None:
        """One part of Mistral's content."""
        if isinstance(part, str):
            self._say(TEXT, part)
            return
        kind, inner = part.get("type"), part.get("thinking")
        text = part.get("text")
        if kind == "text" and isinstance(text, str):
            self._say(TEXT, text)
        elif kind == "thinking" and isinstance(inner, str):
            self._say(BlockType.THINKING, inner)
        elif kind == "thinking" and isinstance(inner, list):
            for one in objects_in(inner):
                self._say(BlockType.THINKING, word(one.get("text")))
        else:
            self._emit(Opaque(f"content.{kind}", part))

    def _make_way(self) -> None:
        """Calls follow: the open text ends, and thinking that must be echoed is emitted before them."""
        self._close_prose()
        if self._owes_reasoning:
            self._owes_reasoning = False
            self._open(BlockType.THINKING, {FIELD: REASONING_CONTENT})
            self._close_prose()

    def _say(self, kind: BlockType, text: str) -> None:
        if not text:
            return
        self._open(kind)
        if self._open_text is not None:
            self._emit(DELTAS[kind](self._open_text, text, self.index))

    def _open(self, kind: BlockType, echo: JsonObject | None = None) -> None:
        if self._open_text is not None and self._kind is kind:
            return
        self._close_prose()
        start = self._blocks.start(kind, echo=echo, choice=self.index)
        self._open_text, self._kind = start.index, kind
        self._kinds.add(kind)
        self.text = start.index if kind is TEXT else None
        self._emit(start)

    def _close_prose(self) -> None:
        if self._open_text is None:
            return
        echo: JsonObject | None = None
        if self._details:
            echo, self._details = {DETAILS: merge_details(self._details)}, []
        # Of several choices, only the first one's reason is reported at the end of the response.
        stop = self.stop if self.index else None
        self._emit(self._blocks.stop(self._open_text, stop, echo))
        self._open_text = self.text = None
