"""The turns of a conversation: going back to one, leaving the oldest out, or replacing them by a summary. Pure.

A turn is one answer: the messages before it, the answer, and the results of the tools that it called. A question that
needs three rounds of tools is four turns. A conversation that is cut between two turns separates no call from its
result, and no thought from the call that it led to.

`estimate` is roughly how many tokens a message takes. No provider documents its count, and each counts in its own way.
So it is an estimate and nothing more: a token for four bytes of UTF-8, something for each message, fixed numbers for
pictures and documents, and a number by its bytes for audio. For plain English it is mostly within a fifth of the truth;
leave room. A text in another script has more bytes a letter, and is counted as more, as it is by the providers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, pairwise

import msgspec
from msgspec import Struct

from rxworker.errors import LocalProtocolError
from rxworker.messages import content
from rxworker.messages.message import Conversation, Message
from rxworker.messages.pairs import calls_of, pair
from rxworker.messages.settings import check_plain
from rxworker.messages.speech import user_speaks

BYTES_PER_TOKEN = 4
MESSAGE_TOKENS = 4
IMAGE_TOKENS = 1_500
DOCUMENT_TOKENS = 3_000
# Gemini counts 32 tokens a second (https://ai.google.dev/gemini-api/docs/audio); a compressed second has about 16,000
# bytes.
BYTES_PER_AUDIO_TOKEN = 500


def estimate(message: Message) -> int:
    """How many tokens a message takes, about. An estimate: use the provider's count if it must be exact.

    >>> estimate(Message.user("Hello, world"))
    7
    """
    return MESSAGE_TOKENS + sum(map(_tokens, message.content))


def _tokens(block: content.Content) -> int:
    match block:
        case content.Text() | content.Refusal():
            return _of_text(block.text)
        case content.Thinking():
            return _of_text(block.text) or _of_text(block.signature or "") or _of_json(block.echo)
        case content.ToolCall():
            return MESSAGE_TOKENS + _of_text(block.name) + _of_json(block.input)
        case content.ToolResult(content=str(text)):
            return MESSAGE_TOKENS + _of_text(text)
        case content.ToolResult(content=parts):
            return MESSAGE_TOKENS + sum(_tokens(part) for part in parts if not isinstance(part, str))
        case content.Image():
            return IMAGE_TOKENS
        case content.Document():
            return _of_document(block)
        case content.Audio():
            return -(-len(block.data or "") * 3 // 4 // BYTES_PER_AUDIO_TOKEN)
        case content.ServerToolCall():
            return _of_json(block.echo) or _of_json(block.input)
        case _:
            return _of_json(getattr(block, "echo", None))


def _of_text(text: str) -> int:
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def _of_json(value: object) -> int:
    if value is None:
        return 0
    if isinstance(value, str):
        return _of_text(value)
    try:
        return -(-len(msgspec.json.encode(value)) // BYTES_PER_TOKEN)
    except (UnicodeError, TypeError, OverflowError):
        return _of_text(repr(value))


def _of_document(block: content.Document) -> int:
    if not block.data or not block.media_type.startswith("text/"):
        return DOCUMENT_TOKENS
    return -(-len(block.data) * 3 // 4 // BYTES_PER_TOKEN)  # base64 has four letters for three bytes


def turns(conversation: Conversation) -> tuple[tuple[Message, ...], ...]:
    """The messages of each turn, in order; all of them together are the messages of the conversation.

    >>> conversation = Conversation((Message.user("hi"), Message.assistant("hello"), Message.user("and?")))
    >>> [[message.text for message in turn] for turn in turns(conversation)]
    [['hi', 'hello'], ['and?']]
    """
    messages = conversation.messages
    return tuple(messages[a:b] for a, b in pairwise([*starts(messages), len(messages)]))


def fork(conversation: Conversation, turn: int) -> Conversation:
    """The conversation up to and with a turn, from where another one may begin.

    Args:
        conversation: The whole.
        turn: Its place among the `turns`, from 0; negative ones count from the end.

    Raises:
        LocalProtocolError: There is no such turn.

    >>> conversation = Conversation((Message.user("hi"), Message.assistant("hello"), Message.user("and?")))
    >>> fork(conversation, 0).messages[-1].text
    'hello'
    """
    every = turns(conversation)
    count = len(every)
    if not -count <= turn < count:
        raise LocalProtocolError(f"there is no turn {turn}: the conversation has {count}")
    return conversation.with_messages(chain.from_iterable(every[: turn % count + 1]))


def starts(messages: Sequence[Message]) -> list[int]:
    """Where the turns begin: after an answer and its results, wherever the next message follows.

    >>> starts((Message.user("hi"), Message.assistant("hello"), Message.user("and?")))
    [0, 2]
    """
    begins = [0] if messages else []
    last_results = _last_results(messages)
    whole = 0  # the index of the last result of the calls so far
    answered = False  # whether the model has spoken in this turn
    for place, message in enumerate(messages):
        is_on = message.role == "assistant" and place > 0 and messages[place - 1].role == "assistant"
        if answered and place > whole and not is_on:
            begins.append(place)
            answered = False
        answered = answered or message.role == "assistant"
        whole = max(whole, last_results.get(place, 0))
    return begins


def _last_results(messages: Sequence[Message]) -> dict[int, int]:
    """For each message with calls, the place of the last of their results, with those of the provider's own tools."""
    answers = pair(messages)
    last: dict[int, int] = {}
    number = 0
    for place, message in enumerate(messages):
        for _ in calls_of(message):
            answer = answers.get(number)
            number += 1
            if answer is not None:
                last[place] = max(last.get(place, 0), answer.place)
    begun: dict[str, int] = {}  # the provider's own calls; their results may be in a later answer
    for place, message in enumerate(messages):
        for block in message.content:
            if isinstance(block, content.ServerToolCall):
                begun[block.id] = place
            elif isinstance(block, content.ServerToolResult):
                first = begun.get(block.tool_use_id, place)
                last[first] = max(last.get(first, 0), place)
    return last


