"""A reply as Gemini's Interactions API streams it: named frames, a step for each block, and ``[DONE]`` at the end.

Thinking is sent as a summary; its signature is the last delta of the thought. The events of an interaction in the
background have names, which a client gives to have the events after them.
"""

from __future__ import annotations

from rxworker.events import Error
from rxworker.messages import JsonObject, Text, Thinking
from rxworker.messages.usage import Usage
from rxworker.testing.reply import Reply, ReplyBlock, input_text
from rxworker.testing.wire.format import Wire, code_of, data_frame, model_of, sent, sent_errors, stop_word

DONE = b"event: done\ndata: [DONE]\n\n"


def gemini_interactions_frames(
    reply: Reply, *, number: int = 1, model: str = "gemini-scripted", is_background: bool = False
) -> list[bytes]:
    r"""The frames of a reply, one server-sent event each.

    Args:
        reply: The reply.
        number: The number of the request, from 1; the interaction's id is made from it.
        model: The model's name.
        is_background: Whether the events have names.

    >>> from rxworker.testing.reply import say
    >>> gemini_interactions_frames(say("Hi"))[3]
    b'event: step.delta\ndata: {"event_type":"step.delta","index":0,"delta":{"type":"text","text":"Hi"}}\n\n'
    """
    events = _events(reply, number, model)
    frames: list[bytes] = []
    for place, event in enumerate(events):
        named = {**event, "event_id": f"{number}.{place}"} if is_background else event
        frames.append(data_frame(named, str(event["event_type"])))
    return frames if reply.breaks else [*frames, DONE]


def error_body(error: Error) -> JsonObject:
    """The body of an answer that is an error."""
    word = code_of(error, "gemini_interactions") or error.kind
    return {"error": {"code": word, "message": error.message}}


def _events(reply: Reply, number: int, model: str) -> list[JsonObject]:
    head: JsonObject = {"id": f"v1_{number}", "status": "in_progress", "object": "interaction", "model": model}
    update: JsonObject = {"interaction_id": head["id"], "status": "in_progress"}
    events: list[JsonObject] = [
        {"event_type": "interaction.created", "interaction": head},
        {"event_type": "interaction.status_update", **update},
    ]
    steps: list[tuple[list[JsonObject], list[JsonObject]]] = []
    for index, block in enumerate(reply.blocks(f"call_{number}")):
        step, deltas = _step(reply, block)
        start: JsonObject = {"event_type": "step.start", "index": index, "step": step}
        more: list[JsonObject] = [{"event_type": "step.delta", "index": index, "delta": delta} for delta in deltas]
        steps.append(([start, *more], [{"event_type": "step.stop", "index": index}]))
    last: JsonObject = {**head, "status": stop_word(reply, "gemini_interactions")}
    if reply.usage is not None:
        last["usage"] = _usage(reply.usage)
    end: JsonObject = {"event_type": "interaction.completed", "interaction": last}
    failed: list[JsonObject] = [{"event_type": "error", **error_body(error)} for error in sent_errors(reply)]
    return sent(reply, events, steps, [end], failed)


def _step(reply: Reply, block: ReplyBlock) -> tuple[JsonObject, list[JsonObject]]:
    """The step that is a block, as it starts, and its deltas."""
    if isinstance(block, Text):
        return {"type": "model_output"}, _texts(reply, block.text)
    if isinstance(block, Thinking):
        texts = _texts(reply, block.text)
        summary: list[JsonObject] = [{"type": "thought_summary", "content": text} for text in texts]
        if block.signature:
            summary.append({"type": "thought_signature", "signature": block.signature})
        return {"type": "thought"}, summary
    call: JsonObject = {"type": "function_call", "id": block.id, "name": block.name}
    pieces = reply.pieces(input_text(block))
    return {**call, "arguments": {}}, [{"type": "arguments_delta", "arguments": piece} for piece in pieces]


def _texts(reply: Reply, text: str) -> list[JsonObject]:
    return [{"type": "text", "text": piece} for piece in reply.pieces(text)]


def _usage(usage: Usage) -> JsonObject:
    """The usage as this provider counts it: its output is without thoughts."""
    thoughts = usage.reasoning_tokens or 0
    return {
        "total_tokens": usage.total_tokens,
        "total_input_tokens": usage.input_tokens or 0,
        "total_cached_tokens": usage.cache_read_tokens or 0,
        "total_output_tokens": max(0, (usage.output_tokens or 0) - thoughts),
        "total_tool_use_tokens": 0,
        "total_thought_tokens": thoughts,
    }


def _arguments(body: JsonObject) -> JsonObject:
    return {**model_of(body), "is_background": body.get("background") is True}


WIRE = Wire("gemini_interactions", gemini_interactions_frames, error_body, arguments=_arguments)
