"""One request and its response, with time-outs.

`Retry` defines when a request that failed before its first event is made again, and after which delay. A response that
runs in the background at the provider may lose its connection: it is resumed by the same decoder.

A `Receiver` counts the reads and knows whether an event has passed, so that one timer serves both time-outs: eight
times in the shorter of them it checks what has arrived since. Bytes without an event, and pings, are keep-alives: with
them, and only with them, both time-outs are `Timeouts.keep_alive` times as long. The transport must emit nothing once
it is disposed, like every observable.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from functools import lru_cache

from reactivex import Observable, abc

from rxworker.errors import HttpStatusError, ProviderError, RxWorkerError, TransportError, TransportTimeoutError
from rxworker.events import ResponseEvent, ResponseStatus, Status
from rxworker.messages.settings import Settings, check_number, check_plain
from rxworker.operators.kernel import Sink, connect
from rxworker.operators.recovery import LOOKS
from rxworker.providers.base import HttpRequest, ResponseDecoder, resumable
from rxworker.providers.batch_decoder import Part
from rxworker.transport.base import PRESSURE
from rxworker.transport.clock import LoopClock, Ticker
from rxworker.transport.receive import Receiver
from rxworker.watchdog import running_loop

logger = logging.getLogger("rxworker.transport")


class Retry(Settings, frozen=True):
    """How often to try again, and how long to wait before it.

    The wait is the one that the provider specifies, else ``first · 2ⁿ`` up to ``maximum``, less up to a quarter, with
    jitter, so that many clients do not come back at once.

    Attributes:
        retries: How many times to try again after the first.
        first: Seconds before the first retry.
        maximum: The longest wait of our own, in seconds.
        patience: There is no retry if the provider specifies a wait of more than these seconds.

    Raises:
        ConfigurationError: A value is not a number from 0 up.
    """

    retries: int = 2
    first: float = 0.5
    maximum: float = 8.0
    patience: float = 120.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_number("Retry(retries)", self.retries, whole=True)
        for name in ("first", "maximum", "patience"):
            check_number(f"Retry({name})", getattr(self, name))

    def delay(self, error: Exception, attempt: int, chance: Callable[[], float] = random.random) -> float | None:
        """Seconds to wait after this error; ``None`` to give up.

        Args:
            error: The error.
            attempt: How many tries there have been, from 1.
            chance: A number from 0 to 1.

        >>> from rxworker.errors import TransportError
        >>> Retry().delay(TransportError("broke", retryable=True), 1, lambda: 0.0)
        0.5
        >>> Retry().delay(TransportError("broke"), 1) is None
        True
        """
        check_plain("delay(chance)", chance)
        if attempt > self.retries or not isinstance(error, RxWorkerError) or not error.retryable:
            return None
        if error.retry_after:
            return error.retry_after if error.retry_after <= self.patience else None
        doublings = min(attempt - 1, 64)  # far beyond any longest wait, and still a number
        return min(self.first * 2.0**doublings, self.maximum) * (1 - chance() / 4)


NAME_SECONDS = 30.0
"""How long a response in the background that was left before it had a name is read for it."""
SHORTEST_STEP = 0.001
"""Seconds between two looks at a response, at least."""


class Timeouts(Settings, frozen=True):
    """How long a client waits; ``None`` waits for as long as it takes.

    What counts is an event that brings the response further. A comment, a ping, or bytes of a frame that is not whole
    show only that the connection is open: as long as one arrives, a wait may be some times as long, and no longer.

    Attributes:
        first: Seconds from the request to its first event.
        idle: Seconds without an event, once bytes have begun to come.
        keep_alive: How many times as long both may be while signs of life come; ``None`` for any time.

    Raises:
        ConfigurationError: A value is not a number from 0 up.
    """

    first: float | None = 120.0
    idle: float | None = 120.0
    keep_alive: float | None = 5.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in self.__struct_fields__:
            check_number(f"Timeouts({name})", getattr(self, name), optional=True)

    def overrun(self, limit: float, quiet: float, waited: float) -> str:
        """The time that has expired, for the message; empty if it has not.

        Args:
            limit: Seconds that may pass.
            quiet: Seconds without a byte.
            waited: Seconds without an event that brings the response further.
        """
        if quiet >= limit:
            return f"{limit:g} seconds"
        if self.keep_alive is None or waited < limit * self.keep_alive:
            return ""
        return f"{limit * self.keep_alive:g} seconds but keep-alives"


class Answer(Receiver, abc.DisposableBase):
    """The answer to one request, for one observer, with time-outs.

    Args:
        source: The bytes.
        make: Makes the provider's decoder.
        explain: Converts an error into one of the provider.
        observer: The observer of the events.
        timeouts: How long to wait.
        retry: When to take up a response in the background again.
        clock: The scheduler; without one there are no time-outs, and nothing is taken up again.
        background: Creates, from a decoder, the `Background` of a response that continues without its connection;
            ``None`` for any other.
        hide: Removes the secrets of the request from a text of an error.
    """

    def __init__(
        self,
        source: Observable[bytes],
        make: Callable[[], ResponseDecoder],
        explain: Callable[[Exception], Exception],
        observer: abc.ObserverBase[ResponseEvent],
        timeouts: Timeouts,
        retry: Retry,
        clock: abc.SchedulerBase | None,
        background: Callable[[ResponseDecoder], Background] | None = None,
        hide: Callable[[str], str] = str,
    ) -> None:
        super().__init__(make, observer, hide)
        self._background = background(self._decoder) if background else None
        self._source = source
        self._explain = explain
        self._timeouts = timeouts
        self._step = step = _step(timeouts)
        self._ticker: Ticker | None = None
        if step is not None and clock is not None:
            self._ticker = clock.ticker(step) if isinstance(clock, LoopClock) else Ticker(clock, step)
        self._retry = retry
        self._clock = clock
        self._pressure = PRESSURE.get()
        self._context = copy_context()  # another request belongs to the caller
        self._failures = 0  # to take up a response in the background, in a row
        self._is_on_its_way = False  # a request for a response in the background
        self._upstream: abc.DisposableBase | None = None
        self._timer: abc.DisposableBase | None = None

    def send(self) -> None:
        """Send the request."""
        attempt = self._failures
        self._seen = self._moved = 0
        self._quiet = self._waited = 0
        try:
            if self._ticker is not None and self._ticker.join(self.tick):
                self._quiet = self._waited = -1  # the first tick comes too early to count
            upstream = connect(self._source, self)
        except Exception as error:
            self.on_error(error)
            return
        if self._over or self._failures != attempt:
            upstream.dispose()
        else:
            self._upstream = upstream
            if self._background is not None and (loop := running_loop()) is not None:
                loop.call_soon(self._set_on_its_way)  # after the task that sends it has begun

    def on_error(self, error: Exception) -> None:
        """Take what broke the connection, or what came in place of a stream: an answer that came whole is one, too."""
        if whole := self._whole(error):
            self.on_next(whole)
            self.on_completed()
            return
        try:
            explained = self._hidden(self._explain(error))
        except Exception as other:
            explained = other
        super().on_error(explained)

    def _whole(self, error: Exception) -> bytes:
        """The body of an answer that came whole, from a server that does not stream; empty if it is something else."""
        if not (isinstance(error, HttpStatusError) and error.status == 200) or self._reads:
            return b""
        decoder = self._make()
        try:
            events = [*decoder.feed(error.body), *decoder.finish()]
        except Exception:  # it is not one
            return b""
        last = events[-1] if events else None
        is_whole = isinstance(last, Status) and last.status is ResponseStatus.COMPLETED
        return error.body if is_whole else b""

    def dispose(self) -> None:
        """Leave; the connection is closed, unless a response in the background has begun that has no name yet.

        It is cancelled when it has one.
        """
        if self in _cancelling:
            return
        background = self._background
        # A run knows whether another process continues the response.
        if not (background is None or self._over or getattr(self._pressure, "is_left", False)):
            is_named = background.cancel() or self._progress
            if not is_named and self._is_on_its_way:
                self._wait_for_name(background)
                return
        if not self._over or self._timer is not None:
            self._stop()

    def _wait_for_name(self, background: Background) -> None:
        """Read on, without an observer, until the response can be cancelled."""

        def feed(data: bytes) -> Sequence[Part]:
            self._decoder.feed(data)
            if background.cancel():
                self._stop()
            return ()

        def ignore(*_: object) -> None:
            pass

        def stop(*_: object) -> None:
            self._stop()

        self._observer = Sink(ignore, ignore, ignore)
        self._push_many, self._feed = ignore, feed
        clock, self._clock = self._clock, None  # it is not sent again
        if clock is not None:
            self._timer = clock.schedule_relative(NAME_SECONDS, stop)
        _cancelling[self] = asyncio.get_running_loop().create_future()

    def _set_on_its_way(self) -> None:
        self._is_on_its_way = self._upstream is not None

    def _stop(self) -> None:
        self._over = True
        self._is_on_its_way = False
        if _cancelling:
            _settle(self)
        if self._ticker is not None:
            self._ticker.leave(self.tick)
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.dispose()
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.dispose()

    def _fail(self, error: Exception) -> None:
        if self._background is not None and not self._over:
            self._background.cancel()
        super()._fail(error)

    def _goes_on(self, error: Exception | None) -> bool:
        """Take up a response in the background where its connection was cut, unless that has failed too often."""
        if self._background is None or self._clock is None:
            return False
        if isinstance(error, ProviderError) and error.status in (404, 410):
            self._background = None  # the service has no such response: nothing to cancel
            error.retryable = self._has_emitted  # by a new request; one for a cursor would only meet it again
            return False
        source = self._background.resume()
        if self._background.has_progressed:
            self._failures = 0
        cause = error or TransportError("the connection was cut", retryable=True)
        delay = self._retry.delay(cause, self._failures + 1)
        if delay is None or source is None:
            self._background.cancel()  # its result has no consumer any more
            return False
        self._failures += 1
        self._upstream, self._source = None, source
        if self._ticker is not None:
            self._ticker.leave(self.tick)
        self._timer = self._clock.schedule_relative(delay, self._go_on)
        return True

    def _go_on(self, _clock: abc.SchedulerBase, _state: object = None) -> None:
        self._timer = None
        self.send()

    def tick(self) -> None:
        """Count the looks without progress, and those without a byte, since the last one that was held."""
        is_held = self._pressure is not None and self._pressure.is_full
        self._waited = 0 if is_held or self._moved != self._progress else self._waited + 1
        self._quiet = 0 if is_held or self._seen != self._reads else self._quiet + 1
        self._seen, self._moved = self._reads, self._progress
        times, step = self._timeouts, self._step or 0.0
        quiet, waited = self._quiet * step, self._waited * step
        if self._reads and times.idle is not None and (over := times.overrun(times.idle, quiet, waited)):
            self._context.run(self._break_off, f"nothing came for {over}")
        elif not self._has_emitted and times.first is not None and (over := times.overrun(times.first, quiet, waited)):
            self._context.run(self._fail, _overdue(f"nothing came within {over}"))

    def _break_off(self, message: str) -> None:
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.dispose()
        self.on_error(_overdue(message))


@lru_cache(maxsize=16)  # used for each response, and always the same
def _step(times: Timeouts) -> float | None:
    """Seconds from one look at a response to the next; ``None`` where none is needed."""
    limits = [limit for limit in (times.first, times.idle) if limit is not None]
    return max(min(limits) / LOOKS, SHORTEST_STEP) if limits else None


def _overdue(message: str) -> TransportTimeoutError:
    return TransportTimeoutError(message, retryable=True)


# Requests that end a response have no observer, so they are kept here until they are done, each with a future for that
# if an event loop runs.
_cancelling: dict[abc.DisposableBase, asyncio.Future[None] | None] = {}


async def settle_cancellations(seconds: float) -> None:
    """Wait for the requests of this event loop that end responses at the service.

    A loop that closes would cut them off.

    Args:
        seconds: How long at most.
    """
    loop = asyncio.get_running_loop()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            # A response that gets its name is cancelled then.
            while waiting := [each for each in _cancelling.values() if each and each.get_loop() is loop]:
                await asyncio.wait(waiting)


def _settle(cancelled: abc.DisposableBase) -> None:
    done = _cancelling.pop(cancelled, None)
    if done is not None and not done.done():
        done.set_result(None)


class Background:
    """One response that goes on without its connection.

    Args:
        send: Sends a request.
        sent: The request that began the response.
        decoder: Its decoder, a `ResumableDecoder`.

    Attributes:
        has_progressed: Whether an event has come between the last two resumptions.
    """

    def __init__(
        self, send: Callable[[HttpRequest], Observable[bytes]], sent: HttpRequest, decoder: ResponseDecoder
    ) -> None:
        self._decoder = resumable(decoder)
        self.has_progressed = False
        self._resumed = ""  # the last address
        self._send = send
        self._sent = sent

    def resume(self) -> Observable[bytes] | None:
        """The bytes of the rest of the response; ``None`` if the response has ended or has not begun."""
        request = self._decoder.resume(self._sent)
        if request is None:
            return None
        # The address names the last event.
        self.has_progressed, self._resumed = request.url != self._resumed, request.url
        return self._send(request)

    def cancel(self) -> bool:
        """Request the end of the response from the service, without waiting for its answer.

        Gives whether there was one to end.
        """
        request = self._decoder.cancel(self._sent)
        if request is None:
            return False
        subscription: abc.DisposableBase | None = None
        is_done = False
        loop = running_loop()
        done = None if loop is None else loop.create_future()

        def end(error: Exception | None = None) -> None:
            nonlocal is_done
            is_done = True
            if subscription is not None:
                _settle(subscription)
            if error is not None:
                logger.warning("a response in the background could not be cancelled: %s", error)

        # In a context of its own: the run that is left must not hold this request back.
        subscription = Context().run(self._send(request).subscribe, None, end, end)
        if not is_done:
            _cancelling[subscription] = done
        return True
