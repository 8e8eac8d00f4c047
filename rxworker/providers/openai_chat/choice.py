"""One choice of a Chat Completions stream: text, thinking, refusals and calls, as blocks with indexes of our own.

The wire has no blocks. Adjacent text becomes one block; thinking or a call ends it. Calls stay open until the choice
ends, since their pieces may alternate. OpenRouter's reasoning details are collected from their pieces, to be sent back.
"""

from __future__ import annotations

from collections.abc import Iterable

from rxworker.events import BlockType, CitationDelta, InputJsonDelta, Opaque, RefusalDelta, TextDelta, ThinkingDelta
from rxworker.messages import Json, JsonObject, StopReason
from rxworker.messages.lenient_json import as_object, objects_in, word
from rxworker.providers.block_factory import BlockFactory
from rxworker.providers.finish_reasons import NORMAL, known_kind
from rxworker.providers.openai_chat.tools import Emit, ToolCalls
from rxworker.providers.openai_chat.wire import WireChoice, WireDelta, WireToolCall, read_stop


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
