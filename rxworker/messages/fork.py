"""The turns of a conversation, and going back to one. Pure.

A turn is one answer: what was said before it, what the model said, and the results of the tools that it called. A question
that needs three rounds of tools is four turns. Wherever a conversation is cut between two turns, no call is parted from
its result, and no thought from what it led to.
"""

from __future__ import annotations

from collections.abc import Sequence

from rxworker.errors import LocalProtocolError
from rxworker.messages.message import Conversation, Message
from rxworker.messages.pairs import asked_by, pair


def turns(conversation: Conversation) -> tuple[tuple[Message, ...], ...]:
    """The messages of each turn, in order; all of them together are the messages of the conversation.

    >>> said = Conversation((Message.user("hi"), Message.assistant("hello"), Message.user("and?")))
    >>> [[message.text for message in turn] for turn in turns(said)]
    [['hi', 'hello'], ['and?']]
    """
    messages = conversation.messages
    ends = [*starts(messages)[1:], len(messages)]
    begin = 0
    made: list[tuple[Message, ...]] = []
    for end in ends:
        if end > begin:
            made.append(messages[begin:end])
        begin = end
    return tuple(made)


def fork(conversation: Conversation, turn: int) -> Conversation:
    """The conversation up to and with a turn, from where another one may begin.

    Args:
        conversation: The whole.
        turn: Its place among the `turns`, from 0; negative ones count from the end.

    Raises:
        LocalProtocolError: There is no such turn.

    >>> said = Conversation((Message.user("hi"), Message.assistant("hello"), Message.user("and?")))
    >>> fork(said, 0).messages[-1].text
    'hello'
    """
    begins = starts(conversation.messages)
    count = len(begins)
    if not -count <= turn < count:
        raise LocalProtocolError(f"there is no turn {turn}: the conversation has {count}")
    ends = [*begins[1:], len(conversation.messages)]
    return conversation.with_messages(conversation.messages[: ends[turn]])


def starts(messages: Sequence[Message]) -> list[int]:
    """Where the turns begin: behind an answer and its results, wherever the next thing is said.

    >>> starts((Message.user("hi"), Message.assistant("hello"), Message.user("and?")))
    [0, 2]
    """
    begins = [0] if messages else []
    last_results = _last_results(messages)
    whole = 0  # where the last result of what has been asked stands
    answered = False  # whether the model has spoken in this turn
    for place, message in enumerate(messages):
        is_on = (
            message.role == "assistant" and place > 0 and messages[place - 1].role == "assistant"
        )
        if answered and place > whole and not is_on:
            begins.append(place)
            answered = False
        answered = answered or message.role == "assistant"
        whole = max(whole, last_results.get(place, 0))
    return begins


def _last_results(messages: Sequence[Message]) -> dict[int, int]:
    """For each message with calls, the place of the last of their results."""
    answers = pair(messages)
    last: dict[int, int] = {}
    number = 0
    for place, message in enumerate(messages):
        for _ in asked_by(message):
            answer = answers.get(number)
            number += 1
            if answer is not None:
                last[place] = max(last.get(place, 0), answer.place)
    return last


__all__ = ["fork", "starts", "turns"]
