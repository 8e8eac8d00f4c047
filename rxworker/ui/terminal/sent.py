"""What a person says while a run is on, until the conversation has it."""

from __future__ import annotations

import asyncio
from typing import Any

from rxworker.errors import LocalProtocolError
from rxworker.worker import Run


class Sent:
    """Follows messages from the person to the conversation, or back.

    Attributes:
        queued: Those that are not in the conversation yet.
    """

    def __init__(self) -> None:
        self.queued: dict[asyncio.Future[None], str] = {}
        self._returned: list[str] = []

    def send(self, run: Run[Any], text: str, *, is_ending: bool) -> None:
        """Say something to a run.

        Args:
            run: The run.
            text: What is said.
            is_ending: Whether it was cancelled.

        Raises:
            RxWorkerError: It cannot be said.
        """
        try:
            future = run.send(text)
        except LocalProtocolError:
            # It has just ended, and its last records are on their way to the screen.
            if not run.done() and not is_ending:
                raise
            self._returned.append(text)
            return
        self.queued[future] = text
        future.add_done_callback(self._delivered)

    def take_back(self) -> str:
        """What was said to a run that ended before it could take it."""
        returned, self._returned = self._returned, []
        return "\n".join(returned)

    def _delivered(self, future: asyncio.Future[None]) -> None:
        text = self.queued.pop(future, "")
        if future.cancelled() or future.exception() is not None:
            self._returned.append(text)


__all__ = ["Sent"]
