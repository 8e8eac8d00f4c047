"""What a dashboard shows of a log at moments of the past, each folded from a copy of its panels at an earlier moment.

Theory of operation. A fold of the stored runs is copied now and then on its way (`Copy`), together with the place of
its reader. A moment is folded from the last copy before it. The runs are listed once; before each moment those are
noted that have changed since. A copy goes when a record from before it is no longer there, or has come since; in the
others, a run that has got more records is read on. The first copy is tried: it takes the same records as the fold that
it was made of, and if the two do not show the same then, or a panel cannot be copied, each moment is folded from the
begin.

Copies. What an operator knows is in objects and in variables of functions that its subscription alone has.
`pickle` follows them all; it is helped where it does not copy by itself: functions with the variables that they share,
bound methods, and locks. What does not change is not copied: code, modules, types, records and other Structs of the
library that are frozen.
The bytes never leave the process. Something that cannot be copied, such as a generator or a task, raises an exception;
then there is no copy, and a moment is folded from the begin.
"""

from __future__ import annotations

import asyncio
import io
import pickle
import threading
import zlib
from bisect import bisect_right, insort
from collections.abc import Callable
from itertools import count
from time import perf_counter, thread_time
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any, NamedTuple, cast

from msgspec import Struct
from reactivex import abc
from reactivex.internal import infinite, noop

from rxworker.boards.clock import PanelClock, RecordClock
from rxworker.boards.dashboard import TURN, Dashboard, Fold, Progress
from rxworker.boards.panel import PanelState
from rxworker.boards.reader import Begun, Listed, Place, Reader
from rxworker.events import Record
from rxworker.log import EventLog
from rxworker.operators.kernel import NOTHING

EVERY = 0.1
"""Seconds of CPU between two copies, at least."""
SHARE = 4
"""How many times as long as a copy takes, records are taken until the next one."""
MAX_COPIES = 512
"""The maximum number of copies. Above it every second one goes, and there are half as many from then on."""
MAX_BYTES = 32_000_000
"""The maximum size of all copies, in the same way."""
TRIED = 500
"""How many records the first copy is tried with."""

_LOCKS: dict[type[object], Callable[[], object]] = {
    type(threading.Lock()): threading.Lock,
    type(threading.RLock()): threading.RLock,
}
_NUMBERS = infinite.__code__

MAX_SIZE = 16_000_000
"""The maximum number of bytes of a copy, before they are compressed."""


class Copy:
    """A copy of a fold, from which any number of folds are made that go on from there.

    Args:
        fold: The fold. It must not take a record meanwhile; another thread may copy it.

    Raises:
        Exception: Something of it cannot be copied.

    >>> from rxworker.boards import Dashboard, panel
    >>> from rxworker.events import Record, RunStop
    >>> from rxworker.panels import count
    >>> fold = Fold(Dashboard([panel("Ends", count(RunStop))]))
    >>> fold.take(Record(1, "run-1", 1, 1, 3.5, RunStop()))
    >>> copy = Copy(fold)
    >>> fold.take(Record(1, "run-2", 1, 1, 4.5, RunStop()))
    >>> fold.at(5.0)[0].value, copy.fold().at(5.0)[0].value
    (2, 1)
    """

    def __init__(self, fold: Fold) -> None:
        file = _Bounded()
        copier = _Copier(file)
        copier.dump(fold)
        self._data, self._kept = zlib.compress(file.getvalue(), 1), copier.kept

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return len(self._data) + 8 * len(self._kept)

    def fold(self) -> Fold:
        """A fold that is where the other one was."""
        return cast("Fold", _Maker(zlib.decompress(self._data), self._kept).load())


class _Bounded(io.BytesIO):
    """A copy in the making, which has a bound: an operator may refer to a table or a model of the program."""

    def write(self, data: Any, /) -> int:
        """Add bytes; raises an exception where there are too many."""
        if self.tell() + len(data) > MAX_SIZE:
            raise MemoryError(f"a copy would have more than {MAX_SIZE} bytes")
        return super().write(data)


