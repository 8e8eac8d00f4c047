"""Rows as Arrow tables, and as Parquet and Arrow files, by pyarrow.

``pip install "/path/to/the/checkout[tables]"``. pandas, polars and DuckDB read all of them.

A row is a Struct, whose types give the columns, or a dict. The rows of the records of runs are made here, too: a row
for each call of a tool, each response, or each run.

They are operators over the records of one run, of several (`merge_runs`), or of a log. A row is emitted when what it
describes has ended. Nested runs are included: their ``path`` has the calls that lead to them.
"""

from __future__ import annotations

import contextlib
import os
import types
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import reactivex
from msgspec import Struct
from reactivex import Observable, abc, compose
from reactivex import operators as ops

from rxworker import events
from rxworker.errors import ConfigurationError
from rxworker.messages.lenient_json import encode_lenient
from rxworker.messages.settings import shared_fields
from rxworker.operators.expect import observing, refusal
from rxworker.operators.kernel import Ending, Operator, Sink
from rxworker.protocols.socket import reason_of
from rxworker.state import RunState, step_run
from rxworker.state.inner import OF_REQUESTS, RequestTokens, step_request
from rxworker.views import CallView, RunView

R = TypeVar("R")
Fold: TypeAlias = Callable[[events.Record], Iterator[R]]
"""Takes the records of one run, and returns the rows that each completes."""

ENDS = (events.RunStop, events.RunPause, events.RunAbort)


class CallRow(Struct, frozen=True):
    """A call of a tool.

    Attributes:
        run: The run.
        path: The calls that lead to the nested run that made it, joined by ``/``; empty for the run itself.
        turn: The turn.
        call: The id of the call.
        tool: The tool.
        arguments: Its arguments, as JSON or as the text of a tool that takes free text.
        result: The text of its result; ``None`` if there is none.
        stage: Its final stage: ``done``, ``failed``, ``refused``, ``stopped`` or ``retracted``; see `ItemStage`.
        began: When the model began to write it.
        seconds: How long the tool ran.
    """

    run: str
    path: str
    turn: int
    call: str
    tool: str
    arguments: str
    result: str | None
    stage: str
    began: datetime
    seconds: float


class ResponseRow(Struct, frozen=True):
    """A request to a provider and its response.

    Attributes:
        run: The run.
        path: As for `CallRow`.
        turn: The turn.
        attempt: Its number in the turn.
        provider: The name of the provider; empty if its start was not seen.
        model: The model; empty if it is not known.
        status: ``Completed``, ``Cancelled``, ``Failed``, or ``Retracted`` for one that was requested again or
            began anew.
        stop_reason: Why it ended, if the provider reported it.
        began: When the request was sent, or the response began anew; the first record of it that was seen, if that was
            missed.
        first_seconds: Seconds until its first block; ``None`` if there was none.
        seconds: Seconds until its end.
        input_tokens: As in `Usage`, as are the others.
    """

    run: str
    path: str
    turn: int
    attempt: int
    provider: str
    model: str
    status: str
    stop_reason: str | None
    began: datetime
    first_seconds: float | None
    seconds: float
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    reasoning_tokens: int | None


class RunRow(Struct, frozen=True):
    """A run.

    Attributes:
        run: The run.
        status: ``finished``, ``paused`` or ``aborted``.
        reason: Why it was paused or ended early.
        turns: How many turns it took.
        tool_calls: How many tools it started, those of nested runs included.
        began: When it began.
        seconds: How long it took.
        input_tokens: As in `Usage`, as are the others, of all its requests.
    """

    run: str
    status: str
    reason: str
    turns: int
    tool_calls: int
    began: datetime
    seconds: float
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    reasoning_tokens: int | None


