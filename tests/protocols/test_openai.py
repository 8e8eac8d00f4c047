"""What a response and a completion do with what cannot be taken back.

Retracted texts, calls that are not the client's, records that stop.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from msgspec.structs import replace

from rxworker.errors import LocalProtocolError
from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    InputJsonDelta,
    PausedCall,
    PauseState,
    Record,
    RunPause,
    RunResume,
    RunStart,
    RunStop,
    TextDelta,
    ToolStop,
    ToolUseMetadata,
    TurnStart,
    TurnStop,
)
from rxworker.messages import Conversation, Image, Message, ToolCall, ToolResult
from rxworker.protocols.openai import (
    ChatEncoder,
    ResponseEncoder,
    read_completion_request,
    read_response_request,
    response_stream,
)
from rxworker.protocols.openai.responses import ResponseHead

START = RunStart(Conversation((Message.user("hi"),)))
OPEN = ToolCall("c1", "open_tab", {"url": "x"})
CALL: list[Event] = [
    BlockStart(1, BlockType.TOOL_USE, ToolUseMetadata("c1", "open_tab")),
    InputJsonDelta(1, '{"url":"x"}'),
    BlockStop(1, BlockType.TOOL_USE),
]


def records(*events: Event) -> list[Record]:
    return [Record(n, "run-1", 1, 1, float(n), event) for n, event in enumerate(events, 1)]


def respond(*events: Event) -> tuple[list[str], dict[str, Any]]:
    """The types of the events of a response, and the response."""
    encoder = ResponseEncoder(ResponseHead("run-1", 0.0, "desk", ("open_tab",)))
    told: list[Any] = [event for record in records(*events) for event in encoder.feed(record)]
    response: Any = encoder.response
    return [event["type"].removeprefix("response.") for event in told], response


def complete(*events: Event) -> dict[str, Any]:
    """The message of a completion."""
    encoder = ChatEncoder(["open_tab"])
    for record in records(*events):
        encoder.feed(record)
    return {**encoder.message, "finish_reason": encoder.finish_reason}


RETRACTED: list[Event] = [
    START,
    TurnStart(),
    AttemptStart("acme", "large"),
    BlockStart(0, BlockType.TEXT),
    TextDelta(0, "Hel"),
    *CALL,
    AttemptRetract("cut"),
    AttemptStart("acme", "large"),
    BlockStart(0, BlockType.TEXT),
    TextDelta(0, "Hello"),
    BlockStop(0, BlockType.TEXT),
    TurnStop(),
    RunStop(),
]


def test_a_whole_answer_does_not_have_what_was_retracted() -> None:
    assert complete(*RETRACTED)["content"] == "Hello"
    kinds, response = respond(*RETRACTED)
    assert [item["content"][0]["text"] for item in response["output"]] == ["Hello"]
    assert kinds.count("output_item.added") == 3
    assert "function_call_arguments.done" not in kinds


def test_a_call_that_a_hook_has_answered_is_not_the_clients() -> None:
    answered: list[Event] = [
        *(START, TurnStart(), *CALL),
        ToolStop(ToolResult("c1", "no", is_error=True), 0.0),
        *(TurnStop(), RunStop()),
    ]
    kinds, response = respond(*answered)
    assert (response["status"], response["output"]) == ("completed", [])
    assert "output_item.done" not in kinds
    assert "tool_calls" not in complete(*answered)


def test_the_client_makes_a_call_with_the_arguments_that_the_run_waits_with() -> None:
    edited = ToolCall("c1", "open_tab", {"url": "y"})
    paused = RunPause(PauseState("client_tool", (PausedCall(0, edited),), ()))
    kinds, response = respond(START, TurnStart(), *CALL, TurnStop(), paused)
    assert [item["arguments"] for item in response["output"]] == ['{"url":"y"}']
    assert kinds[-3:] == ["function_call_arguments.done", "output_item.done", "completed"]
    (call,) = complete(START, TurnStart(), *CALL, TurnStop(), paused)["tool_calls"]
    assert call["function"]["arguments"] == '{"url":"y"}'


def test_a_call_of_the_run_before_is_shown_again() -> None:
    """A person has decided about another call, and the run still waits for its client."""
    asked = Conversation((Message.user("hi"), Message.assistant(OPEN)))
    pause = PauseState("client_tool", (PausedCall(0, OPEN),), ())
    kinds, response = respond(RunResume(asked, replace(pause, hook="")), RunPause(pause))
    assert [item["call_id"] for item in response["output"]] == ["c1"]
    assert kinds[2:] == [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]


def test_a_run_that_a_person_has_paused_is_not_complete() -> None:
    paused = RunPause(PauseState("pause", (), (), "paused by the user"))
    _, response = respond(START, TurnStart(), TurnStop(), paused)
    reason = "the run waits for a decision: paused by the user"
    assert (response["status"], response["error"]["message"]) == ("failed", reason)
    assert complete(START, TurnStart(), TurnStop(), paused)["content"] == f"[{reason}]"
    text = (BlockStart(0, BlockType.TEXT), TextDelta(0, "Hm."), BlockStop(0, BlockType.TEXT))
    content = complete(START, TurnStart(), *text, TurnStop(), paused)["content"]
    assert content == f"Hm.\n\n[{reason}]"


async def test_records_that_stop_break_the_stream_off() -> None:
    """No event reports it: its number would be that of another event for the next client."""

    async def batches() -> AsyncGenerator[list[Record], None]:
        yield records(START, TurnStart(), BlockStart(0, BlockType.TEXT), TextDelta(0, "Hel"))

    encoder = ResponseEncoder(ResponseHead("run-1", 0.0, "desk"))
    frames = response_stream(batches(), encoder)
    assert b"response.output_text.delta" in await anext(frames)
    with pytest.raises(ConnectionError):
        await anext(frames)
    assert encoder.response["status"] == "in_progress"


def test_what_clients_send_is_read() -> None:
    """Empty texts, addresses of images, arguments that are not JSON, results with images, and references to items."""
    read = read_completion_request(
        b"""{"model": "desk", "unknown": 1, "stream_options": {}, "tools": [], "stop": null, "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
            {"role": "user", "content": [{"type": "text", "text": ""}, {"type": "image_url", "image_url": "https://a.b/c.png"}]},
            {"role": "assistant", "content": "", "tool_calls": []},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "open_tab", "arguments": "no JSON"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "done"}]}
        ]}"""
    )
    user, assistant = read.conversation.messages
    assert (read.system, len(user.content)) == ("Be kind.", 1)
    assert assistant.tool_calls[0].input == "no JSON"
    assert read.results[0].content == "done"
    item = {"id": "i1", "type": "message", "role": "assistant"}
    read = read_response_request(
        b"""{"model": "desk", "input": [
            {"type": "item_reference", "id": "i1"}, {"type": "item_reference", "id": "i2"},
            {"type": "function_call_output", "call_id": "c1", "output": [
                {"type": "input_text", "text": "a tab"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]}
        ]}""",
        {"i1": {**item, "content": [{"type": "output_text", "text": "Hello"}]}},
    )
    assert read.references == ("i2",)
    assert read.conversation.messages[0].text == "Hello"
    assert isinstance(read.results[0].content[1], Image)


@pytest.mark.parametrize(
    ("tool", "what"),
    [
        ({"type": "function", "function": {"description": "Look."}}, "`name`"),
        ({"type": "function", "function": True}, "got `bool`"),
        ({"type": "web_search"}, "'web_search' is not supported"),
    ],
)
def test_the_error_of_a_tool_names_its_place(tool: dict[str, Any], what: str) -> None:
    good = {"type": "function", "function": {"name": "look"}}
    body = {"model": "desk", "messages": [], "tools": [good, tool]}
    with pytest.raises(LocalProtocolError, match=rf"tools\[1\]: .*{what}"):
        read_completion_request(json.dumps(body).encode())
