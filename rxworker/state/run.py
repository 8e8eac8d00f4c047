"""The state of a run, folded from its records. Pure.

Theory of operation. The state of a run is never written by hand: it is `step_run` folded over the records, so that a late
watcher's snapshot, a resumed run and a test all see the same. A response lives in ``response`` from the start of its
attempt until something comes behind it. It enters the conversation exactly once: at once when it completed, so that tools
and hooks find it there; when it failed or was cancelled, only when it is certain that no other attempt replaces it. An
attempt that is retracted leaves the conversation as it was when the attempt started, but its tokens count.

A conversation in the state can always be sent: calls that will not run are answered right away, and a run that is aborted
keeps what its tools did, states for each of the others whether it was started, and is repaired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from rxworker.events import Error, Record, Status, Usage
from rxworker.events.deltas import Deltas
from rxworker.events.kinds import BLOCK_EVENTS
from rxworker.state.inner import step_inner
from rxworker.state.response import STARTED, ResponseState, step_events
from rxworker.state.run_state import RunState, received
from rxworker.state.run_steps import TOOL_STEPS, TURN_STEPS


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
    seq, path = state.seq, state.path
    row: list[Any] = []  # neighbours that are taken together
    step_row: Callable[[RunState, list[Any]], RunState] | None = None
    for record in records:
        if record.seq <= seq:
            continue
        seq = record.seq
        if record.path != path:
            if record.path[: len(path)] == path:
                state = _step_inner(state, record)
            continue
        event: Any = record.event
        kind: type[object] = event.__class__
        found = _ROW_STEPS.get(kind)
        if found is None and kind not in TURN_STEPS:
            continue
        if found is not step_row:
            if step_row is not None:
                state, row = step_row(state, row), []
            step_row = found
        if found is None:
            state = TURN_STEPS[kind](state, event)
        else:
            row.append(event)
    if step_row is not None:
        state = step_row(state, row)
    return state if seq == state.seq else replace(state, seq=seq)


def _step_response(state: RunState, events: Iterable[Any]) -> RunState:
    rest = iter(events)
    while (before := state.response) is None or (state.is_closed and before.status is None):
        # No attempt has begun, or the response was closed without any content: its first start opens it again.
        event = next(rest, None)
        if event is None:
            return state
        state = _step_first(state, before or ResponseState(), event)
    response, last = step_events(before, rest)
    while last is not None:
        if response.status is STARTED and type(last) is Status:
            # A response that starts for a second time retracts its events, and the results of its early calls.
            state = replace(state, calls=())
        state = received(state, response)
        response, last = step_events(response, rest)
    return state if response is state.response else replace(state, response=response)


def _step_first(state: RunState, before: ResponseState, event: Any) -> RunState:
    if event.__class__ not in _RESPONSES:
        return state
    response, _ = step_events(before, (event,))
    if state.response is not None and event.__class__ in _PARTS:
        return replace(state, response=response)
    return received(state, response)


def _step_inner(state: RunState, record: Record) -> RunState:
    inner = step_inner(state.inner, record)
    return state if inner is state.inner else replace(state, inner=inner)


_PARTS: frozenset[type[object]] = BLOCK_EVENTS | {Usage, Deltas}
_RESPONSES = _PARTS | {Status, Error}
# The most frequent events, and those that stand next to them, of which a row takes one step.
_ROW_STEPS: dict[type[object], Callable[[RunState, list[Any]], RunState]] = {
    **dict.fromkeys(_RESPONSES, _step_response),
    **TOOL_STEPS,
}
