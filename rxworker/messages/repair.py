"""Making a conversation one that a provider accepts.

A run that ends in the middle may leave a tool call without its result, which every provider refuses; an application that
keeps histories of its own may leave anything. What is mended here is what `validate` complains of:

- A call without a result is given one that says why, in the words of ``reason``. A result without a call is taken out.
- Results stand in one message right behind their calls, in the order of the calls. Those that stand elsewhere are gathered.
- An id that was used before, or none, becomes another one, for the call and its result alike.
- A message that says nothing is left out, and so are thoughts that lead to nothing.
- A picture or a document that was lost is replaced by a word that says so.
- Where the assistant speaks first, a line is put before it.

What the user said stays, in its order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import TypeAlias

from msgspec.structs import replace

from rxworker.messages.content import Audio, Content, Document, Image, Text, ToolCall, ToolResult
from rxworker.messages.message import Conversation, Message
from rxworker.messages.pairs import Answer, asked_by, distinct_ids, pair
from rxworker.messages.speech import dangling_thoughts, has_source, is_blank, is_stray, user_speaks

NOT_RUN = "This call was not run: the run ended before it."
OPENING = "(The conversation begins here.)"

Reason: TypeAlias = str | Mapping[str, str] | Callable[[ToolCall], str]
"""Why a call has no result: one text for all, texts by the ids of the calls, or a function of the call."""


def repair(conversation: Conversation, reason: Reason = NOT_RUN) -> Conversation:
    """The conversation with one result for each of its tool calls, no other results, and nothing else that is refused.

    Repairing once is enough: ``repair(repair(x)) == repair(x)``, and a conversation that is sound stays as it is.

    Args:
        conversation: What may be broken.
        reason: What the results that had to be made up say; the model reads it. One text for all calls; a mapping from
            the ids of calls, where calls that are not in it were not run; or a function of the call. Say who stopped a
            call, and whether it may have had an effect, wherever that is known.

    >>> from rxworker.messages import Conversation, Message, ToolCall
    >>> broken = Conversation((Message.user("hi"), Message.assistant(ToolCall("1", "look", {}))))
    >>> repair(broken).messages[-1].tool_results[0].is_error
    True
    >>> repair(broken, {"1": "The user stopped it."}).messages[-1].tool_results[0].text
    'The user stopped it.'
    """
    if not conversation.messages:
        return conversation
    messages = [message for message in _paired(conversation, reason) if not is_blank(message)]
    left_out = dangling_thoughts(messages)
    kept = [message for place, message in enumerate(messages) if place not in left_out]
    return conversation.with_messages(_opened(kept))


def _paired(conversation: Conversation, reason: Reason) -> Iterable[Message]:
    """The messages with each call's result right behind it, and each block said by whom it can be."""
    answers = pair(conversation.messages)
    ids = distinct_ids(chain.from_iterable(map(asked_by, conversation.messages)))
    number = 0
    due: tuple[ToolResult, ...] = ()
    for message in conversation.messages:
        if message.role == "user":
            yield _answering(message, due)
            due = ()
            continue
        if due:
            yield Message("user", due)
        calls = asked_by(message)
        numbers = range(number, number + len(calls))
        number = numbers.stop
        due = tuple(
            _result(call, answers.get(n), ids[n], reason)
            for call, n in zip(calls, numbers, strict=True)
        )
        yield _renamed(message, [ids[n] for n in numbers])
    if due:
        yield Message("user", due)


def _result(call: ToolCall, answer: Answer | None, call_id: str, reason: Reason) -> ToolResult:
    if answer is None:
        return ToolResult(call_id, _why(call, reason), is_error=True, name=call.name)
    result = answer.result
    content = result.content
    if not isinstance(content, str) and not all(map(has_source, content)):
        content = tuple(part if has_source(part) else _lost(part) for part in content)
    if result.tool_use_id == call_id and content is result.content:
        return result
    return replace(result, tool_use_id=call_id, content=content)


def _why(call: ToolCall, reason: Reason) -> str:
    if isinstance(reason, str):
        return reason
    if callable(reason):
        return reason(call)
    return reason.get(call.id, NOT_RUN)


def _renamed(message: Message, ids: list[str]) -> Message:
    """An assistant's or a system message, with these ids for its calls."""
    left = iter(ids)
    content = [
        _call(block, next(left)) if ids and isinstance(block, ToolCall) else block
        for block in message.content
        if not is_stray(block, message.role)
    ]
    if message.role != "assistant":
        content = _sourced(content)
    return _with_content(message, content)


def _call(call: ToolCall, call_id: str) -> ToolCall:
    return call if call.id == call_id else replace(call, id=call_id)


def _answering(message: Message, due: tuple[ToolResult, ...]) -> Message:
    """A user's message with exactly these results; they come first, unless all are there in their order."""
    said = _sourced(block for block in message.content if not is_stray(block, message.role))
    if tuple(block for block in said if isinstance(block, ToolResult)) == due:
        return _with_content(message, said)
    others = [block for block in said if not isinstance(block, ToolResult)]
    return _with_content(message, [*due, *others])


def _sourced(blocks: Iterable[Content]) -> list[Content]:
    return [
        _lost(block) if isinstance(block, Image | Document) and not has_source(block) else block
        for block in blocks
    ]


def _lost(block: Text | Image | Document | Audio) -> Text:
    return Text(
        "(a picture that was lost)" if isinstance(block, Image) else "(a document that was lost)"
    )


def _with_content(message: Message, content: list[Content]) -> Message:
    """The message itself where nothing has changed."""
    made = tuple(content)
    return message if made == message.content else replace(message, content=made)


def _opened(messages: list[Message]) -> list[Message]:
    """The messages, with a word of the user's before the first of the assistant's."""
    for message in messages:
        if user_speaks(message):
            return messages
        if message.role == "assistant":
            break
    else:
        return messages
    first = next(place for place, message in enumerate(messages) if message.role != "system")
    return [*messages[:first], Message.user(OPENING), *messages[first:]]


__all__ = ["NOT_RUN", "OPENING", "Reason", "repair"]
