"""What servers send beside the protocol: events without a blank line between them, numbers as texts, free text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from rxworker.events import TextDelta, Usage
from rxworker.messages import Conversation, Message, ToolCall
from rxworker.providers import OpenAIChat, Options
from rxworker.views import summarise
from tests.decoded import answer_of, decoded
from tests.providers.test_repeated_calls import SERVERS, frames


def texts(count: int) -> list[bytes]:
    return [frames({"choices": [{"index": 0, "delta": {"content": str(n)}}]}) for n in range(count)]


STREAMED = ["anthropic", "gemini", "gemini_interactions", "openai_chat", "openai_responses"]


@pytest.mark.parametrize("which", ["all", "some"])
@pytest.mark.parametrize("protocol", STREAMED)
def test_events_without_a_blank_line_between_them_are_taken(protocol: str, which: str) -> None:
    reads = [*SERVERS[protocol]("Hello", [])]
    first, last = (b"", b"") if which == "all" else (reads[0], b"\n" + reads[-1])
    glued = first + b"".join(reads if which == "all" else reads[1:-1]).replace(b"\n\n", b"\n") + last
    summary = summarise(decoded(protocol, glued))
    assert summary.text == "Hello"
    assert summary.error is None
    assert summary == summarise(decoded(protocol, b"".join(reads)))


def test_an_object_over_several_lines_is_one_event() -> None:
    chunk = json.dumps({"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}, indent=1)
    data = b"".join(b"data: " + line.encode() + b"\n" for line in chunk.splitlines()) + b"\ndata: [DONE]\n\n"
    assert summarise(decoded("openai_chat", data)).text == "Hi"


@pytest.mark.parametrize("done", [b"[DONE] ", b" [DONE]\t", b"[DONE]"])
def test_the_last_frame_may_have_blanks(done: bytes) -> None:
    *events, _ = decoded("openai_chat", b"".join(texts(2)) + b"data: " + done + b"\n\n" + texts(3)[2])
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["0", "1"]


@pytest.mark.parametrize(("sent", "read"), [("12", 12), (12.0, 12), (12.5, 13), ("12.5", 13), (12, 12)])
def test_numbers_of_tokens_may_be_texts_and_fractions(sent: object, read: int) -> None:
    usage = {"prompt_tokens": sent, "completion_tokens": sent}
    chunk = frames({"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}], "usage": usage})
    found = [event for event in decoded("openai_chat", chunk + b"data: [DONE]\n\n") if isinstance(event, Usage)]
    assert [(usage.input_tokens, usage.output_tokens) for usage in found] == [(read, read)]


@pytest.mark.parametrize("sent", [True, "many", None, [1], float("inf"), "nan", {}])
def test_a_value_other_than_a_number_of_tokens_is_unknown(sent: object) -> None:
    usage = {"prompt_tokens": sent, "completion_tokens": 1}
    chunk = frames({"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}], "usage": usage})
    found = [event for event in decoded("openai_chat", chunk + b"data: [DONE]\n\n") if isinstance(event, Usage)]
    assert [usage.input_tokens for usage in found if usage.output_tokens == 1] in ([None], [])


def test_a_whole_response_whose_text_is_an_object_is_read() -> None:
    part: dict[str, Any] = {"type": "output_text", "text": "Hello", "annotations": []}
    item: dict[str, Any] = {"type": "message", "id": "m", "role": "assistant", "content": [part]}
    whole = {"id": "r", "object": "response", "status": "completed", "text": {"format": {"type": "text"}}}
    events = decoded("openai_responses", json.dumps({**whole, "output": [item], "usage": {"input_tokens": 2}}).encode())
    summary = summarise(events)
    assert (summary.text, summary.error) == ("Hello", None)
    assert summary.usage is not None
    assert summary.usage.input_tokens == 2


def custom(**members: Any) -> bytes:
    call: dict[str, Any] = {"index": 0, **members}
    return frames({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})


def whole_call(call: dict[str, Any]) -> bytes:
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}).encode()


LAST = frames({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}) + b"data: [DONE]\n\n"
CUSTOM: dict[str, Callable[[str], bytes]] = {
    "pieces": lambda text: (
        custom(id="a", type="custom", custom={"name": "run_sql", "input": text[:7]})
        + custom(custom={"input": text[7:]})
        + LAST
    ),
    "whole": lambda text: whole_call({"id": "a", "type": "custom", "custom": {"name": "run_sql", "input": text}}),
}


@pytest.mark.parametrize("text", ["select 1", '{"a": 1} and more', '{"a": 1}'])
@pytest.mark.parametrize("form", CUSTOM)
def test_a_call_with_free_text_is_taken_and_sent_back(form: str, text: str) -> None:
    message = answer_of(decoded("openai_chat", CUSTOM[form](text)), "openai_chat")
    (call,) = message.content
    assert isinstance(call, ToolCall)
    assert (call.id, call.name, call.input) == ("a", "run_sql", text)
    request = OpenAIChat("m", api_key="k").request(Conversation((Message.user("go"), message)), (), Options())
    assert json.loads(request.body)["messages"][1]["tool_calls"] == [
        {"id": "a", "type": "custom", "custom": {"name": "run_sql", "input": text}}
    ]
