"""A schema that a provider could not take is refused when the tool is registered, and the error says why."""

from __future__ import annotations

from typing import Any

import pytest

from rxworker import Worker
from rxworker.errors import ConfigurationError
from rxworker.messages import ToolMeta
from rxworker.testing import ScriptedModel
from rxworker.tools import Toolbox, ToolContext


class Plain:
    """A tool with a schema of its own."""

    def __init__(self, schema: Any) -> None:
        self.meta = ToolMeta("plain", "", schema)

    async def execute(self, input_json: str | bytes, context: ToolContext, /) -> str:
        return ""


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("string", "is str, which is not a JSON schema"),
        ({"type": "array", "items": {}}, "has the type 'array'"),
        ({"properties": {}}, "has the type None"),
        ({"type": "object", "default": object()}, "has no JSON form"),
        (
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {}}},
            r"refers to another place with \$ref",
        ),
    ],
)
def test_it_is_refused_with_the_reason(schema: Any, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"tool 'plain' \(.*Plain\): .*{reason}"):
        Worker(ScriptedModel([]), tools=[Plain(schema)])


def test_a_schema_that_is_too_deep_for_json_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="has no JSON form"):
        Worker(ScriptedModel([]), tools=[Plain(nested(100_000))])


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "object", "properties": {"a": {"default": {"$ref": "is data here"}}}},
        nested(20),
    ],
)
def test_what_providers_take_is_taken(schema: Any) -> None:
    assert Toolbox([Plain(schema)]).names == ("plain",)