def call_rows() -> Operator[events.Record, CallRow]:
    """A row for each call of a tool.

    >>> from rxworker import Worker, tool
    >>> from rxworker.testing import ScriptedModel, call, say
    >>> @tool
    ... def add(a: int, b: int) -> int:
    ...     "Add."
    ...     return a + b
    >>> async def main() -> None:
    ...     run = Worker(ScriptedModel([call("add", a=1, b=2), say("3")]), tools=[add]).run("1 + 2?")
    ...     run.pipe(call_rows()).subscribe(lambda row: print(row.tool, row.arguments, row.result))
    ...     await run
    >>> import asyncio
    >>> asyncio.run(main())
    add {"a":1,"b":2} 3
    """
    return _rows(_Calls, "call_rows()")


def response_rows() -> Operator[events.Record, ResponseRow]:
    """A row for each response of a provider, also for those that failed."""
    return _rows(_Responses, "response_rows()")


def run_rows() -> Operator[events.Record, RunRow]:
    """A row for each run that has ended or paused."""
    return _rows(_Runs, "run_rows()")


def _rows(make: Callable[[], Fold[R]], verb: str) -> Operator[events.Record, R]:
    def observe(observer: abc.ObserverBase[R]) -> Sink[events.Record]:
        folds: dict[str, Fold[R]] = {}
        ending = Ending(observer)

        def on_next(record: events.Record) -> None:
            if ending.is_over:
                return
            if record.__class__ is not events.Record:
                ending.on_error(refusal(verb, "records", record))
                return
            fold = folds.get(record.run_id)
            if fold is None:
                if record.event.__class__ is events.Custom:  # an annotation after the end
                    return
                fold = folds[record.run_id] = make()
            for row in fold(record):
                observer.on_next(row)
            if _is_end(record):
                folds.pop(record.run_id, None)

        return Sink(on_next, ending.on_error, ending.on_completed)

    return observing(observe, verb)


class _Calls:
    def __init__(self) -> None:
        self._view = RunView()
        self._emitted: set[CallView] = set()

    def __call__(self, record: events.Record) -> Iterator[CallRow]:
        for item in self._view.step(record).items:
            if isinstance(item, CallView) and item.is_over:
                has_result = item.result is not None or item.stage not in ("done", "failed")
                if has_result and item not in self._emitted:
                    yield self._row(record.run_id, item)
        if _is_end(record):
            for item in self._view.items:
                if isinstance(item, CallView) and item.is_over and item not in self._emitted:
                    yield self._row(record.run_id, item)

    def _row(self, run_id: str, item: CallView) -> CallRow:
        self._emitted.add(item)
        given = item.text if item.call is None else item.call.input
        return CallRow(
            run=run_id,
            path="/".join(item.scope.path),
            turn=item.turn,
            call=item.block.call_id or item.block.id,
            tool=item.block.tool,
            arguments=given if isinstance(given, str) else encode_lenient(given).decode(),
            result=None if item.result is None else item.result.text,
            stage=item.stage,
            began=_moment(item.began),
            seconds=item.seconds,
        )


class _Response:
    """A response that has not ended, or that may begin anew."""

    def __init__(self, record: events.Record, tokens: RequestTokens) -> None:
        self.began = record.time
        self.tokens = tokens
        self.provider, self.model = tokens.provider, tokens.model
        self.first: float | None = None
        self.is_over = False

    def follow(self, record: events.Record, tokens: RequestTokens) -> Iterator[ResponseRow]:
        self.tokens, event = tokens, record.event
        if isinstance(event, events.Status):
            if event.status is events.ResponseStatus.STARTED:
                self.provider, self.model = event.provider or self.provider, event.model or self.model
            elif not self.is_over:
                reason = None if event.stop_reason is None else event.stop_reason.kind.value
                yield self.row(record, event.status.value, reason)

    def row(self, end: events.Record, status: str, stop_reason: str | None = None) -> ResponseRow:
        self.is_over = True
        turn, attempt = self.tokens.number
        return ResponseRow(
            run=end.run_id,
            path="/".join(end.path),
            turn=turn,
            attempt=attempt,
            provider=self.provider,
            model=self.model,
            status=status,
            stop_reason=stop_reason,
            began=_moment(self.began),
            first_seconds=None if self.first is None else self.first - self.began,
            seconds=end.time - self.began,
            **shared_fields(self.tokens.usage or events.Usage(), ResponseRow),
        )


