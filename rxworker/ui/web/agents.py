"""Runs for the clients of the UI protocols, such as AG-UI and the UI Message Stream that ``useChat`` reads.

Every protocol of `UI_PROTOCOLS` is served. The client's id of a conversation is also the server's. The server continues
a conversation that it has, thinking included; otherwise the conversation starts with the messages that the client
sends. A run belongs to the client that started it; `rxworker.ui.web.runs.entry` describes what happens when that client
disconnects.

A worker is given the tools that its client sends (`equip`). A run that waits for them continues with the results of the
client.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from copy import copy
from functools import partial

from aiohttp import web
from msgspec.structs import replace

from rxworker.decisions import Answer, Dismiss, PendingCalls, assign
from rxworker.errors import ConfigurationError, DecisionError
from rxworker.events import Record, RunAbort, RunResume, RunStart
from rxworker.messages import Conversation, Message, ToolMeta, ToolResult, repair
from rxworker.messages.pairs import calls_made
from rxworker.protocols.common import CallIds, RunRequest, WatchedRun, decisions_of
from rxworker.protocols.native import encode_json
from rxworker.protocols.registry import UI_PROTOCOLS, UiProtocol
from rxworker.protocols.ui_messages import ui_messages_of
from rxworker.providers import Options
from rxworker.tools import ClientTool, Toolbox
from rxworker.ui.web.http.request import Route, WebRequest, live, post
from rxworker.ui.web.http.responses import (
    ApiError,
    bytes_response,
    decode_body,
    json_response,
    read_json_bytes,
    refused,
)
from rxworker.ui.web.runs.entry import STOPPED, ConversationEntry, RunEntry, first_event
from rxworker.ui.web.runs.of_user import Runs
from rxworker.ui.web.state import ServerState
from rxworker.ui.web.streams.streams import watch_run
from rxworker.worker import QueuedWorker


def equip(conversation: ConversationEntry, metas: Sequence[ToolMeta], options: Options | None = None) -> None:
    """Give the next run of a conversation the tools and settings of its client, in place of those of the last request.

    The worker stays as it is: other conversations may share it.

    Raises:
        ApiError: One of the tools has the name of a tool of the worker, or the worker runs in other processes.
    """
    worker = conversation.worker
    if metas and isinstance(worker, QueuedWorker):
        raise ApiError(400, "no_tools", "this worker runs in other processes, which cannot run tools of a client")
    if metas or options is not None:
        worker = copy(worker)
        worker.options = options or worker.options
        if metas:
            worker.tools = Toolbox(worker.tools)
            with refused(ConfigurationError, 400, "bad_tools"):
                worker.tools.add(*map(ClientTool, metas))
    conversation.session.worker = worker


def answers_of(entry: RunEntry, results: Iterable[ToolResult], *, is_shown: bool = True) -> dict[int, Answer]:
    """The answers to the calls that a run waits for, from results of a client, by the indices of the pending calls.

    Args:
        entry: The run; it must be open.
        results: The results.
        is_shown: Whether they have the ids of `CallIds`, which differ; otherwise those of the calls, in the order of
            the calls.
    """
    pause = entry.run.state.pause
    if pause is None or entry.status != "paused" or entry.resumed_as is not None:
        return {}
    conversation, ids = entry.run.state.conversation, CallIds()
    earlier, shown = set[str](), list[str]()
    for message in conversation.messages:
        if message.tool_calls:
            earlier.update(shown)
            shown = [ids.of_call(call.id) for call in message.tool_calls]
    own = iter([shown[each.place] if each.place < len(shown) else "" for each in pause.calls])
    names = [node.name if node.path else next(own) for node in pause.tree]
    answers: dict[int, Answer] = {}
    for result in results:
        name = result.tool_use_id
        if is_shown and (name in names or name in earlier):
            index = names.index(name) if name in names else None
        else:
            same = [at for at, call in enumerate(pause.pending) if call.id == name]
            index = next((at for at in same if at not in answers), None)
        if index is not None:
            answers[index] = Answer(result.content, result.is_error)
    return answers


def without_results(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The messages without the results in them; a message of results alone is left out."""
    kept = [Message(m.role, tuple([c for c in m.content if not isinstance(c, ToolResult)])) for m in messages]
    return tuple([message for message in kept if message.content])


MAX_ID = 200
"""The maximum length of a conversation id that a client chooses."""

SOON = 10.0
"""Seconds in which a client that received a history without the last answer must request the stream of that answer."""

RUN_HEADER = "X-Rxworker-Run"
"""The response header with the id of the run, which the API needs, for example to cancel it."""


def protocol_routes(state: ServerState) -> list[Route]:
    """The routes of every UI protocol: start or resume a run, and watch one."""
    routes: list[Route] = []
    for name, protocol in UI_PROTOCOLS.items():
        routes.append(post(protocol.path, partial(post_request, state, protocol, name), name))
        routes.append(live(f"/api/runs/{{id}}/{name}", partial(get_run_again, state, name)))
    return routes


