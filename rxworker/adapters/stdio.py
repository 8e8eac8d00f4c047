"""Standard input and output for a protocol alone: lines in and out, and all else that is printed on standard error.

Theory of operation. Threads read and write, since a file, a terminal and a pipe of Windows cannot be used by an event
loop. Both are daemons, and neither is waited for: a client that no longer reads must not keep the process alive. While
the streams are claimed, descriptor 0 is empty and descriptor 1 is standard error, so that neither ``print`` in a tool
nor a program that a tool starts can read or write a message.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sys
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager, suppress

from rxworker.hub.watcher import wake

CHUNK = 65_536
AHEAD = 16
"""How many chunks are read ahead of the program; what is not read stays in the pipe."""


class LineSplitter:
    r"""Cuts chunks into lines. A line that is too long is dropped, and ``None`` stands for it.

    Args:
        limit: The maximum number of bytes of a line.

    >>> splitter = LineSplitter(4)
    >>> splitter.feed(b"ab\ncd"), splitter.feed(b"efg"), splitter.feed(b"h\nxy\n"), splitter.finish()
    ([b'ab'], [], [None, b'xy'], [])
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes | None]:
        """Take the next bytes; return the lines that they completed."""
        *ends, rest = data.split(b"\n")
        lines: list[bytes | None] = []
        for end in ends:
            self._add(end)
            lines.extend(self.finish() or [b""])
        self._add(rest)
        return lines

    def finish(self) -> list[bytes | None]:
        """Return the last line, if there is one."""
        size, pieces = self._size, self._pieces
        self._pieces, self._size = [], 0
        if size > self._limit:
            return [None]
        return [b"".join(pieces)] if size else []

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            self._pieces.clear()
        elif piece:
            self._pieces.append(piece)


class LineStreams:
    """Lines over two file descriptors. It belongs to the event loop that it is made on.

    Args:
        source: The descriptor to read.
        sink: The descriptor to write.
        limit: The maximum number of bytes of a line that is read.
    """

    def __init__(self, source: int, sink: int, *, limit: int) -> None:
        self._source, self._sink = source, sink
        self._splitter = LineSplitter(limit)
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = threading.Semaphore(AHEAD)
        self._lines: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        for work in (self._read, self._write):
            threading.Thread(target=work, name=f"rxworker{work.__name__}", daemon=True).start()

    async def lines(self) -> AsyncGenerator[bytes | None, None]:
        """The lines, up to the end of the input. ``None`` stands for a line that was too long, and was dropped."""
        while chunk := await self._chunks.get():
            self._room.release()
            for line in self._splitter.feed(chunk):
                yield line
        for line in self._splitter.finish():
            yield line

    async def write(self, line: bytes) -> None:
        """Write a line, and wait until the system has taken it.

        Raises:
            OSError: The client no longer reads.
        """
        future: asyncio.Future[None] = self._loop.create_future()
        self._lines.put((line + b"\n", future))
        await future

    def _read(self) -> None:
        chunk = b"?"
        while chunk:
            self._room.acquire()
            try:
                chunk = os.read(self._source, CHUNK)
            except OSError:
                chunk = b""
            try:
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)
            except RuntimeError:
                return  # the event loop has ended

    def _write(self) -> None:
        while True:
            line, future = self._lines.get()
            error: OSError | None = None
            try:
                while line:
                    line = line[os.write(self._sink, line) :]
            except OSError as caught:
                error = caught
            with suppress(RuntimeError):  # the event loop has ended
                self._loop.call_soon_threadsafe(wake, (future,), error)


@contextmanager
def standard_streams(*, limit: int) -> Generator[LineStreams, None, None]:
    """Claim standard input and output for the time of the block.

    Args:
        limit: The maximum number of bytes of a line that is read.
    """
    # The copies stay open: a thread may still use one after the block.
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    sys.stdout.flush()
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # standard error is closed
        os.dup2(nothing, 1)
    os.close(nothing)
    try:
        yield LineStreams(source, sink, limit=limit)
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()  # to standard error: it is not part of the protocol
        os.dup2(source, 0)
        os.dup2(sink, 1)
