"""JSON text as it arrives, as the value parsed so far.

A stack holds the open objects and arrays; a complete value is added to the innermost one at once, so the result grows in place and is never copied. A string is
collected in pieces. While it is open, its current text is shown, joined again each time it has grown by an eighth, which in total costs a
small multiple of its length. Numbers and words are shown when the next character proves that they are complete.
"""

from __future__ import annotations

import re
from typing import TypeAlias, cast

import msgspec
from reactivex import Observable, abc

from rxworker.events import Event, ResponseStatus, Status, TextDelta
from rxworker.messages import Json, JsonObject
from rxworker.operators.expect import (
    EVENTS,
    Ending,
    expect_choice,
    expect_events,
    no_event,
    no_text,
)
from rxworker.operators.stage import Operator, Sink, stage

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
        self.is_complete = False
        self.is_broken = False
        self._stack: list[Container] = []
        self._key: str | None = None
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
            if self._string is not None:
                place = self._read_string(text, place)
            else:
                place = self._read_token(text, place)
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
        pieces = cast("list[str]", self._string)
        begin = place
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

    def _put(self, value: Json) -> None:
        """Put a value where one is wanted, or in the place of the open string that it completes."""
        self._changed = True
        if not self._stack:
            self.value = value
        elif isinstance(container := self._stack[-1], dict):
            container[cast("str", self._key)] = value
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
        self._put(cast("Json", value))
        self._ended()

    def _end_string(self) -> None:
        text = _decoded('"' + "".join(self._string or ()) + '"')
        self._string = None
        if not isinstance(text, str):
            self.is_broken = True
        elif self._wants == "key":
            self._key, self._wants = text, "colon"
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


_BROKEN = object()


def _decoded(text: str) -> object:
    try:
        return cast("object", msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeError):
        return _BROKEN


def partial_json() -> Operator[str, Json]:
    r"""The value that the text has made so far, each time that it has changed.

        --{"a":-"x--y"-,"b":1--}--|
        [ partial_json() ]
        --0-----1--2-----------3--|    0 {}, 1 {a: x}, 2 {a: xy}, 3 {a: xy, b: 1}

    It emits one object that grows: copy it to keep what it was. The cost is linear in the text. Text that is no JSON ends it
    with nothing more to show; the text itself goes its own way.

    >>> from reactivex import of
    >>> of('{"city": "Os', 'lo", "da', 'ys": 3}').pipe(partial_json()).subscribe(print) and None
    {'city': 'Os'}
    {'city': 'Oslo'}
    {'city': 'Oslo', 'days': 3}
    """

    def apply(source: Observable[str]) -> Observable[Json]:
        return stage(source, _read)

    return apply


def _read(observer: abc.ObserverBase[Json]) -> Sink[str]:
    reader = JsonReader()
    ending = Ending(observer)

    def on_next(text: str) -> None:
        if ending.is_over:
            return
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            ending.on_error(no_text("partial_json()", text))
        elif reader.feed(text):
            observer.on_next(reader.value)

    def on_completed() -> None:
        if not ending.is_over and reader.finish():
            observer.on_next(reader.value)
        ending.on_completed()

    return Sink(on_next, ending.on_error, on_completed)


def partial_values(choice: int = 0) -> Operator[Event, Json]:
    r"""The value that the answer has made so far, when the answer is JSON. Each response begins anew.

        -s-[1,-2]-e-s-{}-e-|    s Status(STARTED), e its end, between them text
        [ partial_values() ]
        ---1----2-----3----|    1 [1], 2 [1, 2], 3 {}

    What holds for `partial_json` holds here: it is one object that grows.

    Args:
        choice: The index of the choice whose text is emitted, if the request has several.
    """
    expect_choice("partial_values", choice)

    def apply(source: Observable[Event]) -> Observable[Json]:
        expect_events(source, "partial_values()")

        def make(observer: abc.ObserverBase[Json]) -> Sink[Event]:
            reader = JsonReader()
            ending = Ending(observer)

            def on_next(event: Event) -> None:
                nonlocal reader
                if ending.is_over:
                    return
                changed = False
                if type(event) is TextDelta:
                    changed = event.choice == choice and reader.feed(event.text)
                elif isinstance(event, Status):
                    changed = reader.finish()
                    if event.status is ResponseStatus.STARTED:
                        reader = JsonReader()
                elif event.__class__ not in EVENTS:
                    ending.on_error(no_event("partial_values()", event))
                if changed:
                    observer.on_next(reader.value)

            return Sink(on_next, ending.on_error, ending.on_completed)

        return stage(source, make)

    return apply
