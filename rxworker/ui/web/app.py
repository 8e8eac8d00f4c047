"""The web server as one aiohttp application, to be run by itself or mounted in another."""

from __future__ import annotations

from aiohttp import web

from rxworker.errors import ConfigurationError
from rxworker.ui.web import api
from rxworker.ui.web.agents import (
    get_chat,
    get_chat_messages,
    post_chat_stop,
    protocol_routes,
)
from rxworker.ui.web.answers import LIMITS, ApiError
from rxworker.ui.web.events import get_events
from rxworker.ui.web.guard import User, add_headers, make_guard
from rxworker.ui.web.keys import STATE, ServerState
from rxworker.ui.web.page import INDEX
from rxworker.ui.web.settings import Settings
from rxworker.ui.web.sockets import MAX_MESSAGE, Connection
from rxworker.ui.web.store import OnRun
from rxworker.ui.web.workers import Workers


def make_app(
    workers: Workers,
    *,
    settings: Settings | None = None,
    user: User | None = None,
    on_run: OnRun | None = None,
) -> web.Application:
    """The web server: the page, the API, and the streams of runs.

    It runs by itself (see `serve`), or within another application: ``app.add_subapp("/desk/", make_app(...))``. When it is cleaned up, its
    runs are cancelled and their watchers told.

    Args:
        workers: A function that makes a worker, or several by name. Each conversation gets a worker of its own.
        settings: How it behaves.
        user: Names the user who sends a request. Runs are listed and shown to the user who began them, and steered by no other.
        on_run: Called with each run that a client begins or resumes. What it raises is logged, and does not reach the run.

    Raises:
        ConfigurationError: There is no worker, or ``user`` or ``on_run`` is not callable.

    Example:
        >>> from rxworker import Worker
        >>> from rxworker.testing import ScriptedModel
        >>> app = make_app(lambda: Worker(ScriptedModel(["Hello!"])))
        >>> sorted(route.method for route in app.router.routes() if route.name == "page")
        ['GET', 'HEAD']
    """
    for name, function in (("user", user), ("on_run", on_run)):
        if function is not None and not callable(function):
            raise ConfigurationError(f"{name} is {function!r:.60}; give a function")
    settings = settings or Settings()
    state = ServerState(workers, settings, user, on_run)
    app = web.Application(middlewares=[make_guard(settings, user)])
    app[STATE] = state
    app[LIMITS] = settings.max_body, settings.body_seconds
    app.add_routes(
        [
            web.get("/", get_page, name="page"),
            web.get("/static/{path:.+}", get_static, name="static"),
            web.get("/api/info", api.get_info),
            web.get("/api/runs", api.get_runs),
            web.post("/api/runs", api.post_run),
            web.get("/api/runs/{id}", api.get_run),
            web.post("/api/runs/{id}/send", api.post_send),
            web.post("/api/runs/{id}/pause", api.post_pause),
            web.post("/api/runs/{id}/cancel", api.post_cancel),
            web.post("/api/runs/{id}/resume", api.post_resume),
            web.get("/api/runs/{id}/events", get_events, allow_head=False),
            *protocol_routes(),
            web.get("/api/chat/{id}/messages", get_chat_messages, name="chat-messages"),
            web.get("/api/chat/{id}/stream", get_chat, allow_head=False, name="chat-stream"),
            web.post("/api/chat/{id}/stop", post_chat_stop, name="chat-stop"),
            web.get("/api/ws", get_socket, allow_head=False),
        ]
    )
    app.on_response_prepare.append(add_headers)
    app.on_shutdown.append(_shut_down)
    return app


FAREWELL = 2.0
"""Seconds that a client has to answer when its WebSocket is closed."""


async def get_page(request: web.Request) -> web.Response:
    """The page."""
    return request.config_dict[STATE].page.answer(request, INDEX)


async def get_static(request: web.Request) -> web.Response:
    """A file of the page."""
    path = request.match_info["path"]
    if path == INDEX:  # it has an address of its own, which may need the token
        raise web.HTTPNotFound
    return request.config_dict[STATE].page.answer(request, path)


async def get_socket(request: web.Request) -> web.StreamResponse:
    """Several runs on one connection."""
    state = request.config_dict[STATE]
    settings = state.settings
    socket = web.WebSocketResponse(
        heartbeat=settings.heartbeat, max_msg_size=MAX_MESSAGE, compress=False, timeout=FAREWELL
    )
    if not socket.can_prepare(request):
        raise ApiError(400, "no_websocket", "this address takes a WebSocket")
    with state.places.take():
        await socket.prepare(request)
        connection = Connection(
            request,
            socket,
            state.runs_of(request),
            state.places,
            instance=state.instance,
            stall=settings.stall_seconds,
            who=f"page {request.remote or ''}".strip(),
        )
        await state.sockets.serve(connection)
    return socket


async def _shut_down(app: web.Application) -> None:
    await app[STATE].close()


__all__ = ["make_app"]
