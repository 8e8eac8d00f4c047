"""What a hook before a request is given."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from msgspec.structs import replace

from rxworker.hooks.context import HookContext
from rxworker.hooks.points import HookPoint
from rxworker.hooks.rewrite import Change, changed
from rxworker.messages import Content, Message, Text, ToolCall


@dataclass(kw_only=True, repr=False, eq=False)
class MessageSendContext(HookContext):
    """Before a request.

    Attributes:
        messages: What is about to be sent. Changing the list, or arguments of calls in it, changes this request, and only that; what is put
            into the conversation with ``add_message`` stays, and is sent as well.
        system: The system text of this request.
    """

    point: ClassVar[HookPoint | None] = HookPoint.ON_MESSAGE_SEND

    messages: list[Message] = field(init=False)
    system: str | None = field(init=False)

    def __post_init__(self) -> None:
        # What hooks did to the conversation, to be done again to a request that is brought back.
        self._for_good: list[Callable[[list[Message]], list[Message]]] = []
        self.messages = [_of_its_own(message) for message in self.conversation.messages]
        self.system = self.conversation.system

    def add_messages(self, messages: Iterable[Message]) -> None:
        """Put messages at the end of the conversation and of this request."""
        added = tuple(messages)
        super().add_messages(added)
        self.messages.extend(added)
        self._for_good.append(lambda before: [*before, *added])

    def rewrite_conversation(self, change: Change) -> None:
        """Change messages that the conversation keeps, for good, and those of this request; see `HookContext.rewrite_conversation`."""
        messages = changed(self.messages, change)
        super().rewrite_conversation(change)
        self.messages[:] = messages
        self._for_good.append(lambda before: changed(before, change))

    @property
    def content(self) -> str:
        """The text of the user's last message."""
        place = self._spoken()
        return "" if place is None else self.messages[place].text

    def set_content(self, content: str) -> None:
        """Replace the text of the user's last message in this request; pictures and the like stay where they are."""
        place = self._spoken()
        if place is None:
            self.messages.append(Message.user(content))
            return
        said = self.messages[place]
        self.messages[place] = replace(said, content=_with_text(said.content, content))

    def _spoken(self) -> int | None:
        """Where the user spoke last. Tool results are said by nobody."""
        for place in range(len(self.messages) - 1, -1, -1):
            message = self.messages[place]
            if message.role == "user" and not message.tool_results:
                return place
        return None

    def checkpoint(self) -> Callable[[], None]:
        """Remember the request. What was done to the conversation since is done to it nevertheless."""
        messages, system, before = copy.copy(self.messages), self.system, len(self._for_good)

        def restore() -> None:
            self.messages, self.system = messages, system
            for again in self._for_good[before:]:
                self.messages = again(self.messages)

        return restore


def _of_its_own(message: Message) -> Message:
    """The message, with a copy of what can be changed in place: the arguments of calls."""
    if not message.tool_calls:
        return message
    return replace(message, content=tuple(map(_copied, message.content)))


def _copied(block: Content) -> Content:
    if not isinstance(block, ToolCall) or isinstance(block.input, str):
        return block
    return replace(block, input=copy.deepcopy(block.input))


def _with_text(blocks: tuple[Content, ...], text: str) -> tuple[Content, ...]:
    first = next((n for n, block in enumerate(blocks) if isinstance(block, Text)), len(blocks))
    kept = [block for block in blocks[first:] if not isinstance(block, Text)]
    return (*blocks[:first], Text(text), *kept)


__all__ = ["MessageSendContext"]
