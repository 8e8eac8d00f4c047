"""A call that a server sends twice in one response is made once, in every protocol; calls that differ stay two."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from rxworker.events import BlockStart, Opaque, ResponseEvent, Status, ToolUseMetadata
from rxworker.providers import PROVIDERS
from rxworker.providers.block_factory import REPEATED
from rxworker.views import Summary, summarise
from tests.decoded import decoded
from tests.framing.test_event_stream import message


@dataclass(frozen=True)
class Said:
    """A call as the server sends it: under which index, and in which pieces of its arguments."""

    index: int
    pieces: tuple[str, ...]
    id: str = "call_a"
    name: str = "pay"


PIECES = ('{"to":"bob",', '"sum":', "1}")
WHOLE = ('{"to":"bob","sum":1}',)
EMPTY = ("{}",)
FORMS: dict[str, tuple[Said, Said]] = {
    "next index": (Said(0, PIECES), Said(1, PIECES)),
    "same index": (Said(0, PIECES), Said(0, PIECES)),
    "whole after pieces": (Said(0, PIECES), Said(1, WHOLE)),
    "whole after pieces, same index": (Said(0, PIECES), Said(0, WHOLE)),
    "pieces after whole": (Said(0, WHOLE), Said(1, PIECES)),
    "pieces after whole, same index": (Said(0, WHOLE), Said(0, PIECES)),
    "whole twice, same index": (Said(0, WHOLE), Said(0, WHOLE)),
    "other order of members": (Said(0, WHOLE), Said(1, ('{"sum": 1,', ' "to": "bob"}'))),
    "no arguments": (Said(0, EMPTY), Said(1, EMPTY)),
    "no arguments, same index": (Said(0, EMPTY), Said(0, EMPTY)),
}
TWO: dict[str, tuple[Said, Said]] = {
    "another id": (Said(0, PIECES), Said(1, PIECES, id="call_b")),
    "another name": (Said(0, PIECES), Said(1, PIECES, name="ask")),
    "another value": (Said(0, PIECES), Said(1, ('{"to":"bob","sum":2}',))),
    "another type": (Said(0, WHOLE), Said(1, ('{"to":"bob","sum":true}',))),
    "another member": (Said(0, WHOLE), Said(1, ('{"to":"bob"}',))),
}


def lines(*values: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def frames(*values: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values)


def named(*values: dict[str, Any]) -> bytes:
    return b"".join(f"event: {value['type']}\n".encode() + frames(value) for value in values)


def anthropic(text: str, calls: list[Said]) -> Iterator[bytes]:
    yield named({"type": "message_start", "message": {"id": "m", "model": "x", "content": []}})
    at = bool(text)
    if text:
        yield named(
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": text}},
            {"type": "content_block_stop", "index": 0},
        )
    for call in calls:
        index = call.index + at
        block: dict[str, Any] = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        if len(call.pieces) == 1:
            block["input"] = json.loads(call.pieces[0])
        yield named({"type": "content_block_start", "index": index, "content_block": block})
        for piece in call.pieces if len(call.pieces) > 1 else ():
            delta: dict[str, Any] = {"type": "input_json_delta", "partial_json": piece}
            yield named({"type": "content_block_delta", "index": index, "delta": delta})
        yield named({"type": "content_block_stop", "index": index})
    yield named({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, {"type": "message_stop"})


def bedrock(text: str, calls: list[Said]) -> Iterator[bytes]:
    def event(kind: str, value: dict[str, Any]) -> bytes:
        return message(json.dumps(value).encode(), {":event-type": kind, ":message-type": "event"})

    yield event("messageStart", {"role": "assistant"})
    at = bool(text)
    if text:
        yield event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}})
        yield event("contentBlockStop", {"contentBlockIndex": 0})
    for call in calls:
        index = call.index + at
        start: dict[str, Any] = {"toolUse": {"toolUseId": call.id, "name": call.name}}
        yield event("contentBlockStart", {"contentBlockIndex": index, "start": start})
        for piece in call.pieces:
            yield event("contentBlockDelta", {"contentBlockIndex": index, "delta": {"toolUse": {"input": piece}}})
        yield event("contentBlockStop", {"contentBlockIndex": index})
    yield event("messageStop", {"stopReason": "tool_use"})


def openai_chat(text: str, calls: list[Said]) -> Iterator[bytes]:
    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        return frames({"id": "c", "model": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    if text:
        yield chunk({"content": text})
    for call in calls:
        first, *rest = call.pieces
        function: dict[str, Any] = {"name": call.name, "arguments": first}
        yield chunk({"tool_calls": [{"index": call.index, "id": call.id, "type": "function", "function": function}]})
        for piece in rest:
            yield chunk({"tool_calls": [{"index": call.index, "function": {"arguments": piece}}]})
    yield chunk({}, "tool_calls") + b"data: [DONE]\n\n"


def openai_responses(text: str, calls: list[Said]) -> Iterator[bytes]:
    yield named({"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}})
    at = bool(text)
    if text:
        part: dict[str, Any] = {"type": "output_text", "text": text}
        item: dict[str, Any] = {"type": "message", "id": "m", "content": [part]}
        yield named({"type": "response.output_item.done", "output_index": 0, "item": item})
    for call in calls:
        index = call.index + at
        item = {"type": "function_call", "id": f"fc{index}", "call_id": call.id, "name": call.name, "arguments": ""}
        yield named({"type": "response.output_item.added", "output_index": index, "item": item})
        for piece in call.pieces:
            kind = "response.function_call_arguments.delta"
            yield named({"type": kind, "output_index": index, "item_id": f"fc{index}", "delta": piece})
        item = {**item, "arguments": "".join(call.pieces)}
        yield named({"type": "response.output_item.done", "output_index": index, "item": item})
    yield named({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}})


def gemini(text: str, calls: list[Said]) -> Iterator[bytes]:
    parts: list[dict[str, Any]] = [{"text": text}] if text else []
    for call in calls:
        given = json.loads("".join(call.pieces))
        parts.append({"functionCall": {"id": call.id, "name": call.name, "args": given}})
    for part in parts:
        yield frames({"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]})
    yield frames({"candidates": [{"index": 0, "finishReason": "STOP"}]})


def gemini_interactions(text: str, calls: list[Said]) -> Iterator[bytes]:
    yield frames({"event_type": "interaction.created", "interaction": {"id": "i", "status": "in_progress"}})
    at = bool(text)
    if text:
        yield frames(
            {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}},
            {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": text}},
            {"event_type": "step.stop", "index": 0},
        )
    for call in calls:
        index = call.index + at
        step: dict[str, Any] = {"type": "function_call", "id": call.id, "name": call.name, "arguments": {}}
        if len(call.pieces) == 1:
            step["arguments"] = json.loads(call.pieces[0])
        yield frames({"event_type": "step.start", "index": index, "step": step})
        for piece in call.pieces if len(call.pieces) > 1 else ():
            delta: dict[str, Any] = {"type": "arguments_delta", "arguments": piece}
            yield frames({"event_type": "step.delta", "index": index, "delta": delta})
        yield frames({"event_type": "step.stop", "index": index})
    ended: dict[str, Any] = {"id": "i", "status": "requires_action"}
    yield frames({"event_type": "interaction.completed", "interaction": ended})


def ollama(text: str, calls: list[Said]) -> Iterator[bytes]:
    if text:
        yield lines({"model": "x", "message": {"role": "assistant", "content": text}, "done": False})
    for call in calls:
        given: dict[str, Any] = {"name": call.name, "arguments": json.loads("".join(call.pieces))}
        said: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [{"id": call.id, "function": given}]}
        yield lines({"model": "x", "message": said, "done": False})
    yield lines({"model": "x", "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"})


Server = Callable[[str, list[Said]], Iterator[bytes]]
SERVERS: dict[str, Server] = {
    "anthropic": anthropic,
    "bedrock": bedrock,
    "gemini": gemini,
    "gemini_interactions": gemini_interactions,
    "ollama": ollama,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
}
every_protocol = pytest.mark.parametrize("protocol", sorted(PROVIDERS))


def made(summary: Summary) -> list[tuple[str | None, str, object]]:
    return [(call.id, call.name, call.input) for call in summary.tool_calls]


def merged(events: list[ResponseEvent]) -> list[object]:
    return [event.raw for event in events if isinstance(event, Opaque) and event.kind == REPEATED]


@every_protocol
@pytest.mark.parametrize("together", [False, True], ids=["one read a frame", "one read"])
@pytest.mark.parametrize("text", ["", "I pay."], ids=["call", "call and text"])
@pytest.mark.parametrize("form", FORMS)
def test_a_call_that_comes_twice_is_made_once(protocol: str, form: str, text: str, together: bool) -> None:
    first, again = FORMS[form]
    reads = [*SERVERS[protocol](text, [first, again])]
    events = decoded(protocol, *([b"".join(reads)] if together else reads))
    summary = summarise(events)
    assert made(summary) == [("call_a", "pay", json.loads("".join(first.pieces)))]
    assert summary.text == text
    assert merged(events) == [{"id": "call_a", "name": "pay"}]


@every_protocol
@pytest.mark.parametrize("form", FORMS)
def test_of_two_calls_of_which_one_comes_twice_both_are_made(protocol: str, form: str) -> None:
    first, again = FORMS[form]
    other = Said(2, WHOLE, id="call_b")
    after = Said(3, PIECES, id="call_c")
    events = decoded(protocol, *SERVERS[protocol]("", [first, again, other, after]))
    assert [call[0] for call in made(summarise(events))] == ["call_a", "call_b", "call_c"]
    assert merged(events) == [{"id": "call_a", "name": "pay"}]


@every_protocol
@pytest.mark.parametrize("form", TWO)
def test_calls_that_differ_stay_two(protocol: str, form: str) -> None:
    events = decoded(protocol, *SERVERS[protocol]("", [*TWO[form]]))
    calls = made(summarise(events))
    assert [call[2] for call in calls] == [json.loads("".join(said.pieces)) for said in TWO[form]]
    tools = [event.metadata for event in events if isinstance(event, BlockStart)]
    assert len({tool.id for tool in tools if isinstance(tool, ToolUseMetadata)}) == 2
    assert merged(events) == []


@every_protocol
def test_a_call_that_comes_three_times_is_made_once_and_one_like_the_second_too(protocol: str) -> None:
    other = '{"to":"eve"}'
    said = [Said(n, pieces) for n, pieces in enumerate((WHOLE, WHOLE, (other,), PIECES, (other,)))]
    events = decoded(protocol, *SERVERS[protocol]("", said))
    assert [call[2] for call in made(summarise(events))] == [json.loads(WHOLE[0]), json.loads(other)]
    assert len(merged(events)) == 3


def test_a_last_message_of_a_chat_repeats_nothing() -> None:
    *reads, _ = openai_chat("I pay.", [Said(0, PIECES)])
    function: dict[str, Any] = {"name": "pay", "arguments": WHOLE[0]}
    call: dict[str, Any] = {"id": "call_a", "type": "function", "function": function}
    whole: dict[str, Any] = {"role": "assistant", "content": "I pay.", "tool_calls": [call]}
    deltas: tuple[dict[str, Any], ...] = ({}, {"delta": {}}, {"delta": {"role": "assistant", "content": ""}})
    for delta in deltas:
        last = frames({"choices": [{"index": 0, "message": whole, "finish_reason": "tool_calls", **delta}]})
        for sent in ([*reads, last], [b"".join([*reads, last])]):
            events = decoded("openai_chat", *sent, b"data: [DONE]\n\n")
            summary = summarise(events)
            assert summary.text == "I pay."
            assert made(summary) == [("call_a", "pay", json.loads(WHOLE[0]))]


def test_a_whole_message_beside_an_empty_delta_is_taken() -> None:
    whole: dict[str, Any] = {"role": "assistant", "content": "Hello"}
    choice: dict[str, Any] = {"index": 0, "message": whole, "delta": {"role": "assistant", "content": ""}}
    events = decoded("openai_chat", json.dumps({"id": "1", "choices": [{**choice, "finish_reason": "stop"}]}).encode())
    assert summarise(events).text == "Hello"


def test_a_final_output_of_a_response_repeats_nothing() -> None:
    *reads, _ = openai_responses("", [Said(0, PIECES)])
    for item_id in ("fc0", "fc9", None):
        item: dict[str, Any] = {"type": "function_call", "call_id": "call_a", "name": "pay", "arguments": WHOLE[0]}
        output = [item | ({"id": item_id} if item_id else {})] * 2
        last = named({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": output}})
        assert made(summarise(decoded("openai_responses", *reads, last))) == [("call_a", "pay", json.loads(WHOLE[0]))]


def test_a_message_that_begins_again_has_no_call_of_before() -> None:
    reads = [*anthropic("", [Said(0, PIECES), Said(1, PIECES)])]
    for cut in range(2, len(reads) - 1):
        events = decoded("anthropic", *reads[:cut], *anthropic("", [Said(0, PIECES)]))
        again = [at for at, event in enumerate(events) if isinstance(event, Status)][1]
        assert made(summarise(events[again:])) == [("call_a", "pay", json.loads(WHOLE[0]))]
        assert merged(events[again:]) == []


def test_a_call_that_is_cut_is_not_merged() -> None:
    *reads, _, _ = openai_chat("", [Said(0, PIECES), Said(1, PIECES)])
    summary = summarise(decoded("openai_chat", *reads))
    assert summary.truncated
    assert [call.aborted for call in summary.tool_calls] == [True, True]
