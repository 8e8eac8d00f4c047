"""The web server as an aiohttp application: its routes, the JSON API, and runs as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Literal

import msgspec
from aiohttp import web
from msgspec import Struct

import rxworker
from rxworker.errors import ConfigurationError
from rxworker.hub import Watch
from rxworker.log import EventLog
from rxworker.messages import JsonObject
from rxworker.protocols import SSE_HEADERS, end_frame, read_last_event_id, record_frame, retry_frame
from rxworker.ui.web.agents import (
    get_chat,
    get_chat_messages,
    post_chat_stop,
    protocol_routes,
)
from rxworker.ui.web.durable import answer_stream
from rxworker.ui.web.entry import RunEntry
from rxworker.ui.web.fleet import FleetFeed, RunFilter
from rxworker.ui.web.guard import User, add_headers, make_guard
from rxworker.ui.web.health import health_routes
from rxworker.ui.web.responses import (
    FLEET,
    INDEX,
    LIMITS,
    ApiError,
    bytes_response,
    json_response,
    read_json,
)
from rxworker.ui.web.runs import WorkerInfo, Workers
from rxworker.ui.web.settings import Settings
from rxworker.ui.web.sockets import MAX_MESSAGE, Connection
from rxworker.ui.web.state import STATE, ServerState
from rxworker.ui.web.store import OnRun
from rxworker.ui.web.stored_streams import FOLDS, run_stream
from rxworker.ui.web.streams import batches_of, watch_run
from rxworker.worker import Answer, Approve, Decision, Deny


def make_app(
    workers: Workers,
    *,
    settings: Settings | None = None,
    user: User | None = None,
    on_run: OnRun | None = None,
    log: EventLog | None = None,
) -> web.Application:
    """Return the web server as an application: the page, the API, and the streams of runs.

    It runs by itself (see `serve`), or within another application: ``app.add_subapp("/desk/", make_app(...))``. On cleanup, its runs
    are cancelled and their watchers are notified.

    Args:
        workers: A function that makes a worker, or several by name. Each conversation gets a worker of its own.
        settings: The settings of the server.
        user: Returns the name of the user who sends a request. Only the user who started a run can see and control it.
        on_run: Called with each run that a client starts or resumes. Its exceptions are logged and do not affect the run.
        log: Where runs are stored. Then the server shows and steers the runs of all processes that use the log, recovers those whose process has ended, and
            on cleanup hands its own over to other processes. The program closes the log after the server.

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
    state = ServerState(workers, settings, user, on_run, log)
    app = web.Application(middlewares=[make_guard(settings, user)])
    app[STATE] = state
    app[LIMITS] = settings.max_body, settings.body_seconds
    app.add_routes(
        [
            web.get("/", get_page, name="page"),
            web.get("/static/{path:.+}", get_static, name="static"),
            web.get("/fleet", get_fleet_page, name="fleet-page"),
            web.get("/api/info", get_info),
            web.get("/api/fleet", get_fleet),
            web.get("/metrics", get_metrics),
            *health_routes(lambda: state.obstacle),
            web.get("/api/runs", get_runs),
            web.post("/api/runs", post_run),
            web.get("/api/runs/{id}", get_run),
            web.post("/api/runs/{id}/send", post_send),
            web.post("/api/runs/{id}/pause", post_pause),
            web.post("/api/runs/{id}/cancel", post_cancel),
            web.post("/api/runs/{id}/resume", post_resume),
            web.post("/api/runs/{id}/fork", post_fork),
            web.get("/api/runs/{id}/events", get_events, allow_head=False),
            *[web.get(f"/runs/{{id}}/stream{view}", durable_handler(view)) for view in FOLDS],
            *protocol_routes(),
            web.get("/api/chat/{id}/messages", get_chat_messages, name="chat-messages"),
            web.get("/api/chat/{id}/stream", get_chat, allow_head=False, name="chat-stream"),
            web.post("/api/chat/{id}/stop", post_chat_stop, name="chat-stop"),
            web.get("/api/ws", get_socket, allow_head=False),
        ]
    )
    app.on_response_prepare.append(add_headers)
    app.on_startup.append(_start)
    app.on_shutdown.append(_shut_down)
    return app


CLOSE_SECONDS = 2.0
"""Seconds a client has to answer when its WebSocket is closed."""


async def get_page(request: web.Request) -> web.Response:
    """Return the page."""
    return request.config_dict[STATE].page.answer(request, INDEX)


async def get_fleet_page(request: web.Request) -> web.Response:
    """Return the page of all runs of the log."""
    return request.config_dict[STATE].page.answer(request, FLEET)


async def get_static(request: web.Request) -> web.Response:
    """Return a file of the page."""
    path = request.match_info["path"]
    if path in (INDEX, FLEET):  # they may need the token
        raise web.HTTPNotFound
    return request.config_dict[STATE].page.answer(request, path)


