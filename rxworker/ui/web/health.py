"""Answers for the probes of service managers and load balancers: whether a process lives, and whether it takes requests.

They need no token, since they reveal nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from rxworker.ui.web.request import Route, WebRequest, get

STARTING, CLOSING, LOG_FAILED = "starting", "closing", "the log cannot be read"
"""The reasons why a process takes no requests."""

PROBES = frozenset({"healthz", "readyz"})
"""The routes of probes."""


def health_routes(find_obstacle: Callable[[], str]) -> list[Route]:
    """The routes ``/healthz`` and ``/readyz``.

    Args:
        find_obstacle: Returns why the process takes no requests now, in a few words; empty if it does.

    Example:
        >>> [route.path for route in health_routes(lambda: "")]
        ['/healthz', '/readyz']
    """

    async def get_health(_: WebRequest) -> web.Response:
        return web.Response(text="ok\n")

    async def get_readiness(_: WebRequest) -> web.Response:
        obstacle = find_obstacle()
        return web.Response(text=f"{obstacle or 'ok'}\n", status=503 if obstacle else 200)

    return [
        get("/healthz", get_health, "healthz"),
        get("/readyz", get_readiness, "readyz"),
    ]
