"""A conversation to the body of a request to Ollama, and back again."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rxworker.messages import (
    Content,
    Conversation,
    Document,
    Image,
    JsonObject,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolMeta,
    ToolResult,
)
from rxworker.providers import Ollama, Options, ToolChoice
from rxworker.providers.base import OutputFormat
from rxworker.providers.takes import made_id
from tests.decoded import answer_of, decoded

RECORDINGS = Path(__file__).parents[3] / "shared" / "recordings"
LOOK = ToolMeta("look", "Looks.", {"type": "object", "properties": {}})
LISTEN = ToolMeta("listen", "", {"type": "object", "properties": {}})
HI = Conversation((Message.user("hi"),))


def body_of(
    conversation: Conversation, *tools: ToolMeta, options: Options | None = None, model: str = "m"
) -> dict[str, Any]:
    request = Ollama(model).request(conversation, tools, options or Options())
    return msgspec.json.decode(request.body)


def messages_of(*messages: Message, system: str | None = None) -> list[dict[str, Any]]:
    return body_of(Conversation(messages, system))["messages"]


def own(*content: Content) -> Message:
    return Message("assistant", content, provider="ollama")


def answered(*lines: dict[str, Any] | bytes) -> Message:
    """The message that the lines of an answer make."""
    data = b"\n".join(one if isinstance(one, bytes) else json.dumps(one).encode() for one in lines)
    return answer_of(decoded("ollama", data), "ollama")


def test_a_conversation_of_texts() -> None:
    body = body_of(
        Conversation(
            (Message.user("hi"), Message.assistant("a", "b"), Message.system("C"), Message.user("d", "e")), "S"
        )
    )
    assert body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "S"},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "ab"},
            {"role": "system", "content": "C"},
            {"role": "user", "content": "d\ne"},
        ],
        "stream": True,
    }


def test_pictures_are_bytes_beside_the_text() -> None:
    content = (
        "see",
        Image(data="iVBORw0KGgo="),
        Image(url="data:image/png;base64,UklGRgAAAABXRUJQ"),
        Image(url="https://h/i.png"),
    )
    assert messages_of(Message.user(*content)) == [
        {"role": "user", "content": "see\npicture: https://h/i.png", "images": ["iVBORw0KGgo=", "UklGRgAAAABXRUJQ"]}
    ]


def test_a_picture_alone_has_an_empty_text() -> None:
    assert messages_of(Message.user(Image(data="iVBORw0KGgo="))) == [
        {"role": "user", "content": "", "images": ["iVBORw0KGgo="]}
    ]


def test_documents_are_sent_as_text() -> None:
    text = base64.b64encode(b"plain").decode()
    content = (Document("text/plain", data=text, title="notes"), Document(url="https://h/d.pdf", title="d"))
    assert messages_of(Message.user(*content))[0]["content"] == ("notes:\nplain\nd: https://h/d.pdf")


def test_results_follow_their_calls_in_the_order_of_the_calls() -> None:
    said = messages_of(
        Message.user("hi"),
        own(ToolCall("rxw_1", "look", {"at": "sky"}), ToolCall("rxw_2", "listen", {})),
        Message.user("by the way"),
        Message.user(ToolResult("rxw_2", "wind")),
        Message.user(ToolResult("rxw_1", (Text("blue"), Image(data="iVBORw0KGgo="))), "and?"),
        Message.assistant("ok"),
    )
    assert said[1:] == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"function": {"name": "look", "arguments": {"at": "sky"}}},
                {"function": {"name": "listen", "arguments": {}}},
            ],
        },
        {"role": "tool", "content": "blue", "images": ["iVBORw0KGgo="], "tool_name": "look"},
        {"role": "tool", "content": "wind", "tool_name": "listen"},
        {"role": "user", "content": "by the way"},
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": "ok"},
    ]


@pytest.mark.parametrize(
    ("result", "content"),
    [
        (ToolResult("a", "no such city", is_error=True), "no such city"),
        (ToolResult("a", "", is_error=True), "The tool failed and gave no reason."),
        (ToolResult("a", ""), ""),
    ],
)
def test_a_failure_is_reported_in_the_text(result: ToolResult, content: str) -> None:
    said = messages_of(Message.assistant(ToolCall("a", "look", {})), Message.user(result))
    assert said[1] == {"role": "tool", "content": content, "tool_name": "look"}


def test_a_result_without_its_call_is_sent_by_its_name() -> None:
    assert messages_of(Message.user(ToolResult("a", "sky", name="look"))) == [
        {"role": "tool", "content": "sky", "tool_name": "look"}
    ]


@pytest.mark.parametrize(
    ("given", "expected"), [({"a": 1}, {"a": 1}), ("", {}), ('{"a": 1}', {"a": 1}), ('{"a": ', {"input": '{"a": '})]
)
def test_arguments_are_always_an_object(given: Any, expected: dict[str, Any]) -> None:
    call = messages_of(Message.assistant(ToolCall("t", "look", given)))[0]["tool_calls"][0]
    assert call["function"]["arguments"] == expected


def test_a_message_without_content_is_not_sent() -> None:
    empty = [own(Thinking("cut off")), Message("assistant", ()), Message.user(""), Message.system("")]
    assert messages_of(*empty) == []


OPTIONS: list[tuple[Options, dict[str, Any]]] = [
    (
        Options(max_tokens=5, temperature=0.0, stop_sequences=("x",)),
        {"options": {"num_predict": 5, "temperature": 0.0, "stop": ["x"]}},
    ),
    (
        Options(max_tokens=5, extra={"options": {"num_ctx": 8192}, "keep_alive": "5m"}),
        {"options": {"num_predict": 5, "num_ctx": 8192}, "keep_alive": "5m"},
    ),
    (Options(extra={"format": "json"}), {"format": "json"}),
    (Options(output=OutputFormat({"type": "object"})), {"format": {"type": "object"}}),
    (Options(thinking=0), {"think": False}),
    (Options(thinking="off"), {"think": False}),
    (Options(thinking=4096), {"think": True}),
    (Options(thinking="adaptive"), {"think": True}),
    (Options(thinking="high"), {"think": "high"}),
    (Options(thinking="minimal"), {"think": "low"}),
    (Options(extra={"stream": False}), {"stream": False}),
]


@pytest.mark.parametrize(("options", "expected"), OPTIONS)
def test_each_option(options: Options, expected: dict[str, Any]) -> None:
    body = body_of(HI, options=options)
    assert {key: body[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (Options(), ["look", "listen"]),
        (Options(tool_choice=ToolChoice("auto"), parallel_tool_calls=False), ["look", "listen"]),
        (Options(tool_choice=ToolChoice("any")), ["look", "listen"]),
        (Options(tool_choice=ToolChoice("tool", "listen")), ["listen"]),
        (Options(extra={"tools": [{"function": {"name": "mine"}}]}), ["look", "listen", "mine"]),
    ],
)
def test_a_choice_of_tools_is_made_by_what_is_offered(options: Options, names: list[str]) -> None:
    body = body_of(HI, LOOK, LISTEN, options=options)
    assert [tool["function"]["name"] for tool in body["tools"]] == names
    assert set(body) == {"model", "messages", "stream", "tools"}


def test_no_tool_is_offered_when_none_may_be_called() -> None:
    assert "tools" not in body_of(HI, LOOK, options=Options(tool_choice=ToolChoice("none")))


# --- there and back


def test_what_was_thought_and_called_comes_back_as_it_was() -> None:
    call: JsonObject = {
        "id": "call_7",
        "function": {"index": 1, "name": "look", "arguments": {"at": "sky"}, "seal": "s"},
    }
    message = answered(
        {"message": {"thinking": "h"}},
        {"message": {"thinking": "m"}},
        {"message": {"content": "I look."}},
        {"message": {"tool_calls": [call]}},
        {"done": True, "done_reason": "stop"},
    )
    assert messages_of(message, Message.user(ToolResult("call_7", "blue"))) == [
        {"role": "assistant", "content": "I look.", "thinking": "hm", "tool_calls": [call]},
        {"role": "tool", "content": "blue", "tool_name": "look", "tool_call_id": "call_7"},
    ]


def test_ids_that_we_made_are_not_sent() -> None:
    assert messages_of(own(ToolCall(made_id(), "look", {})))[0]["tool_calls"] == [
        {"function": {"name": "look", "arguments": {}}}
    ]


@pytest.mark.parametrize("name", ["tool-parallel-qwen", "thinking-gpt-oss", "tool-single-granite"])
def test_a_recorded_answer_comes_back_as_it_was(name: str) -> None:
    path = RECORDINGS / "ollama" / f"{name}.ndjson"
    if not path.exists():
        pytest.skip(f"no recordings: {path} is absent")
    lines = [json.loads(line)["message"] for line in path.read_text().splitlines()]
    expected = {
        "content": "".join(line["content"] for line in lines),
        "thinking": "".join(line.get("thinking", "") for line in lines),
        "tool_calls": [call for line in lines for call in line.get("tool_calls", ())],
    }
    message = answered(*path.read_bytes().splitlines())
    results = [ToolResult(call.id, "ok") for call in message.tool_calls]
    said, *tools = messages_of(message, Message.user(*reversed(results)))
    assert {key: value for key, value in said.items() if value and key != "role"} == {
        key: value for key, value in expected.items() if value
    }
    assert [tool["tool_name"] for tool in tools] == [call.name for call in message.tool_calls]


def test_the_body_is_the_one_that_was_sent() -> None:
    path = RECORDINGS / "ollama" / "text-llama3.request.json"
    if not path.exists():
        pytest.skip(f"no recordings: {path} is absent")
    request = json.loads(path.read_text())
    extra = {key: request[key] for key in ("format", "options", "keep_alive")}
    said = Conversation((Message.user(request["messages"][0]["content"]),))
    assert body_of(said, options=Options(extra=extra), model=request["model"]) == request
