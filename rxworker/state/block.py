"""The state of a block and the step to the next, the content that it makes, and which blocks are open. Pure.

Theory of operation. A state is never changed, so adding to what has grown must not copy it. `Pieces` is a list that is
only ever added to, and is a value all the same: a link to the pieces before it and one more, so that adding makes one
object and shares the rest. Whatever walks along the links does so in a loop, since a chain may be as long as a
response; Python itself takes care of freeing one.

A block is known by its index. The first event of an index opens its block, a stop or an abort ends it, and then the
index may open again. Three events end blocks beside their own stop or abort, as if an abort of each came just before: a
start at the index of an open block; a ``Status(STARTED)`` that is not the first status of the response, which begins
the response anew; a request that begins or is retracted. What came before the first status of a response belongs to it.
The timeline, the operators, the views and the state of a response share this rule: `OpenBlocks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rxworker import events
from rxworker.events.arguments import REFUSED, assemble_arguments, parse_arguments
from rxworker.events.block import BlockMetadata, OpaqueMetadata, ToolResultMetadata
from rxworker.events.kinds import TextDeltas, start_of
from rxworker.messages import Json, JsonObject, StopReason, content

C = TypeVar("C")
B = TypeVar("B")


class Pieces(Struct, Generic[C], frozen=True, eq=False):
    """An immutable list that is added to in constant time. Pieces of text are equal when they make the same text.

    Attributes:
        count: How many there are; for the paths where ``len`` is too dear.

    >>> some = Pieces[str]().add("a").add("b")
    >>> some.add("c"), some.add("d"), len(some)
    (Pieces(['a', 'b', 'c']), Pieces(['a', 'b', 'd']), 2)
    """

    _before: Pieces[C] | None = None
    _last: C | None = None
    count: int = 0

    def add(self, piece: C) -> Pieces[C]:
        """The list with one more piece at its end."""
        return Pieces(self, piece, self.count + 1)

    def to_list(self) -> list[C]:
        """The pieces, in order."""
        pieces: list[C] = []
        node = self
        while node._before is not None:
            pieces.append(node._last)  # pyright: ignore[reportArgumentType] - only the empty list has none
            node = node._before
        pieces.reverse()
        return pieces

    def __iter__(self) -> Iterator[C]:
        return iter(self.to_list())

    def __len__(self) -> int:
        return self.count

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pieces):
            return NotImplemented
        return self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def _content(self) -> str | tuple[object, ...]:
        # How a text was cut on its way has no meaning: deltas may have been merged.
        pieces: tuple[object, ...] = tuple(self.to_list())
        texts = [piece for piece in pieces if isinstance(piece, str)]
        return "".join(texts) if len(texts) == len(pieces) else pieces

    def __repr__(self) -> str:
        return f"Pieces({self.to_list()!r})"


def joined(pieces: Pieces[str]) -> str:
    """The text that the pieces make.

    >>> joined(Pieces[str]().add("hel").add("lo"))
    'hello'
    """
    if pieces.count == 1:  # most texts are merged before they come here
        return pieces._last or ""
    return "".join(pieces.to_list())


def packed(pieces: Pieces[str]) -> Pieces[str]:
    """The text in one piece: it is joined once, and the pieces are freed."""
    return NO_TEXT.add(joined(pieces))


NO_TEXT: Pieces[str] = Pieces()


BlockPhase: TypeAlias = Literal["open", "stopped", "aborted"]
"""Where a block stands."""


class BlockState(Struct, frozen=True):
    """A block so far. A value: a step makes another.

    Attributes:
        index: Its name within the response.
        block_type: The type of its content.
        metadata: Which tool or result.
        choice: The index of its choice, if a response has several choices.
        phase: Whether it is ``open``, ``stopped`` or ``aborted``.
        text: The pieces of its text, thoughts, refusal, or of the JSON text of its arguments.
        values: Its arguments, where they come by path.
        signature: The provider's seal on it.
        citations: The sources of its text.
        echo: Content that the provider requires back: that of the start, overridden by that of the stop.
        stop_reason: Why its choice ended, if the protocol reports it with the block.
        reason: Why it was aborted. Shown to users; not interpreted.
    """

    index: int
    block_type: events.BlockType
    metadata: BlockMetadata | None = None
    choice: int = 0
    phase: BlockPhase = "open"
    text: Pieces[str] = Pieces()
    values: Pieces[events.InputValueDelta] = Pieces()
    signature: str | None = None
    citations: Pieces[JsonObject] = Pieces()
    echo: JsonObject | None = None
    stop_reason: StopReason | None = None
    reason: str = ""


def step_block(state: BlockState | None, event: events.BlockEvent) -> BlockState:
    """The block after one of its events.

    Args:
        state: The block before it; ``None`` for the first event, which need not be a start.
        event: The event. Deltas that do not belong to such a block change nothing; a start begins another block.

    >>> state = step_block(step_block(None, events.TextDelta(0, "hel")), events.TextDelta(0, "lo"))
    >>> step_block(state, events.BlockStop(0, events.BlockType.TEXT)).text
    Pieces(['hello'])
    """
    if state is None or type(event) is events.BlockStart:
        start = event if type(event) is events.BlockStart else start_of(event)
        state = BlockState(start.index, start.block_type, start.metadata, start.choice, echo=start.echo)
        if event is start:
            return state
    return _STEPS[event.__class__](state, event)


def step_texts(state: BlockState | None, like: TextDeltas, texts: list[str]) -> BlockState:
    """The block after several deltas, one after the other: the same as `step_block` for each of them.

    Args:
        state: The block before them; ``None`` for the first ones.
        like: One of the deltas, which are all of one sort.
        texts: The texts that these add.
    """
    if state is None:
        state = step_block(None, start_of(like))
    if state.block_type not in HOLDS[like.__class__]:
        return state
    return replace(state, text=state.text.add("".join(texts)))


def _text(state: BlockState, event: TextDeltas) -> BlockState:
    return step_texts(state, event, [event.text])


def _input_value(state: BlockState, event: events.InputValueDelta) -> BlockState:
    if state.block_type in HOLDS[events.InputJsonDelta]:
        return replace(state, values=state.values.add(event))
    return state


def _signature(state: BlockState, event: events.SignatureDelta) -> BlockState:
    return replace(state, signature=event.signature)


def _citation(state: BlockState, event: events.CitationDelta) -> BlockState:
    return replace(state, citations=state.citations.add(event.citation))


def _stop(state: BlockState, event: events.BlockStop) -> BlockState:
    return replace(
        state,
        phase="stopped",
        text=state.text if state.text.count < 2 else packed(state.text),
        metadata=event.metadata or state.metadata,
        echo=event.echo if state.echo is None else {**state.echo, **(event.echo or {})},
        stop_reason=event.stop_reason,
    )


def _abort(state: BlockState, event: events.BlockAbort) -> BlockState:
    text = state.text if state.text.count < 2 else packed(state.text)
    return replace(state, phase="aborted", text=text, reason=event.reason)


HOLDS: dict[type[object], frozenset[events.BlockType]] = {
    events.TextDelta: frozenset({events.BlockType.TEXT, events.BlockType.TOOL_RESULT}),
    events.ThinkingDelta: frozenset({events.BlockType.THINKING}),
    events.RefusalDelta: frozenset({events.BlockType.REFUSAL}),
    events.InputJsonDelta: frozenset({events.BlockType.TOOL_USE, events.BlockType.SERVER_TOOL_USE}),
}
"""Which blocks take the text of a delta; others leave it aside."""

_STEPS: dict[type[object], Callable[[BlockState, Any], BlockState]] = {
    events.TextDelta: _text,
    events.ThinkingDelta: _text,
    events.RefusalDelta: _text,
    events.InputJsonDelta: _text,
    events.InputValueDelta: _input_value,
    events.SignatureDelta: _signature,
    events.CitationDelta: _citation,
    events.BlockStop: _stop,
    events.BlockAbort: _abort,
}


def content_of(state: BlockState) -> content.Content | None:
    """The content block that it makes; ``None`` where there is nothing worth keeping.

    Of a block that is not whole, open or aborted, only what can stand by itself is kept: its text or refusal, if there
    is any. Half a thought has no seal, half a call no arguments. The input of a tool call whose text is not a JSON
    object is the text.

    >>> from rxworker.events import BlockStop, BlockType, TextDelta
    >>> from rxworker.state.block import step_block
    >>> state = step_block(step_block(None, TextDelta(0, "hel")), TextDelta(0, "lo"))
    >>> content_of(step_block(state, BlockStop(0, BlockType.TEXT)))
    Text(text='hello', citations=(), echo=None)
    """
    make = _CONTENT.get(state.block_type)
    if make is None or (state.phase != "stopped" and state.block_type not in _KEPT_IN_PART):
        return None
    return make(state)


def _text_content(state: BlockState) -> content.Content | None:
    text, citations, echo = joined(state.text), tuple(state.citations.to_list()), _echo(state)
    has_sources = bool(citations) and state.phase == "stopped"
    return content.Text(text, citations, echo) if text or echo or has_sources else None


def _thinking_content(state: BlockState) -> content.Content | None:
    text = joined(state.text)
    if not text and state.signature is None and state.echo is None:
        return None
    return content.Thinking(text, state.signature, state.echo)


def _refusal_content(state: BlockState) -> content.Content | None:
    text, echo = joined(state.text), _echo(state)
    return content.Refusal(text, echo) if text or echo else None


def _echo(state: BlockState) -> JsonObject | None:
    """What is echoed of a block, if it is whole."""
    return state.echo if state.phase == "stopped" else None


def _arguments(state: BlockState) -> JsonObject | str:
    text = joined(state.text)
    if state.values.count and not text.endswith(REFUSED):
        return assemble_arguments(state.values)
    metadata = state.metadata
    if type(metadata) is events.ToolUseMetadata and metadata.is_free_text:
        return text
    return parse_arguments(text)


def _tool_call(state: BlockState) -> content.Content:
    return content.ToolCall(*call_name(state.metadata), _arguments(state), state.echo)


def _server_tool_call(state: BlockState) -> content.Content:
    value: Json = _arguments(state) if state.text or state.values else None
    if isinstance(value, str):
        value = _any_json(value)
    return content.ServerToolCall(*call_name(state.metadata), value, state.echo)


def _server_tool_result(state: BlockState) -> content.Content:
    return content.ServerToolResult(*_result(state.metadata), state.echo)


def _result_of(state: BlockState) -> content.Content:
    tool_use_id, name = _result(state.metadata)
    return content.ToolResult(tool_use_id, joined(state.text), name=name)


def _image(state: BlockState) -> content.Content:
    return content.Image(echo=state.echo)


def _opaque(state: BlockState) -> content.Content:
    metadata = state.metadata
    kind = metadata.kind if isinstance(metadata, OpaqueMetadata) else ""
    return content.OpaqueBlock(kind, state.echo)


def _any_json(text: str) -> Json:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


def call_name(metadata: BlockMetadata | None) -> tuple[str, str]:
    """The id and name of a call; empty where its start was never seen."""
    return (metadata.id, metadata.name) if type(metadata) is events.ToolUseMetadata else ("", "")


def _result(metadata: BlockMetadata | None) -> tuple[str, str]:
    is_result = isinstance(metadata, ToolResultMetadata)
    return (metadata.tool_use_id, metadata.name) if is_result else ("", "")


_KEPT_IN_PART = frozenset({events.BlockType.TEXT, events.BlockType.REFUSAL})
_CONTENT: dict[events.BlockType, Callable[[BlockState], content.Content | None]] = {
    events.BlockType.TEXT: _text_content,
    events.BlockType.THINKING: _thinking_content,
    events.BlockType.REFUSAL: _refusal_content,
    events.BlockType.TOOL_USE: _tool_call,
    events.BlockType.TOOL_RESULT: _result_of,
    events.BlockType.SERVER_TOOL_USE: _server_tool_call,
    events.BlockType.SERVER_TOOL_RESULT: _server_tool_result,
    events.BlockType.IMAGE: _image,
    events.BlockType.OPAQUE: _opaque,
}


STARTED_AT_ITS_INDEX = "another block has started at its index"
BEGUN_ANEW = "the response has begun anew"
REQUESTED_AGAIN = "the response is requested again"

BORDERS: frozenset[type[object]] = frozenset(
    {events.BlockStart, events.Status, events.AttemptStart, events.AttemptRetract}
)
"""The events that may end other blocks. `OpenBlocks.end_before` has nothing to do for others."""


class OpenBlocks(dict[int, B]):
    """The open blocks by index, in the order in which they opened.

    Its owner adds each, and removes it at its stop or abort.

    >>> from rxworker.events import BlockStart, BlockType
    >>> blocks = OpenBlocks({0: "the first"})
    >>> list(blocks.end_before(BlockStart(0, BlockType.TEXT)))
    [('the first', 'another block has started at its index')]
    >>> blocks
    {}
    """

    has_status = False

    def begin(self) -> None:
        """Another response begins: its first status is still to come."""
        self.has_status = False

    def end_before(self, event: events.Event) -> list[tuple[B, str]]:
        """Remove the blocks that end before this event, and return each with the reason."""
        if isinstance(event, events.BlockStart):
            index = event.index
            return [(self.pop(index), STARTED_AT_ITS_INDEX)] if index in self else []
        reason = self.begins_anew(event)
        return [] if reason is None else self.end_all(reason)

    def begins_anew(self, event: events.Event) -> str | None:
        """Why nothing of the response so far counts after this event; ``None`` where the response goes on.

        Call it once for each event.
        """
        match event:
            case events.Status(status=status):
                again, self.has_status = self.has_status, True
                return BEGUN_ANEW if again and status is events.ResponseStatus.STARTED else None
            case events.AttemptStart():
                self.begin()
                return REQUESTED_AGAIN
            case events.AttemptRetract(reason=reason):
                self.begin()
                return reason
            case _:
                return None

    def end_all(self, reason: str) -> list[tuple[B, str]]:
        """Remove all blocks, and return each with the reason."""
        ended = [(block, reason) for block in self.values()]
        self.clear()
        return ended
