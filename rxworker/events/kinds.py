"""The table of event kinds: one row for each type of event, with its properties in all other tables.

Deliveries, predicates, operators and views derive their sets from this table. ``tests/events/test_kinds.py`` holds the
union types, the state and the views to it.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, TypeGuard, get_args

from msgspec import Struct

from rxworker.events import block, meta, turn
from rxworker.events.block import BlockType

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
