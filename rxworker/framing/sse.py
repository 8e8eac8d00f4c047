"""Server-sent events: bytes to frames, after the rules of the WHATWG.

The machine works on bytes and never on text, so a chunk may end inside a character. Lines end with LF, CR or CRLF. A CR
at the end of a chunk ends its line at once, without waiting for the LF that may follow; that LF is then dropped.

Three paths lead to the same frames. A chunk that is one whole frame of at most an ``event`` and one ``data`` line is
cut in two before its data. A chunk of nothing but such frames is cut up by a regular expression. Whatever else there is
goes line by line. What grows is kept in pieces and joined once, so that a frame that comes byte by byte costs no more
than one that comes whole. So is a frame that the chunk ends in: it is looked at when its end has come, with the frames
that come together with it. Comments are skipped all at once, since a server may send them for as long as it is silent.

No line, and no frame with all its lines, may be larger than a limit, so that one that never ends does not fill the
memory. Only what is larger than the limit as a whole is measured line by line, so that the limit means the same however
the bytes are cut.
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

_LINE_END = re.compile(rb"\r\n|\r|\n")
_HEAD = re.compile(HEAD % (rb".{0,%d}+" % LONGEST_NAME))
_COMMENTS = re.compile(rb"(?::[^\r\n]*+\r?+\n)*+")
_SILENCE = re.compile(rb"(?::[^\r\n]*+\r?+\n|\r?+\n)*+")  # with the empty lines between them
_BEFORE = re.compile(rb"\n\n" + _HEAD.pattern)


class SseDecoder:
    r"""Bytes to `SseFrame`.

    Args:
        stray: Lines whose field name SSE does not know are dropped by the rules, yet some servers put their errors
            there. With ``True`` they are gathered, and delivered as a frame with the event ``stray``.
        limit: Bytes that a line may have, and a frame with all its lines; ``None`` for any number.

    Attributes:
        limit: The same as a number; it may be changed.
        is_clear: Whether nothing is pending, so that the next byte begins a frame.

    >>> SseDecoder().feed(b"event: ping\ndata: 1\n\ndata: 2\n\n")
    [SseFrame(data=b'1', event='ping', id=None, retry=None), SseFrame(data=b'2', event='message', id=None, retry=None)]
    """

    _ready: list[SseFrame] | None = None  # the frames before one that was too large
    _size = 0  # bytes of the lines of the frame that is not whole
    _line_size = 0  # and of the line that is not
    _begun_size = 0
    is_clear = False
    _head: bytes | None = b""  # the first bytes, while they may be a BOM
    _after_cr = False
    _event = ""
    _id: str | None = None
    _retry: int | None = None

    def __init__(self, stray: bool = False, limit: int | None = MAX_FRAME) -> None:
        self._keep_stray = stray
        self.limit = maxsize if limit is None else limit
        # The pieces of what has no end yet; nothing was pending before.
        self._begun: list[bytes] = []
        self._line: list[bytes] = []  # the pieces of the unfinished line
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
        if not data:
            return []
        if not self.is_clear and self._head == b"" and not data.startswith(BOM[:1]):
            self._head, self.is_clear = None, True
        if CR in data and not self._after_cr:
            if self.is_clear and len(data) <= self.limit and (run := self._bare_run(data, b"\r\n\r\n")):
                return run
            # From here on, LF is the only line end. Between frames alone, CR LF is replaced in half the time.
            lines = b"\n\n".join(data.split(b"\r\n\r\n"))
            if CR in lines:
                lines = data.replace(b"\r\n", b"\n")
            if CR not in lines:
                data = lines
        if self._begun:
            self._begun_size += len(data)
            is_large = self._begun_size > self.limit
            if not (is_large or _may_end(data, self._begun[-1]) or data[-1:] == b"\n"):
                self._begun.append(data)
                return []
            data = b"".join((*self._begun, data))
            self._begun.clear()
            self.is_clear = True
        if not self.is_clear or CR in data or len(data) > self.limit:
            return self._take_slowly(data)
        # The usual case: a provider sends one event a chunk.
        if data.find(b"\n") == len(data) - 2 and data[:6] == BARE and data[-1:] == b"\n":
            return [SseFrame(data[6:-2], "message", self._id)]
        if data.find(b"\n\n") == len(data) - 2:
            head, _, value = data.partition(b"data: ")
            if value.find(b"\n") == len(value) - 2:
                event = _event_of(head) if len(head) <= LONGEST_HEAD else None
                if event:
                    return [SseFrame(value[:-2], event, self._id)]
        if data[:1] == b":":
            data = self._without_silence(data)
        return self._take_run(data) if data else []

    def finish(self) -> list[SseFrame]:
        """The stream ended. A last frame without its empty line is delivered: real servers end that way."""
        frames: list[SseFrame] = []
        if self.is_clear:
            return frames
        if self._ready is not None:
            return self._ready
        with suppress(RemoteProtocolError):  # then the last frame is too large, and was cut besides
            self._finish(frames)
        return frames

    def _finish(self, frames: list[SseFrame]) -> None:
        if self._head:
            head, self._head = self._head, None
            self._take(_LINE_END.split(head), frames)
        if self._begun:
            self._take_all(b"".join(self._begun), frames)
        if self._line:
            line, self._line = b"".join(self._line), []
            self._take_line(line, frames)
        self._dispatch(frames)

    def _take_run(self, data: bytes) -> Sequence[SseFrame]:
        """The quick path of plain frames; any other go line by line."""
        end = data.rfind(b"\n\n") + 2
        if end < len(data):
            return self._take_begun(data, end)
        if run := self._bare_run(data, b"\n\n"):
            return run
        if head := _HEAD.match(data):
            datas = _BEFORE.split(data)
            datas[0] = datas[0][head.end() :]
            datas[-1] = datas[-1][:-2]
            if b"\n" not in b"".join(datas):
                return SseRun(datas, data, self._id)
        frames: list[SseFrame] = []
        self._take_all(data, frames)
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

    def _take_begun(self, data: bytes, end: int) -> Sequence[SseFrame]:
        """The same up to the last end of a frame; what has only begun waits as it is."""
        begun = data[end:] if end > 1 else data
        frames: Sequence[SseFrame] = self._take_run(data[:end]) if end > 1 else ()
        # Whole lines are read at once: a server may send comments, and no empty line, for as long as it is silent.
        if self.is_clear and begun[-1:] != b"\n":
            self._begun, self.is_clear = [begun], False
            self._begun_size = len(begun)
            return frames
        more = [*frames]
        self._take_all(begun, more)  # or there was a ``retry``, which waits for the next frame
        return more

    def _take_slowly(self, data: bytes) -> list[SseFrame]:
        """Line by line to the first empty line, after which nothing is pending; the rest by the quick path."""
        if self._ready is not None:
            raise too_large(self.limit)
        if self._head is not None:
            data = self._without_bom(data)
        if self._after_cr and data:
            self._after_cr = False
            data = data.removeprefix(b"\n")
        frames: list[SseFrame] = []
        end = data.find(b"\n\n") + 2
        if b"\r" in data or end in (1, len(data)) or len(data) > self.limit:
            self._take_all(data, frames)
            return frames
        self._take_all(data[:end], frames)
        if self.is_clear:
            return [*frames, *self._take_run(data[end:])]
        self._take_all(data[end:], frames)  # only a ``retry`` waits after an empty line
        return frames

    def _take_all(self, data: bytes, frames: list[SseFrame]) -> None:
        """Line by line."""
        end = data.find(b"\n") + 1
        if self._line and end:
            self._take_lines(data[:end], frames)
            data = data[end:]
        if not (self._line or len(data) > self.limit):
            data = self._without_silence(data)
        self._take_lines(data, frames)
        self.is_clear = not (
            self._line
            or self._data
            or self._event
            or self._stray
            or self._after_cr
            or self._head is not None
            or self._retry is not None
        )

    def _without_silence(self, data: bytes) -> bytes:
        """The rest of bytes that begin a line, after comments, and after empty lines where these end no frame."""
        is_held = bool(self._data or self._stray or self._event)
        first = data[:1]
        if first != b":" and (is_held or first not in (b"\n", b"\r")):
            return data
        lines = (_COMMENTS if is_held else _SILENCE).match(data)
        return data[lines.end() :] if lines else data

    def _take_lines(self, data: bytes, frames: list[SseFrame]) -> None:
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            self._take(_LINE_END.split(data), frames)
        else:
            self._take(data.split(b"\n"), frames)

    def _without_bom(self, data: bytes) -> bytes:
        head = (self._head or b"") + data
        if len(head) < len(BOM) and BOM.startswith(head):
            self._head = head
            return b""
        self._head = None
        return head.removeprefix(BOM)

    def _take(self, lines: list[bytes], frames: list[SseFrame]) -> None:
        rest = lines.pop()
        if lines and self._line:
            lines[0] = b"".join((*self._line, lines[0]))
            self._line.clear()
            self._line_size = 0
        for line in lines:
            self._take_line(line, frames)
        if rest:
            self._line.append(rest)
            self._line_size += len(rest)
            if self._line_size > self.limit:
                self._refuse(frames)

    def _hold(self, values: list[bytes], value: bytes, size: int, frames: list[SseFrame]) -> None:
        """Keep a value until the end of its frame."""
        self._size += size + bool(self._size)
        if self._size > self.limit:
            self._refuse(frames)
        values.append(value)

    def _refuse(self, before: list[SseFrame]) -> None:
        self._ready, self.is_clear = before, False
        self._begun, self._line, self._data, self._stray = [], [], [], []
        raise too_large(self.limit)

    def _take_line(self, line: bytes, frames: list[SseFrame]) -> None:
        if not line:
            self._dispatch(frames)
            return
        if len(line) > self.limit:
            self._refuse(frames)
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


def _may_end(data: bytes, before: bytes) -> bool:
    """Whether an empty line ends with these bytes, or a CR may be the end of one."""
    return b"\n\n" in data or (data[:1] == b"\n" and before[-1:] == b"\n") or CR in data


@lru_cache(maxsize=64)  # a provider has a dozen
def _event_of(head: bytes) -> str | None:
    """The name of the event whose data begin after this, ``None`` where that takes a closer look."""
    if head[:7] == b"event: " and head.find(b"\n") == len(head) - 1:
        return head[7:-1].decode("utf-8", "replace") or "message"
    return None if head else "message"
