"""Copies of the panels of a board in the middle of a history, so that another moment need not be folded from its begin.

Theory of operation. What an operator knows is in objects and in variables of functions that its subscription alone has.
`pickle` follows them all; it is helped where it does not copy by itself: functions with the variables that they share,
bound methods, and locks. What does not change is not copied: code, modules, types, records and other Structs of the
library that are frozen.
The bytes never leave the process. Something that cannot be copied, such as a generator or a task, raises an exception;
then there is no copy, and a moment is folded from the begin.
"""

from __future__ import annotations

import io
import pickle
import threading
import zlib
from collections.abc import Callable
from itertools import count
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any, cast

from msgspec import Struct
from reactivex import abc
from reactivex.internal import infinite

from rxworker.boards.clock import PanelClock, RecordClock
from rxworker.boards.dashboard import Fold
from rxworker.operators.kernel import NOTHING

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
            code, scope = _Kept(obj.__code__), _Kept(obj.__globals__)
            more = obj.__defaults__, obj.__kwdefaults__, obj.__dict__
            return _function, (code, scope, obj.__name__, obj.__closure__, *more)
        if kind is MethodType:
            return MethodType, (obj.__func__, obj.__self__)
        if kind is CellType:
            try:
                return CellType, (), (obj.cell_contents,), None, None, _fill
            except ValueError:  # it is empty
                return CellType, ()
        if kind is _Kept:
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


class _Kept:
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
