"""The output items of a Responses stream: how each begins, grows and ends."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from rxworker.messages import Json, JsonObject, Text, Thinking, ToolCall
from rxworker.testing.reply import Reply, ReplyBlock, input_text

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
        ends: The events that say that it is over.
        done: What it is in the end.
    """

    begins: list[Event]
    ends: list[Event]
    done: JsonObject


def item_of(reply: Reply, name: str, place: int, block: ReplyBlock, refused: bool) -> Item:
    """The item that is a block.

    Args:
        reply: Whose block it is; it knows how long a delta is.
        name: What its id is made from.
        place: Its ``output_index``.
        block: What it says.
        refused: Whether a text of the reply is a refusal.
    """
    if isinstance(block, Thinking):
        return _reasoning(reply, f"rs_{name}", place, block)
    if isinstance(block, ToolCall):
        return _call(reply, f"fc_{name}", place, block)
    return _message(reply, f"msg_{name}", place, block, refused)


def _reasoning(reply: Reply, item_id: str, place: int, block: Thinking) -> Item:
    where: JsonObject = {"item_id": item_id, "output_index": place, "summary_index": 0}
    part: JsonObject = {"type": "summary_text", "text": block.text}
    item: JsonObject = {"id": item_id, "type": "reasoning", "summary": []}
    done: JsonObject = {**item, "summary": [part]}
    if block.signature:
        done["encrypted_content"] = block.signature
    text = "response.reasoning_summary_text"
    begins = [
        _added(place, item),
        event("response.reasoning_summary_part.added", where, part={**part, "text": ""}),
        *_deltas(reply, text, where, block.text),
    ]
    ends = [
        event(f"{text}.done", where, text=block.text),
        event("response.reasoning_summary_part.done", where, part=part),
        _done(place, done),
    ]
    return Item(begins, ends, done)


def _message(reply: Reply, item_id: str, place: int, block: Text, refused: bool) -> Item:
    where: JsonObject = {"item_id": item_id, "output_index": place, "content_index": 0}
    field, kind = ("refusal", "refusal") if refused else ("text", "output_text")
    rest: JsonObject = {} if refused else {"annotations": []}
    part: JsonObject = {"type": kind, field: block.text, **rest}
    item: JsonObject = {
        "id": item_id,
        "type": "message",
        "status": "in_progress",
        "role": "assistant",
        "content": [],
    }
    done: JsonObject = {**item, "status": "completed", "content": [part]}
    more: JsonObject = {} if refused else {"logprobs": []}
    begins = [
        _added(place, item),
        event("response.content_part.added", where, part={**part, field: ""}),
        *_deltas(reply, f"response.{kind}", where, block.text, more),
    ]
    ends = [
        event(f"response.{kind}.done", where, **{field: block.text}, **more),
        event("response.content_part.done", where, part=part),
        _done(place, done),
    ]
    return Item(begins, ends, done)


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
    begins = [_added(place, item), *_deltas(reply, text, where, arguments)]
    ends = [event(f"{text}.done", where, arguments=arguments), _done(place, done)]
    return Item(begins, ends, done)


def _added(place: int, item: JsonObject) -> Event:
    return event("response.output_item.added", output_index=place, item=item)


def _done(place: int, item: JsonObject) -> Event:
    return event("response.output_item.done", output_index=place, item=item)


def _deltas(
    reply: Reply, kind: str, where: JsonObject, text: str, more: JsonObject | None = None
) -> list[Event]:
    pieces = reply.pieces(text)
    return [event(f"{kind}.delta", where, delta=piece, **(more or {})) for piece in pieces]


__all__ = ["Event", "Item", "event", "item_of"]
