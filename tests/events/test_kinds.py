"""The table of event kinds agrees with the types of events."""

from __future__ import annotations

from typing import get_args

import pytest

from rxworker.events import BlockEvent, Event
from rxworker.events.block import BlockDelta, Delta
from rxworker.events.kinds import EVENT_KINDS, EventKind
from rxworker.events.meta import Meta
from rxworker.events.turn import TurnEvent

UNIONS = (Meta, BlockEvent, TurnEvent)

each_kind = pytest.mark.parametrize("kind", EVENT_KINDS, ids=lambda kind: kind.type.__name__)


def test_each_type_of_event_has_one_row() -> None:
    types = [kind.type for kind in EVENT_KINDS]
    assert set(types) == set(get_args(Event))
    assert len(types) == len(set(types))


@each_kind
def test_each_type_of_event_belongs_to_one_union(kind: EventKind) -> None:
    assert [kind.type in get_args(union) for union in UNIONS].count(True) == 1


@each_kind
def test_deltas_are_passing_and_open_a_block(kind: EventKind) -> None:
    is_delta = kind.type in get_args(Delta)
    assert issubclass(kind.type, BlockDelta) is is_delta
    assert (kind.opens is not None) is is_delta
    assert kind.passing or not is_delta
    if kind.mergeable:
        assert is_delta
        assert kind.type.__annotations__["text"] == "str"
    if kind.passing:
        assert kind.deferrable
