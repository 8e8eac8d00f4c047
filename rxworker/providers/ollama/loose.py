"""Lines that do not fit: what fits of them is taken, and the rest is told."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from rxworker.messages import Json, JsonObject
from rxworker.providers.ollama.wire import WireLine, WireMessage

S = TypeVar("S", bound=Struct)


def read_loosely(raw: JsonObject) -> tuple[WireLine, JsonObject]:
    """The line with what of the object fits it, and what does not fit. Numbers may come as text.

    >>> line, rest = read_loosely({"done": True, "eval_count": "7", "mood": "good", "message": None})
    >>> line.done, line.eval_count, rest
    (True, 7, {'mood': 'good'})
    """
    inner = raw.get("message")
    if not isinstance(inner, dict):
        return _fit(raw, WireLine)
    message, strange = _fit(inner, WireMessage)
    line, rest = _fit({k: v for k, v in raw.items() if k != "message"}, WireLine)
    if strange:
        rest["message"] = strange
    return msgspec.structs.replace(line, message=message), rest


def _fit(raw: JsonObject, kind: type[S]) -> tuple[S, JsonObject]:
    types = {field.name: field.type for field in msgspec.structs.fields(kind)}
    fitting: dict[str, Any] = {}
    rest: JsonObject = {}
    for name, value in raw.items():
        try:
            fitting[name] = _converted(value, types[name])
        except (KeyError, msgspec.ValidationError):
            if value:  # what says nothing is no loss
                rest[name] = value
    return kind(**fitting), rest


def _converted(value: Json, kind: Any) -> Any:
    return msgspec.convert(value, kind, strict=False)


__all__ = ["read_loosely"]
