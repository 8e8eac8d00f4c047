"""Items of Responses that the client must answer, over real HTTP.

The answer is in the next request, behind its item.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rxworker import Finished, Worker
from rxworker.messages import JsonObject, OpaqueBlock
from rxworker.providers import OpenAIResponses
from rxworker.testing import ReplayServer, ServedResponse

COMPUTER: JsonObject = {
    "type": "computer_call",
    "id": "cu_1",
    "call_id": "call_1",
    "status": "completed",
    "pending_safety_checks": [{"id": "sc_1", "code": "malicious_instructions", "message": "Look at it."}],
    "action": {"type": "click", "button": "left", "x": 10, "y": 20},
}
SCREENSHOT: JsonObject = {
    "type": "computer_call_output",
    "call_id": "call_1",
    "acknowledged_safety_checks": [{"id": "sc_1", "code": "malicious_instructions"}],
    "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,AAAA"},
}
PATCH: JsonObject = {
    "type": "apply_patch_call",
    "id": "apc_1",
    "call_id": "call_2",
    "status": "completed",
    "operation": {"type": "update_file", "path": "a.py", "diff": "@@\n-a\n+b\n"},
}
PATCHED: JsonObject = {
    "type": "apply_patch_call_output",
    "call_id": "call_2",
    "status": "completed",
    "output": "Updated a.py.",
}
SHELL: JsonObject = {
    "type": "shell_call",
    "id": "sh_1",
    "call_id": "call_3",
    "status": "completed",
    "action": {"commands": ["ls"], "timeout_ms": 1000, "max_output_length": 100},
    "environment": {"type": "local"},
}
LISTED: JsonObject = {
    "type": "shell_call_output",
    "call_id": "call_3",
    "max_output_length": 100,
    "output": [{"stdout": "a.py\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
}
APPROVAL: JsonObject = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "name": "search",
    "arguments": '{"q":"x"}',
    "server_label": "docs",
}
APPROVED: JsonObject = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
PAIRS = ((COMPUTER, SCREENSHOT), (PATCH, PATCHED), (SHELL, LISTED), (APPROVAL, APPROVED))


def answer(*items: JsonObject) -> ServedResponse:
    """A response that consists of these items."""
    begun: JsonObject = {"id": "resp_1", "status": "in_progress", "output": []}
    events: list[JsonObject] = [{"type": "response.created", "response": begun}]
    for place, item in enumerate(items):
        for end in ("added", "done"):
            kind = f"response.output_item.{end}"
            events.append({"type": kind, "output_index": place, "item": item})
    done: JsonObject = {**begun, "status": "completed", "output": [*items]}
    events.append({"type": "response.completed", "response": done})
    return ServedResponse.from_frames(
        [b"event: %b\ndata: %b\n\n" % (str(e["type"]).encode(), msgspec.json.encode(e)) for e in events]
    )


def block(item: JsonObject) -> OpaqueBlock:
    return OpaqueBlock(str(item["type"]), item)


async def converse(answers: list[Any], *outputs: JsonObject) -> Any:
    """The input of the second request, after the client has answered the first response with these items."""
    async with ReplayServer(answers) as server:
        worker = Worker(OpenAIResponses("m", api_key="k", base_url=server.base_url))
        first = await worker.run("go")
        assert isinstance(first, Finished)
        second = await worker.run([block(output) for output in outputs])
        assert isinstance(second, Finished)
        assert second.text == "done"
        body: Any = server.requests[1].body
        return body["input"]


@pytest.mark.parametrize(("item", "output"), PAIRS)
async def test_an_item_of_the_client_is_answered_in_the_next_request(item: JsonObject, output: JsonObject) -> None:
    said = await converse([answer(item), "done"], output)
    assert said[-2:] == [item, output]


async def test_several_items_of_one_response_are_answered_together() -> None:
    items, outputs = zip(*PAIRS, strict=True)
    said = await converse([answer(*items), "done"], *outputs)
    assert said[-8:] == [*items, *outputs]


@pytest.mark.parametrize(
    ("name", "item"),
    [
        ("ResponseComputerToolCall", COMPUTER),
        ("ResponseApplyPatchToolCall", PATCH),
        ("ResponseFunctionShellToolCall", SHELL),
    ],
)
def test_the_items_have_the_shape_that_the_official_package_describes(name: str, item: JsonObject) -> None:
    responses: Any = pytest.importorskip("openai.types.responses")
    checked = getattr(responses, name).model_validate(item)
    assert checked.model_dump(exclude_unset=True, mode="json") == item


@pytest.mark.parametrize("output", [SCREENSHOT, PATCHED, LISTED, APPROVED])
def test_the_outputs_have_the_shape_that_the_official_package_describes(output: JsonObject) -> None:
    pytest.importorskip("openai")
    pydantic: Any = pytest.importorskip("pydantic")
    params: Any = pytest.importorskip("openai.types.responses.response_input_item_param")
    name = "".join(word.capitalize() for word in str(output["type"]).split("_"))
    adapter = pydantic.TypeAdapter(getattr(params, name))
    assert adapter.dump_python(adapter.validate_python(output), mode="json").keys() == output.keys()
