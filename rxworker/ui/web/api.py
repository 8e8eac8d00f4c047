"""The API: the table of the server's routes, the handlers of its JSON, and runs as server-sent events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias, TypeVar
from urllib.parse import urlencode

import msgspec
from aiohttp import web
from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import asdict, replace

import rxworker
from rxworker.boards import Dashboard
from rxworker.errors import ConfigurationError, LocalProtocolError
from rxworker.events import Annotation
from rxworker.events.custom import ShortText
from rxworker.log.kept import MAX_BY, MAX_TEXT, MAX_TIME, mark_time, time_marks
from rxworker.log.values import When, is_storable, to_sent
from rxworker.messages import Document, Image, Json, Message, Text
from rxworker.protocols import SSE_HEADERS, read_last_event_id
from rxworker.protocols.common import check_content
from rxworker.protocols.native import encode_json
from rxworker.protocols.socket import AllowedTool, DeliveryName, Marks, RunSummary
from rxworker.providers.models import currency_of
from rxworker.redact import json_redactor
from rxworker.resume.stored import TITLE
from rxworker.ui.web.agents import get_chat, get_chat_messages, post_chat_stop, protocol_routes
from rxworker.ui.web.boards.boards import BoardQuery, encode_state
from rxworker.ui.web.boards.fleet import RunFilter
from rxworker.ui.web.boards.links import DELIVER
from rxworker.ui.web.guard import BOARD_PAGE
from rxworker.ui.web.http.request import SUBPROTOCOL, Route, Shown, WebRequest, delete, get, live, post
from rxworker.ui.web.http.responses import (
    BOARDS,
    FLEET,
    INDEX,
    ApiError,
    bytes_response,
    health_routes,
    json_response,
    read_json,
    read_json_bytes,
    read_query,
    refused,
)
from rxworker.ui.web.openai import openai_routes
from rxworker.ui.web.runs.entry import RunEntry
from rxworker.ui.web.runs.of_user import Runs, outermost_id, resume_at
from rxworker.ui.web.runs.search import RunQuery, search_runs
from rxworker.ui.web.runs.sent import sent_request
from rxworker.ui.web.sockets import MAX_MESSAGE, Connection
from rxworker.ui.web.state import ServerState
from rxworker.ui.web.streams.durable import FOLDS, answer_stream, run_stream
from rxworker.ui.web.streams.streams import follow_run

B = TypeVar("B", bound=Struct)

SOCKET = "socket"
"""The route of the WebSocket."""


def routes_of(state: ServerState) -> list[Route]:
    """The routes of the server, whatever serves them: the page, the API, and the streams of runs."""
    return [
        get("/", partial(get_page, state, INDEX), "page"),
        get("/static/{path:.+}", partial(get_static, state), "static"),
        get("/fleet", partial(get_page, state, FLEET), "fleet-page"),
        get("/boards", partial(get_first_board, state), "boards-page"),
        get("/boards/{name}", partial(get_page, state, BOARDS), BOARD_PAGE),
        get("/shared", partial(get_page, state, INDEX), "shared-page"),
        get("/api/info", partial(get_info, state)),
        get("/api/fleet", partial(get_fleet, state)),
        get("/metrics", partial(get_metrics, state)),
        *health_routes(lambda: state.obstacle, lambda: state.store.log),
        get("/api/runs", partial(get_runs, state)),
        post("/api/runs", partial(post_run, state)),
        get("/api/runs/{id}", partial(get_run, state), "run"),
        get("/api/runs/{id}/worker", partial(get_worker, state)),
        *[post(f"/api/runs/{{id}}/{name}", partial(verb, state)) for name, verb in VERBS.items()],
        post("/api/runs/{id}/resume", partial(post_resume, state)),
        post("/api/runs/{id}/rerun", partial(post_rerun, state)),
        post("/api/runs/{id}/deliver", partial(post_deliver, state), DELIVER),
        post("/api/conversations/{id}/disallow", partial(post_disallow, state)),
        post("/api/conversations/{id}/mark", partial(post_mark, state)),
        post("/api/conversations/{id}/delete", partial(post_delete, state)),
        get("/api/runs/{id}/requests/{seq}", partial(get_request, state)),
        live("/api/runs/{id}/events", partial(get_events, state), "run-events"),
        *[get(f"/runs/{{id}}/stream{view}", partial(get_stream, state, view)) for view in FOLDS],
        *protocol_routes(state),
        *openai_routes(state),
        get("/api/chat/{id}/messages", partial(get_chat_messages, state), "chat-messages"),
        live("/api/chat/{id}/stream", partial(get_chat, state), "chat-stream"),
        post("/api/chat/{id}/stop", partial(post_chat_stop, state), "chat-stop"),
        get("/api/streams", partial(get_streams, state), "streams"),
        get("/api/streams/{name}", partial(get_published, state), "stream"),
        live("/api/streams/{name}/events", partial(get_items, state), "stream-events"),
        get("/streams/{name}", partial(get_durable, state)),
        get("/api/boards", partial(get_boards, state), "boards"),
        get("/api/boards/{name}", partial(get_board, state), "board"),
        live("/api/boards/{name}/events", partial(get_board_events, state), "board-events"),
        get("/api/boards/{name}/runs", partial(get_makers, state)),
        get("/api/boards/{name}/explain", partial(get_operators, state), "operators"),
        live("/api/boards/{name}/explain/events", partial(get_board_events, state, explains=True), "operator-events"),
        get("/api/time-marks", partial(get_time_marks, state)),
        post("/api/time-marks", partial(post_time_mark, state)),
        get("/api/link", partial(get_link, state), "link"),
        get("/api/links", partial(get_links, state)),
        post("/api/links", partial(post_link, state)),
        delete("/api/links/{id}", partial(delete_link, state)),
        live("/api/ws", partial(get_socket, state), SOCKET),
    ]


async def get_page(state: ServerState, path: str, request: WebRequest) -> web.Response:
    """Return a page: that of the runs, that of all runs of the log, or that of a dashboard."""
    return state.page.answer(request, path)


async def get_first_board(state: ServerState, request: WebRequest) -> web.Response:
    """Redirect to the page of the first dashboard, with the parameters of the address."""
    first, query = state.boards.infos()[0].name, urlencode([*request.query.items()])
    return web.Response(status=302, headers={"Location": f"./boards/{first}{query and '?'}{query}"})


async def get_static(state: ServerState, request: WebRequest) -> web.Response:
    """Return a file of the page."""
    path = request.params["path"]
    if path in (INDEX, FLEET, BOARDS):  # they may need the token
        raise web.HTTPNotFound
    return state.page.answer(request, path)


async def get_socket(state: ServerState, request: WebRequest) -> web.Response | None:
    """Serve several runs on one WebSocket."""
    names = request.headers.get("Sec-WebSocket-Protocol", SUBPROTOCOL).split(",")
    if SUBPROTOCOL not in map(str.strip, names):  # aiohttp would log them, and one may be a token
        raise ApiError(400, "bad_protocol", f"name the protocol {SUBPROTOCOL} beside the others, or none")
    state.store.check_open()  # a page that connects again to a server without its runs would take them for gone
    with state.streams.take():
        if (socket := await request.open_socket(MAX_MESSAGE)) is None:
            raise ApiError(400, "no_websocket", "this address takes a WebSocket")
        connection = Connection(socket, state, state.runs.of(request), f"page {request.remote or ''}".strip())
        state.sockets.add(connection.close)
        try:
            await connection.serve()
        finally:
            state.sockets.discard(connection.close)
    return None


UserInput: TypeAlias = str | tuple[Text | Image | Document, ...]
"""What a person sends: a text, or content blocks in the form of a stored message."""


class EditBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Begin a new conversation with what preceded a message of the user in the conversation of a run.

    Attributes:
        run_id: The id of the run.
        message: The number of the message among those of the user, from 0.
        text: Its text, to recognise it.
    """

    run_id: str = field(name="run")
    message: int
    text: str


class StartBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that starts a run.

    Of a new conversation, the next one of a conversation, or one in place of an earlier message.
    """

    input: UserInput
    worker: str | None = None
    conversation: str | None = None
    edits: EditBody | None = None


class SendBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that sends a message into a run. By its id it can be changed and withdrawn."""

    message: UserInput
    id: Annotated[str, Meta(max_length=100)] = ""
    when: When = "turn"


class EditMessageBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that replaces a message that waits; without ``when``, that stays as it is."""

    id: Annotated[str, Meta(min_length=1, max_length=100)]
    message: UserInput
    when: When | None = None


class DeliverBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that gives the result of a call in the background: a text, or other JSON.

    With a link to the call, ``call`` may be left out.
    """

    result: Json
    call: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None
    is_error: bool = False


class WithdrawBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that withdraws a message by its id."""

    id: Annotated[str, Meta(min_length=1, max_length=100)]


class PauseBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that pauses a run."""

    reason: str = "paused by the user"


class CancelBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that cancels a run."""

    when: Literal["now", "after_turn"] = "now"
    reason: str = "cancelled by the user"


class ForkBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that forks a run: the number of the last record to copy."""

    seq: int


class RequeueBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that puts a run back."""

    reason: str = ""


class AnnotateBody(Annotation, frozen=True, tag=False, forbid_unknown_fields=True):
    """The body of a request that annotates a run; the fields are those of an `Annotation`."""

    by: ShortText = ""

    @property
    def annotation(self) -> Annotation:
        """What is recorded."""
        return Annotation(**asdict(self))


def _verb(
    kind: type[B], act: Callable[[Runs, RunEntry, B], Awaitable[RunEntry | None]], what: str = ""
) -> Callable[[ServerState, WebRequest], Awaitable[web.Response]]:
    """The handler of a verb of a run.

    Args:
        kind: The type of the body.
        act: Carries it out; may return a new run, which is answered instead.
        what: Its name in the refusal of a run that was resumed, here or in another process; empty if it takes it.
    """

    async def handle(state: ServerState, request: WebRequest) -> web.Response:
        runs = state.runs.of(request)
        entry = await runs.find(request.params["id"])
        body = await read_json(request, kind)
        latest = await runs.latest(entry.id) if what else entry
        if latest is not entry:
            raise ApiError(409, "resumed", f"this run was resumed as {latest.id}: {what} that one")
        new = await act(runs, entry, body)
        return bytes_response(entry.encoded()) if new is None else bytes_response(new.encoded(), 201)

    return handle


MAX_UNREAD = 32
"""The maximum number of messages that wait to be added to a run's conversation."""
MAX_COMMANDS = 1000
"""The maximum number of commands of clients to one run."""


