"""A conversation to the body of a Responses request."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rxworker.messages import (
    CachePoint,
    Conversation,
    Document,
    Image,
    JsonObject,
    Message,
    OpaqueBlock,
    OutputFormat,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolMeta,
    ToolResult,
)
from rxworker.providers import OpenAIResponses, Options, ToolChoice

RECORDINGS = Path(__file__).parents[3] / "shared" / "recordings" / "openai_responses"
LOOK = ToolMeta("look", "Looks.", {"type": "object", "properties": {}})
CALL = ToolCall("call_1", "look", {"at": "sky"})
ASK = Conversation((Message.user("hi"),))


def encode(
    conversation: Conversation, *tools: ToolMeta, options: Options | None = None, model: str = "gpt-5.2"
) -> dict[str, Any]:
    provider = OpenAIResponses(model, api_key="k")
    return msgspec.json.decode(provider.request(conversation, tools, options or Options()).body)


def items(*messages: Message) -> list[dict[str, Any]]:
    return encode(Conversation(messages))["input"]


def own(*content: Any) -> Message:
    return Message("assistant", content, provider="openai_responses")


def echo(item: JsonObject | None, place: int = 0, **more: Any) -> JsonObject:
    kept: JsonObject = {"output_index": place, **more}
    return kept if item is None else {**kept, "type": item["type"], "item": item}


def said(*texts: str, **more: Any) -> JsonObject:
    parts: list[Any] = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "id": "msg", "role": "assistant", "content": parts, **more}


def thought(**more: Any) -> JsonObject:
    return {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "sealed", **more}


def called(arguments: str, **more: Any) -> JsonObject:
    call: JsonObject = {"type": "function_call", "id": "fc", "call_id": "call_1", "name": "look"}
    return {**call, "arguments": arguments, **more}


# --- the rest of the body


@pytest.mark.parametrize("model", ["gpt-4.1-mini", "gpt-4o", "ft:gpt-4o:me", "openai/gpt-4.1"])
def test_no_thoughts_are_requested_of_a_model_that_does_not_think(model: str) -> None:
    body = encode(ASK, model=model)
    assert body["store"] is False
    assert "include" not in body


def test_what_leads_is_the_instructions_and_what_comes_later_is_not() -> None:
    conversation = Conversation((Message.system("B"), Message.user("hi"), Message.system("C")), system="A")
    body = encode(conversation)
    assert body["instructions"] == "A\n\nB"
    assert [item["role"] for item in body["input"]] == ["user", "system"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (Options(tool_choice=ToolChoice("auto")), {"tool_choice": "auto"}),
        (Options(tool_choice=ToolChoice("none")), {"tool_choice": "none"}),
        (Options(parallel_tool_calls=False), {"parallel_tool_calls": False}),
        (Options(thinking="xhigh"), {"reasoning": {"effort": "xhigh"}}),
        (Options(extra={"store": True, "include": []}), {"store": True, "include": []}),
        (
            Options(extra={"include": ["web_search_call.action.sources"]}),
            {"include": ["reasoning.encrypted_content", "web_search_call.action.sources"]},
        ),
        (Options(extra={"previous_response_id": None}), {"previous_response_id": None}),
    ],
)
def test_each_option_has_its_field(options: Options, expected: dict[str, Any]) -> None:
    body = encode(ASK, LOOK, options=options)
    assert {key: body[key] for key in expected} == expected


def test_an_extra_none_takes_a_field_of_ours_out() -> None:
    body = encode(ASK, options=Options(extra={"store": None, "include": None}))
    assert body.keys() == {"model", "input", "stream"}


def test_there_are_no_stop_sequences() -> None:
    assert "stop" not in encode(ASK, options=Options(stop_sequences=("x",)))


def test_tools_are_flat_and_not_strict_and_extra_ones_stand_beside() -> None:
    body = encode(ASK, LOOK, options=Options(extra={"tools": [{"type": "web_search"}]}))
    assert body["tools"] == [
        {"type": "function", "name": "look", "parameters": LOOK.input_schema, "strict": False, "description": "Looks."},
        {"type": "web_search"},
    ]


def test_a_choice_needs_tools_of_any_sort() -> None:
    choice = ToolChoice("any")
    assert "tool_choice" not in encode(ASK, options=Options(tool_choice=choice))
    extra: JsonObject = {"tools": [{"type": "web_search"}]}
    body = encode(ASK, options=Options(tool_choice=choice, extra=extra))
    assert body["tool_choice"] == "required"


def test_an_answer_can_be_held_to_a_schema() -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    body = encode(ASK, options=Options(output=OutputFormat(schema, "list[int]")))
    assert body["text"] == {
        "format": {
            "type": "json_schema",
            "name": "list_int_",
            "schema": {**schema, "additionalProperties": False},
            "strict": True,
        }
    }


# --- what the user says


def test_pictures_and_documents_go_to_the_user_and_into_results() -> None:
    plain = base64.b64encode(b"plain").decode()
    picture = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"}
    (user,) = items(
        Message.user(
            "see",
            Image(data="iVBORw0KGgo="),
            Image(url="https://h/i.png"),
            Document(data="BB", title="t.pdf"),
            Document(url="https://h/d.pdf"),
            Document("text/plain", data=plain),
            CachePoint(),
        )
    )
    assert user["content"] == [
        {"type": "input_text", "text": "see"},
        picture,
        {**picture, "image_url": "https://h/i.png"},
        {"type": "input_file", "filename": "t.pdf", "file_data": "data:application/pdf;base64,BB"},
        {"type": "input_file", "file_url": "https://h/d.pdf"},
        {"type": "input_text", "text": "document:\nplain"},
    ]
    result = ToolResult("call_1", (Text("see"), Image(data="iVBORw0KGgo=")))
    output = items(own(CALL), Message.user(result))[1]["output"]
    assert output == [{"type": "input_text", "text": "see"}, picture]


@pytest.mark.parametrize(
    ("result", "output"),
    [
        (ToolResult("call_1", "blue"), "blue"),
        (ToolResult("call_1", (Text("a"), Text("b"))), "ab"),
        (ToolResult("call_1", "no", is_error=True), "no"),
        (ToolResult("call_1", is_error=True), "The tool failed and gave no reason."),
        (ToolResult("call_1", ()), ""),
    ],
)
def test_a_result_is_text_where_it_can_be(result: ToolResult, output: str) -> None:
    encoded = items(own(CALL), Message.user("and?", result))[1:]
    assert encoded == [
        {"type": "function_call_output", "call_id": "call_1", "output": output},
        {"role": "user", "content": "and?"},
    ]


def test_the_result_of_a_custom_call_is_of_its_sort() -> None:
    item: JsonObject = {"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "{}"}
    custom = own(ToolCall("c", "sql", {}, echo(item)))
    answer = Message.user(ToolResult("c", "ok"))
    again = own(ToolCall("c", "look", {}))  # some servers use an id again
    types = [item["type"] for item in items(custom, answer, again, answer)]
    assert types == ["custom_tool_call", "custom_tool_call_output", "function_call", "function_call_output"]


def test_an_item_of_the_users_own_is_sent_as_it_is() -> None:
    item: JsonObject = {"type": "shell_call_output", "call_id": "c", "output": []}
    assert items(Message.user(OpaqueBlock("shell_call_output", item))) == [item]


# --- what goes back


def test_the_parts_of_an_item_are_put_together() -> None:
    summary: list[Any] = [{"type": "summary_text", "text": text} for text in ("one", "two")]
    item = said("yes", "no")
    parts: Any = item["content"]
    parts[1] = {"type": "refusal", "refusal": "no"}
    answer = own(
        Thinking("one", None, echo(None)),
        Thinking("two", None, echo(thought(summary=summary))),
        Text("yes", (), echo(None, 1)),
        Refusal("no", echo(item, 1)),
    )
    assert items(answer) == [thought(summary=summary), item]


def test_what_was_changed_is_sent_as_changed() -> None:
    item = thought(
        summary=[{"type": "summary_text", "text": "secret"}], content=[{"type": "reasoning_text", "text": "secret"}]
    )
    custom: JsonObject = {"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "a"}
    answer = own(
        Thinking("***", None, echo(item)),
        Text("***", (), echo(said("secret", phase="commentary"), 1)),
        ToolCall("call_1", "look", {"at": "***"}, echo(called('{"at":"secret"}'), 2)),
        ToolCall("c", "sql", "***", echo(custom, 3)),
    )
    sent = items(answer)
    assert "secret" not in json.dumps(sent)
    assert sent == [
        thought(summary=[{"type": "summary_text", "text": "***"}], content=[{"type": "reasoning_text", "text": "***"}]),
        said("***", phase="commentary"),
        called('{"at":"***"}'),
        {**custom, "input": "***"},
    ]


def test_what_was_blanked_is_not_sent() -> None:
    item = thought(summary=[{"type": "summary_text", "text": "secret"}])
    answer = own(
        Thinking("", None, echo(item)),
        Text("", (), echo(said("secret"), 1)),
        ToolCall("call_1", "look", {}, echo(called("{}"), 2)),
    )
    assert items(answer) == [thought(), called("{}")]


def test_free_text_goes_back_as_it_came_also_where_it_was_read_as_json() -> None:
    item: JsonObject = {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": '{ "a":1}'}
    assert items(own(ToolCall("c", "f", {"a": 1}, echo(item)))) == [item]


@pytest.mark.parametrize("text", ['{"a', "[1]", ""])
def test_arguments_go_back_as_they_came_also_where_they_are_not_an_object(text: str) -> None:
    call = ToolCall("call_1", "look", text, echo(called(text)))
    assert items(own(call))[0]["arguments"] == text


def test_a_thought_that_nothing_follows_is_left_out() -> None:
    """The service refuses one without the item that came of it."""
    cut = own(Thinking("", None, echo(thought())))
    assert items(cut, Message.user("go on")) == [{"role": "user", "content": "go on"}]
    half = own(Thinking("hm"), Text("so"))
    assert items(half) == [{"role": "assistant", "content": "so"}]


# --- against what was really sent


@pytest.mark.parametrize(
    "name",
    [
        "mcp-call",
        "moderation",
        "phase-commentary-tool",
        "reasoning-text-bedrock-gptoss",
        "reasoning-text-tool-deepseek",
        "reasoning-then-tool",
        "text-background",
        "tool-search",
        "web-search-annotations",
    ],
)
def test_bodies_are_those_that_were_sent(name: str) -> None:
    path = RECORDINGS / f"{name}.request.json"
    if not path.exists():
        pytest.skip(f"no recordings: {path} is absent")
    request = json.loads(path.read_text())
    conversation = Conversation((Message.user(request["input"][0]["content"]),), request.get("instructions"))
    known = ("model", "input", "instructions", "stream", "tool_choice", "reasoning")
    extra: dict[str, Any] = {"store": None, "include": None}
    extra |= {key: value for key, value in request.items() if key not in known}
    options = Options(extra=extra)
    if "tool_choice" in request:
        choice = ToolChoice("any" if request["tool_choice"] == "required" else "auto")
        options = msgspec.structs.replace(options, tool_choice=choice)
    if "reasoning" in request:
        extra["reasoning"] = {"summary": None}
        options = msgspec.structs.replace(options, thinking=request["reasoning"]["effort"])
    assert encode(conversation, options=options, model=request["model"]) == request


def test_a_tool_is_the_one_that_was_sent() -> None:
    path = RECORDINGS / "tool-single.request.json"
    if not path.exists():
        pytest.skip(f"no recordings: {path} is absent")
    request = json.loads(path.read_text())
    (tool,) = request["tools"]
    meta = ToolMeta(tool["name"], tool["description"], tool["parameters"])
    conversation = Conversation((Message.user(request["input"]),))
    (sent,) = encode(conversation, meta)["tools"]
    assert sent == {**tool, "strict": False}


# --- where it goes
