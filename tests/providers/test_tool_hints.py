"""What a tool carries besides its schema: who encodes it, who leaves it out, and who refuses."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rxworker.errors import ConfigurationError
from rxworker.messages import CachePoint, Conversation, Grammar, JsonObject, Message, ToolMeta
from rxworker.providers import PROVIDERS, AnthropicBedrock, Options, ToolChoice

OBJECT: JsonObject = {
    "type": "object",
    "properties": {"code": {"type": "string"}},
    "required": ["code"],
    "additionalProperties": False,
}
CODE: JsonObject = {"type": "code_execution_20260120", "name": "code_execution"}
PLAIN = ToolMeta("run", "Runs.", OBJECT)
HINTED = ToolMeta(
    "run",
    "Runs.",
    OBJECT,
    strict=True,
    defer_loading=True,
    allowed_callers=("direct", "programmatic"),
    input_examples=({"code": "1+1"},),
)


def body_of(provider: str, *tools: ToolMeta, **options: Any) -> dict[str, Any]:
    asked = Conversation((Message.user("hi"),))
    made = PROVIDERS[provider]("m", api_key="k")
    return msgspec.json.decode(made.request(asked, tools, Options(**options)).body)


def tools_of(provider: str, *tools: ToolMeta, **options: Any) -> list[Any]:
    return body_of(provider, *tools, **options)["tools"]


def test_anthropic_is_sent_all_it_knows() -> None:
    run, code = tools_of("anthropic", HINTED, extra={"tools": [CODE]})
    assert run == {
        "name": "run",
        "description": "Runs.",
        "input_schema": OBJECT,
        "strict": True,
        "defer_loading": True,
        "allowed_callers": ["direct", "code_execution_20260120"],
        "input_examples": [{"code": "1+1"}],
    }
    assert code == CODE


def test_responses_are_sent_all_they_know() -> None:
    assert tools_of("openai_responses", HINTED) == [
        {
            "type": "function",
            "name": "run",
            "description": "Runs.",
            "parameters": OBJECT,
            "strict": True,
            "defer_loading": True,
            "allowed_callers": ["direct", "programmatic"],
        }
    ]


@pytest.mark.parametrize("name", ["openai_chat", "gemini", "ollama"])
def test_the_others_leave_out_what_changes_nothing(name: str) -> None:
    sent = tools_of(name, HINTED)
    if name == "openai_chat":
        assert sent[0]["function"].pop("strict") is True
    assert sent == tools_of(name, PLAIN)


@pytest.mark.parametrize("caller", ["programmatic", "code_execution_20260120"])
def test_a_caller_is_named_in_the_words_of_each_provider(caller: str) -> None:
    only = msgspec.structs.replace(PLAIN, allowed_callers=(caller,))
    (run, _) = tools_of("anthropic", only, extra={"tools": [CODE]})
    assert run["allowed_callers"] == ["code_execution_20260120"]
    (run,) = tools_of("openai_responses", only)
    assert run["allowed_callers"] == ["programmatic"]


@pytest.mark.parametrize("name", ["openai_chat", "gemini", "gemini_interactions", "ollama"])
def test_a_tool_that_only_code_may_call_is_not_offered_to_the_model(name: str) -> None:
    only = msgspec.structs.replace(PLAIN, allowed_callers=("programmatic",))
    with pytest.raises(ConfigurationError, match=r"allowed_callers.*add 'direct'"):
        body_of(name, only)


def test_a_tool_for_code_needs_code_execution() -> None:
    only = msgspec.structs.replace(PLAIN, allowed_callers=("programmatic",))
    with pytest.raises(ConfigurationError, match="no code execution tool: add one"):
        body_of("anthropic", only)


@pytest.mark.parametrize("name", ["anthropic", "openai_chat", "gemini", "gemini_interactions", "ollama"])
def test_a_grammar_that_no_provider_would_enforce_is_refused(name: str) -> None:
    tool = msgspec.structs.replace(PLAIN, format=Grammar("[0-9]+", "regex"))
    with pytest.raises(ConfigurationError, match=r"'run' has a grammar, and .* use OpenAIResponses"):
        body_of(name, tool)


@pytest.mark.parametrize("name", ["anthropic", "openai_chat", "gemini", "gemini_interactions", "ollama"])
def test_free_text_is_a_function_with_one_string_where_there_is_no_other_way(name: str) -> None:
    tool = msgspec.structs.replace(PLAIN, format="text")
    assert tools_of(name, tool) == tools_of(name, PLAIN)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("text", {"type": "text"}),
        (Grammar("start: /a+/"), {"type": "grammar", "syntax": "lark", "definition": "start: /a+/"}),
        (Grammar("[0-9]+", "regex"), {"type": "grammar", "syntax": "regex", "definition": "[0-9]+"}),
    ],
)
def test_free_text_is_a_custom_tool_of_responses(given: Any, sent: JsonObject) -> None:
    tool = msgspec.structs.replace(PLAIN, format=given, defer_loading=True)
    assert tools_of("openai_responses", tool) == [
        {"type": "custom", "name": "run", "description": "Runs.", "format": sent, "defer_loading": True}
    ]
    body = body_of("openai_responses", tool, tool_choice=ToolChoice("tool", "run"))
    assert body["tool_choice"] == {"type": "custom", "name": "run"}


def test_a_grammar_travels_as_json() -> None:
    tool = msgspec.structs.replace(HINTED, format=Grammar("a", "regex"), cache_control=CachePoint())
    assert msgspec.json.decode(msgspec.json.encode(tool), type=ToolMeta) == tool
    assert msgspec.json.decode(msgspec.json.encode(PLAIN), type=ToolMeta) == PLAIN


# --- marks of what may be cached


def marked(name: str, ttl: str | None = None) -> ToolMeta:
    return ToolMeta(name, "", OBJECT, cache_control=CachePoint(ttl))


def test_a_tool_carries_a_mark() -> None:
    (tool,) = tools_of("anthropic", marked("a", "1h"))
    assert tool["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert "cache_control" not in str(body_of("openai_responses", marked("a")))


def test_the_marks_of_tools_count_among_the_four() -> None:
    said = Conversation((Message.user("t0", CachePoint(), "t1", CachePoint(), "t2", CachePoint()),))
    provider = PROVIDERS["anthropic"]("m", api_key="k")
    body = msgspec.json.decode(provider.request(said, (marked("a"), marked("b")), Options()).body)
    content = body["messages"][0]["content"]
    assert [part["text"] for part in content if "cache_control" in part] == ["t1", "t2"]
    six = tuple(marked(f"t{n}") for n in range(6))
    body = msgspec.json.decode(provider.request(said, six, Options()).body)
    assert ["cache_control" in tool for tool in body["tools"]] == [False, False, *[True] * 4]
    assert not any("cache_control" in part for part in body["messages"][0]["content"])


def test_the_mark_of_the_options_goes_to_a_tool_that_is_loaded_at_once() -> None:
    later = ToolMeta("later", "", OBJECT, defer_loading=True)
    sent = tools_of("anthropic", PLAIN, later, cache=("tools",))
    assert ["cache_control" in tool for tool in sent] == [True, False]


def test_a_tool_that_is_found_later_carries_no_mark() -> None:
    both = msgspec.structs.replace(marked("a"), defer_loading=True)
    with pytest.raises(ConfigurationError, match="both defer_loading and cache_control"):
        body_of("anthropic", both)


# --- held to the schema


def strict(**properties: JsonObject) -> ToolMeta:
    schema: JsonObject = {"type": "object", "properties": {**properties}}
    schema["required"] = [name for name, one in properties.items() if "default" not in one]
    return ToolMeta("f", "", schema, strict=True)


@pytest.mark.parametrize("name", ["openai_chat", "openai_responses"])
def test_openai_is_sent_a_schema_that_leaves_nothing_open(name: str) -> None:
    inner: JsonObject = {"type": "object", "properties": {"x": {"type": "string", "format": "byte"}}}
    inner["required"] = ["x"]
    tool = strict(a={"type": "array", "items": inner}, b={"anyOf": [inner, {"type": "null"}]})
    (sent,) = tools_of(name, tool)
    parameters = sent.get("parameters") or sent["function"]["parameters"]
    shut = {**inner, "additionalProperties": False, "properties": {"x": {"type": "string"}}}
    assert parameters == {
        "type": "object",
        "properties": {"a": {"type": "array", "items": shut}, "b": {"anyOf": [shut, {"type": "null"}]}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("name", ["openai_chat", "openai_responses"])
@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        (strict(a={"type": "integer", "default": 1}), r"at \$, the member 'a' may be left out"),
        (
            strict(a={"type": "array", "items": {"type": "object", "properties": {"x": {}}}}),
            r"at \$\.a\[\], the member 'x' may be left out",
        ),
        (strict(a={"type": "object"}), r"at \$\.a, it is an object of any members"),
        (
            strict(a={"type": "object", "additionalProperties": {"type": "string"}}),
            r"at \$\.a, it is an object of any members",
        ),
        (
            strict(a={"type": "array", "prefixItems": [{"type": "string"}]}),
            r"at \$\.a, OpenAI does not take 'prefixItems'",
        ),
    ],
)
def test_a_schema_that_cannot_be_strict_is_refused(name: str, tool: ToolMeta, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=f"tool 'f' cannot be strict: {reason}"):
        body_of(name, tool)


def test_anthropic_takes_optional_members_and_receives_limits_in_the_description() -> None:
    tool = strict(n={"type": "integer", "minimum": 1, "maximum": 7, "description": "How many.", "default": 1})
    (sent,) = tools_of("anthropic", tool)
    assert sent["input_schema"] == {
        "type": "object",
        "properties": {"n": {"type": "integer", "description": "How many.\n\n{minimum: 1, maximum: 7}", "default": 1}},
        "required": [],
        "additionalProperties": False,
    }
    with pytest.raises(ConfigurationError, match=r"cannot be strict: at \$\.a, it is an object"):
        body_of("anthropic", strict(a={"type": "object"}))


def test_a_strict_tool_leaves_its_own_schema_as_it_was() -> None:
    tool = strict(a={"type": "string", "minLength": 1, "format": "byte"})
    before = msgspec.json.encode(tool)
    for name in PROVIDERS:
        body_of(name, tool)
    assert msgspec.json.encode(tool) == before


# --- a tool that stands in the extra fields, too


EXTRA_TOOLS: dict[str, tuple[JsonObject, JsonObject]] = {
    "anthropic": ({"name": "run", "eager_input_streaming": True}, {"eager_input_streaming": True}),
    "openai_responses": ({"type": "function", "name": "run", "strict": None}, {}),
    "openai_chat": ({"type": "function", "function": {"name": "run", "strict": True}}, {}),
    "ollama": ({"type": "function", "function": {"name": "run", "x": 1}}, {}),
}


@pytest.mark.parametrize("name", EXTRA_TOOLS)
def test_a_name_is_sent_once(name: str) -> None:
    """What the extra tool says comes over ours, and the rest of ours stays."""
    given, added = EXTRA_TOOLS[name]
    (sent,) = tools_of(name, PLAIN, extra={"tools": [given]})
    (bare,) = tools_of(name, PLAIN)
    if "function" in sent:
        function: Any = given["function"]
        assert sent["function"] == bare["function"] | function
    else:
        assert sent | added == sent
        assert sent["description"] == "Runs."
    assert "strict" not in sent or sent["strict"]


def test_gemini_is_sent_a_name_once() -> None:
    extra: JsonObject = {
        "tools": [
            {"functionDeclarations": [{"name": "run", "behavior": "BLOCKING"}, {"name": "b"}]},
            {"googleSearch": {}},
        ]
    }
    functions, search = tools_of("gemini", PLAIN, extra=extra)
    ours, more = functions["functionDeclarations"]
    assert (ours["name"], ours["behavior"], ours["description"]) == ("run", "BLOCKING", "Runs.")
    assert (more, search) == ({"name": "b"}, {"googleSearch": {}})


def test_a_tool_moves_into_a_namespace() -> None:
    space: JsonObject = {
        "type": "namespace",
        "name": "crm",
        "description": "Customers.",
        "tools": [{"type": "function", "name": "run", "defer_loading": True}],
    }
    other = ToolMeta("other", "", OBJECT)
    first, second, _ = tools_of("openai_responses", PLAIN, other, extra={"tools": [space, {"type": "tool_search"}]})
    assert (first["name"], second["name"]) == ("other", "crm")
    (moved,) = second["tools"]
    assert moved["defer_loading"] is True
    assert moved["parameters"] == OBJECT


NATIVE: dict[str, tuple[str, JsonObject]] = {
    "BetaMemoryTool20250818Param": ("memory", {"type": "memory_20250818"}),
    "BetaToolBash20250124Param": ("bash", {"type": "bash_20250124"}),
    "BetaToolTextEditor20250728Param": (
        "str_replace_based_edit_tool",
        {"type": "text_editor_20250728", "max_characters": 1000},
    ),
    "BetaToolComputerUse20251124Param": (
        "computer",
        {"type": "computer_20251124", "display_width_px": 1024, "display_height_px": 768},
    ),
}


def native(kind: str) -> ToolMeta:
    name, form = NATIVE[kind]
    return ToolMeta(name, "Mine.", OBJECT, native=form)


SAID = Conversation((Message.user("Hi"),))


@pytest.mark.parametrize("kind", NATIVE)
@pytest.mark.parametrize("provider", ["anthropic", "claude on bedrock"])
def test_a_tool_that_anthropic_defines_is_sent_in_its_own_form_alone(kind: str, provider: str) -> None:
    name, form = NATIVE[kind]
    model = AnthropicBedrock("anthropic.m", api_key="k", region="eu-west-1")
    sent = model if provider != "anthropic" else PROVIDERS[provider]("m", api_key="k")
    body = msgspec.json.decode(sent.request(SAID, (native(kind),), Options()).body)
    assert body["tools"] == [form | {"name": name}]
    types: Any = pytest.importorskip("anthropic.types.beta")
    pydantic: Any = pytest.importorskip("pydantic")
    param = getattr(types, kind)
    assert body["tools"][0].keys() <= param.__annotations__.keys()
    pydantic.TypeAdapter(param).validate_python(body["tools"][0])


def test_a_tool_that_anthropic_defines_keeps_what_every_tool_may_have() -> None:
    kind = "BetaMemoryTool20250818Param"
    meta = msgspec.structs.replace(
        native(kind), cache_control=CachePoint("1h"), strict=True, input_examples=({"code": "a"},)
    )
    body = msgspec.json.decode(PROVIDERS["anthropic"]("m", api_key="k").request(SAID, (meta,), Options()).body)
    assert body["tools"] == [
        {
            "type": "memory_20250818",
            "name": "memory",
            "cache_control": {"type": "ephemeral", "ttl": "1h"},
            "strict": True,
            "input_examples": [{"code": "a"}],
        }
    ]


@pytest.mark.parametrize("provider", sorted(set(PROVIDERS) - {"anthropic"}))
def test_other_providers_refuse_a_tool_that_anthropic_defines(provider: str) -> None:
    model = PROVIDERS[provider]("m", api_key="k")
    with pytest.raises(ConfigurationError, match=r"'bash' is defined by Anthropic .bash_20250124."):
        model.request(SAID, (native("BetaToolBash20250124Param"),), Options())
