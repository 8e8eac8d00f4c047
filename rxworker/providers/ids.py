"""Ids for tool calls to which the provider gave none."""

from __future__ import annotations

from hashlib import sha256
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


def shortened(tool_id: str, longest: int) -> str:
    """The id of another provider's call in the length that a service allows, the same each time.

    >>> shortened("call_1", 40), len(shortened("x" * 100, 40))
    ('call_1', 40)
    """
    return tool_id if len(tool_id) <= longest else sha256(tool_id.encode()).hexdigest()[:longest]


__all__ = ["is_made", "made_id", "shortened"]
