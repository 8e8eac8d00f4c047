"""Server-sent events: bytes to frames, after the rules of the WHATWG.

The machine works on bytes and never on text, so a chunk may end inside a character. Lines end with LF, CR or CRLF. A CR
at the end of a chunk ends its line at once, without waiting for the LF that may follow; that LF is then dropped. All
line ends become LF first.

Three paths lead to the same frames. A chunk that is one whole frame of at most an ``event`` and one ``data`` line is
cut in two before its data. A chunk of nothing but such frames is cut up by a regular expression. Whatever else there is
goes line by line. What follows the last empty line of a chunk is kept in pieces as it came, and joined once when its
end has come, so that a frame that comes byte by byte costs no more than one that comes whole. Comments are skipped all
at once, since a server may send them for as long as it is silent.

No line, and no frame with all its lines, may be larger than a limit, so that one that never ends does not fill the
memory. Only what is larger than the limit as a whole is measured, line by line as the lines come, so that the limit
means the same however the bytes are cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import repeat
from sys import maxsize
from typing import overload

from msgspec import Struct

from rxworker.errors import RemoteProtocolError
from rxworker.framing.decoder import MAX_FRAME, too_large

LONGEST_NAME = 64
"""Bytes of an event's name, of those that are read quickly."""

# What stands before the data of a frame, if there is nothing but the name of its event.
HEAD = rb"(?:event: ?%b\n|)data: ?"
_NAME = re.compile(rb"^" + HEAD % (rb"(.{0,%d}+)" % LONGEST_NAME), re.MULTILINE)


class SseFrame(Struct, frozen=True, gc=False):
    """One event of the stream.

    Attributes:
        data: Its ``data`` lines, joined with LF.
        event: Its name; ``message`` where none was sent, ``stray`` for lines that are not fields (see `SseDecoder`).
        id: The last ``id`` the stream has sent so far.
        retry: Milliseconds to wait before a new connection, if the stream has sent it since the last frame.
    """

    data: bytes
    event: str = "message"
    id: str | None = None
    retry: int | None = None


class SseRun(Sequence[SseFrame]):
    r"""Frames that arrived together, each created when it is accessed: most readers need only their data.

    Args:
        datas: The data of each.
        source: The bytes that they were read from, of at most an ``event`` and one ``data`` line each; nothing where no
            names are among them.
        last_id: The last ``id`` that the stream has sent.

    >>> run = SseRun([b"1", b"2"], b"event: ping\ndata: 1\n\ndata: 2\n\n", None)
    >>> run[0], len(run)
    (SseFrame(data=b'1', event='ping', id=None, retry=None), 2)
    """

    __slots__ = ("_last_id", "_names", "_source", "datas")

    def __init__(self, datas: list[bytes], source: bytes, last_id: str | None) -> None:
        self.datas = datas
        self._source = source
        self._names: list[bytes] | None = None
        self._last_id = last_id

    def __len__(self) -> int:
        return len(self.datas)

    @overload
    def __getitem__(self, place: int, /) -> SseFrame: ...
    @overload
    def __getitem__(self, place: slice, /) -> list[SseFrame]: ...
    def __getitem__(self, place: int | slice, /) -> SseFrame | list[SseFrame]:
        if isinstance(place, slice):
            return list(self)[place]
        return SseFrame(self.datas[place], _name_of(self._named()[place]), self._last_id)

    def __iter__(self) -> Iterator[SseFrame]:
        return map(SseFrame, self.datas, map(_name_of, self._named()), repeat(self._last_id))

    def has(self, name: str) -> bool:
        """Whether one of them has this name."""
        return bool(self._source) and name.encode() in self._named()

    def _named(self) -> list[bytes]:
        """The names as they were sent, empty where there is none."""
        if self._names is None:
            names: list[bytes] = _NAME.findall(self._source)
            self._names = names if self._source else [b""] * len(self.datas)
        return self._names


def datas_of(frames: Sequence[SseFrame]) -> list[bytes]:
    """The data of frames."""
    return frames.datas if isinstance(frames, SseRun) else [frame.data for frame in frames]


def has_event(frames: Sequence[SseFrame], name: str) -> bool:
    """Whether one of the frames has this name."""
    return frames.has(name) if isinstance(frames, SseRun) else any(frame.event == name for frame in frames)


@lru_cache(maxsize=64)  # a provider has a dozen
def _name_of(name: bytes) -> str:
    """The name of an event as text."""
    return name.decode("utf-8", "replace") if name else "message"


