"""Endpoints for clients of other protocols: AG-UI, and the UI Message Stream that ``useChat`` reads.

The id of the client's thread or chat is the id of the conversation. If the server knows the conversation, it uses its own copy, including
thinking; otherwise the conversation begins with the messages that the client sends. A run belongs to the client that started it; see
`rxworker.ui.web.entry` for what happens when that client disconnects.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import ExitStack, aclosing

from aiohttp import web

from rxworker.errors import LocalProtocolError
from rxworker.events import RunResume, RunStart
from rxworker.messages import Conversation, Message, repair
from rxworker.protocols import SSE_HEADERS, encode_json
from rxworker.protocols.ag_ui import AgUiInput, ag_ui_stream, read_run_input
from rxworker.protocols.common import Reply, decisions_of
from rxworker.protocols.ui_messages import (
    HEADERS,
    ChatRequest,
    read_chat_request,
    ui_message_stream,
    ui_messages_of,
)
from rxworker.ui.web.entry import STOPPED, Clients, ConversationEntry, RunEntry
from rxworker.ui.web.responses import ApiError, bytes_response, json_response, read_json_bytes
from rxworker.ui.web.runs import STOP_SECONDS, Runs
from rxworker.ui.web.state import STATE, first_event
from rxworker.ui.web.streams import watch_run

MAX_ID = 200
"""The maximum length of a conversation id that a client chooses."""

SOON = 10.0
"""Seconds within which a client that received a history without the last answer must request the stream of that answer."""

RUN_HEADER = "X-Rxworker-Run"
"""The response header with the id of the run, which the API needs, for example to cancel it."""


async def post_ag_ui(request: web.Request) -> web.StreamResponse:
    """Start a run, or resume a paused one, and stream it in AG-UI."""
    data = await read_json_bytes(request)
    try:
        given = read_run_input(data)
    except LocalProtocolError as error:
        raise ApiError(400, "bad_request", str(error)) from None
    entry = await _begin(request, given, given.thread_id)
    return await _watch_ag_ui(request, entry, given)


async def get_ag_ui(request: web.Request) -> web.StreamResponse:
    """Stream a run in AG-UI from its beginning, with a snapshot of the earlier messages."""
    entry = request.config_dict[STATE].runs_of(request).find(request.match_info["id"])
    given = AgUiInput(entry.conversation.id, entry.id, protocol=request.query.get("protocol"))
    return await _watch_ag_ui(request, entry, given, snapshot=True)


async def post_chat(request: web.Request) -> web.StreamResponse:
    """Start a run, or resume a paused one, and stream it for ``useChat``."""
    data = await read_json_bytes(request)
    try:
        given = read_chat_request(data)
    except LocalProtocolError as error:
        raise ApiError(400, "bad_request", str(error)) from None
    entry = await _begin(request, given, given.id)
    entry.message_id = given.last_message_id if given.replies else None
    return await _watch_chat(request, entry)


async def get_chat(request: web.Request) -> web.StreamResponse:
    """Stream the current run of a chat again; 204 if no run is running.

    A run that has ended after the chat's history was served without its answer is streamed as if it were running.
    """
    runs = request.config_dict[STATE].runs_of(request)
    name = request.match_info["id"]
    if len(name) <= MAX_ID:
        runs.note_resuming(name)
    conversation = runs.conversation(name)
    entry = None if conversation is None else conversation.current
    if entry is None or (entry.run.done() and not _is_left_out(entry)):
        return web.Response(status=204)
    entry.left_out_at = None
    # The client replaces its copy of the message with this stream.
    return await _watch_chat(request, entry, _continued_runs(runs, entry))


async def get_chat_messages(request: web.Request) -> web.Response:
    """Return the messages of a chat for ``useChat``; empty if the chat is unknown.

    The answer of a running run is left out: `get_chat` streams all of it.
    """
    runs = request.config_dict[STATE].runs_of(request)
    conversation = runs.conversation(request.match_info["id"])
    entry = None if conversation is None else conversation.current
    if entry is None:
        return json_response([])
    state = entry.run.state
    history, pause = state.conversation, None if entry.dismissed is not None else state.pause
    entry.left_out_at = None if entry.run.done() else asyncio.get_running_loop().time()
    if not entry.run.done():
        begun = [*_continued_runs(runs, entry), entry][0]
        first = first_event(begun.run)
        history, pause = (
            (first.conversation, None)
            if isinstance(first, RunStart | RunResume)
            else (history, None)
        )
    messages = ui_messages_of(history, entry.conversation.id, run=entry.id, pause=pause)
    return bytes_response(entry.redact(encode_json(messages)))


async def post_chat_stop(request: web.Request) -> web.Response:
    """Stop the run of a chat. For clients that resume, because for these a closed connection does not stop the run."""
    conversation = (
        request.config_dict[STATE].runs_of(request).conversation(request.match_info["id"])
    )
    entry = None if conversation is None else conversation.current
    if entry is not None and not entry.run.done():
        await asyncio.wait({entry.run.cancel(reason=STOPPED)}, timeout=STOP_SECONDS)
    return web.Response(status=204)


async def _watch_ag_ui(
    request: web.Request, entry: RunEntry, given: AgUiInput, *, snapshot: bool = False
) -> web.StreamResponse:
    pieces = ag_ui_stream(
        watch_run(entry, 0, name="ag-ui").batches(),
        given.thread_id,
        given.run_id,
        protocol=given.protocol,
        snapshot=snapshot,
        parent_run_id=given.parent_run_id,
    )
    return await _send(request, entry, pieces, SSE_HEADERS)


async def _watch_chat(
    request: web.Request, entry: RunEntry, before: Sequence[RunEntry] = ()
) -> web.StreamResponse:
    pieces = ui_message_stream(
        watch_run(entry, 0, name="chat").batches(),
        # A client that reconnects recognises the message by its id.
        entry.message_id or entry.id,
        before=[earlier.run.watch(name="chat").batches() for earlier in before],
    )
    return await _send(request, entry, pieces, HEADERS)


async def _send(
    request: web.Request,
    entry: RunEntry,
    pieces: AsyncGenerator[bytes, None],
    headers: Mapping[str, str],
) -> web.StreamResponse:
    state = request.config_dict[STATE]
    resumes = state.store.is_resuming(entry.conversation)
    with ExitStack() as stack:
        if entry.clients is not None:
            stack.enter_context(entry.clients.connected(request, resumes=resumes))
        stack.enter_context(state.places.take(entry))
        named = {**headers, RUN_HEADER: entry.id}
        return await state.streams.send(request, _redacted(pieces, entry), named)


async def _redacted(
    pieces: AsyncGenerator[bytes, None], entry: RunEntry
) -> AsyncGenerator[bytes, None]:
    async with aclosing(pieces):
        async for piece in pieces:
            yield entry.redact(piece)


def _is_left_out(entry: RunEntry) -> bool:
    """Whether a client has just received a history without the answer of this run."""
    at = entry.left_out_at
    return at is not None and asyncio.get_running_loop().time() - at < SOON


def _continued_runs(runs: Runs, entry: RunEntry) -> list[RunEntry]:
    """The earlier runs whose message this run continues, as far as they are kept."""
    before: list[RunEntry] = []
    while entry.message_id is not None and entry.resumes is not None:
        earlier = runs.get(entry.resumes)
        if earlier is None:
            break
        before.insert(0, earlier)
        entry = earlier
    return before


async def _begin(request: web.Request, given: AgUiInput | ChatRequest, name: str) -> RunEntry:
    """Start the run that a client requests. The run belongs to that client."""
    state = request.config_dict[STATE]
    runs = state.runs_of(request)
    if not given.replies and not given.messages:
        raise ApiError(400, "empty", "there is nothing to answer: send a message of the user's")
    if not 0 < len(name) <= MAX_ID:
        raise ApiError(
            400, "bad_request", f"the id of a conversation must have 1 to {MAX_ID} characters"
        )
    conversation = runs.conversation(name)
    if conversation is not None:
        await runs.make_free(conversation)
    if given.replies:
        entry = _resume(runs, name, given.replies, given.messages)
    else:
        entry = _start(runs, given, name, request.query.get("worker"))
    entry.clients = Clients(entry.run, state.settings.cancel_on_disconnect)
    return entry


def _start(runs: Runs, given: AgUiInput | ChatRequest, name: str, worker: str | None) -> RunEntry:
    runs.check_room()
    messages = given.messages
    conversation = runs.conversation(name)
    if conversation is None:
        conversation = runs.begin_conversation(worker, name)
        _go_back(conversation, given.conversation, given.messages)
    elif isinstance(given, ChatRequest) and _replaces_messages(given):
        runs.check_free(conversation)
        before = conversation.before(given.messages)
        if before is None:
            _go_back(conversation, given.conversation, given.messages)
        else:
            conversation.worker.conversation = before
    else:
        messages = conversation.new_in(messages)
    title = " ".join(message.text for message in messages)
    entry = runs.next_run(conversation, messages, title)
    conversation.received = given.messages
    return entry


def _resume(
    runs: Runs, name: str, replies: Sequence[Reply], messages: tuple[Message, ...]
) -> RunEntry:
    if len({reply.run for reply in replies}) > 1:
        raise ApiError(
            400, "bad_request", "the answers belong to several runs: send them one by one"
        )
    if runs.find(replies[0].run).conversation.id != name:
        message = "the question belongs to another conversation: send the answer there"
        raise ApiError(409, "other_conversation", message)
    replies_text = tuple(reply.message for reply in replies if reply.message is not None)
    return runs.resume(replies[0].run, decisions_of(replies), (*replies_text, *messages))


def _replaces_messages(given: ChatRequest) -> bool:
    """Whether the client replaces messages: it regenerates an answer, or the user edited a message."""
    return given.trigger == "regenerate-message" or given.message_id is not None


def _go_back(
    conversation: ConversationEntry, history: Conversation, latest: Sequence[Message]
) -> None:
    """Set the worker's conversation to the earlier messages that the client sent."""
    made = conversation.made
    earlier = (*made.messages, *history.messages[: len(history.messages) - len(latest)])
    system = history.system if made.system is None else made.system
    conversation.worker.conversation = repair(Conversation(earlier, system))
