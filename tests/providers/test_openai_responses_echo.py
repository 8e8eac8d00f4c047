"""What a recorded answer says, and what of it goes back with the next request."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rxworker.events import BlockStart, ResponseEvent
from rxworker.messages import Conversation, Message, ToolMeta, ToolResult
from rxworker.providers import OpenAIResponses, Options
from rxworker.state.response import fold_response, message_of
from tests.decoded import decoded

RECORDINGS = Path(__file__).parents[3] / "shared" / "recordings" / "openai_responses"
ABSENT = pytest.param(RECORDINGS, marks=pytest.mark.skip(reason=f"no recordings: {RECORDINGS} is absent"))
STREAMS = sorted(RECORDINGS.glob("*.sse")) or [ABSENT]
CLIENTS = ("message", "reasoning", "function_call", "custom_tool_call")
PROVIDER = OpenAIResponses("gpt-5", api_key="k")

every_recording = pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)


def decode(path: Path) -> list[ResponseEvent]:
    return decoded(PROVIDER, path.read_bytes())


def answer_of(events: Sequence[ResponseEvent]) -> Message | None:
    return message_of(fold_response(events), PROVIDER.name)


def body_of(*messages: Message, tools: Sequence[ToolMeta] = ()) -> dict[str, Any]:
    model = next((message.model for message in messages if message.model), PROVIDER.model)
    request = OpenAIResponses(model, api_key="k").request(Conversation(messages), tools, Options())
    return msgspec.json.decode(request.body)


def items_of(path: Path) -> list[Any]:
    """The items as they were when they ended, read from the stream with other means."""
    found: dict[int, Any] = {}
    for line in path.read_text().split("\n"):
        if line.startswith("data:") and '"response.output_item.done"' in line:
            event = json.loads(line[5:])
            found[event.get("output_index", len(found))] = event["item"]
    return [found[place] for place in sorted(found)]


def item_types(events: Sequence[ResponseEvent]) -> list[str]:
    starts = [e.echo for e in events if isinstance(e, BlockStart) and e.echo]
    places = {echo["output_index"]: str(echo["type"]) for echo in starts}
    return [places[place] for place in sorted(places, key=str)]


@every_recording
def test_a_recording_has_the_items_expected(path: Path) -> None:
    expected = json.loads(path.with_suffix(".expected.json").read_text())
    events = decode(path)
    types = item_types(events)
    assert types == expected["item_types"]
    assert [t for t in types if t not in CLIENTS] == expected["server_items"]


@every_recording
def test_a_recorded_answer_goes_back_item_by_item(path: Path) -> None:
    answer = answer_of(decode(path))
    items = items_of(path)
    if answer is None:
        assert not items
        return
    stored = msgspec.json.decode(msgspec.json.encode(answer), type=Message)
    results = [ToolResult(call.id, "ok") for call in stored.tool_calls]
    sent = body_of(Message.user("hi"), stored, Message.user(*results))["input"]
    assert sent[1 : 1 + len(items)] == items
    kinds = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
    # What answers a call of a program says which, as the official packages do.
    answers = [
        {"type": kinds[item["type"]], "call_id": item["call_id"], "output": "ok"}
        | ({"caller": item["caller"]} if "caller" in item else {})
        for item in items
        if item["type"] in kinds
    ]
    assert sent[1 + len(items) :] == answers


@every_recording
def test_an_answer_cut_anywhere_leaves_an_input_that_the_service_accepts(path: Path) -> None:
    """No thought without what came of it, no half call, nothing sealed that was not whole."""
    lines = path.read_bytes().split(b"\n\n")
    for count in range(0, len(lines), 1 + len(lines) // 20):
        answer = answer_of(decoded(PROVIDER, b"\n\n".join(lines[:count]) + b"\n\n"))
        items: list[dict[str, Any]] = body_of(answer)["input"] if answer else []
        assert not items or items[-1].get("type") != "reasoning"
        whole = items_of(path)
        assert all(item in whole or item.keys() == {"role", "content"} for item in items)


def test_only_the_sealed_thought_that_ended_goes_back() -> None:
    """The seal that comes with the start of a thought is shorter than the one at its end."""
    path = RECORDINGS / "reasoning-encrypted-summary.sse"
    if not path.exists():
        pytest.skip(f"no recordings: {path} is absent")
    answer = answer_of(decode(path))
    assert answer is not None
    thought, call = body_of(answer)["input"]
    assert len(thought["encrypted_content"]) == 1060
    assert (thought["type"], call["type"]) == ("reasoning", "function_call")


# --- against the types of the official client


@cache
def checks() -> tuple[Any, Any]:
    """What reads an item, and a request."""
    pydantic = pytest.importorskip("pydantic", reason="the package openai is not installed")
    responses = pytest.importorskip("openai.types.responses", reason="the package openai is not installed")
    create = responses.response_create_params.ResponseCreateParamsStreaming
    return tuple(pydantic.TypeAdapter(kind).validate_python for kind in (responses.ResponseInputItemParam, create))


@every_recording
def test_the_official_client_knows_every_item(path: Path) -> None:
    check_item, check_request = checks()
    answer = answer_of(decode(path))
    if answer is None:
        return
    results = [ToolResult(call.id, "ok") for call in answer.tool_calls]
    tool = ToolMeta("look", "Looks.", {"type": "object", "properties": {}})
    body = body_of(Message.user("hi"), answer, Message.user(*results), tools=[tool])
    for item in body.pop("input"):
        check_item(item)
    body["input"] = "hi"
    check_request(body)


def test_arguments_of_null_go_back_as_an_empty_object() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "null"}
    done = {"type": "response.output_item.done", "output_index": 0, "item": call}
    last = {"type": "response.completed", "response": {"status": "completed"}}
    data = b"".join(b"data: %s\n\n" % json.dumps(one).encode() for one in (done, last))
    answer = answer_of(decoded(PROVIDER, data))
    assert answer is not None
    assert answer.tool_calls[0].input == {}
    assert body_of(answer)["input"] == [call | {"arguments": "{}"}]
