"""Chaining: what is sent after a response, together with what the service holds, is the whole input.

Else it is sent whole.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxworker.errors import LocalProtocolError
from rxworker.messages import Conversation, Json, JsonObject, Message, Text, Thinking, ToolCall, ToolResult
from rxworker.providers import OpenAIResponses, Options
from rxworker.providers.openai_responses.chain import Creation, Held, Output, read_event
from rxworker.state import ResponseState, message_of, step_response
from rxworker.testing import Reply, call, openai_responses_frames, say, think

HELLO: JsonObject = {"role": "user", "content": "hello"}
ANSWER: JsonObject = {"type": "message", "id": "msg_1", "content": [{"text": "hi"}]}
MORE: JsonObject = {"role": "user", "content": "more"}


def creation(*items: Json, **members: Json) -> Creation:
    body = {"model": "m", "input": list(items), "stream": True, **members}
    return Creation.read(msgspec.json.encode(body))


def held(sent: Creation, *output: Json, name: str = "resp_1") -> Held:
    return Held(sent, name, [*output])


def event(create: Creation, after: Held | None = None) -> dict[str, Any]:
    return msgspec.json.decode(create.event(after))


def test_an_event_is_the_body_without_what_is_of_http() -> None:
    create = creation(HELLO, instructions="be brief", store=False, background=False)
    assert event(create) == {
        "type": "response.create",
        "model": "m",
        "instructions": "be brief",
        "store": False,
        "input": [HELLO],
    }


def test_a_request_that_continues_a_response_has_what_is_new_and_all_its_settings() -> None:
    before = held(creation(HELLO), ANSWER)
    create = creation(HELLO, ANSWER, MORE, instructions="be brief")
    assert create.continues(before)
    assert event(create, before) == {
        "type": "response.create",
        "model": "m",
        "instructions": "be brief",
        "previous_response_id": "resp_1",
        "input": [MORE],
    }


@pytest.mark.parametrize(
    "create",
    [
        creation(HELLO, MORE),  # the answer is missing
        creation(MORE, ANSWER, MORE),  # another beginning
        creation(HELLO),
        creation(HELLO, {**ANSWER, "content": [{"text": "ha"}]}, MORE),  # a hook changed it
        creation(HELLO, {**ANSWER, "status": "completed"}, MORE),
        creation(HELLO, ANSWER, MORE, model="n"),
        creation(HELLO, ANSWER, MORE, previous_response_id="resp_0"),
        creation(HELLO, ANSWER, MORE, conversation="conv_1"),
    ],
)
def test_any_other_request_continues_nothing(create: Creation) -> None:
    assert not create.continues(held(creation(HELLO), ANSWER))


def test_what_continued_something_of_the_program_is_not_continued() -> None:
    before = held(creation(HELLO, previous_response_id="resp_0"), ANSWER)
    assert not creation(HELLO, ANSWER, MORE).continues(before)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"input": "text"}', b'{"messages": []}', b'{"input": [1'], ids=str
)
def test_other_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(LocalProtocolError, match="OpenAIResponses"):
        Creation.read(body)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("response.completed", True),
        ("response.incomplete", True),
        ("response.failed", False),
        ("response.cancelled", False),
        ("response.in_progress", False),
    ],
)
def test_a_response_that_ended_well_is_held(kind: str, expected: bool) -> None:
    response = {"id": "resp_1", "output": [ANSWER]}
    last = msgspec.json.encode({"type": kind, "response": response})
    now = Output(creation(HELLO)).take(read_event(last))
    assert (now == held(creation(HELLO), ANSWER)) is expected


def test_items_are_held_in_their_places_as_they_were_when_they_were_done() -> None:
    output = Output(creation(HELLO))
    for place, item in ((1, MORE), (0, ANSWER)):
        done: JsonObject = {"type": "response.output_item.done", "output_index": place}
        output.take(read_event(msgspec.json.encode({**done, "item": item})))
    last = b'{"type": "response.completed", "response": {"id": "resp_1", "output": []}}'
    assert output.take(read_event(last)) == held(creation(HELLO), ANSWER, MORE)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"type": 1}',
        b'{"type": "response.completed", "response": 1}',
        b'{"type": "response.completed", "response": {"id": 1}}',
        b'{"type": "response.completed", "response": {}}',
        b'{"type": "response.output_item.done", "output_index": "x", "item": {}}',
    ],
)
def test_what_cannot_be_read_holds_nothing(data: bytes) -> None:
    assert Output(creation(HELLO)).take(read_event(data)) is None


def test_an_error_has_its_code_wherever_it_can_be_read() -> None:
    assert read_event(b'{"type": "error", "error": {"code": "a"}}').code == "a"
    assert read_event(b'{"type": "error", "error": "broken"}').code is None
    assert read_event(b'{"type": "error", "status": "x", "headers": 1}').type == "error"


REPLIES = st.sampled_from(
    [
        say("Hello"),
        think("Hm.") + say("Hello"),
        call("look", at="a"),
        think("Hm.") + call("look", at="a") + call("look", at="b"),
        say("Let me see.") + call("look"),
    ]
)
PROVIDER = OpenAIResponses("m", api_key="k")


def body_of(conversation: Conversation) -> bytes:
    return PROVIDER.request(conversation, (), Options()).body


def received(reply: Reply, number: int, output: Output) -> tuple[Message, Held | None]:
    """The answer as the conversation has it, and what the service holds."""
    decoder, state, now = PROVIDER.decoder(), ResponseState(), None
    for frame in openai_responses_frames(reply, number=number):
        for one in decoder.feed(frame):
            state = step_response(state, one)
        now = output.take(read_event(frame.partition(b"data: ")[2])) or now
    message = message_of(state, PROVIDER.name)
    assert message is not None
    return message, now


def results(message: Message) -> Message:
    calls = [block.id for block in message.content if isinstance(block, ToolCall)]
    return Message("user", tuple(ToolResult(one, "seen") for one in calls) or (Text("go on"),))


@given(st.lists(REPLIES, min_size=1, max_size=4), st.booleans(), st.integers(0, 3))
def test_what_the_service_holds_and_what_is_sent_are_the_whole_input(
    replies: list[Reply], is_changed: bool, at: int
) -> None:
    """For answers of all sorts; a conversation that was changed anywhere is sent whole."""
    messages: list[Message] = [Message.user("hello")]
    context: list[Json] = []
    before: Held | None = None
    for number, reply in enumerate(replies):
        create = Creation.read(body_of(Conversation(tuple(messages))))
        assert before is None or create.continues(before)
        sent = event(create, before)
        context = [*context, *sent["input"]] if before else sent["input"]
        assert context == event(create)["input"]
        message, before = received(reply, number, Output(create))
        assert before is not None
        context += before.output
        messages += [message, results(message)]
    if is_changed and before is not None:
        place = at % (len(messages) - 1)  # the last one is new
        messages[place] = changed(messages[place])
        assert not Creation.read(body_of(Conversation(tuple(messages)))).continues(before)


def changed(message: Message) -> Message:
    """The message with another content, as after a hook."""
    first = message.content[0]
    if isinstance(first, Thinking):
        content = message.content[1:]
    elif isinstance(first, ToolCall):
        content = (Text("instead"), *message.content)
    else:
        content = (Text("another"), *message.content[1:])
    return msgspec.structs.replace(message, content=content)
