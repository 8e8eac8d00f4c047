from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import datetime
import decimal
import enum
import uuid
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, Required, TypedDict, TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxworker import tool
from rxworker.errors import InvalidArgumentError
from rxworker.messages.custom_types import explain
from rxworker.tools import FunctionTool, ToolContext


class Unit(enum.Enum):
    CELSIUS = "celsius"
    KELVIN = "kelvin"


class Place(msgspec.Struct, frozen=True):
    city: str
    unit: Unit = Unit.CELSIUS


@dataclasses.dataclass(frozen=True)
class Trip:
    places: tuple[Place, ...]
    days: int = 1


class Filter(TypedDict, total=False):
    tags: list[str]


@tool
async def travel(trip: Trip, only: Filter, mode: Literal["rail", "road"] = "rail") -> str:
    return f"{trip!r} {only!r} {mode}"


@tool
async def sign_up(city: str, age: Annotated[int, msgspec.Meta(ge=18)] = 18) -> str:
    return f"{city} {age}"


async def refusal(made: FunctionTool[..., Any], text: str | bytes) -> InvalidArgumentError:
    with pytest.raises(InvalidArgumentError) as caught:
        await made.execute(text)
    assert caught.value.tool == made.meta.name
    return caught.value


@pytest.mark.parametrize(
    ("text", "path", "reason"),
    [
        ("{}", "$.city", "missing required field `city`"),
        ('{"city": 1}', "$.city", "Expected `str`, got `int`"),
        ('{"city": null}', "$.city", "Expected `str`, got `null`"),
        ('{"city": "Oslo", "age": 17}', "$.age", "Expected `int` >= 18"),
        ('{"city": "Oslo", "age": "19"}', "$.age", "Expected `int`, got `str`"),
        ('{"city": "Oslo", "zip": 1}', "$.zip", "unknown field `zip`"),
        ("[]", "$", "Expected `object`, got `array`"),
        ('"Oslo"', "$", "Expected `object`, got `str`"),
        ("Oslo", "$", "this is not a JSON object"),
        ('{"city": "Os', "$", "this is not a JSON object"),
        ('{"city": "\ud800"}', "$", "this is not a JSON object"),
    ],
)
async def test_what_does_not_fit_is_named_by_its_path(text: str, path: str, reason: str) -> None:
    error = await refusal(sign_up, text)
    assert error.path == path
    assert f"at {path}" in error.message
    assert reason in error.message


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"trip": {"places": [{"city": "a"}, {"city": 2}]}, "only": {}}', "$.trip.places[1].city"),
        ('{"trip": {"places": [{}]}, "only": {}}', "$.trip.places[0].city"),
        ('{"trip": {"places": []}, "only": {}, "mode": "air"}', "$.mode"),
        ('{"trip": {"places": []}, "only": {"tags": [1]}}', "$.only.tags[0]"),
    ],
)
async def test_paths_lead_into_nested_values(text: str, path: str) -> None:
    assert (await refusal(travel, text)).path == path


async def test_brackets_without_end_are_refused() -> None:
    @tool
    async def go(anything: Any) -> None: ...

    text = '{"anything": ' + "[" * 100_000
    assert (await refusal(go, text)).path == "$"


@pytest.mark.parametrize("text", ["", "  \n", b"", "{}"])
async def test_no_text_is_an_empty_object(text: str | bytes) -> None:
    @tool
    async def go(days: int = 3) -> int:
        return days

    assert await go.execute(text) == "3"


async def test_python_puts_the_defaults_in() -> None:
    missing: Any = object()
    days = [1]

    @tool
    async def go(a: int = missing, b: list[int] = days) -> bool:
        return a is missing and b is days

    assert await go.execute("{}") == "true"


async def test_positional_parameters_are_filled_in() -> None:
    @tool
    async def go(a: int, b: int = 2, /, c: int = 3, *, d: int) -> list[int]:
        return [a, b, c, d]

    assert await go.execute('{"a": 1, "d": 4}') == "[1,2,3,4]"
    assert await go.execute('{"d": 4, "c": 9, "b": 8, "a": 1}') == "[1,8,9,4]"


