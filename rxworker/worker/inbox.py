"""Messages for a run that is on, until the next moment at which they can be put into its conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from rxworker.errors import LocalProtocolError
from rxworker.events import Event, MessageAdd
from rxworker.messages import Message

SOURCE = "send"
TOO_LATE = "the run ended before the message could be put into its conversation"

Waiting: TypeAlias = list[tuple[tuple[Message, ...], asyncio.Future[None]]]


class Inbox(Struct, eq=False):
    """What was sent to a run and is not delivered yet.

    Attributes:
        waiting: In order, each with the future that is done when it is delivered.
    """

    waiting: Waiting = []

    def put(self, messages: tuple[Message, ...]) -> asyncio.Future[None]:
        """Take messages; done when they are in the conversation."""
        delivered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((messages, delivered))
        return delivered

    def deliver(self, emit: Callable[[Event], None]) -> None:
        """Put what waits into the conversation, in order."""
        waiting, self.waiting = self.waiting, []
        for messages, delivered in waiting:
            emit(MessageAdd(messages, SOURCE))
            if not delivered.done():
                delivered.set_result(None)

    def close(self) -> None:
        """The run has ended: what still waits will not be delivered."""
        waiting, self.waiting = self.waiting, []
        for _, delivered in waiting:
            if not delivered.done():
                delivered.set_exception(LocalProtocolError(TOO_LATE))
                delivered.exception()  # whoever sent it need not have waited


__all__ = ["SOURCE", "Inbox"]
