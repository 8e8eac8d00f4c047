"""Thinking that a model writes between tags in its text, as blocks of thinking.

Servers that know the template of a model separate its thinking from its text. Others send both as text, and a program
that shows it, or sends it back, has the tags and the thoughts in it.

Theory of operation. A block of text of the source becomes a row of blocks, thinking and text in turn; one that opens
when its first character is known. At most the beginning of a tag is held back, and the blank before the first
character. So what comes out does not depend on how the text was cut. As there may be more blocks than before, those
after them have higher indexes; without a tag each keeps its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from msgspec.structs import replace

from rxworker.errors import ConfigurationError
from rxworker.events import (
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    CitationDelta,
    Event,
    Opaque,
    ResponseStatus,
    Status,
    TextDelta,
    ThinkingDelta,
)
from rxworker.events.block import BlockDelta
from rxworker.operators.decode import decoding
from rxworker.operators.expect import EVENTS, no_event
from rxworker.operators.kernel import Operator
from rxworker.operators.text import is_broken_off
from rxworker.state.open_blocks import STARTED_AT_ITS_INDEX, OpenBlocks

E = TypeVar("E", bound=Event)

TEXT, THINKING = BlockType.TEXT, BlockType.THINKING


def think_tags(tag: str = "think", *, begins_inside: bool = False) -> Operator[E, E]:
    """Make blocks of thinking of what stands between tags in the text.

    Other events pass, with higher indexes after such a block.

        -s-a-----b-c-------e-|     s BlockStart, e BlockStop; a "<think>h", b "m</thi", c "nk>Hi"
        [ think_tags() ]
        ---(S,h)-i-(E,T,t)-F-|     S, E of thinking; h "h", i "m"; T, F of text; t "Hi"

    White space after a tag, and before a tag at the beginning of a text, is dropped. Thinking that is not closed ends
    with its block. The echo of a text with tags, which a provider would receive in its place, is dropped.

    Args:
        tag: The name in the tags: ``think`` for ``<think>`` and ``</think>``.
        begins_inside: Whether the template of the model ends with the opening tag, so that the text of each response
            begins with thinking.

    Raises:
        ConfigurationError: The name is empty.

    >>> from reactivex import of
    >>> from rxworker.operators import text_deltas, thinking_deltas
    >>> events = of(TextDelta(0, "<thi"), TextDelta(0, "nk>hm</think>Hi"))
    >>> events.pipe(think_tags(), thinking_deltas()).subscribe(print) and None
    hm
    >>> events.pipe(think_tags(), text_deltas()).subscribe(print) and None
    Hi
    """
    if not isinstance(cast("object", tag), str) or not tag:
        raise ConfigurationError(f"think_tags({tag!r}): give the name in the tags, such as 'think'")
    return decoding(lambda: _Tags[E](tag, begins_inside), "think_tags(...)", takes_events=True)


@dataclass(slots=True)
class _Open:
    """A block of the source that is open.

    Attributes:
        start: Its start.
        kind: The type of the block that it is now.
        reserved: The index of the first such block, until it opens.
        index: The index of the one that is open.
        held: Text that may be the beginning of a tag.
        skips: Whether white space is dropped.
        has_tags: Whether a tag has come.
        has_text: Whether anything else has come.
    """

    start: BlockStart
    kind: BlockType
    reserved: int | None
    index: int | None = None
    held: str = ""
    skips: bool = False
    has_tags: bool = False
    has_text: bool = False


class _Tags(Generic[E]):
    """Events in, events out."""

    def __init__(self, tag: str, begins_inside: bool) -> None:
        self._tags = {TEXT: f"<{tag}>", THINKING: f"</{tag}>"}  # by what stands before them
        self._begins_inside = begins_inside
        self._response = OpenBlocks[object]()  # knows when it begins anew
        self._forget()

    def _forget(self) -> None:
        self._open: dict[int, _Open] = {}
        self._next = 0
        self._begun: set[int] = set()  # the choices whose text has begun

    def feed(self, data: E) -> Sequence[E]:
        """Take an event; return what it becomes."""
        return [*cast("Iterator[E]", self._take(data))]

    def finish(self) -> Sequence[E]:
        """The text that may have been the beginning of a tag."""
        return [*cast("Iterator[E]", self._end_all())]

    def _take(self, event: Event) -> Iterator[Event]:
        if self._response.begins_anew(event) is not None or is_broken_off(event):
            self._forget()
        elif isinstance(event, BlockStart):
            if before := self._open.pop(event.index, None):
                yield from self._abort(before, STARTED_AT_ITS_INDEX)
            yield from self._begin(event)
            return
        elif isinstance(event, BlockStop | BlockAbort):
            block = self._open.pop(event.index, None)
            if block is None:
                yield event
            elif isinstance(event, BlockStop):
                yield from self._stop(block, event)
            else:
                yield from self._abort(block, event.reason)
            return
        elif isinstance(event, BlockDelta):
            yield from self._take_delta(event)
            return
        elif isinstance(event, Status) and event.status is ResponseStatus.COMPLETED:
            yield from self._end_all()
        elif event.__class__ not in EVENTS:
            raise no_event("think_tags(...)", event)
        yield event

    def _begin(self, start: BlockStart) -> Iterator[Event]:
        block = self._reserve(start)
        if start.block_type is not TEXT:
            yield self._started(block)
            return
        if self._begins_inside and start.choice not in self._begun:
            block.kind, block.skips, block.has_tags, block.has_text = THINKING, True, True, True
        self._begun.add(start.choice)

    def _reserve(self, start: BlockStart) -> _Open:
        index = max(start.index, self._next)
        self._next = index + 1
        block = self._open[start.index] = _Open(start, start.block_type, index)
        return block

    def _started(self, block: _Open) -> BlockStart:
        """Open the next block of a block."""
        index, block.reserved = block.reserved, None
        if index is None:
            index, self._next = self._next, self._next + 1
        block.index = index
        if block.has_tags:
            return BlockStart(index, block.kind, choice=block.start.choice)
        return replace(block.start, index=index)

    def _add(self, block: _Open, text: str) -> Iterator[Event]:
        text, block.held = block.held + text, ""
        while True:
            tag = self._tags[block.kind]
            before, found, after = text.partition(tag)
            if not found:
                break
            if block.has_text or before.strip():
                yield from self._say(block, before)
            if block.index is not None:
                yield BlockStop(block.index, block.kind)
            block.kind, block.index = (TEXT if block.kind is THINKING else THINKING), None
            block.skips = block.has_tags = block.has_text = True
            text = after
        if not (block.has_text or block.skips or text.strip()):
            block.held = text  # a tag may follow
            return
        held = next(n for n in range(len(tag) - 1, -1, -1) if text.endswith(tag[:n]))
        at = len(text) - held
        if not (block.has_text or block.skips or text[:at].strip()):
            at = 0
        block.held = text[at:]
        yield from self._say(block, text[:at])

    def _say(self, block: _Open, text: str) -> Iterator[Event]:
        if block.skips:
            text = text.lstrip()
        if not text:
            return
        block.skips, block.has_text = False, True
        if block.index is None:
            yield self._started(block)
        delta = ThinkingDelta if block.kind is THINKING else TextDelta
        yield delta(cast("int", block.index), text, block.start.choice)

    def _take_delta(self, event: BlockDelta) -> Iterator[Event]:
        block = self._open.get(event.index)
        if block is None and isinstance(event, TextDelta):  # its start was left out
            yield from self._begin(BlockStart(event.index, TEXT, choice=event.choice))
            block = self._open[event.index]
        elif block is None:
            block = self._reserve(BlockStart(event.index, BlockType.OPAQUE))
            block.index, block.reserved = block.reserved, None
        if isinstance(event, TextDelta) and block.start.block_type is TEXT:
            yield from self._add(block, event.text)
            return
        if isinstance(event, CitationDelta) and block.kind is THINKING:
            yield Opaque("citation", event.citation)
            return
        if block.index is None:
            yield self._started(block)
        index = cast("int", block.index)
        yield cast("Event", event if index == event.index else replace(event, index=index))

    def _stop(self, block: _Open, stop: BlockStop) -> Iterator[Event]:
        held, block.held = block.held, ""
        yield from self._say(block, held)
        if block.index is None and (stop.stop_reason is not None or not block.has_tags):
            block.kind = stop.block_type
            yield self._started(block)
        if block.index is not None and not block.has_tags:
            yield replace(stop, index=block.index)
        elif block.index is not None:
            yield BlockStop(block.index, block.kind, stop.stop_reason)

    def _abort(self, block: _Open, reason: str) -> Iterator[Event]:
        if block.index is not None:  # a block that was not opened has shown nothing
            yield BlockAbort(block.index, block.kind, reason)

    def _end_all(self) -> Iterator[Event]:
        """End the texts whose stops were left out."""
        texts = [index for index, block in self._open.items() if block.start.block_type is TEXT]
        for index in texts:
            yield from self._stop(self._open.pop(index), BlockStop(index, TEXT))
