"""A reply as Ollama's own chat protocol streams it: a line of JSON each, the last one ``done``.

A call is whole in its line, and has an id only where the script gives it one, as with older servers. An error is a
sentence without a code, so that only its words indicate the kind of failure.
"""

from __future__ import annotations

from rxworker.events import Error
from rxworker.messages import Json, JsonObject
from rxworker.testing.reply import Reply
from rxworker.testing.wire.format import Wire, given_arguments, json_line, sent, sent_errors, stop_word

CREATED = "2026-01-01T00:00:00.000000Z"
NANOSECONDS = 1_000_000


def ollama_frames(reply: Reply, *, number: int = 1, model: str = "scripted") -> list[bytes]:
    r"""The lines of a reply.

    Args:
        reply: The reply.
        number: The number of the request; nothing of this protocol is made from it.
        model: The model's name.

    >>> from rxworker.testing.reply import say
    >>> ollama_frames(say("Hi"))[0].partition(b'"message":')[2]
    b'{"role":"assistant","content":"Hi"},"done":false}\n'
    """
    del number
    head: JsonObject = {"model": model, "created_at": CREATED}
    lines = [([json_line({**head, "message": message, "done": False})], ()) for message in _messages(reply)]
    end = json_line({**head, "message": _message(), **_done(reply)})
    return sent(reply, [], lines, [end], [json_line(error_body(error)) for error in sent_errors(reply)])


def error_body(error: Error) -> JsonObject:
    """The body of an answer that is an error."""
    return {"error": error.message}


def _messages(reply: Reply) -> list[JsonObject]:
    """The parts of the message, one for each line."""
    thoughts = [_message(thinking=piece) for piece in reply.pieces(reply.thinking)]
    texts = [_message(piece) for piece in reply.pieces(reply.text)]
    calls: list[JsonObject] = []
    for place, call in enumerate(reply.tool_calls):
        function: JsonObject = {"index": place, "name": call.name, "arguments": given_arguments(call.input)}
        named: JsonObject = {"id": call.id} if call.id else {}
        calls.append(_message(tool_calls=[{**named, "function": function}]))
    return [*thoughts, *texts, *calls]


def _message(content: str = "", **fields: Json) -> JsonObject:
    return {"role": "assistant", "content": content, **fields}


def _done(reply: Reply) -> JsonObject:
    """The end of the last line: the stop reason and the usage.

    The protocol counts no cache, and durations are left out.
    """
    ended: JsonObject = {"done": True, "done_reason": stop_word(reply, "ollama")}
    if reply.usage is None:
        return ended
    return {
        **ended,
        "total_duration": 2 * NANOSECONDS,
        "load_duration": NANOSECONDS,
        "prompt_eval_count": reply.usage.input_tokens or 0,
        "prompt_eval_duration": NANOSECONDS,
        "eval_count": reply.usage.output_tokens or 0,
        "eval_duration": NANOSECONDS,
    }


WIRE = Wire("ollama", ollama_frames, error_body, content_type="application/x-ndjson")
