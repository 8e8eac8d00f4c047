"""A network that can be cut."""

from __future__ import annotations

import asyncio


class Proxy:
    """Carries the connections to a port, until it drops everything."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self._requests, self._answers = asyncio.Event(), asyncio.Event()
        self.heal()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self, *, answers_only: bool = False) -> None:
        """Pass nothing on, without closing a connection."""
        self._answers.clear()
        if not answers_only:
            self._requests.clear()

    def heal(self) -> None:
        """Pass everything on, also what came meanwhile."""
        self._requests.set()
        self._answers.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._requests.wait()
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self.target)
        ways = ((reader, to_writer, self._requests), (to_reader, writer, self._answers))
        for source, sink, passes in ways:
            task = asyncio.create_task(self._carry(source, sink, passes))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, passes: asyncio.Event) -> None:
        try:
            while data := await source.read(65536):
                await passes.wait()
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        finally:
            sink.close()
