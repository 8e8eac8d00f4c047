"""Runs in a log: what is stored of one, what a list shows of it, and the journal that writes it."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from weakref import ref

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rxworker.errors import ConfigurationError
from rxworker.events import CommandTaken, Fork, Record, RunResume, RunStart
from rxworker.log.base import EventLog
from rxworker.log.entry import Private, check_continuable, private_of, records_of
from rxworker.log.values import Claim, RunRow
from rxworker.log.writer import RunWriter
from rxworker.messages import Message, Prices, ToolMeta, ToolResult, Usage
from rxworker.state import RunState, fold_run
from rxworker.tools import Toolbox
from rxworker.worker.context import RunContext, TurnScope
from rxworker.worker.journal import Journal
from rxworker.worker.result import RunResult, result_of


class StoredRun(Struct, frozen=True):
    """A run as its log has it.

    Attributes:
        records: Its records; spans of deltas are one each.
        state: Their fold.
        variables: The variables of hooks and tools that were stored.
        held: The results that ``after_tool_call`` hooks had not seen, by the numbers of the ends of their calls.
        answered: The results that a person gave when the run was resumed, by the places of their calls.
        called: The names of the tools that the model has called.
        taken: The numbers of the commands that were taken.
        agreed: Which hooks had agreed to a call, and whether a person had, by the number of the start of the call.
        copied: The number of the last record that was copied from another run; 0 for none.
        foreign: The number of the last record that was copied or imported. Permissions up to it are those of another run.
    """

    records: list[Record]
    state: RunState
    variables: dict[str, object]
    held: dict[int, ToolResult]
    answered: dict[int, ToolResult]
    called: list[str]
    taken: frozenset[int]
    agreed: dict[int, Private]
    copied: int
    foreign: int

    def result(self, run: str) -> RunResult[None]:
        """The result of a run that has ended or is paused."""
        is_foreign = self.foreign >= self.state.seq
        return result_of(self.state, run, None, self.variables, self.called, is_foreign=is_foreign)


async def read_run(log: EventLog, run: str, imported: int = 0) -> StoredRun:
    """A run as its log has it.

    Args:
        log: The log of the run.
        run: The run's id.
        imported: As in the `RunRow` of the run.

    Raises:
        LogError: The log cannot be read or is damaged, or has a kind of entry that this rxworker cannot continue from.
    """
    entries = [entry async for entry in log.read(run)]
    check_continuable(entries, run)
    records = list(records_of(entries, run))
    variables: dict[str, object] = {}
    held: dict[int, ToolResult] = {}
    answered: dict[int, ToolResult] = {}
    agreed: dict[int, Private] = {}
    for entry in entries:
        private = private_of(entry, run)
        if private is None:
            continue
        if private.variables is not None:
            variables = private.variables
        answered.update(private.answered)
        if private.held is not None:
            held[entry.last] = private.held
        if private.agreed or private.approved:
            agreed[entry.last] = private
    own = [record.event for record in records if not record.path]
    copied = max((r.seq for r in records if isinstance(r.event, Fork) and not r.path), default=0)
    foreign = max(copied, imported)
    state = fold_run(records)
    begin = own[0] if own else None
    since = len(begin.conversation.messages) if isinstance(begin, RunStart | RunResume) else 0
    called = [
        call.name for message in state.conversation.messages[since:] for call in message.tool_calls
    ]
    if isinstance(begin, RunResume):
        called = [*(call.name for call in begin.pending), *called]
    return StoredRun(
        records,
        state,
        variables,
        held,
        answered,
        list(dict.fromkeys(called)),
        frozenset(
            record.event.number
            for record in records
            if isinstance(record.event, CommandTaken) and not record.path and record.seq > foreign
        ),
        agreed,
        copied,
        foreign,
    )


def digest_of(meta: ToolMeta) -> str:
    """A digest of the description of a tool."""
    return hashlib.sha256(msgspec.json.encode(meta, order="sorted")).hexdigest()[:16]


def check_tools(stored: StoredRun, tools: Toolbox, run: str) -> None:
    """Refuse to continue a run without the tools that it was started with.

    Raises:
        ConfigurationError: A tool is missing, or has other parameters.
    """
    start = stored.records[0].event if stored.records else None
    wanted = start.tools if isinstance(start, RunStart) else {}
    known = {meta.name: digest_of(meta) for meta in tools.metas}
    missing = sorted(name for name in wanted if name not in known)
    changed = sorted(name for name in wanted if name in known and known[name] != wanted[name])
    if missing or changed:
        what = [f"lacks {', '.join(missing)}"] if missing else []
        what += [f"has another description of {', '.join(changed)}"] if changed else []
        raise ConfigurationError(
            f"{run} cannot be recovered by this worker: it {' and '.join(what)}. Use a worker with the tools that the run was started with"
        )


class LoggedRun(Struct, frozen=True):
    """A run that is about to begin or to continue: where it is stored, and what is stored of it already.

    Attributes:
        log: The log.
        row: The values that a list shows.
        claim: The claim of a run that exists.
        run: The stored part of the run.
        error: Why a recovered run ends at once, if it does.
    """

    log: EventLog
    row: RunRow
    claim: Claim | None = None
    run: StoredRun | None = None
    error: Exception | None = None

    def journal(
        self,
        run: str,
        scope: TurnScope,
        prices: Prices | None,
        outer: RunContext | None,
        loop: asyncio.AbstractEventLoop,
        allowed: Sequence[tuple[str, str]],
    ) -> Journal:
        """The journal of the run, whose row has what is allowed at the time. Its times have the resolution of a log, so that watchers of this process see what is stored."""
        journal = Journal(run, clock=_logged_time, loop=loop)
        if self.run is not None:
            journal.load(self.run.records)
        row = self.row if outer is None else replace(self.row, outer=outer.journal.run)
        kept = ref(journal)

        def last_values() -> RunRow:
            journal = kept()
            own = replace(row, allowed=tuple(allowed))
            return own if journal is None else row_of(journal.state, own, prices)

        journal.writer = RunWriter(self.log, run, last_values, scope.variables, self.claim)
        return journal


def _logged_time(now: Callable[[], float] = time.time) -> float:
    return round(now(), 3)


def row_of(state: RunState, row: RunRow, prices: Prices | None) -> RunRow:
    """The present entry of a run in a list.

    Args:
        state: The state of the run.
        row: The entry so far.
        prices: The prices of its tokens, if they are known.
    """
    usage = state.usage
    status = state.status
    if status in ("new", "running"):
        status = row.status if not state.turns and row.status == "queued" else "running"
    return replace(
        row,
        status=status,
        turns=state.turns,
        tool_calls=state.all_tool_calls,
        tool_errors=state.tool_errors,
        tool_seconds=round(state.tool_seconds, 3),
        tool_durations=state.tool_durations,
        input_tokens=usage.input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        cache_read_tokens=usage.cache_read_tokens or 0,
        cache_creation_tokens=usage.cache_creation_tokens or 0,
        cost=None if prices is None else prices.cost(usage),
        by_model={model: counts_of(each) for model, each in state.usage_by_model.items()},
        reason=state.reason if state.pause is None else state.pause.reason,
        cause=state.cause,
    )


def counts_of(usage: Usage) -> tuple[int, int, int, int]:
    """The tokens of a usage that have prices: read, written, from a cache, to a cache.

    >>> counts_of(Usage(10, 5))
    (10, 5, 0, 0)
    """
    return (
        usage.input_tokens or 0,
        usage.output_tokens or 0,
        usage.cache_read_tokens or 0,
        usage.cache_creation_tokens or 0,
    )


TITLE = 120
"""The maximum number of characters of the title of a run."""


def last_input(messages: Sequence[Message]) -> list[Message]:
    """The user's last messages with text, which no answer is between: the input of a run that has paused."""
    found: list[Message] = []
    for message in reversed(messages):
        if message.role == "user" and message.text:
            found.insert(0, message)
        elif found:
            break
    return found


def title_of(messages: Sequence[Message]) -> str:
    """The title of a run in a list: the beginning of its input."""
    return " ".join(" ".join(message.text for message in messages).split())[:TITLE]
