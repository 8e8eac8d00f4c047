"""The text of a response: its pieces as they arrive, re-divided into whole lines or sentences, and without think tags.

A model sends text in pieces that end anywhere. A program that speaks text, or writes it to a line-based log, needs
whole units. `lines` and `sentences` re-divide the deltas of each block: the text of a block stays the same, only the
borders between its deltas move. Text is never joined across the border of a block, across a tool call, or across a
retry.

Servers that know the template of a model separate its thinking from its text. Others send both as text, and a program
that shows it, or sends it back, has the tags and the thoughts in it. `think_tags` makes blocks of thinking of them. A
block of text of the source becomes a row of blocks, thinking and text in turn; one that opens when its first character
is known. At most the beginning of a tag is held back, and the blank before the first character. So what comes out does
not depend on how the text was cut. As there may be more blocks than before, those after them have higher indexes;
without a tag each keeps its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, cast

from msgspec.structs import replace
from reactivex import abc
from reactivex.internal import noop

from rxworker.errors import ConfigurationError
from rxworker.events import (
    AttemptStart,
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    CitationDelta,
    Event,
    Opaque,
    RefusalDelta,
    ResponseStatus,
    Status,
    TextDelta,
    ThinkingDelta,
)
from rxworker.events.block import BlockDelta
from rxworker.events.kinds import Deltas, Parts
from rxworker.framing import Decoder
from rxworker.messages.settings import check_number
from rxworker.operators.decode import decoding, decoding_when_idle
from rxworker.operators.expect import EVENTS, expect_choice, observing, refusal
from rxworker.operators.gate import texts_in
from rxworker.operators.kernel import Ending, Kinds, Operator, Sink, many
from rxworker.state.block import STARTED_AT_ITS_INDEX, OpenBlocks


def text_deltas(choice: int = 0) -> Operator[Event, str]:
    """The pieces of the visible text, as they arrive.

    Also those of a response that is retracted later, and then those of the next one. Where each text counts once, such
    as in a sum, put `committed` before it: ``committed(), text_deltas()``.

        -s-t-t-u-|             s BlockStart, t TextDelta, u Usage
        [ text_deltas() ]
        ---a-b---|

    Args:
        choice: The index of the choice, if a response has several choices.

    >>> from reactivex import of
    >>> from rxworker.events import Ping, TextDelta
    >>> of(Ping(), TextDelta(0, "hel"), TextDelta(0, "lo")).pipe(text_deltas()).subscribe(print) and None
    hel
    lo
    """
    return _texts(TextDelta, choice, "text_deltas()")


def thinking_deltas(choice: int = 0) -> Operator[Event, str]:
    """The pieces of what the model thinks before it speaks.

        -s-k-k-t-|             s BlockStart, k ThinkingDelta, t TextDelta
        [ thinking_deltas() ]
        ---a-b---|

    Args:
        choice: The index of the choice, if a response has several choices.

    >>> from reactivex import of
    >>> of(ThinkingDelta(0, "Hm."), TextDelta(1, "Rain.")).pipe(thinking_deltas()).subscribe(print) and None
    Hm.
    """
    return _texts(ThinkingDelta, choice, "thinking_deltas()")


def text_so_far(choice: int = 0) -> Operator[Event, str]:
    """The visible text of the answer so far, whenever it has changed: what a screen shows.

        -s-t-u-r-a-t-v-|       s BlockStart; t, u, v TextDelta "a", "b", "c"; r AttemptRetract, a AttemptStart
        [ text_so_far() ]
        ---1-2-0---1-3-|       1 "a", 2 "ab", 0 "", 3 "ac"

    A text that is retracted, with its response or its block, is left out at once. The answer of each turn begins anew
    with its first piece. Each item holds the whole text: where a long text is redrawn seldom, put `throttle` after it.

    Args:
        choice: The index of the choice, if a response has several choices.

    >>> from reactivex import of
    >>> of(TextDelta(0, "hel"), TextDelta(0, "lo")).pipe(text_so_far()).subscribe(print) and None
    hel
    hello
    """
    expect_choice("text_so_far", choice)
    return decoding(partial(_TextSoFar, choice), "text_so_far()", takes_events=True)


class _TextSoFar(Decoder[Event, str]):
    """The text of the blocks that have stopped, and of those that are open."""

    def __init__(self, choice: int) -> None:
        self._choice = choice
        self._stopped = self._shown = ""
        self._open: OpenBlocks[str] = OpenBlocks()

    def feed(self, data: Event) -> Sequence[str]:
        if isinstance(data, TextDelta):
            if data.choice != self._choice:
                return ()
            self._open[data.index] = self._open.get(data.index, "") + data.text
        elif isinstance(data, BlockStop):
            self._stopped += self._open.pop(data.index, "")
        elif isinstance(data, BlockStart | BlockAbort):
            self._open.pop(data.index, None)
        elif self._open.begins_anew(data) is not None:
            self._open.clear()
            self._stopped = ""
            if isinstance(data, AttemptStart):  # of the next turn, since another attempt comes after a retraction
                self._shown = ""
        elif data.__class__ not in EVENTS:
            raise refusal("text_so_far()", "events", data)
        text = self._stopped + "".join(self._open.values())
        if text == self._shown:
            return ()
        self._shown = text
        return (text,)


def _texts(wanted: type[TextDelta | ThinkingDelta], choice: int, verb: str) -> Operator[Event, str]:
    expect_choice(verb.removesuffix("()"), choice)
    kinds: Kinds = frozenset({wanted})
    others = EVENTS - kinds

    def make(observer: abc.ObserverBase[str]) -> Sink[Event]:
        push, push_many = observer.on_next, many(observer)
        ending = Ending(observer)

        def refuse(item: object) -> None:
            nonlocal push, push_many
            push = push_many = noop
            ending.on_error(refusal(verb, "events", item))

        # By their very type, since isinstance takes four times as long if it is false.
        def on_next(event: Any) -> None:
            kind = event.__class__
            if kind is wanted:
                if event.choice == choice:
                    push(event.text)
            elif kind not in EVENTS:
                refuse(event)

        def on_many(parts: Parts[Any]) -> None:
            for part in parts:
                kind = part.__class__
                if kind is Deltas:
                    like = part.like
                    if like.__class__ is wanted and like.choice == choice:
                        push_many(part.texts)
                elif kind not in others:
                    on_next(part)

        sink = Sink(on_next, ending.on_error, ending.on_completed, on_many)
        sink.kinds = kinds
        return sink

    return observing(make, verb, takes_events=True)


E = TypeVar("E", bound=Event)

WrittenDelta: TypeAlias = TextDelta | ThinkingDelta | RefusalDelta
"""The deltas that hold prose."""

BlockKey: TypeAlias = tuple[int, type[WrittenDelta]]
"""A block of a response, and which of its texts."""

WRITTEN: tuple[type[WrittenDelta], ...] = (TextDelta, ThinkingDelta, RefusalDelta)


def lines() -> Operator[E, E]:
    r"""Deltas of text that each hold one whole line, with its line break. Other events pass.

        -s-a-b-c-e-|           s BlockStart, e BlockStop; a "an old po", b "nd\na fr", c "og"
        [ lines() ]
        -s---A---(B,e)-|       A "an old pond\n", B "a frog"

    The last line of a block has no line break; it is emitted before the block's ``BlockStop``. A line that is not
    complete when its block is aborted, its response starts again, fails or is cancelled, its attempt is retracted, or
    the source fails is dropped.

    >>> from reactivex import of
    >>> from rxworker.operators import text_deltas
    >>> events = of(TextDelta(0, "an old po"), TextDelta(0, "nd\na fr"), TextDelta(0, "og"))
    >>> events.pipe(lines(), text_deltas()).subscribe(lambda line: print(repr(line))) and None
    'an old pond\n'
    'a frog'
    """
    return decoding(partial(Units[E], _Lines, "lines()"), "lines()", takes_events=True)


def sentences(
    idle: float | None = None, at_least: int = 0, scheduler: abc.SchedulerBase | None = None
) -> Operator[E, E]:
    """Deltas of text that each hold one whole sentence. Other events pass.

        -s-a-b-c-e-|           s BlockStart, e BlockStop; a "Hi. How a", b "re you? ", c "I"
        [ sentences() ]
        -s-A-B---(C,e)-|       A "Hi. ", B "How are you? ", C "I"

    A sentence ends after ``.``, ``!``, ``?`` or ``…``, closing quotes and brackets, and one blank; after ``。``, ``！``
    or ``？`` without one; and at a line break. A full stop after a common English abbreviation, a single letter, or the
    number of a list item ends nothing. What is incomplete at the end of a block is emitted or dropped as by `lines`.

    Args:
        idle: Seconds without an event after which what is there is emitted, though the sentence is not complete.
        at_least: How many characters a delta has: sentences are joined until they have so many.
        scheduler: The scheduler of the timer of ``idle``, by default that of the subscription. It must run on the
            source's thread.

    Raises:
        ConfigurationError: A number is not from 0 up. As ``on_error``: there is no scheduler.

    >>> from reactivex import of
    >>> from rxworker.operators import text_deltas
    >>> events = of(TextDelta(0, "Dr. Who is in. He wa"), TextDelta(0, "its."))
    >>> events.pipe(sentences(), text_deltas()).subscribe(lambda text: print(repr(text))) and None
    'Dr. Who is in. '
    'He waits.'
    """
    check_number("sentences(at_least)", at_least, whole=True)
    units = partial(Units[E], partial(_Sentences, at_least), "sentences()")
    if idle is None:
        return decoding(units, "sentences()", takes_events=True)
    check_number("sentences(idle)", idle, above=0)
    return decoding_when_idle(units, "sentences()", idle, scheduler, takes_events=True)


class Splitter(Protocol):
    """Divides one text, which arrives in pieces."""

    def feed(self, piece: str) -> Sequence[str]:
        """The units that the piece completes."""
        ...

    def finish(self) -> str:
        """The rest of the text; empty if there is none."""
        ...


class Units(Generic[E]):
    """Events in, events out; the deltas of each block are divided anew.

    Args:
        make: Makes what divides one text.
        verb: The operator as it is written, for messages.
        kinds: The deltas that are divided; others pass.
    """

    def __init__(
        self, make: Callable[[], Splitter], verb: str, kinds: tuple[type[WrittenDelta], ...] = WRITTEN
    ) -> None:
        self._make = make
        self._verb = verb
        self._kinds = kinds
        self._open: dict[BlockKey, tuple[WrittenDelta, Splitter]] = {}
        self._response = OpenBlocks[object]()  # knows when it begins anew

    def feed(self, data: E) -> Sequence[E]:
        """Take an event; return what it completes."""
        event: object = data
        if isinstance(event, self._kinds):
            key = (event.index, type(event))
            found = self._open.get(key)
            if found is None:
                found = self._open[key] = (event, self._make())
            like, splitter = found
            return cast(list[E], [with_text(like, unit) for unit in splitter.feed(event.text)])
        if self._response.begins_anew(data) is not None or is_broken_off(event):
            self._forget()
        elif isinstance(event, BlockStart | BlockAbort):
            self._drop(event.index)
        elif isinstance(event, BlockStop):
            rest = self._rest(event.index)
            return [*rest, cast(E, self._stop(event))]
        elif isinstance(event, Status) and event.status is ResponseStatus.COMPLETED:
            return [*self.finish(), data]
        elif event.__class__ not in EVENTS:
            raise refusal(self._verb, "events", event)
        return (data,)

    def finish(self) -> Sequence[E]:
        """The incomplete units of all blocks."""
        return [unit for index in self._indices() for unit in self._rest(index)]

    def _stop(self, event: BlockStop) -> BlockStop:
        return event

    def _indices(self) -> set[int]:
        return {index for index, _ in self._open}

    def _forget(self) -> None:
        self._open.clear()

    def _drop(self, index: int) -> None:
        for kind in WRITTEN:
            self._open.pop((index, kind), None)

    def _rest(self, index: int) -> list[E]:
        """The incomplete units of a block that has ended."""
        ended = [self._open.pop(key) for key in [*self._open] if key[0] == index]
        rests = [(like, splitter.finish()) for like, splitter in ended]
        return cast(list[E], [with_text(like, text) for like, text in rests if text])


def is_broken_off(event: object) -> bool:
    """Whether the response ends with it in another way than completed, which drops what is held of its text."""
    return isinstance(event, Status) and event.status in (ResponseStatus.FAILED, ResponseStatus.CANCELLED)


def with_text(like: WrittenDelta, text: str) -> WrittenDelta:
    """A delta of the same block with another text."""
    return type(like)(like.index, text, like.choice)


MANY = 1000
"""How many different texts of a response are looked for in its echoes."""


class Replaced:
    """The texts of a response that were replaced.

    The echo of a block, which its `BlockStop` carries, must not contain them.

    >>> from rxworker.events import BlockType
    >>> replaced = Replaced()
    >>> replaced.add(0, "hunter2")
    >>> replaced.strip(BlockStop(1, BlockType.TEXT, echo={"item": {"text": "It is hunter2."}})).echo
    >>> replaced.strip(BlockStop(2, BlockType.TEXT, echo={"id": "m1"})).echo
    {'id': 'm1'}
    """

    def __init__(self) -> None:
        self._texts: set[str] = set()
        self._indices: set[int] = set()

    def add(self, index: int, text: str) -> None:
        """A text of this block was replaced."""
        self._indices.add(index)
        if len(self._texts) <= MANY:
            self._texts.add(text)

    def clear(self) -> None:
        """Another response begins."""
        self._texts.clear()
        self._indices.clear()

    def strip(self, stop: BlockStop) -> BlockStop:
        """The end of a block, without an echo that contains such a text."""
        if not self._indices or stop.echo is None:
            return stop
        is_replaced = stop.index in self._indices or len(self._texts) > MANY
        if is_replaced or any(text in each for each in texts_in(stop.echo) for text in self._texts):
            return replace(stop, echo=None)
        return stop


class _Lines:
    """Ends a unit after each line feed."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def feed(self, piece: str) -> Sequence[str]:
        first, *more = piece.split("\n")
        self._pieces.append(first)
        if not more:
            return ()
        whole = ["".join(self._pieces), *more[:-1]]
        self._pieces = [more[-1]]
        return [line + "\n" for line in whole]

    def finish(self) -> str:
        return "".join(self._pieces)


