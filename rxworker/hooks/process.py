"""A process and what it writes, from its start to its last byte."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Coroutine, Mapping
from pathlib import Path

# Seconds for the output of a process that has ended to be read to its end.
DRAIN = 1.0


class Output(asyncio.SubprocessProtocol):
    """Keeps the first bytes of what a process writes, reads the rest away, and knows when it has ended."""

    def __init__(self, limit: int) -> None:
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.truncated = False
        self._left = limit
        self._pieces: list[bytes] = []

    @property
    def text(self) -> str:
        """What is kept of it."""
        return b"".join(self._pieces).decode("utf-8", "replace")

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: ARG002 - part of the signature
        """The process has written something."""
        self.truncated = self.truncated or len(data) > self._left
        kept = data[: self._left]
        if kept:
            self._pieces.append(kept)
            self._left -= len(kept)

    def process_exited(self) -> None:
        """It has ended; what it wrote may still be on its way."""
        if not self.exited.done():
            self.exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - part of the signature
        """It has ended, and all that it wrote has come."""
        if not self.closed.done():
            self.closed.set_result(None)


async def start(
    words: list[str], output: Output, *, shell: bool, cwd: Path, env: Mapping[str, str]
) -> asyncio.SubprocessTransport:
    """Start a process whose output goes there.

    Raises:
        OSError: It cannot be started.
        ValueError: Its words cannot be passed on.
    """
    loop = asyncio.get_running_loop()

    def protocol() -> Output:
        return output

    # One pipe for both outputs keeps their order; a session of its own lets what the command starts be stopped with it.
    begin = loop.subprocess_shell if shell else loop.subprocess_exec
    transport, _ = await begin(
        protocol,
        *words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        env=env,
        start_new_session=True,
    )
    return transport


async def started(
    starting: Coroutine[object, object, asyncio.SubprocessTransport], output: Output
) -> asyncio.SubprocessTransport:
    """Wait until it has started, also when the task is cancelled meanwhile: half a start cannot be stopped."""
    task = asyncio.ensure_future(starting)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled() and task.exception() is None:
            await stop(task.result(), output)
        raise


async def stop(transport: asyncio.SubprocessTransport, output: Output) -> None:
    """End what still runs, and read what was written before."""
    _kill(transport, output)
    try:
        async with asyncio.timeout(DRAIN):
            await asyncio.shield(output.exited)
            await asyncio.shield(output.closed)
    except TimeoutError:
        # Something has left the session and keeps the pipe open; nobody waits for it.
        pass
    finally:
        transport.close()


def _kill(transport: asyncio.SubprocessTransport, output: Output) -> None:
    if sys.platform != "win32":
        try:
            os.killpg(transport.get_pid(), signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return
    elif not output.exited.done():
        transport.kill()


__all__ = ["DRAIN", "Output", "start", "started", "stop"]