async def test_parameters_may_be_called_anything() -> None:
    @tool
    async def go(
        self: int,
        _hidden: int,
        __private: int,  # pyright: ignore[reportGeneralTypeIssues]
        class_: int,
        p0: int,
        type: int,  # noqa: A002
    ) -> list[int]:
        return [self, _hidden, __private, class_, p0, type]

    given = {"self": 1, "_hidden": 2, "__private": 3, "class_": 4, "p0": 5, "type": 6}
    assert go.meta.input_schema["required"] == list(given)
    assert await go.execute(msgspec.json.encode(given)) == "[1,2,3,4,5,6]"
    error = await refusal(go, msgspec.json.encode(given | {"_hidden": "x"}))
    assert error.path == "$._hidden"


async def test_the_model_cannot_fill_in_the_context() -> None:
    @tool
    async def go(context: ToolContext) -> str:
        return context.tool

    assert await go.execute("{}") == "go"
    assert (await refusal(go, '{"context": {}}')).path == "$.context"


def test_a_message_without_a_path_is_about_the_whole() -> None:
    assert explain("Expected `object`, got `int`") == ("$", "Expected `object`, got `int`")


T = TypeVar("T")


class Pair(msgspec.Struct, Generic[T], frozen=True):
    both: tuple[T, T]


class Options(TypedDict):
    needed: Required[int]
    other: NotRequired[str]


class Point(NamedTuple):
    x: int
    y: int = 2


@dataclasses.dataclass
class Positive:
    number: int

    def __post_init__(self) -> None:
        if self.number <= 0:
            raise ValueError("it is not positive")


Count = NewType("Count", int)


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (Pair[int], '{"both": [1, 2]}', Pair((1, 2))),
        (Options, '{"needed": 1}', {"needed": 1}),
        (Point, "[1]", Point(1)),
        (Positive, '{"number": 1}', Positive(1)),
        (Count, "3", 3),
        (set[int], "[1, 1]", {1}),
        (frozenset[str], '["a"]', frozenset("a")),
        (tuple[int, ...], "[1, 2]", (1, 2)),
        (collections.abc.Sequence[int], "[1]", [1]),
        (collections.abc.Mapping[str, int], '{"a": 1}', {"a": 1}),
        (dict[int, str], '{"1": "a"}', {1: "a"}),
        (Literal["a", 1, None], "null", None),
        (datetime.datetime, '"2026-01-02T03:04:05"', datetime.datetime(2026, 1, 2, 3, 4, 5)),
        (datetime.date, '"2026-01-02"', datetime.date(2026, 1, 2)),
        (datetime.timedelta, '"P1D"', datetime.timedelta(days=1)),
        (decimal.Decimal, '"1.50"', decimal.Decimal("1.50")),
        (decimal.Decimal, "1.5", decimal.Decimal("1.5")),
        (uuid.UUID, f'"{uuid.UUID(int=7)}"', uuid.UUID(int=7)),
        (bytes, '"aGk="', b"hi"),
        (Annotated[list[int], msgspec.Meta(min_length=1)], "[1]", [1]),
    ],
)
async def test_ordinary_types_arrive(annotation: Any, text: str, value: object) -> None:
    seen: list[object] = []

    async def go(it: Any) -> None:
        seen.append(it)

    go.__annotations__["it"] = annotation
    await tool(go).execute(f'{{"it": {text}}}')
    assert seen == [value]


async def test_what_a_dataclass_refuses_is_an_invalid_argument() -> None:
    @tool
    async def go(it: list[Positive]) -> None: ...

    error = await refusal(go, '{"it": [{"number": 1}, {"number": 0}]}')
    assert (error.path, "it is not positive" in error.message) == ("$.it[1]", True)


TEXTS = st.text(st.characters(codec="utf-8"))
PLACES = st.builds(Place, TEXTS, st.sampled_from(Unit))
TRIPS = st.builds(Trip, st.lists(PLACES).map(tuple), st.integers(-(2**63), 2**63))


visits: list[object] = []


@tool
async def visit(trip: Trip, only: Filter, ratio: float | None = None) -> None:
    visits.append((trip, only, ratio))


@given(trip=TRIPS, tags=st.lists(TEXTS), ratio=st.floats(allow_nan=False, allow_infinity=False))
async def test_arguments_round_trip(trip: Trip, tags: list[str], ratio: float) -> None:
    arguments = msgspec.json.encode({"trip": trip, "only": {"tags": tags}, "ratio": ratio})
    for form in (arguments, arguments.decode()):
        await visit.execute(form)
        assert visits.pop() == (trip, {"tags": tags}, ratio)


@given(st.binary() | TEXTS)
async def test_whatever_text_comes_it_is_refused_or_run(text: bytes | str) -> None:
    with contextlib.suppress(InvalidArgumentError):
        await sign_up.execute(text)