BOM = b"\xef\xbb\xbf"
STRAY = "stray"
"""The event name of an `SseFrame` for a line outside the format."""
CR = ord("\r")

BARE = b"data: "

LONGEST_HEAD = 64  # bytes, of those that are remembered

_HEAD = re.compile(HEAD % (rb".{0,%d}+" % LONGEST_NAME))
_COMMENT = re.compile(rb"^:.*\n", re.MULTILINE)
_COMMENTS = re.compile(rb"(?::.*+\n)*+")
_SILENCE = re.compile(rb"(?::.*+\n|\n)*+")  # with the empty lines between them
_BEFORE = re.compile(rb"\n\n" + _HEAD.pattern)


class SseDecoder:
    r"""Bytes to `SseFrame`.

    Args:
        stray: Lines whose field name SSE does not know are dropped by the rules, yet some servers put their errors
            there. With ``True`` they are gathered, and delivered as a frame with the event ``stray``.
        limit: Bytes that a line may have, and a frame with all its lines; ``None`` for any number.

    Attributes:
        limit: The same as a number; it may be changed.

    >>> SseDecoder().feed(b"event: ping\ndata: 1\n\ndata: 2\n\n")
    [SseFrame(data=b'1', event='ping', id=None, retry=None), SseFrame(data=b'2', event='message', id=None, retry=None)]
    """

    _ready: list[SseFrame] | None = None  # the frames before one that was too large
    _head: bytes | None = b""  # the first bytes, while they may be a BOM
    _after_cr = False
    _begun = False  # lines of a frame, or a ``retry`` for the next one, were taken
    _size = 0  # bytes of these lines
    _held_size = 0
    _event = ""
    _id: str | None = None
    _retry: int | None = None

    def __init__(self, stray: bool = False, limit: int | None = MAX_FRAME) -> None:
        self._keep_stray = stray
        self.limit = maxsize if limit is None else limit
        self._held: list[bytes] = []  # the pieces of what has no end yet
        self._data: list[bytes] = []
        self._stray: list[bytes] = []

    def feed(self, data: bytes, /) -> list[SseFrame]:
        """Take the next bytes; return the frames they completed.

        Raises:
            RemoteProtocolError: A line or frame is larger than the limit. `finish` returns the frames before it.
        """
        return [*self.feed_run(data)]

    def feed_run(self, data: bytes, /) -> Sequence[SseFrame]:
        """The same; frames that arrived together may be created when they are accessed."""
        if self._head is not None:
            data = self._head + data
            if len(data) < len(BOM) and BOM.startswith(data):
                self._head = data
                return []
            self._head = None
            data = data.removeprefix(BOM)
        if not data:
            return []
        if CR in data or self._after_cr:
            is_plain = not (self._held or self._begun or self._after_cr) and len(data) <= self.limit
            if is_plain and (run := self._bare_run(data, b"\r\n\r\n")):
                return run
            data = self._with_lf(data)
        if held := self._held:
            if data[:1] == b":" and held[-1][-1:] == b"\n" and len(data) <= self.limit:
                data = data[_end_of(_COMMENTS, data) :]
            if not data:
                return []
            self._held_size += len(data)
            is_end = b"\n" in data if self._begun else b"\n\n" in data or (data[:1] == b"\n" == held[-1][-1:])
            if not is_end and self._held_size <= self.limit:
                held.append(data)
                return []
            data = b"".join((*held, data))
            held.clear()
        if self._begun or len(data) > self.limit:
            return self._take_measured(data)
        # The usual case: a provider sends one event a chunk.
        if data.find(b"\n") == len(data) - 2 and data[:6] == BARE and data[-1:] == b"\n":
            return [SseFrame(data[6:-2], "message", self._id)]
        if data.find(b"\n\n") == len(data) - 2:
            head, _, value = data.partition(b"data: ")
            if value.find(b"\n") == len(value) - 2:
                event = _event_of(head) if len(head) <= LONGEST_HEAD else None
                if event:
                    return [SseFrame(value[:-2], event, self._id)]
        if data[:1] in (b":", b"\n"):
            data = data[_end_of(_SILENCE, data) :]
        end = data.rfind(b"\n\n") + 2 if b"\n\n" in data else 0
        frames: Sequence[SseFrame] = self._take_run(data[:end]) if end else ()
        rest = data[end:]
        if end and rest[:1] in (b":", b"\n"):
            rest = rest[_end_of(_SILENCE, rest) :]
        if rest:
            held.append(rest)
            self._held_size = len(rest)
        return frames

    def finish(self) -> list[SseFrame]:
        """The stream ended. A last frame without its empty line is delivered: real servers end that way."""
        if self._ready is not None:
            return self._ready
        frames: list[SseFrame] = []
        rest = (self._head or b"") + b"".join(self._held)
        if rest or self._begun:
            with suppress(RemoteProtocolError):  # then the last frame is too large, and was cut besides
                self._take_lines(rest, frames)
                self._dispatch(frames)
        return frames

    def _with_lf(self, data: bytes) -> bytes:
        """The bytes with LF as their only line end."""
        if self._after_cr:
            data = data.removeprefix(b"\n")
        self._after_cr = data.endswith(b"\r")
        # Between frames alone, CR LF is replaced in half the time.
        lines = b"\n\n".join(data.split(b"\r\n\r\n"))
        return lines if CR not in lines else data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _take_run(self, data: bytes) -> Sequence[SseFrame]:
        """Whole frames: the quick path of plain ones; any other go line by line."""
        if run := self._bare_run(data, b"\n\n"):
            return run
        if head := _HEAD.match(data):
            datas = _BEFORE.split(data)
            datas[0] = datas[0][head.end() :]
            datas[-1] = datas[-1][:-2]
            if b"\n" not in b"".join(datas):
                return SseRun(datas, data, self._id)
        frames: list[SseFrame] = []
        self._take_lines(data[:-1], frames)
        return frames

    def _bare_run(self, data: bytes, end: bytes) -> Sequence[SseFrame] | None:
        """Frames of one line of data each: a provider that names no event names none. ``None`` for any other."""
        if not (data.startswith(BARE) and data.endswith(end)):
            return None
        datas = data[len(BARE) : -len(end)].split(end + BARE)
        lines = b"".join(datas)
        if b"\n" in lines or CR in lines:
            return None
        return SseRun(datas, b"", self._id) if len(datas) > 1 else [SseFrame(datas[0], "message", self._id)]

    def _take_measured(self, data: bytes) -> list[SseFrame]:
        """The whole lines, one by one; the line that has only begun waits."""
        if self._ready is not None:
            raise too_large(self.limit)
        frames: list[SseFrame] = []
        end = data.rfind(b"\n") + 1
        if end:
            self._take_lines(data[: end - 1], frames)
        if rest := data[end:]:
            if len(rest) > self.limit:
                self._refuse(frames)
            self._held, self._held_size = [rest], len(rest)
        return frames

    def _take_lines(self, data: bytes, frames: list[SseFrame]) -> None:
        if len(data) <= self.limit and (data[:1] == b":" or b"\n:" in data):
            data = _COMMENT.sub(b"", data)
        for line in data.split(b"\n"):
            if line:
                self._take_line(line, frames)
            else:
                self._dispatch(frames)

    def _hold(self, values: list[bytes], value: bytes, size: int, frames: list[SseFrame]) -> None:
        """Keep a value until the end of its frame."""
        self._size += size + bool(self._size)
        if self._size > self.limit:
            self._refuse(frames)
        values.append(value)

    def _refuse(self, before: list[SseFrame]) -> None:
        self._ready, self._begun = before, True
        self._held, self._data, self._stray = [], [], []
        raise too_large(self.limit)

    def _take_line(self, line: bytes, frames: list[SseFrame]) -> None:
        if len(line) > self.limit:
            self._refuse(frames)
        self._begun = True
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._hold(self._data, value, len(line), frames)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id":
            if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
        elif name == b"retry":
            if value.isdigit():
                self._retry = int(value[:18])
        elif name and self._keep_stray:
            self._hold(self._stray, line, len(line), frames)

    def _dispatch(self, frames: list[SseFrame]) -> None:
        if self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            frames.append(SseFrame(data, self._event or "message", self._id, self._retry))
            self._data = []
            self._retry = None
        if self._stray:
            frames.append(SseFrame(b"\n".join(self._stray), STRAY, self._id))
            self._stray = []
        self._event = ""
        self._size = 0
        self._begun = self._retry is not None


def _end_of(pattern: re.Pattern[bytes], data: bytes) -> int:
    """Where what the pattern matches at the beginning ends."""
    found = pattern.match(data)
    return found.end() if found else 0


@lru_cache(maxsize=64)  # a provider has a dozen
def _event_of(head: bytes) -> str | None:
    """The name of the event whose data begin after this, ``None`` where that takes a closer look."""
    if head[:7] == b"event: " and head.find(b"\n") == len(head) - 1:
        return head[7:-1].decode("utf-8", "replace") or "message"
    return None if head else "message"