class _Responses:
    def __init__(self) -> None:
        self._open: dict[tuple[str, ...], _Response] = {}

    def __call__(self, record: events.Record) -> Iterator[ResponseRow]:
        event, path = record.event, record.path
        response = self._open.get(path)
        if isinstance(event, events.BlockStart):
            if response is not None and response.first is None:
                response.first = record.time
        elif isinstance(event, events.AttemptRetract):
            if response is not None and not response.is_over:
                yield response.row(record, "Retracted")
        elif event.__class__ in OF_REQUESTS:
            tokens = step_request(None if response is None else response.tokens, record)
            if response is not None and (response.tokens.is_over(tokens, event) or response.tokens.begins_anew(event)):
                if not response.is_over:
                    yield response.row(record, events.ResponseStatus.CANCELLED.value if tokens is None else "Retracted")
                del self._open[path]
                response = None
            if tokens is not None:
                response = response or self._open.setdefault(path, _Response(record, tokens))
                yield from response.follow(record, tokens)


class _Runs:
    def __init__(self) -> None:
        self._state = RunState()
        self._began: float | None = None

    def __call__(self, record: events.Record) -> Iterator[RunRow]:
        self._began = record.time if self._began is None else self._began
        self._state = state = step_run(self._state, record)
        if _is_end(record):
            yield RunRow(
                run=record.run_id,
                status=state.status,
                reason=reason_of(state),
                turns=state.turns,
                tool_calls=state.all_tool_calls,
                began=_moment(self._began),
                seconds=record.time - self._began,
                **shared_fields(state.usage, RunRow),
            )


def _is_end(record: events.Record) -> bool:
    return not record.path and isinstance(record.event, ENDS)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


Row: TypeAlias = Struct | dict[str, Any]
Table: TypeAlias = Any
"""A ``pyarrow.Table``; the package has no types."""

ROWS = 1024
"""How many rows are written at once, and held in memory until then."""


FORMATS = (".parquet", ".arrow", ".arrows")


def _open(path: str, schema: Any) -> Any:
    if path.endswith(".parquet"):
        return import_module("pyarrow.parquet").ParquetWriter(path, schema, compression="zstd")
    ipc = _arrow().ipc
    return (ipc.new_file if path.endswith(".arrow") else ipc.new_stream)(path, schema)


def write_table(
    path: str | os.PathLike[str], row: type[Struct] | None = None, *, rows: int = ROWS
) -> Operator[Row, int]:
    """Write rows to a file, and emit their number when it is complete.

        --a--b--c--|      rows
        [ write_table("calls.parquet") ]
        -----------(3|)

    The file is closed, and can be read, however the stream ends: also by an error or by disposing, with the rows until
    then. A row that does not fit ends the stream, and the rows that wait with it are not written. Writing happens on
    the thread that pushes.

    Args:
        path: The file, which is replaced: ``.parquet``, ``.arrow`` (a file of Arrow IPC), or ``.arrows`` (its stream,
            of which also a process that was killed leaves what it has written).
        row: The type of the rows, which gives the columns; by default those of the first rows.
        rows: How many rows are written at once.

    Raises:
        ConfigurationError: pyarrow is missing, or the name has another extension. As ``on_error``: a row does not fit,
            or the file cannot be written.
    """
    arrow = _arrow()
    if Path(path).suffix not in FORMATS:
        raise ConfigurationError(f"{os.fspath(path)!r}: give a file of {', '.join(FORMATS)}")

    def operator(source: Observable[Row]) -> Observable[int]:
        def write(_: object) -> Observable[int]:
            batches = _Batches(arrow, row, rows, os.fspath(path))
            taken: Operator[Row, Row] = ops.do_action(batches.add, on_completed=batches.close)
            failed: Operator[Row, Row] = ops.do_action(on_error=batches.give_up)
            return source.pipe(taken, failed, ops.count(), ops.finally_action(batches.close))

        return reactivex.defer(write)

    return operator


