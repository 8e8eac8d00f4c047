"""A server that ignores ``stream: true`` answers with one JSON object: it is the answer, and is read as one.

Anything else is named.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from reactivex import operators as ops

from rxworker.errors import ProviderError, RxWorkerError
from rxworker.events import Error, Opaque, ResponseEvent
from rxworker.messages import Message, StopKind, Text, Thinking, ToolCall
from rxworker.providers import PROVIDERS
from rxworker.state import ResponseState, message_of, step_response
from rxworker.testing import ReplayServer, ServedResponse, lint
from rxworker.transport import Client, Retry

CHAT: Any = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "It is sunny.",
                "reasoning_content": "Look first.",
                "refusal": None,
                "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"city":"Rome"}'}}
                ],
            },
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
}
MESSAGE: Any = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [
        {"type": "thinking", "thinking": "Look first.", "signature": "sig"},
        {"type": "text", "text": "It is sunny."},
        {"type": "tool_use", "id": "call_1", "name": "look", "input": {"city": "Rome"}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 4},
}
RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "error": None,
    "model": "m",
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Look first."}]},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "It is sunny.", "annotations": []}],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "look",
            "arguments": '{"city":"Rome"}',
            "status": "completed",
        },
    ],
    "usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
}
GENERATED: Any = {
    "candidates": [
        {
            "content": {
                "role": "model",
                "parts": [
                    {"text": "Look first.", "thought": True},
                    {"text": "It is sunny."},
                    {"functionCall": {"id": "call_1", "name": "look", "args": {"city": "Rome"}}},
                ],
            },
            "finishReason": "STOP",
        }
    ],
    "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4},
    "modelVersion": "m",
    "responseId": "r",
}
INTERACTION: Any = {
    "id": "v1_1",
    "object": "interaction",
    "status": "requires_action",
    "model": "m",
    "steps": [
        {"type": "thought", "summary": [{"type": "text", "text": "Look first."}]},
        {"type": "model_output", "content": [{"type": "text", "text": "It is sunny."}]},
        {"type": "function_call", "id": "call_1", "name": "look", "arguments": {"city": "Rome"}},
    ],
    "usage": {"total_input_tokens": 3, "total_output_tokens": 4},
}
ANSWERS: dict[str, Any] = {
    "openai_chat": CHAT,
    "anthropic": MESSAGE,
    "openai_responses": RESPONSE,
    "gemini": GENERATED,
    "gemini_interactions": INTERACTION,
}


def pretty(answer: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(answer), indent=2)


def as_frame(answer: Any) -> bytes:
    return b"data: " + msgspec.json.encode(answer) + b"\n\n"


FORMS: dict[str, Callable[[Any], bytes]] = {"compact": msgspec.json.encode, "pretty": pretty, "one frame": as_frame}
each = pytest.mark.parametrize("name", ANSWERS)


def events_of(name: str, data: bytes, size: int) -> list[ResponseEvent]:
    decoder = PROVIDERS[name]("m", api_key="k").decoder()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    events = [event for piece in pieces for event in decoder.feed(piece)]
    events += decoder.finish()
    assert [*lint(events)] == []
    return events


def folded(events: list[ResponseEvent], name: str) -> tuple[Message, ResponseState]:
    state = ResponseState()
    for event in events:
        state = step_response(state, event)
    message = message_of(state, name)
    assert message is not None
    return message, state


def check(events: list[ResponseEvent], name: str) -> None:
    message, state = folded(events, name)
    assert [type(block) for block in message.content] == [Thinking, Text, ToolCall]
    thinking, text, call = message.content
    assert isinstance(thinking, Thinking)
    assert thinking.text == "Look first."
    assert isinstance(text, Text)
    assert text.text == "It is sunny."
    assert isinstance(call, ToolCall)
    assert (call.id, call.name, call.input) == ("call_1", "look", {"city": "Rome"})
    assert state.stop_reason is not None
    assert state.stop_reason.kind is StopKind.TOOL_USE
    assert state.usage is not None
    assert (state.usage.input_tokens, state.usage.output_tokens) == (3, 4)
    assert not any(isinstance(event, Opaque) for event in events)


@each
@pytest.mark.parametrize(("form", "size"), [*itertools.product(FORMS, (1, 7, 10_000))])
def test_a_whole_answer_is_decoded_like_a_stream(name: str, form: str, size: int) -> None:
    check(events_of(name, FORMS[form](ANSWERS[name]), size), name)


@each
@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream"])
async def test_a_whole_answer_arrives_over_http(name: str, content_type: str) -> None:
    body = msgspec.json.encode(ANSWERS[name] | {"padding": "x" * 100_000})
    reply = ServedResponse.from_status(200, headers={"content-type": content_type}, body=body)
    async with ReplayServer([reply]) as server:
        client = Client(PROVIDERS[name]("m", api_key="k", base_url=server.base_url))
        events: list[ResponseEvent] = await client.stream("hi").pipe(ops.to_list())
    check([event for event in events if not isinstance(event, Opaque)], name)


@each
async def test_an_error_in_place_of_a_stream_is_still_explained(name: str) -> None:
    reply = ServedResponse.from_json({"error": {"message": "No such thing", "type": "api_error"}})
    async with ReplayServer([reply]) as server:
        client = Client(PROVIDERS[name]("m", api_key="k", base_url=server.base_url), retry=Retry(retries=0))
        with pytest.raises(ProviderError, match=r"HTTP 200 and no stream.*No such thing"):
            await client.stream("hi").pipe(ops.to_list())


PAGE = b"""<!doctype html>
<html><head><style>p { color: red }</style></head>

<body><p>Sign in to the proxy</p></body></html>
"""


@each
@pytest.mark.parametrize(("body", "message"), [(b"", "answer is empty"), (PAGE, "Sign in to the proxy")])
@pytest.mark.parametrize("size", [1, 10_000])
def test_what_came_in_place_of_a_response_is_named(name: str, body: bytes, message: str, size: int) -> None:
    errors = [e for e in events_of(name, body, size) if isinstance(e, Error)]
    assert len(errors) == 1
    assert message in errors[0].message
    assert "color" not in errors[0].message


@each
async def test_an_empty_stream_is_requested_again(name: str) -> None:
    empty = ServedResponse.from_status(200, headers={"content-type": "text/event-stream"}, body=b"")
    async with ReplayServer([empty, empty]) as server:
        client = Client(PROVIDERS[name]("m", api_key="k", base_url=server.base_url), retry=Retry(retries=1, first=0))
        with pytest.raises(RxWorkerError, match="answer is empty"):
            await client.stream("hi").pipe(ops.to_list())
        assert len(server.requests) == 2