async def post_request(state: ServerState, protocol: UiProtocol, name: str, request: WebRequest) -> None:
    """Start a run, or resume a paused one, and watch it."""
    given = decode_body(await read_json_bytes(request), protocol.read)
    entry = await _begin(state, request, given)
    async with state.streams.connected(request, entry, begins=not entry.is_dismissed):
        entry.message_id = given.message_id
        run = replace(_watched(request, entry, name), continues=given.message_id is not None)
        if entry.is_dismissed:
            run = replace(run, batches=_dismissal(entry))
        await _send(state, request, entry, (given.stream or protocol.stream)(run), protocol)


async def get_run_again(state: ServerState, name: str, request: WebRequest) -> None:
    """Watch a run from its first record."""
    await _send_again(state, request, await state.runs.of(request).find(request.params["id"]), name)


async def _send_again(state: ServerState, request: WebRequest, entry: RunEntry, name: str) -> None:
    """Send a run from its first record, after the runs whose message it continues."""
    protocol = UI_PROTOCOLS[name]
    async with state.streams.connected(request, entry):
        run = _watched(request, entry, name, _continued_runs(state.runs.of(request), entry))
        await _send(state, request, entry, protocol.stream(run), protocol)


async def get_chat(state: ServerState, request: WebRequest) -> web.Response | None:
    """Stream the current run of a chat again; 204 if no run is running.

    A run that has ended after the chat's history was served without its answer is streamed as if it were running.
    """
    name = request.params["id"]
    if len(name) <= MAX_ID:
        state.store.note_resuming(name, request.owner)
    if (entry := state.runs.of(request).current(name)) is None:
        return web.Response(status=204)
    await entry.open()
    left_out_at, now = entry.left_out_at, asyncio.get_running_loop().time()
    if entry.run.done() and (left_out_at is None or now - left_out_at >= SOON):
        return web.Response(status=204)
    entry.left_out_at = None
    # The client replaces its copy of the message with this stream.
    await _send_again(state, request, entry, "chat")
    return None


async def get_chat_messages(state: ServerState, request: WebRequest) -> web.Response:
    """Return the messages of a chat for ``useChat``; empty if the chat is unknown.

    The answer of a running run is left out: `get_chat` streams all of it.
    """
    runs = state.runs.of(request)
    if (entry := runs.current(request.params["id"])) is None:
        return json_response([])
    await entry.open()
    shown = entry.run.state
    history, pause = shown.conversation, None if entry.is_dismissed else shown.pause
    entry.left_out_at = None if entry.run.done() else asyncio.get_running_loop().time()
    if not entry.run.done():
        begun, pause = [*_continued_runs(runs, entry), entry][0], None
        if isinstance(first := first_event(begun.run), RunStart | RunResume):
            history = first.conversation
    shared_state = shown.shared_state if entry.run.done() else None
    messages = ui_messages_of(history, entry.conversation.id, run_id=entry.id, pause=pause, shared_state=shared_state)
    return bytes_response(entry.redact(encode_json(messages)))


async def post_chat_stop(state: ServerState, request: WebRequest) -> web.Response:
    """Stop the run of a chat. For clients that resume, because for these a closed connection does not stop the run."""
    runs = state.runs.of(request)
    entry = runs.current(request.params["id"])
    if entry is not None and entry.status == "running":
        await runs.cancel(entry, STOPPED)
    return web.Response(status=204)


def _watched(request: WebRequest, entry: RunEntry, name: str, earlier: Sequence[RunEntry] = ()) -> WatchedRun:
    """The run as a protocol encodes it; ``name`` is the watcher's."""
    return WatchedRun(
        watch_run(entry, name).batches(),
        entry.id,
        entry.conversation.id,
        message_id=entry.message_id,
        earlier=tuple(before.run.watch(name=name).batches() for before in earlier),
        query=request.query,
    )


async def _dismissal(entry: RunEntry) -> AsyncGenerator[list[Record], None]:
    """The end of a paused run that its client did not want to go on. The run itself has no record of it."""
    events = RunResume(entry.run.state.conversation, resumes=entry.id), RunAbort("cancel", entry.reason)
    yield [Record(seq, entry.id, 0, 0, time.time(), each) for seq, each in enumerate(events, 1)]


async def _send(
    state: ServerState, request: WebRequest, entry: RunEntry, pieces: AsyncGenerator[bytes, None], protocol: UiProtocol
) -> None:
    await state.streams.send(request, pieces, {**protocol.headers, RUN_HEADER: entry.id}, entry.redact)


def _continued_runs(runs: Runs, entry: RunEntry) -> list[RunEntry]:
    """The earlier runs whose message this run continues, as far as they are kept."""
    before: list[RunEntry] = []
    while entry.message_id is not None and entry.resumes is not None:
        if (earlier := runs.get(entry.resumes)) is None:
            break
        before.insert(0, earlier)
        entry = earlier
    return before


