"""The members of a response's head that no decoder knows yet: they are emitted as `Opaque`, in every protocol."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rxworker.events import Opaque, ResponseStatus, Status
from rxworker.testing.wire.bedrock import event_message
from tests.decoded import cut, decoded

NEW: dict[str, Any] = {"new_diagnostics": {"cache": "cold", "at": 12}}
EMPTY: dict[str, Any] = {"later": None, "input_transformations": [], "more": {}, "flag": False}


def sse(*frames: Any) -> bytes:
    return b"".join(b"data: " + msgspec.json.encode(frame) + b"\n\n" for frame in frames)


def anthropic(head: Any, end: Any) -> bytes:
    message: dict[str, Any] = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": []}
    return sse(
        {"type": "message_start", "message": message | {"usage": {"input_tokens": 1}} | head},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}} | end,
        {"type": "message_stop"},
    )


def chat(head: Any, end: Any) -> bytes:
    chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    text = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}]}
    stop: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    usage: dict[str, Any] = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
    return sse(chunk | text | head, chunk | stop, chunk | usage | end) + b"data: [DONE]\n\n"


def responses(head: Any, end: Any) -> bytes:
    item = {"id": "i", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}
    response: dict[str, Any] = {"id": "r", "object": "response", "model": "m", "tools": [], "temperature": 1.0}
    created = response | {"status": "in_progress", "output": []} | head
    completed = response | {"status": "completed", "output": [item]} | head | end
    return sse(
        {"type": "response.created", "response": created},
        {"type": "response.in_progress", "response": created},
        {"type": "response.completed", "response": completed},
    )


def gemini(head: Any, end: Any) -> bytes:
    def chunk(text: str, **more: Any) -> Any:
        candidate = {"content": {"role": "model", "parts": [{"text": text}]}} | more
        return {"candidates": [candidate], "modelVersion": "m", "responseId": "r"}

    return sse(chunk("H") | head, chunk("i") | head, chunk("!", finishReason="STOP") | end)


def interactions(head: Any, end: Any) -> bytes:
    whole: Any = {"id": "i", "object": "interaction", "model": "m", "service_tier": "standard"}
    text: Any = {"type": "text", "text": "Hi"}
    return sse(
        {"event_type": "interaction.created", "interaction": whole | head},
        {"event_type": "step.delta", "index": 0, "delta": text},
        {"event_type": "interaction.completed", "interaction": whole | {"status": "completed"} | head | end},
    )


def ollama(head: Any, end: Any) -> bytes:
    line: dict[str, Any] = {"model": "m", "created_at": "now", "message": {"content": "Hi"}}
    return b"\n".join(
        msgspec.json.encode(one) for one in (line | head, line | {"done": True, "done_reason": "stop"} | end)
    )


def bedrock(head: Any, end: Any) -> bytes:
    text: Any = {"contentBlockIndex": 0, "delta": {"text": "Hi"}}
    frames: list[tuple[str, Any]] = [
        ("messageStart", {"role": "assistant", "p": "abc"} | head),
        ("contentBlockDelta", text),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("messageStop", {"stopReason": "end_turn"}),
        ("metadata", {"usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}} | end),
    ]
    return b"".join(event_message(kind, payload) for kind, payload in frames)


STREAMS = {
    "anthropic": anthropic,
    "openai_chat": chat,
    "openai_responses": responses,
    "gemini": gemini,
    "gemini_interactions": interactions,
    "ollama": ollama,
    "bedrock": bedrock,
}


def opaque(name: str, data: bytes, size: int = 10_000) -> list[Any]:
    events = decoded(name, *cut(data, size))
    assert isinstance(events[-1], Status)
    assert events[-1].status is ResponseStatus.COMPLETED
    return [event.raw for event in events if isinstance(event, Opaque)]


each = pytest.mark.parametrize("name", sorted(STREAMS))


@each
@pytest.mark.parametrize("size", [1, 10_000])
def test_a_new_member_of_a_head_is_emitted_once_and_one_near_the_end_too(name: str, size: int) -> None:
    changed: Any = {"new_diagnostics": {"cache": "warm"}}
    assert opaque(name, STREAMS[name](NEW, {}), size) == [NEW]
    assert opaque(name, STREAMS[name](NEW, changed), size) == [NEW, changed]


@each
def test_what_is_empty_or_known_is_not_emitted(name: str) -> None:
    assert opaque(name, STREAMS[name](EMPTY if name != "ollama" else {}, {})) == []


def test_the_official_members_of_this_autumn_are_kept() -> None:
    """`input_transformations` and `diagnostics` of Anthropic, `prompt_cache_diagnostics` of OpenAI.

    The types of their packages.
    """
    dropped = [{"type": "thinking_dropped", "message_index": 1}]
    missed = {"cache_miss_reason": {"type": "tools_changed", "cache_missed_input_tokens": 9}}
    head: Any = {"diagnostics": missed, "input_transformations": dropped}
    assert opaque("anthropic", anthropic(head, {})) == [head]
    applied: Any = {"context_management": {"applied_edits": [{"type": "clear"}]}}
    assert opaque("anthropic", anthropic({}, applied)) == [applied]
    later: Any = {"prompt_cache_diagnostics": {"reason": "expired"}}
    assert opaque("openai_responses", responses({}, later)) == [later]
