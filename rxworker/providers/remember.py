"""What the messages of a conversation became, kept for the request that sends them again. Pure.

A tool loop asks with the same messages each time, and a few new ones behind them. An encoder takes messages one after
the other and knows nothing of those to come; so one that has come to the end of a conversation goes on with what was
added to it, and holds what a new one would come to, whatever messages have to do with those before them.

`Remembered` keeps the encoders of the last few conversations. A conversation that begins otherwise, because it was
trimmed or is another fork, is encoded from its beginning. Messages are compared by identity, since equal ones need not
become the same (``1`` equals ``True``): they are values, and what they hold is not changed once they were sent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from operator import is_
from typing import Generic, TypeVar

from rxworker.messages import Document, Image, Message, ToolResult

E = TypeVar("E", bound="MessageEncoder")

MOST = 8
MOST_BYTES = 512 * 1024

MEDIA = (Image, Document)


class MessageEncoder(ABC):
    """Encodes the messages of one conversation, in order.

    Attributes:
        lasting: Whether it may outlive the request: it holds no pictures and no documents.
    """

    __slots__ = ("_fed", "lasting")

    def __init__(self) -> None:
        self.lasting = True
        self._fed = 0

    def feed_new(self, messages: Sequence[Message]) -> None:
        """Take what is new of the messages, which begin with those that it took before."""
        for message in messages[self._fed :]:
            self.feed(message)
            self.lasting = self.lasting and not _has_media(message)
        self._fed = len(messages)

    @abstractmethod
    def feed(self, message: Message) -> None:
        """Take the next message."""


class Remembered(Generic[E]):
    """The encoders of the last few conversations, each with the messages that it took.

    There are at most `MOST`, of requests of at most `MOST_BYTES`. Who takes one has it alone until it is put back, so
    that several threads may ask at once. A copy remembers nothing.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: OrderedDict[int, tuple[tuple[Message, ...], E]] = OrderedDict()

    def __reduce__(self) -> tuple[type[Remembered[E]], tuple[()]]:
        return type(self), ()

    def take(self, messages: tuple[Message, ...]) -> E | None:
        """The encoder that took the beginning of these messages, if it was kept."""
        kept = self._kept.pop(id(messages[0]), None) if messages else None
        if kept is None:
            return None
        taken, encoder = kept
        # What `taken` holds cannot be gone, so that no other message has the same identity.
        same = len(taken) <= len(messages) and all(map(is_, taken, messages))
        return encoder if same else None

    def keep(self, messages: tuple[Message, ...], encoder: E, size: int) -> None:
        """Put an encoder back, or a new one.

        Args:
            messages: What it took.
            encoder: It.
            size: How many bytes the request has.
        """
        if messages and encoder.lasting and size <= MOST_BYTES:
            self._kept[id(messages[0])] = messages, encoder
            if len(self._kept) > MOST:
                self._kept.popitem(last=False)


def _has_media(message: Message) -> bool:
    for block in message.content:
        if isinstance(block, MEDIA):
            return True
        if isinstance(block, ToolResult) and not isinstance(block.content, str):
            return True
    return False


__all__ = ["MOST", "MOST_BYTES", "MessageEncoder", "Remembered"]