_CLOSING = "\"'”’»)\\]」』）】"
_END = re.compile(
    rf"[.!?…][{_CLOSING}]{{0,4}}\s"  # the blank keeps "3.14" and "example.org" whole
    rf"|[。！？][{_CLOSING}]{{0,4}}(?=[^{_CLOSING}。！？])"
    r"|\n"
)
_PERHAPS = re.compile(rf"[.!?…。！？][{_CLOSING}]{{0,4}}\Z")
"""An end, if the next character is the right one."""
_NO_END = re.compile(
    r"(?:^|[\s(\[\"'“‘«])(?:Mr|Mrs|Ms|Dr|Prof|St|vs|cf|ca|Fig|e\.g|i\.e|approx|[A-HJ-Z])\.\s\Z"
    r"|^\s*\d{1,3}\.\s\Z"
)
"""A full stop that ends no sentence: after an abbreviation, an initial, the number of a list item."""
_WORD = re.compile(r"\S")

_CONTEXT = 16
"""Characters before a full stop that `_NO_END` needs."""


class _Sentences:
    """Ends a unit after a sentence, if it has so many characters.

    Theory of operation. Each place where a sentence may end is decided once, when the character after it is known. Only
    the places that are open and the characters before them are kept as text (`_tail`); the rest of the unit is kept in
    pieces. So the cost grows with the text, and the units do not depend on how the text was cut.
    """

    def __init__(self, at_least: int) -> None:
        self._at_least = at_least
        self._kept: list[str] = []
        self._length = 0  # of what is kept
        self._is_blank = True  # all that is kept of the sentence
        self._tail = ""
        self._open = 0  # where in the tail the first place stands that is not decided

    def feed(self, piece: str) -> Sequence[str]:
        text = self._tail + piece
        units: list[str] = []
        unit = begin = 0
        word = self._word_from(text, 0)
        for end in _END.finditer(text, self._open):
            context = max(begin, end.start() - _CONTEXT)
            if word >= end.end() or _NO_END.search(text[context : end.end()]):
                continue
            self._is_blank = True
            begin = end.end()
            word = self._word_from(text, begin)
            if self._length + begin - unit >= self._at_least:
                units.append("".join([*self._kept, text[unit:begin]]))
                self._kept.clear()
                self._length, unit = 0, begin
        perhaps = _PERHAPS.search(text, max(begin, self._open, len(text) - 5))
        decided = len(text) if perhaps is None else perhaps.start()
        tail = max(begin, decided - _CONTEXT)
        if tail > unit:
            self._kept.append(text[unit:tail])
            self._length += tail - unit
        if tail > begin:
            self._is_blank = word >= tail
        self._tail, self._open = text[tail:], decided - tail
        return units

    def _word_from(self, text: str, begin: int) -> int:
        """Where the sentence has its first character that is not blank.

        After the text where it has none, before it where it is kept.
        """
        if not self._is_blank:
            return -1
        found = _WORD.search(text, begin)
        return len(text) if found is None else found.start()

    def finish(self) -> str:
        return "".join([*self._kept, self._tail])


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
            raise refusal("think_tags(...)", "events", event)
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
