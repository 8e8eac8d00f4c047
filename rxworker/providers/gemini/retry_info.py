"""How long Google says to wait: not in a header, but in the details of the error."""

from __future__ import annotations

import re

from rxworker.messages import Json, JsonObject
from rxworker.providers.garbage import read_json

_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")


def retry_delay(body: bytes) -> str | None:
    """The seconds of the body's ``RetryInfo``, as a header would have them.

    >>> retry_delay(b'{"error": {"details": [{"@type": "x/google.rpc.RetryInfo", "retryDelay": "34.4s"}]}}')
    '34.4'
    """
    raw = read_json(body)
    if isinstance(raw, list) and raw:
        raw = raw[0]
    for detail in _list(_object(_object(raw).get("error")).get("details")):
        delay = _object(detail).get("retryDelay")
        match = _SECONDS.fullmatch(delay) if isinstance(delay, str) else None
        if match:
            return match[1]
    return None


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


__all__ = ["retry_delay"]
