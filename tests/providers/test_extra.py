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


# What is asked for, what the application adds, and what is sent of it.
MERGED: list[tuple[str, Options, JsonObject]] = [
    (
        "anthropic",
        Options(output=OUTPUT, thinking="high", extra={"output_config": {"task_budget": 1}}),
        {"output_config": {"effort": "high", "format": {"type": "json_schema", "schema": SCHEMA}, "task_budget": 1}},
    ),
    (
        "anthropic",
        Options(output=OUTPUT, thinking="high", extra={"output_config": {"effort": "max"}}),
        {"output_config": {"effort": "max", "format": {"type": "json_schema", "schema": SCHEMA}}},
    ),
    ("anthropic", Options(thinking="high", extra={"output_config": {"effort": None}}), {"output_config": {}}),
    (
        "anthropic",
        Options(thinking="low"),
        {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}},
    ),
    (
        "anthropic",
        Options(thinking="low", extra={"thinking": {"display": "omitted"}}),
        {"thinking": {"type": "adaptive", "display": "omitted"}},
    ),
    (
        "anthropic",
        Options(thinking=2000, extra={"thinking": {"display": "summarized"}}),
        {"thinking": {"type": "enabled", "budget_tokens": 2000, "display": "summarized"}},
    ),
    (  # of another type, so nothing of ours means anything in it
        "anthropic",
        Options(thinking=2000, extra={"thinking": {"type": "disabled"}}),
        {"thinking": {"type": "disabled"}},
    ),
    (
        "anthropic",
        Options(output=OUTPUT, extra={"output_config": {"format": {"type": "json_schema", "schema": OTHER}}}),
        {"output_config": {"format": {"type": "json_schema", "schema": OTHER}}},
    ),
    (
        "openai_responses",
        Options(output=OUTPUT, extra={"text": {"verbosity": "low", "format": {"name": "mine"}}}),
        {
            "text": {
                "verbosity": "low",
                "format": {"type": "json_schema", "name": "mine", "schema": SCHEMA, "strict": True},
            }
        },
    ),
    (
        "openai_responses",
        Options(thinking="high", extra={"reasoning": {"summary": "auto"}}),
        {"reasoning": {"effort": "high", "summary": "auto"}},
    ),
    (
        "openai_chat",
        Options(output=OUTPUT, extra={"response_format": {"json_schema": {"strict": False}}}),
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "output", "schema": SCHEMA, "strict": False},
            }
        },
    ),
    (
        "openai_chat",
        Options(output=OUTPUT, extra={"response_format": {"type": "json_object"}}),
        {"response_format": {"type": "json_object"}},
    ),
    (
        "openai_chat",
        Options(extra={"stream_options": {"include_obfuscation": False}}),
        {"stream_options": {"include_usage": True, "include_obfuscation": False}},
    ),
    (
        "gemini",
        Options(
            thinking="high",
            output=OUTPUT,
            extra={"generationConfig": {"thinkingConfig": {"includeThoughts": False}, "seed": 1}},
        ),
        {
            "generationConfig": {
                "thinkingConfig": {"includeThoughts": False, "thinkingLevel": "high"},
                "responseMimeType": "application/json",
                "responseJsonSchema": SCHEMA,
                "seed": 1,
            }
        },
    ),
    (
        "gemini",
        Options(output=OUTPUT, extra={"generationConfig": {"responseJsonSchema": OTHER}}),
        {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": OTHER}},
    ),
    (
        "ollama",
        Options(temperature=0.5, extra={"options": {"num_ctx": 8192}}),
        {"options": {"temperature": 0.5, "num_ctx": 8192}},
    ),
    ("ollama", Options(output=OUTPUT, extra={"format": OTHER}), {"format": OTHER}),
]


@pytest.mark.parametrize(("provider", "options", "sent"), MERGED)
def test_extra_fields_are_merged_key_by_key(provider: str, options: Options, sent: JsonObject) -> None:
    body = body_of(provider, options)
    assert {key: body[key] for key in sent} == sent


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
