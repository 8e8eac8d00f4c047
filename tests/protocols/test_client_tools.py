"""No protocol lets a client run a call of its tools before the run has decided about it.

Every door and every decision.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rxworker import Answer, Approve, Deny, Worker, before_tool_call
from rxworker.events import Record, RunPause, ToolStart
from rxworker.hooks import Abort, Pause, Skip, ToolCallContext
from rxworker.hooks.points import BeforeToolCallVerdict
from rxworker.messages import ToolMeta, ToolResult
from rxworker.messages.lenient_json import encode_lenient
from rxworker.protocols.ag_ui import AgUiEncoder
from rxworker.protocols.openai import ChatEncoder, ResponseEncoder
from rxworker.protocols.openai.responses import ResponseHead
from rxworker.protocols.ui_messages import UiMessageEncoder, ui_messages_of
from rxworker.state import RunState, fold_run
from rxworker.testing import ScriptedModel, call, say
from rxworker.tools import ClientTool
from rxworker.worker import Decision
from tests.pauses import pause_of
from tests.protocols.story import look
from tests.runs import all_records

Wire = dict[str, Any]
Made = tuple[str, Any]
"""A call that a client may run: its id and its arguments."""
META = ToolMeta("open_tab", "Open a tab.", {"type": "object", "properties": {"url": {}}})
FORBIDDEN, ALLOWED = {"url": "https://bad"}, {"url": "https://good"}


class Door:
    """What a client of one protocol receives, and which calls it may run."""

    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder
        self.made: list[Made] = []
        self.wire: list[Wire] = []
        self._arguments: dict[str, str] = {}

    def feed(self, record: Record) -> None:
        self.read(self.encoder.feed(record))

    def read(self, events: Sequence[Any]) -> None:
        for event in events:
            self._read(json.loads(encode_lenient(event)))

    def _read(self, event: Wire) -> None:
        self.wire.append(event)
        match event:
            case {"type": "tool-input-available", "toolName": "open_tab"}:
                self.made.append((event["toolCallId"], event["input"]))
            case {"type": "TOOL_CALL_START", "toolCallName": "open_tab"}:
                self._arguments[event["toolCallId"]] = ""
            case {"type": "TOOL_CALL_ARGS", "toolCallId": name} if name in self._arguments:
                self._arguments[name] += event["delta"]
            case {"type": "TOOL_CALL_END", "toolCallId": name} if name in self._arguments:
                self.made.append((name, json.loads(self._arguments[name])))
            case {"tool_calls": calls}:
                for each in calls:
                    self.made.append((each["id"], json.loads(each["function"]["arguments"])))
            case {"type": "response.output_item.done", "item": {"type": "function_call", "status": "completed"}}:
                item = event["item"]
                self.made.append((item["call_id"], json.loads(item["arguments"])))
            case _:
                pass


NAMES = ("open_tab",)
DOORS: dict[str, Callable[[], Any]] = {
    "ui_messages": UiMessageEncoder,
    "ag_ui": lambda: AgUiEncoder("thread", "run", protocol="1.0"),
    "ag_ui, older": lambda: AgUiEncoder("thread", "run"),
    "openai chat": lambda: ChatEncoder(NAMES),
    "openai responses": lambda: ResponseEncoder(ResponseHead("run", 0.0, "desk", NAMES)),
}


@before_tool_call(matcher="open_tab")
def allow(_: ToolCallContext) -> None:
    """Let it run."""


@before_tool_call(matcher="open_tab")
def skip(_: ToolCallContext) -> BeforeToolCallVerdict | None:
    return Skip("not this address")


@before_tool_call(matcher="open_tab")
def permit(_: ToolCallContext) -> BeforeToolCallVerdict | None:
    return Pause("may it?")


@before_tool_call(matcher="open_tab")
def edit(context: ToolCallContext) -> None:
    context.input.update(ALLOWED)


@before_tool_call(matcher="open_tab")
def edit_and_pause(context: ToolCallContext) -> BeforeToolCallVerdict | None:
    context.input.update(ALLOWED)
    return Pause("may it?")


@before_tool_call(matcher="open_tab")
def abort(_: ToolCallContext) -> BeforeToolCallVerdict | None:
    return Abort("this user may not")


# By name: the hook, what is decided when it has paused, and what the client may run, in the run and in the run that
# resumes it.
CASES: dict[str, tuple[Any, Decision | None, list[Any], list[Any]]] = {
    "allowed": (allow, None, [FORBIDDEN], []),
    "skip": (skip, None, [], []),
    "edit": (edit, None, [ALLOWED], []),
    "abort": (abort, None, [], []),
    "pause, then approved": (permit, Approve(), [], [FORBIDDEN]),
    "pause, then approved with other arguments": (permit, Approve(dict(ALLOWED)), [], [ALLOWED]),
    "pause, then denied": (permit, Deny("no"), [], []),
    "pause, then answered": (permit, Answer("it is open"), [], []),
    "edit and pause, then approved": (edit_and_pause, Approve(), [], [ALLOWED]),
    "edit and pause, then denied": (edit_and_pause, Deny("no"), [], []),
}


def worker_with(hook: Any, *turns: Any) -> Worker:
    first = say("Look.") + call("look", city="Oslo") + call("open_tab", **FORBIDDEN)
    model = ScriptedModel([*(turns or (first,)), "Done.", "Done."])
    return Worker(model, tools=[look, ClientTool(META)], hooks=[hook])


def may_run(records: Sequence[Record]) -> bool:
    """Whether the run waits for its client."""
    event = records[-1].event
    return isinstance(event, RunPause) and event.pause.hook == "client_tool"


def served(door: str, records: list[Record], at: Door | None = None) -> Door:
    """What the door sends of these records. It lets no call be run before the run has decided."""
    given = at or Door(DOORS[door]())
    for place, record in enumerate(records):
        before = len(given.made)
        given.feed(record)
        assert len(given.made) == before or may_run(records[: place + 1]), (door, record)
    return given


@pytest.mark.parametrize("case", CASES)
async def test_a_client_runs_a_call_when_the_run_waits_for_it_and_with_those_arguments(case: str) -> None:
    hook, decision, first, second = CASES[case]
    worker = worker_with(hook)
    run = worker.run("hi")
    records = await all_records(run)
    resumed: list[Record] = []
    if decision is not None:
        paused = await pause_of(run)
        assert paused.hook != "client_tool"
        name = next(each.id for each in paused.pending if each.name == "open_tab")
        resumed = await all_records(worker.resume(decisions={name: decision}))
    for door in DOORS:
        made = served(door, records).made
        assert [arguments for _, arguments in made] == first, door
        if resumed:
            again = served(door, resumed)
            assert [arguments for _, arguments in again.made] == second, door
            assert {name for name, _ in again.made} <= {"call_1_2"}, door


@pytest.mark.parametrize("case", CASES)
async def test_a_late_watcher_runs_a_call_only_when_the_run_waits_for_it(case: str) -> None:
    hook, _, first, _ = CASES[case]
    records = await all_records(worker_with(hook).run("hi"))
    for at in range(1, len(records) + 1):
        state = fold_run(records[:at])
        waits = may_run(records[:at])
        ui, ag_ui = UiMessageEncoder(), AgUiEncoder("thread", "run", protocol="1.0")
        late = [Door(ui), Door(ag_ui)]
        for door in late:
            door.read(door.encoder.catch_up(state, "run-1"))
        made = first if waits else []
        assert [arguments for _, arguments in late[0].made] == made, at
        sent = [json.loads(a) for a in snapshot_calls(late[1].wire)]
        is_answered = any(r.tool_use_id == "call_1_2" for r in results_in(state))
        assert sent == made or (is_answered and len(sent) == 1), at
        for door in late:
            left = served("", records[at:], door)
            assert waits or is_answered or [each for _, each in left.made] == first


def snapshot_calls(wire: list[Wire]) -> list[str]:
    """The arguments of the calls of the client's tool in a snapshot."""
    (snapshot,) = [event for event in wire if event["type"] == "MESSAGES_SNAPSHOT"]
    calls = [c["function"] for m in snapshot["messages"] for c in m.get("toolCalls", ())]
    return [each["arguments"] for each in calls if each["name"] == "open_tab"]


