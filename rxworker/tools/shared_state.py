"""The shared state of a running run, for its tools and hooks.

A tool may run in a thread. So the value is changed under a lock, and the changes wait in a queue, in that order, until
the thread of the run takes them: the fold of the records is the state that the tools have seen.
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Callable

from rxworker.events import SharedStateChange
from rxworker.messages import Json
from rxworker.state.shared_state import change_to, checked_json


class SharedState:
    """The shared state of a running run. Made by the run.

    Args:
        value: The state at the beginning.
        emit: Receives each change.
        call_soon: Calls a function in the thread that this was made in; called from other threads.

    Example:
        >>> changes: list[SharedStateChange] = []
        >>> shared = SharedState({"steps": []}, changes.append)
        >>> shared.set("plan", "/steps/-")
        >>> shared.value, changes[0].op
        ({'steps': ['plan']}, 'add')
    """

    def __init__(
        self,
        value: Json = None,
        emit: Callable[[SharedStateChange], None] | None = None,
        call_soon: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        self._value = value
        self._emit = emit
        self._call_soon = call_soon
        self._home = threading.get_ident()
        self._lock = threading.Lock()
        self._changes: deque[SharedStateChange] = deque()

    @property
    def value(self) -> Json:
        """A copy of the state; ``None`` if there is none yet."""
        return copy.deepcopy(self._value)

    def set(self, value: object, path: str = "") -> None:
        """Set the state, or a place in it.

        Raises:
            LocalProtocolError: The value has no JSON form or is too long, or there is no such place.
        """
        self._change(path, checked_json(value))

    def remove(self, path: str) -> None:
        """Remove a member of an object, or an item of an array.

        Raises:
            LocalProtocolError: There is no such place.
        """
        self._change(path, None, removes=True)

    def _change(self, path: str, value: Json, *, removes: bool = False) -> None:
        with self._lock:
            self._value, change = change_to(self._value, path, value, removes=removes)
            self._changes.append(change)
        if threading.get_ident() == self._home or self._call_soon is None:
            self._flush()
        else:
            self._call_soon(self._flush)

    def _flush(self) -> None:
        while self._changes:
            change = self._changes.popleft()
            if self._emit is not None:
                self._emit(change)
