"""One timer for all who look at the clock at the same pace.

Every response has time-outs, and hardly one runs into them: what a timer costs that is set and cancelled again for each is paid for nothing.
"""

from __future__ import annotations

from contextvars import Context
from typing import Protocol

from reactivex import abc


class Ticked(Protocol):
    """Somebody who looks at the clock."""

    def tick(self) -> None:
        """A step of time has passed. It is said in a context of its own, in which nothing is set."""
        ...


class Ticker:
    """Ticks for as long as there is anybody. All hear a tick, also when one of them raises; the first exception goes on to the clock.

    Args:
        clock: Whose time it is.
        step: Seconds from one tick to the next.
    """

    __slots__ = ("_clock", "_is_on", "_members", "_step")

    def __init__(self, clock: abc.SchedulerBase, step: float) -> None:
        self._clock = clock
        self._step = step
        self._members: dict[Ticked, None] = {}  # in the order in which they came
        self._is_on = False

    def join(self, member: Ticked) -> bool:
        """Tick for this one, too. Whether the first tick comes before a whole step has passed."""
        self._members[member] = None
        was_on = self._is_on
        if not was_on:
            self._go_on()
        return was_on

    def leave(self, member: Ticked) -> None:
        """Tick for this one no more. The timer is left to run out: somebody else may come."""
        self._members.pop(member, None)

    def _go_on(self) -> None:
        self._is_on = True
        # A timer keeps the context it is set in, and with it the run of whoever came first: for as long as anybody ticks.
        Context().run(self._clock.schedule_relative, self._step, self._tick)

    def _tick(self, _clock: abc.SchedulerBase, _state: object = None) -> None:
        self._is_on = False
        failure: Exception | None = None
        try:
            for member in tuple(self._members):
                try:
                    if member in self._members:
                        member.tick()
                except Exception as error:
                    failure = failure or error
        finally:
            # Also when one of them was cancelled: that is none of the others' business.
            if self._members and not self._is_on:
                self._go_on()
        if failure is not None:
            raise failure


__all__ = ["Ticked", "Ticker"]
