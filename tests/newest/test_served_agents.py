"""Agents of other libraries at an address: AG-UI, the AI SDK, and their spans over OTLP."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import pytest

from rxworker.run.run import Run, end_of
from rxworker.tap import tap, tap_each
from rxworker.tap.sources import AGUI, OTLP, OTLPReceiver, ag_ui_events
from rxworker.testing.conformance import lint
from tests.tap import peers
from tests.tap.test_wire import content, records_of


@pytest.mark.timeout(peers.PATIENCE + 120)
async def test_an_agent_of_pydantic_ai_by_address_and_by_its_spans() -> None:
    """The newest version, in a process of its own."""
    python = await asyncio.to_thread(peers.python_of, "ag_ui")
    runs: list[Run[None]] = []
    async with OTLPReceiver(port=0, settle=0.2) as receiver:
        each = tap_each(receiver, OTLP())
        each.runs.subscribe(runs.append)
        program = [python, "-W", "ignore", str(peers.ROOT / "tests" / "tap" / "serve_ag_ui.py"), receiver.url]
        own = {**os.environ, "PYTHONPATH": str(peers.ROOT)}
        served = await asyncio.create_subprocess_exec(*program, stdout=asyncio.subprocess.PIPE, env=own)
        try:
            assert served.stdout is not None
            url = (await served.stdout.readline()).decode().strip()
            run = tap(ag_ui_events(url, "Go."), AGUI())
            await end_of(run)
            reported: Any = json.loads(await served.stdout.readline())
        finally:
            served.terminate()
            await served.wait()
    await each.ended()
    (spans,) = runs
    assert lint(records_of(run)) == lint(records_of(spans)) == []
    results: list[Any] = [("ToolResult", ("rain in K", False, "look")), ("ToolResult", ("no", True, "fails"))]
    calls: list[Any] = [("ToolCall", ("look", {"city": "K"})), ("ToolCall", ("fails", {}))]
    expected: list[Any] = [
        ("user", [("Text", "Go.")]),
        ("assistant", [("Thinking", "Hm"), ("Text", "I look."), *calls]),
        ("user", results),
        ("assistant", [("Text", reported["text"])]),
    ]
    assert content(spans.state.conversation) == expected
    assert [spans.state.usage.input_tokens, spans.state.usage.output_tokens] == reported["usage"]
    assert (spans.state.turns, spans.state.tool_calls, spans.state.labels["agent"]) == (2, 2, "desk")
    results[1] = ("ToolResult", ("no", False, "fails"))  # AG-UI does not report that a tool has failed
    assert content(run.state.conversation) == expected
    assert (run.state.status, run.state.turns, run.state.usage.input_tokens) == ("finished", 2, None)
