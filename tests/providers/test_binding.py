"""Thinking that is bound to the conversation before it: what a request to Claude states about it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import reduce
from typing import Any, get_args

import pytest

from rxworker.messages import Conversation, JsonObject, Message, Text, Thinking
from rxworker.providers import Anthropic, AnthropicBedrock, AnthropicVertex, Bedrock, ModelInfo, Options
from rxworker.providers.cache_use import CacheUse, step_cache
from rxworker.providers.service import Service

BETA = "thinking-binding-controls-2026-08-01"
DROP: JsonObject = {"prefix_mismatch_behavior": "drop_block"}
BOUND = "claude-opus-5-5"


def answered(provider: str = "anthropic", signature: str | None = "s") -> Conversation:
    answer = Message("assistant", (Thinking("Hm.", signature), Text("Yes.")), provider=provider)
    return Conversation((Message.user("Hi"), answer, Message.user("Why?")))


def own(model: str = BOUND, **more: Any) -> Anthropic:
    return Anthropic(model, api_key="k", **more)


def sent(service: Service, said: Conversation, **options: Any) -> tuple[str | None, dict[str, Any]]:
    request = service.request(said, (), Options(**options))
    return request.headers.get("anthropic-beta"), json.loads(request.body)


CLOUDS: dict[str, Callable[[], Service]] = {
    "anthropic": own,
    "vertex": lambda: AnthropicVertex(BOUND, project="p", access_token="t"),
    "invoke": lambda: AnthropicBedrock(
        f"us.anthropic.{BOUND}", region="us-east-1", api_key="k", headers={"anthropic-beta": "a"}
    ),
    "converse": lambda: Bedrock(f"us.anthropic.{BOUND}", region="us-east-1", api_key="k"),
}


@pytest.mark.parametrize("cloud", CLOUDS)
def test_thinking_whose_conversation_has_changed_is_left_out_instead_of_refused(cloud: str) -> None:
    said = answered("bedrock" if cloud == "converse" else "anthropic")
    header, body = sent(CLOUDS[cloud](), said, thinking="low")
    body |= body.pop("additionalModelRequestFields", {})
    betas = body.get("anthropic_beta", (header or "").split(","))
    assert betas == (["a", BETA] if cloud == "invoke" else [BETA])
    expected = {"type": "adaptive", "display": "summarized", "block_binding": DROP}
    assert body["thinking"] == expected
    assert sent(CLOUDS[cloud](), Conversation((Message.user("Hi"),)))[1].get("thinking") is None
    types: Any = pytest.importorskip("anthropic.types.beta")
    pydantic: Any = pytest.importorskip("pydantic")
    params = types.BetaThinkingConfigAdaptiveParam
    assert pydantic.TypeAdapter(params).validate_python(expected) == expected
    param: Any = pytest.importorskip("anthropic.types.anthropic_beta_param")
    assert any(BETA in get_args(one) for one in get_args(param.AnthropicBetaParam))


@pytest.mark.parametrize("thinking", [None, "low"])
@pytest.mark.parametrize("cloud", CLOUDS)
def test_the_meter_for_caches_takes_it_for_no_change_of_the_prompt(cloud: str, thinking: str | None) -> None:
    service, options = CLOUDS[cloud](), Options(thinking=thinking)
    said = answered("bedrock" if cloud == "converse" else "anthropic")
    first = service.request(Conversation(said.messages[:1]), (), options)
    second = service.request(said, (), options)
    assert b"block_binding" in second.body
    assert reduce(step_cache, (first, second), CacheUse()).change is None
    other = service.request(said, (), Options(thinking="high"))
    change = reduce(step_cache, (second, other), CacheUse()).change
    assert change is not None
    assert change.part == "option"


@pytest.mark.parametrize(
    ("service", "said", "options"),
    [
        pytest.param(own("claude-opus-4-8"), answered(), {}, id="an older model"),
        pytest.param(own(), answered(signature=None), {}, id="no thinking is sent"),
        pytest.param(own(info=ModelInfo()), answered(), {}, id="another row"),
        pytest.param(own(base_url="https://gateway.example"), answered(), {}, id="another host"),
        pytest.param(own("claude-haiku-5-5"), answered(), {"thinking": 0}, id="turned off"),
        pytest.param(own("claude-sonnet-5-5"), answered(), {"thinking": 0}, id="between tools"),
        pytest.param(own(), answered(), {"extra": {"thinking": {"type": "disabled"}}}, id="another type"),
    ],
)
def test_other_requests_state_nothing_about_it(service: Service, said: Conversation, options: dict[str, Any]) -> None:
    header, body = sent(service, said, **options)
    assert header is None
    assert "block_binding" not in body.get("thinking", {})


def test_an_application_may_choose_the_refusal_and_has_its_own_betas() -> None:
    refuse: JsonObject = {"block_binding": {"prefix_mismatch_behavior": "error"}}
    header, body = sent(
        own(headers={"anthropic-beta": "a"}), answered(), extra={"thinking": refuse}, headers={"Anthropic-Beta": "b, c"}
    )
    assert header == f"b,c,{BETA}"
    assert body["thinking"] == {"type": "adaptive", **refuse}
