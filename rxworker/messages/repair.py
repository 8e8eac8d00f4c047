"""Finding what is wrong with a conversation, and repairing it so that a provider accepts it. Pure.

A run that ends in the middle may leave a tool call without its result, which every provider refuses, and an application
may keep histories of its own. `repair` corrects what `validate` reports:

- A call without a result gets one with the text ``reason``. A result without a call is removed.
- Results are moved to one message directly after their calls, in the order of the calls.
- An id that was used before, or is empty, is replaced, in the call and in its result.
- An empty message is removed, and so are thoughts without an answer or a call after them.
- A picture or a document whose data was lost is replaced by a text.
- Where the assistant speaks first, a user message is inserted before it.

The messages of the user stay, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeAlias

from msgspec.structs import replace

from rxworker.messages import content
from rxworker.messages.message import Conversation, Message
from rxworker.messages.pairs import PairedResult, calls_of, distinct_ids, pair
from rxworker.messages.settings import check_plain
from rxworker.messages.speech import dangling_thoughts, has_source, is_blank, is_stray, is_thought, user_speaks

STRAY: dict[type, str] = {
    content.ServerToolCall: "a call of a provider's tool",
    content.ServerToolResult: "a result of a provider's tool",
    content.Thinking: "thinking",
    content.ToolCall: "a tool call",
    content.ToolResult: "a tool result",
}


def validate(conversation: Conversation) -> list[str]:
    """The errors for which a provider would refuse the conversation; empty for a sound one.

    A conversation is sound if and only if `repair` returns it unchanged. A system message may be anywhere, and several
    messages of one role in a row are fine.

    Raises:
        ConfigurationError: The reason is a coroutine function.

    >>> from rxworker.messages import Conversation, Message, ToolCall
    >>> broken = Conversation((Message.user("hi"), Message.assistant(ToolCall("1", "look", {}))))
    >>> validate(broken)
    ["message 1: the call '1' of look has no result"]
    """
    messages = conversation.messages
    return [*_opening(messages), *_contents(messages), *_ids(messages), *_pairs(messages), *_thoughts(messages)]


def _opening(messages: Sequence[Message]) -> Iterator[str]:
    for place, message in enumerate(messages):
        if user_speaks(message):
            return
        if message.role == "assistant" and not is_blank(message):
            yield f"message {place}: an assistant message comes before the first user message"
            return


def _contents(messages: Sequence[Message]) -> Iterator[str]:
    for place, message in enumerate(messages):
        if is_blank(message):
            yield f"message {place}: it is empty"
        for block in message.content:
            for complaint in _about(block, message.role):
                yield f"message {place}: {complaint}"


def _about(block: content.Content, role: str) -> Iterator[str]:
    if is_stray(block, role):
        yield f"{STRAY[type(block)]} in a message of the role {role}"
    shown: Iterable[object] = ()
    if isinstance(block, content.ToolResult):
        shown = () if isinstance(block.content, str) else block.content
    elif role != "assistant":  # what a model made may lie with its provider
        shown = (block,)
    for one in shown:
        if not has_source(one):
            what = "picture" if isinstance(one, content.Image) else "document"
            yield f"a {what} with neither bytes nor an address"


def _ids(messages: Sequence[Message]) -> Iterator[str]:
    ids = iter(distinct_ids(chain.from_iterable(map(calls_of, messages))))
    for place, message in enumerate(messages):
        for call in calls_of(message):
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
        for call in calls_of(message):
            answer = answers.get(number)
            number += 1
            if answer is None:
                yield f"message {place}: the call {call.id!r} of {call.name} has no result"
            elif answer.place != place + 1:
                yield f"message {answer.place}: the result {call.id!r} does not stand right after its call"
            else:
                orders.append(answer.order)
        if orders != sorted(orders):
            yield f"message {place + 1}: the results are not in the order of their calls"


def _thoughts(messages: Sequence[Message]) -> Iterator[str]:
    for place in sorted(dangling_thoughts(messages)):
        if is_thought(messages[place]):
            yield f"message {place}: the assistant message has thinking but no answer"


NOT_RUN = "This call was not run: the run ended before it."
"""The default result of a call that was not run."""
OPENING = "(The conversation begins here.)"

Reason: TypeAlias = str | Mapping[str, str] | Callable[[content.ToolCall], str]
"""Why a call has no result: one text for all, texts by the ids of the calls, or a function of the call."""


def repair(conversation: Conversation, reason: Reason = NOT_RUN) -> Conversation:
    """The conversation with one result for each of its tool calls, no other results, and nothing else that is refused.

    Repairing once is enough: ``repair(repair(x)) == repair(x)``, and a conversation that is sound stays as it is.

    Args:
        conversation: The conversation to repair.
        reason: The text of the added results; the model receives it. One text for all calls; a mapping from the ids of
            calls, where calls that are not in it were not run; or a function of the call. State who stopped a call, and
            whether it may have had an effect, wherever that is known.

    >>> from rxworker.messages import Conversation, Message, ToolCall
    >>> broken = Conversation((Message.user("hi"), Message.assistant(ToolCall("1", "look", {}))))
    >>> repair(broken).messages[-1].tool_results[0].is_error
    True
    >>> repair(broken, {"1": "The user stopped it."}).messages[-1].tool_results[0].text
    'The user stopped it.'
    """
    if callable(reason):
        check_plain("repair(reason)", reason)
    if not conversation.messages:
        return conversation
    messages = [message for message in _paired(conversation, reason) if not is_blank(message)]
    left_out = dangling_thoughts(messages)
    kept = [message for place, message in enumerate(messages) if place not in left_out]
    return conversation.with_messages(_opened(kept))


def _paired(conversation: Conversation, reason: Reason) -> Iterable[Message]:
    """The messages with each result directly after its call, and each block under a role that may have it."""
    answers = pair(conversation.messages)
    ids = distinct_ids(chain.from_iterable(map(calls_of, conversation.messages)))
    number = 0
    due: tuple[content.ToolResult, ...] = ()
    for message in conversation.messages:
        if message.role == "user":
            yield _answering(message, due)
            due = ()
            continue
        if due:
            yield Message("user", due)
        calls = calls_of(message)
        numbers = range(number, number + len(calls))
        number = numbers.stop
        due = tuple(_result(call, answers.get(n), ids[n], reason) for call, n in zip(calls, numbers, strict=True))
        yield _renamed(message, [ids[n] for n in numbers])
    if due:
        yield Message("user", due)


def _result(call: content.ToolCall, answer: PairedResult | None, call_id: str, reason: Reason) -> content.ToolResult:
    if answer is None:
        return content.ToolResult(call_id, _why(call, reason), is_error=True, name=call.name)
    result = answer.result
    blocks = result.content
    if not isinstance(blocks, str) and not all(map(has_source, blocks)):
        blocks = tuple(part if has_source(part) else _lost(part) for part in blocks)
    if result.tool_use_id == call_id and blocks is result.content:
        return result
    return replace(result, tool_use_id=call_id, content=blocks)


def _why(call: content.ToolCall, reason: Reason) -> str:
    if isinstance(reason, str):
        return reason
    if callable(reason):
        return reason(call)
    return reason.get(call.id, NOT_RUN)


def _renamed(message: Message, ids: list[str]) -> Message:
    """An assistant's or a system message, with these ids for its calls."""
    left = iter(ids)
    blocks = [
        _call(block, next(left)) if ids and isinstance(block, content.ToolCall) else block
        for block in message.content
        if not is_stray(block, message.role)
    ]
    if message.role != "assistant":
        blocks = _sourced(blocks)
    return _with_content(message, blocks)


def _call(call: content.ToolCall, call_id: str) -> content.ToolCall:
    return call if call.id == call_id else replace(call, id=call_id)


def _answering(message: Message, due: tuple[content.ToolResult, ...]) -> Message:
    """A user's message with exactly these results; they come first, unless all are there in their order."""
    said = _sourced(block for block in message.content if not is_stray(block, message.role))
    if tuple(block for block in said if isinstance(block, content.ToolResult)) == due:
        return _with_content(message, said)
    return _with_content(message, [*due, *(block for block in said if not isinstance(block, content.ToolResult))])


def _sourced(blocks: Iterable[content.Content]) -> list[content.Content]:
    return [
        _lost(block) if isinstance(block, content.Image | content.Document) and not has_source(block) else block
        for block in blocks
    ]


def _lost(block: content.ResultBlock) -> content.Text:
    return content.Text(
        "(a picture that was lost)" if isinstance(block, content.Image) else "(a document that was lost)"
    )


def _with_content(message: Message, blocks: list[content.Content]) -> Message:
    """The message itself where nothing has changed."""
    made = tuple(blocks)
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
