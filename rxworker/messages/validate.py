"""What is wrong with a conversation, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from rxworker.messages.content import (
    Content,
    Image,
    ServerToolCall,
    ServerToolResult,
    Thinking,
    ToolCall,
    ToolResult,
)
from rxworker.messages.message import Conversation, Message
from rxworker.messages.pairs import asked_by, distinct_ids, pair
from rxworker.messages.speech import (
    dangling_thoughts,
    has_source,
    is_blank,
    is_stray,
    is_thought,
    user_speaks,
)

STRAY: dict[type, str] = {
    ServerToolCall: "a call of a provider's tool",
    ServerToolResult: "a result of a provider's tool",
    Thinking: "thinking",
    ToolCall: "a tool call",
    ToolResult: "a tool result",
}


def validate(conversation: Conversation) -> list[str]:
    """What a provider would refuse; nothing, for a sound conversation.

    A conversation is sound exactly if `repair` leaves it as it is. A system message may stand anywhere, and several
    messages of one role in a row are fine.

    >>> from rxworker.messages import Conversation, Message, ToolCall
    >>> broken = Conversation((Message.user("hi"), Message.assistant(ToolCall("1", "look", {}))))
    >>> validate(broken)
    ["message 1: the call '1' of look has no result"]
    """
    messages = conversation.messages
    return [
        *_opening(messages),
        *_contents(messages),
        *_ids(messages),
        *_pairs(messages),
        *_thoughts(messages),
    ]


def _opening(messages: Sequence[Message]) -> Iterator[str]:
    for place, message in enumerate(messages):
        if user_speaks(message):
            return
        if message.role == "assistant" and not is_blank(message):
            yield f"message {place}: the assistant speaks before the user has said anything"
            return


def _contents(messages: Sequence[Message]) -> Iterator[str]:
    for place, message in enumerate(messages):
        if is_blank(message):
            yield f"message {place}: it says nothing"
        for block in message.content:
            for complaint in _about(block, message.role):
                yield f"message {place}: {complaint}"


def _about(block: Content, role: str) -> Iterator[str]:
    if is_stray(block, role):
        yield f"{STRAY[type(block)]} in a message of the role {role}"
    shown: Iterable[object] = ()
    if isinstance(block, ToolResult):
        shown = () if isinstance(block.content, str) else block.content
    elif role != "assistant":  # what a model made may lie with its provider
        shown = (block,)
    for one in shown:
        if not has_source(one):
            what = "picture" if isinstance(one, Image) else "document"
            yield f"a {what} with neither bytes nor an address"


def _ids(messages: Sequence[Message]) -> Iterator[str]:
    ids = iter(distinct_ids(chain.from_iterable(map(asked_by, messages))))
    for place, message in enumerate(messages):
        for call in asked_by(message):
            if next(ids) == call.id:
                continue
            if call.id:
                yield f"message {place}: the id {call.id!r} of a call was used before"
            else:
                yield f"message {place}: a call of {call.name} has no id"


def _pairs(messages: Sequence[Message]) -> Iterator[str]:
    answers = pair(messages)
    used = {(answer.place, answer.order) for answer in answers.values()}
    number = 0
    for place, message in enumerate(messages):
        for order, result in enumerate(message.tool_results):
            if (place, order) not in used:
                yield f"message {place}: the result {result.tool_use_id!r} answers no call"
        orders: list[int] = []
        for call in asked_by(message):
            answer = answers.get(number)
            number += 1
            if answer is None:
                yield f"message {place}: the call {call.id!r} of {call.name} has no result"
            elif answer.place != place + 1:
                yield f"message {answer.place}: the result {call.id!r} does not stand right behind its call"
            else:
                orders.append(answer.order)
        if orders != sorted(orders):
            yield f"message {place + 1}: the results are not in the order of their calls"


def _thoughts(messages: Sequence[Message]) -> Iterator[str]:
    for place in sorted(dangling_thoughts(messages)):
        if is_thought(messages[place]):
            yield f"message {place}: the assistant thinks, and says nothing"


__all__ = ["validate"]
