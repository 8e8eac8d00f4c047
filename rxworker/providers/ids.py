"""Ids and names of tool calls, as services take them."""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256
from uuid import uuid4

from rxworker.messages.content import AGAIN, MADE

LONGEST_NAME = 64
_OTHERS = re.compile(r"[^a-zA-Z0-9_-]")


def made_id() -> str:
    """A new id, unlike any other.

    >>> from rxworker.messages.content import is_made
    >>> is_made(made_id()), is_made("call_1")
    (True, False)
    """
    return MADE + uuid4().hex[:20]


def repeated_id(tool_id: str, number: int) -> str:
    """The id of a call that came under the id of an earlier call of the same response.

    >>> repeated_id("call_1", 2)
    'call_1-rxw-2'
    """
    return f"{tool_id}{AGAIN}{number}"


def in_letters(tool_id: str, others: re.Pattern[str] = _OTHERS) -> str:
    """The id of another provider's call in the letters that a service allows, the same each time.

    Ids that differ stay different: where letters were replaced, a few of their hash follow.

    Args:
        tool_id: The id.
        others: The characters that are not allowed.

    >>> in_letters("a.b", re.compile("[^a-z]")), in_letters("a:b", re.compile("[^a-z]"))
    ('a_b_2e7336dc', 'a_b_6783a31e')
    """
    safe = others.sub("_", tool_id)
    return safe if safe == tool_id else f"{safe}_{hashed(tool_id)[:8]}"


def shortened(tool_id: str, longest: int) -> str:
    """The id of another provider's call in the length that a service allows, the same each time.

    >>> shortened("call_1", 40), len(shortened("x" * 100, 40))
    ('call_1', 40)
    """
    return tool_id if len(tool_id) <= longest else hashed(tool_id)[:longest]


@lru_cache(maxsize=1024)  # the same few for each request
def call_name(name: str) -> str:
    """The name of an earlier call as each service takes it: a model may call a tool that is not there, by any name.

    https://github.com/pydantic/pydantic-ai/issues/4585, https://github.com/mcp-use/mcp-use/issues/90

    >>> call_name("look"), call_name("functions.look")
    ('look', 'functions_look_c15535c1')
    """
    safe = in_letters(name) or "_"
    return safe if len(safe) <= LONGEST_NAME else f"{safe[: LONGEST_NAME - 9]}_{hashed(name)[:8]}"


def hashed(tool_id: str) -> str:
    """64 letters and digits that stand for an id.

    >>> hashed("call_1") == hashed("call_1"), hashed("call_1").isalnum()
    (True, True)
    """
    return sha256(tool_id.encode("utf-8", "replace")).hexdigest()
