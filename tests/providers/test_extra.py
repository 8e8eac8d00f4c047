"""What an application says in ``Options.extra``: merged into ours key by key, so that nothing is lost."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxworker.messages import Conversation, JsonObject, Message
from rxworker.providers import PROVIDERS, Options
from rxworker.providers.base import OutputFormat
from rxworker.providers.fit import merged

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
OUTPUT = OutputFormat(SCHEMA)
OTHER: JsonObject = {"type": "object", "properties": {"b": {"type": "string"}}}

# Models that take each setting below.
MODELS = {
    "anthropic": "claude-opus-4-6",
    "bedrock": "openai.m",
    "gemini": "gemini-3.6-flash",
    "gemini_interactions": "gemini-3.5-flash",
    "ollama": "m",
    "openai_chat": "gpt-5.2",
    "openai_responses": "gpt-5.2",
}


def body_of(provider: str, options: Options) -> dict[str, Any]:
    model = MODELS[provider]
    request = PROVIDERS[provider](model, api_key="k").request(Conversation((Message.user("hi"),)), (), options)
    return msgspec.json.decode(request.body)


FORM: JsonObject = {"type": "json_schema", "schema": SCHEMA}
FORMED, HIGH, BUDGET = Options(output=OUTPUT), Options(thinking="high"), Options(thinking=2000)
BOTH = Options(output=OUTPUT, thinking="high")
# What is asked for, the field to which the application adds, what it adds, and what is sent as the field.
MERGED: list[tuple[str, Options, str, JsonObject, JsonObject]] = [
    ("anthropic", BOTH, "output_config", {"task_budget": 1}, {"effort": "high", "format": FORM, "task_budget": 1}),
    ("anthropic", BOTH, "output_config", {"effort": "max"}, {"effort": "max", "format": FORM}),
    ("anthropic", HIGH, "output_config", {"effort": None}, {}),
    ("anthropic", HIGH, "output_config", {}, {"effort": "high"}),
    (
        "anthropic",
        FORMED,
        "output_config",
        {"format": {**FORM, "schema": OTHER}},
        {"format": {**FORM, "schema": OTHER}},
    ),
    ("anthropic", HIGH, "thinking", {}, {"type": "adaptive", "display": "summarized"}),
    ("anthropic", HIGH, "thinking", {"display": "omitted"}, {"type": "adaptive", "display": "omitted"}),
    ("anthropic", BUDGET, "thinking", {"display": "x"}, {"type": "enabled", "budget_tokens": 2000, "display": "x"}),
    # Of another type, so nothing of ours means anything in it.
    ("anthropic", BUDGET, "thinking", {"type": "disabled"}, {"type": "disabled"}),
    (
        "openai_responses",
        FORMED,
        "text",
        {"verbosity": "low", "format": {"name": "mine"}},
        {"verbosity": "low", "format": {**FORM, "name": "mine", "strict": True}},
    ),
    ("openai_responses", HIGH, "reasoning", {"summary": "auto"}, {"effort": "high", "summary": "auto"}),
    (
        "openai_chat",
        FORMED,
        "response_format",
        {"json_schema": {"strict": False}},
        {"type": "json_schema", "json_schema": {"name": "output", "schema": SCHEMA, "strict": False}},
    ),
    ("openai_chat", FORMED, "response_format", {"type": "json_object"}, {"type": "json_object"}),
    ("openai_chat", Options(), "stream_options", {"a": False}, {"include_usage": True, "a": False}),
    (
        "gemini",
        BOTH,
        "generationConfig",
        {"thinkingConfig": {"includeThoughts": False}, "seed": 1},
        {
            "thinkingConfig": {"includeThoughts": False, "thinkingLevel": "high"},
            "responseMimeType": "application/json",
            "responseJsonSchema": SCHEMA,
            "seed": 1,
        },
    ),
    (
        "gemini",
        FORMED,
        "generationConfig",
        {"responseJsonSchema": OTHER},
        {"responseMimeType": "application/json", "responseJsonSchema": OTHER},
    ),
    ("ollama", Options(temperature=0.5), "options", {"num_ctx": 8192}, {"temperature": 0.5, "num_ctx": 8192}),
    ("ollama", FORMED, "format", OTHER, OTHER),
]


@pytest.mark.parametrize(("provider", "options", "field", "extra", "sent"), MERGED)
def test_extra_fields_are_merged_key_by_key(
    provider: str, options: Options, field: str, extra: JsonObject, sent: JsonObject
) -> None:
    assert body_of(provider, msgspec.structs.replace(options, extra={field: extra}))[field] == sent


@pytest.mark.parametrize("provider", PROVIDERS)
def test_none_takes_a_field_of_ours_out(provider: str) -> None:
    options = Options(max_tokens=5, thinking="high", output=OUTPUT)
    whole = body_of(provider, options)
    for field in whole:
        left = body_of(provider, msgspec.structs.replace(options, extra={field: None}))
        assert left == {key: value for key, value in whole.items() if key != field}


VALUES = st.recursive(
    st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES)


@given(ours=OBJECTS, theirs=OBJECTS)
def test_the_values_of_the_application_win_and_nothing_else_is_lost(ours: JsonObject, theirs: JsonObject) -> None:
    before = msgspec.json.encode([ours, theirs])
    made = merged(ours, theirs)
    assert made.keys() == ours.keys() | theirs.keys()
    for key, value in made.items():
        mine, yours = ours.get(key), theirs.get(key)
        if isinstance(mine, dict) and isinstance(yours, dict):
            assert value == merged(mine, yours)
        else:
            assert value == (theirs if key in theirs else ours)[key]
    assert merged(made, theirs) == made
    assert msgspec.json.encode([ours, theirs]) == before
