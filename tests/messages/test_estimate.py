from __future__ import annotations

import pytest

from rxworker.messages import (
    Audio,
    CachePoint,
    Content,
    Document,
    Image,
    Message,
    OpaqueBlock,
    ServerToolCall,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    estimate,
)

NOTHING = estimate(Message.user())


def test_a_token_is_four_bytes() -> None:
    assert estimate(Message.user("x" * 400)) == NOTHING + 100
    assert estimate(Message.user("あ" * 400)) == NOTHING + 300


@pytest.mark.parametrize(
    ("small", "large"),
    [
        (Text("a"), Text("a" * 100)),
        (Thinking("a"), Thinking("a" * 100)),
        (Thinking(""), Thinking("", "sealed" * 50)),
        (Thinking(""), Thinking("", None, {"data": "x" * 100})),
        (ToolCall("a", "look", {}), ToolCall("a", "look", {"at": ["x" * 100]})),
        (ToolCall("a", "look", ""), ToolCall("a", "look", "{oh" * 100)),
        (ToolResult("a", ""), ToolResult("a", "blue" * 100)),
        (ToolResult("a", (Text("x"),)), ToolResult("a", (Text("x"), Image(data="AAAA")))),
        (CachePoint(), Image(url="u")),
        (Audio(data="A" * 80_000), Audio(data="A" * 800_000)),
        (Text(""), Audio(data="A")),
        (Image(data="A" * 10), Document(data="A" * 10)),
        (Document(data="A", media_type="text/plain"), Document(data="A" * 90, media_type="text/x")),
        (ServerToolCall("a", "x", {"q": "y"}), ServerToolCall("a", "x", {"q": "y" * 100})),
        (OpaqueBlock("x"), OpaqueBlock("x", {"data": "x" * 100})),
    ],
)
def test_what_is_larger_counts_for_more(small: Content, large: Content) -> None:
    assert estimate(Message.user(small)) < estimate(Message.user(large))


def test_a_picture_counts_the_same_whatever_its_bytes() -> None:
    small, large = Image(data="A"), Image(data="A" * 10_000)
    assert estimate(Message.user(small)) == estimate(Message.user(large))


def test_what_is_not_json_counts_all_the_same() -> None:
    assert estimate(Message.assistant(ToolCall("a", "look", {"at": "\ud83d"}))) > NOTHING
    assert estimate(Message.user("\ud83d")) > NOTHING
