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

from rxworker.events import Record, ResponseStatus, Status, is_meta
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
    if record.seq <= state.seq:
        return state
    if record.path == state.path:
        event: Any = record.event
        kind: type[object] = event.__class__
        if kind in BLOCK_EVENTS:
            if state.response is not None:
                # By far the most frequent records: one new state, not two.
                return replace(state, response=step_response(state.response, event), seq=record.seq)
            state = received(state, step_response(ResponseState(), event))
        elif is_meta(event):
            state = _begun_anew(state, event)
            response = step_response(state.response or ResponseState(), event)
            if response is not state.response:
                state = received(state, response)
        else:
            step = TURN_STEPS.get(kind)
            if step is not None:
                state = step(state, event)
    elif record.path[: len(state.path)] == state.path:
        inner = step_inner(state.inner, record)
        if inner is not state.inner:
            state = replace(state, inner=inner)
    return replace(state, seq=record.seq)


def _begun_anew(state: RunState, event: object) -> RunState:
    """A response that starts for a second time takes back what it said, and what tools have made of that."""
    starts = isinstance(event, Status) and event.status is ResponseStatus.STARTED
    if not starts or state.response is None or state.response.status is None:
        return state
    return replace(state, started=(), results=())


def fold_run(records: Iterable[Record], state: RunState | None = None) -> RunState:
    """The run after all these records: what a snapshot, a resumed run and a test begin with."""
    state = state or RunState()
    for record in records:
        state = step_run(state, record)
    return state


__all__ = ["RunState", "RunStatus", "fold_run", "step_run"]
