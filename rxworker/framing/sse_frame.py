"""Frames of server-sent events: one, and several that came together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from typing import overload

from msgspec import Struct

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
    if isinstance(frames, SseRun):
        return frames.has(name)
    return any(frame.event == name for frame in frames)


@lru_cache(maxsize=64)  # a provider has a dozen
def _name_of(name: bytes) -> str:
    """The name of an event as text."""
    return name.decode("utf-8", "replace") if name else "message"
