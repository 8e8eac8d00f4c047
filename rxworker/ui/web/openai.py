"""Workers as the models of OpenAI's APIs: ``/v1/models``, ``/v1/chat/completions`` and ``/v1/responses``.

The name of a worker is the name of a model. A request begins a conversation with the messages that the client sends, or
continues that of ``previous_response_id``, in this process or from the log. A run that waits for tools of its client
continues when the client sends their results.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import cast

import msgspec
from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from rxworker.events import RunResume
from rxworker.messages import Conversation, JsonObject, Message, Text, ToolCall
from rxworker.messages.lenient_json import encode_lenient
from rxworker.messages.pairs import calls_made
from rxworker.messages.usage import Usage, less
from rxworker.protocols import SSE_HEADERS
from rxworker.protocols.openai import (
    ResponseEncoder,
    chat_completion,
    chat_stream,
    read_completion_request,
    read_response_request,
    response_object,
    response_stream,
)
from rxworker.protocols.openai.chat import CompletionError, openai_error, usage_of
from rxworker.protocols.openai.read import OpenAIRequest
from rxworker.protocols.openai.responses import ResponseHead, response_events
from rxworker.ui.web.agents import answers_of, equip, without_results
from rxworker.ui.web.guard import OPENAI
from rxworker.ui.web.http.request import Route, WebRequest, get, live, post
from rxworker.ui.web.http.responses import ApiError, bytes_response, decode_body, json_response, read_json_bytes
from rxworker.ui.web.runs.entry import ConversationEntry, RunEntry, first_event
from rxworker.ui.web.runs.of_user import Runs
from rxworker.ui.web.state import ServerState
from rxworker.ui.web.streams.streams import watch_run

LABEL = "openai"
"""The label of a run with what is stored of its request."""

CANCELLED = "its client has cancelled it"

EVENT_NUMBER = re.compile(r"-1|[0-9]{1,15}")


def openai_routes(state: ServerState) -> list[Route]:
    """The routes of OpenAI's APIs."""
    return [
        get("/v1/models", partial(get_models, state), OPENAI + "models"),
        get("/v1/models/{id}", partial(get_model, state), OPENAI + "model"),
        post("/v1/chat/completions", partial(post_completion, state), OPENAI + "chat"),
        post("/v1/responses", partial(post_response, state), OPENAI + "responses"),
        live("/v1/responses/{id}", partial(get_response, state), OPENAI + "response"),
        post("/v1/responses/{id}/cancel", partial(post_cancel, state), OPENAI + "cancel"),
    ]


async def get_models(state: ServerState, request: WebRequest) -> web.Response:
    """The workers, as models."""
    names = [info.name for info in state.workers.infos(request)]
    return json_response({"object": "list", "data": [_model(state, name) for name in names]})


async def get_model(state: ServerState, request: WebRequest) -> web.Response:
    """A worker, as a model."""
    name = request.params["id"]
    if name not in [info.name for info in state.workers.infos(request)]:
        raise ApiError(404, "model_not_found", f"there is no worker {name!r:.60}")
    return json_response(_model(state, name))


def _model(state: ServerState, name: str) -> JsonObject:
    return {"id": name, "object": "model", "created": int(state.started), "owned_by": "rxworker"}


async def post_completion(state: ServerState, request: WebRequest) -> web.Response | None:
    """Answer a request of Chat Completions."""
    given = decode_body(await read_json_bytes(request), read_completion_request)
    entry = await _begin(state.runs.of(request), given)
    head: JsonObject = {"id": entry.id, "created": int(entry.started), "model": given.model}
    names = [meta.name for meta in given.tools]
    async with state.streams.connected(request, entry, begins=True):
        batches = watch_run(entry, "chat completion").batches()
        if given.stream:
            usage = partial(_usage, entry) if given.include_usage else None
            await state.streams.send(request, chat_stream(batches, head, names, usage), SSE_HEADERS, entry.redact)
            return None
        try:
            completion = await chat_completion(batches, head, names)
        except CompletionError as error:
            failed = _json(entry, openai_error(500, error.code, error.message), 500)
            failed.headers["X-Should-Retry"] = "false"  # the tools of the run may have done things
            return failed
    return _json(entry, {**completion, "usage": usage_of(_usage(entry))})


