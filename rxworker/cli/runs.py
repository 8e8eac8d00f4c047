"""``rxworker runs``: the runs of a log, listed, shown, replayed, forked, compared, exported, imported and deleted."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from reactivex import operators as ops

from rxworker.cli.process import FAILED, CommandError, run_async, write_line
from rxworker.events import Record
from rxworker.log import (
    EventLog,
    RunInfo,
    diff_runs,
    export_run,
    fork_run,
    import_run,
    open_log,
    records_of,
    replay,
)
from rxworker.protocols import encode_record
from rxworker.state import fold_run
from rxworker.ui.clean import clean, one_line
from rxworker.ui.describe import describe_call, describe_message, plural

PAGE = 100
WIDTH = 160


def runs(
    address: str,
    action: str,
    run: str,
    *,
    status: str | None = None,
    limit: int = 20,
    seq: int | None = None,
    speed: float = 1.0,
    file: str = "-",
    other: str = "",
) -> int:
    """Do something with the runs of a log.

    Args:
        address: The address of the log.
        action: ``list``, ``show``, ``replay``, ``fork``, ``diff``, ``export``, ``import`` or ``delete``.
        run: The id of a run, where the action has one.
        status: For ``list``: only runs of this status.
        limit: For ``list``: at most so many.
        seq: For ``fork``: the number of the last record to copy.
        speed: For ``replay``: how much faster than it was; 0 for no pauses.
        file: For ``export`` and ``import``: the file; ``-`` is standard output or input.
        other: For ``diff``: the id of the run to compare with.

    Returns:
        The exit code.

    Raises:
        CommandError: There is no such log.
        LogError: There is no such run, or the log cannot be read or written.
    """
    scheme, _, path = address.partition(":")
    if action != "import" and scheme == "sqlite" and not Path(path).exists():
        raise CommandError(
            f"there is no log at {path}: give --log sqlite:FILE of a worker with a log"
        )
    return run_async(_run(address, action, run, status, limit, seq, speed, file, other))


async def _run(
    address: str,
    action: str,
    run: str,
    status: str | None,
    limit: int,
    seq: int | None,
    speed: float,
    file: str,
    other: str,
) -> int:
    async with open_log(address) as log:
        match action:
            case "list":
                await _list(log, status, limit)
            case "show":
                await _show(log, run)
            case "replay":
                await _replay(log, run, speed)
            case "fork":
                info = await log.info(run)
                last = seq if seq is not None or info is None else info.last_seq
                write_line(await fork_run(log, run, last or 0))
            case "diff":
                await _diff(log, run, other)
            case "export":
                await _export(log, run, file)
            case "import":
                for lines in _runs_in(_lines(file)):
                    write_line(await import_run(log, lines))
            case _:
                await log.delete(run)
        return 0


async def _list(log: EventLog, status: str | None, limit: int) -> None:
    count, before = 0, ""
    while count < limit and (infos := await log.list(before=before, limit=PAGE)):
        before = infos[-1].run
        for info in infos:
            if (status is None or _status(info) == status) and count < limit:
                count += 1
                write_line(_line(info))
    if not count:
        write_line("no runs")


def _status(info: RunInfo) -> str:
    return "cut-off" if info.status == "running" and info.is_cut_off() else info.status


def _line(info: RunInfo) -> str:
    when = datetime.fromtimestamp(info.created).strftime("%Y-%m-%d %H:%M:%S")
    tokens = info.row.input_tokens + info.row.output_tokens
    title = one_line(info.error or info.row.title)
    return f"{info.run:28} {_status(info):9} {when}  {info.row.turns:3} turns {tokens:8} tokens  {title}"


async def _show(log: EventLog, run: str) -> None:
    records = list(records_of([entry async for entry in log.read(run)], run))
    state = fold_run(records)
    for message in state.conversation.messages:
        for text in filter(None, [message.text]):
            write_line(f"{message.role}: {clean(text)}")
        for call in message.tool_calls:
            write_line(f"call: {describe_call(call)}")
        for result in message.tool_results:
            mark = "failed" if result.is_error else "result"
            write_line(f"{mark}: {clean(result.text)}")
    reason = f" ({clean(state.reason)})" if state.reason else ""
    write_line(
        f"-- {state.status}{reason}: {state.turns} turns, {state.all_tool_calls} tool calls, "
        f"{state.usage.total_tokens} tokens, {state.seq} records"
    )


async def _replay(log: EventLog, run: str, speed: float) -> None:
    info = await log.info(run)
    # Nothing is appended to a run that is cut off until it is recovered, which may be never.
    until = info.last_seq if info is not None and info.is_cut_off() else None

    def write(record: Record) -> None:
        write_line(encode_record(record).decode())

    await replay(log, run, speed=speed, until=until).pipe(
        ops.do_action(write), ops.last_or_default(None)
    )


async def _diff(log: EventLog, a: str, b: str) -> None:
    diff = await diff_runs(log, a, b)
    for each in (diff.a, diff.b):
        cost = "" if each.cost is None else f", ${each.cost:.6f}"
        write_line(
            f"{each.run:28} {each.status:9} {plural(each.turns, 'turn')}, {plural(each.tool_calls, 'tool call')}, "
            f"{each.input_tokens:,} tokens in, {each.output_tokens:,} out{cost}"
        )
    if diff.is_equal:
        write_line("no differences")
        return
    write_line(f"equal up to record {diff.common} of {a}")
    for run, record in ((a, diff.first_a), (b, diff.first_b)):
        what = "has no more records" if record is None else f"{record.seq}: {record.event!r}"
        write_line(one_line(f"{run} {what}", WIDTH))
    for each in diff.messages:
        for mark, message in (("-", each.a), ("+", each.b)):
            if message is not None:
                write_line(f"{mark} {each.index + 1} {describe_message(message, WIDTH)}")


async def _export(log: EventLog, run: str, file: str) -> None:
    lines = [line async for line in export_run(log, run)]
    _write(file, b"".join(lines))


def _write(file: str, data: bytes) -> None:
    if file == "-":
        sys.stdout.buffer.write(data)
        return
    try:
        Path(file).write_bytes(data)
    except OSError as error:
        raise CommandError(f"cannot write {file}: {error.strerror}") from error


def _runs_in(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The lines of each run of a file, which may have several: each begins with a head."""
    some: list[bytes] = []
    for line in lines:
        if line.startswith(b'{"run":') and some:
            yield some
            some = []
        some.append(line)
    yield some


def _lines(file: str) -> Iterator[bytes]:
    if file == "-":
        yield from sys.stdin.buffer
        return
    try:
        yield from Path(file).read_bytes().split(b"\n")
    except OSError as error:
        raise CommandError(f"cannot read {file}: {error.strerror}", FAILED) from error
