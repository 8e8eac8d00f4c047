"""One tool call of Ollama's, which comes whole."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from rxworker.messages import Json, JsonObject


class WholeCall(Struct, frozen=True):
    """A call.

    Attributes:
        id: Its id; older servers give none.
        name: The tool's name.
        arguments: As JSON text; empty for none.
        echo: What of it the next request repeats: all but what a `rxworker.messages.ToolCall` holds.
    """

    id: str | None
    name: str
    arguments: str
    echo: JsonObject | None


def read_call(raw: JsonObject) -> WholeCall | None:
    """The call; ``None`` for what names no tool.

    >>> read_call({"function": {"name": "look", "arguments": {"at": "sky"}}}).arguments
    '{"at":"sky"}'
    """
    function = raw.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str) or not name:
        return None
    wire_id = raw.get("id")
    inner: JsonObject = {k: v for k, v in function.items() if k not in ("name", "arguments")}
    echo: JsonObject = {k: v for k, v in raw.items() if k not in ("id", "type", "function")}
    if inner:
        echo["function"] = inner
    given = wire_id if isinstance(wire_id, str) and wire_id else None
    return WholeCall(given, name, _text(function.get("arguments")), echo or None)


def _text(arguments: Json) -> str:
    if isinstance(arguments, str):  # compatible servers send the text
        return arguments
    return "" if arguments is None else msgspec.json.encode(arguments).decode()


__all__ = ["WholeCall", "read_call"]
