"""Names what holds an event loop: the function of the program that does not return for longer than a limit.

Theory of operation. An event loop runs one function at a time, so that a tool, hook, watcher, panel, callback or
handler which blocks holds all runs of the process. Where the library calls a function of the program, it reads the
clock before and after. A coroutine is measured by its steps: what it awaits does not count. A function may call others
that are measured: what was reported of these is taken off, so that each second is reported once, of the innermost. No
thread watches and nothing waits; what never returns is not reported.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from time import perf_counter
from types import coroutine
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from rxworker.messages.settings import awaited

A = TypeVar("A")

logger = logging.getLogger("rxworker.hub")

MAX = 1000
"""The maximum number of names that are counted."""


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs in this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class Watchdog:
    """Measures the functions that the library calls on an event loop.

    Attributes:
        limit: Seconds for which a function may hold the event loop; more is reported.
        clock: Returns the time in seconds.
        reported: The seconds that were reported, of all functions.
        held: For the kind and the name of each function that was reported: how often it was, and for how many seconds
            together.
    """

    def __init__(self) -> None:
        self.limit = 0.2
        self.clock: Callable[[], float] = perf_counter
        self.held: dict[tuple[str, str], tuple[int, float]] = {}
        self.reported = 0.0
        self._known: WeakKeyDictionary[asyncio.AbstractEventLoop, set[tuple[str, str]]] = WeakKeyDictionary()

    def begin(self) -> float:
        """A mark, for `end`: the time now, less what was reported before."""
        return self.clock() - self.reported

    def end(self, begun: float, kind: str, name: str) -> float | None:
        """Report a function that has returned, if it took too long: each on a loop once at WARNING.

        The seconds, if they are to be an event too.
        """
        seconds = self.clock() - self.reported - begun
        if seconds <= self.limit:
            return None
        if (loop := running_loop()) is None:  # it held none
            return None
        self.reported += seconds
        key = kind, name
        count, total = self.held.get(key, (0, 0.0))
        if count or len(self.held) < MAX:
            self.held[key] = count + 1, total + seconds
        known = self._known.setdefault(loop, set())
        if key in known or len(known) >= MAX:
            return None
        known.add(key)
        logger.warning(
            "%s %s held the event loop for %.2f s, and all runs with it: await what waits, or call it with "
            "asyncio.to_thread(...)",
            kind,
            name,
            seconds,
            extra={"kind": kind, "holder": name, "seconds": seconds},
        )
        return seconds


watchdog = Watchdog()
"""The watchdog of the process."""


async def call_watched(name: str, function: Callable[..., A | Awaitable[A]], *given: Any) -> A:
    """Call a plain or a coroutine function of the program, which is measured as a callback of this name."""

    async def work() -> A:
        return await awaited(function(*given))

    return await watched(work(), "callback", name)


@coroutine
def watched(
    work: Awaitable[A], kind: str, name: str, held: Callable[[float], object] | None = None
) -> Generator[Any, Any, A]:
    """Await a coroutine, or another awaitable, whose steps are measured.

    Args:
        work: What is awaited.
        kind: ``tool``, ``hook`` or ``callback``.
        name: Its name.
        held: Called with the seconds of the first step that takes too long.
    """
    steps: Any = work if hasattr(work, "send") else work.__await__()
    step: Callable[[Any], Any] = steps.send
    given: Any = None
    clock, dog = watchdog.clock, watchdog
    while True:
        waits_for: Any = None
        begun = clock() - dog.reported
        try:
            waits_for = step(given)
        except StopIteration as stop:
            return stop.value
        finally:
            given = None  # an error would keep itself, by its traceback and this frame
            if clock() - dog.reported - begun > dog.limit:
                seconds = dog.end(begun, kind, name)
                if seconds is not None and held is not None:
                    held(seconds)
        try:
            step, given = steps.send, (yield waits_for)
        except GeneratorExit:
            steps.close()
            raise
        except BaseException as error:
            step, given = steps.throw, error
