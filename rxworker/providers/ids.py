"""Ids for tool calls to which the provider gave none."""

from __future__ import annotations

from uuid import uuid4

MADE = "rxw_"


def made_id() -> str:
    """A new id, unlike any other.

    >>> is_made(made_id()), is_made("call_1")
    (True, False)
    """
    return MADE + uuid4().hex[:20]


def is_made(tool_id: str) -> bool:
    """Whether an id is one of ours."""
    return tool_id.startswith(MADE)


__all__ = ["is_made", "made_id"]
