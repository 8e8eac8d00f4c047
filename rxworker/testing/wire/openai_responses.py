"""A reply as OpenAI's Responses API streams it: named and numbered frames, an item for each block, no ``[DONE]``.

Thinking is sent as a summary, which is all that OpenAI shows; its signature is the item's ``encrypted_content``, sent
when the item is done.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from rxworker.events import Error
from rxworker.messages import Json, JsonObject, StopKind, Text, Thinking, ToolCall
from rxworker.messages.usage import Usage
from rxworker.testing.reply import Reply, ReplyBlock, input_text
from rxworker.testing.wire.format import Wire, code_of, data_frame, sent, sent_errors, stop_word

Event: TypeAlias = tuple[str, JsonObject]


def event(kind: str, where: JsonObject | None = None, **fields: Json) -> Event:
    """An event's type and its fields.

    >>> event("error", message="oh")
    ('error', {'message': 'oh'})
    """
    return kind, {**(where or {}), **fields}


class Item(Struct, frozen=True):
    """One item.

    Attributes:
        begins: The events with which it begins and grows.
        ends: The events of the end.
        done: Its final form.
    """

    begins: list[Event]
    ends: list[Event]
    done: JsonObject


def _item_of(reply: Reply, name: str, place: int, block: ReplyBlock) -> Item:
    """The item that is a block."""
    if isinstance(block, Thinking):
        return _reasoning(reply, f"rs_{name}", place, block)
    if isinstance(block, ToolCall):
        return _call(reply, f"fc_{name}", place, block)
    return _message(reply, f"msg_{name}", place, block)


def _reasoning(reply: Reply, item_id: str, place: int, block: Thinking) -> Item:
    where: JsonObject = {"item_id": item_id, "output_index": place, "summary_index": 0}
    part: JsonObject = {"type": "summary_text", "text": block.text}
    item: JsonObject = {"id": item_id, "type": "reasoning", "summary": []}
    done: JsonObject = {**item, "summary": [part]}
    if block.signature:
        done["encrypted_content"] = block.signature
    text = "response.reasoning_summary_text"
    grows = [
        event("response.reasoning_summary_part.added", where, part={**part, "text": ""}),
        *_deltas(reply, text, where, block.text),
    ]
    ends = [
        event(f"{text}.done", where, text=block.text),
        event("response.reasoning_summary_part.done", where, part=part),
    ]
    return _item(place, item, grows, ends, done)


def _message(reply: Reply, item_id: str, place: int, block: Text) -> Item:
    refused = reply.stop_reason.kind is StopKind.REFUSAL
    where: JsonObject = {"item_id": item_id, "output_index": place, "content_index": 0}
    field, kind = ("refusal", "refusal") if refused else ("text", "output_text")
    rest: JsonObject = {} if refused else {"annotations": []}
    part: JsonObject = {"type": kind, field: block.text, **rest}
    item: JsonObject = {"id": item_id, "type": "message", "status": "in_progress", "role": "assistant", "content": []}
    done: JsonObject = {**item, "status": "completed", "content": [part]}
    more: JsonObject = {} if refused else {"logprobs": []}
    grows = [
        event("response.content_part.added", where, part={**part, field: ""}),
        *_deltas(reply, f"response.{kind}", where, block.text, more),
    ]
    ends = [
        event(f"response.{kind}.done", where, **{field: block.text}, **more),
        event("response.content_part.done", where, part=part),
    ]
    return _item(place, item, grows, ends, done)


def _call(reply: Reply, item_id: str, place: int, block: ToolCall) -> Item:
    where: JsonObject = {"item_id": item_id, "output_index": place}
    arguments = input_text(block)
    item: JsonObject = {
        "id": item_id,
        "type": "function_call",
        "status": "in_progress",
        "arguments": "",
        "call_id": block.id,
        "name": block.name,
    }
    done: JsonObject = {**item, "status": "completed", "arguments": arguments}
    text = "response.function_call_arguments"
    ends = [event(f"{text}.done", where, arguments=arguments)]
    return _item(place, item, _deltas(reply, text, where, arguments), ends, done)


def _item(place: int, item: JsonObject, grows: list[Event], ends: list[Event], done: JsonObject) -> Item:
    """An item, with the events that announce it and its final form."""
    added = event("response.output_item.added", output_index=place, item=item)
    finished = event("response.output_item.done", output_index=place, item=done)
    return Item([added, *grows], [*ends, finished], done)


def _deltas(reply: Reply, kind: str, where: JsonObject, text: str, more: JsonObject | None = None) -> list[Event]:
    return [event(f"{kind}.delta", where, delta=piece, **(more or {})) for piece in reply.pieces(text)]


COMPLETED = "completed"
"""The word for a response that ended well; any other is the reason for which one is incomplete."""
CREATED = 1_700_000_000


def openai_responses_frames(reply: Reply, *, number: int = 1, model: str = "gpt-scripted") -> list[bytes]:
    r"""The frames of a reply, one server-sent event each.

    Args:
        reply: The reply.
        number: The number of the request, from 1; the ids are made from it.
        model: The model's name.

    >>> from rxworker.testing.reply import say
    >>> openai_responses_frames(say("Hi"))[4].partition(b",")[0]
    b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta"'
    """
    return [
        data_frame({"type": kind, "sequence_number": place, **fields}, kind)
        for place, (kind, fields) in enumerate(_events(reply, number, model))
    ]


def error_body(error: Error) -> JsonObject:
    """The body of an answer that is an error."""
    word = code_of(error, "openai_responses") or error.kind
    return {"error": {"type": word, "code": word, "message": error.message, "param": None}}


def _events(reply: Reply, number: int, model: str) -> list[Event]:
    """The type and the fields of each event."""
    blocks = reply.blocks(f"call_{number}")
    if reply.error is not None and not blocks:
        return [event("error", error_body(error)) for error in sent_errors(reply)]
    head = _response(number, model)
    events = [event("response.created", response=head), event("response.in_progress", response=head)]
    items = [_item_of(reply, f"{number}_{at}", at, block) for at, block in enumerate(blocks)]
    failures: list[Event] = []
    for error in sent_errors(reply):  # reported twice, as by the real service
        code = code_of(error, "openai_responses") or error.kind
        failed: JsonObject = {**head, "status": "failed", "error": {"code": code, "message": error.message}}
        failures += [event("error", error_body(error)), event("response.failed", response=failed)]
    return sent(reply, events, [(item.begins, item.ends) for item in items], [_last(reply, head, items)], failures)


def _response(number: int, model: str) -> JsonObject:
    """The response as a whole, as it is at the beginning."""
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": CREATED,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": model,
        "output": [],
        "usage": None,
    }


def _last(reply: Reply, head: JsonObject, items: list[Item]) -> Event:
    """The event of the end of the response, which contains all of it again."""
    word = stop_word(reply, "openai_responses")
    status = COMPLETED if word == COMPLETED else "incomplete"
    whole: JsonObject = {
        **head,
        "status": status,
        "incomplete_details": None if status == COMPLETED else {"reason": word},
        "output": [item.done for item in items],
        "usage": None if reply.usage is None else _usage(reply.usage),
    }
    return event(f"response.{status}", response=whole)


def _usage(usage: Usage) -> JsonObject:
    """The usage as this provider counts it."""
    return {
        "input_tokens": usage.input_tokens or 0,
        "input_tokens_details": {"cached_tokens": usage.cache_read_tokens or 0},
        "output_tokens": usage.output_tokens or 0,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": usage.total_tokens,
    }


WIRE = Wire("openai_responses", openai_responses_frames, error_body)
