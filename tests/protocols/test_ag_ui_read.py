"""What an AG-UI client asks for is read, or refused with a word of what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rxworker import Answer, Approve, Deny
from rxworker.errors import LocalProtocolError
from rxworker.messages import Document, Image, Message, Text, ToolCall, ToolResult, validate
from rxworker.protocols.ag_ui import read_run_input
from rxworker.protocols.ag_ui.read import AgUiInput
from rxworker.protocols.common import InterruptReply, decisions_of


def read(**given: Any) -> AgUiInput:
    asked: dict[str, Any] = {"threadId": "t", "runId": "r", "messages": [], "tools": []}
    asked |= given
    return read_run_input(json.dumps(asked).encode())


def message(role: str, content: Any = None, **given: Any) -> dict[str, Any]:
    return {"id": "1", "role": role, "content": content, **given}


CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"x":1}'}}


def test_the_whole_history_and_the_latest_words_are_read() -> None:
    asked = read(
        messages=[
            message("system", "Be brief."),
            message("user", "hi"),
            message("reasoning", "hm", encryptedValue="seal"),
            message("assistant", "Let me look.", toolCalls=[CALL]),
            message("tool", "rain", toolCallId="c1"),
            message("activity", {"progress": 1}, activityType="x"),
            message("assistant", "Rain."),
            message("user", "thanks"),
            message("user", "and now?"),
        ],
        protocolVersion="1.0",
    )
    assert asked.conversation.system == "Be brief."
    assert asked.conversation.messages == (
        Message.user("hi"),
        Message.assistant("Let me look.", ToolCall("c1", "look", {"x": 1})),
        Message("user", (ToolResult("c1", "rain", name="look"),)),
        Message.assistant("Rain."),
        Message.user("thanks"),
        Message.user("and now?"),
    )
    assert validate(asked.conversation) == []
    assert [m.text for m in asked.messages] == ["thanks", "and now?"]
    assert asked.protocol == "1.0"


def test_pictures_and_documents_are_read_in_the_newer_and_the_older_form() -> None:
    parts = [
        {"type": "text", "text": "look"},
        {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/gif"}},
        {"type": "document", "source": {"type": "url", "value": "https://a.b/c.pdf"}},
        {"type": "binary", "mimeType": "image/png", "data": "BBBB"},
    ]
    (said,) = read(messages=[message("user", parts)]).messages
    assert said.content == (
        Text("look"),
        Image("image/gif", "AAAA"),
        Document("application/pdf", url="https://a.b/c.pdf"),
        Image("image/png", "BBBB"),
    )


@pytest.mark.parametrize(
    ("entry", "decision"),
    [
        ({"payload": {"approved": True}}, Approve()),
        ({"payload": {"approved": True, "editedArgs": {"x": 2}}}, Approve({"x": 2})),
        ({"payload": {"approved": False}}, Deny()),
        ({"payload": {"approved": False, "reason": "no"}}, Deny("no")),
        ({"payload": True}, Approve()),
        ({"payload": "42"}, Answer("42")),
        ({"status": "cancelled"}, Deny("The user did not want to decide.")),
    ],
)
def test_an_answer_to_a_paused_call_is_a_decision(entry: dict[str, Any], decision: object) -> None:
    asked = read(resume=[{"interruptId": "run-1:c:1", "status": "resolved"} | entry])
    assert asked.replies[0].run_id == "run-1"
    assert decisions_of(asked.replies) == {"c:1": decision}


def test_an_answer_at_the_end_of_a_turn_is_a_message() -> None:
    entry = {"interruptId": "run-1:", "status": "resolved", "payload": "go on"}
    assert read(resume=[entry]).replies == (InterruptReply("run-1", message=Message.user("go on")),)


def test_tools_state_and_context_are_read() -> None:
    asked = read(
        tools=[{"name": "pick", "description": "d", "parameters": {"type": "object"}}],
        context=[{"description": "where", "value": "Oslo"}],
        state={"a": None},
        forwardedProps={"b": 1},
    )
    assert asked.tools[0].name == "pick"
    assert asked.context[0].value == "Oslo"
    assert (asked.shared_state, asked.forwarded) == ({"a": None}, {"b": 1})


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"messages": [message("poet", "x")]}, "role 'poet'"),
        ({"messages": [message("user", 5)]}, "neither a text nor a list"),
        ({"messages": [message("tool", "x")]}, "toolCallId"),
        ({"messages": [message("user", [{"type": "image"}])]}, "no source"),
        (
            {
                "messages": [
                    message("user", [{"type": "image", "source": {"type": "url", "value": "file:///etc/passwd"}}])
                ]
            },
            "https:",
        ),
        ({"messages": [message("user", [{"type": "audio", "source": {"type": "data", "value": "A"}}])]}, "audio/mpeg"),
        ({"resume": [{"interruptId": "x", "status": "resolved"}]}, "not an interrupt of this server"),
        ({"resume": [{"interruptId": "r:c", "status": "maybe"}]}, "'resolved' or 'cancelled'"),
        ({"resume": [{"interruptId": "r:c", "status": "resolved"}]}, "approved"),
        ({"resume": [{"interruptId": "r:c", "status": "resolved", "payload": {"x": 1}}]}, "approved"),
        ({"threadId": 5}, "RunAgentInput"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_word_of_what_to_do(given: dict[str, Any], word: str) -> None:
    with pytest.raises(LocalProtocolError, match=word):
        read(**given)


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff", b'{"threadId":"t"}', b"[" * 5000])
def test_what_is_not_an_input_is_refused(data: bytes) -> None:
    with pytest.raises(LocalProtocolError, match="RunAgentInput"):
        read_run_input(data)
