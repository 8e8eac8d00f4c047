"""Runs for the clients of other protocols: AG-UI, and the UI Message Stream that ``useChat`` reads.

Their name for a conversation is ours, too. A conversation that the server knows goes on as the server knows it, thinking included; one
that it does not know begins with the messages that the client sends. A run belongs to the client that has begun it; see
`rxworker.ui.web.entry` for what becomes of it when that client leaves.
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
from rxworker.ui.web.responses import ApiError, bytes_answer, json_answer, read_json_bytes
from rxworker.ui.web.runs import STOP_SECONDS, Runs
from rxworker.ui.web.state import STATE, first_event
from rxworker.ui.web.streams import watch_run

MAX_ID = 200
"""The most characters of a client's name for a conversation."""

SOON = 10.0
"""Seconds within which a client that was served a history without the last answer asks for the stream of that answer."""

RUN_HEADER = "X-Rxworker-Run"
"""Names the run in an answer, for the API: to cancel it, for example."""


async def post_ag_ui(request: web.Request) -> web.StreamResponse:
    """Begin a run, or go on with a paused one, and watch it, in AG-UI."""
    data = await read_json_bytes(request)
    try:
        given = read_run_input(data)
    except LocalProtocolError as error:
        raise ApiError(400, "bad_request", str(error)) from None
    entry = await _begin(request, given, given.thread_id)
    return await _watch_ag_ui(request, entry, given)


async def get_ag_ui(request: web.Request) -> web.StreamResponse:
    """Watch a run in AG-UI, from its beginning, with what was said before it."""
    entry = request.config_dict[STATE].runs_of(request).find(request.match_info["id"])
    given = AgUiInput(entry.conversation.id, entry.id, protocol=request.query.get("protocol"))
    return await _watch_ag_ui(request, entry, given, snapshot=True)


async def post_chat(request: web.Request) -> web.StreamResponse:
    """Begin a run, or go on with a paused one, and watch it, as ``useChat`` does."""
    data = await read_json_bytes(request)
    try:
        given = read_chat_request(data)
    except LocalProtocolError as error:
        raise ApiError(400, "bad_request", str(error)) from None
    entry = await _begin(request, given, given.id)
    entry.message_id = given.last_message_id if given.replies else None
    return await _watch_chat(request, entry)


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
    return await _watch_chat(request, entry, _gone_on_with(runs, entry))


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
        # By its name a client that comes back knows the message as one that it has.
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


async def _begin(request: web.Request, given: AgUiInput | ChatRequest, name: str) -> RunEntry:
    """Begin the run that a client asks for. The run belongs to that client."""
    state = request.config_dict[STATE]
    runs = state.runs_of(request)
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
    elif isinstance(given, ChatRequest) and _says_it_anew(given):
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
        raise ApiError(400, "bad_request", "the answers are for several runs: send them one by one")
    if runs.find(replies[0].run).conversation.id != name:
        message = "another conversation has asked: send the answer in the one that did"
        raise ApiError(409, "other_conversation", message)
    said = tuple(reply.message for reply in replies if reply.message is not None)
    return runs.resume(replies[0].run, decisions_of(replies), (*said, *messages))


def _says_it_anew(given: ChatRequest) -> bool:
    """Whether the client takes something back: an answer that is given again, or a message that was edited."""
    return given.trigger == "regenerate-message" or given.message_id is not None


def _go_back(
    conversation: ConversationEntry, said: Conversation, latest: Sequence[Message]
) -> None:
    """Let the worker know what was said before, as the client tells it."""
    made = conversation.made
    earlier = (*made.messages, *said.messages[: len(said.messages) - len(latest)])
    system = said.system if made.system is None else made.system
    conversation.worker.conversation = repair(Conversation(earlier, system))
