"""Providers that shorten a conversation by themselves.

What they are sent, and that what they answer comes back to them.
"""

from __future__ import annotations

import json
from operator import attrgetter
from typing import Any

import httpx2
import msgspec
import pytest

from rxworker.errors import ConfigurationError
from rxworker.messages import Conversation, JsonObject, Message, OpaqueBlock, Text
from rxworker.providers import (
    Anthropic,
    AnthropicBedrock,
    Bedrock,
    Gemini,
    Ollama,
    OpenAIChat,
    OpenAIResponses,
    Options,
)
from rxworker.providers.base import Provider
from rxworker.transport import Client, fallback
from tests.decoded import answer_of
from tests.late import Late

anthropic = Late("anthropic")
openai = Late("openai")

HI = Conversation((Message.user("Hi"),))
AT = Options(compact_at=100_000)


def by_client(make: Any, place: str, **words: Any) -> tuple[Any, Any]:
    """The body and the headers that the official client sends."""
    seen: list[Any] = []

    def answer(request: Any) -> Any:
        seen.append(request)
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=b"")

    with httpx2.Client(transport=httpx2.MockTransport(answer)) as http:
        attrgetter(place)(make(api_key="k", http_client=http)).create(stream=True, **words)
    return json.loads(seen[0].content), seen[0].headers


def test_anthropic_is_sent_what_the_official_client_sends() -> None:
    edit = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 100_000}}
    body, headers = by_client(
        anthropic.Anthropic,
        "beta.messages",
        model="claude-sonnet-5-5",
        max_tokens=8192,
        messages=[{"role": "user", "content": "Hi"}],
        context_management={"edits": [edit]},
        betas=["files-api-2025-04-14", "compact-2026-01-12"],
    )
    provider = Anthropic("claude-sonnet-5-5", api_key="k", headers={"anthropic-beta": "files-api-2025-04-14"})
    ours = provider.request(HI, (), AT)
    sent = json.loads(ours.body)
    sent["messages"][0]["content"] = "Hi"
    assert sent == body
    assert ours.headers["anthropic-beta"] == headers["anthropic-beta"]
    assert "context_management" not in json.loads(provider.request(HI, (), Options()).body)
    plain = Anthropic("claude-sonnet-5-5", api_key="k").request(HI, (), Options())
    assert "anthropic-beta" not in plain.headers


def test_openai_is_sent_what_the_official_client_sends() -> None:
    body, _ = by_client(
        openai.OpenAI,
        "responses",
        model="gpt-5.4",
        input=[{"role": "user", "content": "Hi"}],
        store=False,
        include=["reasoning.encrypted_content"],
        context_management=[{"type": "compaction", "compact_threshold": 100_000}],
    )
    ours = OpenAIResponses("gpt-5.4", api_key="k").request(HI, (), AT)
    assert json.loads(ours.body) == body


def event(**members: Any) -> bytes:
    return b"data: " + msgspec.json.encode(members) + b"\n\n"


def test_the_compaction_of_openai_comes_back_as_it_came() -> None:
    provider = OpenAIResponses("gpt-5.4", api_key="k")
    item: JsonObject = {"type": "compaction", "id": "cmp_1", "encrypted_content": "AA"}
    text: JsonObject = {"type": "output_text", "text": "So.", "annotations": []}
    said: dict[str, Any] = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
    decoder = provider.decoder()
    whole: dict[str, Any] = {"id": "r", "status": "completed", "output": [item, said | {"content": [text]}]}
    events = decoder.feed(
        event(type="response.created", response={"id": "r", "status": "in_progress"})
        + event(type="response.output_item.added", output_index=0, item=item)
        + event(type="response.output_item.done", output_index=0, item=item)
        + event(type="response.output_item.added", output_index=1, item=said | {"content": []})
        + event(type="response.output_item.done", output_index=1, item=said | {"content": [text]})
        + event(type="response.completed", response=whole)
    )
    message = answer_of(events, provider.name)
    sent = json.loads(provider.request(HI.add(message, Message.user("And?")), (), AT).body)
    assert sent["input"][1] == item


def test_the_compaction_of_anthropic_comes_back_as_it_came() -> None:
    block: JsonObject = {
        "type": "compaction",
        "content": "They greet.",
        "encrypted_content": "AA",
        "signature": "S",
        "tool_changes": [],
    }
    said = Message("assistant", (OpaqueBlock("compaction", block), Text("So.")), "anthropic")
    provider = Anthropic("claude-sonnet-5-5", api_key="k")
    sent = json.loads(provider.request(HI.add(said, Message.user("And?")), (), AT).body)
    assert sent["messages"][1]["content"][0] == block


OWN = "https://api.anthropic.com", "https://me.services.ai.azure.com/anthropic"
GATEWAY = "http://127.0.0.1:4000"
COMPACTS: list[tuple[Provider, bool]] = [
    *((Anthropic("claude-sonnet-5-5", api_key="k", base_url=url), True) for url in OWN),
    (Anthropic("claude-sonnet-5-5", api_key="k", base_url=GATEWAY), True),
    (Anthropic("qwen", api_key="k", base_url=GATEWAY), False),
    (Anthropic("deepseek-v4-pro", api_key="k", base_url="https://api.deepseek.com"), False),
    (OpenAIResponses("gpt-5.4", api_key="k"), True),
    (OpenAIResponses("mine", api_key="k", base_url="https://me.openai.azure.com"), True),
    (OpenAIResponses("gpt-5.4", api_key="k", base_url=GATEWAY), True),
    (OpenAIResponses("qwen", api_key="k", base_url=GATEWAY), False),
    (OpenAIResponses("grok-5", api_key="k", base_url="https://api.x.ai"), False),
    (OpenAIChat("gpt-5.4", api_key="k"), False),
    (Gemini("gemini-3.8-flash", api_key="k"), False),
    (Ollama("qwen3"), False),
    (Bedrock("m", region="us-east-1", api_key="k"), False),
    (AnthropicBedrock("us.anthropic.claude-haiku-5-5-v1:0", region="us-east-1", api_key="k"), False),
]


@pytest.mark.parametrize(("provider", "compacts"), COMPACTS)
def test_what_does_not_compact_by_itself_refuses_to(provider: Provider, compacts: bool) -> None:
    assert Client(provider).compacts is compacts
    assert fallback(provider, OpenAIResponses("gpt-5.4", api_key="k")).compacts is compacts
    if compacts:
        assert b"context_management" in provider.request(HI, (), AT).body
    else:
        with pytest.raises(ConfigurationError, match=r"Compact\(by='model'\)"):
            provider.request(HI, (), AT)


def test_a_size_that_cannot_be_sent_is_refused() -> None:
    provider = Anthropic("claude-sonnet-5-5", api_key="k")
    with pytest.raises(ConfigurationError, match="50000 tokens up"):
        provider.request(HI, (), Options(compact_at=49_999))
    options = Options(compact_at=50_000, extra={"context_management": {"edits": []}})
    with pytest.raises(ConfigurationError, match="exclude each other"):
        provider.request(HI, (), options)
    with pytest.raises(ConfigurationError, match="compact_at"):
        Options(compact_at=0)
