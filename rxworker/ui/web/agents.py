"""Runs for the clients of the UI protocols, such as AG-UI and the UI Message Stream that ``useChat`` reads.

Every protocol of `UI_PROTOCOLS` is served. The client's id of a conversation is also the server's. The server continues a conversation that
it has, thinking included; otherwise the conversation starts with the messages that the client sends. A run belongs to the client that
started it; `rxworker.ui.web.clients` describes what happens when that client disconnects.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, aclosing
from typing import TypeAlias

from aiohttp import web

from rxworker.errors import LocalProtocolError
from rxworker.events import RunResume, RunStart
from rxworker.messages import Conversation, Message, repair
from rxworker.protocols import encode_json
from rxworker.protocols.common import InterruptReply, decisions_of
from rxworker.protocols.registry import UI_PROTOCOLS, RunRequest, UiProtocol, WatchedRun
from rxworker.protocols.ui_messages import ui_messages_of
from rxworker.ui.web.answers import ApiError, bytes_answer, json_answer, read_json_bytes
from rxworker.ui.web.clients import STOPPED, Clients
from rxworker.ui.web.entry import ConversationEntry, RunEntry
from rxworker.ui.web.keys import STATE, first_event
from rxworker.ui.web.runs import STOP_SECONDS, Runs
from rxworker.ui.web.watching import watch_run

MAX_ID = 200
"""The most characters of a client's name for a conversation."""

SOON = 10.0
"""Seconds within which a client that was served a history without the last answer asks for the stream of that answer."""

RUN_HEADER = "X-Rxworker-Run"
"""Names the run in an answer, for the API: to cancel it, for example."""


Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


def protocol_routes() -> list[web.RouteDef]:
    """The routes of every UI protocol: start or resume a run, and watch one."""
    routes: list[web.RouteDef] = []
    for name, protocol in UI_PROTOCOLS.items():
        routes.append(web.post(protocol.path, _post(name, protocol), name=name))
        watch = _get(name, protocol)
        routes.append(web.get(f"/api/runs/{{id}}/{name}", watch, allow_head=False))
    return routes


def _post(name: str, protocol: UiProtocol) -> Handler:
    """Start a run, or resume a paused one, and watch it."""

    async def post(request: web.Request) -> web.StreamResponse:
        data = await read_json_bytes(request)
        try:
            given = protocol.read(data)
        except LocalProtocolError as error:
            raise ApiError(400, "bad_request", str(error)) from None
        entry = await _begin(request, given)
        entry.message_id = given.message_id
        run = _watched(request, entry, name)
        stream = given.stream or protocol.stream
        return await _send(request, entry, stream(run), protocol.headers)

    return post


def _get(name: str, protocol: UiProtocol) -> Handler:
    """Watch a run from its first record."""

    async def get(request: web.Request) -> web.StreamResponse:
        entry = request.config_dict[STATE].runs_of(request).find(request.match_info["id"])
        run = _watched(request, entry, name)
        return await _send(request, entry, protocol.stream(run), protocol.headers)

    return get


async def get_chat(request: web.Request) -> web.StreamResponse:
    """Come back to a chat's run; 204 when none is on.

    A run that has ended since its chat's history was served without its answer is streamed as if it were on.
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
    # The client replaces what it has of the message with what it is sent.
    run = _watched(request, entry, "chat", _gone_on_with(runs, entry))
    protocol = UI_PROTOCOLS["chat"]
    return await _send(request, entry, protocol.stream(run), protocol.headers)


async def get_chat_messages(request: web.Request) -> web.Response:
    """The messages that a chat begins with, as ``useChat`` keeps them; none where the chat is not known.

    The answer of a run that is on is left out: `get_chat` sends all of it.
    """
    runs = request.config_dict[STATE].runs_of(request)
    conversation = runs.conversation(request.match_info["id"])
    entry = None if conversation is None else conversation.current
    if entry is None:
        return json_answer([])
    state = entry.run.state
    said, pause = state.conversation, None if entry.dismissed is not None else state.pause
    entry.left_out_at = None if entry.run.done() else asyncio.get_running_loop().time()
    if not entry.run.done():
        begun = [*_gone_on_with(runs, entry), entry][0]
        first = first_event(begun.run)
        said, pause = (
            (first.conversation, None) if isinstance(first, RunStart | RunResume) else (said, None)
        )
    messages = ui_messages_of(said, entry.conversation.id, run=entry.id, pause=pause)
    return bytes_answer(entry.hide(encode_json(messages)))


async def post_chat_stop(request: web.Request) -> web.Response:
    """Stop the run of a chat: for clients that resume, to which a closed connection is no stop."""
    conversation = (
        request.config_dict[STATE].runs_of(request).conversation(request.match_info["id"])
    )
    entry = None if conversation is None else conversation.current
    if entry is not None and not entry.run.done():
        await asyncio.wait({entry.run.cancel(reason=STOPPED)}, timeout=STOP_SECONDS)
    return web.Response(status=204)


def _watched(
    request: web.Request, entry: RunEntry, name: str, earlier: Sequence[RunEntry] = ()
) -> WatchedRun:
    """The run as a protocol encodes it; ``name`` is the watcher's."""
    return WatchedRun(
        watch_run(entry, 0, name=name).batches(),
        entry.id,
        entry.conversation.id,
        entry.message_id,
        tuple(before.run.watch(name=name).batches() for before in earlier),
        request.query,
    )


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
        return await state.streams.send(request, _hidden(pieces, entry), named)