async def _send(runs: Runs, entry: RunEntry, body: SendBody | EditMessageBody) -> None:
    """Send a message into a run, or replace the one with the id that waits.

    To a stored one as its worker has changed it: the log keeps what is sent.
    """
    message, edits = _user_message(body.message, "message"), isinstance(body, EditMessageBody)
    most, problem = MAX_UNREAD, "messages wait to be read: wait until the model answers"
    if entry.log is not None:
        most, problem = MAX_COMMANDS, "messages were sent to this run: start another one"
        worker = runs.worker_of(entry)
        message = message if worker is None else worker.mapped((message,))[0]
    if entry.status == "running" and entry.sent >= most + (edits and entry.log is None):
        raise ApiError(429, "too_many_messages", f"{entry.sent} {problem}")
    if isinstance(body, EditMessageBody):
        await entry.edit(body.id, message, body.when)
    else:
        await entry.send(message, body.id, body.when)


async def _annotate(runs: Runs, entry: RunEntry, body: AnnotateBody) -> None:
    """Record what the user, or a program of the user, thinks of a run."""
    if runs.owner is not None and body.by not in ("", runs.owner):
        raise ApiError(400, "bad_request", "by: the server knows who you are: leave it out")
    if not 0 <= body.seq <= entry.info.last_seq:
        message = f"the run has records 1 to {entry.info.last_seq}, not {body.seq}; 0 is the whole run"
        raise ApiError(400, "no_record", message)
    await entry.annotate(replace(body.annotation, by=body.by or runs.owner or ""))


