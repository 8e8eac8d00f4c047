"""Disposables like those of reactivex, without locks: for stages, which belong to one thread at a time."""

from __future__ import annotations

from collections.abc import Callable

from reactivex import abc
from reactivex.disposable import Disposable


class SerialDisposable(abc.DisposableBase):
    """Holds one subscription at a time.

    What goes in disposes of what was there, and once disposed, it disposes of what goes in.

    It does what that of reactivex does, without a lock, and serves in place of a ``SingleAssignmentDisposable``.

    >>> current = SerialDisposable()
    >>> current.put(Call(lambda: print("first")))
    >>> current.put(Call(lambda: print("second")))
    first
    >>> current.dispose()
    second
    """

    __slots__ = ("_held", "_is_over")

    def __init__(self) -> None:
        self._held: abc.DisposableBase | None = None
        self._is_over = False

    def put(self, subscription: abc.DisposableBase | None) -> None:
        """Hold this from now on."""
        if self._is_over:
            gone = subscription
        else:
            gone, self._held = self._held, subscription
        if gone is not None:
            gone.dispose()

    def dispose(self) -> None:
        """Dispose the held disposable, and each one that is put in later."""
        self._is_over = True
        gone, self._held = self._held, None
        if gone is not None:
            gone.dispose()


class Call(abc.DisposableBase):
    """Calls a function when it is disposed for the first time."""

    __slots__ = ("_action",)

    def __init__(self, action: Callable[[], object]) -> None:
        self._action: Callable[[], object] | None = action

    def dispose(self) -> None:
        """Call it, unless that has been done."""
        action, self._action = self._action, None
        if action is not None:
            action()


class Both(abc.DisposableBase):
    """Two as one, disposed in this order."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: abc.DisposableBase, second: abc.DisposableBase) -> None:
        self._first = first
        self._second = second

    def dispose(self) -> None:
        """Dispose of both."""
        self._first.dispose()
        self._second.dispose()


NOTHING = Disposable()
"""There is nothing to dispose."""
