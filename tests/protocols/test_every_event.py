"""Every type of event, known to the tables or not, passes through every encoder."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Literal, cast, get_args, get_origin

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace

from rxworker.events import (
    BlockStart,
    BlockType,
    Error,
    Event,
    Opaque,
    PauseState,
    Record,
    RunStart,
    RunStop,
    Status,
    TextDelta,
    TurnStart,
    Usage,
)
from rxworker.events.kinds import BLOCK_EVENTS, EVENT_KINDS
from rxworker.events.pause import BackgroundCall
from rxworker.messages import Conversation, Message, ToolCall, ToolResult
from rxworker.protocols import decode_record, encode_record
from rxworker.protocols.acp import AcpEncoder
from rxworker.protocols.ag_ui import AgUiEncoder
from rxworker.protocols.common import data_line
from rxworker.protocols.openai import ResponseEncoder
from rxworker.protocols.openai.responses import ResponseHead
from rxworker.protocols.ui_messages import UiMessageEncoder
from rxworker.state import fold_run
from rxworker.state.run import TOOL_STEPS, TURN_STEPS
from rxworker.views import Tracker
from rxworker.views.changes import Note, Scope
from rxworker.views.tracker import HANDLERS


class Owl(Struct, frozen=True, tag="owl"):
    """An event of a later version."""

    wings: int = 2


class Untagged(Struct, frozen=True):
    """An event without a tag."""

    index: int = 0


TYPES: list[type[Struct]] = [*get_args(Event), Owl, Untagged]

VALUES: dict[str, object] = {
    "call": ToolCall("c1", "look", {}),
    "background": BackgroundCall("c1", ToolCall("c1", "look", {}), "run-1/1/0/a"),
    "result": ToolResult("c1", "nothing"),
    "conversation": Conversation((Message.user("hi"),)),
    "messages": (Message.user("go on"),),
    "citation": {"url": "https://a.b"},
    "pause": PauseState("hook", (), ()),
}
"""Values of the required fields by name; any other field takes a value by its type."""


def value_of(name: str, kind: Any) -> object:
    if name in VALUES:
        return VALUES[name]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind))
    if get_origin(kind) is Literal:
        return get_args(kind)[0]
    return 1 if kind in (int, float) else "x"


def example(kind: type[Struct]) -> Event:
    """An event of this type, with its required fields alone."""
    fields = msgspec.structs.fields(kind)
    return cast("Event", kind(**{f.name: value_of(f.name, f.type) for f in fields if f.required}))


def records(kind: type[Struct]) -> list[Record]:
    """A run with an event of this type between two texts, in its own scope and in one of a run inside it."""
    conversation = Conversation((Message.user("hi"),))
    told: list[tuple[Event, tuple[str, ...]]] = [
        (RunStart(conversation), ()),
        (TurnStart(), ()),
        (BlockStart(0, BlockType.TEXT), ()),
        (TextDelta(0, "a"), ()),
        (example(kind), ()),
        (example(kind), ("c1",)),
        (TextDelta(5, "b"), ()),
        (RunStop(), ()),
    ]
    return [Record(n, "run-1", 1, 1, 0.0, event, path) for n, (event, path) in enumerate(told, 1)]


def ag_ui(told: list[Record]) -> bytes:
    encoder = AgUiEncoder("thread", "run", protocol="1.0")
    events = [event for record in told for event in encoder.feed(record)]
    return b"".join(map(data_line, [*events, *encoder.close("cut")]))


def ui_messages(told: list[Record]) -> bytes:
    encoder = UiMessageEncoder("message")
    parts = [part for record in told for part in encoder.feed(record)]
    return b"".join(map(data_line, [*parts, *encoder.close("cut")]))


def responses(told: list[Record]) -> bytes:
    encoder = ResponseEncoder(ResponseHead("b", 0.0, "desk"))
    events = [event for record in told for event in encoder.feed(record)]
    return b"".join(map(data_line, events))


def acp(told: list[Record]) -> bytes:
    encoder = AcpEncoder("/home/me", shows_user=True)
    updates = [update for record in told for update in encoder.feed(record)]
    return b"".join(map(data_line, [*updates, *encoder.close("cut")]))


Encode = Callable[[list[Record]], bytes]


@pytest.mark.parametrize("encode", [ag_ui, ui_messages, responses, acp])
def test_every_type_of_event_passes_every_encoder(encode: Encode) -> None:
    for kind in TYPES:
        assert b'"b"' in encode(records(kind)) or kind.__name__.startswith("Run"), kind


def test_every_type_of_event_is_folded() -> None:
    assert [t for t in TYPES if fold_run(records(t)).seq != len(records(t))] == []


def test_every_type_of_event_is_read_as_it_was_written() -> None:
    for record in [record for kind in TYPES[:-1] for record in records(kind)]:
        event: object = record.event
        if isinstance(event, Owl):
            event = Opaque("owl", {"type": "owl", "wings": 2})
        assert decode_record(encode_record(record)) == replace(record, event=event)


def test_the_table_of_kinds_states_what_changes_the_state() -> None:
    steps = {*TURN_STEPS, *TOOL_STEPS, *BLOCK_EVENTS, Usage, Status, Error}
    for kind in EVENT_KINDS:
        assert (kind.type in steps) is kind.changes_state, kind
        if not kind.changes_state:
            told = records(cast("type[Struct]", kind.type))
            others = [record for record in told if type(record.event) is not kind.type]
            assert fold_run(told) == fold_run(others), kind


def test_the_table_of_kinds_states_how_a_view_shows_it() -> None:
    for kind in EVENT_KINDS:
        assert (kind.type in HANDLERS) is (kind.display == "change"), kind
        tracker = Tracker()
        tracker.feed(Record(1, "run-1", 1, 1, 0.0, RunStart(Conversation((Message.user("hi"),)))))
        record = Record(2, "run-1", 1, 1, 0.0, example(cast("type[Struct]", kind.type)))
        changes = tracker.feed(record)
        if kind.display == "hidden":
            assert changes == [], kind
        elif kind.display == "note":
            assert changes == [Note(Scope(), record)], kind


def test_an_event_of_an_unknown_type_reaches_the_clients() -> None:
    told = records(Owl)
    assert b'"name":"rxworker.owl","value":{"type":"owl","wings":2}' in ag_ui(told)
    assert b'{"type":"data-owl","data":{"type":"owl","wings":2},"transient":true}' in ui_messages(told)
    assert b'"name":"rxworker.Untagged"' in ag_ui(records(Untagged))
    assert b'"type":"data-Untagged"' in ui_messages(records(Untagged))
