"""The end of a watcher: how its stream ends, and what happens when it raises.

A watcher that raises is detached. The exception is logged and reported, and ends the watcher's stream; an interrupt
goes on to the program.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

from reactivex import abc

from rxworker.errors import RxWorkerError, as_exception, describe
from rxworker.hub.history import History

OnRaise: TypeAlias = Callable[[str, BaseException], None]

reporters: list[OnRaise] = []
"""Called for each watcher that has raised, of every hub of the process; for `rxworker.testing`."""

logger = logging.getLogger("rxworker.hub")


class DetachReporter:
    """Reports the watchers that have raised and are detached.

    Args:
        on_detach: Called with the name of the watcher, and what it raised.
        loop: The event loop of the hub, if any.
        history: The records of the hub, which name the run.

    Attributes:
        on_interrupt: Called with a ``KeyboardInterrupt`` that a watcher has raised; by default it leaves the event loop
            at once.
    """

    def __init__(self, on_detach: OnRaise | None, loop: asyncio.AbstractEventLoop | None, history: History) -> None:
        self.on_interrupt: Callable[[KeyboardInterrupt], None] | None = None
        self._on_detach = on_detach
        self._loop = loop
        self._history = history

    def report(self, name: str, error: BaseException) -> None:
        """Report that a watcher has raised. Raises nothing: the code that pushed the record did not cause it.

        Args:
            name: The watcher's name.
            error: The exception that it raised.
        """
        try:
            logger.warning(
                "watcher %s has raised and is detached",
                name,
                exc_info=error,
                extra={"watcher": name, "run": self._run_id()},
            )
            for reporter in tuple(reporters):
                reporter(name, error)
            if self._on_detach is not None:
                self._on_detach(name, error)
        except BaseException as failure:
            with suppress(BaseException):
                logger.warning(
                    "on_detach has raised, called for watcher %s",
                    name,
                    exc_info=failure,
                    extra={"watcher": name, "run": self._run_id()},
                )
            if not isinstance(error, KeyboardInterrupt):
                error = failure
        if not isinstance(error, KeyboardInterrupt):
            return
        if self.on_interrupt is not None:
            self.on_interrupt(error)
        elif self._loop is not None:
            raise_from_loop(self._loop, error)

    def _run_id(self) -> str:
        return next((record.run_id for record in self._history.records(0)), "")


def raise_from_loop(loop: asyncio.AbstractEventLoop, interrupt: KeyboardInterrupt) -> None:
    """Raise an interrupt out of the event loop, in the code that runs it, when the current callback has returned."""

    def raise_it() -> None:
        raise interrupt

    with suppress(RuntimeError):  # the loop is closed, and the program is past it
        loop.call_soon_threadsafe(raise_it)


def end_stream(observer: abc.ObserverBase[Any] | None, name: str, error: Exception | None, on_raise: OnRaise) -> None:
    """Complete the stream of an observer, or end it with an error, and report what the observer raises then."""
    if observer is None:
        return
    trace = None if error is None else error.__traceback__
    try:
        if error is None:
            observer.on_completed()
        else:
            observer.on_error(error)
    except BaseException as raised:
        # reactivex raises the error itself for an observer without on_error. Awaiting the run raises it too.
        if raised is not error:
            on_raise(name, raised)
        raised.__traceback__ = trace if raised is error else raised.__traceback__


def fail_stream(observer: abc.ObserverBase[Any] | None, name: str, error: BaseException, on_raise: OnRaise) -> None:
    """End the stream of an observer that has raised with what it raised, and report it.

    Operators may be subscribed downstream, and a program may await what they emit.
    """
    failure = as_exception(error)
    if isinstance(error, KeyboardInterrupt):
        # The hub forwards the interrupt itself, once. Awaiting the stream raises another exception.
        failure = RxWorkerError(describe(error))
        failure.__cause__ = error
    trace = error.__traceback__
    with suppress(BaseException):
        if observer is not None:
            observer.on_error(failure)
    # An observer without on_error raises it once more, which would lengthen the traceback.
    on_raise(name, error.with_traceback(trace))