class _Copier(pickle.Pickler):
    """Writes an object with all that it refers to.

    Attributes:
        kept: What is not copied.
    """

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.kept: list[object] = []
        self._places: dict[int, int] = {}

    def reducer_override(self, obj: Any, /) -> Any:
        """A function that makes the object, its arguments, and possibly a state and a function that sets it."""
        kind = cast("type[object]", type(obj))
        if kind is FunctionType:
            if obj in (_kept, _function, _fill):
                return NotImplemented
            if "<locals>" not in obj.__qualname__:  # all of its subscriptions share it
                return self._keep(obj)
            code, scope = _NotCopied(obj.__code__), _NotCopied(obj.__globals__)
            more = obj.__defaults__, obj.__kwdefaults__, obj.__dict__
            return _function, (code, scope, obj.__name__, obj.__closure__, *more)
        if kind is MethodType:
            return MethodType, (obj.__func__, obj.__self__)
        if kind is CellType:
            try:
                return CellType, (), (obj.cell_contents,), None, None, _fill
            except ValueError:  # it is empty
                return CellType, ()
        if kind is _NotCopied:
            return self._keep(obj.what)
        if kind in _LOCKS:
            return _LOCKS[kind], ()
        if kind is GeneratorType and obj.gi_code is _NUMBERS:  # by which `map_indexed` counts, and so `flat_map`
            return count, (obj.gi_frame.f_locals.get("n", -1) + 1,)
        return self._keep(obj) if _is_constant(obj, kind) else NotImplemented

    def _keep(self, obj: object) -> tuple[Callable[[int], object], tuple[int]]:
        place = self._places.setdefault(id(obj), len(self.kept))
        if place == len(self.kept):
            self.kept.append(obj)
        return _kept, (place,)


def _is_constant(obj: Any, kind: type[object]) -> bool:
    if kind is BuiltinFunctionType:  # or a method of an object
        return obj.__self__ is None or isinstance(obj.__self__, ModuleType)
    if isinstance(obj, Struct):
        return obj.__struct_config__.frozen and kind.__module__.startswith("rxworker.")
    if isinstance(obj, abc.SchedulerBase):
        return kind not in (RecordClock, PanelClock)
    return isinstance(obj, type) or kind in (ModuleType, CodeType, object) or obj is NOTHING


class _Maker(pickle.Unpickler):
    """Makes what was written."""

    def __init__(self, data: bytes, kept: list[object]) -> None:
        super().__init__(io.BytesIO(data))
        self._kept = kept

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        """What a name stands for: what was kept is found in its list."""
        return self._kept.__getitem__ if global_name == "_kept" else super().find_class(module_name, global_name)


class _NotCopied:
    """Something that is not copied."""

    def __init__(self, what: object) -> None:
        self.what = what


def _kept(place: int) -> object:
    """Found by its name alone, see `_Maker`."""
    raise NotImplementedError(place)


def _function(
    code: CodeType, scope: dict[str, Any], name: str, closure: Any, defaults: Any, keywords: Any, attributes: Any
) -> FunctionType:
    made = FunctionType(code, scope, name, defaults, closure)
    made.__kwdefaults__ = keywords
    made.__dict__.update(attributes)
    return made


def _fill(cell: CellType, contents: tuple[object]) -> None:
    (cell.cell_contents,) = contents


class _Kept(NamedTuple):
    place: Place
    copy: Copy


class _Trial(NamedTuple):
    """The first copy, and the records since."""

    kept: _Kept
    records: list[Record]


