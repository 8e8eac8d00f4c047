"""What a hook is given. It changes things in place, by assigning or by reaching into them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from rxworker.events import HookMessage, MessageAdd
from rxworker.messages import (
    Conversation,
    JsonObject,
    Message,
    ToolCall,
    ToolMeta,
    ToolResult,
)

Emit = Callable[[HookMessage | MessageAdd], None]


class CallableTool(Protocol):
    """A tool, as far as a hook needs to know it: its state is reached through the bound object."""

    @property
    def meta(self) -> ToolMeta:
        """What the model sees of it."""
        ...


@dataclass(kw_only=True, repr=False, eq=False)
class HookContext:
    """What every hook is given.

    Attributes:
        conversation: Everything said so far.
        emit: Writes an event into the records of the run; the methods below do it for you.
        variables: Shared by the hooks of a turn; anything, by name.
        run: The run's id.
        turn: The turn's number.
        hook: The name of the hook that is being asked.
    """

    conversation: Conversation
    emit: Emit
    variables: dict[str, object] = field(default_factory=dict[str, object])
    run: str = ""
    turn: int = 0
    hook: str = ""

    def add_messages(self, messages: Iterable[Message]) -> None:
        """Put messages at the end of the conversation. They stay."""
        added = tuple(messages)
        self.conversation = self.conversation.add(*added)
        self.emit(MessageAdd(added, self.hook))

    def add_message(self, message: Message) -> None:
        """Put a message at the end of the conversation. It stays."""
        self.add_messages((message,))

    def send_message(self, content: str) -> None:
        """Tell the watchers something; the model does not hear it."""
        self.emit(HookMessage(self.hook, "message", content))

    def send_system(self, content: str) -> None:
        """Give the watchers a notice; the model does not hear it."""
        self.emit(HookMessage(self.hook, "system", content))

    def send_debug(self, title: str, data: JsonObject) -> None:
        """Show the watchers data; the model does not hear it."""
        self.emit(HookMessage(self.hook, "debug", title, data))


@dataclass(kw_only=True, repr=False, eq=False)
class MessageSendContext(HookContext):
    """Before a request.

    Attributes:
        messages: What is about to be sent. Changing the list changes this request, and only that; what is put
            into the conversation with ``add_message`` stays, and is sent as well.
        system: The system text of this request.
    """

    messages: list[Message] = field(init=False)
    system: str | None = field(init=False)

    def __post_init__(self) -> None:
        self.messages = list(self.conversation.messages)
        self.system = self.conversation.system

    def add_messages(self, messages: Iterable[Message]) -> None:
        """Put messages at the end of the conversation and of this request."""
        added = tuple(messages)
        super().add_messages(added)
        self.messages.extend(added)


@dataclass(kw_only=True, repr=False, eq=False)
class ToolCallContext(HookContext):
    """Before a tool call.

    Attributes:
        call: The call. Its ``input`` may be changed in place, or the call replaced.
        tool: The tool itself.
    """

    call: ToolCall
    tool: CallableTool

    @property
    def meta(self) -> ToolMeta:
        """What the model sees of the tool; cannot be changed."""
        return self.tool.meta

    @property
    def input(self) -> JsonObject:
        """The arguments, to be changed in place. An empty object where the model's text was no JSON."""
        return self.call.input if isinstance(self.call.input, dict) else {}


@dataclass(kw_only=True, repr=False, eq=False)
class ToolResultContext(HookContext):
    """After a tool call.

    Attributes:
        call: What was called.
        result: What came of it; may be replaced.
        tool: The tool itself.
    """

    call: ToolCall
    result: ToolResult
    tool: CallableTool

    @property
    def meta(self) -> ToolMeta:
        """What the model sees of the tool."""
        return self.tool.meta

    def set_content(self, content: str) -> None:
        """Replace the text of the result; whether it is an error stays as it is."""
        result = self.result
        self.result = ToolResult(result.tool_use_id, content, result.is_error, result.name)


@dataclass(kw_only=True, repr=False, eq=False)
class TurnEndContext(HookContext):
    """After a response without tool calls. It reads the conversation and may ask for another round."""

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


@dataclass(kw_only=True, repr=False, eq=False)
class AbortContext(HookContext):
    """When a run ends without a result.

    Attributes:
        cause: ``cancel``, ``error``, ``abort`` or ``limit``.
        reason: For people.
        error: What will be raised to whoever awaits the run.
    """

    cause: Literal["cancel", "error", "abort", "limit"]
    reason: str
    error: Exception


__all__ = [
    "AbortContext",
    "CallableTool",
    "HookContext",
    "MessageSendContext",
    "ToolCallContext",
    "ToolResultContext",
    "TurnEndContext",
]
