"""A reply as OpenAI's Chat Completions API streams it: unnamed frames, one choice, ``[DONE]`` at the end.

Thinking is sent as ``reasoning_content``, which is how the compatible servers do it; OpenAI itself keeps it back.
"""

from __future__ import annotations

from rxworker.events import Error
from rxworker.messages import JsonObject, StopKind, Text, Thinking
from rxworker.messages.lenient_json import as_object
from rxworker.messages.usage import Usage
from rxworker.testing.reply import Reply, ReplyBlock, input_text
from rxworker.testing.wire.format import Wire, data_frame, model_of, sent, sent_errors, stop_word

ERROR_WORDS = {
    "authentication": ("invalid_request_error", "invalid_api_key"),
    "not_found": ("invalid_request_error", "model_not_found"),
    "invalid_request": ("invalid_request_error", None),
    "context_length": ("invalid_request_error", "context_length_exceeded"),
    "quota": ("insufficient_quota", "insufficient_quota"),
    "rate_limit": ("requests", "rate_limit_exceeded"),
    "server": ("server_error", "server_error"),
}
CREATED = 1_700_000_000
DONE = b"data: [DONE]\n\n"


def openai_chat_frames(
    reply: Reply, *, number: int = 1, model: str = "gpt-scripted", include_usage: bool = True
) -> list[bytes]:
    r"""The frames of a reply, one chunk each.

    Args:
        reply: The reply.
        number: The number of the request, from 1; the ids are made from it.
        model: The model's name.
        include_usage: Whether the request requires a last chunk with the usage.

    >>> from rxworker.testing.reply import say
    >>> openai_chat_frames(say("Hi"))[-1]
    b'data: [DONE]\n\n'
    """
    chunk = _Chunk(number, model, include_usage)
    head = [chunk.choice({"role": "assistant", "content": None if reply.tool_calls else ""})]
    blocks: list[tuple[list[bytes], tuple[()]]] = []
    calls = 0
    for block in reply.blocks(f"call_{number}"):
        blocks.append(([chunk.choice(delta) for delta in _deltas(reply, block, calls)], ()))
        calls += not isinstance(block, (Text, Thinking))
    usage = [chunk.usage(reply.usage)] if include_usage and reply.usage is not None else []
    end = [chunk.choice({}, stop_word(reply, "openai_chat")), *usage, DONE]
    return sent(reply, head, blocks, end, [data_frame(error_body(error)) for error in sent_errors(reply)])


def arguments_of(body: JsonObject) -> JsonObject:
    """The model that the body of a request names, and whether it requires the usage, as arguments."""
    return {**model_of(body), "include_usage": as_object(body.get("stream_options")).get("include_usage") is True}


def error_body(error: Error) -> JsonObject:
    """The body of an answer that is an error."""
    kind, code = ERROR_WORDS.get(error.kind, ("server_error", error.kind))
    if error.code and error.code != error.kind:
        code = error.code
    return {"error": {"message": error.message, "type": kind, "param": None, "code": code}}


class _Chunk:
    """The fields that all chunks of one answer share."""

    def __init__(self, number: int, model: str, include_usage: bool) -> None:
        self._head: JsonObject = {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": model,
        }
        self._tail: JsonObject = {"usage": None} if include_usage else {}

    def choice(self, delta: JsonObject, finish: str | None = None) -> bytes:
        choice: JsonObject = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return data_frame({**self._head, "choices": [choice], **self._tail})

    def usage(self, usage: Usage) -> bytes:
        return data_frame({**self._head, "choices": [], "usage": _usage(usage)})


def _deltas(reply: Reply, block: ReplyBlock, calls: int) -> list[JsonObject]:
    """The pieces of one block; ``calls`` is how many tool calls came before it."""
    if isinstance(block, Thinking):
        return [{"reasoning_content": piece} for piece in reply.pieces(block.text)]
    if isinstance(block, Text):
        refused = reply.stop_reason.kind is StopKind.REFUSAL
        return [{"refusal" if refused else "content": piece} for piece in reply.pieces(block.text)]
    function: JsonObject = {"name": block.name, "arguments": ""}
    first: JsonObject = {"index": calls, "id": block.id, "type": "function", "function": function}
    rest: list[JsonObject] = [
        {"index": calls, "function": {"arguments": piece}} for piece in reply.pieces(input_text(block))
    ]
    return [{"tool_calls": [call]} for call in (first, *rest)]


def _usage(usage: Usage) -> JsonObject:
    """The usage as this provider counts it."""
    counted: JsonObject = {
        "prompt_tokens": usage.input_tokens or 0,
        "completion_tokens": usage.output_tokens or 0,
        "total_tokens": usage.total_tokens,
    }
    if usage.cache_read_tokens is not None:
        counted["prompt_tokens_details"] = {"cached_tokens": usage.cache_read_tokens}
    if usage.reasoning_tokens is not None:
        counted["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return counted


WIRE = Wire("openai_chat", openai_chat_frames, error_body, arguments=arguments_of)
