"""What services refuse a request for: it is fitted before it is sent, or refused with what to do."""

from __future__ import annotations

import json
import re
from itertools import product
from typing import Any

import pytest

from rxworker.errors import ConfigurationError, LocalProtocolError
from rxworker.messages import (
    Conversation,
    Document,
    JsonObject,
    Message,
    OutputFormat,
    Text,
    Thinking,
    ToolCall,
    ToolMeta,
    ToolResult,
)
from rxworker.providers import (
    Anthropic,
    Bedrock,
    Gemini,
    GeminiInteractions,
    Ollama,
    OpenAIChat,
    OpenAIResponses,
    Options,
    Provider,
    ToolChoice,
)

LOOK = ToolMeta("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})
CALL = ToolCall("a1B2c3D4e", "look", {"at": "a"})
RESULT = ToolResult("a1B2c3D4e", "seen", name="look")
PDF = Document("application/pdf", "JVBERi0x", title="Report")
MISTRAL = "https://api.mistral.ai"
GROQ = "https://api.groq.com"
DEEPSEEK = "https://api.deepseek.com"
KIMI = "https://api.moonshot.ai"


def chat(url: str, model: str = "m") -> OpenAIChat:
    return OpenAIChat(model, api_key="k", base_url=url)


def sent(provider: Provider, *messages: Message, tools: tuple[ToolMeta, ...] = (), **options: Any) -> dict[str, Any]:
    return json.loads(provider.request(Conversation(messages, "Be brief."), tools, Options(**options)).body)


def roles(body: dict[str, Any]) -> str:
    return " ".join(message["role"] for message in body["messages"])


CALLED = Message("assistant", (CALL,))
# A message of the user's after results: steering, a cancelled run, a picture in a result.
LOOPS = {
    "steered": (Message.user("hi"), CALLED, Message.user(RESULT), Message.user("Stop.")),
    "in one message": (Message.user("hi"), CALLED, Message.user(RESULT, Text("Stop."))),
    "a document in the result": (Message.user("hi"), CALLED, Message.user(ToolResult("a1B2c3D4e", (PDF,)))),
    "and an answer": (
        *(Message.user("hi"), CALLED, Message.user(RESULT), Message.user("Stop.")),
        *(Message.assistant("Yes."), Message.user("Go on.")),
    ),
    "again": (
        *(Message.user("hi"), CALLED, Message.user(RESULT), CALLED, Message.user(RESULT)),
        *(Message.user("a"), Message.user("b")),
    ),
}
STRICT = {
    "Mistral": chat(MISTRAL, "mistral-large-2512"),
    "its models elsewhere": chat("https://integrate.api.nvidia.com", "mistralai/mistral-small-4-119b-2603"),
    "its models here": chat("http://127.0.0.1:8000", "Devstral-Small-2-24B"),
}


@pytest.mark.parametrize(("name", "loop"), [*product(STRICT, LOOPS)])
def test_an_answer_stands_between_results_and_a_message_where_that_is_demanded(name: str, loop: str) -> None:
    said = roles(sent(STRICT[name], *LOOPS[loop], tools=(LOOK,)))
    assert "tool user" not in said
    assert "assistant assistant" not in said
    assert said.endswith("user")


@pytest.mark.parametrize("loop", LOOPS)
def test_nothing_is_added_elsewhere(loop: str) -> None:
    assert "Understood." not in json.dumps(sent(chat("https://api.openai.com"), *LOOPS[loop], tools=(LOOK,)))


def test_a_document_is_sent_in_the_form_of_the_service() -> None:
    (part,) = sent(chat(MISTRAL), Message.user(PDF))["messages"][1]["content"]
    assert part == {
        "type": "document_url",
        "document_url": "data:application/pdf;base64,JVBERi0x",
        "document_name": "Report",
    }
    (part,) = sent(chat("https://api.openai.com"), Message.user(PDF))["messages"][1]["content"]
    assert part["type"] == "file"
    uploaded = Message.user(Document(file_id="file_1"))
    assert sent(chat("https://api.openai.com"), uploaded)["messages"][1]["content"][0]["file"] == {"file_id": "file_1"}
    with pytest.raises(LocalProtocolError, match="takes no file id for Document"):
        sent(chat(GROQ), uploaded)


@pytest.mark.parametrize("model", ["kimi-k2.5", "kimi-k2.6"])
def test_thinking_that_is_missing_is_a_blank_where_an_empty_text_counts_as_none(model: str) -> None:
    body = sent(chat(KIMI, model), Message.user("hi"), CALLED, Message.user(RESULT), tools=(LOOK,))
    assert body["messages"][2]["reasoning_content"] == " "
    body = sent(chat(DEEPSEEK, "deepseek-v4-pro"), Message.user("hi"), CALLED, Message.user(RESULT), tools=(LOOK,))
    assert body["messages"][2]["reasoning_content"] == ""


SCHEMA: JsonObject = {"type": "object", "properties": {"colour": {"type": "string"}}}
FORM = OutputFormat(SCHEMA, "answer")
# Who takes a form of the answer beside tools.
FORMS: dict[str, tuple[Provider, bool]] = {
    "gemini 2.5": (Gemini("gemini-2.5-flash", api_key="k"), False),
    "gemini 3": (Gemini("gemini-3.8-flash", api_key="k"), True),
    "interactions 2.5": (GeminiInteractions("gemini-2.5-flash", api_key="k"), False),
    "interactions 3": (GeminiInteractions("gemini-3.8-flash", api_key="k"), True),
    "groq": (chat(GROQ, "openai/gpt-oss-120b"), False),
    "ollama": (Ollama("qwen3"), False),
    "openai": (chat("https://api.openai.com", "gpt-5.1"), True),
    "responses": (OpenAIResponses("gpt-5.1", api_key="k"), True),
    "anthropic": (Anthropic("claude-opus-5-5", api_key="k"), True),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_model_reads_the_form_of_the_answer_where_a_service_refuses_it_beside_tools(name: str) -> None:
    provider, takes = FORMS[name]
    alone = json.dumps(sent(provider, Message.user("hi"), output=FORM))
    assert "conforms to this JSON schema" not in alone
    assert "colour" in alone
    body = sent(provider, Message.user("hi"), tools=(LOOK,), output=FORM)
    assert ("conforms to this JSON schema" in json.dumps(body)) is not takes
    assert "colour" in json.dumps(body)
    generation = body.get("generationConfig", {})
    held = {"response_format", "format"} & body.keys() | {"responseMimeType"} & generation.keys()
    assert not held or takes


FORCED = [
    (lambda: chat(DEEPSEEK, "deepseek-v4-pro"), None, False),
    (lambda: chat(DEEPSEEK, "deepseek-v4-pro"), 0, True),
    (lambda: chat(KIMI, "kimi-k2.6"), None, False),
    (lambda: chat(KIMI, "kimi-k2.6"), 0, True),
    (lambda: chat("https://dashscope.aliyuncs.com", "qwen3.7-max"), None, False),
    (lambda: chat("https://dashscope.aliyuncs.com", "qwen3.7-max"), 0, True),
    (lambda: Anthropic("claude-opus-4-6", api_key="k"), None, True),
    (lambda: Anthropic("claude-opus-4-6", api_key="k"), 2_000, False),
    (lambda: Anthropic("claude-haiku-4-5", api_key="k"), 2_000, False),
    (lambda: Anthropic("claude-opus-4-8", api_key="k"), "low", False),
    (lambda: Anthropic("claude-opus-5", api_key="k"), "low", True),
    (lambda: chat("https://api.openai.com", "gpt-5.1"), None, True),
]


@pytest.mark.parametrize("choice", [ToolChoice("any"), ToolChoice("tool", "look"), ToolChoice("required")])
@pytest.mark.parametrize(("make", "thinking", "takes"), FORCED)
def test_a_call_is_forced_only_where_the_model_may_think_meanwhile(
    make: Any, thinking: Any, takes: bool, choice: ToolChoice
) -> None:
    options: dict[str, Any] = {"tools": (LOOK,), "tool_choice": choice, "thinking": thinking}
    if takes:
        sent(make(), Message.user("hi"), **options)
    else:
        with pytest.raises(ConfigurationError, match="cannot be forced to call a tool while it thinks: use thinking=0"):
            sent(make(), Message.user("hi"), **options)
    sent(make(), Message.user("hi"), tools=(LOOK,), tool_choice=ToolChoice("auto"), thinking=thinking)


@pytest.mark.parametrize("model", ["claude-haiku-4-5", "claude-opus-4-5", "claude-sonnet-4-6", "claude-opus-4-6"])
def test_two_sampling_parameters_go_together_only_where_both_are_taken(model: str) -> None:
    provider = Anthropic(model, api_key="k")
    with pytest.raises(ConfigurationError, match="takes temperature or top_p, not both"):
        sent(provider, Message.user("hi"), temperature=0.5, extra={"top_p": 0.9})
    with pytest.raises(ConfigurationError, match="not both"):
        sent(provider, Message.user("hi"), extra={"temperature": 0.5, "top_p": 0.9})
    assert sent(provider, Message.user("hi"), extra={"top_p": 0.9})["top_p"] == 0.9
    other = chat("https://api.openai.com", "gpt-4.1")
    assert sent(other, Message.user("hi"), temperature=0.5, extra={"top_p": 0.9})["top_p"] == 0.9


def test_a_sampling_parameter_in_extra_is_checked_as_one_of_the_options() -> None:
    with pytest.raises(ConfigurationError, match="takes no temperature"):
        sent(Anthropic("claude-opus-4-8", api_key="k"), Message.user("hi"), extra={"temperature": 0.5})


# --- versions of Anthropic's API


def claude(version: str | None, model: str = "claude-opus-4-5") -> Anthropic:
    return Anthropic(model, api_key="k", headers={"Anthropic-Version": version} if version else None)


@pytest.mark.parametrize("setting", [{"temperature": 0.5}, {"extra": {"top_p": 0.5}}, {"extra": {"top_k": 40}}])
@pytest.mark.parametrize(
    ("version", "takes"), [(None, True), ("2023-06-01", True), ("2026-10-21", False), ("2027-03-01", False)]
)
def test_a_setting_that_a_version_of_the_api_has_no_more_is_refused(
    version: str | None, takes: bool, setting: dict[str, Any]
) -> None:
    name = next(iter(setting.get("extra", setting)))
    if takes:
        assert name in sent(claude(version), Message.user("hi"), **setting)
    else:
        with pytest.raises(ConfigurationError, match=f"takes no {name} with anthropic-version {version}"):
            sent(claude(version), Message.user("hi"), **setting)


@pytest.mark.parametrize("setting", [{"temperature": 1}, {"temperature": 1.0}, {"extra": {"top_p": 1}}])
def test_its_default_is_left_out(setting: dict[str, Any]) -> None:
    body = sent(claude("2026-10-21"), Message.user("hi"), **setting)
    assert body.keys().isdisjoint({"temperature", "top_p", "top_k"})


def test_the_version_of_a_request_comes_before_that_of_the_provider() -> None:
    options = Options(temperature=0.5, headers={"anthropic-version": "2026-10-21"})
    with pytest.raises(ConfigurationError, match="2026-10-21"):
        claude(None).request(Conversation((Message.user("hi"),)), (), options)
    options = Options(temperature=0.5, headers={"anthropic-version": "2023-06-01"})
    request = claude("2026-10-21").request(Conversation((Message.user("hi"),)), (), options)
    assert (request.headers["anthropic-version"], json.loads(request.body)["temperature"]) == ("2023-06-01", 0.5)


def test_a_version_goes_along_with_what_thinking_needs() -> None:
    thinking = Message("assistant", (Thinking("Hm.", signature="s"), Text("so")), "anthropic")
    body = sent(claude("2026-10-21", "claude-opus-5-5"), Message.user("hi"), thinking, Message.user("And?"))
    assert "block_binding" in json.dumps(body)


# --- documents over Bedrock


def converse(*messages: Message) -> list[dict[str, Any]]:
    provider = Bedrock("anthropic.claude-opus-4-8", api_key="k", region="us-east-1")
    return sent(provider, *messages, tools=(LOOK,))["messages"]


def documents(value: Any) -> list[str]:
    """The names of the documents in a body, in order."""
    return re.findall(r'"format": "pdf", "name": "(.*?)"', json.dumps(value))


def test_each_document_has_a_name_of_its_own() -> None:
    result = Message.user(ToolResult("a1B2c3D4e", (PDF, PDF)))
    numbered = Document("application/pdf", "JVBERi0x", title="Report 2")
    body = converse(Message.user("Read.", PDF, numbered, PDF), CALLED, result, Message.user("And this.", PDF))
    names = documents(body)
    assert len(names) == 6
    assert len({*names}) == 6
    assert names[:2] == ["Report", "Report 2"]
    long = Document("application/pdf", "JVBERi0x", title="a" * 190 + " " + "b" * 90)
    first, second = documents(converse(Message.user("Read.", long, long)))
    assert first != second
    assert max(len(first), len(second)) == 200
    assert "  " not in second


def test_a_document_has_a_text_beside_it() -> None:
    (message,) = converse(Message.user(PDF))
    assert [*message["content"][1]] == ["text"]
    (message,) = converse(Message.user(PDF), Message.user("Read."))
    assert [block["text"] for block in message["content"] if "text" in block] == ["Read."]
