"""A run as a plain iterator, for scripts without an event loop.

Theory of operation. The run has an event loop in another thread, so that it continues, and its time-outs hold, while
the script handles an event. The script reads the records of the run from its own thread, like any other reader: a
script that falls far behind makes the run wait. The thread ends with the run. It has no reference to the stream, so a
stream without references is collected, which cancels the run.
"""

from __future__ import annotations

import concurrent.futures
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import copy_context
from typing import Generic

from rxworker.errors import LocalProtocolError
from rxworker.events import Event
from rxworker.hub import Reliable
from rxworker.operators.kernel import Scheduler
from rxworker.run.run import Run
from rxworker.run.virtual import run_in
from rxworker.turn.result import RunResult, T_co


class RunStream(Generic[T_co]):
    """The events of a run, to be read with a ``for`` loop. Made by ``Worker.stream_sync``.

    Leaving the loop early (``break``, an exception, Ctrl-C), `close`, the end of a ``with`` block, and dropping the
    last reference cancel the run and wait for its end; the worker keeps the conversation so far. The loop raises the
    error that ended the run. The events of nested runs are left out, as in ``run.events``.

    >>> from rxworker import Worker
    >>> from rxworker.events import TextDelta
    >>> from rxworker.testing import ScriptedModel
    >>> stream = Worker(ScriptedModel(["Hello!"])).stream_sync("Hi")
    >>> "".join(event.text for event in stream if isinstance(event, TextDelta))
    'Hello!'
    >>> stream.result.turns
    1
    """

    def __init__(self, begin: Callable[[], Run[T_co]], scheduler: Scheduler = None) -> None:
        self._thread = thread = _RunThread(begin, scheduler)
        self._closing = weakref.finalize(self, thread.close)
        try:
            self._run = thread.begin()
        except BaseException:  # the run could not start, or Ctrl-C came while it started
            self.close()
            raise
        self._events = self._read()

    def __iter__(self) -> Iterator[Event]:
        """The events after the last one that was read. Closing this iterator closes the stream."""
        try:
            yield from self._events
        finally:
            self.close()

    def __next__(self) -> Event:
        """The next event; waits for it."""
        return next(self._events)

    def __enter__(self) -> RunStream[T_co]:
        """The stream itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    @property
    def result(self) -> RunResult[T_co]:
        """The result of the run.

        Raises:
            LocalProtocolError: The run has not ended.
            RxWorkerError: The error that ended the run, as ``await run`` raises it.
        """
        if not self._run.done():
            raise LocalProtocolError("the run has not ended: read the stream to its end first")
        return self._run.result()

    def close(self) -> None:
        """Cancel the run, unless it has ended, and wait for its end."""
        self._thread.close()  # each time: Ctrl-C may have interrupted the wait of the previous call
        self._closing.detach()

    def _read(self) -> Iterator[Event]:
        try:
            for record in self._run.watch(Reliable()):
                if not record.path:
                    yield record.event
        except Exception:
            self._thread.join()  # an interrupt that ended the run is raised instead of the run's error
            raise
        self._thread.join()


class _RunThread(Generic[T_co]):
    """The event loop of one run, in its thread."""

    def __init__(self, begin: Callable[[], Run[T_co]], scheduler: Scheduler = None) -> None:
        self._begin = begin
        self._scheduler = scheduler
        self._begun: concurrent.futures.Future[Run[T_co]] = concurrent.futures.Future()
        self._interrupt: BaseException | None = None
        self._is_closed = False
        # Before Python 3.13 a thread counts as ended after Ctrl-C interrupts ``join``, so an event marks the end of the
        # run.
        self._ended = threading.Event()
        context = copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._work,), name="rxworker-run", daemon=True)

    def begin(self) -> Run[T_co]:
        """Start the run. Raises the error of the start."""
        self._thread.start()
        return self._begun.result()

    def join(self) -> None:
        """Wait for the end of the thread, and raise the interrupt that has left its event loop."""
        self._wait()
        interrupt, self._interrupt = self._interrupt, None
        if interrupt is not None:
            raise interrupt

    def close(self) -> None:
        """Cancel the run and wait for its end. A run that has not started is cancelled when it starts."""
        # Set before the check whether it has begun; the thread checks in the other order.
        self._is_closed = True
        if not self._ended.is_set() and self._begun.done() and not self._begun.exception():
            run = self._begun.result()
            with suppress(RuntimeError):  # the loop has closed meanwhile
                run.loop.call_soon_threadsafe(_cancel, run)
        # The garbage collector may call from any thread, also from this one. Ctrl-C may come before the thread has
        # started.
        if threading.current_thread() is not self._thread and self._thread.ident is not None:
            self._wait()

    def _wait(self) -> None:
        self._ended.wait()
        self._thread.join()

    def _work(self) -> None:
        try:
            run_in(self._scheduler, self._complete())
        except BaseException as error:  # an interrupt: the reading thread raises it
            if self._begun.done():
                self._interrupt = error
            else:
                self._begun.set_exception(error)
        finally:
            self._ended.set()

    async def _complete(self) -> None:
        run = self._begin()
        self._begun.set_result(run)
        if self._is_closed:
            _cancel(run)
        with suppress(Exception):  # the stream raises it
            await run


def _cancel(run: Run[object]) -> None:
    if not run.done():  # else its loop is closing, and what ``cancel`` returns would be left pending
        run.cancel(reason="its stream was closed")
