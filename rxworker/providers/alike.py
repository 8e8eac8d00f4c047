r"""Frames that are alike: read once, and from then on only the text in them that changes.

Written for speed. Nearly all of a response is one frame again and again, with another text in it. When a frame has made a
single delta, its bytes before and behind the text are kept as a pattern, and every frame that fits it is the same JSON with
another text: a JSON string ends at the first quote that is not escaped, so nothing else can differ. All such frames of a
chunk are cut up together (see `pattern`), and handed on as one row of texts (see `Deltas`).

What keeps it true:

* A pattern holds as long as frames fit it without a break. Whatever else comes goes the plain way, a window at a time: the decoder
  is given all of its frames (`Repeats.feed_many`), and asked anew what a frame like the last one would make.
* The decoder says so itself (`Repeats`), and is given the texts, so that what it remembers stays right.
* The text is looked for in the JSON with another in its place: it has to be one value, and to be there nowhere else.
* Fields that change and that the decoder does not read, such as a running number, may be anything simple.

The plain definition is `rxworker.framing.Chain` of the same two machines; ``tests/providers/test_alike.py`` holds them equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Protocol, TypeAlias, TypeVar, cast

import msgspec

from rxworker.events import InputJsonDelta, ResponseEvent
from rxworker.events.deltas import FEW, Deltas, Growing
from rxworker.events.kinds import MERGEABLE
from rxworker.messages import Json
from rxworker.providers.pattern import FEW as SHORT_ROW
from rxworker.providers.pattern import Constant, Pattern, Varying
from rxworker.providers.rows import Row
from rxworker.providers.together import Framing, Gathers, Together

F = TypeVar("F")
F_contra = TypeVar("F_contra", contravariant=True)

Repeat: TypeAlias = Callable[[list[str]], Row]

MOST_PATTERNS = (
    512  # a response has one for each sort of block; some protocols have the same in all responses
)
FIRST_WINDOW = 2 * 1024
WINDOW = 16 * 1024
"""So many bytes are read the plain way before a pattern is tried, at first and in the end. Where rows are short, patterns cost more."""

HEAD = 24
"""So many bytes tell one sort of frame from another."""

PROBE = "rxworker probe"

# What was found to be a pattern is one for every response: it is about the bytes of a frame alone.
_known: dict[tuple[tuple[bytes, ...], tuple[bytes, ...]], Pattern] = {}


def repeated(delta: ResponseEvent) -> Repeat | None:
    """Deltas like this one with other texts, for decoders that remember nothing of a delta.

    >>> from rxworker.events import TextDelta
    >>> repeat = repeated(TextDelta(0, "a"))
    >>> repeat and list(repeat(["b", "c"]))
    [TextDelta(index=0, text='b', choice=0), TextDelta(index=0, text='c', choice=0)]
    """
    return partial(Deltas, delta) if delta.__class__ in MERGEABLE else None


class Repeats(Gathers[F_contra], Protocol[F_contra]):
    """A decoder that knows what frames would make that are like the last one."""

    def repeat(self, delta: ResponseEvent, /) -> Repeat | None:
        """What frames would make that are the one which has just made this delta, but with other texts, none of them empty.

        ``None`` where that cannot be said. It is called before any other frame is fed, and what it returns is not called any more
        once one was.
        """
        ...


class Alike(Together[F]):
    r"""A decoder from bytes to events that reads frames which are alike in one go.

    Args:
        framing: Bytes to frames.
        decoder: Frames to events.
        end: What a frame ends with.
        varying: The fields that change with every frame, and that the decoder does not read.

    >>> from rxworker.framing import SseDecoder
    >>> from rxworker.providers.anthropic.decode import AnthropicDecoder
    >>> machine = Alike(SseDecoder(), AnthropicDecoder())
    >>> frame = b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}}\n\n'
    >>> [event.text for event in machine.feed(b"".join(frame % word for word in (b"a", b"b", b"c")))[1:]]
    ['a', 'b', 'c']
    """

    def __init__(
        self,
        framing: Framing[F],
        decoder: Repeats[F],
        *,
        end: bytes = b"\n\n",
        varying: tuple[str, ...] = (),
    ) -> None:
        self._framing = framing
        self._decoder: Repeats[F] = decoder
        self._end = end
        self._varying = _any_value_of(varying) if varying else None
        self._learned: Growing | None = None
        self._pattern: Pattern | None = None
        self._repeat: Repeat | None = None
        # A pattern with fields that change costs more, and more frames have to come until it pays.
        self._widest = 3 * WINDOW if varying else WINDOW
        self._window = FIRST_WINDOW  # bytes to read the plain way where no pattern fits

    def feed_rows(self, data: bytes, /) -> Sequence[ResponseEvent | Row]:
        """See `Together`."""
        framing = self._framing
        if framing.limit is not None and len(data) > framing.limit:  # each frame is measured
            self._pattern = None
            return super().feed_rows(data)
        if self._pattern is not None and self._repeat is not None and framing.is_clear:
            text = self._pattern.only(data)
            if text is not None:
                return (self._repeat([text]).first,)
        made: list[ResponseEvent | Row] = []
        place = 0
        while place < len(data):
            pattern, repeat = self._pattern, self._repeat
            if pattern is not None and repeat is not None and framing.is_clear:
                texts, end = pattern.take(data, place)
                if texts:
                    if len(texts) >= SHORT_ROW:
                        self._window = FIRST_WINDOW
                    self._add(repeat(texts), made)
                    place = end
                    continue
            self._pattern = None
            # Of few bytes, it is not worth while to look for what is alike in them.
            is_short = len(data) - place <= self._widest and data.endswith(self._end)
            end = len(data) if is_short else self._end_of_window(data, place)
            self._take_window(data[place:end], made)
            if self._pattern is None and framing.is_clear:
                self._window = min(2 * self._window, self._widest)
            place = end
        return made

    def _end_of_window(self, data: bytes, place: int) -> int:
        """Where what is read the plain way ends: behind a frame, if there is an end of one."""
        mark = self._end
        size = self._widest if len(data) - place <= self._widest else self._window
        found = data.rfind(mark, place, place + size)
        if found < 0:
            found = data.find(mark, place + size - len(mark))
        return found + len(mark) if found >= 0 else len(data)

    def _take_window(self, data: bytes, made: list[ResponseEvent | Row]) -> None:
        """Read some bytes the plain way, and learn from their last frame if others like it are to be expected."""
        framing, decoder, mark = self._framing, self._decoder, self._end
        rows: Sequence[ResponseEvent | Row] = ()
        last = data.rfind(mark, 0, -len(mark))
        if last >= 0:
            begin = last + len(mark)
            before = data.rfind(mark, 0, last)
            before = before + len(mark) if before >= 0 else 0
            # Nothing is to be learned from a frame that is the first of its sort, such as the last one of a response.
            if data[before : before + HEAD] != data[begin : begin + HEAD]:
                made += decoder.feed_many(framing.feed_run(data))
                return
            rows = decoder.feed_many(framing.feed_run(data[:begin]))
            made += rows
            data = data[begin:]
        was_clear = framing.is_clear
        frames = framing.feed_run(data)
        if len(frames) != 1:
            made += decoder.feed_many(frames)
            return
        events = decoder.feed(frames[0])
        made += events
        if len(events) != 1 or not was_clear or not data.endswith(mark):
            return
        delta = events[0]
        # The arguments of a call are short, as a rule.
        is_long = len(rows) <= 1 or delta.__class__ is not InputJsonDelta
        if is_long and delta.__class__ in MERGEABLE:
            self._learn(data, cast("Growing", delta))

    def _add(self, row: Row, made: list[ResponseEvent | Row]) -> None:
        """Put a row behind what there is, and the delta that it was learned from into it."""
        learned = self._learned
        if learned is not None and made and made[-1] is learned:
            made.pop()
            row = Deltas(row.like, [learned.text, *row.texts])
        if len(row) < FEW:
            made.extend(row)
        else:
            made.append(row)

    def _learn(self, frame: bytes, delta: Growing) -> None:
        """Keep what is around the text in the frame that has made this delta."""
        self._learned, self._repeat = delta, self._decoder.repeat(delta) if delta.text else None
        if self._repeat is None:
            return
        text = msgspec.json.encode(delta.text)
        # The last is another one where the text looks like what stands between two others.
        for place in dict.fromkeys((frame.find(text), frame.rfind(text))):
            behind = frame[place + len(text) - 1 :]
            if place >= 0 and self._pattern is None:
                self._pattern = self._pattern_of(frame[: place + 1], delta.text, behind)

    def _pattern_of(self, before: bytes, text: str, behind: bytes) -> Pattern | None:
        """What is the same in all frames like this one, if the text is one value of it, and all that changes."""
        key = ahead, rest = self._split(before), self._split(behind)
        pattern = _known.get(key)
        if pattern is None and _is_all_of(before, text, behind):
            if len(_known) >= MOST_PATTERNS:
                _known.clear()
            _known[key] = pattern = (
                Constant(before, behind, self._end)
                if len(ahead) == len(rest) == 1
                else Varying((*ahead, *rest), len(ahead) - 1)
            )
        return pattern

    def _split(self, around: bytes) -> tuple[bytes, ...]:
        """A part of a frame, cut where the varying fields stand in it."""
        if self._varying is None:
            return (around,)
        parts: list[bytes] = []
        place = 0
        while field := self._varying.search(around, place):
            parts.append(around[place : field.start(1)])
            place = field.end(1)
        return (*parts, around[place:])


@lru_cache(maxsize=16)
def _any_value_of(fields: tuple[str, ...]) -> re.Pattern[bytes] | None:
    """What finds the values of these fields, simple ones."""
    if not fields:
        return None
    names = "|".join(map(re.escape, fields))
    return re.compile(rf'"(?:{names})":([\d.]++|"[^"\\]*+")(?=[,}}])'.encode())


def _is_all_of(before: bytes, text: str, behind: bytes) -> bool:
    """Whether a text between these bytes is one value of the frame's JSON, and the frame holds it nowhere else."""
    frame = before + PROBE.encode() + behind
    try:
        value: Json = msgspec.json.decode(frame[frame.index(b"{") : frame.rindex(b"}") + 1])
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError):
        return False
    return _count(value, PROBE) == 1 and _count(value, text) == 0


def _count(value: Json, text: str) -> int:
    if isinstance(value, str):
        return value == text
    if isinstance(value, list):
        return sum(_count(member, text) for member in value)
    if isinstance(value, dict):
        return sum(_count(member, text) + (name == text) for name, member in value.items())
    return 0


__all__ = ["Alike", "Repeat", "Repeats", "repeated"]
