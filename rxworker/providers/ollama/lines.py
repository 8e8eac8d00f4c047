"""Lines that hold more than one JSON object, or a byte order mark: what proxies and careless writers make of NDJSON."""

from __future__ import annotations

import json

_SCAN = json.JSONDecoder().raw_decode
_BOM = "\ufeff"


def split_objects(line: bytes) -> list[bytes]:
    r"""The objects on a line, and what is left of it where that is no object.

    >>> split_objects(b'\xef\xbb\xbf{"a": 1} {"b": 2}{"c')
    [b'{"a": 1}', b'{"b": 2}', b'{"c']
    """
    text = line.decode("utf-8", "replace").strip().removeprefix(_BOM).strip()
    parts: list[str] = []
    at = 0
    while at < len(text):
        end = _end_of_object(text, at)
        parts.append(text[at:end])
        at = end
        while at < len(text) and text[at].isspace():
            at += 1
    return [part.encode() for part in parts]


def _end_of_object(text: str, at: int) -> int:
    """Where the object that begins here ends; the end of the line where none does."""
    if text[at] != "{":
        return len(text)
    try:
        return _SCAN(text, at)[1]
    except (ValueError, RecursionError):
        return len(text)


__all__ = ["split_objects"]
