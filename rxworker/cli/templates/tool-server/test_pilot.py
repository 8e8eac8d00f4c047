"""The pilot as a client of the Model Context Protocol sees it."""

import asyncio

import mcp
import pilot
import pytest
from rxworker.adapters.mcp import McpServer
from rxworker.testing import ScriptedModel, call, say


async def question(message: str) -> str:
    async with McpServer({"pilot": pilot.make_pilot}).listen() as url, mcp.Client(url) as client:
        [offered] = (await client.list_tools()).tools
        assert offered.description is not None
        assert "Knows when the water is high" in offered.description
        result = await client.call_tool("pilot", {"message": message})
        return " ".join(part.text for part in result.content if part.type == "text")


def test_a_client_receives_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedModel([call("high_water", harbour="Dover"), say("At 04:45.")])
    monkeypatch.setattr(pilot, "make_model", lambda: model)
    assert "At 04:45." in asyncio.run(question("When, in Dover?"))
    assert model.requests[1].conversation.messages[-1].tool_results[0].text == "04:45"
