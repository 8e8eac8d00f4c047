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


class RefCounted(SerialDisposable):
    """Holds one subscription until it is disposed and its last user has left, as a ``RefCountDisposable``.

    Attributes:
        users: How many users there are. Each adds itself.

    >>> shared = RefCounted()
    >>> shared.put(Call(lambda: print("gone")))
    >>> shared.users += 1; shared.dispose(); shared.release()
    gone
    """

    __slots__ = ("_is_left", "users")

    def __init__(self) -> None:
        super().__init__()
        self.users = 0
        self._is_left = False

    def release(self) -> None:
        """Count one user less."""
        self.users -= 1
        if self._is_left and not self.users:
            super().dispose()

    def dispose(self) -> None:
        """Dispose the held disposable, or let the last user do it."""
        self._is_left = True
        if not self.users:
            super().dispose()


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
