"""Work that is done by the task which would wait for it.

A request over HTTP is a coroutine, and a subscription to it begins a task. Whoever subscribes from a coroutine, only to wait for the end
of the stream, can do the work itself: that is a task and two turns of the event loop less for each request. It puts an `Inline` here
while it subscribes, and awaits what has been left in it. It travels in a context variable, since there may be any stages between.

Only stages that `connect` can leave work there. Whoever subscribes from outside, and each operator of another make, stands behind a `Guard`,
which hides it: such a one may share what it hears with others, leave it in another thread, or ask for something by the way that nobody waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import TypeAlias

Work: TypeAlias = Callable[[], Coroutine[object, object, None]]


class Inline:
    """Takes the first work that is offered while a subscription is made.

    Attributes:
        work: What was taken.

    >>> async def work() -> None: ...
    >>> inline = Inline()
    >>> inline.take(work), inline.take(work)
    (True, False)
    """

    __slots__ = ("_is_open", "work")

    def __init__(self) -> None:
        self.work: Work | None = None
        self._is_open = True

    def take(self, work: Work) -> bool:
        """Whether this work will be done; what is offered later needs a task."""
        if not self._is_open:
            return False
        self._is_open, self.work = False, work
        return True

    def close(self) -> None:
        """Nothing is taken any more: the subscription is made."""
        self._is_open = False


INLINE: ContextVar[Inline | None] = ContextVar("rxworker_inline", default=None)
"""Who does the work of what is subscribed to here."""


__all__ = ["INLINE", "Inline"]
