"""A call's arguments as a person reads and changes them. Pure."""

from __future__ import annotations

import json
import re
from typing import cast

import msgspec

from rxworker.messages import JsonObject
from rxworker.ui.clean import clean

# What a terminal would obey, or show as something else, is written as JSON writes it: the value stays the same.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def arguments_text(arguments: JsonObject | str) -> str:
    r"""The arguments as they are shown: every character can be seen, and the value is the same.

    Free text is shown as it is, if all of it can be seen; otherwise as a text in JSON.

    >>> print(arguments_text({"path": "a\u202eb"}))
    {
      "path": "a\u202eb"
    }
    >>> print(arguments_text("ls -l"), arguments_text("ls\x1b"))
    ls -l "ls\u001b"
    """
    if isinstance(arguments, str) and not _is_hidden(arguments):
        return arguments
    return _HIDDEN.sub(_escape, json.dumps(arguments, indent=2, ensure_ascii=False))


def read_arguments(text: str, shown: JsonObject | str) -> JsonObject | str:
    """The arguments that were written.

    Args:
        text: What was written.
        shown: The arguments that were shown: these are of the same kind.

    Raises:
        ValueError: It is not; the message says where.

    >>> read_arguments('{"path": "a"}', {"path": "b"})
    {'path': 'a'}
    >>> read_arguments("rm a", "rm b")
    'rm a'
    """
    if isinstance(shown, str) and not _is_hidden(shown):
        return text
    try:
        value: object = json.loads(text)
    except json.JSONDecodeError as error:
        message = f"this is no JSON: {error.msg}, line {error.lineno}, column {error.colno}"
        raise ValueError(message) from error
    if isinstance(shown, str):
        if not isinstance(value, str):
            raise ValueError('this is free text, in JSON: write "..."')
        return value
    if not isinstance(value, dict):
        raise ValueError('arguments are a JSON object, such as {"path": "a"}')
    return msgspec.convert(cast("object", value), JsonObject)


def _is_hidden(text: str) -> bool:
    return _HIDDEN.search(text) is not None or clean(text) != text


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


__all__ = ["arguments_text", "read_arguments"]
