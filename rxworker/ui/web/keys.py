"""What the handlers of one application share."""

from __future__ import annotations

import secrets

from aiohttp import web

from rxworker.ui.web.page import Page
from rxworker.ui.web.runs import Runs
from rxworker.ui.web.settings import Settings
from rxworker.ui.web.sockets import Sockets
from rxworker.ui.web.stream import Streams
from rxworker.ui.web.watching import Places
from rxworker.ui.web.workers import Workers, WorkerSource


class ServerState:
    """All that one application holds.

    Attributes:
        settings: How it behaves.
        instance: Another with each start.
        workers: Where workers come from.
        runs: The runs and their conversations.
        places: How many watch.
        streams: The streams that are being sent.
        sockets: The WebSockets that are open.
        page: The page's files.
    """

    def __init__(self, workers: Workers, settings: Settings) -> None:
        self.settings = settings
        self.instance = secrets.token_hex(8)
        self.workers = WorkerSource(workers, settings.prices)
        self.runs = Runs(self.workers, settings)
        self.places = Places(settings, self.runs.feed)
        self.streams = Streams(settings)
        self.sockets = Sockets()
        self.page = Page()

    def __repr__(self) -> str:
        return f"ServerState({self.settings!r})"

    async def close(self) -> None:
        """Cancel the runs, tell their watchers, and close all connections."""
        await self.runs.close()
        await self.sockets.close()
        await self.streams.close()
        self.runs.forget()


STATE = web.AppKey("rxworker", ServerState)
"""Where an application keeps it."""

__all__ = ["STATE", "ServerState"]
