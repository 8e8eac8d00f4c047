"""Messages, arguments and results are recorded only where that was chosen, and redacted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rxworker import Worker, after_tool_call, tool, worker_tool
from rxworker.adapters.opentelemetry import SEMCONV
from rxworker.adapters.opentelemetry.names import Recorder
from rxworker.errors import ToolError
from rxworker.hooks import ToolResultContext
from rxworker.messages import (
    Audio,
    CachePoint,
    Document,
    Image,
    Message,
    OpaqueBlock,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    StopKind,
    StopReason,
    Text,
)
from rxworker.testing import ScriptedModel, call, say, think
from tests.adapters.opentelemetry.conftest import Received, attributes

CONTENT = {
    "gen_ai.system_instructions",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
}


@tool
async def find(name: str) -> str:
    """Find a person."""
    return f"{name} lives at 12 Hill Road"


def worker(received: Received, **options: Any) -> Worker:
    replies = [think("Who is Ada?") + call("find", name="Ada"), say("Ada is at 12 Hill Road.")]
    observer = received.observer(**options)
    return Worker(ScriptedModel(replies), tools=[find], system="Be brief.", tracing=observer)


async def test_by_default_nothing_of_the_content_is_in_any_span(received: Received) -> None:
    await worker(received).run("Where is Ada?")
    for span in received.all:
        assert not CONTENT & attributes(span).keys()
        assert "Ada" not in span.to_json()
        assert "Hill" not in span.to_json()


async def test_with_content_messages_arguments_and_results_are_recorded_in_the_form_of_the_conventions(
    received: Received,
) -> None:
    await worker(received, content=True).run("Where is Ada?")
    first, second = [span for span in received.all if span.name == "chat scripted"]
    asked = {"role": "user", "parts": [{"type": "text", "content": "Where is Ada?"}]}
    called = {"type": "tool_call", "id": "call_1_1", "name": "find", "arguments": {"name": "Ada"}}
    answered = {"role": "assistant", "parts": [{"type": "reasoning", "content": "Who is Ada?"}, called]}
    response = "Ada lives at 12 Hill Road"
    result = {"type": "tool_call_response", "id": "call_1_1", "response": response}
    told = attributes(first)
    assert json.loads(told["gen_ai.system_instructions"]) == [{"type": "text", "content": "Be brief."}]
    assert json.loads(told["gen_ai.input.messages"]) == [asked]
    assert json.loads(told["gen_ai.output.messages"]) == [{**answered, "finish_reason": "tool_call"}]
    assert json.loads(attributes(second)["gen_ai.input.messages"]) == [
        asked,
        answered,
        {"role": "tool", "parts": [result]},
    ]
    told = attributes(received.spans["execute_tool find"])
    assert json.loads(told["gen_ai.tool.call.arguments"]) == {"name": "Ada"}
    assert json.loads(told["gen_ai.tool.call.result"]) == response
    told = attributes(received.spans["invoke_agent"])
    assert json.loads(told["gen_ai.input.messages"]) == [asked]
    (last,) = json.loads(told["gen_ai.output.messages"])
    assert (last["parts"][0]["content"], last["finish_reason"]) == ("Ada is at 12 Hill Road.", "stop")


async def test_each_text_is_redacted_also_within_arguments_and_runs_inside(
    received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HILL_ROAD_TOKEN", "sk-0123456789abcdef")
    inner = Worker(ScriptedModel([call("find", name="Ada"), "Ada: sk-0123456789abcdef"]))
    inner.tools.add(find)
    scout = worker_tool(inner, name="scout", description="Find.")
    model = ScriptedModel([call("scout", task="Find Ada."), "It is Ada."])

    def initial(text: str) -> str:
        return text.replace("Ada", "A.")

    observer = received.observer(content=True, redact=initial)
    await Worker(model, tools=[scout], tracing=observer).run("Where is Ada?")
    written = "".join(span.to_json() for span in received.all)
    assert "A. lives at 12 Hill Road" in written
    assert "Find A." in written
    assert "Ada" not in written
    assert "sk-0123456789abcdef" not in written


async def test_where_redact_raises_a_note_takes_the_place_of_the_text(received: Received) -> None:
    def broken(text: str) -> str:
        raise ValueError(text)

    result = await worker(received, content=True, redact=broken).run("Where is Ada?")
    assert result.text == "Ada is at 12 Hill Road."
    written = "".join(span.to_json() for span in received.all)
    assert "(not recorded: redact raised ValueError)" in written
    assert "Ada" not in written


async def test_a_result_is_recorded_as_the_hooks_have_left_it(received: Received) -> None:
    @after_tool_call
    def hide(context: ToolResultContext) -> None:
        context.set_content("at home")

    traced = worker(received, content=True)
    traced.hooks.add(hide)
    await traced.run("Where is Ada?")
    span = received.spans["execute_tool find"]
    assert json.loads(attributes(span)["gen_ai.tool.call.result"]) == "at home"
    assert "Hill" not in span.to_json()


def test_each_block_of_a_message_has_the_form_of_the_conventions() -> None:
    message = Message.assistant(
        Refusal("No."),
        ServerToolCall("s1", "web_search", {"query": "Ada"}),
        ServerToolResult("s1", "web_search"),
        Image(file_id="f1"),
        Audio(data="QUJD"),
        OpaqueBlock("novelty", {"secret": "x"}),
        CachePoint(),
    )
    stop = StopReason(StopKind.OTHER, "recitation")
    (told,) = json.loads(Recorder(str.upper).output(message, stop))
    assert told["finish_reason"] == "recitation"
    assert told["parts"] == [
        {"type": "refusal", "content": "NO."},
        {
            "type": "server_tool_call",
            "id": "s1",
            "name": "web_search",
            "server_tool_call": {"type": "web_search", "input": {"query": "ADA"}},
        },
        {"type": "server_tool_call_response", "id": "s1", "server_tool_call_response": {"type": "web_search"}},
        {"type": "file", "mime_type": "image/png", "modality": "image", "file_id": "f1"},
        {"type": "blob", "mime_type": "audio/wav", "modality": "audio", "content": "", "base64_length": 4},
        {"type": "novelty"},
    ]
    blocks = json.loads(Recorder().result((Text("seen"), Image(url="https://example.com/a.png"))))
    assert [block["type"] for block in blocks] == ["text", "uri"]


async def test_files_are_recorded_by_their_address_or_size_and_never_as_bytes(received: Received) -> None:
    message = Message.user(Text("See:"), Image(data="QUJD" * 1000), Document(url="https://example.com/a.pdf"))
    await Worker(ScriptedModel(["Seen."]), tracing=received.observer(content=True)).run(message)
    (asked,) = json.loads(attributes(received.spans["chat scripted"])["gen_ai.input.messages"])
    assert [part["type"] for part in asked["parts"]] == ["text", "blob", "uri"]
    assert asked["parts"][1]["base64_length"] == 4000
    assert "QUJD" not in json.dumps(asked)


async def test_half_of_a_surrogate_pair_is_not_a_reason_to_lose_a_run(received: Received) -> None:
    observer = received.observer(content=True)
    model = ScriptedModel([call("\ud83d"), "\ud83d!"])
    result = await Worker(model, tracing=observer).run("Hi")
    assert result.turns == 2
    for span in received.all:
        span.to_json().encode()
        span.name.encode()
    told = attributes(received.spans["chat scripted"])
    assert "!" in told["gen_ai.output.messages"]


async def test_a_failed_tool_shows_its_error_only_with_content(received: Received) -> None:
    @tool
    async def find(name: str) -> str:
        """Find a person."""
        raise ToolError(f"{name} has moved")

    traced = worker(received)
    traced.tools.remove("find")
    traced.tools.add(find)
    await traced.run("Where is she?")
    assert "moved" not in received.spans["execute_tool find"].to_json()


def test_every_name_of_the_conventions_begins_as_theirs_or_ours_do() -> None:
    for names in SEMCONV.values():
        for field in names.__struct_fields__:
            value: str | tuple[str, ...] = getattr(names, field)
            known = ("gen_ai.", "rxworker.", "error.type", "https://")
            for name in (value,) if isinstance(value, str) else value:
                assert not name or name.startswith(known), field
