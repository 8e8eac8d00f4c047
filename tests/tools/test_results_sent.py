"""What tools return, as the providers receive it: text, JSON and pictures."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rxworker import Worker, tool
from rxworker.messages import Image, Text
from rxworker.providers import Anthropic, OpenAIChat
from rxworker.testing import ReplayServer, call, say


class Place(msgspec.Struct):
    city: str
    at: tuple[float, float]


@tool
async def text() -> str:
    """Text."""
    return "plain"


@tool
async def value() -> Place:
    """A value."""
    return Place("Oslo", (59.9, 10.7))


@tool
async def picture() -> list[Image | str]:
    """A picture."""
    return ["Look:", Image(data="iVBORw0KGgo=")]


@tool
async def block() -> Text:
    """A block."""
    return Text("one block")


@tool
async def broken() -> str:
    """It fails."""
    raise ValueError("no")


TOOLS = [text, value, picture, block, broken]


async def sent(make: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The messages of the second request, with the results in them."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    calls = call("text") + call("value") + call("picture") + call("block") + call("broken")
    with ReplayServer([calls, say("Done.")]) as server:
        provider = make("a-model", api_key="none", base_url=server.base_url)
        assert (await Worker(provider, tools=TOOLS).run("go")).text == "Done."
        body: Any = server.requests[1].body
    return body["messages"]


async def test_anthropic_receives_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    results = (await sent(Anthropic, monkeypatch))[-1]["content"]
    assert [r["type"] for r in results] == ["tool_result"] * 5
    assert results[0]["content"] in ("plain", [{"type": "text", "text": "plain"}])
    assert '{"city":"Oslo","at":[59.9,10.7]}' in (
        results[1]["content"],
        results[1]["content"][0]["text"] if isinstance(results[1]["content"], list) else "",
    )
    label, image = results[2]["content"]
    assert label == {"type": "text", "text": "Look:"}
    assert image["source"] == {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    assert results[4]["is_error"] is True


async def test_chat_receives_texts_and_the_picture_right_after_them(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = await sent(OpenAIChat, monkeypatch)
    results = [message for message in messages if message["role"] == "tool"]
    assert [r["tool_call_id"] for r in results] == [f"call_1_{n}" for n in range(1, 6)]
    assert results[0]["content"] == "plain"
    assert results[1]["content"] == '{"city":"Oslo","at":[59.9,10.7]}'
    assert "ValueError: no" in str(results[4]["content"])
    assert "data:image/png;base64,iVBORw0KGgo=" in str(messages)
