"""Continuing a stored run whose process has ended: where it stopped, and what to do about calls that were running.

Theory of operation. Everything that the run has done is in its log, up to the last barrier. The records are folded, and
the turn is continued after the last thing that is complete: a response that was cut is retracted and requested again,
unless it goes on at the service (see `take_up`), results that exist are used, and calls that had not started are
started. For a call that had started and not ended, the effect of its tool decides: ``pure`` and ``idempotent`` run
again, the latter with the same key, after the hooks that have not agreed to it have run; for ``write`` the tool's
``reconcile`` is called; what stays unknown is up to the worker's ``on_unknown``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rxworker.errors import LocalProtocolError, RunCancelledError, WorkerError
from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockDelta,
    BlockStart,
    CommandTaken,
    ConversationCompact,
    Event,
    Fork,
    HandOver,
    HookVerdict,
    MessageAdd,
    PausedCall,
    Record,
    ResponseStatus,
    RunRecover,
    RunRequeue,
    RunResume,
    RunStart,
    Status,
    ToolStart,
    ToolStop,
    TurnStart,
    TurnStop,
)
from rxworker.events.kinds import Deltas
from rxworker.events.pause import NO_PAUSE, Begun
from rxworker.hooks import HookPoint
from rxworker.hooks.registry import numbered
from rxworker.log.format import Private
from rxworker.log.values import Command, returned_in
from rxworker.messages import StopKind, ToolResult
from rxworker.resume.stored import LoadedRun
from rxworker.state import RunState
from rxworker.tools import Done, NotDone, Toolbox
from rxworker.tools.base import in_doubt
from rxworker.tools.run import key_of
from rxworker.turn.commands import reason_in
from rxworker.turn.context import TurnScope
from rxworker.turn.journal import SOURCE
from rxworker.turn.respond import has_lost_its_call
from rxworker.turn.take_up import OpenResponse, open_response

OnUnknown: TypeAlias = Literal["ask", "fail", "tell_model"]

DEATHS = 3
"""A run is aborted when its process has ended so often at one place."""

CUT = "its process ended before the response was complete"
TOOL_POINTS = (HookPoint.BEFORE_TOOL_CALL.value, HookPoint.AFTER_TOOL_CALL.value)
FORKED = "The run was forked while this tool ran. The fork does not have the result."
UNKNOWN = "The process that ran this tool ended before it. Whether it had an effect is not known."


def progress_of(records: Iterable[Record]) -> int:
    """The number of the last record that was progress. So is a response that is continued after a recovery."""
    progress, is_recovered = 0, False
    for record in records:
        event: Any = record.event
        if isinstance(event, RunRecover | AttemptStart):
            is_recovered = isinstance(event, RunRecover)
        is_continued = is_recovered and isinstance(event, Deltas | BlockStart | BlockDelta)
        if (
            is_continued
            or isinstance(event, RunStart | RunResume | RunRequeue | ToolStop | TurnStop | MessageAdd)
            or (isinstance(event, Status) and event.status is ResponseStatus.COMPLETED)
            or (isinstance(event, ConversationCompact) and event.replaced)
        ):
            progress = record.seq
    return progress


def deaths_at(progress: int, stored: LoadedRun, returned: Collection[int] = frozenset[int]()) -> int:
    """How often the process of the run has ended at this place, this time included.

    Hand-overs do not count, nor does what happened to a run that this one is a copy of, or before the run was put back.
    A process that was suspended, or cut off from the log, for longer than its lease is taken for dead; when it goes on,
    it reports its epoch, and does not count either.

    Args:
        progress: The place: the number of the last record that was progress.
        stored: The run.
        returned: The epochs of the processes that have returned.
    """
    own = [record for record in stored.records if not record.path and record.seq > stored.foreign]
    deaths = sum(
        isinstance(record.event, RunRecover)
        and record.event.progress == progress
        and stored.epochs.get(record.seq) not in returned
        for record in own
    )
    handed = sum(isinstance(record.event, HandOver | RunRequeue) and record.seq >= progress for record in own)
    return deaths + (stored.epoch not in returned) - handed


class Continuation(Struct, frozen=True):
    """How a stored run continues.

    Attributes:
        first: The first events.
        scope: The scope of the first turn; ``None`` if the run does not continue, since the first events pause it.
        error: Why the run fails, if it does.
    """

    first: list[Event]
    scope: TurnScope | None = None
    error: Exception | None = None


def is_forked(stored: LoadedRun) -> bool:
    """Whether the run is a fork that no process has run yet: none has ended."""
    return stored.copied == stored.state.seq > 0


async def continue_run(
    stored: LoadedRun, run_id: str, tools: Toolbox, on_unknown: OnUnknown, taken_up: OpenResponse | None = None
) -> Continuation:
    """Find out how a stored run continues; calls the ``reconcile`` of tools.

    Args:
        stored: The run.
        run_id: The run's id.
        tools: The tools of the worker.
        on_unknown: What happens with a call whose effect is not known.
        taken_up: The response that goes on at the service, if there is one.
    """
    state, own = stored.state, [record for record in stored.records if not record.path]
    turn = _last_turn(own)
    if not turn:
        # After an answer without calls, what the end of the turn decided is not stored: it is decided again.
        stops = [at for at, record in enumerate(own) if isinstance(record.event, TurnStop)]
        finished_by = _finished_by(_last_turn(own[: stops[-1]]), stored.foreign) if stops else ""
        scope = TurnScope(
            variables=stored.variables, is_resumed=bool(finished_by) or _is_answered(state), finished_by=finished_by
        )
        return Continuation([], scope)
    begin = turn[0].event
    response = state.response
    last = next(r.event for r in reversed(turn) if not isinstance(r.event, Fork | RunRecover | HandOver))
    if response is not None and state.is_closed and isinstance(last, MessageAdd) and last.source == SOURCE:
        # A message was delivered at the end of the turn, whose end alone is not stored.
        return Continuation([TurnStop()], TurnScope(variables=stored.variables))
    is_cut = response is not None and (response.status is not ResponseStatus.COMPLETED or has_lost_its_call(response))
    if is_cut or (response is None and not isinstance(begin, RunResume)):
        attempts = [r.event for r in turn if isinstance(r.event, AttemptStart | AttemptRetract)]
        is_open = bool(attempts) and isinstance(attempts[-1], AttemptStart)
        is_retracted = (is_cut or is_open) and not (taken_up and taken_up.stored)
        first: list[Event] = [AttemptRetract(CUT)] if is_retracted else []
        scope = TurnScope(variables=stored.variables, is_recovered=True, taken_up=taken_up)
        return Continuation(first, scope)
    resume = begin if isinstance(begin, RunResume) else None
    called = any(isinstance(r.event, MessageAdd) and r.event.source == "tools" for r in turn)
    scope = TurnScope(
        variables=stored.variables,
        is_resumed=True,
        pause=NO_PAUSE if resume is None else replace(NO_PAUSE, key=resume.pause.key, held=resume.pause.held),
        called=called,
        finished_by=_finished_by(turn, stored.foreign),
    )
    if resume is not None and not state.calls and not called:
        is_added = any(isinstance(r.event, MessageAdd) for r in turn)
        scope.is_resumed = not (resume.pause.refused or is_added)
        return Continuation([], scope)
    # The response is complete: the turn goes on with its calls.
    key = scope.pause.key or f"{run_id}/{state.turns}"
    unknown = await _look(stored, turn, key, tools, resume, scope)
    return _in_question(stored, scope, unknown, on_unknown) if unknown else Continuation([], scope)


def open_response_of(stored: LoadedRun) -> OpenResponse | None:
    """The response in which a stored run was cut off, if the provider has named it."""
    own = [record for record in stored.records if not record.path]
    return open_response(stored.state, _last_turn(own), stored.foreign)


def _finished_by(turn: Sequence[Record], foreign: int) -> str:
    """The hook that has finished the run at a tool point in this turn, or an empty text.

    A message that was delivered since is answered first, so the text is empty then, too.
    """
    for at, record in enumerate(turn):
        event = record.event
        if (
            isinstance(event, HookVerdict)
            and record.seq > foreign
            and event.verdict == "Finish"
            and event.point in TOOL_POINTS
        ):
            later = [each.event for each in turn[at:]]
            is_sent = any(isinstance(e, MessageAdd) and e.source == SOURCE for e in later)
            return "" if is_sent else event.hook
    return ""


async def _look(
    stored: LoadedRun, turn: Sequence[Record], key: str, tools: Toolbox, resume: RunResume | None, scope: TurnScope
) -> dict[int, str]:
    """Note in the scope of a turn what a process that has ended has left of its calls.

    Returns:
        By the places of the calls whose effect is not known: why.
    """
    # A person's decisions count in the run that they were made in, and so does what hooks have agreed to.
    is_own = resume is not None and turn[0].seq > stored.foreign
    decided = {each.place: each for each in resume.pause.calls} if resume and is_own else {}
    starts = {
        record.event.place: record.seq
        for record in turn
        if isinstance(record.event, ToolStart) and record.seq > stored.foreign
    }
    calls: list[PausedCall] = []
    refused: dict[int, ToolResult] = {}
    ended: list[int] = []
    unknown: dict[int, str] = {}
    for each in stored.state.calls:
        call, place = each.call, each.place
        if each.phase == "ended" and each.result is not None:
            refused[place] = each.result
            continue
        paused = PausedCall(place, call)
        if each.phase == "ended":
            none = ToolResult(call.id, UNKNOWN, is_error=True, name=call.name)
            scope.answered[place] = stored.unseen.get(place, none)
            ended.append(place)
        elif each.phase == "waiting":
            if place in stored.unseen:
                scope.answered[place] = stored.unseen[place]
            elif place in decided:  # what was decided about a call that had not started still counts
                paused = replace(decided[place], call=call)
        else:
            kept = stored.kept.get(starts.get(place, 0))
            found = NotDone()  # where its tool can go on with it
            if kept is None:
                found = await in_doubt(tools.get(call.name), call, key_of(call, place, key))
            if isinstance(found, NotDone):
                agreed = stored.agreed.get(starts.get(place, 0), Private())
                begun = decided[place].begun if place in decided else None
                if kept is not None:  # it goes on after what it has waited for
                    begun = Begun(kept) if begun is None else Begun(kept, awaits=begun.awaits, woken=begun.woken)
                paused = PausedCall(place, call, tuple(numbered(agreed.agreed)), agreed.approved, begun)
            elif isinstance(found, Done):
                scope.answered[place] = ToolResult(call.id, found.content, found.is_error, call.name)
            else:
                unknown[place] = found.reason
        calls.append(paused)
    scope.pause = replace(scope.pause, calls=tuple(calls), refused=refused, key=key)
    scope.ended = frozenset(ended)
    return unknown


def _in_question(stored: LoadedRun, scope: TurnScope, unknown: dict[int, str], on_unknown: OnUnknown) -> Continuation:
    """Continue a turn with calls whose effect is not known, as the worker is to."""
    lost = [each for each in scope.pause.calls if each.place in unknown]
    names = ", ".join(sorted({each.call.name for each in lost}))
    reasons = "; ".join(dict.fromkeys(reason for reason in unknown.values() if reason))
    if is_forked(stored):
        why = f"the run was forked while {names} ran, and the fork does not have the results"
    else:
        why = f"the process ended while {names} ran, and whether it had an effect is not known"
    if reasons:
        why += f": {reasons}"
    if on_unknown == "tell_model":
        for each in lost:
            text = f"{FORKED if is_forked(stored) else UNKNOWN} {unknown[each.place]}".strip()
            scope.answered[each.place] = ToolResult(each.call.id, text, is_error=True, name=each.call.name)
        return Continuation([], scope)
    if on_unknown == "fail":
        return Continuation([], error=LocalProtocolError(why))
    # In the turn: the hooks see the results of the other calls before the record of the pause has them.
    scope.unknown, scope.why = frozenset(unknown), why
    return Continuation([], scope)


def _is_answered(state: RunState) -> bool:
    last, reason = state.conversation.last, state.stop_reason
    if last is None or last.role != "assistant" or state.turns == 0:
        return False
    return reason is None or reason.kind is not StopKind.PAUSE_TURN


def _last_turn(own: Sequence[Record]) -> list[Record]:
    """The records of the turn that is on; none between two turns.

    It begins with its `TurnStart`, or with the `RunResume` whose calls it runs.
    """
    for at in range(len(own) - 1, -1, -1):
        event = own[at].event
        if isinstance(event, TurnStop | RunStart | RunRequeue):
            return []
        if isinstance(event, TurnStart | RunResume):
            return list(own[at:])
    return []


def will_be_cancelled(stored: LoadedRun, sent: Iterable[Command]) -> bool:
    """Whether it will end by a command that no process has taken."""
    return any(each.kind == "cancel" and each.number not in stored.taken for each in sent)


def cancelled_by(stored: LoadedRun, sent: Iterable[Command]) -> Command | None:
    """The command that ends it at once, and that no process has taken."""
    wanted = (each for each in sent if each.kind == "cancel" and each.data.get("when") != "after_turn")
    return next((each for each in wanted if each.number not in stored.taken), None)


def ending_of(stored: LoadedRun, sent: Sequence[Command], progress: int) -> Continuation | None:
    """How a run ends that does not go on: it was cancelled, or its process ends again and again at one place.

    No tools are needed for that.

    Args:
        stored: The run.
        sent: The commands to it. A cancellation that no process has taken is taken with the end.
        progress: The number of the last record that was progress.
    """
    if (command := cancelled_by(stored, sent)) is not None:
        error = RunCancelledError(reason_in(command))
        return Continuation([CommandTaken(command.number, "cancel")], error=error)
    # It may have been cancelled when its process ended, and put back after that.
    own = [r.event for r in stored.records if not r.path and r.seq > stored.copied]
    is_cancelled = False
    for event in own:
        if isinstance(event, RunRequeue):
            is_cancelled = False
        elif isinstance(event, CommandTaken) and event.kind == "cancel":
            is_cancelled = True
    if is_cancelled:
        return Continuation([], error=RunCancelledError("cancelled before its process ended"))
    deaths = deaths_at(progress, stored, returned_in(sent))
    if deaths < DEATHS:
        return None
    text = (
        f"its process has ended {deaths} times after record {progress}: the run is set aside. "
        "Find out what ends the process, then put the run back with log.requeue(run), or fork it before that record"
    )
    return Continuation([], error=WorkerError(text))
