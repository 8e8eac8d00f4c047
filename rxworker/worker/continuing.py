"""What a run begins with that was stored or paused before: it is resumed, decided about, recovered or forked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from msgspec.structs import replace

from rxworker.decisions import Decided, Decision, PendingCalls, decide, granted_by
from rxworker.errors import CommandConflictError, ConfigurationError, LocalProtocolError, LogError, RunStatusError
from rxworker.events import RunRecover
from rxworker.log.base import EventLog, claim_or_release, release_shielded
from rxworker.log.memory import check_status
from rxworker.log.permissions import grant
from rxworker.log.recover import DeliveredResult, deliver_command, deliveries_of, end_nested, resumed_id, routed
from rxworker.log.transfer import fork_run
from rxworker.log.values import (
    DECIDE,
    TAPPED,
    Claim,
    Command,
    RunInfo,
    RunRow,
    decisions_in,
    is_woken,
    new_id,
    recorded_labels,
)
from rxworker.resume import recovery
from rxworker.resume.paused import RESERVED, WAKE, decide_command, decision_of, resume_turn
from rxworker.resume.stored import (
    LoadedRun,
    LoggedRun,
    check_tools,
    digests_of,
    last_input,
    read_run,
    title_of,
    tools_in,
)
from rxworker.run.run import Beginning
from rxworker.state.shared_state import checked_json
from rxworker.turn.context import TurnScope, continues
from rxworker.turn.result import Output, Paused
from rxworker.turn.take_up import OpenResponse
from rxworker.worker.session_base import SessionBase

ClaimFn: TypeAlias = Callable[[str], bool]


def _check_performs(session: SessionBase) -> None:
    if not session.worker.performs:
        raise LocalProtocolError(
            "this worker does not know which hooks have agreed: store the decisions with decide_later(...)"
        )


def check_waits(session: SessionBase, run_id: str) -> None:
    """Refuse to resume a run of a session that was resumed, or that another run has followed.

    Raises:
        LocalProtocolError: It does not wait any more.
    """
    if run_id in session._resumed:
        raise LocalProtocolError(
            f"{run_id} was resumed already, or dismissed, or another run has begun since: no call is run twice, and "
            "none that was reported to the model as not run"
        )


def _labels_after(session: SessionBase, source: RunRow) -> dict[str, str]:
    """The labels of the run that resumes a stored one.

    What is noted for the next run, such as the request of its client, is the session's; the tenant and the user stay
    those of the run.
    """
    return {**source.labels, **session.labels, **recorded_labels(source.labels)}


def _deliveries(paused: Paused[object], given: Decided) -> list[DeliveredResult]:
    """What becomes of the calls in the background of a paused run by what is decided."""
    return deliveries_of(paused.pause, decide(PendingCalls.of(paused.pause), given.decisions))


def check_decision(session: SessionBase, waiting: Paused[object], given: Decided) -> None:
    """Refuse at once, before anything is stored, a decision that does not fit a paused run."""
    _check_performs(session)
    resume_turn(waiting, given, session.worker.hooks, session.worker.tools)
    check_waits(session, waiting.run_id)


def resumed(
    session: SessionBase,
    waiting: Paused[object],
    given: Decided,
    output: Output[object] | None,
    *,
    claim: ClaimFn | None = None,
    source: RunRow | None = None,
    held: Claim | None = None,
    before: Sequence[DeliveredResult] = (),
) -> Beginning:
    """What the run begins with that resumes a paused one.

    Args:
        session: The session.
        waiting: The paused run.
        given: What is decided.
        output: As for ``resume``.
        claim: As for ``resume``.
        source: What a log has of the paused run, if it comes from there: the permissions and the name are those of
            that run, and its recorded labels.
        held: The claim of the run that resumes it, if the caller has claimed it.
        before: What is decided about its calls in the background before what its log has about them.
    """
    _check_performs(session)
    if output is None and session.paused is not None and session.paused.run_id == waiting.run_id:
        output = session._paused_output
    if output is None and waiting.output_format is not None:
        output = Output.from_format(waiting.output_format)
    first, scope, pair = resume_turn(
        waiting,
        given,
        session.worker.hooks,
        session.worker.tools,
        session.worker.traceparent(),
        None if output is None else output.format,
    )
    check_waits(session, waiting.run_id)
    shared = given.shared_state
    shared = waiting.shared_state if shared is None else checked_json(shared)
    if claim is not None:
        _check_claim(claim(waiting.run_id), waiting.run_id)
    scope.variables = dict(waiting.variables)
    stored, run = None, new_id()
    labels = session.run_labels if source is None else _labels_after(session, source)
    worker = session.name if source is None else source.worker or session.name
    first[0] = replace(first[0], labels=recorded_labels(labels), worker=worker)
    if session.log is not None:
        row = session._row(title_of(last_input(waiting.conversation.messages)), resumes=waiting.run_id)
        if source is not None:
            row = replace(row, labels=labels, worker=worker)
        stored = LoggedRun(session.log, row, held, before=waiting.conversation)
        first[0] = replace(first[0], tools=digests_of(session.worker.tools))
        # Two processes that resume one paused run make one id of it: the log takes the first.
        run = resumed_id(waiting.run_id)
    session._resumed.add(waiting.run_id)
    allowed = [*(session.allowed if source is None else source.allowed)]
    if pair is not None and pair not in allowed:
        allowed.append(pair)
    if source is None:
        session.allowed[:] = allowed
    return Beginning(
        first,
        scope,
        waiting.called,
        allowed=allowed,
        output=output,
        shared_state=shared,
        stored=stored,
        run_id=run,
        nested={node.inner_run: waiting.nested.get(node.inner_run) for node in waiting.pause.tree if node.inner_run},
        deliveries=before if source else _deliveries(waiting, given),
    )


async def decided(
    session: SessionBase,
    log: EventLog,
    run_id: str,
    given: Decided,
    output: Output[object] | None,
    known: Paused[object] | None = None,
    claim: ClaimFn | None = None,
) -> Beginning:
    """What the run begins with that resumes a stored one, after the decisions are stored.

    A paused run that the caller has may be ``known`` to another log, or to none.
    """
    _check_performs(session)
    info = await log.listed(run_id)
    if info is not None and info.row.outer:
        run_id, given = await routed(log, info, given)
        known = None
    if known is None:
        paused, row = await load_paused(session, run_id, given)
        if session.paused is not None and session.paused.run_id == run_id:
            paused = session.paused  # with the variables that no log can keep
    elif info is None:
        return resumed(session, known, given, output, claim=claim)
    else:
        check_status(run_id, info.status, ("paused",))
        # Also what the program has allowed in the session since.
        paused, row = known, replace(info.row, allowed=tuple(dict.fromkeys((*info.row.allowed, *session.allowed))))
    check_waits(session, run_id)
    if claim is not None:
        _check_claim(claim(run_id), run_id)
    try:
        await store_decision(log, paused, given, reserved=RESERVED)
    except CommandConflictError:
        session.paused = None  # another decision continues it
        raise
    return await _applied(session, log, paused, given, output, row)


async def _applied(
    session: SessionBase,
    log: EventLog,
    paused: Paused[object],
    given: Decided,
    output: Output[object] | None,
    row: RunRow,
    held: Claim | None = None,
) -> Beginning:
    """What the run begins with that resumes a stored one, after what its stored decision always allows is granted.

    Each process that resumes it does the same.
    """
    pending = PendingCalls.of(paused.pause)
    pair = granted_by(pending, decide(pending, given.decisions))
    before = [each for each in _deliveries(paused, given) if not await _is_stored(log, paused.run_id, each)]
    if pair is None:
        return resumed(session, paused, given, output, source=row, held=held, before=before)
    # Nothing is granted where another process has resumed it without this decision.
    claim = held or await claim_or_release(log, resumed_id(paused.run_id), create=True)
    try:
        await grant(log, _labels_after(session, row), pair, paused.run_id)
        return resumed(session, paused, given, output, source=row, held=claim, before=before)
    except BaseException:
        await release_shielded(log, claim)
        raise


async def store_decision(log: EventLog, paused: Paused[object], given: Decided, *, reserved: float = 0.0) -> None:
    """Store what is decided about a paused run.

    Raises:
        CommandConflictError: It was decided about before, or a call in its background was.
        LogError: The log cannot be read or written.
    """
    command = decide_command(paused, given, reserved=reserved)
    keys = {deliver_command(each).key for each in _deliveries(paused, given)}
    if keys and any(one.key in keys for one in await log.sent(paused.run_id)):
        text = f"a call in the background of {paused.run_id} was decided about already: the first decision counts"
        raise CommandConflictError(text)
    await log.send(paused.run_id, command)


async def _is_stored(log: EventLog, run_id: str, delivery: DeliveredResult) -> bool:
    """Store a decision about a call in the background of a paused run, for the run that resumes it to take over.

    Returns:
        Whether it, or one that was made before the stored decision about the run, is stored. Otherwise another process
        has decided as the run paused, and its decision came later.
    """
    command = deliver_command(delivery)
    try:
        await log.send(run_id, command)
    except CommandConflictError:
        sent = await log.sent(run_id)
        decided = min([one.number for one in sent if one.kind == DECIDE], default=0)
        others = [one for one in sent if one.key == command.key and one.data != command.data]
        return all(one.number < decided for one in others)
    return True


async def forked(
    session: SessionBase, log: EventLog, run_id: str, seq: int, new: str, reason: str, output: Output[object] | None
) -> Beginning:
    """What a fork continues from, after it is stored."""
    await log.existing(run_id)
    session.worker.check_matchers()
    if session.worker.performs:  # before anything is stored: another process would continue the copy
        records = (await read_run(log, run_id)).records
        needed = tools_in([each for each in records if each.seq <= seq])
        check_tools(needed, session.worker.tools, run_id)
    await fork_run(log, run_id, seq, name=new, labels={**session.worker.labels, **session.labels})
    return await recovered(session, log, new, reason or f"forked from {run_id}", None, output)


async def load_paused(
    session: SessionBase, run_id: str, given: Decided, sent: Sequence[Command] = ()
) -> tuple[Paused[None], RunRow]:
    """A stored paused run, and what a list shows of it.

    The decisions fit it, and there are the tools of the calls that will run, unless a command cancels the run.
    """
    stored, row = await load(session, run_id)
    _check_own(run_id, row)
    paused, worker = stored.result(), session.worker
    if not isinstance(paused, Paused):
        raise LocalProtocolError(f"{run_id} has finished: there is nothing to decide about")
    _, scope, _ = resume_turn(paused, given, worker.hooks, worker.tools)
    session.worker.check_matchers()
    if session.worker.performs and recovery.cancelled_by(stored, sent) is None:
        waiting = [each.call.name for each in scope.waiting]
        check_tools(stored.tools, worker.tools, run_id, waiting)
    return paused, row


def _check_own(run_id: str, row: RunRow) -> None:
    """Refuse to continue a run that another program performs."""
    if row.worker.startswith(TAPPED):
        name = row.worker.removeprefix(TAPPED)
        raise LocalProtocolError(
            f"{run_id} is a run of another program ({name}), which only its tap goes on to record: begin a run of "
            "your own, or fork it"
        )


async def load(session: SessionBase, run_id: str) -> tuple[LoadedRun, RunRow]:
    """A stored run that has finished or is paused, and what a list shows of it."""
    log = session._expect_log("load")
    info = await log.existing(run_id)
    if info.row.cause and info.status == "aborted":
        raise LocalProtocolError(f"{run_id} is aborted: {info.row.reason}, so that it has no result")
    stored = await read_run(log, run_id, info.row)
    if stored.state.status not in ("finished", "paused"):
        what = f"{run_id} is {stored.state.status}"
        why = f": {stored.state.reason}" if stored.state.reason else ""
        raise LocalProtocolError(f"{what}{why}, so that it has no result; recover a run whose process has ended")
    return stored, info.row


async def _decided_or_woken(
    session: SessionBase, log: EventLog, run_id: str, output: Output[object] | None, held: Claim | None
) -> Beginning | None:
    """What the run begins with that resumes a paused one by a stored decision; ``None`` if it waits for one."""
    sent = await log.sent(run_id)
    if not decisions_in(sent) and is_woken((await log.existing(run_id)).row, sent):
        with suppress(CommandConflictError):
            await log.send(run_id, WAKE)
        sent = await log.sent(run_id)
    decided = decision_of(sent)
    if decided is None:
        return None
    decided = replace(decided, add=session.worker.mapped(decided.add))
    paused, row = await load_paused(session, run_id, decided, sent)
    return await _applied(session, log, paused, decided, output, row, held)


async def recovered(
    session: SessionBase,
    log: EventLog,
    run_id: str,
    reason: str,
    claim: Claim | None = None,
    output: Output[object] | None = None,
) -> Beginning:
    """What a stored run continues from. This process claims it."""
    is_of_next = claim is not None and claim.run_id != run_id  # it is that of the run that resumes it
    claim, held = (None, claim) if is_of_next else (claim, None)
    try:
        claim = claim or await claim_or_release(log, run_id)
    except RunStatusError as error:
        if error.status == "paused" and (begins := await _decided_or_woken(session, log, run_id, output, held)):
            return begins
        raise LocalProtocolError(
            f"{run_id} is {error.status}, not cut off: load({run_id!r}) returns its result, and resume(...) "
            "continues a paused run"
        ) from error
    try:
        # From here on no other process changes it.
        info = await log.existing(run_id)
        _check_own(run_id, info.row)
        stored = await read_run(log, run_id, info.row)
        if not stored.records:
            raise LogError(f"{run_id} has no records: its process ended before it was accepted, so start it again")
        sent = await log.sent(run_id)
        progress = recovery.progress_of(stored.records)
        form, digests = None if output is None else output.format, digests_of(session.worker.tools)
        more = {name: digest for name, digest in digests.items() if name not in stored.tools}
        recovered = RunRecover(claim.epoch, claim.owner, reason, progress, form, more)
        if output is None and stored.state.output_format is not None:
            output = Output.from_format(stored.state.output_format)
        taken_up = None
        if session.worker.performs and continues(session.worker, session.worker.options):
            taken_up = recovery.open_response_of(stored)
        after = recovery.ending_of(stored, sent, progress)
        if after is not None or recovery.will_be_cancelled(stored, sent):
            await end_nested(log, run_id)  # no call continues them any more
        after = after or await _continuation(session, log, claim, info, stored, taken_up)
    except BaseException:
        await release_shielded(log, claim)
        raise
    is_first = info.status == "queued" or recovery.is_forked(stored)  # no process has ended
    recoveries = info.row.recoveries + (not is_first)
    row = replace(info.row, status="running", reason="", recoveries=recoveries, due=0.0)
    scope = after.scope or TurnScope(variables=stored.variables, taken_up=taken_up)
    scope.error = after.error
    return Beginning(
        (recovered, *after.first),
        scope,
        stored.called,
        allowed=row.allowed,
        output=output,
        stored=LoggedRun(log, row, claim, stored),
    )


async def continued(
    session: SessionBase, log: EventLog, run_id: str, decided: Sequence[Decision | None] | None, reason: str
) -> Beginning:
    """What a run begins with that continues the stored run of a call: one that is cut off, or paused.

    Args:
        session: The session.
        log: The log.
        run_id: The id of the stored run.
        decided: What is decided about a paused run, by the decisions about the run around it.
        reason: Why one is continued that is cut off.
    """
    if decided is not None:
        paused, _ = await load_paused(session, run_id, Decided(decided))
        with suppress(CommandConflictError):  # the first one counts, such as that of a process that has ended
            await log.send(run_id, decide_command(paused, Decided(decided)))
    return await recovered(session, log, run_id, reason)


async def _continuation(
    session: SessionBase, log: EventLog, claim: Claim, info: RunInfo, stored: LoadedRun, taken_up: OpenResponse | None
) -> recovery.Continuation:
    """How this process goes on with a stored run that it has claimed."""
    if not session.worker.performs:
        return recovery.Continuation([])  # the process that takes it has the tools
    session.worker.check_matchers()
    worker, run_id = session.worker, info.run_id
    try:
        check_tools(stored.tools, worker.tools, run_id)
    except ConfigurationError as error:
        with suppress(LogError):  # shown while it waits for another process
            await log.append(claim, [], after=claim.last_seq, row=replace(info.row, reason=error.message))
        raise
    return await recovery.continue_run(stored, run_id, worker.tools, worker.on_unknown, taken_up)


def _check_claim(answer: object, run_id: str) -> None:
    """Check that this process may resume a run. A value that is not a bool, such as a coroutine, is refused."""
    if isinstance(answer, bool):
        if answer:
            return
        raise LocalProtocolError(f"{run_id} was resumed by another process: no call is run twice")
    if inspect.iscoroutine(answer):
        answer.close()
    raise ConfigurationError(
        f"claim returned {answer!r:.80}: give a plain function, not a coroutine function, that returns True or False"
    )
