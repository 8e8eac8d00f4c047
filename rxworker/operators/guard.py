"""The end of a pipeline: what stands between a stage and whoever subscribes to it from outside.

Theory of operation. It is what reactivex's ``AutoDetachObserver`` is, without its locks, and promises the same:

* nothing comes after a terminal event, nor after disposing, not even the rest of what has come together;
* with a terminal event the source is let go of, also when the observer raises at it; and if it comes while the source is still being
  subscribed to, then as soon as it has been;
* what an observer raises goes on to whoever pushed, and ends nothing;
* what is raised while subscribing goes to ``on_error``; after a terminal event, to whoever subscribes;
* an observer without ``on_error`` has the error raised.

Disposing may come from another thread: the subscription is kept first, and then it is asked whether it was too late for that, so that
one of the two lets go of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from reactivex import abc
from reactivex.disposable import Disposable
from reactivex.internal import default_error, noop

from rxworker.events.deltas import Parts, flatten

A = TypeVar("A")


class Guard(abc.ObserverBase[A]):
    """Passes on what a stage says for as long as it may.

    Args:
        on_next: Takes an item.
        on_error: Takes the error that ends the stream.
        on_completed: Is told that the stream is complete.
    """

    __slots__ = ("_held", "_is_disposed", "_is_stopped", "_on_completed", "_on_error", "_on_next")

    def __init__(
        self,
        on_next: Callable[[A], None] | None,
        on_error: Callable[[Exception], None] | None,
        on_completed: Callable[[], None] | None,
    ) -> None:
        self._on_next = on_next or noop
        self._on_error = on_error or default_error
        self._on_completed = on_completed or noop
        self._held: abc.DisposableBase | None = None
        self._is_stopped = self._is_disposed = False

    def begin(
        self, subscribe: abc.Subscription[A], scheduler: abc.SchedulerBase | None, *_: object
    ) -> None:
        """Subscribe to the source; what a trampoline says of itself is not needed.

        Raises:
            Exception: What subscribing raised, where it is too late to say so to the observer.
        """
        try:
            # As any function that an observable is made of: it may give a function to call, or nothing.
            subscription: Any = subscribe(self, scheduler)
        except Exception as error:
            if self._is_stopped:
                raise
            self._is_stopped = True
            self._on_error(error)
            return
        self._held = subscription if hasattr(subscription, "dispose") else Disposable(subscription)
        if self._is_disposed:
            self.dispose()

    def on_next(self, value: A) -> None:
        """Pass on an item."""
        if not self._is_stopped:
            self._on_next(value)

    def on_many(self, parts: Parts[A]) -> None:
        """Pass on several that arrived together, one by one."""
        push = self._on_next
        for value in flatten(parts):
            if self._is_stopped:
                return
            push(value)

    def on_error(self, error: Exception) -> None:
        """Pass on the error, and let go."""
        if not self._is_stopped:
            self._is_stopped = True
            try:
                self._on_error(error)
            finally:
                self.dispose()

    def on_completed(self) -> None:
        """Pass on that the stream is complete, and let go."""
        if not self._is_stopped:
            self._is_stopped = True
            try:
                self._on_completed()
            finally:
                self.dispose()

    def dispose(self) -> None:
        """Pass nothing on any more, and let go of the source."""
        self._is_stopped = self._is_disposed = True
        held, self._held = self._held, None
        if held is not None:
            held.dispose()


__all__ = ["Guard"]
