"""A conversation moves between two servers of one protocol, and each gets what it takes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rxworker.messages import (
    Conversation,
    Image,
    JsonObject,
    Message,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolMeta,
    ToolResult,
)
from rxworker.providers import OpenAIChat, Options
from rxworker.providers.openai_chat.dialects import COMPATIBLE, OPENAI, Dialect, dialect_of

OPENAI_URL = "https://api.openai.com/v1"
AZURE = "https://me.openai.azure.com/openai/v1"
DEEPSEEK = "https://api.deepseek.com"
OPENROUTER = "https://openrouter.ai/api/v1"
GROQ = "https://api.groq.com/openai/v1"
MISTRAL = "https://api.mistral.ai/v1"
GOOGLE = "https://generativelanguage.googleapis.com/v1beta/openai"
KIMI = "https://api.moonshot.ai/v1"
OWN_SERVER = "http://127.0.0.1:8000/v1"

DETAILS: JsonObject = {"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}
SEAL: JsonObject = {"extra_content": {"google": {"thought_signature": "s"}}}


def call(echo: JsonObject | None = None) -> ToolCall:
    return ToolCall("call_1", "look", {}, echo)


def own(*content: Any) -> Message:
    return Message("assistant", content, provider="openai_chat")


# What servers answer, as a conversation keeps it.
ANSWERS = {
    "deepseek": own(Thinking("hm", echo={"field": "reasoning_content"}), call()),
    "openrouter": own(Thinking("hm", echo=DETAILS), call()),
    "google": own(call(SEAL)),
    "plain": own(Thinking("hm"), call()),
    "vllm": own(Thinking("hm", echo={"field": "reasoning"}), call()),
    "anthropic": Message(
        "assistant", (Thinking("hm", "sig", {"field": "reasoning_content"}), call(SEAL)), provider="anthropic"
    ),
}
HM = {"reasoning_content": "hm"}
NONE = {"reasoning_content": ""}
BLANK = {"reasoning_content": " "}


def messages(base_url: str, *said: Message) -> list[dict[str, Any]]:
    provider = OpenAIChat("m", api_key="k", base_url=base_url)
    request = provider.request(Conversation(said), (), Options())
    return msgspec.json.decode(request.body)["messages"]


@pytest.mark.parametrize(
    ("base_url", "answer", "expected"),
    [
        (OPENAI_URL, "deepseek", {}),
        (OPENAI_URL, "openrouter", {}),
        (OPENAI_URL, "google", {}),
        (AZURE, "deepseek", {}),
        (GROQ, "deepseek", {}),
        (GROQ, "openrouter", {}),
        (GROQ, "google", {}),
        (MISTRAL, "openrouter", {}),
        (DEEPSEEK, "deepseek", HM),
        (DEEPSEEK, "openrouter", NONE),
        (DEEPSEEK, "google", NONE),
        (DEEPSEEK, "plain", NONE),
        (DEEPSEEK, "anthropic", NONE),
        (OPENROUTER, "openrouter", DETAILS),
        (OPENROUTER, "deepseek", {}),
        (GOOGLE, "google", SEAL),
        (GOOGLE, "openrouter", {}),
        (OWN_SERVER, "deepseek", HM),
        (OWN_SERVER, "openrouter", DETAILS),
        (OWN_SERVER, "google", SEAL),
        (OWN_SERVER, "plain", {}),
        (OWN_SERVER, "vllm", {"reasoning": "hm"}),
        (GROQ, "vllm", {"reasoning": "hm"}),
        ("https://api.together.xyz/v1", "vllm", {"reasoning": "hm"}),
        (OPENAI_URL, "vllm", {}),
        (DEEPSEEK, "vllm", HM),  # in the member that it demands
        (KIMI, "vllm", HM),
        (KIMI, "deepseek", HM),
        (KIMI, "plain", BLANK),
        (KIMI, "anthropic", BLANK),
        ("https://api.moonshot.cn/v1", "plain", BLANK),
        ("https://api.kimi.com/coding/v1", "plain", BLANK),
        (OWN_SERVER, "anthropic", {}),
    ],
)
def test_a_server_is_sent_what_it_takes_and_demands(base_url: str, answer: str, expected: dict[str, Any]) -> None:
    said = messages(base_url, ANSWERS[answer])[0]
    (asked,) = said.pop("tool_calls")
    assert {k: v for k, v in said.items() if k not in ("role", "content")} | {
        k: v for k, v in asked.items() if k not in ("id", "type", "function")
    } == expected


LOOK = ToolMeta("look", "Look.", {"type": "object"})


@pytest.mark.parametrize(
    ("base_url", "tools", "expected"),
    [(DEEPSEEK, (LOOK,), HM), (DEEPSEEK, (), {}), (KIMI, (LOOK,), {}), (OWN_SERVER, (LOOK,), {})],
)
def test_an_answer_without_calls_has_its_thinking_where_a_request_with_tools_demands_it(
    base_url: str, tools: tuple[ToolMeta, ...], expected: dict[str, Any]
) -> None:
    answer = own(Thinking("hm", echo={"field": "reasoning_content"}), Text("yes"))
    conversation = Conversation((Message.user("?"), answer, Message.user("And?")))
    provider = OpenAIChat("m", api_key="k", base_url=base_url)
    provider.request(conversation, (), Options())  # what is kept of it must not hide the tools
    request = provider.request(conversation, tools, Options())
    sent = msgspec.json.decode(request.body)["messages"][1]
    assert sent == {"role": "assistant", "content": "yes", **expected}


def test_the_dialect_of_a_server_may_be_given() -> None:
    given = Dialect(limit="max_completion_tokens", echoes=(), demands_reasoning="calls")
    provider = OpenAIChat("m", base_url="https://gateway.example/v1", dialect=given)
    conversation = Conversation((Message.user("?"), ANSWERS["plain"]))
    body = msgspec.json.decode(provider.request(conversation, (), Options(max_tokens=5)).body)
    assert body["max_completion_tokens"] == 5
    assert body["messages"][1]["reasoning_content"] == ""


@pytest.mark.parametrize(
    ("base_url", "call_id", "length"),
    [
        (MISTRAL, "a1B2c3D4e", 9),
        (MISTRAL, "call_1", 9),
        (MISTRAL, "a1B2c3D4e\n", 9),
        (OPENAI_URL, "call_1", 6),
        (OPENAI_URL, "x" * 64, 40),
        (OWN_SERVER, "x" * 64, 64),
    ],
)
def test_ids_look_as_the_server_wants_them(base_url: str, call_id: str, length: int) -> None:
    asked = own(ToolCall(call_id, "look", {}), ToolCall("call_2", "look", {}))
    answer = Message.user(ToolResult(call_id, "blue"), ToolResult("call_2", "red"))
    said = messages(base_url, asked, answer)
    ids = [one["id"] for one in said[0]["tool_calls"]]
    assert ids == [one["tool_call_id"] for one in said[1:]]
    assert len(ids[0]) == length
    assert len(set(ids)) == 2
    assert (ids[0] == call_id) is (len(call_id) == length)


def test_a_result_without_its_call_has_an_id_that_the_server_takes() -> None:
    said = messages(MISTRAL, Message.user(ToolResult("call_1", "blue")))
    assert len(said[0]["tool_call_id"]) == 9


@pytest.mark.parametrize(
    ("base_url", "expected"),
    [
        (OPENAI_URL, {"content": None, "refusal": "No."}),
        (OWN_SERVER, {"content": None, "refusal": "No."}),
        (MISTRAL, {"content": "No."}),
        (GROQ, {"content": "No."}),
    ],
)
def test_a_refusal_is_text_where_the_server_has_no_word_for_it(base_url: str, expected: dict[str, Any]) -> None:
    assert messages(base_url, own(Refusal("No."))) == [{"role": "assistant", **expected}]


def test_pictures_of_an_answer_go_back_to_openrouter_alone() -> None:
    """Its schema of an assistant's message has them: https://openrouter.ai/openapi.json, ChatAssistantImages."""
    picture: Any = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    answer = own(Image(echo=picture))
    assert messages("https://openrouter.ai/api/v1", answer) == [
        {"role": "assistant", "content": None, "images": [picture]}
    ]
    assert messages(OPENAI_URL, answer) == []


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("api.openai.com", True),
        ("EU.api.OpenAI.com.", True),
        ("me.openai.azure.com", True),
        ("notopenai.com", False),
        ("openai.com.evil.example", False),
        ("localhost", False),
        ("", False),
    ],
)
def test_a_host_is_known_by_its_end(host: str, known: bool) -> None:
    assert dialect_of(f"https://{host}/v1") is (OPENAI if known else COMPATIBLE)
