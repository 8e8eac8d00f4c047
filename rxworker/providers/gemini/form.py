r"""The form of frames that are alike: what is the same in all of them, and where the text and the running totals stand. Pure.

A frame of a long text is the one before it with another text and higher totals. These have as many digits in nearly all
neighbours, so that everything stands at fixed places, counted from either end. Many frames are cut up there in one go, put together
again with what the first one had around its values, and have to be the same bytes. Where a number grows by a digit, another form
is learned.

That these are the right places is seen when a form is learned: a frame with other values there says the same but for them.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Collection, Sequence
from itertools import chain, repeat
from operator import ne

import msgspec
from msgspec import Struct

from rxworker.messages import JsonObject
from rxworker.providers.gemini.wire import WireCandidate, WireContent, decode_chunk

DATA = b"data:"
PROBE = "rxworker probe"

_TEXT = re.compile(rb'"text"\s*:\s*"((?:[^"\\]|\\.)*+)"')
_NUMBER = re.compile(rb'"(\w++)"\s*+:\s*+(\d{1,15}+)(?=[\s,}])')
# What may stand between the quotes of a JSON string.
_CLEAN = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrtu])++')
_TEXTS = msgspec.json.Decoder(list[str])
_NUMBERS = msgspec.json.Decoder(list[int])
_TEXT_OF = msgspec.json.Decoder(str)
_NUMBER_OF = msgspec.json.Decoder(int)


class Values(Struct, frozen=True):
    """What frames say that fit a form.

    Attributes:
        texts: The text of each.
        totals: What they tell of each total that changes.
        size: How many bytes they are.
    """

    texts: list[str]
    totals: list[list[int]]
    size: int


class Form:
    """What is the same in frames that are alike.

    Args:
        before: What a frame begins with, up to the text.
        behind: The rest of it, without the numbers that change.
        names: What they are called.
    """

    __slots__ = ("_before", "_behind", "_digits", "_numbers", "_text", "names")

    def __init__(self, before: bytes, behind: Sequence[bytes], names: tuple[str, ...] = ()) -> None:
        self.names = names
        self._before = before
        self._behind = behind
        self._digits: list[int] | None = None
        # The places of the text and the numbers in frames whose numbers have so many digits.
        self._text = slice(0)
        self._numbers: list[slice] = []

    def only(self, frame: bytes, totals: Sequence[int]) -> tuple[str, list[int]] | None:
        """What a frame says, if it fits and tells other totals than these. The usual case: a frame comes by itself."""
        values = self._cut(frame)
        if values is None:
            return None
        text, *numbers = values
        if not all(map(bytes.isdigit, numbers)) or _CLEAN.fullmatch(text) is None:
            return None
        try:
            read = _TEXT_OF.decode(b'"' + text + b'"')
            told = [_NUMBER_OF.decode(number) for number in numbers]
        except (msgspec.DecodeError, UnicodeDecodeError):  # half a character, say
            return None
        return (read, told) if not told or told != totals else None

    def read(self, frames: Sequence[bytes], totals: Sequence[int]) -> Values | None:
        """What these frames say up to the first that does not fit, or tells the same totals as the one before it.

        Args:
            frames: At least one.
            totals: What stood before the first.
        """
        count = self._lay_out(frames)
        while count:
            values = self._read(frames[:count], totals)
            if values is not None:
                return values
            count //= 2
        return None

    def _lay_out(self, frames: Sequence[bytes]) -> int:
        """Find the places of the first frame; of how many they may be the places: totals grow."""
        digits = self._digits_of(frames[0])
        if digits is None:
            return 0
        if digits != self._digits:
            self._digits, self._numbers = digits, []
            end = len(self._behind[-1])
            for part, length in zip(self._behind[-2::-1], digits[::-1], strict=True):
                self._numbers.insert(0, slice(-end - length, -end))
                end += length + len(part)
            self._text = slice(len(self._before), -end)
        if self._digits_of(frames[-1]) == digits:
            return len(frames)
        return bisect(range(len(frames)), 0, key=lambda n: self._digits_of(frames[n]) != digits)

    def _digits_of(self, frame: bytes) -> list[int] | None:
        """How many digits its numbers have, if it can be a frame of this form."""
        values = self._cut(frame)
        return None if values is None else [len(number) for number in values[1:]]

    def _cut(self, frame: bytes) -> list[bytes] | None:
        """What stands between the parts of a frame, if it has them."""
        behind = self._behind
        end = len(frame) - len(behind[-1])
        if not frame.startswith(self._before) or not frame.endswith(behind[-1]):
            return None
        values: list[bytes] = []
        for part in behind[-2::-1]:
            begin = frame.rfind(part, 0, end)
            if begin < 0:
                return None
            values.append(frame[begin + len(part) : end])
            end = begin
        values.append(frame[len(self._before) : end])
        return values[::-1]

    def _read(self, frames: Sequence[bytes], totals: Sequence[int]) -> Values | None:
        texts = [frame[self._text] for frame in frames]
        numbers = [[frame[at] for frame in frames] for at in self._numbers]
        whole = b"".join(frames)
        if b"" in texts or self._filled(texts, numbers) != whole:
            return None
        if not all(b"".join(row).isdigit() for row in numbers):
            return None
        if _CLEAN.fullmatch(b" ".join(texts)) is None:
            return None
        try:
            read = _TEXTS.decode(b'["' + b'","'.join(texts) + b'"]')
            told = [_NUMBERS.decode(b"[" + b",".join(row) + b"]") for row in numbers]
        except (msgspec.DecodeError, UnicodeDecodeError):  # half a character, say
            return None
        # A frame that tells the totals of the one before it tells no news.
        if told and not any(
            all(map(ne, row, [n, *row])) for n, row in zip(totals, told, strict=True)
        ):
            return None
        return Values(read, told, len(whole))

    def _filled(self, texts: Sequence[bytes], numbers: Sequence[Sequence[bytes]]) -> bytes:
        """Frames of this form with these values."""
        first, *rest = map(repeat, self._behind)
        behind = chain.from_iterable(zip(numbers, rest, strict=True))
        return b"".join(chain.from_iterable(zip(repeat(self._before), texts, first, *behind)))

    def probe(self, totals: Sequence[int]) -> bytes:
        """A frame of this form with a text and totals that no real one has."""
        return self._filled([PROBE.encode()], [[b"%d" % total] for total in totals])


def learn(frame: bytes, names: Collection[str]) -> Form | None:
    """The form of a frame, and of others that add to the same text and tell higher totals.

    Args:
        frame: Its lines, without the empty one.
        names: The totals that were others in the frame before.
    """
    text = _TEXT.search(frame)
    if text is None or not frame.startswith(DATA) or b"\n" in frame or b"\r" in frame:
        return None
    place = text.end(1)
    behind: list[bytes] = []
    found: list[str] = []
    for number in _NUMBER.finditer(frame, place):
        name = number[1].decode()
        if name in names and name not in found:
            behind.append(frame[place : number.start(2)])
            found.append(name)
            place = number.end(2)
    form = Form(frame[: text.start(1)], [*behind, frame[place:]], tuple(found))
    return form if len(found) == len(names) and _is_true(form, frame) else None


def _is_true(form: Form, frame: bytes) -> bool:
    """Whether a frame of this form says nothing else than this one, but for the values."""
    try:
        told = decode_chunk(frame[len(DATA) :])
    except (
        msgspec.ValidationError
    ):  # it was read member by member, since it does not fit as a whole
        return False
    match told.candidates:
        case [WireCandidate(content=WireContent(parts=[dict() as part]))]:
            pass
        case _:
            return False
    if part.get("text") == PROBE or not part.keys() <= {"text", "thought"}:
        return False
    usage: JsonObject = told.usage_metadata if isinstance(told.usage_metadata, dict) else {}
    others: list[int] = []
    for place, name in enumerate(form.names, 1):
        total = usage.get(name)
        if not isinstance(total, int):
            return False
        usage[name] = total + place
        others.append(total + place)
    part["text"] = PROBE
    return decode_chunk(form.probe(others)[len(DATA) :]) == told


__all__ = ["Form", "Values", "learn"]
