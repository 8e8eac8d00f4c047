from __future__ import annotations

import pytest

from rxworker.errors import LocalProtocolError
from rxworker.messages import Conversation, Message, Thinking, ToolCall, ToolResult, fork, turns

HI = Message.user("hi")
ASK, BLUE = Message.assistant(ToolCall("a", "look", {})), Message.user(ToolResult("a", "blue"))
DONE = Message.assistant("done")
SYSTEM = Message.system("now")


def lengths(*messages: Message) -> list[int]:
    return [len(turn) for turn in turns(Conversation(messages))]


def test_a_turn_is_an_answer_with_its_messages_and_the_results_of_its_tools() -> None:
    assert lengths(HI, ASK, BLUE, DONE, HI) == [3, 1, 1]


def test_of_nothing_there_are_no_turns() -> None:
    assert lengths() == []


def test_messages_before_an_answer_belong_to_it() -> None:
    assert lengths(SYSTEM, HI, HI, DONE, SYSTEM, HI, DONE) == [4, 3]


def test_an_answer_in_several_messages_is_one_turn() -> None:
    """A provider that paused goes on in a message of its own; its thoughts stay with what they led to."""
    assert lengths(HI, Message.assistant(Thinking("hm")), ASK, BLUE, DONE) == [4, 1]


def test_a_turn_ends_with_the_last_of_its_results_wherever_that_stands() -> None:
    assert lengths(HI, ASK, DONE, BLUE, DONE) == [4, 1]


def test_a_call_that_was_never_answered_ends_its_turn() -> None:
    assert lengths(HI, ASK, HI, DONE) == [2, 2]


def test_a_fork_goes_up_to_and_with_a_turn() -> None:
    said = Conversation((HI, ASK, BLUE, DONE), "Be brief.")
    assert fork(said, 0) == Conversation((HI, ASK, BLUE), "Be brief.")
    assert fork(said, 1) == fork(said, -1) == said


@pytest.mark.parametrize("turn", [2, -3])
def test_a_turn_that_never_was_is_refused(turn: int) -> None:
    with pytest.raises(LocalProtocolError, match=f"there is no turn {turn}: .* has 2"):
        fork(Conversation((HI, ASK, BLUE, DONE)), turn)
