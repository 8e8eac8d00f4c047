"""Tool calls that arrive in pieces, distinguished by whatever the server sends.

By the protocol a piece names its call with ``index``, and the first piece of a call has id and name. Compatible
servers leave the index out, send 0 for every call, send ids again or empty, or send each call in one piece. The rules:

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

from collections.abc import Callable
from typing import TypeAlias

import msgspec
from msgspec import Struct

from rxworker.events import BlockType, InputJsonDelta, Opaque, ResponseEvent, ToolUseMetadata
from rxworker.events.arguments import parse_arguments
from rxworker.messages import Json, JsonObject, StopReason
from rxworker.messages.json_reader import JsonReader
from rxworker.messages.lenient_json import json_text
from rxworker.providers.block_factory import BlockFactory
from rxworker.providers.openai_chat.wire import Calls, WireFunction, WireToolCall
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
