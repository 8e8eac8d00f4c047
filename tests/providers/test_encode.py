"""A conversation to the body of a request, for both protocols."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rxworker.errors import ConfigurationError, LocalProtocolError
from rxworker.messages import (
    Conversation,
    Document,
    Image,
    JsonObject,
    Message,
    OpaqueBlock,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    ToolCall,
    ToolMeta,
    ToolResult,
)
from rxworker.providers import Anthropic, OpenAIChat, Options, ToolChoice
from rxworker.providers.anthropic.encode import MessagesEncoder

RECORDINGS = Path(__file__).parents[3] / "shared" / "recordings"
LOOK = ToolMeta("look", "Looks.", {"type": "object", "properties": {}})
CALL = ToolCall("call_1", "look", {"at": "sky"})


def anthropic(
    conversation: Conversation, *tools: ToolMeta, options: Options | None = None, model: str = "claude-opus-4-6"
) -> dict[str, Any]:
    provider = Anthropic(model, api_key="k")
    return msgspec.json.decode(provider.request(conversation, tools, options or Options()).body)


def chat(
    conversation: Conversation,
    *tools: ToolMeta,
    options: Options | None = None,
    model: str = "gpt-5.2",
    base_url: str | None = None,
) -> dict[str, Any]:
    provider = OpenAIChat(model, api_key="k", base_url=base_url)
    return msgspec.json.decode(provider.request(conversation, tools, options or Options()).body)


def compatible(*messages: Message) -> list[dict[str, Any]]:
    """What a server of one's own is sent."""
    return chat(said(*messages), base_url="http://127.0.0.1:8000")["messages"]


def own(name: str, *content: Any) -> Message:
    return Message("assistant", content, provider=name)


def said(*messages: Message, system: str | None = None) -> Conversation:
    return Conversation(messages, system)


# --- Anthropic


def test_anthropic_puts_what_leads_into_system_and_what_comes_later_to_the_user() -> None:
    body = anthropic(said(Message.system("B"), Message.user("hi"), Message.system("C"), system="A"))
    assert body["system"] == "A\n\nB"
    texts = [{"type": "text", "text": "hi"}, {"type": "text", "text": "C"}]
    assert body["messages"] == [{"role": "user", "content": texts}]
    assert body["stream"] is True
    assert body["max_tokens"] == 8192


def test_anthropic_has_all_results_first_in_one_user_message() -> None:
    body = anthropic(
        said(
            Message.user("hi"),
            Message.assistant(CALL, ToolCall("call_2", "look", {})),
            Message.user("by the way"),
            Message.user(ToolResult("call_1", "blue"), "and"),
            Message.user(ToolResult("call_2", "", is_error=True)),
        )
    )
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    content = body["messages"][2]["content"]
    assert [block["type"] for block in content] == ["tool_result", "tool_result", "text", "text"]
    assert content[0] == {"type": "tool_result", "tool_use_id": "call_1", "content": "blue"}
    assert content[1]["is_error"] is True
    assert content[1]["content"]


def test_anthropic_sends_its_own_blocks_back_as_they_came() -> None:
    server: JsonObject = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": "x"}}
    found: JsonObject = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    compaction: JsonObject = {"type": "compaction", "content": "short"}
    sealed: JsonObject = {"type": "redacted_thinking", "data": "AA"}
    message = own(
        "anthropic",
        OpaqueBlock("compaction", compaction),
        Thinking("", "sig"),
        Thinking("", None, sealed),
        ServerToolCall("s", "web_search", {"q": "x"}, server),
        ServerToolResult("s", "web_search_tool_result", found),
        Text("yes", ({"type": "web_search_result_location", "url": "u"},)),
        ToolCall("t", "look", {}, {"caller": {"type": "direct"}}),
    )
    assert anthropic(said(message))["messages"][0]["content"] == [
        compaction,
        {"type": "thinking", "thinking": "", "signature": "sig"},
        sealed,
        server,
        found,
        {"type": "text", "text": "yes", "citations": [{"type": "web_search_result_location", "url": "u"}]},
        {"type": "tool_use", "id": "t", "name": "look", "input": {}, "caller": {"type": "direct"}},
    ]