def results_in(state: RunState) -> list[ToolResult]:
    """The results that a snapshot has."""
    kept = [result for message in state.conversation.messages for result in message.tool_results]
    return [*kept, *state.results]


async def test_the_history_of_a_chat_has_the_arguments_that_a_call_waits_with() -> None:
    for hook, shown in ((edit, "input-available"), (edit_and_pause, "approval-requested")):
        run = worker_with(hook).run("hi")
        pause = (await all_records(run))[-1].event
        assert isinstance(pause, RunPause)
        messages = ui_messages_of(run.state.conversation, "chat", run_id=run.id, pause=pause.pause)
        (part,) = [part for part in messages[-1].parts if part["type"] == "tool-open_tab"]
        assert (part["state"], part["input"]) == (shown, ALLOWED)


async def test_a_client_of_a_run_that_was_resumed_runs_the_calls_that_still_wait() -> None:
    """Two calls are offered, and the client answers one. A page that is opened again runs the other, and only that."""
    both = call("open_tab", url="a") + call("open_tab", url="b")
    worker = worker_with(allow, both)
    first = await all_records(worker.run("hi"))
    second = await all_records(worker.resume(decisions={"call_1_1": Answer("done")}))
    assert may_run(second)
    # The client that has sent the result runs the other one already.
    for encoder in (
        UiMessageEncoder(continues=True),
        AgUiEncoder("thread", "run", protocol="1.0", answered=["call_1_1"]),
    ):
        assert served("", second, Door(encoder)).made == []
    again = Door(UiMessageEncoder(replay="past"))
    assert served("", first, again).made == []
    again.encoder = UiMessageEncoder(continues=True, replay="last")
    assert served("", second, again).made == [("call_1_2", {"url": "b"})]
    parts = [(part["type"], part.get("toolCallId")) for part in again.wire]
    assert ("tool-output-available", "call_1_1") in parts


