"""`tool_inputs` and the reader below it: members as they become whole, each text read once."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Literal

import msgspec
import pytest
from msgspec import Struct
from pydantic import BaseModel

from rxworker import Worker
from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    InputJsonDelta,
    InputValueDelta,
    ResponseStatus,
    Status,
    TextDelta,
    ToolUseMetadata,
)
from rxworker.operators import ToolInput, partial_values, tool_inputs
from rxworker.operators.kernel import Source
from rxworker.testing import ScriptedModel, say

STARTED = Status(ResponseStatus.STARTED)
START = BlockStart(0, BlockType.TOOL_USE, ToolUseMetadata("1", "look"))
STOP = BlockStop(0, BlockType.TOOL_USE)


def views(*events: Event) -> list[ToolInput]:
    seen: list[ToolInput] = []
    source: Source[Event] = Source()
    source.pipe(tool_inputs()).subscribe(seen.append)
    for event in events:
        source.on_next(event)
    return seen


def texts(*pieces: str) -> list[Event]:
    return [InputJsonDelta(0, piece) for piece in pieces]


def test_a_member_is_emitted_as_soon_as_it_is_whole() -> None:
    seen = views(START, *texts('{"a": ', "[1, {", '"b": "}"}], "c', '": 2', ", ", '"d":3}'), STOP)
    assert [view.input for view in seen] == [
        {"a": [1, {"b": "}"}]},
        {"a": [1, {"b": "}"}], "c": 2},
        {"a": [1, {"b": "}"}], "c": 2, "d": 3},
        {"a": [1, {"b": "}"}], "c": 2, "d": 3},
    ]
    assert [view.pieces for view in seen] == [3, 5, 6, 6]
    assert [view.complete for view in seen] == [False, False, False, True]
    assert {(view.index, view.id, view.name) for view in seen} == {(0, "1", "look")}


def test_a_call_without_text_has_no_arguments() -> None:
    assert [view.input for view in views(START, *texts(""), STOP)] == [{}]


def test_text_that_is_not_an_object_has_no_input_in_the_end() -> None:
    seen = views(START, *texts('{"a": 1, oops', '"b": 2}'), STOP)
    assert [(view.input, view.complete) for view in seen] == [({"a": 1}, False), (None, True)]


def test_an_escape_may_be_cut() -> None:
    seen = views(START, *texts('{"a": "x\\', '"y"', "}"), STOP)
    assert seen[-1].input == {"a": 'x"y'}


def test_an_aborted_call_emits_no_more() -> None:
    seen = views(START, *texts('{"a": 1, "b"'), BlockAbort(0, BlockType.TOOL_USE), *texts(": 2}"))
    assert [view.input for view in seen] == [{"a": 1}]


@pytest.mark.parametrize("again", [[STARTED, STARTED], [AttemptRetract("lost")], [AttemptStart()]], ids=repr)
def test_a_call_whose_response_begins_anew_emits_no_more(again: list[Event]) -> None:
    assert views(START, *texts('{"a"'), *again, *texts(": 1}"), STOP) == []


def test_calls_that_are_open_at_once_are_kept_apart() -> None:
    other = BlockStart(1, BlockType.TOOL_USE, ToolUseMetadata("2", "hear"))
    seen = views(
        START,
        other,
        InputJsonDelta(0, '{"a"'),
        InputJsonDelta(1, '{"b"'),
        InputJsonDelta(0, ": 1}"),
        InputJsonDelta(1, ": 2}"),
    )
    assert [(view.name, view.input) for view in seen] == [("look", {"a": 1}), ("hear", {"b": 2})]


def test_calls_of_the_providers_own_tools_are_not_shown() -> None:
    start = BlockStart(0, BlockType.SERVER_TOOL_USE, ToolUseMetadata("1", "search"))
    assert views(start, *texts('{"a": 1}'), BlockStop(0, BlockType.SERVER_TOOL_USE)) == []


def test_arguments_by_path_are_reported_when_the_next_member_begins() -> None:
    seen = views(
        START,
        InputValueDelta(0, "$.a", "Os"),
        InputValueDelta(0, "$.a", "lo", append=True),
        InputValueDelta(0, "$.b[0]", 1),
        InputValueDelta(0, "$.b[1]", 2),
        STOP,
    )
    assert [view.input for view in seen] == [{"a": "Oslo"}, {"a": "Oslo", "b": [1, 2]}]


def test_a_view_does_not_change_when_the_call_goes_on() -> None:
    first, *_ = seen = views(START, *texts('{"a": 1,', '"b": 2,', '"c": 3}'), STOP)
    assert first.input == {"a": 1}
    assert repr(seen[1]).endswith("input={'a': 1, 'b': 2})")


class Leg(Struct):
    to: str
    kind: Literal["train", "plane"] = "train"
    seats: list[int] = []


class Trip(Struct):
    name: str
    legs: list[Leg]
    back: Leg | None = None


class Stay(BaseModel):
    city: str
    nights: list[int] = []


def values(type_: type[object], *pieces: str | Status) -> list[object]:
    seen: list[object] = []
    source: Source[Event] = Source()
    source.pipe(partial_values(type_)).subscribe(seen.append)
    for piece in pieces:
        source.on_next(piece if isinstance(piece, Status) else TextDelta(0, piece))
    source.on_completed()
    return seen


def test_typed_values_leave_out_what_does_not_fit_yet() -> None:
    text = [
        '{"name": "Al',
        'ps", "legs": [{"se',
        'ats": [1, 2], "to": "Ch',
        'ur", "kind": "pl',
        'ane"}, {"to"',
        ': "Davos"}]}',
    ]
    assert values(Trip, *text) == [
        Trip("Alps", []),
        Trip("Alps", [Leg("Ch", seats=[1, 2])]),
        Trip("Alps", [Leg("Chur", seats=[1, 2])]),
        Trip("Alps", [Leg("Chur", "plane", [1, 2])]),
        Trip("Alps", [Leg("Chur", "plane", [1, 2]), Leg("Davos")]),
    ]
    assert values(Stay, '{"nights": [1, ', '2], "city": "Ky', 'oto"}') == [
        Stay(city="Ky", nights=[1, 2]),
        Stay(city="Kyoto", nights=[1, 2]),
    ]
    assert values(Trip, '{"legs": 3, "name": "x"', "}") == []
    assert values(list, "[" * 5_000) == []  # nested too deeply


@pytest.mark.parametrize("seed", range(40))
def test_typed_values_under_any_cut_end_with_the_whole_one(seed: int) -> None:
    rng = random.Random(seed)
    legs = [Leg(rng.choice("abc") * rng.randrange(40), rng.choice(("train", "plane")), [1, 2]) for _ in range(9)]
    whole = Trip("x" * rng.randrange(9), legs, rng.choice((None, legs[0])))
    text = msgspec.json.encode(whole).decode()
    cuts = sorted(rng.sample(range(len(text)), rng.randrange(1, 60)))
    seen = values(Trip, *map(text.__getitem__, map(slice, [0, *cuts], [*cuts, None])))
    assert seen[-1] == whole
    assert all(isinstance(each, Trip) for each in seen)
    assert all(one != other for one, other in pairwise(seen))


def test_typed_values_begin_anew_with_each_response() -> None:
    ended = Status(ResponseStatus.COMPLETED)
    assert values(list, STARTED, "[1, 2", ended, STARTED, "[1", "]", ended) == [[1], [1, 2], [], [1]]


async def test_typed_values_of_an_output_that_is_not_an_object_are_taken_out() -> None:
    run = Worker(ScriptedModel([say('{"value": [1, 2]}', chunk=3)])).run("Two numbers?", output=list[int])
    seen: list[list[int]] = []
    run.events.pipe(partial_values(list[int])).subscribe(seen.append)
    assert (await run).output == seen[-1] == [1, 2]
    assert values(dict[str, int], '{"value": 1}') == [{"value": 1}]


def test_typed_values_of_a_long_text_are_made_seldom() -> None:
    pieces = ['{"name": "', *["abcd"] * 20_000, '", "legs": []}']
    seen = values(Trip, *pieces)
    assert seen[-1] == Trip("abcd" * 20_000, [])
    shorter = values(Trip, '{"legs": [], "name": "', *["abcd"] * 20_000, '"}')
    assert shorter[-1] == seen[-1]
    assert len(shorter) < 600
