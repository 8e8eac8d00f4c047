from __future__ import annotations

import json
from typing import Any

import pytest

from rxworker.events import PausedCall, PauseState
from rxworker.messages import (
    Content,
    Conversation,
    Document,
    Image,
    Message,
    OpaqueBlock,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from rxworker.protocols.ui_messages import read_chat_request, ui_messages_of

Part = dict[str, Any]


def assistant(*content: Content) -> Message:
    return Message("assistant", content)


def parts(*content: Content) -> list[Part]:
    """The parts of an answer, without the step that it begins with."""
    [message] = ui_messages_of(Conversation((assistant(*content),)), "c")
    assert message.parts[0] == {"type": "step-start"}
    return message.parts[1:]


PDF = Document("application/pdf", "AAAA", None, "Report")


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (Text("hi"), {"type": "text", "text": "hi", "state": "done"}),
        (
            Thinking("hm", "seal"),
            {
                "type": "reasoning",
                "text": "hm",
                "state": "done",
                "providerMetadata": {"rxworker": {"signature": "seal"}},
            },
        ),
        (
            Refusal("no"),
            {"type": "text", "text": "no", "state": "done", "providerMetadata": {"rxworker": {"refusal": True}}},
        ),
        (OpaqueBlock("odd", {"x": 1}), {"type": "data-block", "data": {"kind": "odd", "echo": {"x": 1}}}),
        (
            ToolCall("1", "look", {"at": "a"}),
            {
                "type": "tool-look",
                "toolCallId": "1",
                "state": "output-error",
                "input": {"at": "a"},
                "errorText": "This call was not run.",
            },
        ),
    ],
)
def test_a_block_of_an_answer_is_a_part(block: Content, expected: Part) -> None:
    assert parts(block) == [expected]


def test_pictures_and_documents_of_the_user_are_files() -> None:
    user = Message.user("See:", Image("image/png", None, "https://a.b/c.png"), PDF)
    [message] = ui_messages_of(Conversation((user,), "Be brief."), "c")
    assert (message.id, message.role) == ("c.0", "user")
    assert message.parts[1:] == [
        {"type": "file", "mediaType": "image/png", "url": "https://a.b/c.png"},
        {
            "type": "file",
            "mediaType": "application/pdf",
            "url": "data:application/pdf;base64,AAAA",
            "filename": "Report",
        },
    ]


def test_a_tool_of_the_provider_has_its_result_in_place() -> None:
    [call] = parts(ServerToolCall("1", "search", {"q": "x"}), ServerToolResult("1", echo={"hits": []}))
    assert (call["state"], call["output"]) == ("output-available", '{"hits":[]}')
    assert call["providerExecuted"] is True


def test_a_citation_of_an_address_is_a_source() -> None:
    _, source = parts(Text("hi", ({"url": "https://a.b", "title": "A"}, {"page": 3})))
    assert (source["type"], source["url"], source["title"]) == ("source-url", "https://a.b", "A")


def test_the_turns_of_an_answer_are_one_message_and_calls_of_one_id_are_apart() -> None:
    call = ToolCall("1", "look", {})
    said = Conversation(
        (
            Message.user("hi"),
            assistant(call, call),
            Message("user", (ToolResult("1", "one"), ToolResult("1", "two", True))),
            assistant(Text("Done.")),
            Message.user("bye"),
        )
    )
    messages = ui_messages_of(said, "c")
    assert [m.role for m in messages] == ["user", "assistant", "user"]
    [first, second] = [p for p in messages[1].parts if p["type"] == "tool-look"]
    assert (first["toolCallId"], first["output"]) == ("1", "one")
    assert (second["toolCallId"], second["errorText"]) == ("1~2", "two")


def test_the_calls_that_wait_have_the_states_of_the_stream() -> None:
    calls = tuple(ToolCall(name, "look", {}) for name in ("a", "b", "c"))
    said = Conversation((Message.user("hi"), assistant(*calls)))
    pause = PauseState("ask", tuple(map(PausedCall, (0, 1), calls)), (1,), "Really?")
    first, second, third = ui_messages_of(said, "c", run_id="r", pause=pause)[1].parts[1:]
    approval = {"id": "r:a", "isAutomatic": True, "approved": True}
    assert (first["state"], first["approval"]) == ("approval-responded", approval)
    approval = {"id": "r:b", "requestReason": "Really?"}
    assert (second["state"], second["approval"]) == ("approval-requested", approval)
    assert third["state"] == "output-error"


def test_what_is_served_can_be_sent_back() -> None:
    call = ToolCall("1", "look", {"at": "a"})
    said = Conversation(
        (
            Message.user("hi", PDF),
            assistant(Text("So."), call),
            Message("user", (ToolResult("1", "one", name="look"),)),
            assistant(Text("Done.")),
        )
    )
    messages = [{"id": m.id, "role": m.role, "parts": m.parts} for m in ui_messages_of(said, "c")]
    request = {"id": "c", "messages": messages}
    assert read_chat_request(json.dumps(request).encode()).conversation == said
