"""How work is counted, so that growth can be tested without a clock.

Two counters run over the same task: how much the interpreter does, and how much memory it takes anew on the way. The
first finds a loop over everything so far, the second text that is copied, joined or parsed again with each piece, which
one call of C does and no count of calls would show.

The programs that lie here are run by `test_bench.py`, each in a process; they are not modules to be imported.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
collect_ignore = ["shim"] + [path.name for path in HERE.glob("*.py") if not path.name.startswith(("test_", "conftest"))]

Task = Callable[[], object]

TWICE = 2.2
"""What twice the input may cost in work: twice as much, and something for what is rounded up on the way."""

TWICE_THE_MEMORY = 3.0
"""The same for what is allocated, where lists and dictionaries grow in jumps.

What is quadratic takes four times as much.
"""

LARGE = 512
"""Bytes taken between two lines, from which on they count."""

PAGE = 16 * 1024
"""What may be allocated on top, for tables that happen to grow."""


class Meter:
    """Counts while a task runs. A subclass says what, in ``note``."""

    def __init__(self) -> None:
        self.count = 0

    def measure(self, task: Task) -> int:
        """How much the task counts for."""
        profiled, traced, collecting = sys.getprofile(), sys.gettrace(), gc.isenabled()
        gc.disable()
        sys.settrace(self._trace)
        sys.setprofile(self._profile)
        try:
            task()
        finally:
            sys.setprofile(profiled)
            sys.settrace(traced)
            if collecting:
                gc.enable()
        return self.count

    def note(self, event: str, function: Any) -> None:
        """A line, or the call or the return of a function, of Python or of C."""
        raise NotImplementedError

    def _trace(self, _: FrameType, event: str, __: Any) -> Any:
        if event == "line":
            self.note(event, None)
        return self._trace

    def _profile(self, _: FrameType, event: str, function: Any) -> None:
        self.note(event, function)


class Work(Meter):
    """Lines and calls. A method of a text counts as much as the text is long, since it reads it."""

    def note(self, event: str, function: Any) -> None:
        """Returns are not counted as work."""
        if event in ("line", "call"):
            self.count += 1
        elif event == "c_call":
            owner: object = getattr(function, "__self__", None)
            self.count += 1 + (len(owner) if isinstance(owner, (str, bytes, bytearray)) else 0)


class Allocations(Meter):
    """The bytes of large allocations, whether they are kept or not."""

    def __init__(self) -> None:
        super().__init__()
        self._held = 0

    def measure(self, task: Task) -> int:
        """How many bytes the task allocates in large pieces."""
        tracemalloc.start()
        try:
            return super().measure(task)
        finally:
            tracemalloc.stop()

    def note(self, event: str, function: Any) -> None:
        """The peak since the last time, less what was held then."""
        del event, function
        held, peak = tracemalloc.get_traced_memory()
        if peak - self._held > LARGE:
            self.count += peak - self._held
        tracemalloc.reset_peak()
        self._held = held


def _work_of(task: Task) -> int:
    return Work().measure(task)


def _assert_linear(prepare: Callable[[int], Task], n: int = 200) -> None:
    prepare(8)()  # what is made at the first use is not counted
    once, twice = _work_of(prepare(n)), _work_of(prepare(2 * n))
    # A loop in C over n items counts for less than n, how much less differs by Python version.
    assert once >= n // 4, f"work of {once} for {n}: nothing was counted"
    assert twice < TWICE * once, f"work of {once} for {n}, {twice} for twice as many"
    once, twice = Allocations().measure(prepare(n)), Allocations().measure(prepare(2 * n))
    most = TWICE_THE_MEMORY * once + PAGE
    assert twice < most, f"{once} bytes for {n}, {twice} for twice as many"


@pytest.fixture
def work_of() -> Callable[[Task], int]:
    """How much work a task is; the same task always gives the same number."""
    return _work_of


@pytest.fixture
def assert_linear() -> Callable[..., None]:
    """``assert_linear(prepare, n=200)``.

    Twice as much, made by ``prepare(2 * n)``, costs at most a little over twice.
    """
    return _assert_linear
