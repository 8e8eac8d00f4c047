"""Making a conversation one that a provider accepts.

A run that ends in the middle may leave a tool call without its result, which every provider refuses. The repair works
in both directions: a call without a result is given one that says what happened, a result without a call is taken out.
"""

from __future__ import annotations

from msgspec.structs import replace

from rxworker.messages.content import ToolCall, ToolResult
from rxworker.messages.message import Conversation, Message

NOT_RUN = "This call was not run: the run ended before it."


def repair(conversation: Conversation, reason: str = NOT_RUN) -> Conversation:
    """The conversation with one result for each of its tool calls, and no other results.

    Args:
        conversation: What may be broken.
        reason: What the results that had to be made up say; the model reads it.

    >>> from rxworker.messages import Conversation, Message, ToolCall
    >>> broken = Conversation((Message.user("hi"), Message.assistant(ToolCall("1", "look", {}))))
    >>> repair(broken).messages[-1].tool_results[0].is_error
    True
    """
    messages: list[Message] = []
    waiting: tuple[ToolCall, ...] = ()
    for message in conversation.messages:
        if message.role == "user":
            message = _answer(message, waiting, reason)
        elif waiting:
            messages.append(_answer(Message("user", ()), waiting, reason))
        waiting = message.tool_calls if message.role == "assistant" else ()
        if message.content:
            messages.append(message)
    if waiting:
        messages.append(_answer(Message("user", ()), waiting, reason))
    return conversation.with_messages(messages)


def _answer(message: Message, calls: tuple[ToolCall, ...], reason: str) -> Message:
    """The message with exactly one result for each call, in the order of the calls, before what else it holds."""
    given = {result.tool_use_id: result for result in message.tool_results}
    if [r.tool_use_id for r in message.tool_results] == [c.id for c in calls]:
        return message
    results = tuple(
        given.get(c.id) or ToolResult(c.id, reason, is_error=True, name=c.name) for c in calls
    )
    others = tuple(block for block in message.content if not isinstance(block, ToolResult))
    return replace(message, content=results + others)


__all__ = ["repair"]
