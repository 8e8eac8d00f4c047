from __future__ import annotations

import pytest

from rxworker.messages import (
    Content,
    Conversation,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    repair,
    validate,
)

HI = Message.user("hi")
ASK = Message.assistant(ToolCall("a", "look", {}), ToolCall("b", "find", {}))
BOTH = Message.user(ToolResult("a", "blue"), ToolResult("b", "here"))

SOUND: dict[str, tuple[Message, ...]] = {
    "nothing": (),
    "a question": (HI,),
    "calls and results": (HI, ASK, BOTH, Message.assistant("done")),
    "results, and more from the user": (HI, ASK, Message("user", (*BOTH.content, Text("and?")))),
    "words before the results": (HI, ASK, Message("user", (Text("wait"), *BOTH.content))),
    "a system message in the middle": (HI, Message.assistant("hello"), Message.system("now"), HI),
    "a system message first": (Message.system("be brief"), HI, Message.assistant("hello")),
    "several messages of one role": (HI, HI, Message.assistant("one"), Message.assistant("two")),
    "thoughts, then the call": (HI, Message.assistant(Thinking("hm")), ASK, BOTH),
    "a picture that lies with the provider": (HI, Message.assistant(Image(echo={"id": "1"}))),
}


@pytest.mark.parametrize("case", SOUND)
def test_in_a_valid_conversation_nothing_is_reported_and_nothing_is_repaired(case: str) -> None:
    said = Conversation(SOUND[case])
    assert validate(said) == []
    assert repair(said) == said


def asked(*messages: Message) -> tuple[Message, ...]:
    return (HI, Message.assistant(ToolCall("a", "look", {})), *messages)


def result(*content: Content | str) -> Message:
    return Message.user(*content)


BLUE = ToolResult("a", "blue")
BROKEN: list[tuple[tuple[Message, ...], list[str]]] = [
    (asked(), ["message 1: the call 'a' of look has no result"]),
    ((HI, result(BLUE)), ["message 1: the result 'a' answers no call"]),
    (asked(result(BLUE, BLUE)), ["message 2: the result 'a' answers no call"]),
    (asked(Message.assistant("so"), result(BLUE)), ["message 3: the result 'a' does not stand right after its call"]),
    (
        (HI, ASK, Message.user(ToolResult("a", "blue")), Message.user(ToolResult("b", "here"))),
        ["message 3: the result 'b' does not stand right after its call"],
    ),
    (
        (HI, ASK, Message.user(ToolResult("b", "here"), ToolResult("a", "blue"))),
        ["message 2: the results are not in the order of their calls"],
    ),
    ((*asked(result(BLUE)), *asked(result(BLUE))), ["message 4: the id 'a' of a call was used before"]),
    (
        (HI, Message.assistant(ToolCall("", "look", {})), result(ToolResult("", "blue"))),
        ["message 1: a call of look has no id"],
    ),
    ((HI, Message.user()), ["message 1: it is empty"]),
    ((HI, Message.user(" ")), ["message 1: it is empty"]),
    ((Message.assistant("hello"), HI), ["message 0: an assistant message comes before the first user message"]),
    (
        (HI, Message.assistant(Thinking("hm", "sealed")), HI),
        ["message 1: the assistant message has thinking but no answer"],
    ),
    ((HI, Message.user("x", ToolCall("a", "look", {}))), ["message 1: a tool call in a message of the role user"]),
    ((HI, Message.user(Image())), ["message 1: a picture with neither bytes nor an address"]),
    (asked(result(ToolResult("a", (Image(),)))), ["message 2: a picture with neither bytes nor an address"]),
]


@pytest.mark.parametrize(("messages", "complaints"), BROKEN)
def test_what_is_wrong_is_reported_with_its_position(messages: tuple[Message, ...], complaints: list[str]) -> None:
    assert validate(Conversation(messages)) == complaints


def test_a_result_in_an_assistants_message_is_reported_twice() -> None:
    said = Conversation((HI, Message("assistant", (ToolCall("a", "look", {}), BLUE))))
    assert validate(said) == [
        "message 1: a tool result in a message of the role assistant",
        "message 1: the result 'a' does not stand right after its call",
    ]
