"""Runs in a log: what is stored of one, what a list shows of it, and the journal that writes it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from weakref import ref

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rxworker import events
from rxworker.errors import ConfigurationError
from rxworker.events import Event, Record
from rxworker.events.pause import BACKGROUND
from rxworker.log.base import EventLog
from rxworker.log.format import Entry, Private, check_continuable, private_of, records_of, round_time
from rxworker.log.recover import taken_in
from rxworker.log.values import Claim, RunRow, with_figures
from rxworker.log.writer import RunWriter
from rxworker.messages import Conversation, Document, Image, Json, Message, ToolMeta, ToolResult
from rxworker.state import RunState, fold_run
from rxworker.tools import Toolbox
from rxworker.tools.schema import NAMED
from rxworker.turn.context import RunContext, TurnScope, continues
from rxworker.turn.result import RunResult, result_of


class LoadedRun(Struct, frozen=True):
    """A run as its log has it.

    Attributes:
        run_id: Its id.
        records: Its records; spans of deltas are one each.
        state: Their fold.
        variables: The variables of hooks and tools that were stored.
        unseen: The results of the last turn that ``after_tool_call`` hooks had not seen, and those that a person has
            given, by the places of their calls.
        called: The names of the tools that the model has called.
        taken: The numbers of the commands that were taken, or are void.
        agreed: Which hooks had agreed to a call, and whether a person had, by the number of the start of the call.
        kept: With what the tool of a running call goes on, by the number of its start; of one in the background by its
            id there.
        copied: The number of the last record that was copied from another run; 0 for none.
        tools: The digests of its tools, by their names.
        foreign: The number of the last record that was copied or imported. Permissions up to it are those of another
            run.
        epoch: The epoch of the process that wrote the last record.
        epochs: The epoch of the process before each recovery, by the number of its `RunRecover`.
    """

    run_id: str
    records: list[Record]
    state: RunState
    variables: dict[str, object]
    unseen: dict[int, ToolResult]
    called: list[str]
    taken: frozenset[int]
    agreed: dict[int, Private]
    kept: dict[int | str, Json]
    copied: int
    tools: dict[str, str]
    foreign: int
    epoch: int = 0
    epochs: dict[int, int] = {}

    def result(self) -> RunResult[None]:
        """The result of a run that has ended or is paused."""
        is_foreign = self.foreign >= self.state.seq
        return result_of(self.state, self.run_id, None, self.variables, self.called, is_foreign=is_foreign)


async def read_run(log: EventLog, run_id: str, row: RunRow | None = None) -> LoadedRun:
    """A run as its log has it.

    Args:
        log: The log of the run.
        run_id: The run's id.
        row: What a list shows of it, if it is to be continued.

    Raises:
        LogError: The log cannot be read or is damaged, or has a kind of entry that this rxworker cannot continue from.
    """
    entries = [entry async for entry in log.read(run_id)]
    check_continuable(entries, run_id)
    records = list(records_of(entries, run_id))
    variables: dict[str, object] = {}
    unseen: dict[int, ToolResult] = {}
    agreed: dict[int, Private] = {}
    starts: dict[int, int] = {}
    kept: dict[int | str, Json] = {}
    for entry, record in zip(entries, records, strict=True):
        event = None if record.path else record.event
        if isinstance(event, events.TurnStart):
            unseen.clear()
        elif isinstance(event, events.ToolStart):
            starts[event.place] = record.seq
        elif isinstance(event, events.BackgroundStart):
            if event.background.begun is not None:  # it goes on with that
                kept.pop(event.background.id, None)
            elif (place := starts.get(event.background.place, 0)) in kept:  # before it went there
                kept.setdefault(event.background.id, kept[place])
        private = private_of(entry, run_id)
        if private is None:
            continue
        if private.variables is not None:
            variables = private.variables
        unseen.update(private.answered)
        if private.held is not None and isinstance(event, events.ToolStop):
            unseen[event.place] = private.held
        if private.agreed or private.approved:
            agreed[entry.last] = private
        if private.kept is not None and isinstance(event, events.ToolProgress):
            kept[starts.get(event.place, 0)] = private.kept
        if private.kept is not None and isinstance(event, events.BackgroundProgress):
            kept[event.id] = private.kept
    own = [record.event for record in records if not record.path]
    copied = max((r.seq for r in records if isinstance(r.event, events.Fork) and not r.path), default=0)
    foreign = max(copied, 0 if row is None else row.imported)
    state = fold_run(records)
    log.bases.note(state.conversation, run_id, state.seq)
    return LoadedRun(
        run_id,
        records,
        state,
        variables,
        unseen if row is None else unseen | row.held,
        _called_in(state, own[0] if own else None),
        taken_in([r.event for r in records if not r.path and r.seq > foreign]),
        agreed,
        kept,
        copied,
        tools_in(records),
        foreign,
        entries[-1].epoch if entries else 0,
        _recovered_in(entries, records),
    )


def _recovered_in(entries: Sequence[Entry], records: Sequence[Record]) -> dict[int, int]:
    """The numbers of the records at which another process went on, and the epoch before each."""
    return {
        record.seq: before.epoch
        for before, record in zip(entries, records[1:], strict=False)
        if isinstance(record.event, events.RunRecover) and not record.path
    }


def _called_in(state: RunState, begin: Event | None) -> list[str]:
    """The names of the tools that the model has called in a run, each once."""
    since = len(begin.conversation.messages) if isinstance(begin, events.RunStart | events.RunResume) else 0
    called = [call.name for message in state.conversation.messages[since:] for call in message.tool_calls]
    if isinstance(begin, events.RunResume):
        called = [*(call.name for call in begin.pause.pending), *called]
    return list(dict.fromkeys(called))


def tools_in(records: Iterable[Record]) -> dict[str, str]:
    """The digests of the tools with which a run was begun, resumed and recovered, by their names."""
    tools: dict[str, str] = {}
    for record in records:
        if not record.path and isinstance(record.event, events.RunStart | events.RunResume | events.RunRecover):
            tools.update(record.event.tools)
    return tools


DATA = frozenset({"default", "enum", "const"})
TEXTS = ("description", "title", "examples", "$comment")
"""What a schema has for readers."""


def digest_of(meta: ToolMeta) -> str:
    """Two digests of a tool: of its name and parameters, and of all that the model is given.

    >>> pay, transfer = (ToolMeta("pay", text, {"type": "object"}) for text in ("Pay.", "Transfer."))
    >>> digest_of(pay).partition(".")[0] == digest_of(transfer).partition(".")[0]
    True
    """
    return f"{_parameters_of(meta)}.{_sha256(meta)}"


def digests_of(tools: Toolbox) -> dict[str, str]:
    """The digests of tools, by their names."""
    return {meta.name: digest_of(meta) for meta in tools.metas}


def is_same_tool(digest: str, meta: ToolMeta) -> bool:
    """Whether a digest is that of a tool with this name and these parameters.

    Descriptions do not matter; in a digest of an older rxworker they do.
    """
    parameters, mark, _ = digest.partition(".")
    return parameters == (_parameters_of(meta) if mark else _sha256(meta))


def _parameters_of(meta: ToolMeta) -> str:
    return _sha256((meta.name, _without_texts(meta.input_schema), meta.format))


def _sha256(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:16]


def _without_texts(schema: Json) -> object:
    """A schema without what it has for readers. The names of properties are not such texts."""
    if isinstance(schema, list | tuple):
        return [_without_texts(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    left: dict[str, object] = {}
    for key, value in schema.items():
        if key in NAMED and isinstance(value, Mapping):
            left[key] = {name: _without_texts(each) for name, each in value.items()}
        elif key in DATA:
            left[key] = value
        elif key not in TEXTS:
            left[key] = _without_texts(value)
    return left


def check_tools(wanted: Mapping[str, str], tools: Toolbox, run_id: str, names: Iterable[str] | None = None) -> None:
    """Refuse to continue a run without its tools.

    Args:
        wanted: The digests of the tools of the run, by their names.
        tools: The tools that there are.
        run_id: The run's id.
        names: The names of the tools that are needed; by default all.

    Raises:
        ConfigurationError: A tool is missing, or has other parameters.
    """
    known = {meta.name: meta for meta in tools.metas}
    needed = sorted(wanted if names is None else wanted.keys() & set(names))
    missing = [name for name in needed if name not in known]
    changed = [n for n in needed if n in known and not is_same_tool(wanted[n], known[n])]
    if missing or changed:
        what = [f"lacks {', '.join(missing)}"] if missing else []
        what += [f"has other parameters of {', '.join(changed)}"] if changed else []
        raise ConfigurationError(
            f"{run_id} cannot be continued by a worker that {' and '.join(what)}: start one with the tools that the "
            "run was started with"
        )


class LoggedRun(Struct, frozen=True):
    """A run that is about to begin or to continue: where it is stored, and what is stored of it already.

    Attributes:
        log: The log.
        row: The values that a list shows.
        claim: The claim of a run that exists.
        run: The stored part of the run.
        before: The conversation that a new run continues.
    """

    log: EventLog
    row: RunRow
    claim: Claim | None = None
    run: LoadedRun | None = None
    before: Conversation | None = None

    def attach(self, context: RunContext, scope: TurnScope) -> None:
        """Let the journal of a run continue after what is stored, and write to the log.

        The row has what is allowed at the time. The times have the resolution of a log, so that watchers of this
        process see what is stored.
        """
        journal, allowed = context.journal, context.allowed
        now = journal.clock
        journal.clock = lambda: round_time(now())
        if self.run is not None:
            journal.load(self.run.records)
        row, held = replace(self.row, held={}, end=0, ended=0.0), self.row.held
        if context.parents:
            row = replace(row, outer=context.parents[0].journal.run_id)
        kept = ref(journal)

        def last_values() -> RunRow:
            journal = kept()
            own = replace(row, allowed=tuple(allowed))
            if journal is None:
                return own
            history = journal.hub.history
            # The records of a tapped run have the times of its source.
            last = history.newest(history.last_seq - 1) if row.began and journal.state.is_over else None
            return row_of(journal.state, own if last is None else replace(own, ended=last.time))

        journal.writer = writer = RunWriter(self.log, journal.run_id, last_values, scope.variables, self.claim, held)
        writer.before = self.before
        writer.keeps_cursor = continues(context.worker, context.options)


def row_of(state: RunState, row: RunRow) -> RunRow:
    """The present entry of a run in a list.

    Args:
        state: The state of the run.
        row: The entry so far.
    """
    status = state.status
    if status in ("new", "running"):
        status = row.status if not state.turns and row.status == "queued" else "running"
    if status == "queued":  # with the moment when it is due
        return replace(with_figures(row, state), status=status)
    waits = () if state.pause is None else state.pause.waits
    by_run, by_command = any(wait.run for wait in waits), any(wait.signal or wait.message for wait in waits)
    return replace(
        with_figures(row, state),
        status=status,
        wakes=state.commands + 1 if state.pause is not None and state.pause.hook == BACKGROUND else 0,
        reason=state.reason if state.pause is None else state.pause.reason,
        due=min((wait.due for wait in waits if wait.due), default=0.0),
        awaits="run" if by_run else "command" if by_command else "",
        cause=state.cause,
    )


TITLE = 120
"""The maximum number of characters of the title of a run."""


def last_input(messages: Sequence[Message]) -> list[Message]:
    """The user's last messages that have a title, which no answer is between: the input of a run that has paused."""
    found: list[Message] = []
    for message in reversed(messages):
        if message.role == "user" and title_of((message,)):
            found.insert(0, message)
        elif found:
            break
    return found


def title_of(messages: Sequence[Message]) -> str:
    """The title of a run in a list: the beginning of its input, or else what is attached."""
    attached = [
        (block.title or "document") if isinstance(block, Document) else "image"
        for message in messages
        for block in message.content
        if isinstance(block, Document | Image)
    ]
    text = " ".join(" ".join(message.text for message in messages).split())
    return (text or ", ".join(attached))[:TITLE]
