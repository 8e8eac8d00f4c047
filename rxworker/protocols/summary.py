"""A run in a few words, as the list of runs shows it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from rxworker.messages import Json, Usage
from rxworker.state import RunState


class PendingCall(Struct, frozen=True):
    """A tool call that waits for somebody's decision.

    Attributes:
        id: What the decision names.
        name: The tool's name.
        input: Its exact arguments.
    """

    id: str
    name: str
    input: Json


class PauseSummary(Struct, frozen=True):
    """What a paused run waits for.

    Attributes:
        hook: The name of the hook that asked for it.
        reason: For people.
        paused_at: The ``id`` of the call that it was paused at; ``None`` at the end of a turn.
        pending: The calls that wait, in order.
    """

    hook: str
    reason: str
    paused_at: str | None
    pending: tuple[PendingCall, ...]


class WatcherSummary(Struct, frozen=True):
    """Who watches, and how far behind.

    Attributes:
        name: What it is called.
        delivery: The name of its delivery.
        seq: The number of the last record that it was given.
        lag: How many records it is behind.
        delivered: How many records it was given.
        merged: How many it was given within others.
        dropped: How many it missed.
    """

    name: str
    delivery: str
    seq: int
    lag: int
    delivered: int
    merged: int
    dropped: int


class RunSummary(Struct, frozen=True):
    """A run in a few words.

    Attributes:
        id: The run's id.
        conversation: Whose run it is.
        worker: The name of what makes its workers.
        status: ``running``, ``paused``, ``finished`` or ``aborted``.
        title: The beginning of its input.
        started: When, in seconds since the epoch.
        ended: When it ended or was paused.
        seq: The number of its last record.
        turns: How many turns have started.
        tool_calls: How many tools were started, with those of the runs inside.
        usage: Its tokens.
        cost: What they cost, where the prices are known.
        reason: Why it was aborted or paused.
        cause: What sort of abort it was.
        pause: What it waits for.
        resumes: The run that it goes on with.
        resumed_as: The run that goes on with it.
        watchers: Who watches.
    """

    id: str
    conversation: str
    worker: str
    status: Literal["running", "paused", "finished", "aborted"]
    title: str
    started: float
    ended: float | None
    seq: int
    turns: int
    tool_calls: int
    usage: Usage
    cost: float | None
    reason: str
    cause: str
    pause: PauseSummary | None
    resumes: str | None
    resumed_as: str | None
    watchers: tuple[WatcherSummary, ...]


def pause_of(state: RunState) -> PauseSummary | None:
    """What a run waits for; ``None`` where it does not.

    >>> pause_of(RunState()) is None
    True
    """
    pause = state.pause
    if state.status != "paused" or pause is None:
        return None
    pending = tuple(PendingCall(call.id, call.name, call.input) for call in pause.pending)
    return PauseSummary(pause.hook, pause.reason, pause.paused_at, pending)


def reason_of(state: RunState) -> str:
    """Why a run was aborted, or what the hook that paused it gave as its reason.

    >>> reason_of(RunState(status="aborted", reason="enough"))
    'enough'
    """
    return state.reason if state.pause is None else state.pause.reason


__all__ = ["PauseSummary", "PendingCall", "RunSummary", "WatcherSummary", "pause_of", "reason_of"]
