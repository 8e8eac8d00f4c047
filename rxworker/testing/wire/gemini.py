"""A reply as Gemini's generateContent streams it: unnamed frames with line ends of two bytes, and no last frame.

Each frame is a response with new parts in it. A call is whole in its part, and has an id only where the script gives it
one, since Gemini usually sends none. The seal stands on the first call, or else on an empty text at the end. An error
in the middle is bare JSON over several lines, without ``data:`` in front.
"""

from __future__ import annotations

import msgspec

from rxworker.events import Error
from rxworker.messages import JsonObject
from rxworker.messages.usage import Usage
from rxworker.testing.reply import Reply
from rxworker.testing.wire.format import Wire, given_arguments, sent, sent_errors, stop_word

ERROR_WORDS = {
    "authentication": (401, "UNAUTHENTICATED"),
    "permission": (403, "PERMISSION_DENIED"),
    "not_found": (404, "NOT_FOUND"),
    "invalid_request": (400, "INVALID_ARGUMENT"),
    "context_length": (400, "INVALID_ARGUMENT"),
    "quota": (429, "RESOURCE_EXHAUSTED"),
    "rate_limit": (429, "RESOURCE_EXHAUSTED"),
    "overloaded": (503, "UNAVAILABLE"),
    "timeout": (504, "DEADLINE_EXCEEDED"),
}


def gemini_frames(reply: Reply, *, number: int = 1, model: str = "gemini-scripted") -> list[bytes]:
    r"""The frames of a reply, one chunk each.

    Args:
        reply: The reply.
        number: The number of the request, from 1; the response's id is made from it.
        model: The model's name.

    >>> from rxworker.testing.reply import say
    >>> gemini_frames(say("Hi", usage=None))[0].partition(b',"modelVersion"')[0]
    b'data: {"candidates":[{"content":{"parts":[{"text":"Hi"}],"role":"model"},"index":0}]'
    """
    errors = [
        msgspec.json.format(msgspec.json.encode(error_body(error)), indent=2) + b"\n" for error in sent_errors(reply)
    ]
    tail: JsonObject = {"modelVersion": model, "responseId": f"response-{number}"}
    # Running totals: what is written is counted at the end.
    so_far = _usage(reply.usage, ended=False)
    parts = [([_frame({"candidates": [_candidate(part)], **so_far, **tail})], ()) for part in _parts(reply)]
    last: JsonObject = {"text": ""}
    if reply.signature and not reply.tool_calls:
        last["thoughtSignature"] = reply.signature
    end = _frame({"candidates": [{**_candidate(last), **_finish(reply)}], **_usage(reply.usage, ended=True), **tail})
    return sent(reply, [], parts, [end], errors)


def error_body(error: Error) -> JsonObject:
    """The body of an answer that is an error."""
    code, status = ERROR_WORDS.get(error.kind, (500, "INTERNAL"))
    if error.code and error.code != error.kind:
        status = error.code
    return {"error": {"code": code, "message": error.message, "status": status}}


def _parts(reply: Reply) -> list[JsonObject]:
    """Thoughts, text and calls, in pieces as they are sent."""
    thoughts: list[JsonObject] = [{"text": piece, "thought": True} for piece in reply.pieces(reply.thinking)]
    texts: list[JsonObject] = [{"text": piece} for piece in reply.pieces(reply.text)]
    calls: list[JsonObject] = []
    for call in reply.tool_calls:
        function: JsonObject = {"name": call.name, "args": given_arguments(call.input)}
        named: JsonObject = {"id": call.id} if call.id else {}
        calls.append({"functionCall": {**named, **function}})
    if calls and reply.signature:
        calls[0]["thoughtSignature"] = reply.signature
    return [*thoughts, *texts, *calls]


def _candidate(part: JsonObject) -> JsonObject:
    return {"content": {"parts": [part], "role": "model"}, "index": 0}


def _finish(reply: Reply) -> JsonObject:
    detail = reply.stop_reason.detail
    finish: JsonObject = {"finishReason": stop_word(reply, "gemini")}
    return {**finish, "finishMessage": detail} if detail else finish


def _usage(usage: Usage | None, *, ended: bool) -> JsonObject:
    """The usage as this provider counts it: its output is without thoughts."""
    if usage is None:
        return {}
    thoughts = usage.reasoning_tokens or 0
    counted: JsonObject = {"promptTokenCount": usage.input_tokens or 0}
    if usage.cache_read_tokens:
        counted["cachedContentTokenCount"] = usage.cache_read_tokens
    if ended:
        counted["candidatesTokenCount"] = max(0, (usage.output_tokens or 0) - thoughts)
    if ended and thoughts:
        counted["thoughtsTokenCount"] = thoughts
    counted["totalTokenCount"] = usage.total_tokens if ended else usage.input_tokens or 0
    return {"usageMetadata": counted}


def _frame(payload: JsonObject) -> bytes:
    return b"data: " + msgspec.json.encode(payload) + b"\r\n\r\n"


WIRE = Wire("gemini", gemini_frames, error_body)