def to_table(row: type[Struct] | None = None) -> Operator[Row, Table]:
    """Collect rows, and emit them as one ``pyarrow.Table``: ``.to_pandas()``, or ``polars.from_arrow(table)``.

        --a--b--c--|      rows
        [ to_table() ]
        -----------(t|)

    Args:
        row: The type of the rows, which gives the columns; by default those of the first rows.

    Raises:
        ConfigurationError: pyarrow is missing. As ``on_error``: a row does not fit.
    """
    arrow = _arrow()

    schema = None if row is None else _schema(arrow, row)

    def collect(rows: list[dict[str, Any]]) -> Table:
        known = schema or (None if rows else arrow.schema([]))
        return arrow.Table.from_pylist(rows, schema=known)

    return compose(ops.map(_values), ops.to_list(), ops.map(collect))


class _Batches:
    """Collects rows into record batches, and writes these to a file.

    Args:
        arrow: The package.
        row: The type of the rows.
        size: How many rows make a batch.
        path: The file.
    """

    def __init__(self, arrow: Any, row: type[Struct] | None, size: int, path: str) -> None:
        self._arrow = arrow
        self._schema = None if row is None else _schema(arrow, row)
        self._size = size
        self._path = path
        self._sink: Any = None
        self._rows: list[dict[str, Any]] = []
        self._is_closed = False

    def add(self, row: Row) -> None:
        """Take a row."""
        self._rows.append(_values(row))
        if len(self._rows) >= self._size:
            self._flush()

    def close(self) -> None:
        """Write the rows that wait, and close the sink."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._flush()
        finally:
            self._opened().close()

    def give_up(self, _error: Exception) -> None:
        """Close the sink after an error, which counts more than one of the sink."""
        with contextlib.suppress(Exception):
            self.close()

    def _flush(self) -> None:
        if self._rows:
            rows, self._rows = self._rows, []
            batch = self._arrow.RecordBatch.from_pylist(rows, schema=self._schema)
            self._schema = batch.schema
            self._opened().write_batch(batch)

    def _opened(self) -> Any:
        if self._sink is None:
            self._sink = _open(self._path, self._schema or self._arrow.schema([]))
        return self._sink


def _arrow() -> Any:
    try:
        return import_module("pyarrow")
    except ImportError as error:
        raise ConfigurationError(
            "tables need the package pyarrow: pip install '/path/to/the/checkout[tables]'"
        ) from error


def _schema(arrow: Any, row: type[Struct]) -> Any:
    """The columns of a Struct. A type that has no column of its own is written as JSON."""
    known = {
        str: arrow.string(),
        bool: arrow.bool_(),
        int: arrow.int64(),
        float: arrow.float64(),
        bytes: arrow.binary(),
        datetime: arrow.timestamp("us", tz="UTC"),
    }
    hints = get_type_hints(row)
    return arrow.schema([(name, known.get(_plain(kind), arrow.string())) for name, kind in hints.items()])


PLAIN = (str, bool, int, float, bytes, datetime)


def _plain(kind: Any) -> Any:
    """The type without ``None``."""
    if get_origin(kind) in (Union, types.UnionType):
        others = [each for each in get_args(kind) if each is not type(None)]
        return others[0] if len(others) == 1 else kind
    return kind


def _values(row: Row) -> dict[str, Any]:
    if isinstance(row, dict):
        return dict(row)
    values = msgspec.structs.asdict(row)
    for name, value in values.items():
        if value is not None and not isinstance(value, PLAIN):
            values[name] = msgspec.json.encode(value).decode()
    return values
