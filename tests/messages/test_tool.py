"""The schema of a tool cannot be changed by those who read it."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from rxworker.messages import JsonObject, ToolMeta


def given() -> JsonObject:
    return {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome"]}},
        "required": ["city"],
    }


def meta() -> ToolMeta:
    return ToolMeta("look", "Look it up.", given())


EDITS: list[Callable[[Any], object]] = [
    lambda s: s.update(type="array"),
    lambda s: s.pop("type"),
    lambda s: s.popitem(),
    lambda s: s.clear(),
    lambda s: s.setdefault("title", "x"),
    lambda s: s.__setitem__("type", "array"),
    lambda s: s.__delitem__("type"),
    lambda s: s.__ior__({"type": "array"}),
    lambda s: s["properties"].pop("city"),
    lambda s: s["properties"]["city"].update(type="integer"),
    lambda s: s["required"].append("other"),
    lambda s: s["required"].insert(0, "other"),
    lambda s: s["required"].extend(["other"]),
    lambda s: s["required"].remove("city"),
    lambda s: s["required"].pop(),
    lambda s: s["required"].clear(),
    lambda s: s["required"].__setitem__(0, "other"),
    lambda s: s["required"].__delitem__(0),
    lambda s: s["required"].__iadd__(["other"]),
    lambda s: s["required"].__imul__(2),
    lambda s: s["properties"]["city"]["enum"].sort(),
    lambda s: s["properties"]["city"]["enum"].reverse(),
]


@pytest.mark.parametrize("edit", EDITS)
def test_a_schema_refuses_to_be_edited_and_names_the_remedy(edit: Callable[[Any], object]) -> None:
    tool = meta()
    with pytest.raises(TypeError, match=r"copy\.deepcopy"):
        edit(tool.input_schema)
    assert tool.input_schema == given()


def test_what_it_was_made_of_may_be_edited_without_effect() -> None:
    schema = given()
    tool = ToolMeta("look", "", schema)
    schema["properties"] = {}
    assert tool.input_schema == given()


def test_a_deep_copy_is_plain_and_may_be_edited() -> None:
    tool = meta()
    copied: Any = copy.deepcopy(tool.input_schema)
    copied["properties"]["city"]["enum"].append("Bern")
    assert type(copied["properties"]) is dict
    assert tool.input_schema == given()
    shallow: Any = copy.copy(tool.input_schema)
    shallow["type"] = "array"
    assert tool.input_schema == given()


AGAIN: list[Callable[[ToolMeta], ToolMeta]] = [
    copy.deepcopy,
    lambda it: pickle.loads(pickle.dumps(it)),
    lambda it: msgspec.json.decode(msgspec.json.encode(it), type=ToolMeta),
    lambda it: msgspec.structs.replace(it, input_schema=given()),
]


@pytest.mark.parametrize("again", AGAIN)
def test_every_way_to_make_one_again_leaves_it_frozen(again: Callable[[ToolMeta], ToolMeta]) -> None:
    made = again(meta())
    assert made == meta()
    with pytest.raises(TypeError):
        made.input_schema["type"] = "array"


def test_it_is_a_dict_to_readers_and_encoders() -> None:
    schema = meta().input_schema
    assert isinstance(schema, dict)
    assert json.loads(json.dumps(schema)) == given()
    assert msgspec.json.encode(schema) == msgspec.json.encode(given())
    assert schema | {"type": "array"} == given() | {"type": "array"}


def test_replacing_another_field_keeps_the_same_schema() -> None:
    tool = meta()
    assert msgspec.structs.replace(tool, name="other").input_schema is tool.input_schema
