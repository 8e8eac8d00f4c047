"""Each event of a run has its place in AG-UI."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from rxworker import Deny, Limits, Worker, before_tool_call
from rxworker.decisions import read_payload
from rxworker.errors import RunCancelledError
from rxworker.events import (
    AttemptRetract,
    BlockStart,
    BlockStop,
    BlockType,
    InputJsonDelta,
    InputValueDelta,
    PauseState,
    Record,
    RunPause,
    RunStart,
    TextDelta,
    ToolStart,
    ToolStop,
    ToolUseMetadata,
    TurnStart,
)
from rxworker.events.pause import Question
from rxworker.hooks import Skip, ToolCallContext
from rxworker.messages import Conversation, Image, JsonObject, Message, Text, ToolCall, ToolResult
from rxworker.protocols.ag_ui import AgUiEncoder, ag_ui_stream
from rxworker.protocols.common import data_line
from rxworker.state import fold_run
from rxworker.testing import ScriptedModel, call, fail, say, think
from rxworker.transport import Retry
from tests.pauses import pause_of
from tests.protocols.story import OWN, booking, look, numbered, remove, start_call
from tests.runs import all_records

Wire = dict[str, Any]


def encoded(records: list[Record], encoder: AgUiEncoder | None = None) -> list[Wire]:
    encoder = encoder or AgUiEncoder("thread", "run", protocol="1.0")
    events = [event for record in records for event in encoder.feed(record)]
    frames = [data_line(event) for event in [*events, *encoder.close("the watcher left")]]
    return [json.loads(frame.removeprefix(b"data: ")) for frame in frames]


def of_type(events: list[Wire], *types: str) -> list[Wire]:
    return [event for event in events if event["type"] in types]


async def test_a_turn_is_a_step_and_calls_belong_to_the_text_before_them() -> None:
    model = ScriptedModel([think("hm", "seal") + say("Ok.") + call("look", city="Oslo"), "Rain."])
    events = encoded(await all_records(Worker(model, tools=[look]).run("hi")))
    assert [e["stepName"] for e in of_type(events, "STEP_STARTED")] == ["turn 1", "turn 2"]
    starts = of_type(events, "TEXT_MESSAGE_START")
    (asked,) = of_type(events, "TOOL_CALL_START")
    assert asked["parentMessageId"] == starts[0]["messageId"]
    (seal,) = of_type(events, "REASONING_ENCRYPTED_VALUE")
    assert seal["encryptedValue"] == "seal"
    (result,) = of_type(events, "TOOL_CALL_RESULT")
    assert (result["content"], result["toolCallId"]) == ("rain in Oslo", asked["toolCallId"])
    assert events[-1]["outcome"] == {"type": "success"}


async def test_the_names_are_the_same_for_a_watcher_that_comes_in_the_middle() -> None:
    records = await all_records(Worker(ScriptedModel(["Once upon a time there was a fox."])).run("hi"))
    at = next(n for n, r in enumerate(records) if isinstance(r.event, TextDelta)) + 2
    whole, late = encoded(records), encoded(records[at:])
    name = of_type(whole, "TEXT_MESSAGE_START")[0]["messageId"]
    assert of_type(late, "TEXT_MESSAGE_START")[0]["messageId"] == name


async def test_the_text_of_a_failed_response_is_marked_as_void() -> None:
    model = ScriptedModel([say("half a sen") + fail("busy", "overloaded"), "A sentence."])
    events = encoded(await all_records(Worker(model, response_retry=Retry(first=0.0)).run("hi")))
    (void,) = [e["value"] for e in of_type(events, "CUSTOM") if e["name"] == "rxworker.retract"]
    first, second = of_type(events, "TEXT_MESSAGE_START")
    assert void["messageIds"] == [first["messageId"]]
    assert first["messageId"] != second["messageId"]


async def test_a_call_that_never_ran_is_answered_when_its_turn_is_over() -> None:
    records = numbered(RunStart(Conversation()), TurnStart(), OWN, *start_call("c1"))
    cut = encoded(records)
    assert of_type(cut, "TOOL_CALL_RESULT") == []  # nobody knows
    worker = Worker(ScriptedModel([call("look", city="Oslo")] * 2), tools=[look], limits=Limits(max_turns=1))
    assert len(of_type(encoded(await all_records(worker.run("hi"))), "TOOL_CALL_RESULT")) == 1
    over = encoded([*records, *numbered(TurnStart(), first=9)])
    assert of_type(over, "TOOL_CALL_RESULT")[0]["metadata"]["rxworker"]["isError"] is True


def test_two_calls_with_one_id_are_distinguished() -> None:
    before = Conversation((Message.user("hi"), Message.assistant(ToolCall("c1", "look", {}))))
    records = numbered(
        RunStart(before),
        TurnStart(),
        OWN,
        *start_call("c1", 0),
        *start_call("c1", 1),
        ToolStart(ToolCall("c1", "look", {})),
        ToolStop(ToolResult("c1", "one")),
        ToolStop(ToolResult("c1", "two")),
    )
    events = encoded(records)
    assert [e["toolCallId"] for e in of_type(events, "TOOL_CALL_START")] == ["c1~2", "c1~3"]
    results = [(e["toolCallId"], e["content"]) for e in of_type(events, "TOOL_CALL_RESULT")]
    assert results == [("c1~2", "one"), ("c1~3", "two")]


def test_a_call_that_runs_before_its_block_has_closed_is_whole() -> None:
    records = numbered(OWN, *start_call("c1")[:2], ToolStop(ToolResult("c1", "rain")))
    late = numbered(BlockStop(0, BlockType.TOOL_USE), first=8)
    kinds = [e["type"] for e in encoded([*records, *late])]
    assert kinds.index("TOOL_CALL_END") < kinds.index("TOOL_CALL_RESULT")
    assert kinds.count("TOOL_CALL_END") == 1


def test_a_call_that_was_retracted_is_answered_too() -> None:
    records = numbered(OWN, *start_call("c1"), AttemptRetract("busy"))
    events = encoded(records)
    (result,) = of_type(events, "TOOL_CALL_RESULT")
    assert "retracted" in result["content"]
    (void,) = [e["value"] for e in of_type(events, "CUSTOM") if e["name"] == "rxworker.retract"]
    assert void["toolCallIds"] == ["c1"]


def test_parallel_calls_without_a_text_are_in_one_message() -> None:
    records = numbered(OWN, *start_call("c1", 0), *start_call("c2", 1))
    parents = {e["parentMessageId"] for e in of_type(encoded(records), "TOOL_CALL_START")}
    assert parents == {"run-1.1.1"}


def test_arguments_that_come_by_path_are_reported_when_they_are_whole() -> None:
    which = ToolUseMetadata("c1", "look")
    records = numbered(
        OWN,
        BlockStart(0, BlockType.TOOL_USE, which),
        InputValueDelta(0, "$.city", "Os"),
        InputValueDelta(0, "$.city", "lo", append=True),
        BlockStop(0, BlockType.TOOL_USE, metadata=which),
    )
    (arguments,) = of_type(encoded(records), "TOOL_CALL_ARGS")
    assert json.loads(arguments["delta"]) == {"city": "Oslo"}


def test_a_call_whose_beginning_was_missed_is_reported_when_it_runs_with_all_of_its_arguments() -> None:
    records = numbered(
        InputJsonDelta(0, 'lo"}'),
        BlockStop(0, BlockType.TOOL_USE, metadata=ToolUseMetadata("c1", "look")),
        ToolStart(ToolCall("c1", "look", {"city": "Oslo"})),
        ToolStop(ToolResult("c1", "rain")),
        first=7,
    )
    events = encoded(records)
    (arguments,) = of_type(events, "TOOL_CALL_ARGS")
    assert json.loads(arguments["delta"]) == {"city": "Oslo"}


def test_arguments_that_a_hook_has_changed_are_reported_when_the_call_runs() -> None:
    records = numbered(*start_call("c1"), ToolStart(ToolCall("c1", "look", {"city": "Oslo"})))
    (started,) = of_type(encoded(records), "CUSTOM")
    assert started["name"] == "rxworker.tool_start"
    assert started["value"]["input"] == {"city": "Oslo"}


def test_pictures_in_a_result_are_parts_for_clients_that_know_them() -> None:
    picture = Image(data="AAAA")
    result = ToolResult("c1", (Text("look: "), picture))
    records = numbered(OWN, *start_call("c1"), ToolStop(result))
    (newer,) = of_type(encoded(records), "TOOL_CALL_RESULT")
    assert newer["content"][1]["source"]["value"] == "AAAA"
    (older,) = of_type(encoded(records, AgUiEncoder("t", "r")), "TOOL_CALL_RESULT")
    assert older["content"] == "look: (image/png)"


async def test_a_pause_is_an_interrupt_and_the_resumed_run_does_not_send_the_call_again() -> None:
    worker = Worker(ScriptedModel([call("remove", path="a"), "Kept."]), tools=[remove])
    run = worker.run("hi")
    events = encoded(await all_records(run))
    paused = await pause_of(run)
    (interrupt,) = events[-1]["outcome"]["interrupts"]
    assert interrupt["id"] == f"{run.id}:{paused.pending[0].id}"
    assert interrupt["toolCallId"] == paused.pending[0].id
    assert interrupt["responseSchema"]["required"] == ["approved"]
    resumed = worker.resume(decisions={paused.pending[0].id: Deny("keep it")})
    after = encoded(await all_records(resumed))
    assert of_type(after, "TOOL_CALL_START") == []
    assert [e["content"] for e in of_type(after, "TOOL_CALL_RESULT")] == ["keep it"]


def test_a_pause_at_the_end_of_a_turn_requests_a_text() -> None:
    events = encoded(numbered(RunPause(PauseState("reviewer", (), (), "look at it"))))
    (interrupt,) = events[-1]["outcome"]["interrupts"]
    assert (interrupt["reason"], interrupt["message"]) == ("input_required", "look at it")


async def test_a_snapshot_has_the_messages_before_it() -> None:
    said = Conversation(
        (
            Message.user("hi"),
            Message.assistant("Let me look.", ToolCall("c1", "look", {"city": "Oslo"})),
            Message("user", (ToolResult("c1", "rain", is_error=True),)),
        ),
        "Be brief.",
    )
    encoder = AgUiEncoder("t", "r", snapshot=True)
    (snapshot,) = of_type(encoded(numbered(RunStart(said)), encoder), "MESSAGES_SNAPSHOT")
    roles = [message["role"] for message in snapshot["messages"]]
    assert roles == ["system", "user", "assistant", "tool"]
    assert snapshot["messages"][2]["toolCalls"][0]["function"]["name"] == "look"
    assert snapshot["messages"][3]["error"] == "rain"


@pytest.mark.parametrize("at", [8, 12, 16, 20, 24])
async def test_a_late_watcher_has_the_same_text_as_one_from_the_start(at: int) -> None:
    model = ScriptedModel([say("Let me look.") + call("look", city="Oslo"), "It rains in Oslo."])
    records = await all_records(Worker(model, tools=[look]).run("hi"))
    encoder = AgUiEncoder("t", "r", protocol="1.0")
    first = encoder.catch_up(fold_run(records[:at]), "run-1")
    caught_up = [json.loads(data_line(event).removeprefix(b"data: ")) for event in first]
    events = [*caught_up, *encoded(records[at:], encoder)]
    snapshot = caught_up[1]["messages"]
    before = "".join(m.get("content", "") for m in snapshot if m["role"] == "assistant")
    after = "".join(e["delta"] for e in of_type(events, "TEXT_MESSAGE_CONTENT"))
    assert before + after == "Let me look.It rains in Oslo."
    results = len(of_type(events, "TOOL_CALL_RESULT"))
    assert results + sum(m["role"] == "tool" for m in snapshot) == 1


async def test_what_a_hook_decides_is_reported() -> None:
    @before_tool_call
    def refuse(context: ToolCallContext) -> Skip:
        return Skip("not today")

    model = ScriptedModel([call("look", city="Oslo"), "Ok."])
    events = encoded(await all_records(Worker(model, tools=[look], hooks=[refuse]).run("hi")))
    (verdict,) = [e for e in of_type(events, "CUSTOM") if e["name"] == "rxworker.hook_verdict"]
    assert (verdict["value"]["hook"], verdict["value"]["reason"]) == ("refuse", "not today")
    assert [e["content"] for e in of_type(events, "TOOL_CALL_RESULT")] == ["not today"]


async def test_a_watch_that_fails_is_closed_with_the_reason() -> None:
    async def batches() -> AsyncGenerator[list[Record], None]:
        yield numbered(TextDelta(0, "hi"))
        raise RunCancelledError("bored")

    data = b"".join([piece async for piece in ag_ui_stream(batches(), AgUiEncoder("t", "r"))])
    last = json.loads(data.split(b"\n\n")[-2].removeprefix(b"data: "))
    assert (last["type"], last["message"]) == ("RUN_ERROR", "the run was cancelled: bored")
    assert b"TEXT_MESSAGE_END" in data


async def test_the_message_of_an_unknown_error_is_not_sent() -> None:
    async def batches() -> AsyncGenerator[list[Record], None]:
        yield numbered(TextDelta(0, "hi"))
        raise OSError("/home/secret")

    data = b"".join([piece async for piece in ag_ui_stream(batches(), AgUiEncoder("t", "r"))])
    assert b"RUN_ERROR" in data
    assert b"secret" not in data


async def test_stopping_to_read_ends_the_watch() -> None:
    left: list[str] = []

    async def batches() -> AsyncGenerator[list[Record], None]:
        try:
            yield numbered(TextDelta(0, "hi"))
            yield numbered(TextDelta(0, "hi"), first=2)
        finally:
            left.append("gone")

    stream = ag_ui_stream(batches(), AgUiEncoder("t", "r"))
    await anext(stream)
    await stream.aclose()
    assert left == ["gone"]


def test_half_a_character_does_no_harm() -> None:
    (delta,) = of_type(encoded(numbered(TextDelta(0, "a\ud83d"))), "TEXT_MESSAGE_CONTENT")
    assert delta["delta"] == "a\ufffd"


async def test_a_question_of_a_tool_is_an_interrupt_with_its_form() -> None:
    schema: JsonObject = {"type": "object", "properties": {"guests": {"type": "integer"}}}

    worker = Worker(ScriptedModel([call("book"), "Done."]), tools=[booking(Question("tides", "How many?", schema))])
    run = worker.run("hi")
    events = encoded(await all_records(run))
    (interrupt,) = events[-1]["outcome"]["interrupts"]
    assert (interrupt["reason"], interrupt["message"]) == ("input_required", "tides has a question: How many?")
    assert interrupt["responseSchema"]["properties"]["editedArgs"] == schema
    answer = read_payload({"approved": True, "editedArgs": {"guests": 2}})
    resumed = worker.resume(decisions={interrupt["toolCallId"]: answer})
    after = encoded(await all_records(resumed))
    assert [e["content"] for e in of_type(after, "TOOL_CALL_RESULT")] == ["accept {'guests': 2}"]
