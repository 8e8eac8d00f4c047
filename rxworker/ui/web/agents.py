"""Runs for the clients of other protocols: AG-UI, and the UI Message Stream that ``useChat`` reads.

Their name for a conversation is ours, too. A conversation that the server knows goes on as the server knows it, thinking included; one
that it does not know begins with what the client says was said. A client that leaves does not end its run: it may come back to it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from aiohttp import web

from rxworker.errors import LocalProtocolError
from rxworker.messages import Conversation, Message, repair
from rxworker.protocols import SSE_HEADERS
from rxworker.protocols.ag_ui import AgUiInput, ag_ui_stream, read_run_input
from rxworker.protocols.common import Reply, decisions_of
from rxworker.protocols.ui_messages import (
    HEADERS,
    ChatRequest,
    read_chat_request,
    ui_message_stream,
)
from rxworker.ui.web.answers import ApiError, read_json_bytes
from rxworker.ui.web.entry import ConversationEntry, RunEntry
from rxworker.ui.web.keys import STATE, ServerState
from rxworker.ui.web.runs import Runs
from rxworker.ui.web.watching import watch_run

MAX_ID = 200
"""The most characters of a client's name for a conversation."""

RUN_HEADER = "X-Rxworker-Run"
"""Names the run in an answer, for the API: to cancel it, for example."""


async def post_ag_ui(request: web.Request) -> web.StreamResponse:
    """Begin a run, or go on with a paused one, and watch it, in AG-UI."""
    state = request.config_dict[STATE]
    data = await read_json_bytes(request)
    try:
        given = read_run_input(data)
    except LocalProtocolError as error:
        raise ApiError(400, "bad_request", str(error)) from None
    entry = _begin(request, given, given.thread_id)
    return await _watch_ag_ui(request, state, entry, given)


async def get_ag_ui(request: web.Request) -> web.StreamResponse:
    """Watch a run in AG-UI, from its beginning, with what was said before it."""
    state = request.config_dict[STATE]
    entry = state.runs_of(request).find(request.match_info["id"])
    given = AgUiInput(entry.conversation.id, entry.id, protocol=request.query.get("protocol"))
    return await _watch_ag_ui(request, state, entry, given, snapshot=True)


async def post_chat(request: web.Request) -> web.StreamResponse:
    """Begin a run, or go on with a paused one, and watch it, as ``useChat`` does."""
    state = request.config_dict[STATE]
    data = await read_json_bytes(request)
    try:
        given = read_chat_request(data)
    except LocalProtocolError as error:
        raise ApiError(400, "bad_request", str(error)) from None
    entry = _begin(request, given, given.id)
    entry.message_id = given.last_message_id if given.replies else None
    return await _watch_chat(request, state, entry)


async def get_chat(request: web.Request) -> web.StreamResponse:
    """Come back to a chat's run; 204 when none is on."""
    state = request.config_dict[STATE]
    conversation = state.runs_of(request).conversation(request.match_info["id"])
    entry = None if conversation is None else conversation.current
    if entry is None or entry.run.done:
        return web.Response(status=204)
    # The client replaces what it has of the message with what it is sent.
    return await _watch_chat(request, state, entry, _gone_on_with(state.runs_of(request), entry))


async def _watch_ag_ui(
    request: web.Request,
    state: ServerState,
    entry: RunEntry,
    given: AgUiInput,
    *,
    snapshot: bool = False,
) -> web.StreamResponse:
    with state.places.take(entry):
        pieces = ag_ui_stream(
            watch_run(entry, 0, name="ag-ui").batches(),
            given.thread_id,
            given.run_id,
            protocol=given.protocol,
            snapshot=snapshot,
            parent_run_id=given.parent_run_id,
        )
        headers = {**SSE_HEADERS, RUN_HEADER: entry.id}
        return await state.streams.send(request, _hidden(pieces, entry), headers)


async def _watch_chat(
    request: web.Request,
    state: ServerState,
    entry: RunEntry,
    before: Sequence[RunEntry] = (),
) -> web.StreamResponse:
    with state.places.take(entry):
        pieces = ui_message_stream(
            watch_run(entry, 0, name="chat").batches(),
            # By its name a client that comes back knows the message as one that it has.
            entry.message_id or entry.id,
            before=[earlier.run.watch(name="chat").batches() for earlier in before],
        )
        headers = {**HEADERS, RUN_HEADER: entry.id}
        return await state.streams.send(request, _hidden(pieces, entry), headers)


async def _hidden(
    pieces: AsyncGenerator[bytes, None], entry: RunEntry
) -> AsyncGenerator[bytes, None]:
    async with aclosing(pieces):
        async for piece in pieces:
            yield entry.hide(piece)


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


def _begin(request: web.Request, given: AgUiInput | ChatRequest, name: str) -> RunEntry:
    runs = request.config_dict[STATE].runs_of(request)
    if given.replies:
        return _resume(runs, name, given.replies, given.messages)
    if not given.messages:
        raise ApiError(400, "empty", "there is nothing to answer: send a message of the user's")
    if not 0 < len(name) <= MAX_ID:
        raise ApiError(400, "bad_request", f"a conversation's id has 1 to {MAX_ID} characters")
    runs.check_room()
    conversation = runs.conversation(name)
    if conversation is None:
        conversation = runs.begin_conversation(request.query.get("worker"), name)
        _go_back(conversation, given.conversation, given.messages)
    elif isinstance(given, ChatRequest) and _says_it_anew(given):
        runs.check_free(conversation)
        before = conversation.before(given.messages)
        if before is None:
            _go_back(conversation, given.conversation, given.messages)
        else:
            conversation.worker.conversation = before
    title = " ".join(message.text for message in given.messages)
    return runs.next_run(conversation, given.messages, title)


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


__all__ = ["RUN_HEADER", "get_ag_ui", "get_chat", "post_ag_ui", "post_chat"]
