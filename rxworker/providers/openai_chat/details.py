"""OpenRouter's reasoning details: what must be sent back, gathered from its pieces."""

from __future__ import annotations

from collections.abc import Iterable

from rxworker.messages import Json, JsonObject

GROWING = ("text", "summary")
IDENTITY = ("type", "index", "id")


def text_of_details(details: Iterable[JsonObject]) -> str:
    """The thinking in them."""
    texts = (detail.get("text") or detail.get("summary") for detail in details)
    return "".join(text for text in texts if isinstance(text, str))


def merge_details(details: Iterable[JsonObject]) -> list[Json]:
    """The details with the pieces of one joined: those that follow each other and name the same.

    >>> merge_details([{"type": "reasoning.text", "text": "a"}, {"type": "reasoning.text", "text": "b"}])
    [{'type': 'reasoning.text', 'text': 'ab'}]
    """
    groups: list[list[JsonObject]] = []
    for detail in details:
        if groups and _same(groups[-1][0], detail):
            groups[-1].append(detail)
        else:
            groups.append([detail])
    return [_join(group) for group in groups]


def _same(first: JsonObject, next_: JsonObject) -> bool:
    kind = next_.get("type")
    if not isinstance(kind, str) or kind == "reasoning.encrypted":
        return False
    return all(
        first.get(key) == next_.get(key)
        or (key == "id" and None in (first.get(key), next_.get(key)))
        for key in IDENTITY
    )


def _join(group: list[JsonObject]) -> JsonObject:
    if len(group) == 1:
        return group[0]
    joined: JsonObject = {}
    for detail in group:
        joined |= {k: v for k, v in detail.items() if v is not None or k not in joined}
    for field in GROWING:
        if field in joined:
            pieces = [detail.get(field) for detail in group]
            joined[field] = "".join(piece for piece in pieces if isinstance(piece, str))
    return joined


__all__ = ["merge_details", "text_of_details"]
