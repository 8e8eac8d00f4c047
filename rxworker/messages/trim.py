"""Making a conversation shorter by leaving its oldest turns out. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from rxworker.messages.estimate import estimate
from rxworker.messages.fork import starts
from rxworker.messages.message import Conversation, Message
from rxworker.messages.speech import user_speaks


def trim(
    conversation: Conversation,
    max_tokens: int,
    count: Callable[[Message], int] = estimate,
    keep_first: int = 0,
) -> Conversation:
    """The conversation without as many of its oldest turns as it takes to come down to a number of tokens.

    Whole `turns` are left out, so that no call is parted from its result and no thought from its call. What always stays:

    - the system text, and every system message;
    - the last turn, also where it alone is more than ``max_tokens``;
    - what the user asked, as long as any of the answer to it stays;
    - the first turns, if ``keep_first`` says so.

    Args:
        conversation: Everything said so far.
        max_tokens: The most that is to be left.
        count: How many tokens a message takes; a rough `estimate` by default. Called once for each message.
        keep_first: How many of the first turns stay, such as examples of how to answer.

    >>> said = Conversation((Message.user("one"), Message.assistant("1"), Message.user("two")))
    >>> [message.text for message in trim(said, 6).messages]
    ['two']
    """
    messages = conversation.messages
    costs = [count(message) for message in messages]
    fixed = count(Message.system(conversation.system)) if conversation.system else 0
    rounds = _rounds(messages, costs)
    kept = rounds[: max(keep_first, 0)]
    first = kept[-1].end if kept else 0
    fixed += sum(costs[:first])
    fixed += sum(c for c, m in zip(costs, messages, strict=True) if m.role == "system")
    fixed -= sum(c for c, m in zip(costs[:first], messages, strict=False) if m.role == "system")
    tail = 0
    begin, question = len(messages), range(0)
    for one in reversed(rounds[len(kept) :]):
        tail += one.tokens
        asked = one.asked_tokens if one.asked.start >= first else 0
        if fixed + tail + asked > max_tokens and one.end < len(messages):
            break
        begin, question = one.begin, one.asked
    between = [
        message
        for place, message in enumerate(messages[first:begin], first)
        if message.role == "system" or place in question
    ]
    return conversation.with_messages((*messages[:first], *between, *messages[begin:]))


class _Round(Struct, frozen=True):
    """A turn.

    Attributes:
        begin: Where its messages begin.
        end: Where they end.
        tokens: What they take, without system messages.
        asked: Where the question stands that it is part of the answer to, if that is in an earlier turn.
        asked_tokens: What the question takes.
    """

    begin: int
    end: int
    tokens: int
    asked: range
    asked_tokens: int


def _rounds(messages: Sequence[Message], costs: Sequence[int]) -> list[_Round]:
    rounds: list[_Round] = []
    question, question_tokens = range(0), 0
    begins = starts(messages)
    for begin, end in zip(begins, [*begins[1:], len(messages)], strict=False):
        places = range(begin, end)
        said = next((p for p in places if messages[p].role == "assistant"), end)
        tokens = _sum(messages, costs, places)
        asks = any(map(user_speaks, messages[begin:said]))
        if asks:
            question = range(begin, said)
            question_tokens = _sum(messages, costs, question)
        asked = range(0) if asks else question
        rounds.append(_Round(begin, end, tokens, asked, question_tokens if asked else 0))
    return rounds


def _sum(messages: Sequence[Message], costs: Sequence[int], places: range) -> int:
    return sum(costs[place] for place in places if messages[place].role != "system")


__all__ = ["trim"]
