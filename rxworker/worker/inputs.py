"""A stream of inputs, with a policy for an input that arrives during a run."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Literal, TypeAlias, get_args

from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable, Disposable

from rxworker.errors import ConfigurationError, LocalProtocolError
from rxworker.messages.message import Input
from rxworker.operators.kernel import Ending, Operator
from rxworker.run.run import Run
from rxworker.worker.session import Worker

WhenBusy: TypeAlias = Literal["queue", "switch", "send"]
"""The effect of an input that arrives during a run.

It waits (``queue``), cancels the run (``switch``), or joins it (``send``).
"""


def run_inputs(worker: Worker, when_busy: WhenBusy = "queue") -> Operator[Input, Run[Any]]:
    """Start a run for each input, and emit the run.

        -a--b------|
        [ run_inputs(worker, "queue") ]      b's run starts when a's has ended
        -A-----B---|

    It composes with reactivex operators: ``ops.debounce(0.5)`` before it makes one input of a burst.

    Args:
        worker: The worker that runs them.
        when_busy: The policy for an input that arrives during a run. ``queue``: it waits. ``switch``: the run is
            cancelled, and the newest input starts the next one (barge-in). ``send``: it is sent to the run, which takes
            it at the next safe moment; if the run ends before that moment, the input starts the next run.

    It completes when the source has completed and the last run has ended. The run itself reports how it ended.
    Disposing does not cancel the current run, and starts no other.

    Raises:
        ConfigurationError: ``when_busy`` is not one of the three.
    """
    if when_busy not in get_args(WhenBusy):
        raise ConfigurationError(f"when_busy={when_busy!r}: give one of {get_args(WhenBusy)}")

    def apply(source: Observable[Input]) -> Observable[Run[Any]]:
        def subscribe(
            observer: abc.ObserverBase[Run[object]], scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            inputs = _Inputs(worker, when_busy, observer)
            upstream = source.subscribe(inputs.take, inputs.on_error, inputs.complete, scheduler=scheduler)
            return CompositeDisposable(upstream, Disposable(inputs.leave))

        return Observable(subscribe)

    return apply


class _Inputs(Ending):
    def __init__(self, worker: Worker, when_busy: WhenBusy, observer: abc.ObserverBase[Run[object]]) -> None:
        super().__init__(observer)
        self._worker = worker
        self._when_busy = when_busy
        self._waiting: deque[Input] = deque()
        self._sent: list[tuple[Input, asyncio.Future[None]]] = []
        self._current: Run[object] | None = None
        self._is_last = False

    def take(self, given: Input) -> None:
        run = self._current
        if run is None:
            self._begin(given)
        elif self._when_busy == "send":
            self._send(run, given)
        else:
            if self._when_busy == "switch":
                self._waiting.clear()
                run.cancel(reason="a newer input came")
            self._waiting.append(given)

    def _send(self, run: Run[object], given: Input) -> None:
        try:
            self._sent.append((given, run.send(given)))
        except ConfigurationError as error:
            self.on_error(error)
        except LocalProtocolError:  # the run is about to end
            self._waiting.append(given)

    def _begin(self, given: Input) -> None:
        try:
            run = self._current = self._worker.run(given)
        except Exception as error:
            self.on_error(error)
            return
        try:
            self._observer.on_next(run)
        finally:  # also when the observer raises, the next input waits for the end of this run
            run.subscribe(on_error=self._ended, on_completed=self._ended)

    def _ended(self, _: Exception | None = None) -> None:
        self._current = None
        sent, self._sent = self._sent, []
        lost = [given for given, delivered in sent if _is_lost(delivered)]
        self._waiting.extendleft(reversed(lost if not self.is_over else []))
        if self._waiting:
            self._begin(self._waiting.popleft())
        elif self._is_last:
            self.on_completed()

    def complete(self) -> None:
        self._is_last = True
        if self._current is None:
            self._ended()

    def leave(self) -> None:
        """Start no further run, since the subscription was disposed."""
        self.end()
        self._waiting.clear()


def _is_lost(delivered: asyncio.Future[None]) -> bool:
    """Whether the run ended before it took the message."""
    return delivered.done() and not delivered.cancelled() and delivered.exception() is not None
