"""A server that ignores ``stream: true`` answers with one JSON object: it is the answer, and is read as one.

Anything else is named.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from reactivex import operators as ops

from rxworker.errors import ProviderError, RxWorkerError
from rxworker.events import Error, Opaque, ResponseEvent
from rxworker.messages import StopKind, Text, Thinking, ToolCall
from rxworker.providers import PROVIDERS
from rxworker.state.response import fold_response
from rxworker.testing import ReplayServer, ServedResponse
from rxworker.transport import Client, Retry
from tests.decoded import answer_of, cut, decoded

# One answer in each protocol.
RECORDED = Path(__file__).parents[1] / "recordings" / "whole_answers.jsonl"
ANSWERS: dict[str, Any] = {
    row["protocol"]: row["answer"] for row in map(msgspec.json.decode, RECORDED.read_bytes().splitlines())
}


def pretty(answer: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(answer), indent=2)


def as_frame(answer: Any) -> bytes:
    return b"data: " + msgspec.json.encode(answer) + b"\n\n"


FORMS: dict[str, Callable[[Any], bytes]] = {"compact": msgspec.json.encode, "pretty": pretty, "one frame": as_frame}
each = pytest.mark.parametrize("name", ANSWERS)


def check(events: list[ResponseEvent], name: str) -> None:
    message, state = answer_of(events, name), fold_response(events)
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
    check(decoded(name, *cut(FORMS[form](ANSWERS[name]), size)), name)


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
    errors = [e for e in decoded(name, *cut(body, size)) if isinstance(e, Error)]
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
