"""Frames that are not what the protocol promises."""

from __future__ import annotations

import msgspec

from rxworker.framing import STRAY, SseFrame
from rxworker.messages import Json
from rxworker.messages.lenient_json import read_mended
from rxworker.providers.failure import Failure, read_failure


def unreadable(data: bytes) -> bool:
    """Whether a frame that is no JSON was meant to be some: a broken object, not a word such as ``keepalive``."""
    return data.lstrip().startswith(b"{")


def read_stray(data: bytes) -> Json:
    """The JSON of stray lines, with or without the name of a field before it, such as ``error: {...}``."""
    whole = read_mended(data)
    return whole if whole is not None else read_mended(data.partition(b":")[2])


def stream_failure(event: str, raw: Json) -> Failure | None:
    """The failure that a frame tells of, by its event's name or by an ``error`` in it."""
    if event == "error":
        return read_failure(raw) or Failure(_shown(raw), "error")
    if isinstance(raw, dict) and (raw.get("error") or raw.get("type") == "error"):
        return read_failure(raw) or Failure(_shown(raw), "error")
    return None


def garbage_failure(frame: SseFrame) -> Failure | None:
    """The failure that a frame tells of which is no JSON."""
    if frame.event == STRAY:
        return stream_failure(STRAY, read_stray(frame.data))
    if frame.event == "error" and not unreadable(frame.data):
        return Failure(frame.data.decode("utf-8", "replace"), "error")
    return None


def _shown(raw: Json) -> str:
    return msgspec.json.encode(raw).decode()[:300] if raw else "the provider gave no reason"


__all__ = [
    "garbage_failure",
    "read_stray",
    "stream_failure",
    "unreadable",
]