async def get_socket(request: web.Request) -> web.StreamResponse:
    """Serve several runs on one WebSocket."""
    state = request.config_dict[STATE]
    settings = state.settings
    socket = web.WebSocketResponse(
        heartbeat=settings.heartbeat,
        max_msg_size=MAX_MESSAGE,
        compress=False,
        timeout=CLOSE_SECONDS,
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


async def _start(app: web.Application) -> None:
    await app[STATE].start()


async def _shut_down(app: web.Application) -> None:
    await app[STATE].close()


CANCEL_SECONDS = 5.0
"""Seconds that a request waits for the end of the run that it cancels. A tool may take longer to stop."""


class Info(Struct, frozen=True):
    """The server and its workers; whether its runs are stored, so that they can be forked, and whether it shows the runs of all processes."""

    instance: str
    version: str
    title: str
    workers: tuple[WorkerInfo, ...]
    can_fork: bool = False
    has_fleet: bool = False


class RunsAnswer(Struct, frozen=True):
    """The list of runs, the newest first, each as the JSON of a `RunSummary`."""

    instance: str
    runs: list[msgspec.Raw]


class StartBody(Struct, frozen=True):
    """The body of a request that starts a run."""

    input: str
    worker: str | None = None
    conversation: str | None = None


class SendBody(Struct, frozen=True):
    """The body of a request that sends a message into a run."""

    message: str


class PauseBody(Struct, frozen=True):
    """The body of a request that pauses a run."""

    reason: str = "paused by the user"


class CancelBody(Struct, frozen=True):
    """The body of a request that cancels a run."""

    when: Literal["now", "after_turn"] = "now"
    reason: str = "cancelled by the user"


class ApproveBody(Struct, frozen=True, tag="approve"):
    """Run the call; ``input`` replaces the arguments of the model: a text if the tool takes free text."""

    input: JsonObject | str | None = None


class DenyBody(Struct, frozen=True, tag="deny"):
    """Do not run the call."""

    reason: str = "This call was not approved."


class AnswerBody(Struct, frozen=True, tag="answer"):
    """Do not run the call; use this text as its result."""

    content: str


class ResumeBody(Struct, frozen=True):
    """The body of a request that resumes a run: decisions about the calls that wait, by their ids."""

    decisions: dict[str, ApproveBody | DenyBody | AnswerBody] = {}


async def get_info(request: web.Request) -> web.Response:
    """Return the server and its workers."""
    state = request.config_dict[STATE]
    title = state.settings.title
    return json_response(
        Info(
            state.instance,
            rxworker.__version__,
            title,
            state.workers.infos(request),
            can_fork=state.store.log is not None,
            has_fleet=state.has_fleet,
        )
    )


async def get_fleet(request: web.Request) -> web.StreamResponse:
    """Return all runs of the log together, and those that match; as server-sent events also after each change."""
    state = request.config_dict[STATE]
    feed, asked = state.fleet, RunFilter.of(request.query)
    if "text/event-stream" not in request.headers.get("Accept", ""):
        return bytes_response(await feed.answer(await feed.ready(), asked))
    with state.places.take():
        return await state.streams.send(request, fleet_events(feed, asked), SSE_HEADERS)


async def fleet_events(feed: FleetFeed, asked: RunFilter) -> AsyncGenerator[bytes, None]:
    """Yield what matches as server-sent events."""
    yield retry_frame(RETRY)
    async with aclosing(feed.answers(asked)) as answers:
        async for data in answers:
            yield b"data: " + data + b"\n\n"


async def get_metrics(request: web.Request) -> web.Response:
    """Return the metrics of the log and of this process."""
    state = request.config_dict[STATE]
    fleet = await state.fleet.ready()
    try:
        from rxworker.ui.web.metrics import metrics_of
    except ImportError as error:
        message = "the package for metrics is missing: pip install 'rxworker[metrics]'"
        raise ApiError(501, "no_metrics", message) from error
    data, media_type = metrics_of(fleet, state.places.taken, request.headers.get("Accept", ""))
    return web.Response(body=data, headers={"Content-Type": media_type})


async def get_runs(request: web.Request) -> web.Response:
    """Return the runs, newest first."""
    state = request.config_dict[STATE]
    runs = [msgspec.Raw(entry.encoded()) for entry in state.runs_of(request)]
    return json_response(RunsAnswer(state.instance, runs))


async def get_run(request: web.Request) -> web.Response:
    """Return one run."""
    entry = await request.config_dict[STATE].runs_of(request).find(request.match_info["id"])
    return bytes_response(entry.encoded())


async def post_run(request: web.Request) -> web.Response:
    """Start a run."""
    runs = request.config_dict[STATE].runs_of(request)
    body = await read_json(request, StartBody)
    text = _said(body.input, "input")
    if body.conversation is not None:
        await runs.prepare(runs.conversation(body.conversation))
    entry = runs.start(text, worker=body.worker, conversation=body.conversation)
    await entry.accepted()
    return bytes_response(entry.encoded(), 201)


async def post_send(request: web.Request) -> web.Response:
    """Send a message into a run."""
    entry = await request.config_dict[STATE].runs_of(request).find(request.match_info["id"])
    body = await read_json(request, SendBody)
    await entry.send(_said(body.message, "message"))
    return bytes_response(entry.encoded())


async def post_pause(request: web.Request) -> web.Response:
    """Request a pause of a run at the next safe moment."""
    entry = await request.config_dict[STATE].runs_of(request).find(request.match_info["id"])
    body = await read_json(request, PauseBody)
    await entry.pause(body.reason)
    return bytes_response(entry.encoded())


async def post_cancel(request: web.Request) -> web.Response:
    """Cancel a run; with ``now``, respond when it has ended. A paused run can no longer be resumed."""
    runs = request.config_dict[STATE].runs_of(request)
    entry = await runs.find(request.match_info["id"])
    body = await read_json(request, CancelBody)
    if entry.resumed_as is not None:
        message = f"this run was resumed as {entry.resumed_as}: cancel that one"
        raise ApiError(409, "resumed", message)
    if entry.status == "paused":
        await entry.dismiss(body.reason)
        runs.changed(entry)
        return bytes_response(entry.encoded())
    await entry.cancel(body.when, body.reason, CANCEL_SECONDS)
    return bytes_response(entry.encoded())


async def post_resume(request: web.Request) -> web.Response:
    """Resume a paused run as a new run."""
    runs = request.config_dict[STATE].runs_of(request)
    body = await read_json(request, ResumeBody)
    decisions = {call: _decision(decision) for call, decision in body.decisions.items()}
    entry = await runs.resume(request.match_info["id"], decisions)
    await entry.accepted()
    return bytes_response(entry.encoded(), 201)


class ForkBody(Struct, frozen=True):
    """The body of a request that forks a run: the number of the last record to copy."""

    seq: int


async def post_fork(request: web.Request) -> web.Response:
    """Copy a stored run up to a record, and continue the copy."""
    state = request.config_dict[STATE]
    body = await read_json(request, ForkBody)
    entry = await state.runs_of(request).fork(request.match_info["id"], body.seq)
    return bytes_response(entry.encoded(), 201)


def _decision(body: ApproveBody | DenyBody | AnswerBody) -> Decision:
    match body:
        case ApproveBody(input=edited):
            return Approve(edited)
        case DenyBody(reason=reason):
            return Deny(reason)
        case AnswerBody(content=content):
            return Answer(content)


def _said(text: str, name: str) -> str:
    if not text.strip():
        raise ApiError(400, "empty", f"{name} must be a text that is not empty")
    return text


RETRY = 1000
"""Milliseconds after which a client reconnects."""


async def get_events(request: web.Request) -> web.StreamResponse:
    """Stream the records of a run after the last one that the client has; 204 if there are none left."""
    state = request.config_dict[STATE]
    entry = await state.runs_of(request).find(request.match_info["id"])
    asked = request.headers.get("Last-Event-ID") or request.query.get("after")
    after = read_last_event_id(asked)
    await entry.open()
    if entry.run.done() and after >= entry.run.last_seq:
        return web.Response(status=204)
    with state.places.take(entry):
        watch = watch_run(entry, after, name=f"events {request.remote or ''}".strip())
        return await state.streams.send(request, sse_events(entry, watch), SSE_HEADERS)


def durable_handler(view: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """A handler for a stored run as a Durable Stream.

    Args:
        view: A key of `FOLDS`.
    """

    async def handle(request: web.Request) -> web.StreamResponse:
        state = request.config_dict[STATE]
        log = state.store.log
        if log is None:
            raise ApiError(404, "no_log", "runs are not stored: give the server a log")
        entry = await state.runs_of(request).find(request.match_info["id"])
        if entry.is_running_here:
            await entry.accepted()
        source = run_stream(log, entry.id, view, request.query, entry.redact)
        with state.places.take(entry):
            return await answer_stream(request, source, send=state.streams.send)

    return handle


async def sse_events(entry: RunEntry, watch: Watch) -> AsyncGenerator[bytes, None]:
    """Yield the frames of a run until it ends."""
    yield retry_frame(RETRY)
    async with aclosing(batches_of(entry, watch)) as batches:
        async for batch in batches:
            yield b"".join([record_frame(record, entry.encode) for record in batch])
    yield entry.redact(end_frame(entry.status, entry.reason))
