"""Putting a summary in the place of the oldest turns. Pure: who writes the summary is another matter."""

from __future__ import annotations

from rxworker.errors import LocalProtocolError
from rxworker.messages.fork import starts
from rxworker.messages.message import Conversation, Message

HEADING = "Summary of the conversation so far:"


def compact(conversation: Conversation, summary: str | Message, keep: int = 4) -> Conversation:
    r"""The conversation with a summary instead of all but its last turns.

    The summary is a message of the user's, which every provider accepts in that place; a summary that was put there before
    is replaced with the turns. It has to say what the user asked, since the question may be among what is replaced.
    System messages stay. A conversation of no more than ``keep`` turns stays as it is.

    Args:
        conversation: Everything said so far.
        summary: What the replaced turns came to; a text is put under a heading.
        keep: How many of the last `turns` stay as they are.

    Raises:
        LocalProtocolError: ``keep`` is less than 1: the last turn is what the model is to answer.

    >>> said = Conversation((Message.user("one"), Message.assistant("1"), Message.user("two")))
    >>> [message.text for message in compact(said, "They count.", keep=1).messages]
    ['Summary of the conversation so far:\n\nThey count.', 'two']
    """
    if keep < 1:
        raise LocalProtocolError(f"keep={keep!r}: at least the last turn has to stay")
    messages = conversation.messages
    begins = starts(messages)
    if len(begins) <= keep:
        return conversation
    begin = begins[-keep]
    told = [message for message in messages[:begin] if message.role == "system"]
    said = Message.user(f"{HEADING}\n\n{summary}") if isinstance(summary, str) else summary
    return conversation.with_messages((*told, said, *messages[begin:]))


__all__ = ["compact"]
