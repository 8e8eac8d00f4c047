"""An answer of this protocol's own, put back together from its blocks as the items that it came as.

Every item is sent back in its order and as it was, with whatever it holds: ids, sealed thoughts, phases, callers. What a
block says comes over what its item says, so a text or an argument that was changed after it came is sent as changed. A
thought with nothing behind it is left out, since the service refuses it: that happens when an answer is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from rxworker.events.arguments import parse_arguments
from rxworker.messages import (
    Audio,
    CachePoint,
    Content,
    Document,
    Image,
    Json,
    JsonObject,
    OpaqueBlock,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from rxworker.providers.content import arguments, read_arguments
from rxworker.providers.openai_responses.item import ITEM, PLACE
from rxworker.providers.openai_responses.kinds import (
    CONTENT,
    CUSTOM_CALL,
    FUNCTION_CALL,
    REASONING,
    SUMMARY,
    json_text,
    parts_of,
)

Answered: TypeAlias = (
    Text
    | Refusal
    | Thinking
    | ToolCall
    | ServerToolCall
    | ServerToolResult
    | OpaqueBlock
    | Image
    | Document
)
"""What an answer is made of, and may have an echo."""

# Kinds of blocks, as tuples: a union would be made anew each time it is asked for.
ECHOLESS = (ToolResult, CachePoint, Audio)
SPOKEN = (Text, Refusal)
NOTHING: JsonObject = {}
ECHOED = (ServerToolCall, ServerToolResult, OpaqueBlock, Image)


def encode_answer(content: Sequence[Content]) -> list[JsonObject]:
    """The items of an answer.

    >>> encode_answer([Text("yes")])
    [{'role': 'assistant', 'content': 'yes'}]
    """
    groups: list[list[Answered]] = []
    by_place: dict[int, list[Answered]] = {}
    for block in content:
        if isinstance(block, ECHOLESS):
            continue
        place = block.echo.get(PLACE) if block.echo else None
        if not isinstance(place, int):
            groups.append([block])
        elif place in by_place:
            by_place[place].append(block)
        else:
            by_place[place] = [block]
            groups.append(by_place[place])
    if len(groups) == len(by_place):  # each has a place
        groups = [by_place[place] for place in sorted(by_place)]
    items: list[JsonObject] = []
    for group in groups:
        item = _encode_item(group)
        if item is not None:
            items.append(item)
    while items and items[-1].get("type") == REASONING:
        items.pop()
    return items


def encode_call(call: ToolCall) -> JsonObject:
    """A call by itself, without anything that came with it."""
    return {
        "type": FUNCTION_CALL,
        "call_id": call.id,
        "name": call.name,
        "arguments": json_text(arguments(call)),
    }


def _encode_item(blocks: Sequence[Answered]) -> JsonObject | None:
    """One item from its blocks; the last of them has it whole."""
    block = blocks[-1]
    echo = block.echo or NOTHING
    found = echo.get(ITEM)
    item = found if isinstance(found, dict) else None
    if isinstance(block, ToolCall):
        is_custom = echo.get("type") == CUSTOM_CALL
        return _custom_call(block, item or {}) if is_custom else _call(block, item)
    if isinstance(block, SPOKEN):
        return _message([b for b in blocks if isinstance(b, SPOKEN)], item)
    if isinstance(block, Thinking):
        return _reasoning([b for b in blocks if isinstance(b, Thinking)], item)
    return item if isinstance(block, ECHOED) else None


def _message(blocks: Sequence[Text | Refusal], item: JsonObject | None) -> JsonObject | None:
    texts = [block.text for block in blocks]
    if item is None:
        whole = "".join(texts)
        return {"role": "assistant", "content": whole} if whole else None
    told = [text for _, text, _ in parts_of(item, CONTENT)]
    if "".join(told) == "".join(texts):
        return item
    changed: JsonObject = {CONTENT: [_part(block) for block in blocks if block.text]}
    return item | changed if changed[CONTENT] else None


def _part(block: Text | Refusal) -> Json:
    if isinstance(block, Refusal):
        return {"type": "refusal", "refusal": block.text}
    return {"type": "output_text", "text": block.text, "annotations": []}


def _reasoning(blocks: Sequence[Thinking], item: JsonObject | None) -> JsonObject | None:
    """A thought that never became an item has no signature, and is useless to the service."""
    if item is None:
        return None
    text = "".join(block.text for block in blocks)
    told = ["".join(one for _, one, _ in parts_of(item, field)) for field in (SUMMARY, CONTENT)]
    if text in ("".join(told), *filter(None, told)):
        return item
    summary: Json = [{"type": "summary_text", "text": text}]
    content: Json = [{"type": "reasoning_text", "text": text}]
    changed: JsonObject = {SUMMARY: summary if text and told[0] else []}
    return item | changed | ({CONTENT: content if text else []} if told[1] else {})


def _custom_call(call: ToolCall, item: JsonObject) -> JsonObject:
    return (item or {"type": CUSTOM_CALL}) | {
        "call_id": call.id,
        "name": call.name,
        "input": _same(call.input, item.get("input")),
    }


def _call(call: ToolCall, item: JsonObject | None) -> JsonObject:
    if item is None:
        return encode_call(call)
    # The text that the model wrote, spaces and all, as long as it says the same.
    text = item.get("arguments")
    if isinstance(text, str) and text.strip() == "null":  # which not every server accepts
        text = "{}"
        item = item | {"arguments": text}
    is_same = isinstance(text, str) and parse_arguments(text) == call.input
    named = item.get("type"), item.get("call_id"), item.get("name")
    if is_same and named == (FUNCTION_CALL, call.id, call.name):
        return item
    said = text if is_same else _same(arguments(call), text)
    return item | {
        "type": FUNCTION_CALL,
        "call_id": call.id,
        "name": call.name,
        "arguments": said,
    }


def _same(value: JsonObject | str, text: Json) -> str:
    """The text, if it says the value; else the value as text."""
    if isinstance(text, str) and (value == text or value == read_arguments(text)):
        return text
    return value if isinstance(value, str) else json_text(value)
