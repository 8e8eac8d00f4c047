"""The requests of the hooks and stages of a run, and the runs that they begin, which count within the run.

Theory of operation. The task of a run has a `RunAccount` in a context variable. Each request that begins in this
context passes through it; when it has ended, it is recorded as a run inside: the start of an attempt, the tokens and
the status, with a ``path`` of its own. A run that begins there relays its records. The request of the turn itself is
not counted here, since its events are recorded, as operators and stages of the application leave them. The other
requests of these are recorded when the stage has ended, since only then it is known which is the response. What
surprises: a watcher that is pushed to within the run begins nothing inside it, and after the end of the run nothing is
inside it. A tool that begins a run by itself is not counted: `worker_tool` is.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from functools import partial
from typing import Literal

from msgspec import Struct
from reactivex import Observable
from reactivex import operators as ops

from rxworker.events import AttemptStart, Record, ResponseEvent, ResponseStatus, RunStop, Status, Usage
from rxworker.messages.usage import NOTHING, less
from rxworker.providers.models import model_info
from rxworker.transport.base import ACCOUNT, Model, service_of
from rxworker.turn.context import OwnRequest, RunContext
from rxworker.turn.limits import model_prices


class RunAccount(Struct, eq=False):
    """Counts what begins in a context, for a run.

    Attributes:
        context: The run.
        of: What begins there: a request or a run of a hook; of a stage, whose events may become the response of the
            turn; the work of a tool, which is its own, so that nothing is counted; a check of a gate, which adds what
            it took itself, since no record may have what it reads; or the run of a call, whose tool relays its records.
    """

    context: RunContext
    of: Literal["hook", "stage", "tool", "check", "call"] = "hook"

    @property
    def is_open(self) -> bool:
        """Whether what begins now is inside the run. What an observer of its records begins is not."""
        hub = self.context.journal.hub
        return not (self.of in ("tool", "check") or hub.ended or hub.is_pushing)

    def add(self, model: Model, usage: Usage) -> None:
        """Count requests that have ended, and whose events are not recorded."""
        if self.context.journal.state.status == "running":
            _record(self.context, OwnRequest(model, status=ResponseStatus.COMPLETED), usage)

    def count(self, model: Model, answer: Observable[ResponseEvent]) -> Observable[ResponseEvent]:
        """Count a request."""
        if not self.is_open:
            return answer
        context, one = self.context, OwnRequest(model, self.of == "stage")
        context.requests.append(one)

        def note(event: ResponseEvent) -> None:
            one.first = one.first or event
            if isinstance(event, Usage):
                one.usage = event
            elif isinstance(event, Status):
                one.status = event.status

        def ended() -> None:
            if self.of != "stage":
                context.journal.hub.call_in_loop(partial(settle, context, (one,)))

        return answer.pipe(ops.do_action(note), ops.finally_action(ended))


@contextmanager
def counting(context: RunContext) -> Generator[None]:
    """Count the requests of the stage `respond`. Those whose beginning is recorded are responses of the turn."""
    journal, token = context.journal, ACCOUNT.set(RunAccount(context, "stage"))
    begun, before = journal.hub.last_seq, journal.state
    try:
        yield
    finally:
        ACCOUNT.reset(token)
        if requests := [one for one in context.requests if one.of_stage]:
            own = {id(record.event) for record in journal.hub.history.records(begun)}
            response = journal.state.response
            main = [one for one in requests if one.model is context.worker.model]
            if main and response is not None and not response.is_over:  # it was cut off
                own.add(id(main[-1].first))
                if main[-1].usage not in (None, response.usage):
                    journal.emit(main[-1].usage)
            # An operator may report what others took, too.
            pool = less(journal.state.own_usage, before.own_usage)
            attempts = journal.state.attempts - before.attempts
            for one in requests:
                if id(one.first) in own:
                    pool, attempts = less(pool, one.usage), attempts - 1
                    context.requests.remove(one)
                    if attempts < 0:  # an operator has sent it again, within one attempt
                        _record(context, one, None)
            settle(context, requests, pool)


def settle(context: RunContext, requests: Iterable[OwnRequest], pool: Usage = NOTHING) -> None:
    """Record what requests took, as far as it is not in the pool of what is recorded."""
    for one in requests:
        if one in context.requests:
            context.requests.remove(one)
            rest, pool = less(one.usage, pool), less(pool, one.usage)
            if one.first is not None:
                _record(context, one, None if one.usage is None else rest)


def _record(context: RunContext, one: OwnRequest, usage: Usage | None) -> None:
    journal, run = context.journal, context.journal.run_id
    path = f"request-{journal.hub.last_seq + 1}"
    counted = () if usage is None else (usage,)
    for event in (attempt_start(context, one.model), *counted, Status(one.status), RunStop()):
        journal.relay(path, Record(0, run, journal.turn, 1, journal.clock(), event))
    for budget in context.budgets:
        budget.report(f"{run}/{path}", usage or NOTHING, model_prices(one.model))
        budget.end(f"{run}/{path}")


def attempt_start(context: RunContext, model: Model) -> AttemptStart:
    """The start of a request of a run to a model."""
    worker, name = context.worker, model.model
    known = model_info(name).prices
    prices = worker.prices if model is worker.model else model_prices(model)
    own = None if prices == known else prices
    is_unpriced = prices is None and known is not None
    return AttemptStart(model.name, name, worker.tools.own_names, own, is_unpriced, service_of(model))