async def _fork(runs: Runs, before: RunEntry, body: ForkBody) -> RunEntry:
    """Copy a stored run up to a record into a new run of a new conversation, and continue it."""
    if before.log is None:
        raise ApiError(409, "no_log", "only stored runs can be forked: give the server a log")
    if not 1 <= body.seq <= before.info.last_seq:
        raise ApiError(400, "no_record", f"the run has records 1 to {before.info.last_seq}, not {body.seq}")
    runs.store.check_room(runs.owner)
    conversation = runs.begin_conversation(before.conversation.name or None)
    forked = await conversation.session.fork(before.id, body.seq).started()
    return runs.store.keep(forked, conversation, before.info.row.title)


VERBS = {
    "send": _verb(SendBody, _send, "send the message to"),
    "edit": _verb(EditMessageBody, _send, "change the message of"),
    "withdraw": _verb(WithdrawBody, lambda _, run, body: run.withdraw(body.id), "withdraw the message of"),
    "pause": _verb(PauseBody, lambda _, run, body: run.pause(body.reason)),
    "cancel": _verb(CancelBody, lambda runs, run, body: runs.cancel(run, body.reason, body.when), "cancel"),
    "fork": _verb(ForkBody, _fork),
    "requeue": _verb(RequeueBody, lambda _, run, body: run.requeue(body.reason)),
    "annotate": _verb(AnnotateBody, _annotate),
}
"""What clients do with a run, by the last part of the address. With ``now``, a cancel is answered when it has ended."""


async def post_deliver(state: ServerState, request: WebRequest) -> web.Response:
    """Give the result of a call in the background, also of a run inside another one.

    With the token for that, of the run of any user; with a link to the call, once.
    """
    run_id, store = request.params["id"], state.store
    outermost = await outermost_id(store.log, run_id)
    if request.only_delivers:
        request.owner = await store.owner_of_run(outermost)
    entry = await state.runs.of(request).find(outermost)
    body = await read_json(request, DeliverBody)
    of_link = None if request.link is None else request.link.call
    if (call := body.call or of_link) is None:
        raise ApiError(400, "bad_request", "call is missing: send the id of the call in the background")
    if of_link is not None and call != of_link:
        raise ApiError(403, "not_shared", "this link delivers the result of another call")
    await entry.deliver(call, body.result, is_error=body.is_error, inside=run_id)
    return bytes_response(b"{}" if request.only_delivers or of_link is not None else entry.encoded())


async def get_info(state: ServerState, request: WebRequest) -> web.Response:
    """Return the server and its workers."""
    log, workers = state.store.log, state.workers.infos(request)
    known = {each.model: each.prices for each in workers if each.prices is not None}
    info = {
        "instance": state.instance,
        "version": rxworker.__version__,
        "title": state.settings.title,
        "workers": workers,
        "can_fork": log is not None,
        "can_rerun": state.can_rerun,
        "has_fleet": log is not None and not state.has_users,
        "prices": {**state.settings.prices, **known},
        # Otherwise a search finds titles alone.
        "searches_texts": log is None or log.searches_texts,
    }
    return bytes_response(json_redactor()(encode_json(info)))


async def get_fleet(state: ServerState, request: WebRequest) -> web.Response | None:
    """Return all runs of the log together, and those that match; as server-sent events also after each change."""
    feed, query = state.fleet, read_query(request, RunFilter)
    if "text/event-stream" not in request.headers.get("Accept", ""):
        return bytes_response(await feed.answer(await feed.ready(), query))
    with state.streams.take():
        await state.streams.send(request, feed.events(query), SSE_HEADERS)
    return None


