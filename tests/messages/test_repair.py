from __future__ import annotations

import pytest

from rxworker.messages import (
    CachePoint,
    Conversation,
    Document,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    repair,
)
from rxworker.messages.repair import NOT_RUN, OPENING

HI = Message.user("hi")
A, B = ToolCall("a", "look", {}), ToolCall("b", "find", {})
BLUE, HERE = ToolResult("a", "blue"), ToolResult("b", "here")


def mended(*messages: Message) -> tuple[Message, ...]:
    return repair(Conversation(messages)).messages


def made_up(call: ToolCall, text: str = NOT_RUN) -> ToolResult:
    return ToolResult(call.id, text, is_error=True, name=call.name)


def test_a_call_without_a_result_is_given_one_that_gives_the_reason() -> None:
    assert mended(HI, Message.assistant(A)) == (HI, Message.assistant(A), Message.user(made_up(A)))


def test_a_missing_result_goes_before_the_next_message_of_the_user() -> None:
    assert mended(HI, Message.assistant(A), HI)[2] == Message.user(made_up(A), "hi")


def test_a_result_without_a_call_is_taken_out() -> None:
    assert mended(HI, Message.user(BLUE, "and?")) == (HI, Message.user("and?"))


def test_results_spread_over_two_messages_are_gathered_instead_of_made_up() -> None:
    said = mended(HI, Message.assistant(A, B), Message.user(HERE), Message.user(BLUE, "and?"))
    assert said[2:] == (Message.user(BLUE, HERE), Message.user("and?"))


def test_a_result_behind_a_later_answer_is_brought_back_to_its_call() -> None:
    said = mended(HI, Message.assistant(A), Message.assistant("so"), Message.user(BLUE))
    assert said == (HI, Message.assistant(A), Message.user(BLUE), Message.assistant("so"))


def test_a_result_that_came_in_a_system_message_or_an_answer_is_the_users() -> None:
    expected = (HI, Message.assistant(A), Message.user(BLUE))
    assert mended(HI, Message.assistant(A), Message("system", (BLUE,))) == expected
    assert mended(HI, Message.assistant(A, BLUE)) == expected


def test_the_last_of_two_results_for_a_call_holds() -> None:
    """A result that was made up may be followed by the true one."""
    said = mended(HI, Message.assistant(A), Message.user(made_up(A)), Message.user(BLUE))
    assert said == (HI, Message.assistant(A), Message.user(BLUE))


def test_a_result_does_not_reach_behind_the_next_answer_to_change_one() -> None:
    sound = (HI, Message.assistant(A), Message.user(BLUE), Message.assistant("blue"))
    assert mended(*sound, Message.user(ToolResult("a", "red"), "no")) == (*sound, Message.user("no"))


def test_calls_of_one_id_in_one_answer_become_two_and_keep_their_results() -> None:
    other = ToolCall("a", "look", {"at": "it"})
    answers = Message.user(ToolResult("a", "blue"), ToolResult("a", "red"))
    assert mended(HI, Message.assistant(A, other), answers) == (
        HI,
        Message.assistant(A, ToolCall("a_2", "look", {"at": "it"})),
        Message.user(ToolResult("a", "blue"), ToolResult("a_2", "red")),
    )


def test_an_id_that_comes_again_in_a_later_answer_belongs_to_that_one() -> None:
    """The call of the first answer was never run; the result is that of the second."""
    said = mended(HI, Message.assistant(A), HI, Message.assistant(A), Message.user(BLUE))
    assert said[2].tool_results == (made_up(A),)
    assert said[3].tool_calls == (ToolCall("a_2", "look", {}),)
    assert said[4].tool_results == (ToolResult("a_2", "blue"),)


def test_ids_that_were_made_do_not_change_when_the_conversation_grows() -> None:
    twice = (HI, Message.assistant(A), Message.user(BLUE)) * 2
    first = mended(*twice)
    again = ToolCall("a_2", "look", {})
    grown = mended(*twice, Message.assistant(again), Message.user(ToolResult("a_2", "x")))
    assert grown[: len(first)] == first


def test_a_call_without_an_id_is_given_one() -> None:
    said = mended(HI, Message.assistant(ToolCall("", "look", {})), Message.user(ToolResult("", "x")))
    assert said[1].tool_calls[0].id == said[2].tool_results[0].tool_use_id == "call"


def test_the_reason_may_be_one_for_all_one_for_each_or_a_function() -> None:
    broken = Conversation((HI, Message.assistant(A, B)))

    def told(call: ToolCall) -> str:
        return f"{call.name} was stopped"

    def texts(conversation: Conversation) -> list[str]:
        return [r.text for r in conversation.messages[-1].tool_results]

    assert texts(repair(broken, "over")) == ["over", "over"]
    assert texts(repair(broken, {"b": "the user stopped it"})) == [NOT_RUN, "the user stopped it"]
    assert texts(repair(broken, told)) == ["look was stopped", "find was stopped"]


def test_the_reason_is_requested_by_the_id_that_the_call_had() -> None:
    broken = Conversation((HI, Message.assistant(A), Message.user(BLUE), Message.assistant(A)))
    assert repair(broken, {"a": "stopped"}).messages[-1].tool_results[0].text == "stopped"


@pytest.mark.parametrize(
    "empty", [Message.user(), Message.user(""), Message.user(CachePoint()), Message.assistant(" ")]
)
def test_an_empty_message_is_left_out(empty: Message) -> None:
    assert mended(HI, empty, HI) == (HI, HI)


def test_blank_text_with_something_to_send_back_is_kept() -> None:
    sealed = Message("assistant", (Text("", echo={"seals": []}),), "gemini")
    assert mended(HI, sealed) == (HI, sealed)


def test_thoughts_that_lead_to_nothing_are_left_out_and_others_kept() -> None:
    thought = Message.assistant(Thinking("hm", "sealed"))
    assert mended(HI, thought) == (HI,)
    assert mended(HI, thought, HI) == (HI, HI)
    call = Message.assistant(A)
    assert mended(HI, thought, call, Message.user(BLUE)) == (HI, thought, call, Message.user(BLUE))


def test_where_the_assistant_speaks_first_a_line_is_put_before_it() -> None:
    system, hello = Message.system("be brief"), Message.assistant("hello")
    assert mended(system, hello) == (system, Message.user(OPENING), hello)
    assert mended(system) == (system,)


def test_a_picture_or_document_that_was_lost_leaves_a_note() -> None:
    said = mended(Message.user("see", Image(), Document(url="u")))
    assert said == (Message.user("see", "(a picture that was lost)", Document(url="u")),)
    answered = mended(HI, Message.assistant(A), Message.user(ToolResult("a", (Document(),))))
    assert answered[2].tool_results[0].text == "(a document that was lost)"


def test_a_call_that_the_user_makes_is_taken_out() -> None:
    assert mended(Message.user("hi", A)) == (HI,)


def test_what_is_sound_is_handed_on_as_it_is() -> None:
    messages = (HI, Message.assistant(A), Message.user(BLUE))
    assert all(a is b for a, b in zip(mended(*messages), messages, strict=True))
