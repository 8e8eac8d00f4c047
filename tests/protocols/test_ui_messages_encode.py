"""Each event of a run has its place in the UI Message Stream."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

from rxworker import Approve, Deny, Paused, Run, Worker, worker_tool
from rxworker.errors import RunCancelledError
from rxworker.events import (
    BlockAbort,
    BlockStop,
    BlockType,
    CitationDelta,
    Gap,
    HookMessage,
    MessageAdd,
    PauseState,
    Record,
    RunPause,
    TextDelta,
    ToolProgress,
    ToolStart,
    ToolStop,
)
from rxworker.events.pause import Question
from rxworker.messages import Image, Message, StopKind, Text, ToolCall, ToolResult
from rxworker.protocols.common import DONE, data_line
from rxworker.protocols.ui_messages import UiMessageEncoder, ui_message_stream
from rxworker.testing import ScriptedModel, call, fail, say, think
from rxworker.transport import Retry
from tests.protocols.story import OWN, booking, numbered, remove, start_call
from tests.runs import all_records

Wire = dict[str, Any]


def encoded(records: list[Record], encoder: UiMessageEncoder | None = None) -> list[Wire]:
    encoder = encoder or UiMessageEncoder("message")
    parts = [part for record in records for part in encoder.feed(record)]
    frames = [data_line(part) for part in [*parts, *encoder.close("the watcher left")]]
    return [json.loads(frame.removeprefix(b"data: ")) for frame in frames]


def of_type(parts: list[Wire], *types: str) -> list[Wire]:
    return [part for part in parts if part["type"] in types]


def types(parts: list[Wire]) -> list[str]:
    return [part["type"] for part in parts if not part["type"].startswith("data-")]


async def test_an_answer_is_a_message_of_steps() -> None:
    run = Worker(ScriptedModel([think("hm", "seal") + say("Hi!", chunk=9)])).run("hi")
    parts = encoded(await all_records(run))
    assert types(parts) == [
        *("start", "start-step", "reasoning-start", "reasoning-delta", "reasoning-end"),
        *("text-start", "text-delta", "text-end", "finish-step", "finish"),
    ]
    assert parts[0]["messageId"] == "message"
    sealed = of_type(parts, "reasoning-end")[0]["providerMetadata"]
    assert sealed == {"rxworker": {"signature": "seal"}}
    assert of_type(parts, "data-usage")[0]["data"]["output_tokens"] == 5


async def test_the_reason_of_the_end_is_reported() -> None:
    for kind, reason in [(StopKind.MAX_TOKENS, "length"), (StopKind.REFUSAL, "content-filter")]:
        parts = encoded(await all_records(Worker(ScriptedModel([say("Hi", stop=kind)])).run("hi")))
        assert parts[-1]["finishReason"] == reason


async def test_a_response_that_is_requested_again_is_reset() -> None:
    def run() -> Run[None]:
        model = ScriptedModel([say("half a sen") + fail("busy", "overloaded"), "A sentence."])
        return Worker(model, response_retry=Retry(first=0.0)).run("hi")

    parts = types(encoded(await all_records(run())))
    assert parts.index("text-end") < parts.index("reset-step")
    older = encoded(await all_records(run()), UiMessageEncoder(can_reset=False))
    assert of_type(older, "reset-step") == []
    (void,) = of_type(older, "data-retract")
    assert void["data"]["ids"] == [of_type(older, "text-start")[0]["id"]]


def test_a_call_has_its_input_and_its_output() -> None:
    records = numbered(
        *start_call(text='{"x":1}'),
        ToolStart(ToolCall("c1", "look", {"x": 1})),
        ToolProgress("c1", 0.5),
        ToolProgress("c1", 0.9),
        ToolStop(ToolResult("c1", "rain")),
    )
    parts = encoded(records)
    assert types(parts)[2:6] == [
        *("tool-input-start", "tool-input-delta", "tool-input-available", "tool-output-available")
    ]
    assert of_type(parts, "tool-input-available")[0]["input"] == {"x": 1}
    assert of_type(parts, "tool-output-available")[0]["output"] == "rain"
    assert {part["id"] for part in of_type(parts, "data-progress")} == {"c1"}


def test_arguments_that_were_changed_are_reported_when_the_call_runs() -> None:
    records = numbered(OWN, *start_call(), ToolStart(ToolCall("c1", "look", {"x": 2})))
    inputs = [part["input"] for part in of_type(encoded(records), "tool-input-available")]
    assert inputs == [{}, {"x": 2}]


def test_a_failed_call_has_an_error_and_a_picture_is_a_file() -> None:
    failed = encoded(numbered(*start_call(), ToolStop(ToolResult("c1", "no", is_error=True))))
    assert of_type(failed, "tool-output-error")[0]["errorText"] == "no"
    picture = ToolResult("c1", (Text("look"), Image(data="AAAA")))
    (output,) = of_type(encoded(numbered(*start_call(), ToolStop(picture))), "tool-output-available")
    assert output["output"][1]["url"] == "data:image/png;base64,AAAA"


def test_a_call_that_was_cut_has_an_error_once() -> None:
    records = numbered(*start_call()[:2], BlockAbort(0, BlockType.TOOL_USE, "cut off"))
    parts = encoded(records)
    (error,) = of_type(parts, "tool-input-error")
    assert (error["errorText"], error["input"]) == ("cut off", "{}")
    assert of_type(parts, "tool-output-error") == []


def test_a_call_that_runs_before_its_block_has_closed_is_whole() -> None:
    records = numbered(OWN, *start_call()[:2], ToolStop(ToolResult("c1", "rain")))
    late = numbered(BlockStop(0, BlockType.TOOL_USE), first=8)
    kinds = types(encoded([*records, *late]))
    assert kinds[3:6] == ["tool-input-delta", "tool-input-available", "tool-output-available"]


def test_a_result_of_a_call_that_was_not_seen_brings_its_call() -> None:
    """Its input is never available: a client would run it."""
    parts = encoded(numbered(ToolStop(ToolResult("c1", "rain", name="look")), first=9))
    assert types(parts)[1:4] == ["tool-input-start", "tool-input-delta", "tool-output-available"]


async def test_a_paused_call_requests_approval_and_a_resumed_run_continues() -> None:
    model = ScriptedModel([call("remove", path="a") + call("remove", path="b"), "Gone."])
    worker = Worker(model, tools=[remove])
    run = worker.run("hi")
    parts = encoded(await all_records(run))
    requests = of_type(parts, "tool-approval-request")
    assert [r.get("isAutomatic", False) for r in requests] == [False, True]
    assert requests[0]["approvalId"] == f"{run.id}:call_1_1"
    assert parts[-1]["finishReason"] == "tool-calls"
    assert isinstance(await run, Paused)
    resumed = worker.resume(decisions={"call_1_1": Approve(), "call_1_2": Deny("no")})
    after = encoded(await all_records(resumed), UiMessageEncoder("message"))
    assert [p["toolCallId"] for p in of_type(after, "tool-output-denied")] == ["call_1_2"]
    assert [p["output"] for p in of_type(after, "tool-output-available")] == ["a is gone"]


def test_a_pause_at_the_end_of_a_turn_is_reported() -> None:
    parts = encoded(numbered(RunPause(PauseState("reviewer", (), (), "look at it"))))
    (pause,) = of_type(parts, "data-pause")
    assert pause["data"] == {"run": "run-1", "hook": "reviewer", "reason": "look at it"}
    assert parts[-1]["type"] == "finish"


async def test_the_text_of_a_nested_run_is_not_a_part_of_the_answer() -> None:
    inner = Worker(ScriptedModel([think("hm") + say("An old pond.")]))
    ask = worker_tool(inner, name="ask_poet", description="Ask a poet.")
    worker = Worker(ScriptedModel([call("ask_poet", task="a verse"), "Here."]), tools=[ask])
    parts = encoded(await all_records(worker.run("hi")))
    assert "".join(p["delta"] for p in of_type(parts, "text-delta")) == "Here."
    deltas = of_type(parts, "data-inside-delta")
    assert all(part["transient"] for part in deltas)
    whole = [part["data"]["text"] for part in of_type(parts, "data-inside")]
    assert whole == ["hm", "An old pond."]
    assert [part["data"]["status"] for part in of_type(parts, "data-run")] == [*("running", "finished")]


def test_the_rest_is_data_and_what_is_of_the_moment_is_not_kept() -> None:
    parts = encoded(
        numbered(
            HookMessage("hook", "message", "hello"),
            MessageAdd((Message.user("go on"),), "send"),
            CitationDelta(0, {"url": "https://a.b", "title": "A"}),
            CitationDelta(0, {"page": 3}),
            Gap(3, 4),
        )
    )
    assert of_type(parts, "data-hook-message")[0].get("transient") is None
    assert of_type(parts, "data-message")[0]["data"]["texts"] == ["go on"]
    assert of_type(parts, "source-url")[0]["title"] == "A"
    assert of_type(parts, "data-citation")[0]["data"]["citation"] == {"page": 3}
    assert of_type(parts, "data-gap")[0]["transient"] is True


async def test_a_watch_that_stops_is_closed_and_done() -> None:
    async def batches() -> AsyncGenerator[list[Record], None]:
        yield numbered(TextDelta(0, "hi"))
        raise RunCancelledError("bored")

    data = b"".join([piece async for piece in ui_message_stream(batches(), "m")])
    assert data.endswith(DONE)
    parts = [json.loads(frame.removeprefix(b"data: ")) for frame in data.split(b"\n\n")[:-2]]
    assert types(parts)[-4:] == ["text-end", "finish-step", "abort", "error"]
    assert parts[-1]["errorText"] == "the run was cancelled: bored"


async def test_a_question_of_a_tool_requests_approval_and_is_data_of_the_pause() -> None:
    question = Question("tides", "Sign in.", url="https://a.example/")

    worker = Worker(ScriptedModel([call("book"), "Done."]), tools=[booking(question)])
    run = worker.run("hi")
    parts = encoded(await all_records(run))
    (request,) = of_type(parts, "tool-approval-request")
    assert request["reason"] == str(question)
    (pause,) = of_type(parts, "data-pause")
    assert pause["data"]["questions"] == {"call_1_1": {"source": "tides", "message": "Sign in.", "url": question.url}}
    resumed = worker.resume(decisions={"call_1_1": Approve()})
    after = encoded(await all_records(resumed), UiMessageEncoder("message"))
    assert [p["output"] for p in of_type(after, "tool-output-available")] == ["accept"]
