"""An answer of another service: its words and calls go to each service, and nothing that only the other understands."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rxworker.messages import (
    Conversation,
    Image,
    JsonObject,
    Message,
    OpaqueBlock,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from rxworker.providers import PROVIDERS, Options

PICTURE = "iVBORw0KGgo="
# What each service keeps for the echo.
ODD: JsonObject = {
    "type": "odd",
    "field": "reasoning_content",
    "thoughtSignature": "S",
    "extra_content": {},
    "caller": {},
    "inlineData": {"mimeType": "image/png", "data": "AAAA"},
    "step": {"type": "odd", "signature": "S"},
    "content": {"type": "image"},
    "item": {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "S"},
    "output_index": 0,
    "length": 3,
    "seals": [[0, 3, "S"]],
}
FOREIGN = Message(
    "assistant",
    (
        Thinking("hm", "sealed", ODD),
        ServerToolCall("s", "search", {}, ODD),
        ServerToolResult("s", "found", ODD),
        OpaqueBlock("odd", ODD),
        Text("yes", ({"type": "odd", "url": "u"},), ODD),
        Image(echo=ODD),
        Image(data=PICTURE),
        Refusal("no"),
        ToolCall("functions.look:0", "look", {"at": "sky"}, ODD),
    ),
    provider="another",
)
HISTORY = Conversation((Message.user("hi"), FOREIGN, Message.user(ToolResult("functions.look:0", "blue", name="look"))))
NAMED = "functions_look_0_ec000204"  # where a point and a colon are no letters of an id
LOOK = {"name": "look", "arguments": '{"at":"sky"}'}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def said(role: str, *content: Any) -> dict[str, Any]:
    return {"role": role, "content": [*content]}


def output(content: Any) -> dict[str, Any]:
    return {"type": "model_output", "content": [content]}


SENT: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        said(
            "assistant",
            *(text("yes"), text("no")),
            {"type": "tool_use", "id": NAMED, "name": "look", "input": {"at": "sky"}},
        ),
        said("user", {"type": "tool_result", "tool_use_id": NAMED, "content": "blue"}),
    ],
    "bedrock": [
        said(
            "assistant",
            *({"text": "yes"}, {"text": "no"}),
            {"toolUse": {"toolUseId": NAMED, "name": "look", "input": {"at": "sky"}}},
        ),
        said("user", {"toolResult": {"toolUseId": NAMED, "content": [{"text": "blue"}]}}),
    ],
    "gemini": [
        {
            "role": "model",
            "parts": [
                *({"text": "yes"}, {"inlineData": {"mimeType": "image/png", "data": PICTURE}}, {"text": "no"}),
                {"functionCall": {"name": "look", "args": {"at": "sky"}}},
            ],
        },
        {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"output": "blue"}}}]},
    ],
    "gemini_interactions": [
        output(text("yes")),
        output({"type": "image", "mime_type": "image/png", "data": PICTURE}),
        output(text("no")),
        {"type": "function_call", "id": "functions.look:0", "name": "look", "arguments": {"at": "sky"}},
        {"type": "function_result", "call_id": "functions.look:0", "name": "look", "result": "blue"},
    ],
    "ollama": [
        {
            "role": "assistant",
            "content": "yesno",
            "tool_calls": [{"function": {"name": "look", "arguments": {"at": "sky"}}}],
        },
        {"role": "tool", "content": "blue", "tool_name": "look"},
    ],
    "openai_chat": [
        {
            "role": "assistant",
            "content": "yesno",
            "tool_calls": [{"id": "functions.look:0", "type": "function", "function": LOOK}],
        },
        {"role": "tool", "tool_call_id": "functions.look:0", "content": "blue"},
    ],
    "openai_responses": [
        {"role": "assistant", "content": "yes"},
        {"role": "assistant", "content": "no"},
        {"type": "function_call", "call_id": NAMED, **LOOK},
        {"type": "function_call_output", "call_id": NAMED, "output": "blue"},
    ],
}


@pytest.mark.parametrize("name", PROVIDERS)
def test_of_an_answer_of_another_service_words_and_calls_are_sent(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    model = "gemini-2.5-flash" if name == "gemini" else "m"
    body = json.loads(PROVIDERS[name](model, api_key="k").request(HISTORY, (), Options()).body)
    assert (body.get("messages") or body.get("contents") or body["input"])[1:] == SENT[name]