@pytest.mark.parametrize("door", ["ui_messages", "ag_ui"])
async def test_a_call_that_is_not_run_has_its_result_and_is_never_available(door: str) -> None:
    worker = worker_with(skip)
    wire = served(door, await all_records(worker.run("hi"))).wire
    about = [event for event in wire if "call_1_2" in json.dumps(event)]
    kinds = [event["type"] for event in about]
    if door == "ui_messages":
        assert kinds[-1] == "tool-output-error"
        assert about[-1]["errorText"] == "not this address"
        assert kinds[:2] == ["tool-input-start", "tool-input-delta"]
    else:
        assert {*kinds} == {"CUSTOM"}
        (value,) = [event["value"] for event in about if event["name"] == "rxworker.tool_result"]
        assert (value["content"], value["isError"]) == ("not this address", True)


async def test_calls_of_the_worker_itself_are_available_when_their_blocks_end() -> None:
    records = await all_records(worker_with(allow).run("hi"))
    at = next(n for n, r in enumerate(records) if isinstance(r.event, ToolStart))
    ui, ag_ui = served("ui_messages", records[:at]).wire, served("ag_ui", records[:at]).wire
    assert ("tool-input-available", "call_1_1") in [(p["type"], p.get("toolCallId")) for p in ui]
    assert [e["toolCallId"] for e in ag_ui if e["type"] == "TOOL_CALL_END"] == ["call_1_1"]


async def test_a_call_of_a_tool_that_the_worker_does_not_know_is_never_available() -> None:
    """A page may have the tool, and not have offered it this time."""
    model = ScriptedModel([call("open_tab", **FORBIDDEN), "Done."])
    records = await all_records(Worker(model, tools=[look]).run("hi"))
    for door in DOORS:
        assert served(door, records).made == [], door
    parts = [part["type"] for part in served("ui_messages", records).wire]
    assert parts.count("tool-output-error") == 1