async def post_response(state: ServerState, request: WebRequest) -> web.Response | None:
    """Answer a request of Responses."""
    data = await read_json_bytes(request)
    given = decode_body(data, read_response_request)
    runs = state.runs.of(request)
    if given.references:
        given = decode_body(data, partial(read_response_request, items=await _items_of(runs, given.references)))
    before = None if given.previous is None else await _continued(runs, given.previous)
    entry = await _begin(runs, given, before)
    if given.background:  # the run does not end with its client
        await entry.accepted()
        if not given.stream:
            return _json(entry, response_object(_head(entry), "queued"))
    async with state.streams.connected(request, entry, begins=not given.background):
        encoder = ResponseEncoder(_head(entry), partial(_usage, entry))
        batches = watch_run(entry, "response", "reliable").batches()
        if given.stream:
            await state.streams.send(request, response_stream(batches, encoder), SSE_HEADERS, entry.redact)
            return None
        async with aclosing(response_events(batches, encoder)) as events:
            async for _ in events:
                pass
    return _json(entry, encoder.response)


async def get_response(state: ServerState, request: WebRequest) -> web.Response | None:
    """Return a response as it is now; with ``stream=true`` its events after ``starting_after``."""
    entry = await _found(state.runs.of(request), request.params["id"])
    with state.streams.take(entry):
        if request.query.get("stream") != "true":
            return _json(entry, await _response_of(entry))
        after = request.query.get("starting_after", "-1")
        if not EVENT_NUMBER.fullmatch(after):
            raise ApiError(400, "bad_cursor", "starting_after is the number of an event")
        encoder = ResponseEncoder(_head(entry), partial(_usage, entry))
        batches = watch_run(entry, "response", "reliable").batches()
        await state.streams.send(request, response_stream(batches, encoder, int(after)), SSE_HEADERS, entry.redact)
    return None


async def _response_of(entry: RunEntry) -> JsonObject:
    """The response of a run as it is now."""
    last = entry.run.last_seq
    if not last or entry.summary().cause == "queued":
        return response_object(_head(entry), "queued")
    encoder = ResponseEncoder(_head(entry), partial(_usage, entry))
    async with aclosing(watch_run(entry, "response", "reliable").batches()) as batches:
        async for batch in batches:
            for record in batch:
                encoder.feed(record)
            if batch[-1].seq >= last:
                break
    response = encoder.response
    return {**response, "status": "cancelled"} if entry.is_dismissed else response


async def post_cancel(state: ServerState, request: WebRequest) -> web.Response | None:
    """Cancel a response, and return it."""
    runs = state.runs.of(request)
    entry = await _found(runs, request.params["id"])
    if entry.resumed_as is None:
        await runs.cancel(entry, CANCELLED)
    return await get_response(state, request)


# Starting and resuming


async def _found(runs: Runs, name: str) -> RunEntry:
    """The run of a response.

    Raises:
        ApiError: There is none, or its client did not want it stored.
    """
    entry = await runs.find(name)
    await entry.open()
    if _head(entry).repeated.get("store") is False:
        raise ApiError(404, "no_run", "this response was not stored, as its request has it")
    return entry


async def _items_of(runs: Runs, names: Iterable[str]) -> dict[str, JsonObject]:
    """The items of the responses that these items belong to, by their ids.

    Raises:
        ApiError: There is no such response any more.
    """
    items: dict[str, JsonObject] = {}
    for name in names:
        run, *place = name.rsplit(".", 3)
        if name in items or not place:  # the id of a call does not name its run, which knows the call
            continue
        response = await _response_of(await _found(runs, run))
        for item in cast("list[JsonObject]", response["output"]):
            items[str(item["id"])] = item
    return items


async def _continued(runs: Runs, name: str) -> RunEntry:
    """The run that a response continues: when a person has resumed the run of a response, the last one."""
    await _found(runs, name)
    entry = await runs.latest(name)
    await entry.open()
    return entry


async def _begin(runs: Runs, given: OpenAIRequest, before: RunEntry | None = None) -> RunEntry:
    """Resume the run that waits for the results that a client sends; otherwise start one.

    Args:
        runs: The runs of the user.
        given: The request.
        before: The run that it continues, if the client names it.
    """
    content = [part for message in given.input for part in message.content]
    if all(isinstance(part, Text) and not part.text.strip() for part in content):
        raise ApiError(400, "empty", "there is nothing to answer: send a message of the user's")
    if (waiting := await _waiting(runs, given, before)) is not None:
        return await _resumed(runs, waiting, given)
    return await _started(runs, given, before)


async def _waiting(runs: Runs, given: OpenAIRequest, before: RunEntry | None) -> RunEntry | None:
    """The paused run that waits for the results in a request.

    ``None`` if there is none, or if it could be one of several.

    A client that names the run that it continues means that one. Otherwise the messages that it sends have to fit: two
    users of one token may have calls of one id, and neither gets the conversation of the other.
    """
    names = {result.tool_use_id for result in given.results}
    made = calls_made(given.conversation)
    found: list[RunEntry] = []
    for known in () if not names else list(runs) if before is None else (before,):
        if known.resumed_as is not None or (known.is_over and known.status != "paused"):
            continue
        entry = await runs.settled(known.id)  # a list of stored runs may be behind
        is_waiting = entry.conversation.name == given.model and entry.status == "paused"
        pause = entry.summary().pause if is_waiting else None
        if pause is None or not any(call.id in names for call in pause.pending):
            continue
        if before is None:
            worker = runs.worker_of(entry)
            if not _begins_with(given.sent if worker is None else worker.mapped(given.sent), _kept_of(entry).sent):
                continue
            await entry.open()
            if not all(_is_made(call, made, entry) for call in entry.pending.calls if call.id in names):
                continue
        found.append(entry)
    return found[0] if len(found) == 1 else None