async def _hidden(
    pieces: AsyncGenerator[bytes, None], entry: RunEntry
) -> AsyncGenerator[bytes, None]:
    async with aclosing(pieces):
        async for piece in pieces:
            yield entry.hide(piece)


def _is_left_out(entry: RunEntry) -> bool:
    """Whether a client has just been served a history without the answer of this run."""
    at = entry.left_out_at
    return at is not None and asyncio.get_running_loop().time() - at < SOON


def _gone_on_with(runs: Runs, entry: RunEntry) -> list[RunEntry]:
    """The runs before this one whose message it goes on with, as far as they are kept."""
    before: list[RunEntry] = []
    while entry.message_id is not None and entry.resumes is not None:
        earlier = runs.get(entry.resumes)
        if earlier is None:
            break
        before.insert(0, earlier)
        entry = earlier
    return before


async def _begin(request: web.Request, given: RunRequest) -> RunEntry:
    """Begin the run that a client asks for. The run belongs to that client."""
    state = request.config_dict[STATE]
    runs = state.runs_of(request)
    name = given.conversation_id
    if not given.replies and not given.messages:
        raise ApiError(400, "empty", "there is nothing to answer: send a message of the user's")
    if not 0 < len(name) <= MAX_ID:
        raise ApiError(400, "bad_request", f"a conversation's id has 1 to {MAX_ID} characters")
    conversation = runs.conversation(name)
    if conversation is not None:
        await runs.make_free(conversation)
    if given.replies:
        entry = _resume(runs, name, given.replies, given.messages)
    else:
        entry = _start(runs, given, request.query.get("worker"))
    entry.clients = Clients(entry.run, state.settings.cancel_on_disconnect)
    return entry


def _start(runs: Runs, given: RunRequest, worker: str | None) -> RunEntry:
    runs.check_room()
    name = given.conversation_id
    messages = given.messages
    conversation = runs.conversation(name)
    if conversation is None:
        conversation = runs.begin_conversation(worker, name)
        _go_back(conversation, given.conversation, given.messages)
    elif given.replaces:
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
    runs: Runs, name: str, replies: Sequence[InterruptReply], messages: tuple[Message, ...]
) -> RunEntry:
    if len({reply.run for reply in replies}) > 1:
        raise ApiError(400, "bad_request", "the answers are for several runs: send them one by one")
    if runs.find(replies[0].run).conversation.id != name:
        message = "another conversation has asked: send the answer in the one that did"
        raise ApiError(409, "other_conversation", message)
    said = tuple(reply.message for reply in replies if reply.message is not None)
    return runs.resume(replies[0].run, decisions_of(replies), (*said, *messages))


def _go_back(
    conversation: ConversationEntry, said: Conversation, latest: Sequence[Message]
) -> None:
    """Let the worker know what was said before, as the client tells it."""
    made = conversation.made
    earlier = (*made.messages, *said.messages[: len(said.messages) - len(latest)])
    system = said.system if made.system is None else made.system
    conversation.worker.conversation = repair(Conversation(earlier, system))
