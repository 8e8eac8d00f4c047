"""What the server's half of the AI SDK sends of an agent is a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import reactivex

from rxworker.framing import SseDecoder
from rxworker.run.run import Run, end_of
from rxworker.tap import tap
from rxworker.tap.sources import UIMessages
from rxworker.testing.conformance import lint
from tests.tap.test_wire import content, records_of

if TYPE_CHECKING:
    from conftest import Clients


async def tapped(items: list[Any]) -> Run[None]:
    run = tap(reactivex.from_iterable(items), UIMessages("agent", "Go."))
    await end_of(run)
    assert lint(records_of(run)) == []
    return run


TOOLS: list[Any] = [
    ("user", [("Text", "Go.")]),
    (
        "assistant",
        [
            ("Thinking", "Hm"),
            ("Text", "I look."),
            ("ToolCall", ("look", {"city": "K"})),
            ("ToolCall", ("fails", {"a": 1})),
        ],
    ),
    ("user", [("ToolResult", ("rain in K", False, "look")), ("ToolResult", ("no", True, "fails"))]),
    ("assistant", [("Text", "Done.")]),
]
CLIENT: list[Any] = [TOOLS[0], ("assistant", [("ToolCall", ("open_tab", {"url": "x"}))])]


@pytest.mark.parametrize(
    ("name", "status", "messages"),
    [("tools", "finished", TOOLS), ("client", "paused", CLIENT), ("error", "aborted", None)],
)
async def test_a_stream_of_the_ai_sdk_is_a_run(clients: Clients, name: str, status: str, messages: Any) -> None:
    told = await clients.ask("ai_sdk_stream", name=name)
    frames = SseDecoder().feed(told["body"].encode())
    items = [msgspec.json.decode(frame.data) for frame in frames if frame.data != b"[DONE]"]
    run = await tapped(items)
    assert run.state.status == status, items
    if messages is None:
        assert run.state.reason == "overloaded"
    else:
        assert content(run.state.conversation) == messages
    for cut in range(1, len(items)):
        await tapped(items[:cut])
