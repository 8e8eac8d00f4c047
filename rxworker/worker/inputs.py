"""Inputs as a stream: what happens when one comes while a run is on."""

from __future__ import annotations

from collections import deque
from typing import Any, Literal, TypeAlias

from reactivex import Observable, abc

from rxworker.operators import Operator, Sink, stage
from rxworker.worker.input import Input
from rxworker.worker.run import Run
from rxworker.worker.worker import Worker

WhenBusy: TypeAlias = Literal["queue", "switch", "send"]


def run_inputs(worker: Worker, when_busy: WhenBusy = "queue") -> Operator[Input, Run[Any]]:
    """Begin a run for each input, and emit it.

        -a--b------|
        [ run_inputs(worker, "queue") ]      b's run begins when a's has ended
        -A-----B---|

    Compose it with reactivex's own: ``ops.debounce(0.5)`` before it takes a burst for one input.

    Args:
        worker: Whose runs they are.
        when_busy: What becomes of an input that comes while a run is on. ``queue``: it waits. ``switch``: the run is cancelled, and the
            newest input has the next one; barge-in. ``send``: it is put into the run at the next safe moment, and begins none of its own.

    It completes when the source has and the last run has ended. How a run ends is told by the run.
    """

    def apply(source: Observable[Input]) -> Observable[Run[Any]]:
        def start(observer: abc.ObserverBase[Run[Any]]) -> Sink[Input]:
            return _Inputs(worker, when_busy, observer).sink()

        return stage(source, start)

    return apply


class _Inputs:
    def __init__(
        self, worker: Worker, when_busy: WhenBusy, observer: abc.ObserverBase[Run[Any]]
    ) -> None:
        self._worker = worker
        self._when_busy = when_busy
        self._observer = observer
        self._waiting: deque[Input] = deque()
        self._current: Run[Any] | None = None
        self._is_last = False
        self._is_over = False

    def sink(self) -> Sink[Input]:
        return Sink(self._take, self._fail, self._complete)

    def _take(self, given: Input) -> None:
        run = self._current
        if run is None:
            self._begin(given)
        elif self._when_busy == "send":
            run.send(given)
        else:
            if self._when_busy == "switch":
                self._waiting.clear()
                run.cancel(reason="a newer input came")
            self._waiting.append(given)

    def _begin(self, given: Input) -> None:
        try:
            run = self._current = self._worker.run(given)
        except Exception as error:
            self._fail(error)
            return
        self._observer.on_next(run)
        run.subscribe(on_error=self._ended, on_completed=self._ended)

    def _ended(self, _: Exception | None = None) -> None:
        self._current = None
        if self._waiting:
            self._begin(self._waiting.popleft())
        elif self._is_last and not self._is_over:
            self._is_over = True
            self._observer.on_completed()

    def _fail(self, error: Exception) -> None:
        if not self._is_over:
            self._is_over = True
            self._observer.on_error(error)

    def _complete(self) -> None:
        self._is_last = True
        if self._current is None:
            self._ended()


__all__ = ["WhenBusy", "run_inputs"]