async def _begin(state: ServerState, request: WebRequest, given: RunRequest) -> RunEntry:
    """Start the run that a client requests."""
    runs = state.runs.of(request)
    name = given.conversation_id
    if not given.replies and not given.messages and not given.results:
        raise ApiError(400, "empty", "there is nothing to answer: send a message of the user's")
    if not 0 < len(name) <= MAX_ID:
        raise ApiError(400, "bad_request", f"the id of a conversation must have 1 to {MAX_ID} characters")
    if (conversation := runs.conversation(name)) is not None:
        await conversation.make_free()
    waiting = await _waiting(runs, given)
    dismissals = [reply.dismiss for reply in given.replies if reply.dismiss is not None]
    if waiting is not None and dismissals:
        return await _dismiss(runs, waiting, dismissals[0])
    if waiting is not None:
        return await _resume(runs, waiting, given)
    await runs.prepare(conversation)
    return _start(runs, given, request.query.get("worker"))


async def _waiting(runs: Runs, given: RunRequest) -> RunEntry | None:
    """The paused run that a client replies to, or sends the results of its tools for.

    ``None`` if it starts another one.
    """
    if given.replies:
        if len({reply.run_id for reply in given.replies}) > 1:
            raise ApiError(400, "bad_request", "the answers belong to several runs: send them one by one")
        entry = await runs.settled(given.replies[0].run_id)
        if entry.conversation.id != given.conversation_id:
            message = "the question belongs to another conversation: send the answer there"
            raise ApiError(409, "other_conversation", message)
        await entry.open()
        return entry
    current = runs.current(given.conversation_id)
    if not given.results or current is None:
        return None
    entry = await runs.settled(current.id)
    await entry.open()
    if answers_of(entry, given.results):
        return entry
    if not given.messages:
        raise ApiError(409, "no_call", "no call of this conversation waits for such a result")
    return None


async def _dismiss(runs: Runs, waiting: RunEntry, dismissal: Dismiss) -> RunEntry:
    """End a paused run that waits for no call."""
    entry = await runs.find_paused(waiting.id)
    _check_no_call(entry.pending)
    await runs.cancel(entry, dismissal.reason)
    return entry


def _check_no_call(pending: PendingCalls) -> None:
    """Refuse a reply about the end of a turn to a run that waits for a call."""
    if pending.required:
        what = pending.describe(pending.required[0])
        raise DecisionError(
            f"interruptId: the run waits for a decision about the call {what}: send one, and nothing else"
        )


def _start(runs: Runs, given: RunRequest, worker: str | None) -> RunEntry:
    runs.store.check_room(runs.owner)
    name = given.conversation_id
    messages = given.messages
    known = runs.conversation(name)
    conversation = known or runs.begin_conversation(worker, name)
    received = conversation.worker.mapped(messages)
    if known is None:
        if not messages:  # this server does not know the run that has waited for these results
            messages = _results_for(given)
        _go_back(conversation, given.conversation, messages)
    elif given.replaces:
        conversation.check_free()
        if (before := conversation.before(received)) is None:
            _go_back(conversation, given.conversation, given.messages)
        else:
            conversation.session.conversation = before
    else:
        messages = messages[conversation.known_of(received) :]
    equip(conversation, given.tools)
    if given.shared_state is not None:
        conversation.session.shared_state = given.shared_state
    entry = runs.next_run(conversation, messages)
    conversation.received = received
    return entry


def _results_for(given: RunRequest) -> tuple[Message, ...]:
    """The results of a client as the input of a run, if they belong to the last calls of its conversation."""
    known = {call.id for call in calls_made(given.conversation)}
    results = tuple([result for result in given.results if result.tool_use_id in known])
    if not results:
        raise ApiError(400, "no_call", "the conversation has no call with such a result")
    return (Message("user", results),)


async def _resume(runs: Runs, waiting: RunEntry, given: RunRequest) -> RunEntry:
    """Resume a paused run with the replies of its client and the results of its tools."""
    await runs.prepare(waiting.conversation)
    pending = waiting.pending
    if any(reply.decision is None for reply in given.replies):
        _check_no_call(pending)
    answers = answers_of(waiting, given.results)
    decided = assign(
        pending,
        [*((pending.ids[index], answer) for index, answer in answers.items()), *decisions_of(given.replies).items()],
    )
    texts = tuple([reply.message for reply in given.replies if reply.message is not None])
    equip(waiting.conversation, given.tools)
    return await runs.resume(waiting, decided, (*texts, *given.messages), shared_state=given.shared_state)


def _go_back(conversation: ConversationEntry, history: Conversation, latest: Sequence[Message]) -> None:
    """Set the session's conversation to the earlier messages that the client sent."""
    made = conversation.worker.initial_conversation
    sent = conversation.worker.mapped_history(history)
    earlier = (*made.messages, *sent.messages[: len(sent.messages) - len(latest)])
    system = sent.system if made.system is None else made.system
    conversation.session.conversation = repair(Conversation(earlier, system))
