"""Types that msgspec does not know: pydantic models, paths, any JSON, and unions with them."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Generic, Literal, TypedDict, TypeVar

import msgspec
import pydantic
import pytest
from annotated_types import Ge, MaxLen
from pydantic import BaseModel, Field
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import TypeAliasType

from rxworker import Worker, tool
from rxworker.errors import ConfigurationError, InvalidArgumentError
from rxworker.messages import ToolCall
from rxworker.testing import ScriptedModel
from rxworker.tools import Toolbox, ToolContext
from rxworker.tools.run import run_call
from rxworker.tools.schema import check_schema, schema_of
from rxworker.turn.result import Output

T = TypeVar("T")


class Unit(enum.Enum):
    CELSIUS = "celsius"
    KELVIN = "kelvin"


class Place(BaseModel):
    """A place on the map."""

    city: str = Field(description="its name", min_length=1)
    height: int = 0
    unit: Unit = Unit.CELSIUS


class Trip(BaseModel):
    start: Place
    stops: list[Place] = []
    kind: Literal["rail"] = "rail"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


PetAlias = TypeAliasType("PetAlias", Cat | str)


class Pet(BaseModel):
    animal: Annotated[Cat | Dog, Field(discriminator="kind")]


class Tree(BaseModel):
    value: int
    parts: list[Tree] = []


class Box(BaseModel, Generic[T]):
    content: T


class Named(BaseModel):
    kind: str = Field(alias="class")


class Leg(msgspec.Struct):
    place: Place
    by: Path | None = None


@dataclasses.dataclass
class Plan:
    legs: list[Leg]
    place: Place | None = None


class Filter(TypedDict, total=False):
    place: Place


@dataclasses.dataclass
class Somewhere:
    at: Path = Path("/tmp")


class Later(msgspec.Struct):
    unit: Unit | msgspec.UnsetType = msgspec.UNSET
    at: Path = msgspec.field(default_factory=lambda: Path("/tmp"))
    place: Place = msgspec.field(default_factory=lambda: Place(city="Oslo"))


class Held(BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    odd: Toolbox


class Mixed(msgspec.Struct):
    it: Place | str


@pydantic_dataclass
class Checked:
    number: Annotated[int, Field(ge=1)]


async def received(annotation: Any, text: str) -> Any:
    """What a tool with one parameter of that type receives."""
    seen: list[Any] = []

    async def go(it: Any) -> None:
        seen.append(it)

    go.__annotations__["it"] = annotation
    await tool(go).execute(f'{{"it": {text}}}')
    return seen[0]


async def refused(annotation: Any, text: str) -> InvalidArgumentError:
    with pytest.raises(InvalidArgumentError) as caught:
        await received(annotation, text)
    return caught.value


OSLO = '{"city": "Oslo"}'


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (Place, OSLO, Place(city="Oslo")),
        (Place | None, "null", None),
        (Place | None, OSLO, Place(city="Oslo")),
        (list[Place], f"[{OSLO}]", [Place(city="Oslo")]),
        (dict[str, Place], f'{{"a": {OSLO}}}', {"a": Place(city="Oslo")}),
        (tuple[Place, int], f"[{OSLO}, 1]", (Place(city="Oslo"), 1)),
        (Annotated[Place, "where"], OSLO, Place(city="Oslo")),
        (Trip, f'{{"start": {OSLO}}}', Trip(start=Place(city="Oslo"))),
        (Leg, f'{{"place": {OSLO}, "by": "/tmp"}}', Leg(Place(city="Oslo"), Path("/tmp"))),
        (Plan, f'{{"legs": [{{"place": {OSLO}}}]}}', Plan([Leg(Place(city="Oslo"))])),
        (Filter, f'{{"place": {OSLO}}}', {"place": Place(city="Oslo")}),
        (Box[int], '{"content": 1}', Box[int](content=1)),
        (Named, '{"class": "x"}', Named.model_validate({"class": "x"})),
        (Cat | Dog, '{"kind": "dog", "name": "Rex"}', Dog(kind="dog", name="Rex")),
        (Place | str, '"Oslo"', "Oslo"),
        (Place | str, OSLO, Place(city="Oslo")),
        (list[Cat | Dog] | None, '[{"kind": "cat", "lives": 9}]', [Cat(kind="cat", lives=9)]),
        (Cat | Dog | None, "null", None),
        (list[PetAlias], '[{"kind": "cat", "lives": 9}, "none"]', [Cat(kind="cat", lives=9), "none"]),
        (Path, '"/notes/a"', Path("/notes/a")),
        (list[Path], '["a", "b"]', [Path("a"), Path("b")]),
        (Path | None, '"a"', Path("a")),
        (PurePosixPath, '"a"', PurePosixPath("a")),
        (object, '{"a": [1, null]}', {"a": [1, None]}),
        (dict[str, object], '{"a": [1]}', {"a": [1]}),
        (int, "1.0", 1),
        (int, "1e3", 1000),
        (list[int], "[1.0, 2]", [1, 2]),
        (dict[str, int] | None, '{"a": -3.0}', {"a": -3}),
        (Literal[1, 2], "2.0", 2),
        (Leg | int, "2.0", 2),
        (list[float], "[1, 2.5]", [1.0, 2.5]),
    ],
)
async def test_values_arrive_as_their_type(annotation: Any, text: str, value: object) -> None:
    it = await received(annotation, text)
    assert it == value
    assert type(it) is type(value)


@pytest.mark.parametrize(
    ("annotation", "text", "path", "reason"),
    [
        (Place, "{}", "$.it.city", "Field required"),
        (Place, '{"city": 1}', "$.it.city", "valid string"),
        (Place, '{"city": ""}', "$.it.city", "at least 1 character"),
        (Place, "7", "$.it", "Input should be an object"),
        (list[Place], f'[{OSLO}, {{"city": 2}}]', "$.it[1].city", "valid string"),
        (Plan, '{"legs": [{"place": {}}]}', "$.it.legs[0].place.city", "Field required"),
        (Trip, f'{{"start": {OSLO}, "stops": [{{}}]}}', "$.it.stops[0].city", "Field required"),
        (Path, "7", "$.it", "Expected `str`, got `int`"),
        (list[Path], '["a", null]', "$.it[1]", "Expected `str`, got `null`"),
        (int, "1.5", "$.it", "Expected `int`, got `float`"),
        (int, '"1"', "$.it", "Expected `int`, got `str`"),
        (list[int], "[1.0, 2.5]", "$.it[1]", "Expected `int`, got `float`"),
        (Place | int, '"x"', "$.it", "fits none"),
        (list[Cat | Dog], '[{"kind": "cow"}]', "$.it[0]", "fits none"),
    ],
)
async def test_what_does_not_fit_is_named_by_its_path(annotation: Any, text: str, path: str, reason: str) -> None:
    error = await refused(annotation, text)
    assert error.path == path
    assert reason in error.message
    assert "errors.pydantic.dev" not in error.message


async def test_all_mistakes_in_a_model_are_named_at_once() -> None:
    error = await refused(Trip, '{"start": {"height": "high"}, "kind": "road"}')
    assert error.path == "$.it.start.city"
    for part in ("`$.it.start.height`", "`$.it.kind`", "Field required"):
        assert part in error.message


def test_schemas_hold_no_references() -> None:
    for annotation in (Trip, Plan, Pet, Cat | Dog, list[Trip] | None, Box[Place], Filter):
        text = json.dumps(schema_of(annotation))
        for word in ("$ref", "$defs", "discriminator", '"const"'):
            assert word not in text, annotation


def test_the_schema_of_a_model_is_its_own() -> None:
    schema: Any = schema_of(Place)
    assert schema["description"] == "A place on the map."
    assert schema["required"] == ["city"]
    assert schema["properties"]["city"]["description"] == "its name"
    assert schema["properties"]["unit"]["enum"] == ["celsius", "kelvin"]
    nested: Any = schema_of(Plan)
    assert nested["properties"]["legs"]["items"]["properties"]["place"] == schema


def test_the_schema_of_a_parameter_keeps_its_text_and_its_default() -> None:
    @tool
    def go(place: Place, start: Place = Place(city="Rome"), at: Path = Path("/tmp")) -> None:  # noqa: B008
        """Go.

        Args:
            place: Where to.
        """

    properties: Any = go.meta.input_schema["properties"]
    assert properties["place"]["description"] == "Where to."
    assert properties["start"]["default"] == {"city": "Rome", "height": 0, "unit": "celsius"}
    assert properties["at"] == {"type": "string", "default": "/tmp"}


def test_object_is_any_json() -> None:
    assert schema_of(object) == {}
    assert schema_of(dict[str, object]) == {"type": "object", "additionalProperties": {}}
    assert schema_of(list[object]) == {"type": "array", "items": {}}


def test_a_toolbox_takes_them() -> None:
    @tool
    def go(trip: Trip, at: Path, it: object, pet: Cat | Dog) -> None: ...

    check_schema(go.meta.input_schema, "here")


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (Tree, "Tree refers to itself"),
        (list[Tree], "Tree refers to itself"),
        (complex, "complex"),
        (Checked, "pydantic dataclass"),
        (list[Checked], "pydantic dataclass"),
        (Somewhere, "Somewhere.at has a default without a JSON form; give it a default_factory"),
        (Held, "the model Held has no JSON schema: Cannot generate"),
        (Mixed, "Place | str"),
        (Literal[1.5], "Literal"),
        (list[int] | set[int], "list[int] | set[int]"),
    ],
)
def test_what_cannot_be_a_parameter_is_refused_by_its_name(annotation: Any, reason: str) -> None:
    def go(good: int, bad: Any) -> None: ...

    go.__annotations__["bad"] = annotation
    with pytest.raises(ConfigurationError) as caught:
        tool(go)
    message = str(caught.value)
    assert "tool 'go', parameter 'bad'" in message
    assert reason in message
    assert "schema_hook" not in message
    assert "errors.pydantic.dev" not in message


def test_a_class_that_cannot_be_found_is_refused_with_the_reason() -> None:
    class Other(msgspec.Struct):
        number: int

    class Local(msgspec.Struct):
        other: Other

    def go(it: Local) -> None: ...

    with pytest.raises(ConfigurationError, match=r"Local mentions 'Other', .*top of the module"):
        tool(go)


def test_a_model_within_a_function_is_found() -> None:
    class Other(BaseModel):
        number: int

    class Local(BaseModel):
        other: Other

    @tool
    def go(it: Local) -> None: ...

    properties: Any = go.meta.input_schema["properties"]
    assert properties["it"]["properties"]["other"]["required"] == ["number"]


async def test_a_field_whose_default_a_factory_makes_need_not_be_given() -> None:
    assert await received(Later, "{}") == Later()


async def test_constraints_of_pydantic_and_annotated_types_hold_for_plain_types() -> None:
    @tool
    async def go(
        many: Annotated[int, Field(ge=1, le=5, description="how many")],
        more: Annotated[int, Ge(2)] = 2,
        name: Annotated[str, MaxLen(3), Field(pattern="^a")] = "a",
    ) -> str:
        return f"{many} {more} {name}"

    properties: Any = go.meta.input_schema["properties"]
    assert properties["many"] == {"type": "integer", "minimum": 1, "maximum": 5, "description": "how many"}
    assert properties["more"]["minimum"] == 2
    assert properties["name"] == {"type": "string", "maxLength": 3, "pattern": "^a", "default": "a"}
    for text, path in (
        ('{"many": 6}', "$.many"),
        ('{"many": 1, "more": 1}', "$.more"),
        ('{"many": 1, "name": "abcd"}', "$.name"),
        ('{"many": 1, "name": "b"}', "$.name"),
    ):
        with pytest.raises(InvalidArgumentError) as caught:
            await go.execute(text)
        assert caught.value.path == path


def test_a_field_of_pydantic_is_not_a_default() -> None:
    def go(many: int = Field(3, ge=1)) -> None: ...

    with pytest.raises(ConfigurationError, match=r"parameter 'many': .*Annotated"):
        tool(go)


async def test_models_and_paths_are_results() -> None:
    @tool
    async def go() -> Any:
        return {"place": Place(city="Oslo"), "at": Path("/tmp"), "all": [Place(city="Rome")]}

    assert json.loads(str(await go.execute("{}"))) == {
        "place": {"city": "Oslo", "height": 0, "unit": "celsius"},
        "at": "/tmp",
        "all": [{"city": "Rome", "height": 0, "unit": "celsius"}],
    }

    @tool
    async def one() -> Place:
        return Place(city="Oslo")

    assert await one.execute("{}") == '{"city":"Oslo","height":0,"unit":"celsius"}'

    @tool
    async def path() -> Path:
        return Path("/notes/a b")

    assert await path.execute("{}") == "/notes/a b"


def test_models_are_progress_too() -> None:
    heard: list[object] = []
    context = ToolContext("1", "go", report=heard.append)
    context.progress(Place(city="Oslo"))
    context.progress(math.nan)
    assert heard == [{"city": "Oslo", "height": 0, "unit": "celsius"}, "NaN"]


async def test_a_model_is_the_output_of_a_run() -> None:
    wrong, right = '{"start": {"city": 1}}', f'{{"start": {OSLO}}}'
    worker = Worker(ScriptedModel([wrong, right]))
    result = await worker.run("where?", output=Trip)
    assert result.output == Trip(start=Place(city="Oslo"))
    assert result.turns == 2
    complaint = result.conversation.messages[2].text
    assert "valid string - at `$.start.city`" in complaint
    assert "errors.pydantic.dev" not in complaint


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (Place, OSLO, Place(city="Oslo")),
        (list[Place], f'{{"value": [{OSLO}]}}', [Place(city="Oslo")]),
        (Cat | Dog, '{"value": {"kind": "cat", "lives": 1}}', Cat(kind="cat", lives=1)),
        (Path, '{"value": "/tmp"}', Path("/tmp")),
        (object, '{"value": [1]}', [1]),
        (int, '{"value": 3.0}', 3),
        (Leg, f'{{"place": {OSLO}}}', Leg(Place(city="Oslo"))),
    ],
)
def test_outputs_of_every_such_type_are_decoded(type_: Any, text: str, value: object) -> None:
    output: Output[Any] = Output(type_)
    assert output.format.schema["type"] == "object"
    assert output.complaint(text) is None
    assert output.decode(text) == value


@pytest.mark.parametrize(("type_", "reason"), [(Tree, "refers to itself"), (complex, "complex")])
def test_an_output_without_a_schema_is_refused_without_talk_of_hooks(type_: Any, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason) as caught:
        Output(type_)
    assert "schema_hook" not in str(caught.value)


async def test_a_validator_that_breaks_is_an_error_that_the_model_reads() -> None:
    class Broken(BaseModel):
        number: int

        @pydantic.field_validator("number")
        @classmethod
        def check(cls, value: int) -> int:
            raise KeyError("gone")

    @tool
    async def go(it: Broken) -> None: ...

    result = await run_call(Toolbox([go]), ToolCall("1", "go", {"it": {"number": 1}}))
    assert result.is_error
    assert "gone" in result.text