def trim(
    conversation: Conversation, max_tokens: int, count: Callable[[Message], int] = estimate, keep_first: int = 0
) -> Conversation:
    """The conversation without as many of its oldest turns as it takes to come down to a number of tokens.

    Whole `turns` are left out, so that no call is parted from its result and no thought from its call. What always
    stays:

    - the system text, and every system message;
    - the last turn, also where it alone is more than ``max_tokens``;
    - the user's question, as long as any of the answer to it stays;
    - the first turns, if ``keep_first`` is set.

    Args:
        conversation: All messages so far.
        max_tokens: The maximum number of tokens that remain.
        count: How many tokens a message takes; a rough `estimate` by default. Called once for each message.
        keep_first: How many of the first turns stay, such as examples of how to answer.

    >>> conversation = Conversation((Message.user("one"), Message.assistant("1"), Message.user("two")))
    >>> [message.text for message in trim(conversation, 6).messages]
    ['two']
    """
    check_plain("trim(count)", count)
    messages = conversation.messages
    costs = [count(message) for message in messages]
    fixed = count(Message.system(conversation.system)) if conversation.system else 0
    rounds = _rounds(messages, costs)
    kept = rounds[: max(keep_first, 0)]
    first = kept[-1].end if kept else 0
    fixed += sum(costs[:first])
    fixed += sum(c for c, m in zip(costs[first:], messages[first:], strict=True) if m.role == "system")
    tail = 0
    begin, question = len(messages), range(0)
    for one in reversed(rounds[len(kept) :]):
        tail += one.tokens
        added = one.question_tokens if one.question.start >= first else 0
        if fixed + tail + added > max_tokens and one.end < len(messages):
            break
        begin, question = one.begin, one.question
    between = [
        message
        for place, message in enumerate(messages[first:begin], first)
        if message.role == "system" or place in question
    ]
    return conversation.with_messages((*messages[:first], *between, *messages[begin:]))


def shorten(conversation: Conversation, max_tokens: float, max_turns: float) -> tuple[int, tuple[Message, ...]]:
    """Where the last turns of a conversation begin, and the messages before them that stay.

    System messages, and the question that the first of these turns helps to answer.

    Args:
        conversation: All messages so far.
        max_tokens: The maximum number of tokens of these turns together, by the `estimate`. The last one always stays.
        max_turns: The maximum number of turns.

    >>> hello = Conversation((Message.user("hi"), Message.assistant("hello"), Message.user("and?")))
    >>> shorten(hello, 100, 1)
    (2, ())
    """
    messages = conversation.messages
    begin, question, tail = len(messages), range(0), 0
    for number, one in enumerate(reversed(_rounds(messages, [*map(estimate, messages)]))):
        tail += one.tokens
        if number and (number >= max_turns or tail > max_tokens):
            break
        begin, question = one.begin, one.question
    stays = (message for place, message in enumerate(messages[:begin]) if message.role == "system" or place in question)
    return begin, tuple(stays)


class _Round(Struct, frozen=True):
    """A turn.

    Attributes:
        begin: The index of its first message.
        end: The index after its last message.
        tokens: Their tokens, without system messages.
        question: The indexes of the question that the turn helps to answer, if it is in an earlier turn.
        question_tokens: The tokens of the question.
    """

    begin: int
    end: int
    tokens: int
    question: range
    question_tokens: int


def _rounds(messages: Sequence[Message], costs: Sequence[int]) -> list[_Round]:
    rounds: list[_Round] = []
    question, question_tokens = range(0), 0
    for begin, end in pairwise([*starts(messages), len(messages)]):
        places = range(begin, end)
        said = next((p for p in places if messages[p].role == "assistant"), end)
        tokens = _sum(messages, costs, places)
        has_question = any(map(user_speaks, messages[begin:said]))
        if has_question:
            question = range(begin, said)
            question_tokens = _sum(messages, costs, question)
        earlier = range(0) if has_question else question
        rounds.append(_Round(begin, end, tokens, earlier, question_tokens if earlier else 0))
    return rounds


def _sum(messages: Sequence[Message], costs: Sequence[int], places: range) -> int:
    return sum(costs[place] for place in places if messages[place].role != "system")


HEADING = "Summary of the conversation so far:"


def compact(conversation: Conversation, summary: str | Message, keep: int = 4) -> Conversation:
    r"""The conversation with a summary instead of all but its last turns.

    The summary is a message of the user's, which every provider accepts in that place; a summary that was put there
    before is replaced with the turns. It must contain the user's question, since the question may be among the replaced
    messages. System messages stay. A conversation of no more than ``keep`` turns stays as it is.

    Args:
        conversation: All messages so far.
        summary: The summary of the replaced turns; a text is put under a heading.
        keep: How many of the last `turns` stay as they are.

    Raises:
        LocalProtocolError: ``keep`` is less than 1: the last turn is what the model is to answer.

    >>> conversation = Conversation((Message.user("one"), Message.assistant("1"), Message.user("two")))
    >>> [message.text for message in compact(conversation, "They count.", keep=1).messages]
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
