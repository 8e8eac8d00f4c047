"""The patterns of frames that are alike: what is the same in all of them, and how the texts between are found. Pure.

Theory of operation. A window of the bytes is cut up in one go. Whether it holds nothing but such frames is not looked at frame by
frame: it is put together again from the pattern and what was cut out, and has to be the same bytes. Where a row of frames ends is
not known before, so windows grow; the one in which it ends is read frame by frame.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Protocol

import msgspec

FIRST_WINDOW = 2 * 1024
WINDOW = 64 * 1024
"""So many bytes are read at once: what is made of them stays in the processor's cache."""

FEW = 16
"""For so many frames of a row it is not worth while to look for all of it."""

LEAD = 6
"""So many of its first bytes tell an expression where a frame may begin."""

_CLEAN = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrtu])++')
_TEXT = rb'([^"\\\x00-\x1f]*+(?:\\[^\n][^"\\\x00-\x1f]*+)*+)'
_SIMPLE = rb'([\d.]++|"[^"\\\n]*+")'
_TEXT_OF = msgspec.json.Decoder(str)
_TEXTS = msgspec.json.Decoder(list[str])


class Pattern(Protocol):
    """What is the same in frames that are alike, and how their texts are found."""

    def only(self, data: bytes) -> str | None:
        """The text of the frame that these bytes are, if they are one that fits. The usual case: a provider sends one event a chunk."""
        ...

    def take(self, data: bytes, place: int) -> tuple[list[str], int]:
        """The texts of the frames from this place on, up to the first that does not fit; and where they end."""
        ...


class Constant:
    """Frames in which nothing changes but the text.

    Args:
        before: What a frame begins with, up to the text.
        behind: The rest of it.
        end: What a frame ends with, and what stands nowhere else in it.
    """

    __slots__ = ("_before", "_behind", "_between", "_end", "_tail", "_text")

    def __init__(self, before: bytes, behind: bytes, end: bytes) -> None:
        self._before = before
        self._behind = behind
        self._between = behind + before
        self._end = end
        self._tail = behind.removesuffix(end)
        self._text = slice(len(before), -len(self._tail))

    def only(self, data: bytes) -> str | None:
        """See `Pattern`."""
        before, behind = self._before, self._behind
        if not data.startswith(before) or not data.endswith(behind):
            return None
        return _read_one(data[len(before) : -len(behind)])

    def take(self, data: bytes, place: int) -> tuple[list[str], int]:
        """See `Pattern`."""
        before, behind = self._before, self._behind
        texts: list[bytes] = []
        end, size = self._take_some(data, place, texts), FIRST_WINDOW
        while len(texts) >= FEW and data.startswith(before, end) and end - place < WINDOW:
            frames = data[end : end + size].split(self._end)
            frames.pop()  # the window ends in it
            row = [frame[self._text] for frame in frames]
            if not data.startswith(before + self._between.join(row) + behind, end):
                row = row[: self._fitting(frames)]
                if not row and (frames or end + size >= len(data)):
                    break
            texts += row
            end = self._behind_of(row, end)
            size *= 2
        read = _read(texts)
        return read, end if len(read) == len(texts) else self._behind_of(texts[: len(read)], place)

    def _take_some(self, data: bytes, end: int, texts: list[bytes]) -> int:
        """Take a few, one by one, as long as they fit; where they end."""
        before, tail, mark = self._before, self._tail, self._end
        for _ in range(FEW):
            if not data.startswith(before, end):
                break
            begin = end + len(before)
            stop = data.find(mark, begin)
            behind = stop - len(tail)
            if behind < begin or not data.startswith(tail, behind):
                break
            texts.append(data[begin:behind])
            end = stop + len(mark)
        return end

    def _fitting(self, frames: Iterable[bytes]) -> int:
        """How many there are before the first that does not fit."""
        fitting = 0
        for frame in frames:
            if not (frame.startswith(self._before) and frame.endswith(self._tail)):
                break
            fitting += 1
        return fitting

    def _behind_of(self, texts: Sequence[bytes], place: int) -> int:
        """Where the frames with these texts end."""
        return place + sum(map(len, texts)) + len(texts) * len(self._between)


class Varying:
    """Frames in which some simple fields change, too.

    The expression that cuts them up knows only how long each part is that stays the same, so that other responses can use it as
    well: to make one takes longer than to read a hundred frames.

    Args:
        parts: What stays the same, in order. Between two of them stands what changes.
        place: Behind which of them the text stands.
    """

    __slots__ = ("_form", "_shape", "_text")

    def __init__(self, parts: Sequence[bytes], place: int) -> None:
        self._shape = _shape(parts[0][:LEAD], tuple(map(len, parts)), place)
        self._form = b"%b".join([part.replace(b"%", b"%%") for part in parts])
        self._text = place

    def only(self, data: bytes) -> str | None:
        """See `Pattern`."""
        one = self._shape.fullmatch(data)
        if one is None:
            return None
        values = one.groups()
        return _read_one(values[self._text]) if self._form % values == data else None

    def take(self, data: bytes, place: int) -> tuple[list[str], int]:
        """See `Pattern`."""
        texts: list[bytes] = []
        end, size = self._take_some(data, place, texts), FIRST_WINDOW
        while len(texts) >= FEW and end - place < WINDOW:
            rows = self._shape.findall(data, end, end + size)
            whole = (self._form * len(rows)) % tuple(chain.from_iterable(rows))
            if rows and data.startswith(whole, end):
                texts += [row[self._text] for row in rows]
                end += len(whole)
                size *= 2
            elif size > FIRST_WINDOW:
                size = FIRST_WINDOW
            elif (behind := self._take_some(data, end, texts)) > end:
                end = behind
            else:
                break
        read = _read(texts)
        if len(read) < len(texts):
            end = self._take_some(data, place, [], len(read))
        return read, end

    def _take_some(self, data: bytes, end: int, texts: list[bytes], most: int = FEW) -> int:
        """Take a few, one by one, as long as they fit; where they end."""
        for _ in range(most):
            one = self._shape.match(data, end)
            if one is None:
                break
            values = one.groups()
            if self._form % values != one[0]:
                break
            texts.append(values[self._text])
            end = one.end()
        return end


def _read_one(text: bytes) -> str | None:
    """The text that this is in JSON, if it is one."""
    if _CLEAN.fullmatch(text) is None:
        return None
    try:
        return _TEXT_OF.decode(b'"' + text + b'"')
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # half a character: the plain way knows what to do


def _read(texts: Sequence[bytes]) -> list[str]:
    """The texts that these are in JSON, up to the first that is none."""
    try:
        if b"" not in texts and _CLEAN.fullmatch(b" ".join(texts)):
            return _TEXTS.decode(b'["' + b'","'.join(texts) + b'"]')
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass  # half a character: the plain way knows what to do
    # Twice as many are looked at as are read then, however many there are.
    half = len(texts) // 2
    read = _read(texts[:half]) if half else []
    return read + _read(texts[half:]) if half and len(read) == half else read


@lru_cache(maxsize=256)
def _shape(lead: bytes, lengths: tuple[int, ...], place: int) -> re.Pattern[bytes]:
    """An expression for parts of these lengths, with the text behind one of them and anything simple behind the others."""
    first, *rest = lengths
    parts = [re.escape(lead), b".{%d}" % (first - len(lead))]
    for n, length in enumerate(rest):
        parts += [_TEXT if n == place else _SIMPLE, b".{%d}" % length]
    return re.compile(b"".join(parts), re.DOTALL)


__all__ = ["Constant", "Pattern", "Varying"]
