"""JSON text in pieces, read once: the value so far, the members that are whole, and whether all of it is. Pure.

A stack holds the open objects and arrays; a complete value is added to the innermost one at once, so the result grows
in place and is never copied. A string is collected in pieces. While it is open, its current text is shown, joined again
each time it has grown by an eighth, which in total costs a small multiple of its length. Numbers and words are shown
when the next character proves that they are complete.
"""

from __future__ import annotations

import re
from typing import TypeAlias

import msgspec

from rxworker.messages.json import Json, JsonObject

_SPACE = re.compile(r"[ \t\r\n]+")
_WORD = re.compile(r"[-+.0-9a-zA-Z]+")
_STRING_END = re.compile(r'["\\]')
_CUT_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?$|(?:\\u[dD][89abAB][0-9a-fA-F]{2})$")
_GROWTH = 8

Container: TypeAlias = "JsonObject | list[Json]"


class JsonReader:
    """A machine from pieces of JSON text to the value that they have made so far.

    Text that is not JSON sets ``is_broken``; nothing is raised, and the value stays as it was.

    Attributes:
        value: The value so far. One object that grows: copy it to keep what it was.
        members: The members of the outermost object that are whole, in the order in which they came. The list only
            grows.
        is_complete: Whether the value is whole.
        is_broken: Whether something came that cannot stand there.

    >>> reader = JsonReader()
    >>> reader.feed('{"city": "Os'), reader.value
    (True, {'city': 'Os'})
    >>> reader.feed('lo", "days": [1, 2'), reader.value
    (True, {'city': 'Oslo', 'days': [1]})
    >>> reader.feed("]}"), reader.value, reader.is_complete
    (True, {'city': 'Oslo', 'days': [1, 2]}, True)
    """

    def __init__(self) -> None:
        self.value: Json = None
        self.members: list[tuple[str, Json]] = []
        self.is_complete = False
        self.is_broken = False
        self._stack: list[Container] = []
        self._key = ""
        self._member = ""  # the key in the outermost object
        self._wants = "value"  # value, key, colon or comma
        self._fresh = False  # whether the innermost container has just opened
        self._string: list[str] | None = None  # the pieces of the open string
        self._length = 0
        self._shown = 0
        self._placed = False
        self._escaped = False
        self._word = ""
        self._changed = False

    def feed(self, text: str, /) -> bool:
        """Take more text; return whether the value changed."""
        self._changed = False
        place = 0
        while place < len(text) and not self.is_broken:
            place = self._read_string(text, place) if self._string is not None else self._read_token(text, place)
        if self._string is not None and not self.is_broken:
            self._show_open_string()
        return self._changed

    def finish(self) -> bool:
        """The text ended; return whether that completed a number or word, which only then is whole."""
        self._changed = False
        self._end_word()
        return self._changed

    def _read_token(self, text: str, place: int) -> int:
        if word := _WORD.match(text, place):
            self._word += word.group()
            return word.end()
        self._end_word()
        if space := _SPACE.match(text, place):
            return space.end()
        character = text[place]
        fresh, self._fresh = self._fresh, False
        if character == '"' and self._wants in ("value", "key"):
            self._string, self._length, self._shown, self._placed = [], 0, 0, False
        elif character in "{[" and self._wants == "value":
            self._open({} if character == "{" else [])
        elif character in "}]" and self._stack:
            self._close(character, fresh)
        elif character == ":" and self._wants == "colon":
            self._wants = "value"
        elif character == "," and self._wants == "comma" and self._stack:
            self._wants = "key" if isinstance(self._stack[-1], dict) else "value"
        else:
            self.is_broken = True
        return place + 1

    def _read_string(self, text: str, place: int) -> int:
        pieces, begin = self._string, place
        assert pieces is not None
        if self._escaped:
            self._escaped = False
            place += 1
        while match := _STRING_END.search(text, place):
            place = match.end()
            if match.group() == '"':
                pieces.append(text[begin : place - 1])
                self._end_string()
                return place
            if place == len(text):
                self._escaped = True
                break
            place += 1
        pieces.append(text[begin:])
        self._length += len(text) - begin
        return len(text)

    def _open(self, container: Container) -> None:
        self._put(container)
        self._stack.append(container)
        self._wants = "key" if isinstance(container, dict) else "value"
        self._fresh = True

    def _close(self, character: str, fresh: bool) -> None:
        fits = isinstance(self._stack[-1], dict) == (character == "}")
        if not fits or not (fresh or self._wants == "comma"):
            self.is_broken = True
            return
        self._stack.pop()
        self._changed = True
        self._ended()

    def _ended(self) -> None:
        """A value has become whole."""
        self._wants = "comma"
        self.is_complete = not self._stack
        if len(self._stack) == 1 and isinstance(whole := self._stack[0], dict):
            self.members.append((self._member, whole[self._member]))

    def _put(self, value: Json) -> None:
        """Put a value where one is wanted, or in the place of the open string that it completes."""
        self._changed = True
        if not self._stack:
            self.value = value
        elif isinstance(container := self._stack[-1], dict):
            container[self._key] = value
        elif self._placed:
            container[-1] = value
        else:
            container.append(value)

    def _end_word(self) -> None:
        if not self._word or self.is_broken:
            return
        word, self._word = self._word, ""
        self._placed = False
        value = _decoded(word)
        if self._wants != "value" or value is _BROKEN:
            self.is_broken = True
            return
        self._put(value)
        self._ended()

    def _end_string(self) -> None:
        text = _decoded('"' + "".join(self._string or ()) + '"')
        self._string = None
        if not isinstance(text, str):
            self.is_broken = True
        elif self._wants == "key":
            self._key, self._wants = text, "colon"
            if len(self._stack) == 1:
                self._member = text
        else:
            self._put(text)
            self._placed = False
            self._ended()

    def _show_open_string(self) -> None:
        if self._wants != "value" or self._length - self._shown <= self._shown // _GROWTH:
            return
        raw = _CUT_ESCAPE.sub("", "".join(self._string or ()))
        text = _decoded('"' + raw + '"')
        if isinstance(text, str) and text:
            self._string, self._shown = ["".join(self._string or ())], self._length
            self._put(text)
            self._placed = True


_BROKEN: Json = []  # compared by identity


def _decoded(text: str) -> Json:
    try:
        value: Json = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return _BROKEN
    return value
