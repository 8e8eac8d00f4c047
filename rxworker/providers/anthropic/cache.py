"""Marks on what Anthropic may cache: everything up to a mark, in the order tools, system text, messages.

A mark stands on the block before a `CachePoint`. Thinking cannot carry one, so the mark goes to what stands before it.
A point with nothing before it but the tools and the system text marks these. Anthropic takes four marks in a request;
of more points the last ones count, since what the earlier ones would mark is a part of what the last ones mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from rxworker.messages import CachePoint, Conversation, Json, JsonObject
from rxworker.providers.remember import Body

MOST_MARKS = 4
UNMARKED = ("thinking", "redacted_thinking")


def cache_control(ttl: str | None = None) -> JsonObject:
    """The mark.

    >>> cache_control("1h")
    {'type': 'ephemeral', 'ttl': '1h'}
    """
    return {"type": "ephemeral", "ttl": ttl} if ttl else {"type": "ephemeral"}


def mark_last(blocks: list[JsonObject], end: int, mark: JsonObject) -> None:
    """Put the mark on the last of the first so many blocks that can carry one. The block itself, which may be an echo, stays as it is."""
    for at in range(end - 1, -1, -1):
        if blocks[at].get("type") not in UNMARKED:
            blocks[at] = {**blocks[at], "cache_control": mark}
            return


def leading_point(conversation: Conversation) -> CachePoint | None:
    """The point that stands before anything but the application's words at the beginning, if there is one."""
    point = None
    for message in conversation.messages:
        for block in message.content:
            if isinstance(block, CachePoint):
                point = block
            elif message.role != "system":
                return point
    return point


def mark_prefix(body: Body, parts: Sequence[str], point: CachePoint | None) -> tuple[Body, int]:
    """The body with marks on its last tool and its system text, as far as they are asked for.

    Args:
        body: What would be sent.
        parts: ``tools``, ``system``, or both.
        point: One before the first message, which marks the system text, or the tools where there is none.

    Returns:
        The body, and how many marks are left for the messages.
    """
    ttl = point.ttl if point else None
    system, tools = body.get("system"), body.get("tools")
    marked: Body = {}
    if system and isinstance(system, str) and ("system" in parts or point):
        text: JsonObject = {"type": "text", "text": system, "cache_control": cache_control(ttl)}
        marked["system"] = [text]
    if tools and isinstance(tools, list) and ("tools" in parts or (point and not system)):
        tools = marked["tools"] = _with_mark(tools, cache_control(None if system else ttl))
    count = _count(marked.get("system", system))
    if _count(tools) > MOST_MARKS - count:
        tools = marked["tools"] = _with_last_marks(tools, MOST_MARKS - count)
    return body | marked, MOST_MARKS - count - _count(tools)


def _with_mark(tools: list[Json], mark: JsonObject) -> list[Json]:
    """The tools with a mark on the last one that the model sees at once: one that is found later cannot carry it."""
    for place in range(len(tools) - 1, -1, -1):
        tool = tools[place]
        if isinstance(tool, dict) and not tool.get("defer_loading"):
            return [*tools[:place], {"cache_control": mark, **tool}, *tools[place + 1 :]]
    return tools


def _with_last_marks(tools: Any, most: int) -> list[Json]:
    """The tools with their last marks, which hold what the earlier ones would mark."""
    kept: list[Json] = []
    for tool in reversed(tools):
        if "cache_control" in tool and most <= 0:
            tool = {key: value for key, value in tool.items() if key != "cache_control"}
        most -= "cache_control" in tool
        kept.append(tool)
    return kept[::-1]


def _count(blocks: object) -> int:
    """How many of some tools or blocks have a mark."""
    listed = cast("list[Any]", blocks) if isinstance(blocks, list) else []
    return sum(1 for block in listed if isinstance(block, dict) and "cache_control" in block)


__all__ = [
    "MOST_MARKS",
    "cache_control",
    "leading_point",
    "mark_last",
    "mark_prefix",
]
