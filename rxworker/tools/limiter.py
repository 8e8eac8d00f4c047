"""A FIFO concurrency limiter for calls, of which some run alone.

Calls wait in a queue. The first one enters as soon as there is room: a call that runs alone, when no other call is
inside; any other call, when no call inside runs alone and fewer than the limit are inside. No call overtakes another,
so that the calls after one that runs alone wait until it has left.
"""

from __future__ import annotations

import asyncio
from collections import deque

from rxworker.errors import ConfigurationError


class Limiter:
    """A FIFO concurrency limiter; an exclusive holder runs alone.

    Args:
        limit: How many may be in.

    Raises:
        ConfigurationError: The limit is below 1.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ConfigurationError(f"limit={limit!r}: at least one call must be able to run")
        self._limit = limit
        self._in = 0
        self._alone = False
        self._row: deque[tuple[asyncio.Future[None], bool]] = deque()

    def enter_now(self, alone: bool) -> bool:
        """Enter, if no task waits and there is room; return whether there was.

        A task that has entered must call `leave`.
        """
        return not self._row and self._admit(alone)

    async def enter(self, alone: bool) -> None:
        """Wait in the queue for a place. The caller must `leave` afterwards."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._row.append((turn, alone))
        self._let_in()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()  # it was admitted and cancelled in the same moment
            turn.cancel()
            self._let_in()
            raise

    def leave(self) -> None:
        """Give the place back."""
        self._in -= 1
        self._alone = False
        if self._row:
            self._let_in()

    def _let_in(self) -> None:
        while self._row:
            turn, alone = self._row[0]
            if not turn.done():
                if not self._admit(alone):
                    return
                turn.set_result(None)
            self._row.popleft()

    def _admit(self, alone: bool) -> bool:
        """Count one more inside, if there is room; return whether there was."""
        if self._alone or self._in >= (1 if alone else self._limit):
            return False
        self._in, self._alone = self._in + 1, alone
        return True
