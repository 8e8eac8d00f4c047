from __future__ import annotations

import dataclasses
import datetime
import enum
import json
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict, Union

import msgspec
import pytest

from rxworker import tool
from rxworker.errors import ConfigurationError
from rxworker.messages import JsonObject
from rxworker.tools import FunctionTool
from rxworker.tools.schema import schema_of


class Unit(enum.Enum):
    CELSIUS = "celsius"
    KELVIN = "kelvin"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Place(msgspec.Struct):
    """Somewhere."""

    city: str
    unit: Unit = Unit.CELSIUS
    tags: list[str] = msgspec.field(default_factory=lambda: ["home"])


@dataclasses.dataclass
class Trip:
    places: list[Place]
    notes: list[str] = dataclasses.field(default_factory=list[str])


class Filter(TypedDict, total=False):
    since: datetime.date


class Cat(msgspec.Struct, tag=True):
    name: str


class Dog(msgspec.Struct, tag=True):
    size: int


class Node(msgspec.Struct):
    value: int
    next: Optional[Node] = None  # noqa: UP045 - evaluated while the class is made in 3.11


class Point(NamedTuple):
    x: int
    y: int


class Odd:
    pass


class Keywords(msgspec.Struct):
    """Fields that are called like the words of JSON schema."""

    enum: list[str]
    properties: dict[str, Unit]
    discriminator: str = "$ref"
    default: Unit = Unit.KELVIN


def properties(made: FunctionTool[..., Any]) -> dict[str, Any]:
    found: Any = made.meta.input_schema["properties"]
    return found


def test_the_schema_is_a_closed_object() -> None:
    @tool
    def find(city: str, days: int = 3) -> str:
        """Find.

        Args:
            city: Where.
        """
        return f"{city}{days}"

    assert find.meta.input_schema == {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "Where."}, "days": {"type": "integer", "default": 3}},
        "required": ["city"],
        "additionalProperties": False,
    }


def test_a_tool_without_parameters_takes_an_empty_object() -> None:
    @tool
    def now() -> str:
        return ""

    assert now.meta.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Literal["b", "a"], {"type": "string", "enum": ["a", "b"]}),
        (Literal[1, 2], {"type": "integer", "enum": [1, 2]}),
        (Literal["a", None], {"type": ["null", "string"], "enum": [None, "a"]}),
        (Unit, {"type": "string", "title": "Unit", "enum": ["celsius", "kelvin"]}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),  # noqa: UP007
        (Annotated[int, msgspec.Meta(ge=1, le=5)], {"type": "integer", "minimum": 1, "maximum": 5}),
        (datetime.datetime, {"type": "string"}),
        (Any, {}),
    ],
)
def test_types_have_their_schema(annotation: Any, schema: JsonObject) -> None:
    assert schema_of(annotation) == schema


def test_an_enum_of_integers_has_the_type_integer() -> None:
    assert schema_of(Level)["type"] == "integer"


def test_references_are_replaced_everywhere() -> None:
    for annotation in (Trip, list[Place], dict[str, Place], Place | None, Filter, Point, Cat | Dog):
        text = json.dumps(schema_of(annotation))
        assert "$ref" not in text
        assert "$defs" not in text


def test_lists_that_factories_make_are_defaults_too() -> None:
    trip: Any = schema_of(Trip)
    assert trip["properties"]["notes"]["default"] == []
    assert trip["properties"]["places"]["items"]["properties"]["tags"]["default"] == ["home"]


def test_a_tagged_union_is_recognised_by_its_tags() -> None:
    schema: Any = schema_of(Cat | Dog)
    tags = [part["properties"]["type"] for part in schema["anyOf"]]
    assert tags == [{"type": "string", "enum": ["Cat"]}, {"type": "string", "enum": ["Dog"]}]
    assert "discriminator" not in schema


def test_fields_may_be_called_like_words_of_json_schema() -> None:
    schema: Any = schema_of(Keywords)
    assert schema["properties"]["enum"] == {"type": "array", "items": {"type": "string"}}
    assert schema["properties"]["discriminator"] == {"type": "string", "default": "$ref"}
    assert schema["properties"]["default"]["enum"] == ["celsius", "kelvin"]
    assert schema["properties"]["default"]["default"] == "kelvin"


def test_defaults_are_shown_as_json() -> None:
    start = Place("Oslo")

    @tool
    def go(
        unit: Unit = Unit.KELVIN,
        days: list[int] = [1, 2],  # noqa: B006 - this is what is tested
        place: Place = start,
        until: int | None = None,
    ) -> str:
        return f"{unit}{days}{place}{until}"

    shown = {name: schema["default"] for name, schema in properties(go).items()}
    assert shown == {
        "unit": "kelvin",
        "days": [1, 2],
        "place": {"city": "Oslo", "unit": "celsius", "tags": ["home"]},
        "until": None,
    }


def test_a_default_that_the_model_could_not_send_is_not_shown() -> None:
    missing: Any = object()
    nothing: Any = None

    @tool
    def go(days: int = missing, hours: int = nothing, most: float = float("inf")) -> float:
        return days + hours + most

    assert properties(go) == {"days": {"type": "integer"}, "hours": {"type": "integer"}, "most": {"type": "number"}}


def test_a_parameter_is_described_where_it_is_nearest() -> None:
    @tool
    def go(
        a: Annotated[int, "from the type"],
        b: Annotated[int, msgspec.Meta(description="from the Meta")],
        c: Place,
        d: Place,
    ) -> None:
        """Go.

        Args:
            a: from the docstring
            b: from the docstring
            c: from the docstring
        """

    assert [schema["description"] for schema in properties(go).values()] == [
        "from the type",
        "from the Meta",
        "from the docstring",
        "Somewhere.",
    ]


@pytest.mark.parametrize(
    "annotation", [complex, Callable[[], int], Odd, list[Odd], set[Odd] | None, Place | Trip | Node]
)
def test_a_type_without_a_schema_is_refused_by_name(annotation: Any) -> None:
    def go(good: int, bad: Any) -> None: ...

    go.__annotations__["bad"] = annotation
    with pytest.raises(ConfigurationError, match=r"tool 'go', parameter 'bad': .*use a type that"):
        tool(go)


def test_a_type_that_refers_to_itself_is_refused_with_the_reason() -> None:
    def go(node: Node) -> None: ...

    with pytest.raises(ConfigurationError, match=r"tool 'go', parameter 'node': the type Node refers to itself"):
        tool(go)


def test_the_same_type_twice_is_not_recursion() -> None:
    @tool
    def go(start: Place, end: Place) -> None: ...

    assert set(properties(go)) == {"start", "end"}
