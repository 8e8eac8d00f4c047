from __future__ import annotations

from rxworker.messages import Conversation, Message, ToolCall, ToolResult, trim

SYSTEM = Message.system("now")


def one(_: Message) -> int:
    return 1


def question(text: str, rounds: int = 0) -> tuple[Message, ...]:
    """A question, rounds of tools, and the answer."""
    worked = [
        message
        for n in range(rounds)
        for message in (
            Message.assistant(ToolCall(f"{text}-{n}", "look", {})),
            Message.user(ToolResult(f"{text}-{n}", "seen")),
        )
    ]
    return (Message.user(text), *worked, Message.assistant(f"{text}!"))


def test_the_oldest_turns_go_first() -> None:
    said = Conversation((*question("one"), *question("two"), *question("three")))
    assert trim(said, 6, one) == said
    assert trim(said, 5, one).messages == said.messages[2:]
    assert trim(said, 3, one).messages == said.messages[4:]


def test_the_last_turn_stays_whatever_it_takes() -> None:
    said = Conversation((*question("one"), *question("two")))
    assert trim(said, 0, one).messages == question("two")


def test_rounds_of_tools_go_before_the_question_that_they_are_for() -> None:
    said = Conversation((*question("old"), *question("new", rounds=3)))
    asked, *_, last_call, last_result, answer = question("new", rounds=3)
    assert trim(said, 4, one).messages == (asked, last_call, last_result, answer)
    assert trim(said, 3, one).messages == (asked, answer)
    assert trim(said, 2, one).messages == (asked, answer)


def test_the_system_text_and_system_messages_stay_and_count() -> None:
    said = Conversation((SYSTEM, *question("one"), SYSTEM, *question("two")), "Be brief.")
    assert trim(said, 7, one) == said
    left = Conversation((SYSTEM, SYSTEM, *question("two")), "Be brief.")
    assert trim(said, 6, one) == trim(said, 0, one) == left


def test_the_first_turns_stay_on_request() -> None:
    said = Conversation((*question("example"), *question("old"), *question("new")))
    left = (*question("example"), *question("new"))
    assert trim(said, 4, one, keep_first=1).messages == left
    assert trim(said, 0, one, keep_first=1).messages == left
    assert trim(said, 0, one, keep_first=9) == said


def test_each_message_is_counted_once() -> None:
    counted: list[Message] = []

    def count(message: Message) -> int:
        counted.append(message)
        return 1

    said = Conversation(tuple(m for n in range(50) for m in question(str(n), rounds=2)))
    trim(said, 20, count)
    assert len(counted) == len(said.messages)
