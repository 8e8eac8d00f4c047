"""Who may run now: so many at once, in the order in which they came, and some of them alone.

Theory of operation. Calls wait in a row. The first in the row is let in as soon as there is room: for one that runs
alone there is room when nobody else is in, for any other when nobody is in alone and fewer than the limit are. Nobody
overtakes, so that what stands behind a call that runs alone waits until it has gone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from rxworker.errors import ConfigurationError


class Gate:
    """Lets in so many at once; who comes alone shares with nobody.

    Args:
        limit: How many may be in.

    Raises:
        ConfigurationError: Nobody could ever be let in.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ConfigurationError(f"limit={limit!r}: at least one call must be able to run")
        self._limit = limit
        self._in = 0
        self._alone = False
        self._row: deque[tuple[asyncio.Future[None], bool]] = deque()

    @asynccontextmanager
    async def place(self, *, alone: bool = False) -> AsyncGenerator[None, None]:
        """A place inside, for as long as the block of an ``async with`` runs."""
        if not self.enter_now(alone):
            await self.enter(alone)
        try:
            yield
        finally:
            self.leave()

    def enter_now(self, alone: bool) -> bool:
        """Enter, if nobody waits and there is room; whether there was. Who has entered has to `leave`."""
        if self._row or self._alone or self._in >= (1 if alone else self._limit):
            return False
        self._in, self._alone = self._in + 1, alone
        return True

    async def enter(self, alone: bool) -> None:
        """Wait in the row for a place. Who has entered has to `leave`."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._row.append((turn, alone))
        self._let_in()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()  # it was let in, and told that it is not wanted, in the same moment
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
                if not self._has_room(alone):
                    return
                self._in, self._alone = self._in + 1, alone
                turn.set_result(None)
            self._row.popleft()

    def _has_room(self, alone: bool) -> bool:
        return not self._alone and self._in < (1 if alone else self._limit)


__all__ = ["Gate"]
