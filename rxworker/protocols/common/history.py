"""Messages that a client sends, gathered into a conversation; and the ids of calls in those that are sent to it."""

from __future__ import annotations

from collections import Counter, defaultdict, deque

from msgspec import Struct

from rxworker.messages import Content, Conversation, Message, Text, ToolResult


class CallIds:
    """The ids of calls as they are shown: the second call of an id has ``~2`` behind it.

    >>> ids = CallIds()
    >>> ids.of_call("x"), ids.of_call("x"), ids.of_result("x")
    ('x', 'x~2', 'x')
    """

    def __init__(self) -> None:
        self._used: Counter[str] = Counter()
        self._waiting: defaultdict[str, deque[str]] = defaultdict(deque)

    def of_call(self, native: str) -> str:
        """The id under which the next call of this id is shown."""
        self._used[native] += 1
        number = self._used[native]
        shown = native if number == 1 else f"{native}~{number}"
        self._waiting[native].append(shown)
        return shown

    def of_result(self, native: str) -> str:
        """The shown id of the first call of this id that has no result."""
        waiting = self._waiting[native]
        return waiting.popleft() if waiting else native


class Said(Struct, frozen=True):
    """What a client sends of a conversation.

    Attributes:
        conversation: All of it.
        latest: What the user said last, behind the last answer.
    """

    conversation: Conversation
    latest: tuple[Message, ...]


class Gathering:
    """Gathers messages one by one: results of tools side by side are one message.

    >>> gathering = Gathering()
    >>> gathering.say("user", [Text("hi")])
    >>> gathering.said.latest[0].text
    'hi'
    """

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._results: list[ToolResult] = []
        self._system: list[str] = []

    def say(self, role: str, content: list[Content]) -> None:
        """A message; one without content says nothing."""
        self._settle()
        if role == "system":
            text = "".join(block.text for block in content if isinstance(block, Text))
            if self._messages:
                self._messages.append(Message.system(text))
            else:
                self._system.append(text)
        elif content:
            self._messages.append(
                Message("user" if role == "user" else "assistant", tuple(content))
            )

    def answer(self, result: ToolResult) -> None:
        """The result of a tool."""
        self._results.append(result)

    @property
    def said(self) -> Said:
        """All of it."""
        self._settle()
        latest: list[Message] = []
        for message in reversed(self._messages):
            if message.role != "user" or message.tool_results:
                break
            latest.append(message)
        system = "\n\n".join(self._system) or None
        return Said(Conversation(tuple(self._messages), system), tuple(reversed(latest)))

    def _settle(self) -> None:
        if self._results:
            self._messages.append(Message("user", tuple(self._results)))
            self._results = []


__all__ = ["CallIds", "Gathering", "Said"]
