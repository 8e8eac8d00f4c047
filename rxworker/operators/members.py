"""Reading a JSON object from its text as it arrives, a member of the object at a time. Pure.

Theory of operation. The text is read once, from one structural character to the next; what is between them is never
looked at. The machine knows how deep it is and whether it stands inside a string. At a comma or the closing bracket of
the outermost object a member is whole: its text, gathered in pieces, is joined and decoded, and forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

import msgspec

from rxworker.messages import Json, JsonObject

_OUTSIDE = re.compile(r'["{}\[\],]')
_INSIDE = re.compile(r'["\\]')


class MemberScanner:
    """A decoder from pieces of JSON text to the members of the outermost object, each as soon as it is whole.

    Text that is not JSON gives no members from there on; nothing is raised. Many small members cost a little each, and a
    long one costs its length: the same text in more pieces, or twice the text, never costs more than in proportion.

    >>> scanner = MemberScanner()
    >>> scanner.feed('{"city": "Os'), scanner.feed('lo", "days"'), scanner.feed(": 3}")
    ([], [('city', 'Oslo')], [('days', 3)])
    """

    def __init__(self) -> None:
        self.is_broken = False
        self._pieces: list[str] = []
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def feed(self, data: str, /) -> Sequence[tuple[str, Json]]:
        """Take more text; return the members that it completed."""
        if self.is_broken:
            return []
        members: list[tuple[str, Json]] = []
        position = begin = 0
        if self._escaped and data:
            self._escaped = False
            position = 1
        while True:
            pattern = _INSIDE if self._in_string else _OUTSIDE
            match = pattern.search(data, position)
            if match is None:
                break
            character, position = match.group(), match.end()
            if character == '"':
                self._in_string = not self._in_string
            elif character == "\\":
                # The next character is part of the string, whatever it is, also when it is yet to come.
                self._escaped = position == len(data)
                position += 1
            elif character in "{[":
                self._depth += 1
                if self._depth == 1:
                    begin = position
            elif character == "," and self._depth == 1:
                self._complete(data[begin : position - 1], members)
                begin = position
            elif character in "}]":
                self._depth -= 1
                if self._depth == 0:
                    self._complete(data[begin : position - 1], members)
                    begin = position
        if self._depth > 0:
            self._pieces.append(data[begin:])
        return members

    def finish(self) -> Sequence[tuple[str, Json]]:
        """The text ended; a member that is not whole is lost."""
        return []

    def _complete(self, last: str, members: list[tuple[str, Json]]) -> None:
        self._pieces.append(last)
        text = "".join(self._pieces)
        self._pieces.clear()
        try:
            member = cast(JsonObject, msgspec.json.decode("{" + text + "}"))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            self.is_broken = True
            return
        members.extend(member.items())


__all__ = ["MemberScanner"]
