"""What ``DefaultChatTransport`` posts is read, or refused with a word of what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rxworker import Answer, Approve, Deny
from rxworker.errors import LocalProtocolError
from rxworker.messages import Image, Message, Text, ToolCall, ToolResult, validate
from rxworker.protocols.common import RunRequest, decisions_of
from rxworker.protocols.ui_messages import read_chat_request


def read(*messages: dict[str, Any], **given: Any) -> RunRequest:
    asked = {"id": "chat", "messages": messages, "trigger": "submit-message"} | given
    return read_chat_request(json.dumps(asked).encode())


def message(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"id": f"{role}-1", "role": role, "parts": parts}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said, "state": "done"}


def look(state: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool-look", "toolCallId": "c1", "state": state, "input": {"x": 1}, **given}


CALL = ToolCall("c1", "look", {"x": 1})


def test_each_step_of_an_answer_is_a_message_followed_by_its_results() -> None:
    asked = read(
        message("system", text("Be brief.")),
        message("user", text("hi")),
        message(
            "assistant",
            {"type": "step-start"},
            {"type": "reasoning", "text": "hm"},
            text("Let me look."),
            look("output-available", output="rain"),
            {"type": "data-usage", "id": "u", "data": {}},
            {"type": "step-start"},
            text("Rain."),
            {"type": "source-url", "sourceId": "s", "url": "https://a.b"},
        ),
        message("user", text("thanks")),
    )
    assert asked.conversation.system == "Be brief."
    assert asked.conversation.messages == (
        Message.user("hi"),
        Message.assistant("Let me look.", CALL),
        Message("user", (ToolResult("c1", "rain", name="look"),)),
        Message.assistant("Rain."),
        Message.user("thanks"),
    )
    assert validate(asked.conversation) == []
    assert [m.text for m in asked.messages] == ["thanks"]
    assert asked.message_id is None


@pytest.mark.parametrize(
    ("part", "result"),
    [
        (look("output-error", errorText="no"), ToolResult("c1", "no", True, "look")),
        (
            look("output-denied", approval={"id": "r:c1", "approved": False, "reason": "mine"}),
            ToolResult("c1", "mine", True, "look"),
        ),
        (look("output-available", output={"a": 1}), ToolResult("c1", '{"a":1}', False, "look")),
        (look("output-available", output="half", preliminary=True), None),
        (look("input-available"), None),
    ],
)
def test_a_call_has_the_result_of_its_state(part: dict[str, Any], result: ToolResult | None) -> None:
    messages = read(message("user", text("hi")), message("assistant", part)).conversation.messages
    assert messages[1] == Message.assistant(CALL)
    assert messages[2:] == (() if result is None else (Message("user", (result,)),))


@pytest.mark.parametrize(
    ("part", "decisions"),
    [
        (look("approval-responded", approval={"id": "r:c1", "approved": True}), {"c1": Approve()}),
        (look("approval-responded", approval={"id": "r:c1", "approved": False}), {"c1": Deny()}),
        (look("approval-responded", approval={"id": "r:c1", "approved": False, "reason": "no"}), {"c1": Deny("no")}),
        (look("approval-responded", approval={"id": "r:c1", "approved": True, "isAutomatic": True}), {}),
        (look("approval-requested", approval={"id": "r:c1"}), {}),
        (look("output-available", output="42", approval={"id": "r:c1"}), {"c1": Answer("42")}),
        (look("output-available", output="42"), {}),
    ],
)
def test_an_answer_to_a_paused_call_is_a_decision(part: dict[str, Any], decisions: dict[str, object]) -> None:
    asked = read(message("user", text("hi")), message("assistant", part))
    assert decisions_of(asked.replies) == decisions
    continues = asked.replies or asked.results
    assert asked.message_id == ("assistant-1" if continues else None)
    assert asked.messages == ()


def test_only_the_last_answer_decides() -> None:
    part = look("approval-responded", approval={"id": "r:c1", "approved": True})
    asked = read(message("assistant", part), message("user", text("hi")))
    assert asked.replies == ()


def test_files_are_pictures_or_documents() -> None:
    file = {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA"}
    (said,) = read(message("user", text("look"), file)).messages
    assert said.content == (Text("look"), Image("image/png", "AAAA"))


def test_a_dynamic_tool_is_a_call_too() -> None:
    part = {**look("input-available"), "type": "dynamic-tool", "toolName": "see"}
    assert read(message("assistant", part)).conversation.messages[0].tool_calls[0].name == "see"


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (message("poet", text("x")), "role 'poet'"),
        (message("user", {"type": "file", "mediaType": "image/png", "url": "file:///x"}), "https:"),
        (message("user", {"type": "file", "mediaType": "video/mp4", "url": "https://a.b"}), "video"),
        (message("assistant", {"type": "tool-look", "state": "x"}), "toolCallId"),
        (message("assistant", {**look("x"), "input": [1]}), "neither an object nor a text"),
        (
            message("assistant", look("approval-responded", approval={"id": "x", "approved": True})),
            "not an interrupt of this server",
        ),
        ({"role": "user"}, "useChat"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_word_of_what_to_do(given: dict[str, Any], word: str) -> None:
    with pytest.raises(LocalProtocolError, match=word):
        read(given)


def test_another_trigger_is_refused() -> None:
    assert read(message("user", text("x")), trigger="regenerate-message").replaces
    with pytest.raises(LocalProtocolError, match="trigger"):
        read(trigger="shake")


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff", b'{"id":"t"}', b"[" * 5000])
def test_what_is_not_a_request_is_refused(data: bytes) -> None:
    with pytest.raises(LocalProtocolError, match="useChat"):
        read_chat_request(data)
