"""``rxworker runs``: the runs of a log, listed, shown and replayed; steered; copied and compared; and deleted."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import msgspec
from reactivex import operators as ops

from rxworker.adapters.logs import escape_controls
from rxworker.cli.process import MISUSED, CommandError, read_file, run_async, write_line
from rxworker.decisions import Approve, ApproveAlways, Decision, Deny, PendingCalls, assign, read_resume
from rxworker.errors import CommandConflictError, ConfigurationError, RunCancelledError, RunStatusError
from rxworker.events import Annotation, Record
from rxworker.events.pause import BACKGROUND
from rxworker.log import EventLog, RunInfo, diff_runs, dismiss_run, export_run, fork_run, import_run, open_log, replay
from rxworker.log.format import records_of
from rxworker.log.kept import mark_time
from rxworker.log.open import open_stored
from rxworker.log.recover import pause_in, present
from rxworker.log.values import END_WORDS, TAPPED, Command, StoredStatus, When, resumed_id, send_command, to_sent
from rxworker.messages import Json
from rxworker.protocols import encode_record
from rxworker.protocols.native import encode_json
from rxworker.state import fold_run
from rxworker.ui.clean import clean, one_line
from rxworker.ui.describe import describe_call, describe_message, plural
from rxworker.views.amounts import money
from rxworker.worker import QueuedWorker
from rxworker.worker.queue import end_cancelled

PAGE = 100
WIDTH = 160
BY_COMMAND = "by rxworker runs"
"""The reason where none is given."""
STORED = {"cut-off": "running", "resumed": "paused", "waiting": "paused"} | dict.fromkeys(END_WORDS.values(), "aborted")
"""The statuses that are stored under another name."""


def runs(address: str, action: str, **options: Any) -> int:
    """Do something with the runs of a log.

    Args:
        address: The address of the log.
        action: The name of the action.
        options: Its options; see the help of each action, such as ``rxworker runs --log URL prune --help``.

    Returns:
        The exit code.

    Raises:
        CommandError: The arguments do not fit the run.
        ConfigurationError: There is no such log.
        DecisionError: A decision is not understood, or is about no pending call.
        LogError: There is no such run, or the log cannot be read or written.
    """

    async def main() -> None:
        async with open_log(address) if action == "import" else open_stored(address) as log:
            await ACTIONS[action](log, **options)

    run_async(main())
    return 0


async def _fork(log: EventLog, run_id: str, at: int | None = None) -> None:
    info = await log.info(run_id)
    last = at if at is not None or info is None else info.last_seq
    write_line(await fork_run(log, run_id, last or 0))


async def _requeue(log: EventLog, run_id: str, reason: str = BY_COMMAND) -> None:
    await log.requeue(run_id, reason=reason)
    write_line(f"{run_id} is queued for a process that has its tools; list shows why it still waits")


async def _annotate(
    log: EventLog, run_id: str, name: str, value: str, comment: str = "", by: str = "", seq: int = 0
) -> None:
    given = _json_or_text(value)
    await log.annotate(run_id, Annotation(name, given, comment, by, seq))
    write_line(f"{run_id} has a new annotation: {one_line(f'{name} {encode_json(given).decode()}', WIDTH)}")


def _json_or_text(text: str) -> Json:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


async def _mark_time(log: EventLog, text: str, at: float | None = None, by: str = "") -> None:
    mark = await mark_time(log, text, time=at, by=by)
    write_line(f"{datetime.fromtimestamp(mark.time).isoformat(timespec='seconds')} {one_line(text, WIDTH)}")


async def _send(log: EventLog, run_id: str, text: str, when: When = "turn", replaces: str = "") -> None:
    try:
        messages = to_sent(text)
    except ConfigurationError as error:
        raise CommandError(error.message, MISUSED) from error
    info = await log.existing(run_id)
    sent = replaces or uuid.uuid4().hex
    command = send_command(messages, "" if replaces else sent, None if when == "turn" else when, replaces)
    await log.send(run_id, command)
    write_line(f"sent to {run_id}, which is {_status(info)}; its id is {sent}")


async def _withdraw(log: EventLog, run_id: str, sent: str) -> None:
    await log.send(run_id, send_command((), withdraws=sent))
    write_line(f"{sent} is withdrawn from {run_id}, unless it is in the conversation: show {run_id} has it then")


async def _deliver(
    log: EventLog, run_id: str, call_id: str, text: str | None = None, json: str | None = None, is_error: bool = False
) -> None:
    given = json if text is None else text
    if given is None or (text is not None and json is not None):
        raise CommandError("give the result with --text or with --json", MISUSED)
    given = sys.stdin.read() if given == "-" else given
    try:
        result: object = given if json is None else msgspec.json.decode(given)
    except msgspec.DecodeError as error:
        raise CommandError(f"--json: {error}", MISUSED) from error
    info = await log.existing(run_id)
    newest = (await present(log, run_id) or info).run_id
    calls = fold_run(records_of([entry async for entry in log.read(newest)], newest)).background
    await log.deliver(run_id, call_id, result, is_error=is_error)
    if any(call_id in (one.id, one.key) for one in calls):
        write_line(f"delivered to {run_id}, which is {_status(info)}")
    else:
        having = f"has {', '.join(clean(one.id) for one in calls)}" if calls else "has none"
        write_line(
            f"kept for {run_id}, which is {_status(info)}, until a call {clean(call_id)} goes into the background; the "
            f"run {having} there now"
        )


async def _cancel(log: EventLog, run_id: str, reason: str = BY_COMMAND) -> None:
    info = await log.existing(run_id)
    resumed = await _resumed(log, info)
    is_dismissed = False
    if info.status == "paused" and not resumed:
        # A decision that waits makes it go on; the run that resumes it takes the command.
        with suppress(CommandConflictError):
            await dismiss_run(log, run_id, str(RunCancelledError(reason)))
            is_dismissed = True
    if not is_dismissed:
        await log.send(run_id, Command("cancel", {"when": "now", "reason": reason}))
        if info.status == "queued" or (info.row.worker.startswith(TAPPED) and info.is_cut_off()):
            await end_cancelled(log, run_id, reason)
    info = await log.existing(resumed or run_id)
    is_waiting = "" if info.status == "aborted" else ": the process that runs it, or the next one, ends it"
    write_line(f"{info.run_id} is {_status(info)}{is_waiting}")


async def _decide(
    log: EventLog,
    run_id: str,
    approve: Sequence[str] = (),
    deny: Sequence[str] = (),
    reason: str | None = None,
    decisions: Sequence[str] = (),
    go_on: bool = False,
) -> None:
    """Store decisions about what a run waits for, in words alone: without one, nothing is stored."""
    info = await log.existing(run_id)
    if resumed := await _resumed(log, info):
        raise CommandError(f"{run_id} was decided about already, and goes on as {resumed}")
    desk = QueuedWorker("", log=log)
    try:
        pending = PendingCalls.of(await pause_in(log, info))
    except RunStatusError as error:
        raise CommandError(f"{run_id} is {_status(info)}, not paused: there is nothing to decide about") from error
    needed = pending.required if pending.hook == BACKGROUND else pending.own
    is_stuck = go_on and (needed or pending.by_client)
    ways = [bool(approve or deny), bool(decisions), go_on]
    if is_stuck or sum(ways) != 1 or (reason is not None and not deny):
        waits = "; ".join(
            f"{id_}: {describe_call(call)}" + (f" ({pending.questions[at]})" if at in pending.questions else "")
            for at, (id_, call) in enumerate(zip(pending.ids, pending.calls, strict=True))
        )
        how = f"{run_id} waits for {waits}. Give --approve ID or --deny ID [--reason TEXT], or --decisions JSON"
        if not pending.calls:
            how = f"{run_id} waits for no call. Give --continue to go on"
        raise CommandError(clean(how), MISUSED)
    if len(decisions) > 1:
        raise CommandError("--decisions is given twice: give it once", MISUSED)
    if go_on:
        decided = read_resume('{"continue": true}')
    elif decisions:
        decided = read_resume(sys.stdin.read() if decisions[0] == "-" else decisions[0])
    else:
        denial = Deny() if reason is None else Deny(reason)
        given: list[tuple[str, Decision]] = [(id_, Approve()) for id_ in approve]
        decided = assign(pending, [*given, *((id_, denial) for id_ in deny)])
    several = decided.values() if isinstance(decided, Mapping) else decided
    if any(isinstance(one, ApproveAlways) for one in several):
        raise CommandError("always is for the conversations of rxworker serve: approve this call without it", MISUSED)
    try:
        write_line(await desk.decide_later(run_id, decided))
    except CommandConflictError as error:
        raise CommandError(f"{run_id} was decided about already: the first decision counts") from error


async def _signal(log: EventLog, run_id: str, name: str, value: str = "") -> None:
    given = _json_or_text(value)
    await log.signal(run_id, name, given if isinstance(given, dict) else value)
    write_line(f"{run_id} has the signal {one_line(name)}")


async def _wake(log: EventLog, run_id: str) -> None:
    await log.wake(run_id)
    write_line(f"{run_id} goes on when a process takes it")


async def _prune(
    log: EventLog, max_age: float | None = None, max_runs: int | None = None, max_bytes: int | None = None
) -> None:
    if max_age is None and max_runs is None and max_bytes is None:
        raise CommandError("there is no limit by which to delete: give --max-age, --max-runs or --max-bytes", MISUSED)
    gone = await log.prune(max_age=max_age, max_runs=max_runs, max_bytes=max_bytes)
    write_line(f"{plural(len(gone), 'run')} deleted")


async def _list(
    log: EventLog, status: str | None = None, limit: int = 20, label: Sequence[tuple[str, str]] | None = None
) -> None:
    stored = cast("StoredStatus | None", STORED.get(status or "", status))
    count, before = 0, ""
    while count < limit and (infos := await log.list(status=stored, before=before, limit=PAGE)):
        before = infos[-1].run_id
        for info in infos:
            resumed = await _resumed(log, info)
            shown = "resumed" if resumed else _status(info)
            is_asked = status in (None, shown) or status == info.status == "aborted"
            is_labelled = set(label or ()) <= info.row.labels.items()
            if is_asked and is_labelled and count < limit:
                count += 1
                write_line(_line(info, shown, resumed))
    if not count:
        write_line("no runs")


async def _resumed(log: EventLog, info: RunInfo) -> str:
    """The id of the run that goes on with a paused one; empty if none does.

    The paused run stays as it is, since it holds what was decided about.
    """
    if info.status != "paused":
        return ""
    resumed = await log.info(resumed_id(info.run_id))
    return resumed.run_id if resumed is not None and resumed.last_seq else ""


def _status(info: RunInfo) -> str:
    if info.is_waiting:
        return "waiting"
    if info.status == "aborted":
        return END_WORDS.get(info.row.cause, info.status)
    return "cut-off" if info.status == "running" and info.is_cut_off() else info.status


def _line(info: RunInfo, status: str, resumed: str) -> str:
    when = datetime.fromtimestamp(info.began).strftime("%Y-%m-%d %H:%M:%S")
    tokens = info.row.input_tokens + info.row.output_tokens
    title = one_line(info.error or info.row.title)
    if resumed:
        title = f"(as {resumed}) {title}"
    elif (status == "waiting" or info.is_cut_off()) and info.row.reason:
        title = f"({one_line(info.row.reason)}) {title}"
    return f"{info.run_id:28} {status:9} {when}  {info.row.turns:3} turns {tokens or 'unknown':>8} tokens  {title}"


async def _show(log: EventLog, run_id: str) -> None:
    records = list(records_of([entry async for entry in log.read(run_id)], run_id))
    state = fold_run(records)
    for message in state.conversation.messages:
        for text in filter(None, [message.text]):
            write_line(f"{message.role}: {clean(text)}")
        for call in message.tool_calls:
            write_line(f"call: {describe_call(call)}")
        for result in message.tool_results:
            mark = "failed" if result.is_error else "result"
            write_line(f"{mark}: {clean(result.text)}")
    for each in filter(None, [Annotation.of(record.event) for record in records]):
        by, about = each.by and f" by {each.by}", f"{each.name} {encode_json(each.value).decode()} {each.comment}"
        write_line(f"annotation{clean(by)}: {clean(about).strip()}")
    for one in state.background:
        waits = f"waits for a delivery {clean(one.reason)}".strip() if one.is_delivered else "goes on"
        write_line(f"background: {describe_call(one.call)} as {clean(one.id)}, {waits}")
    reason = f" ({clean(state.reason)})" if state.reason else ""
    write_line(
        f"-- {state.status}{reason}: {plural(state.turns, 'turn')}, {plural(state.all_tool_calls, 'tool call')}, "
        f"{plural(state.usage.total_tokens, 'token')}, {plural(state.seq, 'record')}"
    )


async def _replay(log: EventLog, run_id: str, speed: float = 1.0) -> None:
    info = await log.info(run_id)
    # Nothing is appended to a run that is cut off until it is recovered, which may be never.
    until = info.last_seq if info is not None and info.is_cut_off() else None

    def write(record: Record) -> None:
        write_line(escape_controls(encode_record(record).decode()))

    await replay(log, run_id, speed=speed, until=until).pipe(ops.do_action(write), ops.last_or_default(None))


async def _diff(log: EventLog, run_id: str, other: str) -> None:
    diff = await diff_runs(log, run_id, other)
    for run, each in ((run_id, diff.a), (other, diff.b)):
        cost = "" if each.cost is None else f", {money(each.cost)}"
        write_line(
            f"{run:28} {each.status:9} {plural(each.turns, 'turn')}, {plural(each.tool_calls, 'tool call')}, "
            f"{each.input_tokens:,} tokens in, {each.output_tokens:,} out{cost}"
        )
    if diff.is_equal:
        write_line("no differences")
        return
    write_line(f"equal up to record {diff.common} of {run_id}")
    for run, record in ((run_id, diff.first_a), (other, diff.first_b)):
        what = "has no more records" if record is None else f"{record.seq}: {record.event!r}"
        write_line(one_line(f"{run} {what}", WIDTH))
    for each in diff.messages:
        for mark, message in (("-", each.a), ("+", each.b)):
            if message is not None:
                write_line(f"{mark} {each.index + 1} {describe_message(message, WIDTH)}")


async def _export(log: EventLog, run_id: str, file: str = "-") -> None:
    _write(file, b"".join([line async for line in export_run(log, run_id)]))


def _write(file: str, data: bytes) -> None:
    if file == "-":
        sys.stdout.buffer.write(escape_controls(data.decode()).encode())
        return
    try:
        Path(file).write_bytes(data)
    except OSError as error:
        raise CommandError(f"cannot write {file}: {error.strerror}") from error


async def _import(log: EventLog, file: str) -> None:
    for lines in _runs_in(read_file(file).splitlines()):
        write_line(await import_run(log, lines))


def _runs_in(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The lines of each run of a file, which may have several: each begins with a head."""
    some: list[bytes] = []
    for line in lines:
        if line.startswith(b'{"run":') and some:
            yield some
            some = []
        some.append(line)
    yield some


ACTIONS: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
    "list": _list,
    "show": _show,
    "replay": _replay,
    "fork": _fork,
    "diff": _diff,
    "send": _send,
    "withdraw": _withdraw,
    "deliver": _deliver,
    "cancel": _cancel,
    "decide": _decide,
    "signal": _signal,
    "wake": _wake,
    "requeue": _requeue,
    "annotate": _annotate,
    "mark-time": _mark_time,
    "export": _export,
    "import": _import,
    "delete": EventLog.delete,
    "prune": _prune,
    "upgrade": EventLog.upgrade,
}