async def get_metrics(state: ServerState, request: WebRequest) -> web.Response:
    """Return the metrics of the log and of this process."""
    fleet = await state.fleet.ready()
    try:
        from rxworker.ui.web.boards.metrics import metrics_of
    except ImportError as error:
        message = "the package for metrics is missing: pip install '/path/to/the/checkout[metrics]'"
        raise ApiError(501, "no_metrics", message) from error
    accept = request.headers.get("Accept", "")
    data, media_type = metrics_of(fleet, state.streams.taken, state.boards.shown(), state.boards.metered(), accept)
    return web.Response(body=data, headers={"Content-Type": media_type})


async def get_runs(state: ServerState, request: WebRequest) -> web.Response:
    """Return the runs that are kept, newest first; with parameters, those that match, also of the log."""
    query, runs = read_query(request, RunQuery), state.runs.of(request)
    if query == RunQuery():
        return json_response({"instance": state.instance, "runs": [msgspec.Raw(entry.encoded()) for entry in runs]})
    found, is_more = await search_runs(runs, query)
    answer = {
        "instance": state.instance,
        "runs": [msgspec.Raw(one.entry.encoded()) for one in found],
        # The text around what was found; none for a run whose title contains it.
        "excerpts": {one.entry.id: one.excerpt for one in found if one.excerpt},
        "is_more": is_more,
    }
    return bytes_response(json_redactor()(encode_json(answer)))


async def get_run(state: ServerState, request: WebRequest) -> web.Response:
    """Return one run."""
    entry = await state.runs.of(request).find(request.params["id"])
    return bytes_response(entry.encoded())


async def get_worker(state: ServerState, request: WebRequest) -> web.Response:
    """Return the worker of a run, which the program may have added: then the list of workers does not contain it."""
    runs = state.runs.of(request)
    entry = await runs.find(request.params["id"])
    name = entry.conversation.name
    if entry.here is not None or entry.conversation.has_session:
        worker = runs.worker_of(entry)
        info = None if worker is None else state.workers.describe(name, worker)
    else:  # it begins no session for that
        info = next((info for info in state.workers.infos(request) if info.name == name), None)
    return bytes_response(json_redactor()(encode_json({"worker": info})))


async def post_run(state: ServerState, request: WebRequest) -> web.Response:
    """Start a run."""
    runs = state.runs.of(request)
    body = await read_json(request, StartBody)
    message = _user_message(body.input, "input")
    if body.edits is not None:
        edits = body.edits
        entry = await runs.start_instead(edits.run_id, edits.message, edits.text, message)
    else:
        if body.conversation is not None:
            await runs.prepare(runs.conversation(body.conversation))
        entry = runs.start(message, worker=body.worker, conversation=body.conversation)
    await entry.accepted()
    return bytes_response(entry.encoded(), 201)


async def post_resume(state: ServerState, request: WebRequest) -> web.Response:
    """Resume a paused run as a new run."""
    entry = await resume_at(state.runs.of(request), request.params["id"], await read_json_bytes(request))
    await entry.accepted()
    return bytes_response(entry.encoded(), 201)


class RerunBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that runs a stored run again: with which worker, by default the first."""

    worker: str | None = None


async def post_rerun(state: ServerState, request: WebRequest) -> web.Response:
    """Run a stored run again with a worker of the server, and return how it came out."""
    entry = await state.runs.of(request).settled(request.params["id"])
    body = await read_json(request, RerunBody)
    outcome = await state.rerun(entry.id, body.worker, request)
    return bytes_response(json_redactor()(encode_json(outcome)))


async def post_disallow(state: ServerState, request: WebRequest) -> web.Response:
    """Pause again for a tool that was always allowed."""
    found, tool = state.runs.of(request).existing(request.params["id"]), await read_json(request, AllowedTool)
    await found.disallow((tool.tool, tool.hook))
    return json_response({"allowed": found.allowed_tools})


Noted: TypeAlias = Annotated[str, Meta(max_length=TITLE)]


class MarkBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that notes something about a conversation; what is left out stays as it is.

    Attributes:
        title: Its name; empty for none.
        tags: Its tags, all of them.
        pinned: Whether lists show it first.
    """

    title: Noted | UnsetType = UNSET
    tags: Annotated[tuple[Noted, ...], Meta(max_length=20)] | UnsetType = UNSET
    pinned: bool | UnsetType = UNSET


async def post_mark(state: ServerState, request: WebRequest) -> web.Response:
    """Name, tag or pin a conversation."""
    body = await read_json(request, MarkBody)
    changes: dict[str, Any] = msgspec.to_builtins(body)  # without what is left out
    if "title" in changes:
        changes["title"] = _noted(changes["title"])
    if "tags" in changes:
        changes["tags"] = tuple(dict.fromkeys([tag for each in changes["tags"] if (tag := _noted(each))]))
    found = state.runs.of(request).existing(request.params["id"])
    await state.store.mark(found, replace(found.marks, **changes))
    return bytes_response(json_redactor()(encode_json({"marks": found.marks})))


def _noted(text: str) -> str:
    """A name or a tag on one line."""
    line = " ".join(text.split())
    if line and not is_storable(line):
        raise ApiError(400, "bad_text", "a name or a tag must not contain null characters or half of a surrogate pair")
    return line


class DeleteBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that deletes a conversation: an empty object."""


async def post_delete(state: ServerState, request: WebRequest) -> web.Response:
    """Delete a conversation with all its runs."""
    await read_json(request, DeleteBody)
    deleted = await state.store.delete(state.runs.of(request).existing(request.params["id"]))
    return json_response({"deleted": deleted})


def _user_message(sent: UserInput, name: str) -> Message:
    if isinstance(sent, str):
        message = Message.user(sent)
    else:
        with refused(LocalProtocolError, 400, "bad_content", name):
            message = Message("user", tuple(map(check_content, sent)))
    with refused(ConfigurationError, 400, "empty", name):
        return to_sent(message)[0]


async def get_request(state: ServerState, request: WebRequest) -> web.Response:
    """Return the request of an attempt, by the number of the record with which the attempt starts."""
    runs, number = state.runs.of(request), request.params["seq"]
    entry = await runs.find(request.params["id"])
    if not (number.isascii() and number.isdecimal() and len(number) < 16):
        raise ApiError(400, "no_record", "a record has a number, from 1")
    await entry.open()
    return bytes_response(entry.redact(encode_json(sent_request(entry, int(number), runs.worker_of(entry)))))


async def get_events(state: ServerState, request: WebRequest) -> web.Response | None:
    """Stream the records of a run after the last one that the client has; 204 if there are none left."""
    entry = await state.runs.of(request).find(request.params["id"])
    after = read_last_event_id(request.headers.get("Last-Event-ID") or request.query.get("after"))
    if entry.has_begun:
        await entry.open()
    if entry.run.done() and after >= entry.run.last_seq:
        return web.Response(status=204)
    frames = entry.frames if request.link is None else entry.shared_frames
    followed = follow_run(entry, frames, f"events {request.remote or ''}".strip())
    with state.streams.take(entry):
        await state.streams.follow(request, followed, after, entry.end_frame)
    return None


async def get_stream(state: ServerState, view: str, request: WebRequest) -> web.Response | None:
    """Return a part of a stored run as a Durable Stream: its records, or those of a view, a key of `FOLDS`."""
    log = state.store.log
    if log is None:
        raise ApiError(404, "no_log", "runs are not stored: give the server a log")
    entry = await state.runs.of(request).find(request.params["id"])
    if entry.is_running_here:
        await entry.accepted()
    source = run_stream(log, entry.id, view, request.query, entry.redact)
    with state.streams.take(entry):
        return await answer_stream(request, source, state.streams)


async def get_streams(state: ServerState, request: WebRequest) -> web.Response:
    """Return the published streams that the client may see."""
    listed = [entry.summary() for entry in state.published.of(request.owner)]
    return bytes_response(json_redactor()(encode_json({"instance": state.instance, "streams": listed})))


async def get_published(state: ServerState, request: WebRequest) -> web.Response:
    """Return a published stream with its newest item."""
    entry = state.published.find(request.params["name"], request.owner)
    summary, item = entry.summary(), entry.published.latest
    answer = {"stream": summary, "item": item, "cursor": f"{summary.epoch}-{summary.seq}"}
    return bytes_response(entry.redact(encode_json(answer)))


class ItemsQuery(Struct, frozen=True):
    """The parameters of the events of a published stream.

    Attributes:
        after: The cursor of the last item that the client has.
        delivery: The delivery; that of the stream by default.
    """

    after: str = ""
    delivery: DeliveryName | None = None


async def get_items(state: ServerState, request: WebRequest) -> web.Response | None:
    """Stream the items of a published stream after the last one that the client has.

    204 if it has ended and there are none left.
    """
    entry = state.published.find(request.params["name"], request.owner)
    query = read_query(request, ItemsQuery)
    after = entry.after(request.headers.get("Last-Event-ID") or query.after)
    if entry.is_over and after and after == entry.published.hub.last_seq:
        return web.Response(status=204)
    with state.streams.take(is_endless=True):
        followed = entry.followed(entry.frames, f"events {request.remote or ''}".strip(), query.delivery)
        await state.streams.follow(request, followed, after, entry.end_frame)
    return None


async def get_durable(state: ServerState, request: WebRequest) -> web.Response | None:
    """Return a published stream as a Durable Stream."""
    entry = state.published.find(request.params["name"], request.owner)
    with state.streams.take(is_endless=True):
        return await answer_stream(request, entry, state.streams)


async def get_boards(state: ServerState, request: WebRequest) -> web.Response:
    """Return the dashboards and their panels."""
    only = "" if request.link is None else request.link.board
    infos = state.boards.infos(of_link=request.link is not None)
    return json_response({"boards": [each for each in infos if only in ("", each.name)]})


class TimeMarkBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that notes a moment for all charts; the fields are those of a `TimeMark`."""

    text: Annotated[str, Meta(min_length=1, max_length=MAX_TEXT, pattern=r"\S")]
    time: Annotated[float, Meta(ge=0, lt=MAX_TIME)] | None = None
    by: Annotated[str, Meta(max_length=MAX_BY)] = ""


class TimeMarkQuery(Struct, frozen=True):
    """Which moments a client wants: from one time to another, in seconds since the epoch."""

    since: float | None = None
    until: float | None = None


async def get_time_marks(state: ServerState, request: WebRequest) -> web.Response:
    """Return the moments that were noted for the charts."""
    query = read_query(request, TimeMarkQuery)
    marks = {"marks": await time_marks(state.shared_log, query.since, query.until)}
    return bytes_response(json_redactor()(encode_json(marks)))


async def post_time_mark(state: ServerState, request: WebRequest) -> web.Response:
    """Note a moment for the charts."""
    body = await read_json(request, TimeMarkBody)
    return json_response(await mark_time(state.shared_log, body.text, time=body.time, by=body.by), 201)


def _shown(
    state: ServerState, request: WebRequest, *, explains: bool | None = None
) -> tuple[Dashboard, Runs, BoardQuery]:
    """What a client wants to see of a dashboard, or of one panel, whose operators may be shown: see `find_panel`."""
    name, query, of_link = request.params["name"], read_query(request, BoardQuery), request.link is not None
    if explains is None:
        dashboard = state.boards.find(name, of_link=of_link)
    else:
        dashboard = state.boards.find_panel(name, request.query.get("panel", ""), explains=explains)
    return query.narrow(dashboard, of_link=of_link), state.runs.of(request), query