def test_anthropic_keeps_ids_apart_that_differ_in_letters_it_does_not_allow() -> None:
    ids = ("a.b", "a:b", "a_b")
    calls = own("openai_chat", *(ToolCall(one, "look", {}) for one in ids))
    results = Message.user(*(ToolResult(one, one) for one in ids))
    asked, answered = anthropic(said(calls, results))["messages"]
    named = [block["id"] for block in asked["content"]]
    assert named == [block["tool_use_id"] for block in answered["content"]]
    assert len(set(named)) == 3
    assert named[2] == "a_b"


def test_anthropic_gets_no_empty_message_text_or_unsealed_thinking() -> None:
    body = anthropic(
        said(
            Message.user("a", "", " \n"),
            own("anthropic", Thinking("cut off")),
            own("openai_chat", Thinking("foreign")),
            Message.user("b"),
        )
    )
    texts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert body["messages"] == [{"role": "user", "content": texts}]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"a": 1}, {"a": 1}),
        ("", {}),
        ('{"a": 1}', {"a": 1}),
        ('{"a": ', {"input": '{"a": '}),
        ("[1]", {"input": "[1]"}),
    ],
)
def test_arguments_are_always_an_object(given: Any, expected: dict[str, Any]) -> None:
    conversation = said(Message.assistant(ToolCall("t", "look", given)))
    assert anthropic(conversation)["messages"][0]["content"][0]["input"] == expected
    function = chat(conversation)["messages"][0]["tool_calls"][0]["function"]
    assert json.loads(function["arguments"]) == expected


def test_anthropic_has_pictures_and_documents_also_in_results() -> None:
    text = base64.b64encode(b"plain").decode()
    body = anthropic(
        said(
            Message.user(
                Image(data="iVBORw0KGgo="),
                Image(url="https://h/i.png"),
                Document(data="BB", title="t"),
                Document(url="https://h/d.pdf"),
                Document("text/markdown", data=text),
                ToolResult("x", (Text("see"), Image("image/jpeg", "/9j/"))),
            )
        )
    )
    result, *rest = body["messages"][0]["content"]
    picture = {"type": "base64", "media_type": "image/jpeg", "data": "/9j/"}
    assert result["content"] == [{"type": "text", "text": "see"}, {"type": "image", "source": picture}]
    assert [block["source"]["type"] for block in rest] == ["base64", "url", "base64", "url", "text"]
    assert rest[2]["title"] == "t"
    assert rest[4]["source"] == {"type": "text", "media_type": "text/plain", "data": "plain"}


def test_a_document_that_is_not_base64_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="base64"):
        anthropic(said(Message.user(Document("text/plain", data="?"))))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (Options(parallel_tool_calls=False), {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}),
        (Options(tool_choice=ToolChoice("none"), parallel_tool_calls=False), {"tool_choice": {"type": "none"}}),
        (Options(thinking="adaptive"), {"thinking": {"type": "adaptive", "display": "summarized"}}),
        (Options(extra={"metadata": {"user_id": "u"}}), {"metadata": {"user_id": "u"}}),
    ],
)
def test_anthropic_has_each_option(options: Options, expected: dict[str, Any]) -> None:
    body = anthropic(said(Message.user("hi")), LOOK, options=options)
    assert {key: body[key] for key in expected} == expected


def test_extra_tools_stand_beside_ours() -> None:
    options = Options(extra={"tools": [{"type": "web_search_20250305", "name": "web_search"}]})
    for encode in (anthropic, chat):
        assert len(encode(said(Message.user("hi")), LOOK, options=options)["tools"]) == 2


def test_a_thinking_budget_that_leaves_no_room_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="thinking=2000 must be less"):
        anthropic(said(Message.user("hi")), options=Options(max_tokens=1000, thinking=2000))


def test_the_choice_of_a_tool_is_left_out_without_tools() -> None:
    options = Options(tool_choice=ToolChoice("any"), parallel_tool_calls=True)
    assert "tool_choice" not in anthropic(said(Message.user("hi")), options=options)
    assert "parallel_tool_calls" not in chat(said(Message.user("hi")), options=options)


# --- Chat Completions


