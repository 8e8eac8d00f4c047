"""The table of event kinds, and deltas of one kind as one value. Pure.

The table has one row for each type of event, with its properties in all other tables: deliveries, predicates, operators
and views derive their sets from it. ``tests/events/test_kinds.py`` holds the union types, the state and the views to
it.

Adjacent deltas that add to the same text are a `Deltas`: what a network read brings, and what a history keeps. A read
often brings many deltas of one block. Taken one by one, each would pass every operator and be numbered, folded and kept
alone. Consumers that need only the text join it; consumers that need events iterate over it, and the events are made
then.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain, repeat
from operator import sub
from typing import Any, Literal, TypeAlias, TypeGuard, TypeVar, final, get_args, overload

from msgspec import Struct

from rxworker.events import block, meta, turn
from rxworker.events.block import BlockType, InputJsonDelta, RefusalDelta, TextDelta, ThinkingDelta

Display: TypeAlias = Literal["change", "note", "hidden"]


class EventKind(Struct, frozen=True):
    """One type of event.

    Attributes:
        type: The class of the events.
        display: How views show it: ``change`` opens, extends or closes something, ``note`` stands by itself, ``hidden``
            is not shown.
        changes_state: Whether a `RunState` depends on it, beside its ``seq``.
        passing: Whether it adds to something and neither begins nor ends anything, so that a delivery may drop it.
        deferrable: Whether a delivery with a pace may hold it back for a moment.
        mergeable: Whether it only adds text, so that neighbours can be merged into one.
        opens: The type of the block that a delta opens when no block is open at its index.
    """

    type: type[object]
    display: Display = "change"
    changes_state: bool = True
    passing: bool = False
    deferrable: bool = False
    mergeable: bool = False
    opens: BlockType | None = None


def _delta(type_: type[object], opens: BlockType, *, mergeable: bool) -> EventKind:
    return EventKind(type_, passing=True, deferrable=True, mergeable=mergeable, opens=opens)


EVENT_KINDS: tuple[EventKind, ...] = (
    EventKind(meta.Ping, "hidden", changes_state=False, passing=True, deferrable=True),
    EventKind(meta.Usage, "note", deferrable=True),
    EventKind(meta.Status),
    EventKind(meta.Error, "note"),
    EventKind(meta.Opaque, "note", changes_state=False, deferrable=True),
    EventKind(block.BlockStart),
    _delta(block.TextDelta, BlockType.TEXT, mergeable=True),
    _delta(block.ThinkingDelta, BlockType.THINKING, mergeable=True),
    _delta(block.RefusalDelta, BlockType.REFUSAL, mergeable=True),
    _delta(block.InputJsonDelta, BlockType.TOOL_USE, mergeable=True),
    _delta(block.InputValueDelta, BlockType.TOOL_USE, mergeable=False),
    _delta(block.SignatureDelta, BlockType.THINKING, mergeable=False),
    _delta(block.CitationDelta, BlockType.TEXT, mergeable=False),
    EventKind(block.BlockStop),
    EventKind(block.BlockAbort),
    EventKind(turn.RunStart),
    EventKind(turn.TurnStart),
    EventKind(turn.TurnStop),
    EventKind(turn.AttemptStart),
    EventKind(turn.AttemptRetract),
    EventKind(turn.ToolStart),
    EventKind(turn.ToolProgress, changes_state=False, passing=True, deferrable=True),
    EventKind(turn.ToolStop),
    EventKind(turn.ToolOutput),
    EventKind(turn.BackgroundStart, "note"),
    EventKind(turn.BackgroundProgress, "hidden", changes_state=False, passing=True, deferrable=True),
    EventKind(turn.BackgroundStop, "note"),
    EventKind(turn.MessageAdd),
    EventKind(turn.ConversationReplace, "hidden"),
    EventKind(turn.ConversationCompact, "note"),
    EventKind(turn.SharedStateChange, "note"),
    EventKind(turn.HookMessage, "note", changes_state=False),
    EventKind(turn.Custom, "note", changes_state=False),
    EventKind(turn.HookVerdict, "note"),
    EventKind(turn.LimitReached, "note"),
    EventKind(turn.LoopHold, "note", changes_state=False),
    EventKind(turn.WatcherDetach, "note", changes_state=False),
    EventKind(turn.Gap, "note", changes_state=False),
    EventKind(turn.RunPause),
    EventKind(turn.RunResume),
    EventKind(turn.RunStop),
    EventKind(turn.RunAbort),
    EventKind(turn.RunRecover, "note"),
    EventKind(turn.RunRequeue),
    EventKind(turn.HandOver, "note", changes_state=False),
    EventKind(turn.CommandTaken, "hidden"),
    EventKind(turn.Fork, "note"),
)
"""Every kind of event, in the order in which they are explained."""

EVENTS = frozenset(kind.type for kind in EVENT_KINDS)

META_EVENTS: frozenset[type[object]] = frozenset(get_args(meta.Meta))

BLOCK_EVENTS: frozenset[type[object]] = frozenset(get_args(block.BlockEvent))

PASSING = frozenset(kind.type for kind in EVENT_KINDS if kind.passing)

DEFERRABLE = frozenset(kind.type for kind in EVENT_KINDS if kind.deferrable)

MERGEABLE = frozenset(kind.type for kind in EVENT_KINDS if kind.mergeable)

HIDDEN = frozenset(kind.type for kind in EVENT_KINDS if kind.display == "hidden")

BLOCK_TYPE_OF = {kind.type: kind.opens for kind in EVENT_KINDS if kind.opens is not None}
"""The type of the block that each delta opens when none is open at its index."""


def is_meta(event: object) -> TypeGuard[meta.Meta]:
    """Whether it is a single event about the response as a whole.

    >>> is_meta(meta.Ping())
    True
    """
    return event.__class__ in META_EVENTS


def is_block_event(event: object) -> TypeGuard[block.BlockEvent]:
    """Whether it belongs to the life of a block.

    >>> is_block_event(meta.Ping())
    False
    """
    return event.__class__ in BLOCK_EVENTS


def start_of(event: block.BlockEvent) -> block.BlockStart:
    """The start of the block that an event belongs to, if the event is the first one seen of it.

    >>> start_of(block.TextDelta(3, "hello")).block_type
    <BlockType.TEXT: 'text'>
    """
    if isinstance(event, block.BlockStart):
        return event
    if isinstance(event, block.BlockStop):
        return block.BlockStart(event.index, event.block_type, event.metadata)
    if isinstance(event, block.BlockAbort):
        return block.BlockStart(event.index, event.block_type)
    choice: int = getattr(event, "choice", 0)
    return block.BlockStart(event.index, BLOCK_TYPE_OF[type(event)], choice=choice)


E = TypeVar("E")

FEW = 4
"""The number of neighbours from which one `Deltas` costs less than single events."""

TextDeltas: TypeAlias = TextDelta | ThinkingDelta | RefusalDelta | InputJsonDelta
"""The deltas that only add text: the `MERGEABLE` rows of the table of event kinds."""


@final
class Deltas(Sequence[E]):
    """Adjacent deltas of one type, one block and one choice.

    Args:
        like: A delta of that type, block and choice, with any text.
        texts: The text of each.
        times: When each arrived, in seconds since the epoch; ``None`` where they arrived together.

    Attributes:
        size: How many there are; for the paths where ``len`` is too dear.

    >>> deltas = Deltas(TextDelta(0, ""), ["hel", "lo"])
    >>> len(deltas), deltas[1], deltas.text()
    (2, TextDelta(index=0, text='lo', choice=0), 'hello')
    """

    __slots__ = ("_ends", "_joined", "_texts", "like", "size", "times")

    def __init__(self, like: E, texts: list[str], times: array[float] | None = None) -> None:
        self.like = like
        self.size = len(texts)
        self.times = times
        self._texts: list[str] | None = texts
        self._joined = ""
        self._ends = _NO_ENDS

    @property
    def texts(self) -> list[str]:
        """The text of each."""
        texts = self._texts  # read once: another thread may pack
        return self.cut(0, len(self)) if texts is None else texts

    def text(self, start: int = 0) -> str:
        """The text of all from ``start`` on."""
        texts = self._texts
        if texts is not None:
            return "".join(texts[start:] if start else texts)
        return self._joined[self._ends[start - 1] :] if start else self._joined

    def cut(self, start: int, stop: int) -> list[str]:
        """The texts from ``start`` up to ``stop``."""
        texts = self._texts
        if texts is not None:
            return texts[start:stop]
        joined, ends = self._joined, self._ends[start:stop]
        begin = self._ends[start - 1] if start else 0
        return [joined[place:end] for place, end in zip([begin, *ends], ends, strict=False)]

    def lengths(self) -> list[int]:
        """The length of each text."""
        texts = self._texts
        if texts is not None:
            return list(map(len, texts))
        ends = self._ends
        return list(map(sub, ends, chain((0,), ends)))

    def pack(self) -> None:
        """Keep one joined text and the end of each in it: 4 bytes for a delta beside its text, and 8 for its time."""
        texts = self._texts
        if texts is not None:
            self._ends = array("I", accumulate(map(len, texts)))
            self._joined = "".join(texts)
            self._texts = None

    def with_text(self, text: str) -> E:
        """One delta of the same type, block and choice, with this text."""
        return self._made([text])[0]

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[E]:
        return iter(self._made(self.texts))

    @overload
    def __getitem__(self, place: int, /) -> E: ...
    @overload
    def __getitem__(self, place: slice, /) -> list[E]: ...
    def __getitem__(self, place: int | slice, /) -> E | list[E]:
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            return self._made(self.cut(start, stop)[::step] if step > 0 else self.texts[place])
        return self.with_text(self.texts[place])

    def __repr__(self) -> str:
        return f"Deltas({self.like!r}, {self.texts!r})"

    def _made(self, texts: list[str]) -> list[E]:
        like: Any = self.like
        kind: Callable[..., E] = like.__class__
        if like.__class__ is InputJsonDelta:  # its block has the choice
            return list(map(kind, repeat(like.index), texts))
        return list(map(kind, repeat(like.index), texts, repeat(like.choice)))


TEXTS = MERGEABLE | {Deltas}
"""The events that only add text, one or several."""


_NO_ENDS = array("I")

Parts: TypeAlias = Sequence[E | Deltas[E]]
"""Events that arrived together: single events, and adjacent deltas as one `Deltas` each."""


def gather(events: Iterable[E]) -> list[E | Deltas[E]]:
    """The events, with `FEW` and more neighbours that add to the same text as one `Deltas`.

    >>> [deltas] = gather([TextDelta(0, letter) for letter in "rain"])
    >>> deltas
    Deltas(TextDelta(index=0, text='r', choice=0), ['r', 'a', 'i', 'n'])
    """
    gathered: list[Any] = []
    start = 0  # of the neighbours at the end
    like: Any = None  # the first of them, if they can be merged
    each: Iterable[Any] = events
    for event in each:
        kind = event.__class__
        is_more = kind is like.__class__ and event.index == like.index  # `adds_to_same`, without a call for each
        if not is_more or (kind is not InputJsonDelta and event.choice != like.choice):
            _merge_from(start, gathered)
            start, like = len(gathered), event if kind in MERGEABLE else None
        gathered.append(event)
    _merge_from(start, gathered)
    return gathered


def add_deltas(like: TextDeltas, texts: list[str], events: list[Any]) -> None:
    """Append deltas with these texts to a list of events: as one `Deltas` if there are `FEW` or more.

    >>> events: list[object] = []
    >>> add_deltas(TextDelta(0, ""), ["a", "b"], events)
    >>> events
    [TextDelta(index=0, text='a', choice=0), TextDelta(index=0, text='b', choice=0)]
    """
    deltas: Deltas[TextDeltas] = Deltas(like, texts)
    if len(texts) < FEW:
        events += deltas
    else:
        events.append(deltas)


def flatten(parts: Iterable[E | Deltas[E]]) -> Iterator[E]:
    """The single events of parts.

    >>> list(flatten(["a", Deltas(TextDelta(0, ""), ["hel", "lo"])]))
    ['a', TextDelta(index=0, text='hel', choice=0), TextDelta(index=0, text='lo', choice=0)]
    """
    each: Iterable[Any] = parts
    for part in each:
        if part.__class__ is Deltas:
            yield from part
        else:
            yield part


def adds_to_same(delta: Any, other: Any) -> bool:
    """Whether two mergeable deltas of one type are of one block and one choice."""
    # Arguments have no choice: their block has it.
    return delta.index == other.index and (delta.__class__ is InputJsonDelta or delta.choice == other.choice)


def _merge_from(start: int, gathered: list[Any]) -> None:
    if len(gathered) - start >= FEW:
        texts = [delta.text for delta in gathered[start:]]
        gathered[start:] = [Deltas(gathered[start], texts)]
