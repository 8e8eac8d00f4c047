"""What a run has come to so far, folded from its records. Pure.

Theory of operation. The state of a run is never written by hand: it is `step_run` folded over the records, so that a late
watcher's snapshot, a resumed run and a test all see the same. A response lives in ``response`` from the start of its
attempt until something comes behind it. It enters the conversation exactly once: at once when it completed, so that tools
and hooks find it there; when it failed or was cancelled, only when it is certain that no other attempt replaces it. An
attempt that is retracted leaves the conversation as it was when the attempt started, but its tokens count.

A conversation in the state can always be sent: calls that will not run are answered right away, and a run that is aborted
keeps what its tools did, says of each of the others whether it was started, and is repaired.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from rxworker.events import Record, ResponseStatus, Status
from rxworker.events.predicates import META_TYPES
from rxworker.operators.group import BLOCK_EVENTS
from rxworker.timeline.inner import step_inner
from rxworker.timeline.message import ResponseState, step_response
from rxworker.timeline.run_state import RunState, RunStatus, received
from rxworker.timeline.run_steps import TURN_STEPS


def step_run(state: RunState, record: Record) -> RunState:
    """The run after a record. A record that was seen already changes nothing.

    >>> from rxworker.events import RunStart, TextDelta
    >>> from rxworker.messages import Conversation, Message
    >>> def record(seq: int, event: object) -> Record:
    ...     return Record(seq=seq, run="r", turn=1, attempt=1, time=0.0, event=event)
    >>> state = step_run(RunState(), record(1, RunStart(Conversation((Message.user("hi"),)))))
    >>> state = step_run(state, record(2, TextDelta(0, "hello")))
    >>> state.status, len(state.response.open)
    ('running', 1)
    """
    return fold_run((record,), state)


def fold_run(records: Iterable[Record], state: RunState | None = None) -> RunState:
    """The run after all these records: what a snapshot, a resumed run and a test begin with."""
    state = state or RunState()
    seq, response = state.seq, state.response
    for record in records:
        if record.seq <= seq:
            continue
        seq = record.seq
        event: Any = record.event
        if response is not None and event.__class__ in BLOCK_EVENTS and record.path == state.path:
            # By far the most frequent records: a row of them makes one new state, here or behind the loop.
            response = step_response(response, event)
            continue
        if response is not state.response:
            state = replace(state, response=response)
        if record.path == state.path:
            state = _step(state, event)
        elif record.path[: len(state.path)] == state.path:
            state = _step_inner(state, record)
        response = state.response
    return state if seq == state.seq else replace(state, response=response, seq=seq)


def _step(state: RunState, event: Any) -> RunState:
    kind: type[object] = event.__class__
    step = TURN_STEPS.get(kind)
    if step is not None:
        return step(state, event)
    if kind not in _RESPONSE_EVENTS:
        return state
    state = _begun_anew(state, event)
    response = step_response(state.response or ResponseState(), event)
    return state if response is state.response else received(state, response)


def _step_inner(state: RunState, record: Record) -> RunState:
    inner = step_inner(state.inner, record)
    return state if inner is state.inner else replace(state, inner=inner)


def _begun_anew(state: RunState, event: object) -> RunState:
    """A response that starts for a second time takes back what it said, and what tools have made of that."""
    starts = isinstance(event, Status) and event.status is ResponseStatus.STARTED
    if not starts or state.response is None or state.response.status is None:
        return state
    return replace(state, started=(), results=())


_RESPONSE_EVENTS = BLOCK_EVENTS.union(META_TYPES)

__all__ = ["RunState", "RunStatus", "fold_run", "step_run"]
