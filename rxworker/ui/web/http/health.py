"""Answers for the probes of service managers and load balancers.

Whether a process lives, and whether it takes requests.

They need no token, since they reveal nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web

from rxworker.log import EventLog, RunInfo
from rxworker.ui.web.http.request import Route, WebRequest, get

STARTING, CLOSING, LOG_FAILED = "starting", "closing", "the log cannot be read"
"""The reasons why a process takes no requests."""

PROBES = frozenset({"healthz", "readyz"})
"""The routes of probes."""


PATIENCE = 2.0
"""Seconds that a log may take to answer when a probe arrives."""

Look = asyncio.Task[RunInfo | None]
"""A request to a log."""


def health_routes(
    find_obstacle: Callable[[], str], find_log: Callable[[], EventLog | None] = lambda: None
) -> list[Route]:
    """The routes ``/healthz`` and ``/readyz``.

    Args:
        find_obstacle: Returns why the process takes no requests now, in a few words; empty if it does.
        find_log: Returns the log, which a probe queries as well: what follows it notices a lost connection late.

    Example:
        >>> [route.path for route in health_routes(lambda: "")]
        ['/healthz', '/readyz']
    """
    looks: list[Look] = []

    async def find_silence() -> str:
        log = find_log()
        if log is None:
            return ""
        if not looks:  # one at a time for all probes
            looks.append(asyncio.create_task(log.info("run-0"), name="probe of the log"))
            looks[0].add_done_callback(looks.remove)
        look = looks[0]
        await asyncio.wait({look}, timeout=PATIENCE)
        return "" if look.done() and look.exception() is None else LOG_FAILED

    async def get_health(_: WebRequest) -> web.Response:
        return web.Response(text="ok\n")

    async def get_readiness(_: WebRequest) -> web.Response:
        obstacle = find_obstacle() or await find_silence()
        return web.Response(text=f"{obstacle or 'ok'}\n", status=503 if obstacle else 200)

    return [get("/healthz", get_health, "healthz"), get("/readyz", get_readiness, "readyz")]