class Moments:
    """Moments of the past of a dashboard over a log. Belongs to one event loop, and computes one moment at a time.

    Args:
        dashboard: The dashboard.
        log: The log.
        since: Only runs that began then or later, in seconds since the epoch.

    Attributes:
        since: As above.

    Example:
        >>> from rxworker import Worker
        >>> from rxworker.boards import panel
        >>> from rxworker.log import MemoryLog
        >>> from rxworker.panels import tokens
        >>> from rxworker.testing import ScriptedModel
        >>> async def main() -> None:
        ...     async with MemoryLog() as log:
        ...         run = await Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
        ...         moments = Moments(Dashboard([panel("Tokens", tokens)]), log)
        ...         print([(await moments.at(time))[0].value for time in (0.0, 4e9)])
        >>> asyncio.run(main())
        [None, 15]
    """

    def __init__(self, dashboard: Dashboard, log: EventLog, since: float | None = None) -> None:
        self.since = since
        self._dashboard = dashboard
        self._log = log
        self._listed = Listed(log, since, dashboard.selection)
        self._copies: list[_Kept] = []
        self._limits: dict[Reader, float] = {}
        self._every, self._cost = EVERY, 0.0
        self._trial: _Trial | None = None
        self._is_tried = self._cannot = False
        self._lock = asyncio.Lock()

    async def at(self, time: float) -> tuple[PanelState, ...]:
        """What the panels show at a moment, as `fold_log` returns it.

        Args:
            time: The moment, in seconds since the epoch.

        Raises:
            LogError: The log cannot be read.
        """
        async with self._lock:
            await self.renew()
            count = bisect_right(self._copies, time, key=_time_of)
            kept = self._copies[count - 1] if count else None
            fold = Fold(self._dashboard) if kept is None else await asyncio.to_thread(kept.copy.fold)
            await self.read(fold, fold.take, at=None if kept is None else kept.place, until=time)
            return fold.at(time)

    async def renew(self) -> list[Begun]:
        """Note what has changed in the log. Returns the runs, the last to begin first."""
        async for time, grown in self._listed.changes():
            self._copies = [each for each in self._copies if max(_time_of(each), each.place.begun[0]) < time]
            self._limits = {reader: min(limit, time) for reader, limit in self._limits.items()}
            if grown is not None:
                for place in [each.place for each in self._copies]:
                    if (grown.time, grown.run) <= place.begun:
                        place.runs.setdefault(grown.run, (grown.seq, grown.seq))
        return self._listed.runs[::-1]

    def has_since(self, since: float) -> bool:
        """Whether its runs are all those that began since another time."""
        return self.since is None or (self.since >= since > self._listed.left_out)

    async def read(
        self,
        fold: Fold,
        take: Callable[[Record], object],
        *,
        at: Place | None = None,
        until: float | None = None,
        progress: Progress = noop,
    ) -> dict[str, int]:
        """Read the records after a place, and copy the fold that takes them on the way; see `Reader.read`."""

        def noted(record: Record) -> None:
            if self._trial is not None:
                self._trial.records.append(record)
            take(record)

        last = 0.0

        async def on_turn(reader: Reader) -> None:
            nonlocal last
            if not self._cannot and await self._copy(fold, reader, last):
                last = reader.spent
            await asyncio.sleep(0)

        runs = self._listed.runs if at is None else self._listed.after(at.begun)
        takes = take if self._is_tried else noted
        reader = Reader(self._log, runs[::-1], takes, fold, at=at, known=self._listed.known, on_turn=on_turn)
        self._limits[reader] = float("inf")
        try:
            return await reader.read(until, progress)
        finally:
            self._trial = None
            del self._limits[reader]

    async def _copy(self, fold: Fold, reader: Reader, last: float) -> bool:
        """Copy a fold, if it is time to; returns whether it has."""
        place = reader.place
        if self._trial is not None:
            if len(self._trial.records) >= TRIED:
                await self._try(self._trial, fold, reader)
            return False
        is_due = reader.spent - last >= max(self._every, SHARE * self._cost)
        if place is None or not is_due or fold.clock.seconds > place.taken[0] + 1e-6:  # timers have run after it
            return False
        try:
            copy, self._cost = await asyncio.to_thread(_copied, fold)
        except Exception:  # of whatever an operator is made of
            self._cannot = True
            return False
        kept = _Kept(place, copy)
        if self._is_tried:
            self._keep(kept, reader)
        else:
            self._trial = _Trial(kept, [])
        return True

    async def _try(self, trial: _Trial, fold: Fold, reader: Reader) -> None:
        self._trial = None
        other = await asyncio.to_thread(trial.kept.copy.fold)
        end = perf_counter() + TURN
        for record in trial.records:
            other.take(record)
            if perf_counter() > end:
                await asyncio.sleep(0)
                end = perf_counter() + TURN
        self._is_tried = [each.state for each in other.cells.values()] == [each.state for each in fold.cells.values()]
        self._cannot = not self._is_tried
        if self._is_tried:
            self._keep(trial.kept, reader)

    def _keep(self, kept: _Kept, reader: Reader) -> None:
        if _time_of(kept) >= self._limits[reader]:
            return
        insort(self._copies, kept, key=_time_of)
        if len(self._copies) > MAX_COPIES or sum(each.copy.size for each in self._copies) > MAX_BYTES:
            del self._copies[::2]
            self._every *= 2


def _time_of(kept: _Kept) -> float:
    return kept.place.taken[0]


def _copied(fold: Fold) -> tuple[Copy, float]:
    began = thread_time()
    return Copy(fold), thread_time() - began
