"""Answers for the probes of service managers and load balancers: whether a process lives, and whether it takes requests.

They need no token, since they reveal nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from rxworker.errors import ConfigurationError
from rxworker.transport.listening import SOON

PROBES = frozenset({"healthz", "readyz"})
"""The routes of probes."""


def health_routes(find_obstacle: Callable[[web.Request], str]) -> list[web.RouteDef]:
    """The routes ``/healthz`` and ``/readyz``.

    Args:
        find_obstacle: Returns why the process takes no requests now, in a few words; empty if it does.
    """

    async def get_health(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def get_readiness(request: web.Request) -> web.Response:
        obstacle = find_obstacle(request)
        return web.Response(text=f"{obstacle or 'ok'}\n", status=503 if obstacle else 200)

    return [
        web.get("/healthz", get_health, name="healthz"),
        web.get("/readyz", get_readiness, name="readyz"),
    ]


@asynccontextmanager
async def serve_health(port: int, find_obstacle: Callable[[], str]) -> AsyncGenerator[None]:
    """Serve the probes of a process without a web server, on all interfaces.

    Args:
        port: The port.
        find_obstacle: Returns why the process takes no work now; empty if it does.

    Raises:
        ConfigurationError: The port is in use.
    """
    app = web.Application()
    app.add_routes(health_routes(lambda _: find_obstacle()))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SOON)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, None, port).start()
        except OSError as error:
            message = f"port {port} cannot be used for probes: {error.strerror or error}"
            raise ConfigurationError(message) from error
        yield
    finally:
        await runner.cleanup()
