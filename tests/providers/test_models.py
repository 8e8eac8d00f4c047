"""The table of the models, and the settings of requests fitted to it: provider, family, setting."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from datetime import date
from functools import partial
from itertools import product
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from rxworker.errors import ConfigurationError
from rxworker.messages import Conversation, JsonObject, Message, OutputFormat, Prices, ToolMeta
from rxworker.providers import (
    Anthropic,
    AnthropicBedrock,
    Bedrock,
    Gemini,
    ModelInfo,
    Ollama,
    OpenAIChat,
    OpenAIResponses,
    Options,
    ToolChoice,
    model_info,
)
from rxworker.providers.fit import BUDGETS, fitted
from rxworker.providers.models import DATED, MODELS, UNKNOWN, VENDORS
from rxworker.providers.service import Service

SAID = Conversation((Message.user("hi"),))
DEEPSEEK = "https://api.deepseek.com"
LOCAL = "http://127.0.0.1:8080"

PROVIDERS: dict[str, Callable[..., Service]] = {
    "anthropic": partial(Anthropic, api_key="k"),
    "anthropic, compatible": partial(Anthropic, api_key="k", base_url=f"{DEEPSEEK}/anthropic"),
    "chat": partial(OpenAIChat, api_key="k"),
    "chat, deepseek": partial(OpenAIChat, api_key="k", base_url=DEEPSEEK),
    "chat, kimi": partial(OpenAIChat, api_key="k", base_url="https://api.moonshot.ai"),
    "chat, glm": partial(OpenAIChat, api_key="k", base_url="https://api.z.ai"),
    "chat, minimax": partial(OpenAIChat, api_key="k", base_url="https://api.minimax.io"),
    "chat, xai": partial(OpenAIChat, api_key="k", base_url="https://api.x.ai"),
    "chat, azure": partial(OpenAIChat, api_key="k", base_url="https://me.openai.azure.com"),
    "chat, local": partial(OpenAIChat, base_url=LOCAL),
    "chat, openrouter": partial(OpenAIChat, api_key="k", base_url="https://openrouter.ai/api/v1"),
    "responses": partial(OpenAIResponses, api_key="k"),
    "gemini": partial(Gemini, api_key="k"),
    "bedrock": partial(Bedrock, region="us-east-1", api_key="k"),
    "claude on bedrock": partial(AnthropicBedrock, region="us-east-1", api_key="k"),
    "ollama": Ollama,
}


def sent(provider: str, model: str, **options: Any) -> dict[str, Any]:
    body = PROVIDERS[provider](model).request(SAID, (), Options(**options)).body
    return json.loads(body)


def thinking_of(provider: str, model: str, thinking: int | str) -> dict[str, Any]:
    """The members of the body that are about thinking."""
    body = sent(provider, model, thinking=thinking)
    body |= body.get("additionalModelRequestFields", {})
    body |= body.get("generationConfig", {})
    names = ("thinking", "output_config", "reasoning_effort", "reasoning", "thinkingConfig")
    found: dict[str, Any] = {name: body[name] for name in names if name in body}
    kind = found.get("thinking", {})
    assert kind.pop("display", "summarized") == "summarized"
    assert found.get("thinkingConfig", {}).pop("includeThoughts", True) is True
    return found


OFF: JsonObject = {"thinking": {"type": "disabled"}}
ADAPTIVE: JsonObject = {"thinking": {"type": "adaptive"}}


def effort(word: str) -> JsonObject:
    return {**ADAPTIVE, "output_config": {"effort": word}}


def budget(tokens: int) -> JsonObject:
    return {"thinking": {"type": "enabled", "budget_tokens": tokens}}


def chat(word: str) -> JsonObject:
    return {"reasoning_effort": word}


def responses(word: str) -> JsonObject:
    return {"reasoning": {"effort": word}}


def level(word: str) -> JsonObject:
    return {"thinkingConfig": {"thinkingLevel": word}}


def tokens(number: int) -> JsonObject:
    return {"thinkingConfig": {"thinkingBudget": number}}


BUDGET = budget(2_000), budget(32_000)
TOKENS = tokens(2_000), tokens(32_000), tokens(2_048)
EFFORTS, CHAT, RESPONSES = ([by(word) for word in ("low", "high", "low", "max")] for by in (effort, chat, responses))
LEVELS = level("low"), level("high"), level("low")
# What is sent for `thinking=0`, for 2,000 tokens, for 32,000, for ``low`` and for ``max``; a text is a part of the
# error.
ROWS: list[tuple[str, str, tuple[JsonObject | str, ...]]] = [
    ("anthropic", "claude-haiku-4-5", (OFF, *BUDGET, budget(2_048), "use a budget, such as thinking=2048")),
    ("anthropic", "claude-opus-4-6", (OFF, *BUDGET, effort("low"), effort("max"))),
    ("anthropic", "claude-opus-4-7", ({}, *EFFORTS)),
    ("anthropic", "claude-opus-4-8", ({}, *EFFORTS)),
    ("anthropic", "claude-sonnet-5", (OFF, *EFFORTS)),
    ("anthropic", "claude-haiku-5-5", (OFF, *EFFORTS)),
    ("anthropic", "claude-sonnet-5-5", ({"thinking": {"type": "between_tools"}}, *EFFORTS)),
    ("anthropic", "claude-opus-5-5", ("always thinks: leave thinking out, or use thinking='low'", *EFFORTS)),
    ("anthropic", "claude-opus-9", ("always thinks", *EFFORTS)),
    ("anthropic, compatible", "deepseek-v4-pro", (OFF, *BUDGET, effort("low"), effort("max"))),
    ("claude on bedrock", "us.anthropic.claude-opus-5-5", ("always thinks", *EFFORTS)),
    ("bedrock", "eu.anthropic.claude-opus-4-7-v1:0", ({}, *EFFORTS)),
    ("bedrock", "us.anthropic.claude-haiku-4-5-20251001-v1:0", (OFF, *BUDGET, budget(2_048), "use a budget")),
    ("chat", "gpt-4.1-mini", ({}, *["does not think"] * 4)),
    ("chat", "gpt-5", (chat("minimal"), *CHAT[:3], "use thinking='minimal' or")),
    ("chat", "gpt-5.1", (chat("none"), *CHAT[:3], "does not take thinking='max'")),
    ("chat", "gpt-5.6", (chat("none"), *CHAT)),
    ("chat", "gpt-6.2-sol", ("always thinks", *CHAT)),
    ("chat", "o3", ("always thinks", *CHAT[:3], "use thinking='low'")),
    ("chat", "gpt-7", ("always thinks", *CHAT)),
    ("chat, deepseek", "deepseek-v4-pro", (OFF, *CHAT)),
    ("chat, local", "deepseek-v4-pro", (chat("none"), *CHAT)),
    ("chat, openrouter", "anthropic/claude-opus-4.8", (chat("none"), *CHAT)),
    ("chat, kimi", "kimi-k3.1-pro", ("always thinks", *CHAT)),
    ("chat, kimi", "kimi-for-coding", ("always thinks", *CHAT)),
    ("chat, kimi", "kimi-k2.7-code", ("always thinks", *["always thinks as it decides"] * 4)),
    ("chat, kimi", "kimi-k2.6", (OFF, *CHAT)),
    ("chat, glm", "glm-5.3", ("always thinks", *CHAT)),
    ("chat, glm", "glm-5.1", (OFF, *CHAT)),
    ("chat, glm", "glm-4.5v", (OFF, *CHAT)),
    ("chat, minimax", "MiniMax-M3", (OFF, *CHAT)),
    ("chat, minimax", "MiniMax-M2.7", ("always thinks", *CHAT)),
    ("chat, minimax", "MiniMax-M3.1-Flash", ("always thinks", *CHAT)),
    ("chat, xai", "grok-4.6", ("always thinks", *CHAT[:3], "does not take thinking='max'")),
    ("chat, xai", "grok-4.3", (chat("none"), *CHAT[:3], "'max'")),
    ("chat, xai", "grok-4-0709", ("always thinks", *["always thinks as it decides"] * 4)),
    ("responses", "gpt-4.1", ({}, *["does not think"] * 4)),
    ("responses", "gpt-5-mini", (responses("minimal"), *RESPONSES[:3], "does not take thinking='max'")),
    ("responses", "gpt-5.2-2025-12-11", (responses("none"), *RESPONSES[:3], "'max'")),
    ("responses", "gpt-6-luna", (responses("none"), *RESPONSES)),
    ("gemini", "gemini-2.5-flash", (tokens(0), *TOKENS, "use thinking='adaptive' or a")),
    ("gemini", "gemini-2.5-pro", ("or use thinking=128", *TOKENS, "use thinking")),
    ("gemini", "gemini-3.6-flash", (level("minimal"), *LEVELS, "use thinking='adaptive' or")),
    ("gemini", "gemini-3.8-flash", ("always thinks", *LEVELS, "does not take")),
    ("gemini", "models/gemini-5-oxygen", ("always thinks", *LEVELS, "does not take")),
]
AMOUNTS = (0, 2_000, 32_000, "low", "max")


@pytest.mark.parametrize(
    ("provider", "model", "amount", "expected"),
    [
        pytest.param(provider, model, amount, expected, id=f"{provider}, {model.replace(':', '-')}: {amount}")
        for provider, model, row in ROWS
        for amount, expected in zip(AMOUNTS, row, strict=True)
    ],
)
def test_an_amount_of_thinking_is_sent_in_the_form_of_the_family(
    provider: str, model: str, amount: int | str, expected: JsonObject | str
) -> None:
    if isinstance(expected, str):
        with pytest.raises(ConfigurationError, match=re.escape(expected)):
            thinking_of(provider, model, amount)
    else:
        assert thinking_of(provider, model, amount) == expected


@pytest.mark.parametrize("word", ["off", "none", "disabled", 0])
def test_each_word_for_no_thinking_means_the_same(word: int | str) -> None:
    assert thinking_of("anthropic", "claude-haiku-4-5", word) == OFF
    assert thinking_of("chat", "gpt-5.1", word) == chat("none")
    assert thinking_of("responses", "gpt-5", word) == responses("minimal")
    assert thinking_of("gemini", "gemini-2.5-flash", word) == tokens(0)
    assert thinking_of("chat, deepseek", "deepseek-flash", word) == OFF
    assert sent("ollama", "qwen3", thinking=word)["think"] is False


def test_a_budget_below_the_least_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="budget from 1024 tokens up"):
        sent("anthropic", "claude-haiku-4-5", thinking=1_000)


def test_a_budget_that_becomes_an_effort_counts_against_the_limit() -> None:
    assert sent("anthropic", "claude-opus-4-8", thinking=32_000)["max_tokens"] == 8_192 + 32_000
    assert sent("anthropic", "claude-opus-4-8", thinking=500_000)["max_tokens"] == 128_000
    assert sent("anthropic", "claude-opus-4-8", thinking=9_000, max_tokens=5)["max_tokens"] == 5
    assert "max_completion_tokens" not in sent("chat", "gpt-5.1", thinking=32_000)


@pytest.mark.parametrize("word", BUDGETS)
def test_an_effort_and_its_budget_mean_each_other(word: str) -> None:
    assert thinking_of("anthropic", "claude-haiku-4-5", word) == budget(BUDGETS[word])
    assert thinking_of("anthropic", "claude-opus-4-8", BUDGETS[word]) == effort(word)


def test_an_effort_that_becomes_a_budget_leaves_room_for_the_answer() -> None:
    body = sent("anthropic", "claude-haiku-4-5", thinking="high", max_tokens=8_000)
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 4_000}
    with pytest.raises(ConfigurationError, match="needs max_tokens=2048 or more to think"):
        sent("anthropic", "claude-haiku-4-5", thinking="high", max_tokens=2_000)


# Of each of these, whether a temperature is taken: without thinking, with some, and turned off.
SAMPLED: list[tuple[str, str, str]] = [
    ("anthropic", "claude-haiku-4-5", "yes no yes"),
    ("anthropic", "claude-opus-4-6", "yes no yes"),
    ("anthropic", "claude-opus-4-7", "no no no"),
    ("anthropic", "claude-sonnet-5", "no no no"),
    ("anthropic", "claude-haiku-5-5", "no no no"),
    ("claude on bedrock", "anthropic.claude-opus-4-8", "no no no"),
    ("bedrock", "anthropic.claude-opus-4-7", "no no no"),
    ("anthropic, compatible", "deepseek-v4-pro", "yes yes yes"),
    ("chat", "gpt-5", "no no no"),
    ("chat", "gpt-5.1", "yes no yes"),
    ("responses", "gpt-5.6", "no no yes"),
    ("responses", "gpt-6-luna", "no no yes"),
    ("responses", "gpt-6.2-astra", "no no no"),
    ("chat, deepseek", "deepseek-v4-pro", "yes yes yes"),
    ("chat, local", "qwen3", "yes yes yes"),
    ("chat, kimi", "kimi-k3", "no no no"),
    ("chat, kimi", "kimi-k2.6", "no no no"),
    ("chat, kimi", "moonshot-v1-8k", "yes yes yes"),
    ("chat, glm", "glm-5.3", "yes yes yes"),
    ("chat, local", "kimi-k3", "yes yes yes"),
    ("gemini", "gemini-3.6-flash", "yes yes yes"),
]


@pytest.mark.parametrize(("provider", "model", "taken"), SAMPLED)
def test_sampling_parameters_go_only_to_models_that_take_them(provider: str, model: str, taken: str) -> None:
    make = PROVIDERS[provider](model)
    always = make.info.off is None
    names = ("temperature",) if provider in ("gemini", "bedrock") else ("temperature", "top_p")
    for name, (thinking, word) in product(names, zip((None, "low", 0), taken.split(), strict=True)):
        if always and thinking == 0:
            continue
        options = Options(thinking=thinking)
        options = replace(options, temperature=0.5) if name == "temperature" else replace(options, extra={name: 0.5})
        if word == "yes":
            body = json.loads(make.request(SAID, (), options).body)
            whole = body | body.get("generationConfig", {}) | body.get("inferenceConfig", {})
            assert whole[name] == 0.5
        else:
            with pytest.raises(ConfigurationError, match=f"takes no {name}.*: leave it out"):
                make.request(SAID, (), options)


def test_the_default_of_a_sampling_parameter_is_not_a_reason_to_refuse() -> None:
    assert "temperature" not in sent("anthropic", "claude-opus-4-8", temperature=1.0)
    assert sent("anthropic", "claude-opus-4-6", temperature=1.0, thinking=2_000)["temperature"] == 1


@pytest.mark.parametrize(
    ("model", "options", "error"),
    [
        ("claude-opus-5-5", Options(tool_choice=ToolChoice("any")), "cannot be forced"),
        ("claude-sonnet-5-5", Options(tool_choice=ToolChoice("tool", "look")), "ToolChoice"),
        ("claude-haiku-4-5", Options(max_tokens=64_001), "at most 64000 tokens"),
    ],
)
def test_what_a_model_cannot_do_is_refused(model: str, options: Options, error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        Anthropic(model, api_key="k").request(SAID, (), options)


LOOK = ToolMeta("look", "Look.", {"type": "object"})
# What is sent with tools where no thinking is requested, with `thinking="low"`, and with `thinking=0`; a text is a part
# of the error.
TOOLED: list[tuple[str, str, tuple[JsonObject | str, ...]]] = [
    ("chat", "gpt-4.1", ({}, "does not think", {})),
    ("chat", "gpt-5", ({}, chat("low"), chat("minimal"))),
    ("chat", "gpt-5.1", ({}, chat("low"), chat("none"))),
    ("chat", "gpt-5.2", ({}, chat("low"), chat("none"))),
    ("chat", "my-model", ({}, chat("low"), "always thinks")),
    ("chat", "gpt-5.4-mini", ({}, "or thinking=0", chat("none"))),
    ("chat", "gpt-5.5", ({}, "or thinking=0", chat("none"))),
    ("chat", "gpt-5.6-terra", (chat("none"), "or thinking=0", chat("none"))),
    ("chat", "gpt-6-luna", (chat("none"), "or thinking=0", chat("none"))),
    ("chat", "gpt-6-astra", ("use OpenAIResponses", "use OpenAIResponses", "always thinks")),
    ("chat", "gpt-6.2-sol", ("use OpenAIResponses", "use OpenAIResponses", "always thinks")),
    ("chat", "gpt-7", ("use OpenAIResponses", "use OpenAIResponses", "always thinks")),
    ("chat, azure", "gpt-5.6", (chat("none"), "or thinking=0", chat("none"))),
    ("chat, azure", "my-deployment", ({}, chat("low"), chat("none"))),
    ("chat, openrouter", "openai/gpt-6.2-sol", ({}, chat("low"), "always thinks")),
    ("responses", "gpt-6.2-sol", ({}, responses("low"), "always thinks")),
    ("chat, kimi", "kimi-k3", ({}, chat("low"), "always thinks")),
]


@pytest.mark.parametrize(("provider", "model", "expected"), TOOLED)
def test_tools_and_thinking_go_together_only_where_the_service_takes_both(
    provider: str, model: str, expected: tuple[JsonObject | str, ...]
) -> None:
    service = PROVIDERS[provider](model)
    for thinking, what in zip((None, "low", 0), expected, strict=True):
        options = Options(thinking=thinking)
        if isinstance(what, str):
            with pytest.raises(ConfigurationError, match=what):
                service.request(SAID, (LOOK,), options)
        else:
            body = json.loads(service.request(SAID, (LOOK,), options).body)
            names = ("reasoning_effort", "reasoning")
            assert {name: body[name] for name in names if name in body} == what


def test_an_effort_of_the_application_goes_along_with_tools() -> None:
    options = Options(extra={"reasoning_effort": "low"})
    request = PROVIDERS["chat"]("gpt-5.6").request(SAID, (LOOK,), options)
    assert json.loads(request.body)["reasoning_effort"] == "low"


@pytest.mark.parametrize(
    ("provider", "model", "takes"),
    [
        ("chat", "gpt-4.1", True),
        ("chat", "gpt-5.6", True),
        ("chat", "gpt-5.2", False),
        ("chat", "gpt-6-astra", False),
        ("chat", "o3", False),
        ("chat, xai", "grok-4.6", False),
        ("chat, kimi", "kimi-k3", True),
        ("chat, local", "grok-4.6", True),
    ],
)
def test_texts_to_stop_at_go_only_to_models_that_take_them(provider: str, model: str, takes: bool) -> None:
    if takes:
        assert sent(provider, model, stop_sequences=("END",))["stop"] == ["END"]
    else:
        with pytest.raises(ConfigurationError, match="takes no stop_sequences: leave them out"):
            sent(provider, model, stop_sequences=("END",))


@pytest.mark.parametrize("provider", ["chat, glm", "chat, minimax"])
def test_a_call_cannot_be_forced_where_the_service_has_no_form_for_it(provider: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be forced to call a tool"):
        sent(provider, "m", tool_choice=ToolChoice("any"))


@pytest.mark.parametrize(
    ("provider", "flag", "with_tools_alone"),
    [("chat, glm", "tool_stream", True), ("chat, minimax", "reasoning_split", False)],
)
def test_a_flag_of_a_host_is_sent_unless_the_application_gives_another_value(
    provider: str, flag: str, with_tools_alone: bool
) -> None:
    service = PROVIDERS[provider]("m")
    without: JsonObject = {flag: False}
    bodies = [
        json.loads(service.request(SAID, tools, Options(extra=extra)).body)
        for tools, extra in (((LOOK,), {}), ((), {}), ((LOOK,), without))
    ]
    plain = None if with_tools_alone else True
    assert [body.get(flag) for body in bodies] == [True, plain, False]


def test_an_answer_that_cannot_be_held_to_a_schema_is_refused() -> None:
    options = Options(output=OutputFormat({"type": "object"}))
    assert fitted("m", UNKNOWN, options) == options
    with pytest.raises(ConfigurationError, match="held to a schema"):
        fitted("m", ModelInfo(structured=False), options)


def test_a_row_can_be_replaced() -> None:
    provider = Anthropic("claude-opus-4-8", api_key="k")
    info = replace(provider.info, sampling="always", prices=Prices(input=1.0, output=2.0))
    own = Anthropic("claude-opus-4-8", api_key="k", info=info)
    assert json.loads(own.request(SAID, (), Options(temperature=0.2)).body)["temperature"] == 0.2
    assert own.info.prices == Prices(input=1.0, output=2.0)
    with pytest.raises(ConfigurationError, match="info=ModelInfo"):
        Anthropic("claude-opus-4-8", info={"output": 1})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("provider", [name for name in PROVIDERS if name != "ollama"])
def test_each_provider_takes_a_row(provider: str) -> None:
    assert PROVIDERS[provider]("m", info=ModelInfo(output=7)).info.output == 7


# --- the table


def test_rows_are_whole() -> None:
    """Each has the sources of its vendor and its day; dates are dates, and prices are in the order that prices have."""
    assert date.fromisoformat(DATED)
    for row in MODELS:
        assert row.names, row
        assert VENDORS[row.vendor].sources, row
        assert row.until is None or date.fromisoformat(row.until), row
        if (prices := row.prices) is not None:
            assert 0 < prices.input < prices.output, row
            assert prices.cache_read is None or prices.cache_read < prices.input, row
            assert prices.cache_creation is None or prices.cache_creation >= prices.input, row
        if row.context is not None and row.output is not None:
            assert row.output <= row.context, row
        assert row.sampling != "without thinking" or row.off is not None, row


def of_sdk(module: str, name: str) -> Iterable[str]:
    package = module.partition(".")[0]
    found: Any = pytest.importorskip(module, reason=f"the package {package} is not installed")
    listed = get_args(getattr(found, name))
    return {word for one in listed for word in (get_args(one) or (one,)) if isinstance(word, str)}


@pytest.mark.parametrize(
    ("module", "name"), [("anthropic.types.model", "Model"), ("openai.types.shared.chat_model", "ChatModel")]
)
def test_each_model_of_the_official_clients_has_one_row(module: str, name: str) -> None:
    """Models for audio and search are not in the table, nor one that the client has for compatibility alone."""
    named = of_sdk(module, name)
    models = {one for one in named if not re.search("audio|search|gpt-5.1-mini", one)}
    rows = {one: [row for row in MODELS if row.matches(one)] for one in models}
    assert {one for one, found in rows.items() if not found} == set()
    several = {one: [row.names for row in found] for one, found in rows.items() if len(found) > 1}
    # The last row of a vendor is for what the rows before it left.
    assert {one for one in several if not one.startswith("gpt-4")} == set()


def test_an_announced_end_is_that_of_the_official_client() -> None:
    data: Any = pytest.importorskip("anthropic._data", reason="the package anthropic is too old")
    for model, announced in data.DEPRECATED_MODELS.items():
        until = model_info(model).until
        assert until is not None, model
        day = date.fromisoformat(until)
        assert f"{day:%B} {day.day}" in announced, model
        assert str(day.year) in announced, model


@pytest.mark.parametrize(
    ("model", "host", "names"),
    [
        ("claude-opus-9", None, ""),
        ("gpt-5.1-2025-11-13", "models.inference.ai.azure.com", r"gpt-5\.1"),
        ("gpt-oss-120b", "127.0.0.1", ""),
        ("my-deployment", "mine.openai.azure.com", ""),
        ("my-fine-model", "api.openai.com", ""),
        ("deepseek-v4-pro", "127.0.0.1", ""),
        ("deepseek-v4-pro", None, "deepseek-v4-pro"),
        ("kimi-for-coding", "api.kimi.com", ""),
        ("kimi-k3", "127.0.0.1", ""),
        ("glm-6", "open.bigmodel.cn", ""),
        ("grok-4-fast", "api.x.ai", r"grok-([23]|4-|4\.[12]|build|code).*"),
        ("grok-5", "api.x.ai", ""),
        ("grok-4.6", "api.x.ai", r"grok-4\.6"),
        ("publishers/google/models/gemini-3.8-flash-001", None, r"gemini-3\.8-flash"),
        ("claude-opus-4-5@20251101", None, "claude-opus-4-5"),
    ],
)
def test_a_name_has_its_row(model: str, host: str | None, names: str) -> None:
    assert model_info(model, host).names == names


@pytest.mark.parametrize(
    ("model", "host", "like"),
    [
        ("claude-opus-6", None, "claude-opus-5-5"),
        ("gpt-7-nano", None, "gpt-6.2-sol"),
        ("gemini-5-helium", None, "gemini-4-hydrogen"),
        ("kimi-k4", "api.moonshot.ai", "kimi-k3.1-pro"),
        ("glm-6", "open.bigmodel.cn", "glm-5.3"),
        ("MiniMax-M4", "api.minimax.io", "MiniMax-M3.1-Flash"),
        ("grok-5", "api.x.ai", "grok-4.6"),
    ],
)
def test_an_unknown_name_takes_what_its_family_takes_and_has_no_figures(
    model: str, host: str | None, like: str
) -> None:
    found = model_info(model, host)
    assert (found.names, found.prices, found.context, found.output, found.cache_least) == ("", *[None] * 4)
    known = model_info(like, host)
    assert (found.vendor, found.efforts, found.sampling, found.off) == (
        known.vendor,
        known.efforts,
        known.sampling,
        known.off,
    )


@pytest.mark.parametrize(
    ("model", "until"),
    [
        ("MiniMax-M2.5", "2026-11-18"),
        ("MiniMax-M2.5-highspeed", "2026-11-18"),
        ("MiniMax-M2.7", "2026-11-18"),
        ("MiniMax-M2.7-highspeed", "2026-11-18"),
        ("MiniMax-M2.1", None),
        ("MiniMax-M3", None),
        ("gemini-3.5-flash", "2026-10-09"),
        ("gemini-3.5-flash-lite", None),
        ("gemini-3.7-flash", "2026-10-09"),
        ("gemini-3.8-flash", None),
    ],
)
def test_a_model_has_its_last_day(model: str, until: str | None) -> None:
    assert model_info(model).until == until


@pytest.mark.parametrize(
    ("model", "prices"),
    [
        ("claude-fable-5-2", (8.0, 40.0, 0.2)),
        ("claude-mythos-5-2", (8.0, 40.0, 0.2)),
        ("MiniMax-M3.1-Flash", (0.15, 0.6, 0.015)),
        ("MiniMax-M3", (0.3, 1.2, 0.06)),
    ],
)
def test_a_model_has_its_own_prices(model: str, prices: tuple[float, ...]) -> None:
    found = model_info(model).prices
    assert found is not None
    assert (found.input, found.output, found.cache_read) == prices
