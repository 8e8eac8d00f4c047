"""The addresses that a supervisor and a load balancer ask: ``/healthz`` (is the process alive?) and ``/readyz`` (send it clients?).

They need no token, no user and no known host: a probe of Kubernetes sends an IP address as the host, and cannot log in. So they answer with a word that
reveals nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

PROBES = frozenset({"healthz", "readyz"})
"""The routes of probes, which are not checked."""

STARTING = "starting"
CLOSING = "closing"
LOG_FAILED = "the log cannot be read"


def health_routes(problem: Callable[[], str]) -> list[web.RouteDef]:
    """The routes of probes.

    Args:
        problem: Returns why clients should use another process; an empty text if they may use this one.

    Example:
        >>> [route.path for route in health_routes(lambda: "")]
        ['/healthz', '/readyz']
    """

    async def get_health(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def get_readiness(_: web.Request) -> web.Response:
        reason = problem()
        return web.Response(text=f"{reason or 'ok'}\n", status=503 if reason else 200)

    return [
        web.get("/healthz", get_health, name="healthz"),
        web.get("/readyz", get_readiness, name="readyz"),
    ]
