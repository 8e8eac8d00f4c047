"""Ids and names of tool calls, as services take them."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from hashlib import sha256
from uuid import uuid4

from rxworker.messages.content import AGAIN, LONGEST_NAME, MADE, NAME, NOT_IN_NAMES


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


def shortened(tool_id: str, longest: int) -> str:
    """The id of another provider's call in the length that a service allows, the same each time.

    >>> shortened("call_1", 40), len(shortened("x" * 100, 40))
    ('call_1', 40)
    """
    return tool_id if len(tool_id) <= longest else hashed(tool_id)[:longest]


@lru_cache(maxsize=1024)  # the same few for each request
def safe_name(name: str, allowed: re.Pattern[str] = NAME) -> str:
    """The id or the name of an earlier call as a service takes it, the same each time: a model may call any name.

    Those that differ stay different: where one is changed, a few of its hash follow.

    https://github.com/pydantic/pydantic-ai/issues/4585, https://github.com/mcp-use/mcp-use/issues/90

    Args:
        name: The id or the name.
        allowed: What the service takes.

    >>> safe_name("look"), safe_name("functions.look"), safe_name("functions:look")
    ('look', 'functions_look_c15535c1', 'functions_look_e01e52c5')
    """
    return name if allowed.fullmatch(name) else other_name(name, allowed)


def other_name(name: str, allowed: re.Pattern[str] = NAME, taken: Collection[str] | None = None) -> str:
    """A name that is allowed in place of one that is not.

    Args:
        name: The name.
        allowed: What is allowed.
        taken: The names that it must not be: for one of these, a few of its hash follow. They always do without it.

    >>> other_name("7 zip", re.compile("[a-z_][a-z0-9_]*"), ()), other_name("read.file", taken=["read_file"])
    ('_7_zip', 'read_file_dd32cdf5')
    """
    other = NOT_IN_NAMES.sub("_", name)[:LONGEST_NAME]
    if not allowed.fullmatch(other):
        other = f"_{other}"[:LONGEST_NAME]
    return other if taken is not None and other not in taken else f"{other[: LONGEST_NAME - 9]}_{hashed(name)[:8]}"


def hashed(tool_id: str) -> str:
    """64 letters and digits that stand for an id.

    >>> hashed("call_1") == hashed("call_1"), hashed("call_1").isalnum()
    (True, True)
    """
    return sha256(tool_id.encode("utf-8", "replace")).hexdigest()
