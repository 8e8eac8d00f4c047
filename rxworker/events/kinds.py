"""The table of event kinds: one row for each type of event, with its properties in all other tables.

Deliveries, predicates, operators and views derive their sets from this table. ``tests/events/test_kinds.py`` holds the union types, the state
and the views to it.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, TypeGuard

from msgspec import Struct

from rxworker.events.block import (
    BlockAbort,
    BlockEvent,
    BlockStart,
    BlockStop,
    BlockType,
    CitationDelta,
    InputJsonDelta,
    InputValueDelta,
    RefusalDelta,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
)
from rxworker.events.meta import Error, Meta, Opaque, Ping, Status, Usage
from rxworker.events.turn import (
    AttemptRetract,
    AttemptStart,
    CommandTaken,
    ConversationReplace,
    Fork,
    Gap,
    HandOver,
    HookMessage,
    HookVerdict,
    LimitReached,
    MessageAdd,
    RunAbort,
    RunPause,
    RunRecover,
    RunRequeue,
    RunResume,
    RunStart,
    RunStop,
    SharedStateChange,
    ToolOutput,
    ToolProgress,
    ToolStart,
    ToolStop,
    TurnStart,
    TurnStop,
    WatcherDetach,
)

Family: TypeAlias = Literal["meta", "block", "turn"]
Display: TypeAlias = Literal["change", "note", "hidden"]


class EventKind(Struct, frozen=True):
    """One type of event.

    Attributes:
        type: The class of the events.
        family: ``meta`` is about the response as a whole, ``block`` belongs to the life of a block, ``turn`` is what the worker does.
        display: How views show it: ``change`` opens, extends or closes something, ``note`` stands by itself, ``hidden`` is not shown.
        changes_state: Whether a `RunState` depends on it, beside its ``seq``.
        passing: Whether it adds to something and neither begins nor ends anything, so that a delivery may drop it.
        deferrable: Whether a delivery with a pace may hold it back for a moment.
        mergeable: Whether it only adds text, so that neighbours can be merged into one.
        opens: The type of the block that a delta opens when no block is open at its index.
    """

    type: type[object]
    family: Family
    display: Display = "change"
    changes_state: bool = True
    passing: bool = False
    deferrable: bool = False
    mergeable: bool = False
    opens: BlockType | None = None


def _delta(type_: type[object], opens: BlockType, *, mergeable: bool) -> EventKind:
    return EventKind(
        type_, "block", passing=True, deferrable=True, mergeable=mergeable, opens=opens
    )


EVENT_KINDS: tuple[EventKind, ...] = (
    EventKind(Ping, "meta", "hidden", changes_state=False, passing=True, deferrable=True),
    EventKind(Usage, "meta", "note", deferrable=True),
    EventKind(Status, "meta"),
    EventKind(Error, "meta", "note"),
    EventKind(Opaque, "meta", "note", changes_state=False, deferrable=True),
    EventKind(BlockStart, "block"),
    _delta(TextDelta, BlockType.TEXT, mergeable=True),
    _delta(ThinkingDelta, BlockType.THINKING, mergeable=True),
    _delta(RefusalDelta, BlockType.REFUSAL, mergeable=True),
    _delta(InputJsonDelta, BlockType.TOOL_USE, mergeable=True),
    _delta(InputValueDelta, BlockType.TOOL_USE, mergeable=False),
    _delta(SignatureDelta, BlockType.THINKING, mergeable=False),
    _delta(CitationDelta, BlockType.TEXT, mergeable=False),
    EventKind(BlockStop, "block"),
    EventKind(BlockAbort, "block"),
    EventKind(RunStart, "turn"),
    EventKind(TurnStart, "turn"),
    EventKind(TurnStop, "turn"),
    EventKind(AttemptStart, "turn"),
    EventKind(AttemptRetract, "turn"),
    EventKind(ToolStart, "turn"),
    EventKind(ToolProgress, "turn", changes_state=False, passing=True, deferrable=True),
    EventKind(ToolStop, "turn"),
    EventKind(ToolOutput, "turn"),
    EventKind(MessageAdd, "turn"),
    EventKind(ConversationReplace, "turn", "hidden"),
    EventKind(SharedStateChange, "turn", "note"),
    EventKind(HookMessage, "turn", "note", changes_state=False),
    EventKind(HookVerdict, "turn", "note"),
    EventKind(LimitReached, "turn", "note"),
    EventKind(WatcherDetach, "turn", "note", changes_state=False),
    EventKind(Gap, "turn", "note", changes_state=False),
    EventKind(RunPause, "turn"),
    EventKind(RunResume, "turn"),
    EventKind(RunStop, "turn"),
    EventKind(RunAbort, "turn"),
    EventKind(RunRecover, "turn", "note"),
    EventKind(RunRequeue, "turn"),
    EventKind(HandOver, "turn", "note", changes_state=False),
    EventKind(CommandTaken, "turn", "hidden", changes_state=False),
    EventKind(Fork, "turn", "note", changes_state=False),
)
"""Every kind of event, in the order in which they are explained."""

META_EVENTS = frozenset(kind.type for kind in EVENT_KINDS if kind.family == "meta")
BLOCK_EVENTS = frozenset(kind.type for kind in EVENT_KINDS if kind.family == "block")
PASSING = frozenset(kind.type for kind in EVENT_KINDS if kind.passing)
DEFERRABLE = frozenset(kind.type for kind in EVENT_KINDS if kind.deferrable)
MERGEABLE = frozenset(kind.type for kind in EVENT_KINDS if kind.mergeable)
HIDDEN = frozenset(kind.type for kind in EVENT_KINDS if kind.display == "hidden")
BLOCK_TYPE_OF = {kind.type: kind.opens for kind in EVENT_KINDS if kind.opens is not None}
"""The type of the block that each delta opens when none is open at its index."""


def is_meta(event: object) -> TypeGuard[Meta]:
    """Whether it is a single event about the response as a whole.

    >>> is_meta(Ping())
    True
    """
    return event.__class__ in META_EVENTS


def is_block_event(event: object) -> TypeGuard[BlockEvent]:
    """Whether it belongs to the life of a block.

    >>> is_block_event(Ping())
    False
    """
    return event.__class__ in BLOCK_EVENTS


def start_of(event: BlockEvent) -> BlockStart:
    """The start of the block that an event belongs to, if the event is the first one seen of it.

    >>> start_of(TextDelta(3, "hello")).block_type
    <BlockType.TEXT: 'text'>
    """
    if isinstance(event, BlockStart):
        return event
    if isinstance(event, BlockStop):
        return BlockStart(event.index, event.block_type, event.metadata)
    if isinstance(event, BlockAbort):
        return BlockStart(event.index, event.block_type)
    opens = BLOCK_TYPE_OF[type(event)]
    if isinstance(event, TextDelta | ThinkingDelta | RefusalDelta):
        return BlockStart(event.index, opens, choice=event.choice)
    return BlockStart(event.index, opens)
