"""The request of an attempt, made again from the records of its run and from the worker.

The records hold the conversation of each request, without the settings and the changes of hooks. Of the requests that
this process has sent, those of the last turns are known exactly; for any other request the answer lists why it may
differ from what was sent. Headers are left out, since keys are in them.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from reactivex import operators as ops

from rxworker.errors import RxWorkerError
from rxworker.events import AttemptStart, Record, RunResume, RunStart
from rxworker.hooks import HookPoint
from rxworker.hooks.registry import names_in
from rxworker.protocols.native import encode_json
from rxworker.providers import Request
from rxworker.providers.base import hidden, hidden_url
from rxworker.resume.stored import digest_of
from rxworker.run.run import request_of
from rxworker.state import RunState, fold_run
from rxworker.transport import Client
from rxworker.ui.web.http.responses import ApiError
from rxworker.ui.web.runs.entry import RunEntry
from rxworker.worker import QueuedWorker
from rxworker.worker.definition import Definition

Doubt: TypeAlias = Literal["nested", "worker", "process", "hooks", "model", "tools", "form"]


class SentRequest(Struct, frozen=True):
    """The request of an attempt.

    Attributes:
        provider: The name of the provider.
        model: The name of the model.
        url: The address of the request; empty if it is not known in the form of the provider.
        body: The body, without what is a secret by its name in the settings of the provider's own; if it is not known
            in the form of the provider, the conversation, the tools and the settings.
        doubts: Why it may differ from what was sent: ``nested``: a tool made it, whose worker is not known; ``worker``:
            this server has no such worker; ``process``: another process sent it, possibly with other settings;
            ``hooks``: hooks may have changed its messages, and their changes are not known; ``model``: the request was
            for another model than that of the worker; ``tools``: the tools have changed since; ``form``: the body is
            not in the form of the provider: the model is not called over HTTP, is one of several, or has no key here.
        hooks: The names of these hooks.
    """

    provider: str
    model: str
    url: str
    body: msgspec.Raw
    doubts: tuple[Doubt, ...] = ()
    hooks: tuple[str, ...] = ()


def sent_request(entry: RunEntry, seq: int, worker: Definition | None) -> SentRequest:
    """Make the request of an attempt again.

    Args:
        entry: The run, opened.
        seq: The number of the record with which the attempt starts.
        worker: The worker of the run, if this server has it.

    Raises:
        ApiError: No attempt starts with this record.
    """
    records = _records_until(entry, seq)
    last = records[-1] if records else None
    if last is None or last.seq != seq or not isinstance(last.event, AttemptStart):
        raise ApiError(404, "no_request", f"record {seq} of this run does not begin a request")
    start_event = last.event
    conversation = fold_run(records, RunState(path=last.path)).conversation
    if last.path or worker is None or isinstance(worker, QueuedWorker):
        body = msgspec.Raw(encode_json({"conversation": conversation}))
        why: tuple[Doubt, ...] = ("nested",) if last.path else ("worker",)
        return SentRequest(start_event.provider, start_event.model, "", body, why)
    here, doubts, hooks = entry.here, list[Doubt](), list[str]()
    if here is not None and seq >= here.first_seq:
        request, knows_hooks = request_of(here, last.turn, conversation)
    else:
        request, knows_hooks = Request(conversation, worker.tools.metas, worker.options), False
        doubts.append("process")
    if not knows_hooks:
        hooks = names_in(worker.hooks.orders[HookPoint.ON_MESSAGE_SEND])
        if hooks:
            doubts.append("hooks")
    if (start_event.provider, start_event.model) != (worker.model.name, worker.model.model):
        doubts.append("model")
    start = records[0].event
    known = {meta.name: digest_of(meta) for meta in request.tools}
    if isinstance(start, RunStart | RunResume) and start.tools and start.tools != known:
        doubts.append("tools")
    url, body = _encoded(worker, request)
    if not url:
        doubts.append("form")
    return SentRequest(start_event.provider, start_event.model, url, body, tuple(doubts), tuple(hooks))


def _records_until(entry: RunEntry, seq: int) -> list[Record]:
    found: list[Record] = []

    def is_before(record: Record) -> bool:
        return record.seq < seq

    entry.run.records.pipe(ops.take_while(is_before, inclusive=True)).subscribe(found.append, lambda _: None).dispose()
    return found


def _encoded(worker: Definition, request: Request) -> tuple[str, msgspec.Raw]:
    """The address and the body of the request as the provider of the worker encodes it.

    Without an address if it cannot.
    """
    options: Any = replace(request.options, extra=hidden(request.options.extra))
    if isinstance(worker.model, Client):
        try:
            sent = worker.model.provider.request(request.conversation, request.tools, options)
            return hidden_url(sent.url), msgspec.Raw(sent.body)
        except (RxWorkerError, UnicodeEncodeError):
            pass  # for example without a key
    return "", msgspec.Raw(encode_json(replace(request, options=replace(options, headers={}))))
