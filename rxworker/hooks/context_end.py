"""What hooks at the end of a turn, and at the end of a run without a result, are given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from rxworker.hooks.context import HookContext
from rxworker.hooks.points import HookPoint
from rxworker.messages import Message


@dataclass(kw_only=True, repr=False, eq=False)
class TurnEndContext(HookContext):
    """After a response without tool calls. It reads the conversation and may ask for another round.

    Attributes:
        since: How many messages the conversation had when the run began.
        called: The names of the tools that the model has called in this run, also of calls that the conversation does not show any more.
    """

    point: ClassVar[HookPoint | None] = HookPoint.ON_TURN_END

    since: int | None = None
    called: tuple[str, ...] = ()

    @property
    def message(self) -> Message:
        """The model's last message; an empty one where it said nothing."""
        for message in reversed(self.conversation.messages):
            if message.role == "assistant":
                return message
        return Message.assistant()

    @property
    def text(self) -> str:
        """The visible text of the model's last message."""
        return self.message.text

    @property
    def content(self) -> str:
        """The visible text of the model's last message."""
        return self.message.text

    @property
    def concerned(self) -> tuple[str, ...]:
        """The names of the tools called in this run, each once.

        Those in the conversation come first, from its end back to the message of the user's that the run began with; then the others of ``called``.
        """
        messages = self.message_history
        began = len(messages) if self.since is None else self.since
        names: dict[str, None] = {}
        for place in range(len(messages) - 1, -1, -1):
            message = messages[place]
            names.update((call.name, None) for call in message.tool_calls)
            if place < began and message.role == "user" and not message.tool_results:
                break
        names.update(dict.fromkeys(self.called))
        return tuple(names)


@dataclass(kw_only=True, repr=False, eq=False)
class AbortContext(HookContext):
    """When a run ends without a result.

    Attributes:
        cause: ``cancel``, ``error``, ``abort`` or ``limit``.
        reason: For people.
        error: What will be raised to whoever awaits the run.
    """

    point: ClassVar[HookPoint | None] = HookPoint.ON_ABORT

    cause: Literal["cancel", "error", "abort", "limit"]
    reason: str
    error: Exception

    @property
    def content(self) -> str:
        """Why the run ends."""
        return self.reason


__all__ = ["AbortContext", "TurnEndContext"]
