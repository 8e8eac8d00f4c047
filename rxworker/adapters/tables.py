"""Rows as Arrow tables, and as Parquet and Arrow files, by pyarrow.

``pip install "/path/to/the/checkout[tables]"``. pandas, polars and DuckDB read all of them.

A row is a Struct, whose types give the columns, or a dict. `rxworker.adapters.rows` makes rows of the records of runs.
"""

from __future__ import annotations

import contextlib
import os
import types
from collections.abc import Callable
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct
from reactivex import Observable, abc, compose
from reactivex import operators as ops
from reactivex.disposable import CompositeDisposable, Disposable

from rxworker.errors import ConfigurationError
from rxworker.operators.kernel import Operator

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

    make = partial(_Batches, arrow, row, rows, partial(_open, os.fspath(path)))

    def operator(source: Observable[Row]) -> Observable[int]:
        return Observable(partial(_write, source, make))

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
    """Collects rows into record batches, and writes these to a sink.

    Args:
        arrow: The package.
        row: The type of the rows.
        size: How many rows make a batch.
        open_sink: Opens the sink for these columns.
    """

    def __init__(self, arrow: Any, row: type[Struct] | None, size: int, open_sink: Callable[[Any], Any]) -> None:
        self._arrow = arrow
        self._schema = None if row is None else _schema(arrow, row)
        self._size = size
        self._open_sink = open_sink
        self._sink: Any = None
        self._rows: list[dict[str, Any]] = []
        self.count = 0

    def add(self, row: Row) -> None:
        """Take a row."""
        self._rows.append(_values(row))
        if len(self._rows) >= self._size:
            self._flush()

    def close(self) -> None:
        """Write the rows that wait, and close the sink."""
        try:
            self._flush()
        finally:
            self._opened().close()

    def _flush(self) -> None:
        if self._rows:
            rows, self._rows = self._rows, []
            batch = self._arrow.RecordBatch.from_pylist(rows, schema=self._schema)
            self._schema = batch.schema
            self._opened().write_batch(batch)
            self.count += len(rows)

    def _opened(self) -> Any:
        if self._sink is None:
            self._sink = self._open_sink(self._schema or self._arrow.schema([]))
        return self._sink


def _write(
    source: Observable[Row],
    make: Callable[[], _Batches],
    observer: abc.ObserverBase[int],
    scheduler: abc.SchedulerBase | None = None,
) -> abc.DisposableBase:
    """Write what a source emits, and emit the number of the rows."""
    batches = make()
    is_open = True

    def close() -> None:
        nonlocal is_open
        if is_open:
            is_open = False
            batches.close()

    def on_next(row: Row) -> None:
        if is_open:
            try:
                batches.add(row)
            except Exception as error:
                on_error(error)
                held.dispose()

    def on_error(error: Exception) -> None:
        with contextlib.suppress(Exception):  # the first error counts
            close()
        observer.on_error(error)

    def on_completed() -> None:
        if not is_open:
            return
        try:
            close()
        except Exception as error:
            observer.on_error(error)
        else:
            observer.on_next(batches.count)
            observer.on_completed()

    held = CompositeDisposable(Disposable(close))
    held.add(source.subscribe(on_next, on_error, on_completed, scheduler=scheduler))
    return held


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
