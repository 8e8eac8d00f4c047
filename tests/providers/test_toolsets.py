"""The toolsets of Anthropic's: one entry of the request for all members, whose calls and results name it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rxworker import Worker, tool
from rxworker.errors import ConfigurationError
from rxworker.messages import CachePoint, Conversation, JsonObject, Message, ToolMeta, ToolResult
from rxworker.providers import Anthropic, AnthropicBedrock, Options
from rxworker.providers.anthropic.options import MEMBERS
from rxworker.testing import ReplayServer
from tests.decoded import answer_of, decoded

COMPUTER: JsonObject = {"type": "computer_toolset_20260801"}
PLAIN = ToolMeta("look", "Look.", {"type": "object"})
SAID = Message.user("Click.")
CLAUDE = Anthropic("claude-sonnet-5-5", api_key="k")


def member(name: str, native: JsonObject = COMPUTER, **more: Any) -> ToolMeta:
    return ToolMeta(name, "Mine.", {"type": "object"}, native=native, **more)


def tools_of(*tools: ToolMeta, **options: Any) -> list[Any]:
    request = CLAUDE.request(Conversation((SAID,)), tools, Options(**options))
    return json.loads(request.body)["tools"]


def test_all_members_are_one_entry_without_a_name_and_the_others_are_turned_off() -> None:
    entry, plain = tools_of(member("left_click"), PLAIN, member("screenshot"))
    assert plain["name"] == "look"
    configs = entry.pop("configs")
    assert entry == COMPUTER
    assert configs == {
        name: {"enabled": False}
        for name in MEMBERS["computer_toolset_20260801"]
        if name not in ("left_click", "screenshot")
    }
    types: Any = pytest.importorskip("anthropic.types.beta")
    pydantic: Any = pytest.importorskip("pydantic")
    param = types.BetaComputerToolset20260801Param
    sent = entry | {"configs": configs}
    assert pydantic.TypeAdapter(param).validate_python(sent) == sent
    assert sorted(types.BETA_COMPUTER_MEMBER_NAME_VALUES) == sorted(MEMBERS["computer_toolset_20260801"])


def test_a_whole_toolset_and_one_that_is_not_known_need_no_settings() -> None:
    whole = [member(name) for name in MEMBERS["computer_toolset_20260801"]]
    assert tools_of(*whole) == [COMPUTER]
    browser: JsonObject = {"type": "browser_toolset_20260801"}
    settings: JsonObject = {"configs": {"find": {"enabled": False}}}
    assert tools_of(member("navigate", browser | settings)) == [browser | settings]


def test_the_mark_of_a_member_is_that_of_the_toolset() -> None:
    entry, _ = tools_of(member("key", cache_control=CachePoint("1h")), PLAIN)
    assert entry["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    (entry,) = tools_of(member("key"), cache="auto")
    assert entry["cache_control"] == {"type": "ephemeral"}


@pytest.mark.parametrize(
    ("meta", "error"),
    [
        (member("press"), "'press' is not a member of computer_toolset_20260801: .*key"),
        (member("key", strict=True), "takes neither strict"),
        (member("key", defer_loading=True), "takes neither strict"),
    ],
)
def test_what_a_toolset_does_not_have_is_refused(meta: ToolMeta, error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        tools_of(meta)


def frames(*events: JsonObject) -> bytes:
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


CLICK: JsonObject = {"type": "tool_use", "id": "toolu_1", "name": "left_click", "input": {}, "toolset_name": "computer"}
ANSWER = frames(
    {"type": "message_start", "message": {"id": "msg_1", "model": "m", "content": []}},
    {"type": "content_block_start", "index": 0, "content_block": CLICK},
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": '{"coordinate": [3, 4]}'},
    },
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}},
    {"type": "message_stop"},
)


@pytest.mark.parametrize("provider", [CLAUDE, AnthropicBedrock("anthropic.m", region="us-east-1", api_key="k")])
def test_a_call_of_a_member_and_its_result_go_back_with_their_toolset(provider: Any) -> None:
    answer = answer_of(decoded(CLAUDE, ANSWER), "anthropic")
    result = Message.user(ToolResult("toolu_1", "Clicked."))
    conversation = Conversation((SAID, answer, result, SAID))
    body = json.loads(provider.request(conversation, (), Options()).body)
    assert body["messages"][1]["content"] == [CLICK | {"input": {"coordinate": [3, 4]}}]
    sent = body["messages"][2]["content"][0]
    assert sent == {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Clicked.", "toolset_name": "computer"}
    types: Any = pytest.importorskip("anthropic.types.beta")
    assert sent.keys() <= types.BetaToolResultBlockParam.__annotations__.keys()


async def test_a_worker_runs_a_member_like_any_other_tool(tmp_path: Path) -> None:
    @tool(native=COMPUTER, barrier=True)
    def left_click(coordinate: list[int], text: str = "") -> str:
        return f"Clicked at {coordinate}."

    stream = tmp_path / "stream"
    stream.write_bytes(ANSWER)
    async with ReplayServer([stream, "Done."]) as server:
        model = Anthropic("claude-sonnet-5-5", api_key="k", base_url=server.base_url)
        result = await Worker(model, tools=[left_click]).run("Click.")
        bodies: list[Any] = [request.body for request in server.requests]
    assert result.text == "Done."
    sent = bodies[1]["messages"][-1]["content"][0]
    assert (sent["content"], sent["toolset_name"]) == ("Clicked at [3, 4].", "computer")
    assert "name" not in bodies[1]["tools"][0]
