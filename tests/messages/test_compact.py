from __future__ import annotations

import pytest

from rxworker.errors import LocalProtocolError
from rxworker.messages import Conversation, Message, ToolCall, ToolResult, compact

ASK, BLUE = Message.assistant(ToolCall("a", "look", {})), Message.user(ToolResult("a", "blue"))
SAID = Conversation(
    (
        Message.user("one"),
        Message.assistant("1"),
        Message.system("now"),
        Message.user("two"),
        ASK,
        BLUE,
        Message.assistant("2"),
    ),
    "Be brief.",
)


def test_the_oldest_turns_become_a_summary_and_system_messages_stay() -> None:
    summary = Message.user("They counted.")
    assert compact(SAID, summary, keep=1) == Conversation(
        (Message.system("now"), summary, Message.assistant("2")), "Be brief."
    )
    assert compact(SAID, summary, keep=2).messages == (summary, *SAID.messages[2:])


def test_a_conversation_of_few_turns_stays_as_it_is() -> None:
    assert compact(SAID, "They counted.", keep=3) is SAID


def test_a_later_summary_takes_the_place_of_an_earlier_one() -> None:
    once = compact(SAID, "They counted to one.", keep=2)
    twice = compact(once.add(Message.user("three"), Message.assistant("3")), "To two.", keep=1)
    assert [m.text for m in twice.messages if "Summary" in m.text] == ["Summary of the conversation so far:\n\nTo two."]


def test_the_last_turn_cannot_be_replaced() -> None:
    with pytest.raises(LocalProtocolError, match="keep=0"):
        compact(SAID, "They counted.", keep=0)
