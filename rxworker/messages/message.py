"""Messages, the conversation they make, and its JSON, whose version lets a later rxworker read or refuse it.

`read_input` reads the input of a run, and `to_messages` what is sent to it: texts, messages and content.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rxworker.errors import ConfigurationError, LocalProtocolError
from rxworker.messages.content import Content, Text, ToolCall, ToolResult
from rxworker.messages.json import JsonObject

Role: TypeAlias = Literal["system", "user", "assistant"]
"""The role of a message."""


class Message(Struct, frozen=True, omit_defaults=True, gc=False):
    """One message.

    Attributes:
        role: The author of the message. Tool results are content of a ``user`` message.
        content: The content blocks.
        provider: The provider of an assistant's message: the ``echo`` of its blocks is for that provider alone.
        model: The model that spoke.
        echo: What that provider needs back with the next request, for the message as a whole, such as the container in
            which its code ran.
        service: The host that answered. What it has sealed, such as signatures and encrypted reasoning, is sent back
            to that service alone, and to models of the same maker. ``None``: not known.
    """

    role: Role
    content: tuple[Content, ...]
    provider: str | None = None
    model: str | None = None
    echo: JsonObject | None = None
    service: str | None = None

    @classmethod
    def system(cls, text: str) -> Message:
        """A message of the application's."""
        return cls("system", (Text(text),))

    @classmethod
    def user(cls, *content: Content | str) -> Message:
        """A message of the user's, from text or blocks.

        >>> Message.user("hello").text
        'hello'
        """
        return cls("user", tuple([Text(c) if isinstance(c, str) else c for c in content]))

    @classmethod
    def assistant(cls, *content: Content | str) -> Message:
        """A message of the model's, from text or blocks."""
        return cls("assistant", tuple([Text(c) if isinstance(c, str) else c for c in content]))

    @property
    def text(self) -> str:
        """Its visible text."""
        return "".join([block.text for block in self.content if isinstance(block, Text)])

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls in it, in order."""
        return tuple([block for block in self.content if isinstance(block, ToolCall)])

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The tool results in it, in order."""
        return tuple([block for block in self.content if isinstance(block, ToolResult)])


class Conversation(Struct, frozen=True, omit_defaults=True, weakref=True):
    """All messages so far. A value: adding to one returns a new one.

    Attributes:
        messages: In order.
        system: The application's instructions to the model.
        replaced: How many of the first messages a worker's requests carry in a shorter form; see
            `rxworker.worker.Compact`.
        instead: That shorter form.
    """

    messages: tuple[Message, ...] = ()
    system: str | None = None
    replaced: int = 0
    instead: tuple[Message, ...] = ()

    def add(self, *messages: Message) -> Conversation:
        """The conversation with these messages at its end.

        >>> len(Conversation().add(Message.user("hello")).messages)
        1
        """
        return replace(self, messages=self.messages + messages)

    def with_messages(self, messages: Iterable[Message]) -> Conversation:
        """The conversation with these messages instead of its own.

        Its shorter form stays as long as the messages that it stands for do.
        """
        made = tuple(messages)
        if made[: self.replaced] != self.messages[: self.replaced]:
            return Conversation(made, self.system)
        return replace(self, messages=made)

    @property
    def sent(self) -> Conversation:
        """The conversation as a request carries it.

        >>> messages, short = (Message.user("long"), Message.user("now")), (Message.user("short"),)
        >>> [m.text for m in Conversation(messages, replaced=1, instead=short).sent.messages]
        ['short', 'now']
        """
        if not self.replaced:
            return self
        return Conversation((*self.instead, *self.messages[self.replaced :]), self.system)

    @property
    def last(self) -> Message | None:
        """The last message."""
        return self.messages[-1] if self.messages else None


VERSION = 1


class _Head(Struct, frozen=True):
    version: int


class _Archive(Struct, frozen=True):
    version: int
    conversation: Conversation


def to_json(conversation: Conversation) -> bytes:
    """The conversation as JSON, with everything that a provider wants to see again.

    Raises:
        LocalProtocolError: It holds something that is not JSON, such as half of a surrogate pair.

    >>> from rxworker.messages import Message
    >>> to_json(Conversation((Message.user("hi"),)))
    b'{"version":1,"conversation":{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}}'
    """
    try:
        return msgspec.json.encode(_Archive(VERSION, conversation))
    except (TypeError, UnicodeError, OverflowError, RecursionError) as error:
        raise LocalProtocolError(f"the conversation is not JSON: {error}") from error


def from_json(data: bytes | str) -> Conversation:
    """The conversation that `to_json` has written.

    Raises:
        LocalProtocolError: A newer rxworker has written it, it holds a kind of content that is not known, or it is
            something else altogether.

    >>> from rxworker.messages import Message
    >>> conversation = Conversation((Message.user("hi"),))
    >>> from_json(to_json(conversation)) == conversation
    True
    """
    try:
        version = msgspec.json.decode(data, type=_Head).version
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise LocalProtocolError(f"this is not a stored conversation: {error}") from error
    if version > VERSION:
        raise LocalProtocolError(
            f"the conversation has version {version}, and this rxworker reads up to version {VERSION}: "
            "read it with the rxworker that wrote it, or a newer one"
        )
    if version < 1:
        raise LocalProtocolError(f"the conversation has version {version}, which does not exist")
    try:
        return msgspec.json.decode(data, type=_Archive).conversation
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise LocalProtocolError(f"the conversation cannot be read: {error}") from error


_PAGE = "reference/worker"

Input: TypeAlias = str | Message | Sequence[Message | Content | str]
"""The input of a run: a text, a message, a list of messages, or the content of one message."""


def to_messages(given: Input) -> tuple[Message, ...]:
    """The messages of an input.

    Raises:
        ConfigurationError: The input has the wrong type, is empty, or contains a value that cannot be sent.

    >>> [message.text for message in to_messages("hi")]
    ['hi']
    """
    messages = read_input(given)
    has_content = False
    try:
        for message in messages:
            for block in message.content:
                if not isinstance(block, Text):
                    has_content = True
                elif block.text.strip():
                    has_content = True
                    block.text.encode()  # checked here: in the conversation it would make every later run fail
    except UnicodeEncodeError as error:
        text = "the input contains half of a surrogate pair, which cannot be sent"
        raise ConfigurationError(f"{text}: {error}", page=_PAGE) from error
    if not has_content:
        raise ConfigurationError("the input is empty: no provider answers that; give a text", page=_PAGE)
    return messages


def read_input(given: Input | Sequence[Input]) -> tuple[Message, ...]:
    """The messages of an input, without a look at their content.

    Raises:
        ConfigurationError: The input has the wrong type.
    """
    if isinstance(given, str):
        return (Message("user", (Text(given),)),)
    if isinstance(given, Message):
        return (given,)
    parts: list[object] = list(given) if isinstance(given, list | tuple) else []
    if parts and all(isinstance(part, Message) for part in parts):
        return tuple(part for part in parts if isinstance(part, Message))
    if parts and all(isinstance(part, str | Content) for part in parts):
        return (Message.user(*(part for part in parts if isinstance(part, str | Content))),)
    message = f"the input of a run is a text, a message, or a list of messages or content, not {given!r}"
    raise ConfigurationError(message, page=_PAGE)