def test_chat_puts_results_right_behind_their_calls() -> None:
    body = chat(
        said(
            Message.user("hi"),
            Message.assistant("I look.", CALL),
            Message.system("be quick"),
            Message.user(ToolResult("call_1", (Text("blue"), Image(data="iVBORw0KGgo="))), "and?"),
            system="A",
        ),
        LOOK,
    )
    messages = body["messages"]
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "tool", "system", "user"]
    assert messages[2] == {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at":"sky"}'}}],
    }
    assert messages[3] == {"role": "tool", "tool_call_id": "call_1", "content": "blue"}
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    assert messages[5]["content"][1:] == [picture, {"type": "text", "text": "and?"}]
    assert body["stream_options"] == {"include_usage": True}


def test_chat_echoes_reasoning_only_where_it_was_received() -> None:
    echo: JsonObject = {"field": "reasoning_content"}
    thinking = Thinking("", None, echo)
    with_call = compatible(own("openai_chat", thinking, CALL))[0]
    assert with_call["reasoning_content"] == ""
    without_call = compatible(own("openai_chat", thinking, Text("yes")))[0]
    assert without_call == {"role": "assistant", "content": "yes"}
    foreign = compatible(own("anthropic", Thinking("hm", "sig", echo), CALL))[0]
    assert "reasoning_content" not in foreign


def test_chat_echoes_details_and_signatures_of_compatible_servers() -> None:
    first: JsonObject = {"type": "reasoning.text", "text": "a", "index": 0}
    second: JsonObject = {"type": "reasoning.text", "text": "b", "index": 0, "signature": "sig"}
    sealed: JsonObject = {"type": "reasoning.encrypted", "data": "AA", "index": 1}
    google: JsonObject = {"extra_content": {"google": {"thought_signature": "s"}}}
    message = compatible(
        own(
            "openai_chat",
            Thinking("a", None, {"reasoning_details": [first]}),
            Thinking("b", None, {"reasoning_details": [second, sealed]}),
            ToolCall("c", "look", {}, google),
        )
    )[0]
    assert message["reasoning_details"] == [{**second, "text": "ab"}, sealed]
    assert message["tool_calls"][0]["extra_content"] == google["extra_content"]


def test_chat_skips_an_assistant_message_without_content_that_it_accepts() -> None:
    body = chat(said(Message.user("a"), own("anthropic", Thinking("hm", "s")), Message.user("b")))
    assert [message["role"] for message in body["messages"]] == ["user", "user"]


def test_chat_skips_an_answer_that_was_cut_while_it_was_thought_about() -> None:
    thought = Thinking("hm", echo={"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]})
    body = chat(said(Message.user("a"), own("openai_chat", thought), Message.user("b")))
    assert [message["role"] for message in body["messages"]] == ["user", "user"]


def test_chat_shortens_only_ids_of_others_that_are_too_long_for_it() -> None:
    long = ToolCall("x" * 64, "look", {})
    for name, length in (("openai_responses", 40), ("openai_chat", 64)):
        messages = compatible(own(name, long), Message.user(ToolResult(long.id, "blue")))
        assert messages[1]["tool_call_id"] == messages[0]["tool_calls"][0]["id"]
        assert len(messages[1]["tool_call_id"]) == length


def test_chat_keeps_a_refusal() -> None:
    assert chat(said(own("openai_chat", Refusal("no"))))["messages"][0]["refusal"] == "no"
    assert chat(said(own("anthropic", Refusal("no"))))["messages"][0]["content"] == "no"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (Options(tool_choice=ToolChoice("none")), {"tool_choice": "none"}),
        (Options(parallel_tool_calls=False), {"parallel_tool_calls": False}),
        (Options(temperature=0.0, extra={"n": 2}), {"temperature": 0.0, "n": 2}),
    ],
)
def test_chat_has_each_option(options: Options, expected: dict[str, Any]) -> None:
    body = chat(said(Message.user("hi")), LOOK, options=options)
    assert {key: body[key] for key in expected} == expected


def test_chat_documents_become_files_or_text() -> None:
    text = base64.b64encode(b"plain").decode()
    body = chat(
        said(
            Message.user(
                Document(data="BB", title="t.pdf"),
                Document("text/plain", data=text),
                Document(url="https://h/d.pdf", title="d"),
            )
        )
    )
    assert body["messages"][0]["content"] == [
        {"type": "file", "file": {"filename": "t.pdf", "file_data": "data:application/pdf;base64,BB"}},
        {"type": "text", "text": "document:\nplain"},
        {"type": "text", "text": "d: https://h/d.pdf"},
    ]


