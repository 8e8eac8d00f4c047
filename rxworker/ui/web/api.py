"""The JSON API: what the server is, and starting, listing and steering runs."""

from __future__ import annotations

import asyncio
from typing import Literal

import msgspec
from aiohttp import web
from msgspec import Struct

import rxworker
from rxworker.errors import RunCancelledError
from rxworker.messages import JsonObject
from rxworker.ui.web.answers import ApiError, bytes_answer, json_answer, read_json
from rxworker.ui.web.keys import STATE
from rxworker.ui.web.workers import WorkerInfo
from rxworker.worker import Answer, Approve, Decision, Deny

PATIENCE = 5.0
"""Seconds that a request waits for the end of the run that it cancels. A tool may take longer to stop."""


class Info(Struct, frozen=True):
    """What the server is."""

    instance: str
    version: str
    title: str
    workers: tuple[WorkerInfo, ...]


class RunsAnswer(Struct, frozen=True):
    """The list of runs, the newest first, each as the JSON of a `RunSummary`."""

    instance: str
    runs: list[msgspec.Raw]


class StartBody(Struct, frozen=True):
    """What begins a run."""

    input: str
    worker: str | None = None
    conversation: str | None = None


class SendBody(Struct, frozen=True):
    """What is said into a run."""

    message: str


class PauseBody(Struct, frozen=True):
    """Why a run is to pause."""

    reason: str = "paused by the user"


class CancelBody(Struct, frozen=True):
    """When and why a run is to end."""

    when: Literal["now", "after_turn"] = "now"
    reason: str = "cancelled by the user"


class ApproveBody(Struct, frozen=True, tag="approve"):
    """Run the call; ``input`` are other arguments than the model's: a text where the tool takes free text."""

    input: JsonObject | str | None = None


class DenyBody(Struct, frozen=True, tag="deny"):
    """Do not run the call."""

    reason: str = "This call was not approved."


class AnswerBody(Struct, frozen=True, tag="answer"):
    """Do not run the call; this is its result."""

    content: str


class ResumeBody(Struct, frozen=True):
    """What is decided about the calls that wait, by their ids."""

    decisions: dict[str, ApproveBody | DenyBody | AnswerBody] = {}


async def get_info(request: web.Request) -> web.Response:
    """What the server is."""
    state = request.config_dict[STATE]
    title = state.settings.title
    return json_answer(
        Info(state.instance, rxworker.__version__, title, state.workers.infos(request))
    )


async def get_runs(request: web.Request) -> web.Response:
    """The runs, the newest first."""
    state = request.config_dict[STATE]
    runs = [msgspec.Raw(entry.encoded()) for entry in state.runs_of(request)]
    return json_answer(RunsAnswer(state.instance, runs))


async def get_run(request: web.Request) -> web.Response:
    """One run."""
    entry = request.config_dict[STATE].runs_of(request).find(request.match_info["id"])
    return bytes_answer(entry.encoded())


async def post_run(request: web.Request) -> web.Response:
    """Begin a run."""
    runs = request.config_dict[STATE].runs_of(request)
    body = await read_json(request, StartBody)
    text = _said(body.input, "input")
    entry = runs.start(text, worker=body.worker, conversation=body.conversation)
    return bytes_answer(entry.encoded(), 201)


async def post_send(request: web.Request) -> web.Response:
    """Say something into a run."""
    entry = request.config_dict[STATE].runs_of(request).find(request.match_info["id"])
    body = await read_json(request, SendBody)
    entry.send(_said(body.message, "message"))
    return bytes_answer(entry.encoded())


async def post_pause(request: web.Request) -> web.Response:
    """Ask a run to pause at the next safe moment."""
    entry = request.config_dict[STATE].runs_of(request).find(request.match_info["id"])
    body = await read_json(request, PauseBody)
    entry.run.pause(reason=body.reason)
    return bytes_answer(entry.encoded())


async def post_cancel(request: web.Request) -> web.Response:
    """End a run; with ``now``, answer when it has ended. One that is paused waits no longer, and cannot be resumed."""
    runs = request.config_dict[STATE].runs_of(request)
    entry = runs.find(request.match_info["id"])
    body = await read_json(request, CancelBody)
    if entry.resumed_as is not None:
        message = f"this run was resumed as {entry.resumed_as}: cancel that one"
        raise ApiError(409, "resumed", message)
    if entry.status == "paused":
        entry.dismiss(str(RunCancelledError(body.reason)))
        runs.changed(entry)
        return bytes_answer(entry.encoded())
    ended = entry.run.cancel(body.when, reason=body.reason)
    if body.when == "now":
        await asyncio.wait({ended}, timeout=PATIENCE)
    return bytes_answer(entry.encoded())


async def post_resume(request: web.Request) -> web.Response:
    """Go on with a paused run, as a new one."""
    runs = request.config_dict[STATE].runs_of(request)
    body = await read_json(request, ResumeBody)
    decisions = {call: _decision(decision) for call, decision in body.decisions.items()}
    entry = runs.resume(request.match_info["id"], decisions)
    return bytes_answer(entry.encoded(), 201)


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
        raise ApiError(400, "empty", f"{name} is a text that says something")
    return text


__all__ = [
    "get_info",
    "get_run",
    "get_runs",
    "post_cancel",
    "post_pause",
    "post_resume",
    "post_run",
    "post_send",
]
