"""The requests of the hooks and stages of a run, and the runs that they begin, which count within the run.

Theory of operation. The task of a run has a `RunAccount` in a context variable. Each request that begins in this
context passes through it; when it has ended, it is recorded as a run inside: the start of an attempt, the tokens and
the status, with a ``path`` of its own. A run that begins there relays its records. The request of the turn itself is
not counted here, since its events are recorded, unless an operator or a stage of the application may have changed
these: then what all requests of the stage took is compared with what is recorded, and the rest is recorded when the
stage has ended. What surprises: a watcher that is pushed to within the run begins nothing inside it, and after the end
of the run nothing is inside it. A tool that begins a run by itself is not counted: `worker_tool` is.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from functools import partial
from typing import Literal

from msgspec import Struct
from reactivex import Observable
from reactivex import operators as ops

from rxworker.events import (
    AttemptStart,
    Record,
    ResponseEvent,
    RunStop,
    Status,
    Usage,
)
from rxworker.messages.usage import less
from rxworker.providers.models import model_info
from rxworker.transport.base import ACCOUNT, Model
from rxworker.worker.context import OwnRequest, RunContext
from rxworker.worker.limits import NOTHING, model_prices


class RunAccount(Struct, eq=False):
    """Counts what begins in a context, for a run.

    Attributes:
        context: The run.
        of: What begins there: a request or a run of a hook; of a stage, whose events may become the response of the
            turn; the work of a tool, which is its own, so that nothing is counted; or the run of a call, whose tool
            relays its records.
    """

    context: RunContext
    of: Literal["hook", "stage", "tool", "call"] = "hook"

    @property
    def is_open(self) -> bool:
        """Whether what begins now is inside the run. What an observer of its records begins is not."""
        hub = self.context.journal.hub
        return not (self.of == "tool" or hub.ended or hub.is_pushing)

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
    """Count the requests of the stage `respond`, of which some are the response of the turn."""
    before, token = context.journal.state, ACCOUNT.set(RunAccount(context, "stage"))
    try:
        yield
    finally:
        ACCOUNT.reset(token)
        if asked := [one for one in context.requests if one.of_stage]:
            now, known = context.journal.state, before.own_by_model
            recorded = {
                name: less(all_, known.get(name)) for name, all_ in now.own_by_model.items()
            }
            # Those of the models that have responded are first compared with the responses.
            asked.sort(key=lambda one: not recorded.get(one.model.model, NOTHING).total_tokens)
            pool = sum(recorded.values(), NOTHING)  # an operator may report another model, or a sum
            settle(context, asked, pool, now.attempts - before.attempts)


def settle(
    context: RunContext, requests: Iterable[OwnRequest], pool: Usage = NOTHING, attempts: int = 0
) -> None:
    """Record what requests took, as far as it is not recorded.

    Args:
        context: The run.
        requests: The requests.
        pool: What is recorded of them as responses of the turn.
        attempts: How many of them are recorded as such.
    """
    for one in requests:
        if one in context.requests:
            context.requests.remove(one)
            rest, pool = less(one.usage, pool), less(pool, one.usage)
            if attempts and not rest.total_tokens:
                attempts -= 1
            elif one.first is not None:
                _record(context, one, rest)


def _record(context: RunContext, one: OwnRequest, usage: Usage) -> None:
    journal, run = context.journal, context.journal.run_id
    path = f"request-{journal.hub.last_seq + 1}"
    counted = () if one.usage is None else (usage,)
    for event in (attempt_start(context, one.model), *counted, Status(one.status), RunStop()):
        journal.relay(path, Record(0, run, journal.turn, 1, journal.clock(), event))
    for budget in context.budgets:
        budget.report(f"{run}/{path}", usage, model_prices(one.model))
        budget.end(f"{run}/{path}")


def attempt_start(context: RunContext, model: Model) -> AttemptStart:
    """The start of a request of a run to a model."""
    worker, known = context.worker, model_info(model.model).prices
    prices = worker.prices if model is worker.model else model_prices(model)
    own = None if prices == known else prices
    is_unpriced = prices is None and known is not None
    return AttemptStart(model.name, model.model, worker.tools.own_names, own, is_unpriced)