# --- against what was really sent


def recorded(name: str) -> dict[str, Any]:
    path = RECORDINGS / f"{name}.request.json"
    if not path.exists():
        pytest.skip(f"no recordings: {path} is absent")
    return json.loads(path.read_text())


def tools_of(request: dict[str, Any]) -> list[ToolMeta]:
    tools = [tool.get("function", tool) for tool in request["tools"]]
    return [ToolMeta(t["name"], t["description"], t.get("input_schema") or t["parameters"]) for t in tools]


def test_anthropic_bodies_are_those_that_were_sent() -> None:
    request = recorded("anthropic/text-basic")
    text = request["messages"][0]["content"][0]["text"]
    options = Options(temperature=1.0)
    assert anthropic(said(Message.user(text)), options=options, model=request["model"]) == request

    request = recorded("anthropic/thinking-then-tool")
    text = request["messages"][0]["content"][0]["text"]
    thinking = request["thinking"]
    options = Options(64000, 1.0, thinking=1024, extra={"thinking": thinking})
    body = anthropic(said(Message.user(text)), *tools_of(request), options=options, model=request["model"])
    assert body == request


def test_chat_bodies_are_those_that_were_sent() -> None:
    request = recorded("openai_chat/ollama-compat-reasoning-tool")
    text = request["messages"][0]["content"]
    assert chat(said(Message.user(text)), *tools_of(request), model=request["model"]) == request

    request = recorded("openai_chat/text-include-usage")
    text = request["messages"][0]["content"]
    options = Options(extra={"n": 1})
    assert chat(said(Message.user(text)), options=options, model=request["model"]) == request


def test_anthropic_is_sent_no_half_of_an_answer_that_the_user_talked_past() -> None:
    call: JsonObject = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    done: JsonObject = {"type": "server_tool_use", "id": "s2", "name": "web_search", "input": {}}
    result: JsonObject = {"type": "web_search_tool_result", "tool_use_id": "s2", "content": []}
    answer = Message(
        "assistant",
        (
            Text("I will look."),
            ServerToolCall("s2", "web_search", {}, echo=done),
            ServerToolResult("s2", "web_search", echo=result),
            ServerToolCall("s1", "web_search", {}, echo=call),
            Thinking("Hm.", "sealed"),
        ),
        provider="anthropic",
    )
    thought = Message("assistant", (Thinking("Hm.", "sealed"),), provider="anthropic")
    said = (Message.user("a"), answer, Message.user("b"), thought, Message.user("c"))
    encoder = MessagesEncoder()
    encoder.feed_new(said[:2])
    last: Any = msgspec.json.decode(msgspec.json.encode(encoder.messages()))
    assert [b["type"] for b in last[1]["content"]][-2:] == ["server_tool_use", "thinking"]
    encoder.feed_new(said)
    left: Any = msgspec.json.decode(msgspec.json.encode(encoder.messages()))
    assert [m["role"] for m in left] == ["user", "assistant", "user"]
    assert [b["type"] for b in left[1]["content"]] == ["text", "server_tool_use", "web_search_tool_result"]


@pytest.mark.parametrize(
    ("base_url", "kinds"),
    [
        ("https://api.deepseek.com/anthropic", ["thinking", "tool_use"]),
        ("http://127.0.0.1:8000", ["thinking", "tool_use"]),
        ("https://api.anthropic.com", ["tool_use"]),
        ("https://me.services.ai.azure.com/anthropic", ["tool_use"]),
        ("https://bedrock-mantle.us-east-1.api.aws/anthropic", ["tool_use"]),
    ],
)
def test_thinking_without_a_signature_goes_back_to_services_that_have_none(base_url: str, kinds: list[str]) -> None:
    content = (Thinking("Need the file."), ToolCall("t1", "read", {"path": "a"}))
    answer = Message("assistant", content, provider="anthropic")
    said = Conversation((Message.user("?"), answer, Message.user(ToolResult("t1", "x"))))
    request = Anthropic("m", api_key="k", base_url=base_url).request(said, (), Options())
    sent = msgspec.json.decode(request.body)["messages"][1]["content"]
    assert [block["type"] for block in sent] == kinds
    if len(kinds) == 2:
        assert sent[0] == {"type": "thinking", "thinking": "Need the file."}
