"""One source, many watchers, none of which can hurt another or the source.

What was pushed is kept, in order. Each watcher is a place in that row: it sees everything from the start, however late
it comes. An observer is pushed to as things come; an asynchronous iterator walks at its own pace and needs no buffer,
since the row is there.

A watcher that pushes something itself while it is being told does not break the order: what it pushes goes to the
end of the row, and everybody reaches it in turn. A watcher that raises is detached, and ``on_detach`` hears of it.

The hub belongs to one thread, its event loop's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Generic, TypeVar

from reactivex import Observable, abc
from reactivex.disposable import Disposable

A = TypeVar("A")

OnDetach = Callable[[str, BaseException], None]

# A watcher may raise the latter by asking a cancelled future for its result. Whoever pushes must not take it for its own.
_RAISED = (Exception, asyncio.CancelledError)


class _Watcher(Generic[A]):
    """An observer, and how far it has seen. Compared by identity."""

    __slots__ = ("name", "observer", "seen")

    def __init__(self, observer: abc.ObserverBase[A], name: str) -> None:
        self.observer = observer
        self.name = name
        self.seen = 0


class Hub(Observable[A]):
    """A hot observable with memory that keeps its watchers apart.

    Args:
        on_detach: Hears the name of a watcher that raised, and what it raised.

    Example:
        >>> hub = Hub[int]()
        >>> hub.push(1)
        >>> _ = hub.subscribe(print)
        1
        >>> hub.push(2)
        2
    """

    def __init__(self, on_detach: OnDetach | None = None) -> None:
        super().__init__()
        self._row: list[A] = []
        self._shown = 0
        self._watchers: tuple[_Watcher[A], ...] = ()
        self._waiting: list[asyncio.Future[None]] = []
        self._telling = False
        self._ended = False
        self._error: Exception | None = None
        self._on_detach = on_detach
        self._count = 0

    @property
    def row(self) -> list[A]:
        """Everything pushed so far; not to be changed."""
        return self._row

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._ended

    @property
    def watched(self) -> bool:
        """Whether anybody has watched it at any time."""
        return self._count > 0

    def push(self, item: A) -> None:
        """Show the item to every watcher. After the end it does nothing."""
        if self._ended:
            return
        self._row.append(item)
        if not self._telling:
            self._tell()

    def end(self, error: Exception | None = None) -> None:
        """Nothing more comes: watchers complete, or get the error."""
        if self._ended:
            return
        self._ended, self._error = True, error
        if not self._telling:
            self._close()

    def _tell(self) -> None:
        self._telling = True
        try:
            while self._shown < len(self._row):
                item = self._row[self._shown]
                self._shown += 1
                for watcher in self._watchers:
                    try:
                        watcher.observer.on_next(item)
                    except _RAISED as error:
                        self._detach(watcher, error)
        finally:
            self._telling = False
        if self._waiting:
            self._wake()
        if self._ended:
            self._close()

    def _close(self) -> None:
        watchers, self._watchers = self._watchers, ()
        for watcher in watchers:
            self._tell_end(watcher.observer)
        self._wake()

    def _tell_end(self, observer: abc.ObserverBase[A]) -> None:
        try:
            if self._error is None:
                observer.on_completed()
            else:
                observer.on_error(self._error)
        except _RAISED:
            # reactivex raises the error itself for an observer without on_error. Whoever awaits the run gets it.
            return

    def _detach(self, watcher: _Watcher[A], error: BaseException) -> None:
        self._remove(watcher)
        if self._on_detach is not None:
            self._on_detach(watcher.name, error)

    def _remove(self, watcher: _Watcher[A]) -> None:
        self._watchers = tuple(w for w in self._watchers if w is not watcher)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def _subscribe_core(
        self,
        observer: abc.ObserverBase[A],
        scheduler: abc.SchedulerBase | None = None,  # noqa: ARG002 - part of the signature
    ) -> abc.DisposableBase:
        self._count += 1
        watcher = _Watcher(observer, f"watcher-{self._count}")
        try:
            while watcher.seen < self._shown:
                watcher.seen += 1
                observer.on_next(self._row[watcher.seen - 1])
        except _RAISED as error:
            self._detach(watcher, error)
            return Disposable()
        if self._ended and not self._telling:
            self._tell_end(observer)
            return Disposable()
        self._watchers += (watcher,)

        def detach() -> None:
            self._remove(watcher)

        return Disposable(detach)

    def __aiter__(self) -> AsyncIterator[A]:
        """Everything from the start, at the reader's own pace."""
        self._count += 1
        return _Cursor(self)

    async def _more(self, place: int) -> bool:
        """Whether there is an item at this place; waits until that is known."""
        while place >= len(self._row):
            if self._ended:
                if self._error is not None:
                    raise self._error
                return False
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future
        return True


class _Cursor(AsyncIterator[A]):
    __slots__ = ("_hub", "_place", "_row")

    def __init__(self, hub: Hub[A]) -> None:
        self._hub = hub
        self._row = hub.row
        self._place = 0

    async def __anext__(self) -> A:
        if self._place >= len(self._row) and not await self._hub._more(self._place):
            raise StopAsyncIteration
        self._place += 1
        return self._row[self._place - 1]


__all__ = ["Hub"]