def _is_made(call: ToolCall, made: Iterable[ToolCall], entry: RunEntry) -> bool:
    """Whether a call is among those that a client sends back, with the arguments that it was sent: without secrets."""
    sent = (call.input, msgspec.json.decode(entry.redact(encode_lenient(call.input))))
    return any(one.id == call.id and one.name == call.name and one.input in sent for one in made)


def _digest(messages: Sequence[Message]) -> str:
    """The number and a digest of the messages of a request, to recognise them in a later one."""
    return f"{len(messages)}:{hashlib.sha256(encode_lenient(msgspec.to_builtins(messages))).hexdigest()}"


def _begins_with(sent: Sequence[Message], digest: str) -> bool:
    """Whether messages begin with those of an earlier request."""
    count, colon, _ = digest.partition(":")
    return bool(colon) and _digest(sent[: int(count)]) == digest


async def _resumed(runs: Runs, before: RunEntry, given: OpenAIRequest) -> RunEntry:
    """Resume a paused run with the results of its client's tools."""
    await before.open()
    pending = before.pending
    answers = answers_of(before, given.results, is_shown=False)
    tools = _kept_of(before).tools
    for index, call in enumerate(pending.calls):
        if index in answers:
            continue
        if call.name in tools:
            raise ApiError(400, "no_output", f"no tool output found for function call {call.id}")
        if index in pending.required:
            raise ApiError(409, "undecided", f"a person has to decide about {call.name} first: {before.reason}")
    await runs.prepare(before.conversation)
    _equip(before.conversation, given)
    decided = [answers.get(index) for index in range(len(pending.calls))]
    return await runs.resume(before, decided, without_results(given.input))


async def _started(runs: Runs, given: OpenAIRequest, before: RunEntry | None) -> RunEntry:
    """Start a run, after the run that it continues."""
    runs.store.check_room(runs.owner)
    try:
        if before is None:
            conversation = runs.begin_conversation(given.model)
        else:
            conversation = await runs.following(before, given.model)
    except ApiError as error:
        if error.code != "no_worker":
            raise
        raise ApiError(error.status, "model_not_found", error.message) from None
    _equip(conversation, given)
    sent = conversation.worker.mapped_history(replace(given.conversation, system=given.system))
    history = (*conversation.session.conversation.messages, *sent.messages)
    system = "\n\n".join(filter(None, (conversation.worker.initial_conversation.system, sent.system))) or None
    conversation.session.conversation = Conversation(history, system)
    return runs.next_run(conversation, given.input)


def _equip(conversation: ConversationEntry, given: OpenAIRequest) -> None:
    """Give the next run the tools and the settings of its client, in place of those of the last request."""
    equip(conversation, given.tools, given.settings(conversation.worker.options))
    sent = _digest(conversation.worker.mapped(given.sent))
    kept = _Kept(tuple(meta.name for meta in given.tools), given.repeated, sent)
    conversation.session.labels[LABEL] = msgspec.json.encode(kept).decode()


class _Kept(Struct, frozen=True, omit_defaults=True):
    """The fields of a request that are stored with its run, to read the response again and to recognise the next one.

    The next request is recognised by what this one has sent.
    """

    tools: tuple[str, ...] = ()
    repeated: JsonObject = {}
    sent: str = ""


def _kept_of(entry: RunEntry) -> _Kept:
    kept = _Kept()
    with suppress(msgspec.DecodeError):
        kept = msgspec.json.decode(entry.info.row.labels.get(LABEL, "{}"), type=_Kept)
    return kept


def _head(entry: RunEntry) -> ResponseHead:
    """The fields of a response that are known before its output."""
    kept, name = _kept_of(entry), entry.conversation.name
    return ResponseHead(entry.id, entry.started, name, kept.tools, kept.repeated)


def _usage(entry: RunEntry) -> Usage:
    """The usage of a run, without the paused run that it continues."""
    now, first = entry.run.state.usage, first_event(entry.run)
    return less(now, first.usage) if isinstance(first, RunResume) else now


def _json(entry: RunEntry, value: JsonObject, status: int = 200) -> web.Response:
    return bytes_response(entry.redact(encode_lenient(value)), status)
