"""A function call: whole in one part, or with its arguments streamed by path over several.

A streamed call begins with a name and ``willContinue``, goes on with ``partialArgs``, and ends with a piece that does not
continue. That end is sometimes left out: another call, another kind of part or the end of the candidate stand for it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rxworker.events import InputJsonDelta, InputValueDelta, ResponseEvent
from rxworker.events.arguments import member_path
from rxworker.messages import Json, JsonObject

CALL = "functionCall"
CONTINUES = "willContinue"


class PendingCall:
    """A call whose block is open.

    Args:
        index: The index of its block.
        wire_id: The id that Gemini sent, empty if none.
        echo: What its first part holds besides the call.

    Attributes:
        index: The index of its block.
        wire_id: The id that Gemini sent, empty if none.
    """

    __slots__ = ("_by_path", "_first_echo", "_growing", "_late_echo", "index", "wire_id")

    def __init__(self, index: int, wire_id: str, echo: JsonObject) -> None:
        self.index = index
        self.wire_id = wire_id
        self._first_echo = echo
        self._late_echo: JsonObject = {}
        self._by_path = False
        self._growing: set[str] = set()  # the paths whose text is not whole

    def take(self, call: JsonObject) -> Iterator[ResponseEvent]:
        """The arguments of a piece."""
        args, partial = call.get("args"), call.get("partialArgs")
        self._by_path |= bool(call.get(CONTINUES) or partial)
        if args:
            if self._by_path and isinstance(args, dict):
                for name, value in args.items():
                    yield InputValueDelta(self.index, member_path(name), value)
            else:
                yield InputJsonDelta(self.index, msgspec.json.encode(args).decode())
        for piece in partial if isinstance(partial, list) else ():
            if isinstance(piece, dict):
                yield from self._take_value(piece)

    def keep(self, echo: JsonObject) -> None:
        """What a later part holds besides the call."""
        self._late_echo |= echo

    def late_echo(self) -> JsonObject | None:
        """What came for the echo after the block had started."""
        known = self._first_echo
        return {k: v for k, v in self._late_echo.items() if known.get(k) != v} or None

    def _take_value(self, piece: JsonObject) -> Iterator[ResponseEvent]:
        path = piece.get("jsonPath")
        if not isinstance(path, str):
            return
        for value in _values(piece):
            append = path in self._growing and isinstance(value, str)
            yield InputValueDelta(self.index, path, value, append)
        if piece.get(CONTINUES):
            self._growing.add(path)
        else:
            self._growing.discard(path)


def beside(part: JsonObject) -> JsonObject:
    """What a part holds besides the call itself: its seal, and whatever Google may add. A text has a block of its own.

    >>> beside({"functionCall": {"name": "look"}, "thoughtSignature": "AAAA"})
    {'thoughtSignature': 'AAAA'}
    """
    taken = (CALL, "text", "thought") if part.get("text") else (CALL,)
    return {key: value for key, value in part.items() if key not in taken}


def _values(piece: JsonObject) -> list[Json]:
    """The value of a piece, under the name of its type; none or one."""
    values = [None if name == "nullValue" else v for name, v in piece.items() if _is_value(name)]
    return values[:1]


def _is_value(name: str) -> bool:
    return name.endswith("Value")


__all__ = ["CALL", "CONTINUES", "PendingCall", "beside"]
