"""Which result answers which call. Pure; `validate`, `repair` and the cutting of a history use it.

A result answers the first call of its id that has none yet, in the last message that has such a call: ids may come
again, within an answer and in a later one. A second result for a call takes the place of the first, as long as the
model has written nothing since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from rxworker.messages.content import Content, ToolCall, ToolResult
from rxworker.messages.message import Conversation, Message


class PairedResult(Struct, frozen=True):
    """A result and its position.

    Attributes:
        place: The place of its message in the conversation.
        order: Its place among the results of that message.
        result: The result.
    """

    place: int
    order: int
    result: ToolResult


def calls_of(message: Message) -> tuple[ToolCall, ...]:
    """The tool calls of a message; empty if it is not the assistant's."""
    return message.tool_calls if message.role == "assistant" else ()


def pair(messages: Sequence[Message]) -> dict[int, PairedResult]:
    """The answer to each call that has one, by the call's number among all calls.

    >>> messages = (Message.assistant(ToolCall("1", "look", {})), Message.user(ToolResult("1", "blue")))
    >>> pair(messages)[0].place
    1
    """
    answers: dict[int, PairedResult] = {}
    waiting: dict[str, list[int]] = {}  # the next to be answered is the last
    latest: dict[str, int] = {}
    number = 0
    for place, message in enumerate(messages):
        if message.role == "assistant":
            latest.clear()
            calls = message.tool_calls
            for offset in reversed(range(len(calls))):
                waiting.setdefault(calls[offset].id, []).append(number + offset)
            number += len(calls)
        for order, result in enumerate(message.tool_results):
            if left := waiting.get(result.tool_use_id):
                latest[result.tool_use_id] = left.pop()
            if result.tool_use_id in latest:
                answers[latest[result.tool_use_id]] = PairedResult(place, order, result)
    return answers


def distinct_ids(calls: Iterable[ToolCall]) -> list[str]:
    """An id for each call, unlike any other: its own where that is free, else its own with a number.

    The new ids depend only on the messages before, so that a conversation that has grown keeps its ids.

    >>> distinct_ids([ToolCall("a", "look", {}), ToolCall("a", "look", {}), ToolCall("", "look", {})])
    ['a', 'a_2', 'call']
    """
    ids: list[str] = []
    taken: set[str] = {""}
    counts: dict[str, int] = {}
    for call in calls:
        base = call.id or "call"
        chosen = base
        while chosen in taken:
            counts[base] = counts.get(base, 1) + 1
            chosen = f"{base}_{counts[base]}"
        taken.add(chosen)
        ids.append(chosen)
    return ids


def calls_made(conversation: Conversation) -> tuple[ToolCall, ...]:
    """The tool calls of the assistant's last message."""
    for message in reversed(conversation.messages):
        if message.role == "assistant":
            return message.tool_calls
    return ()


def with_calls(conversation: Conversation, left: Mapping[int, ToolCall | None]) -> Conversation:
    """The conversation with other calls in the assistant's last message.

    Args:
        conversation: The conversation.
        left: By the index of a call among the calls of that message: the call in its place; ``None`` to leave it out.

    >>> conversation = Conversation((Message.assistant(ToolCall("a", "pay", {}), ToolCall("b", "pay", {})),))
    >>> calls_made(with_calls(conversation, {0: ToolCall("a", "pay", {"euros": 1}), 1: None}))
    (ToolCall(id='a', name='pay', input={'euros': 1}, ...),)
    """
    messages = list(conversation.messages)
    at = next((at for at in reversed(range(len(messages))) if messages[at].role == "assistant"), 0)
    if not left or not messages:
        return conversation
    content: list[Content] = []
    number = 0
    for block in messages[at].content:
        kept: Content | None = block
        if isinstance(block, ToolCall):
            kept = left.get(number, block)
            number += 1
        if kept is not None:
            content.append(kept)
    messages[at : at + 1] = [replace(messages[at], content=tuple(content))] if content else []
    return conversation.with_messages(tuple(messages))
