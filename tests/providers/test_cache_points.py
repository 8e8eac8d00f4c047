"""What of a request may be cached: marks for Anthropic, nothing for the others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rxworker.messages import (
    CachePoint,
    Content,
    Conversation,
    JsonObject,
    Message,
    OpaqueBlock,
    Text,
    Thinking,
    ToolCall,
    ToolMeta,
    ToolResult,
    repair,
)
from rxworker.providers import PROVIDERS, Anthropic, Options

MARK = {"type": "ephemeral"}
TOOLS = tuple(ToolMeta(name, "", {"type": "object"}) for name in ("look", "listen"))


def body_of(conversation: Conversation, *tools: ToolMeta, **options: Any) -> dict[str, Any]:
    request = Anthropic("m", api_key="k").request(conversation, tools, Options(**options))
    return msgspec.json.decode(request.body)


def marks(body: dict[str, Any]) -> list[Any]:
    blocks = [block for message in body["messages"] for block in message["content"]]
    return [(b.get("text") or b["type"], b["cache_control"]) for b in blocks if "cache_control" in b]


def own(*content: Content) -> Message:
    return Message("assistant", content, provider="anthropic")


def test_a_point_marks_the_block_before_it() -> None:
    said = Conversation((Message.user("long", CachePoint(), "short"),))
    assert marks(body_of(said)) == [("long", MARK)]


def test_a_point_has_its_ttl() -> None:
    said = Conversation((Message.user("long", CachePoint("1h")),))
    assert marks(body_of(said)) == [("long", {"type": "ephemeral", "ttl": "1h"})]


def test_a_point_at_the_start_of_a_message_marks_the_message_before() -> None:
    said = Conversation((Message.user("hi"), own(*Message.user("yes").content)))
    said = said.add(Message.user(CachePoint(), "and?"))
    assert marks(body_of(said)) == [("yes", MARK)]


def test_a_point_alone_makes_no_message() -> None:
    said = Conversation((Message.user("hi"), Message.user(CachePoint())))
    assert body_of(said)["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": MARK}]}
    ]


def test_a_point_behind_thinking_marks_what_stands_before_the_thinking() -> None:
    said = Conversation((Message.user("hi"),))
    call = ToolCall("t", "look", {})
    said = said.add(own(call, Thinking("hm", "sig"), CachePoint()))
    said = said.add(Message.user(ToolResult("t", "sky"), CachePoint()))
    assert marks(body_of(said)) == [("tool_use", MARK), ("tool_result", MARK)]


def test_a_mark_leaves_the_echo_as_it_was() -> None:
    echo: JsonObject = {"type": "compaction", "content": "short"}
    said = Conversation((own(OpaqueBlock("compaction", echo), CachePoint()),))
    assert marks(body_of(said)) == [("compaction", MARK)]
    assert echo == {"type": "compaction", "content": "short"}


def test_of_more_than_four_points_the_last_four_count() -> None:
    content = [part for n in range(6) for part in (f"t{n}", CachePoint())]
    said = Conversation((Message.user(*content),), system="S")
    assert [text for text, _ in marks(body_of(said))] == ["t2", "t3", "t4", "t5"]
    shown = body_of(said, *TOOLS, cache=("tools", "system"))
    assert [text for text, _ in marks(shown)] == ["t4", "t5"]


def test_options_mark_the_last_tool_and_the_system_text() -> None:
    said = Conversation((Message.user("hi"),), system="S")
    body = body_of(said, *TOOLS, cache=("tools", "system"))
    assert body["system"] == [{"type": "text", "text": "S", "cache_control": MARK}]
    assert ["cache_control" in tool for tool in body["tools"]] == [False, True]
    assert marks(body) == []


def test_options_that_mark_what_is_not_there_change_nothing() -> None:
    said = Conversation((Message.user("hi"),))
    assert body_of(said, cache=("tools", "system")) == body_of(said)


@pytest.mark.parametrize(
    "said",
    [
        Conversation((Message.user(CachePoint("1h"), "hi"),), system="S"),
        Conversation((Message("system", (*Message.system("S").content, CachePoint("1h"))),)).add(Message.user("hi")),
    ],
)
def test_a_point_before_everything_marks_the_system_text(said: Conversation) -> None:
    body = body_of(said, *TOOLS)
    mark = {"type": "ephemeral", "ttl": "1h"}
    assert body["system"] == [{"type": "text", "text": "S", "cache_control": mark}]
    assert "cache_control" not in body["tools"][-1]
    assert marks(body) == []


@pytest.mark.parametrize("cache", [(), ("system",)])
def test_a_point_between_two_texts_of_a_system_message_marks_the_first_alone(cache: Any) -> None:
    system = Message("system", (Text("Always."), CachePoint(), Text("Today is Monday.")))
    said = Conversation((Message("system", Message.system("You.").content), system), system="S")
    body = body_of(said.add(Message.user("hi")), *TOOLS, cache=cache)
    last = {"type": "text", "text": "Today is Monday."} | ({"cache_control": MARK} if cache else {})
    first = {"type": "text", "text": "S\n\nYou.\n\nAlways.", "cache_control": MARK}
    assert body["system"] == [first, last]
    assert marks(body) == []
    assert not any("cache_control" in tool for tool in body["tools"])


def test_a_point_before_the_system_text_marks_the_tools() -> None:
    said = Conversation((Message("system", (CachePoint(), Text("S"))), Message.user("hi")))
    body = body_of(said, *TOOLS)
    assert (body["system"], body["tools"][-1]["cache_control"]) == ("S", MARK)


def test_a_point_before_everything_marks_the_tools_where_there_is_no_system_text() -> None:
    body = body_of(Conversation((Message.user(CachePoint(), "hi"),)), *TOOLS)
    assert body["tools"][-1]["cache_control"] == MARK


@pytest.mark.parametrize("name", [name for name in PROVIDERS if name not in ("anthropic", "bedrock")])
def test_other_providers_leave_the_marks_out(name: str) -> None:
    """The body is the one without them."""
    call = ToolCall("call_1", "look", {})
    bare = Conversation((Message.user("hi"), Message.assistant("I look.", call)), system="S").add(
        Message.user(ToolResult("call_1", "sky"), "and?")
    )
    marked = bare.with_messages(Message(m.role, (CachePoint(), *m.content, CachePoint("1h"))) for m in bare.messages)
    provider = PROVIDERS[name]("m", api_key="k")
    expected = provider.request(bare, TOOLS, Options()).body
    assert provider.request(marked, TOOLS, Options(cache=("tools", "system"))).body == expected


def test_points_travel_as_json_and_survive_a_repair() -> None:
    said = Conversation((Message.user("hi", CachePoint("5m")),))
    assert msgspec.json.decode(msgspec.json.encode(said), type=Conversation) == said
    assert repair(said) == said


HOUR = {"type": "ephemeral", "ttl": "1h"}


def test_what_stands_before_a_mark_lives_at_least_as_long_since_anthropic_refuses_anything_else() -> None:
    content = ("a", CachePoint(), "b", CachePoint("1h"), "c", CachePoint())
    body = body_of(Conversation((Message.user(*content),), system="S"), cache=("system",))
    assert body["system"][0]["cache_control"] == HOUR
    assert marks(body) == [("a", HOUR), ("b", HOUR), ("c", MARK)]
    marked = msgspec.structs.replace(TOOLS[0], cache_control=CachePoint())
    body = body_of(Conversation((Message.user("hi", CachePoint("1h")),)), marked)
    assert body["tools"][0]["cache_control"] == HOUR


def test_the_lifetime_of_the_parts_of_a_request_is_an_option() -> None:
    said = Conversation((Message.user("hi"),), system="S")
    body = body_of(said, *TOOLS, cache=("tools", "system"), cache_ttl="1h")
    assert body["system"][0]["cache_control"] == body["tools"][-1]["cache_control"] == HOUR
