"""Messages for a run that is on, until the next moment at which they can be put into its conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rxworker.errors import LocalProtocolError
from rxworker.events import Event, MessageAdd
from rxworker.messages import Message

SOURCE = "send"
TOO_LATE = "the run ended before the message could be put into its conversation"


class Inbox:
    """What was sent to a run and is not delivered yet."""

    def __init__(self) -> None:
        self._waiting: list[tuple[tuple[Message, ...], asyncio.Future[None]]] = []

    def put(self, messages: tuple[Message, ...]) -> asyncio.Future[None]:
        """Take messages; done when they are in the conversation."""
        delivered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((messages, delivered))
        return delivered

    def deliver(self, emit: Callable[[Event], None]) -> bool:
        """Put what waits into the conversation, in order; whether there was anything."""
        if not self._waiting:
            return False
        waiting, self._waiting = self._waiting, []
        for messages, delivered in waiting:
            emit(MessageAdd(messages, SOURCE))
            if not delivered.done():
                delivered.set_result(None)
        return True

    def close(self) -> None:
        """The run has ended: what still waits will not be delivered."""
        waiting, self._waiting = self._waiting, []
        for _, delivered in waiting:
            if not delivered.done():
                delivered.set_exception(LocalProtocolError(TOO_LATE))
                delivered.exception()  # whoever sent it need not have waited


__all__ = ["SOURCE", "Inbox"]
