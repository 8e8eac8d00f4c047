"""A reply as Anthropic's Messages API streams it: named frames, blocks one after another, a ping after the first."""

from __future__ import annotations

from rxworker.events import Error
from rxworker.messages import Json, JsonObject, StopKind, Text, Thinking
from rxworker.messages.usage import Usage
from rxworker.testing.reply import Reply, ReplyBlock, input_text
from rxworker.testing.wire.format import Wire, code_of, data_frame, sent, sent_errors, stop_word

PING = data_frame({"type": "ping"}, "ping")


def anthropic_frames(reply: Reply, *, number: int = 1, model: str = "claude-scripted") -> list[bytes]:
    r"""The frames of a reply, one server-sent event each.

    Args:
        reply: The reply.
        number: The number of the request, from 1; the ids are made from it.
        model: The model's name.

    >>> from rxworker.testing.reply import say
    >>> anthropic_frames(say("Hi"))[-1]
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    """
    head = [_message_start(reply, number, model)]
    blocks = [_block(reply, index, block) for index, block in enumerate(reply.blocks(f"toolu_{number}"))]
    (blocks[0][0] if blocks else head).insert(1, PING)
    errors = [data_frame(error_body(error), "error") for error in sent_errors(reply)]
    return sent(reply, head, blocks, [_message_delta(reply), _frame("message_stop", {})], errors)


def error_body(error: Error) -> JsonObject:
    """The body of an answer that is an error."""
    kind = code_of(error, "anthropic") or "api_error"
    body: JsonObject = {"type": "error", "error": {"type": kind, "message": error.message}}
    return {**body, "request_id": error.request_id} if error.request_id else body


def _frame(kind: str, fields: JsonObject) -> bytes:
    return data_frame({"type": kind, **fields}, kind)


def _message_start(reply: Reply, number: int, model: str) -> bytes:
    message: JsonObject = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**_usage(reply.usage or Usage()), "output_tokens": 1},
    }
    return _frame("message_start", {"message": message})


def _block(reply: Reply, index: int, block: ReplyBlock) -> tuple[list[bytes], list[bytes]]:
    """The frames of one block."""
    start: JsonObject
    if isinstance(block, Thinking):
        start = {"type": "thinking", "thinking": "", "signature": ""}
        deltas = [_delta(index, "thinking_delta", thinking=p) for p in reply.pieces(block.text)]
        if block.signature:
            deltas.append(_delta(index, "signature_delta", signature=block.signature))
    elif isinstance(block, Text):
        start = {"type": "text", "text": ""}
        deltas = [_delta(index, "text_delta", text=piece) for piece in reply.pieces(block.text)]
    else:
        start = {"type": "tool_use", "id": block.id, "name": block.name, "input": {}}
        # The first piece is always empty; arguments without fields have no other.
        pieces = ["", *(reply.pieces(input_text(block)) if block.input else [])]
        deltas = [_delta(index, "input_json_delta", partial_json=piece) for piece in pieces]
    first = _frame("content_block_start", {"index": index, "content_block": start})
    return [first, *deltas], [_frame("content_block_stop", {"index": index})]


def _delta(index: int, kind: str, **fields: Json) -> bytes:
    return _frame("content_block_delta", {"index": index, "delta": {"type": kind, **fields}})


def _message_delta(reply: Reply) -> bytes:
    """The frame with the stop reason and the final count."""
    reason = reply.stop_reason
    delta: JsonObject = {"stop_reason": stop_word(reply, "anthropic"), "stop_sequence": None}
    if reason.kind is StopKind.STOP_SEQUENCE:
        delta["stop_sequence"] = reason.detail
    if reason.kind is StopKind.REFUSAL and reason.detail:
        delta["stop_details"] = {"category": None, "explanation": reason.detail}
    return _frame("message_delta", {"delta": delta, "usage": _usage(reply.usage or Usage())})


def _usage(usage: Usage) -> JsonObject:
    """The usage as this provider counts it: its input leaves out the tokens of the cache."""
    read, created = usage.cache_read_tokens or 0, usage.cache_creation_tokens or 0
    return {
        "input_tokens": max(0, (usage.input_tokens or 0) - read - created),
        "cache_creation_input_tokens": created,
        "cache_read_input_tokens": read,
        "output_tokens": usage.output_tokens or 0,
    }


WIRE = Wire("anthropic", anthropic_frames, error_body)