async def get_board(state: ServerState, request: WebRequest) -> web.Response:
    """Return what the panels of a dashboard show of a run, a conversation or all runs, now or at an earlier time."""
    states = await state.boards.folds.at(*_shown(state, request))
    return bytes_response(json_redactor()(b"[" + b",".join(map(encode_state, states)) + b"]"))


async def get_makers(state: ServerState, request: WebRequest) -> web.Response:
    """Return the runs that have made the values of a panel, or of one of its groups, those first that did so last."""
    shown = _shown(state, request, explains=False)
    found = await state.boards.folds.made_by(*shown, request.query.get("group", ""))
    return bytes_response(json_redactor()(encode_json({"runs": found})))


async def get_operators(state: ServerState, request: WebRequest) -> web.Response:
    """Return the operators of a panel, and what they have done in a run, a conversation or all runs, until a moment.

    The moment is now, or one of the past.
    """
    explained = await state.boards.folds.explain(*_shown(state, request, explains=True))
    return bytes_response(b"[" + explained + b"]")


async def get_board_events(
    state: ServerState, request: WebRequest, *, explains: bool | None = None
) -> web.Response | None:
    """Stream what the panels show: all of them, and then those that have changed; or what the operators of one do."""
    dashboard, runs, query = _shown(state, request, explains=explains)
    if query.time is not None:
        raise ApiError(400, "bad_query", "a moment of the past does not change: leave out time, or leave out /events")
    with state.streams.take(is_endless=True):
        entries = await state.boards.open(runs, query)
        with state.boards.feed(dashboard, runs, query, entries, explains=explains is not None) as feed:
            followed = feed.followed(f"events {request.remote or ''}".strip())
            await state.streams.follow(request, followed, feed.hub.last_seq, bytes, feed.first)
    return None


async def get_link(state: ServerState, request: WebRequest) -> web.Response:
    """Return what the link of the request shows."""
    link = request.link
    if link is None:
        raise ApiError(400, "no_link", "send the token of a link: Authorization: Bearer rxl_...")
    answer: dict[str, object] = {"title": state.settings.title, "link": link.info}
    if link.run and not link.board:
        entry = await state.runs.of(request).find(link.run)
        answer["run"] = msgspec.Raw(entry.redact(encode_json(shared_summary(entry.summary()))))
        answer["currency"] = currency_of(state.settings.prices)
    return json_response(answer)


def shared_summary(summary: RunSummary) -> RunSummary:
    """The summary of a run for the clients of a link, without what they do not see.

    That is its conversation, what is noted about it, what may be done with the run, and who watches it.
    """
    return replace(
        summary,
        conversation="",
        pause=None,
        resumes=None,
        resumed_as=None,
        watchers=(),
        allowed=(),
        can_requeue=False,
        branch=None,
        marks=Marks(),
    )


async def get_links(state: ServerState, request: WebRequest) -> web.Response:
    """Return the links of the user, without their tokens."""
    links = await state.links.of(request.owner)
    return json_response({"links": [link.info for link in links]})


class LinkBody(Shown, frozen=True, forbid_unknown_fields=True):
    """The body of a request that makes a link; see `ServerState.share`."""

    until: float | None = None


async def post_link(state: ServerState, request: WebRequest) -> web.Response:
    """Make a link. The answer has its token, which is not stored."""
    body = await read_json(request, LinkBody)
    with refused(ConfigurationError, 400, "bad_link"):
        new = await state.share(**asdict(body), owner=request.owner)
    return json_response({"link": new.link.info, "token": new.token, "path": new.path}, 201)


async def delete_link(state: ServerState, request: WebRequest) -> web.Response:
    """Revoke a link."""
    await state.links.revoke(request.params["id"], request.owner)
    return json_response({})
