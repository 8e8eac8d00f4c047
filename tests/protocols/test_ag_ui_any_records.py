"""Whatever records a watcher gets, each protocol for clients is given a well-formed stream."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Union, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage
from openai.types.chat.chat_completion_chunk import ChoiceDelta
from openai.types.responses import ResponseStreamEvent
from openresponses_types import types as open_responses
from pydantic import TypeAdapter

from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    CitationDelta,
    Event,
    Gap,
    HookMessage,
    HookVerdict,
    InputJsonDelta,
    InputValueDelta,
    MessageAdd,
    Opaque,
    PausedCall,
    PauseState,
    Ping,
    Record,
    RefusalDelta,
    ResponseStatus,
    RunAbort,
    RunPause,
    RunResume,
    RunStart,
    RunStop,
    SignatureDelta,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
    ToolStart,
    ToolStop,
    ToolUseMetadata,
    TurnStart,
    TurnStop,
    Usage,
    WatcherDetach,
)
from rxworker.events.block import OpaqueMetadata, ToolResultMetadata
from rxworker.messages import Conversation, Message, StopKind, StopReason, ToolCall, ToolResult
from rxworker.messages.lenient_json import encode_lenient
from rxworker.protocols.acp import AcpEncoder
from rxworker.protocols.ag_ui import AgUiEncoder
from rxworker.protocols.common import data_line
from rxworker.protocols.openai import ChatEncoder, ResponseEncoder
from rxworker.protocols.openai.responses import ResponseHead
from rxworker.protocols.ui_messages import UiMessageEncoder
from rxworker.state import fold_run
from rxworker.views import Tracker
from rxworker.views.changes import ViewBegin, ViewCut, ViewPause
from tests.protocols.story import numbered

Wire = dict[str, Any]
IDS = ["c1", "c2", "c3"]
TEXTS = ["a", "bc", "", "\ud83d", "{", '"x"']


class AgUiGrammar:
    """What a client of AG-UI demands of a stream."""

    def __init__(self) -> None:
        self.open: dict[str, set[Any]] = {
            kind: set() for kind in ("text", "span", "reasoning", "call", "step", "subagent")
        }
        self.owners: dict[tuple[str, str], Any] = {}
        self.closed: set[str] = set()
        self.begun = False
        self.over = False

    def read(self, events: Iterable[Wire]) -> None:
        for event in events:
            assert None not in event.values()
            assert not self.over, f"{event} after the end"
            assert self.begun is (event["type"] != "RUN_STARTED")
            self._read(event)
        assert self.over

    def _read(self, event: Wire) -> None:
        inside = event.get("subagentRunId")
        match event["type"]:
            case "RUN_STARTED":
                self.begun = True
            case "RUN_FINISHED":
                assert not any(self.open.values()), self.open
                self.over = True
            case "RUN_ERROR":
                assert not any(self.open.values()), self.open
                self.over = True
            case "TEXT_MESSAGE_START":
                self._opens("text", event["messageId"], inside)
            case "TEXT_MESSAGE_CONTENT":
                self._grows("text", event["messageId"], inside, event["delta"])
            case "TEXT_MESSAGE_END":
                self._closes("text", event["messageId"], inside)
            case "REASONING_START":
                self._opens("span", event["messageId"], inside)
            case "REASONING_END":
                self._closes("span", event["messageId"], inside)
            case "REASONING_MESSAGE_START":
                self._opens("reasoning", event["messageId"], inside)
            case "REASONING_MESSAGE_CONTENT":
                self._grows("reasoning", event["messageId"], inside, event["delta"])
            case "REASONING_MESSAGE_END":
                self._closes("reasoning", event["messageId"], inside)
            case "TOOL_CALL_START":
                parent = self.owners.get(("text", event["parentMessageId"]), inside)
                assert parent == inside
                self._opens("call", event["toolCallId"], inside)
            case "TOOL_CALL_ARGS":
                self._grows("call", event["toolCallId"], inside, event["delta"])
            case "TOOL_CALL_END":
                self._closes("call", event["toolCallId"], inside)
            case "STEP_STARTED":
                step = (inside, event["stepName"])
                assert step not in self.open["step"]
                self.open["step"].add(step)
            case "STEP_FINISHED":
                self.open["step"].remove((inside, event["stepName"]))
            case "SUBAGENT_STARTED":
                assert inside not in self.open["subagent"] | self.closed
                parent = event.get("parentSubagentRunId")
                assert parent is None or parent in self.open["subagent"]
                self.open["subagent"].add(inside)
            case "SUBAGENT_FINISHED" | "SUBAGENT_ERROR":
                self.open["subagent"].remove(inside)
                self.closed.add(str(inside))
            case "CUSTOM" | "ACTIVITY_SNAPSHOT" | "TOOL_CALL_RESULT" | "MESSAGES_SNAPSHOT":
                pass
            case "REASONING_ENCRYPTED_VALUE":
                name = event["entityId"]
                assert inside in (self.owners.get((kind, name), "nobody") for kind in ("text", "reasoning"))
            case other:
                pytest.fail(f"unknown event {other}")

    def _opens(self, kind: str, name: str, inside: str | None) -> None:
        assert name not in self.open[kind], f"{kind} {name} is open"
        assert self.owners.setdefault((kind, name), inside) == inside
        self.open[kind].add(name)

    def _grows(self, kind: str, name: str, inside: str | None, delta: str) -> None:
        assert name in self.open[kind], f"{kind} {name} is not open"
        assert self.owners[kind, name] == inside
        assert delta

    def _closes(self, kind: str, name: str, inside: str | None) -> None:
        assert self.owners[kind, name] == inside
        self.open[kind].remove(name)


class PartGrammar:
    """What ``readUIMessageStream`` demands of a stream."""

    def __init__(self) -> None:
        self.texts: set[str] = set()
        self.thoughts: set[str] = set()
        self.inputs: set[str] = set()
        self.steps: list[set[str]] = [set()]
        self.approvals: set[str] = set()
        self.in_step = False
        self.begun = False
        self.last = ""

    def read(self, parts: Iterable[Wire]) -> None:
        for part in parts:
            assert not [name for name, value in part.items() if value is None and name != "input"]
            assert self.begun is (part["type"] != "start")
            self._read(part)
            self.last = part["type"]
        assert self.last in ("finish", "abort", "error")
        assert not self.in_step
        assert not self.texts | self.thoughts
        # The input of a call that is not decided about stays open where the watcher leaves.
        assert not self.inputs or self.last == "error"

    def _known(self, part: Wire) -> None:
        assert any(part["toolCallId"] in step for step in self.steps), part

    def _read(self, part: Wire) -> None:
        match part["type"]:
            case "start":
                self.begun = True
            case "start-step":
                assert not self.in_step
                self.in_step = True
                self.steps.append(set())
            case "finish-step":
                assert self.in_step
                self.in_step = False
            case "reset-step":
                assert self.in_step
                assert not self.texts | self.thoughts | self.inputs
                self.steps[-1] = set()
            case "text-start":
                assert part["id"] not in self.texts
                self.texts.add(part["id"])
            case "text-delta":
                assert part["id"] in self.texts
                assert part["delta"]
            case "text-end":
                self.texts.remove(part["id"])
            case "reasoning-start":
                assert part["id"] not in self.thoughts
                self.thoughts.add(part["id"])
            case "reasoning-delta":
                assert part["id"] in self.thoughts
            case "reasoning-end":
                self.thoughts.remove(part["id"])
            case "tool-input-start":
                self.inputs.add(part["toolCallId"])
                self.steps[-1].add(part["toolCallId"])
            case "tool-input-delta":
                assert part["toolCallId"] in self.inputs
            case "tool-input-available" | "tool-input-error":
                self.inputs.discard(part["toolCallId"])
                self.steps[-1].add(part["toolCallId"])
            case "tool-approval-request":
                self._known(part)
                self.inputs.discard(part["toolCallId"])
                self.approvals.add(part["approvalId"])
            case "tool-approval-response":
                assert part["approvalId"] in self.approvals
            case "tool-output-available" | "tool-output-error" | "tool-output-denied":
                self._known(part)
                self.inputs.discard(part["toolCallId"])
            case "finish" | "abort" | "error" | "source-url":
                pass
            case other:
                assert other.startswith("data-"), other


class ResponseGrammar:
    """What a client of OpenAI's Responses demands of a stream, and of the whole response."""

    def __init__(self) -> None:
        self.items: dict[int, Wire] = {}
        self.open: set[int] = set()
        self.parts: dict[int, str] = {}

    def read(self, events: list[Wire]) -> None:
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        kinds = [event["type"].removeprefix("response.") for event in events]
        assert kinds[:2] == ["created", "in_progress"][: len(kinds)]
        for kind, event in zip(kinds, events, strict=True):
            EVENTS.validate_json(encode_lenient(event), strict=True)
            self._read(kind, event)
            if "mcp_call" not in str(event):  # which Open Responses does not have
                OPEN_EVENTS.validate_json(encode_lenient(event), strict=True)
        assert not ENDS & set(kinds[:-1])
        if kinds and kinds[-1] in ENDS:
            self._end(events[-1]["response"])

    def _read(self, kind: str, event: Wire) -> None:
        index = event.get("output_index", -1)
        match kind:
            case "output_item.added":
                assert index == len(self.items)
                assert event["item"]["status"] == "in_progress"
                self.items[index] = event["item"]
                self.open.add(index)
            case "output_item.done":
                self.open.remove(index)
                assert index not in self.parts
                before, item = self.items[index], event["item"]
                assert (item["id"], item["type"]) == (before["id"], before["type"])
                assert item["status"] != "in_progress"
                self.items[index] = item
            case "content_part.added" | "reasoning_summary_part.added":
                assert index in self.open
                assert index not in self.parts
                self.parts[index] = ""
            case "content_part.done" | "reasoning_summary_part.done":
                part = event["part"]
                assert self.parts.pop(index) == part.get("text", part.get("refusal"))
            case "output_text.delta" | "refusal.delta" | "reasoning_summary_text.delta":
                self.parts[index] += event["delta"]
            case "output_text.done" | "refusal.done" | "reasoning_summary_text.done":
                assert self.parts[index] == event.get("text", event.get("refusal"))
            case _:
                pass
        if "item_id" in event:
            assert index in self.open
            assert self.items[index]["id"] == event["item_id"]

    def _end(self, response: Wire) -> None:
        """The whole response has what was done, and nothing that a client is not to do."""
        output = [item for item in response["output"] if item["status"] != "incomplete"]
        assert all(item in self.items.values() for item in output)
        assert {i["id"] for i in response["output"]} <= {i["id"] for i in self.items.values()}
        calls = [item for item in response["output"] if item["type"] == "function_call"]
        assert all(call["status"] == "completed" for call in calls)
        assert not calls or response["status"] == "completed"
        assert (response["error"] is not None) is (response["status"] == "failed")
        assert (response["completed_at"] is not None) is (response["status"] == "completed")


class AcpGrammar:
    """What an editor demands of the updates of a session."""

    def __init__(self, known: Iterable[str]) -> None:
        self.status: dict[str, str] = dict.fromkeys(known, "pending")

    def read(self, updates: Iterable[Wire], *, may_go_on: bool) -> None:
        for update in updates:
            assert None not in update.values()
            name = update.get("toolCallId", "")
            if update["sessionUpdate"] == "tool_call":
                assert name not in self.status
                assert update["title"]
                self.status[name] = update.get("status", "pending")
            elif update["sessionUpdate"] == "tool_call_update":
                self.status[name] = update.get("status", self.status[name])
            else:
                assert update["content"]["text"]
        assert may_go_on or {*self.status.values()} <= {"completed", "failed"}


ENDS = {"completed", "incomplete", "failed"}
EVENTS: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)
OPEN_EVENTS: TypeAdapter[Any] = TypeAdapter(
    cast("Any", Union)[tuple(v for name, v in vars(open_responses).items() if name.endswith("StreamingEvent"))]
)
CHUNKS = TypeAdapter(ChoiceDelta)
MESSAGES = TypeAdapter(ChatCompletionMessage)


def response_events(records: Iterable[Record]) -> list[Wire]:
    encoder = ResponseEncoder(ResponseHead("run", 0.0, "desk", tools=("look",)))
    return [event for record in records for event in encoder.feed(record)]


def check_chat(records: Iterable[Record]) -> None:
    encoder = ChatEncoder(["look"])
    deltas = [delta for record in records for delta in encoder.feed(record)]
    deltas += encoder.close("the watcher left")
    assert (encoder.finish_reason is None) is (encoder.error is not None)
    for delta in deltas:
        CHUNKS.validate_json(encode_lenient(delta), strict=True)
    MESSAGES.validate_json(encode_lenient(encoder.message), strict=True)


def frames(data: bytes) -> list[Wire]:
    return [json.loads(frame.removeprefix(b"data: ")) for frame in data.split(b"\n\n") if frame]


def ag_ui(records: Iterable[Record], encoder: AgUiEncoder | None = None) -> list[Wire]:
    encoder = encoder or AgUiEncoder("thread", "run", protocol="1.0")
    events = [event for record in records for event in encoder.feed(record)]
    events += encoder.close("the watcher left")
    assert encoder.is_over
    assert encoder.close("again") == []
    return frames(b"".join(map(data_line, events)))


def parts_of(records: Iterable[Record], encoder: UiMessageEncoder | None = None) -> list[Wire]:
    encoder = encoder or UiMessageEncoder("message")
    parts = [part for record in records for part in encoder.feed(record)]
    parts += encoder.close("the watcher left")
    assert encoder.is_over
    return frames(b"".join(map(data_line, parts)))


def check_acp(records: Iterable[Record]) -> None:
    encoder, tracker, pending = AcpEncoder("/home/me"), Tracker(), set[str]()
    updates: list[Wire] = []
    for record in records:
        begins = [change for change in tracker.feed(record) if isinstance(change, ViewBegin)]
        pending.update(waiting.id for begin in begins for waiting in begin.pending)
        updates += encoder.feed(record)
    updates += encoder.close("the watcher left")
    assert encoder.end is not None
    shown = frames(b"".join(map(data_line, updates)))
    AcpGrammar(pending).read(shown, may_go_on=isinstance(encoder.end, ViewPause | ViewCut))


def check(records: list[Record]) -> None:
    check_acp(records)
    AgUiGrammar().read(ag_ui(records))
    PartGrammar().read(parts_of(records))
    ResponseGrammar().read(response_events(records))
    check_chat(records)


indexes = st.integers(0, 2)
texts = st.sampled_from(TEXTS)
ids = st.sampled_from(IDS)
names = st.sampled_from(["look", "dig"])
calls = st.builds(ToolCall, ids, names, st.sampled_from([{}, {"x": 1}, "free"]))
results = st.builds(ToolResult, ids, texts, st.booleans(), st.just("look"))


def answered(made: list[ToolCall]) -> Conversation:
    return Conversation((Message.user("hi"), Message.assistant(*made)))


LOOK = ToolCall("c1", "look", {})
said = st.lists(calls, min_size=1, max_size=2).map(answered)
metadata = st.one_of(
    st.none(),
    st.builds(ToolUseMetadata, ids, st.just("look"), st.booleans()),
    st.builds(ToolResultMetadata, ids),
    st.builds(OpaqueMetadata, st.just("odd")),
)
echoes = st.sampled_from([None, {"x": 1}])
stops = st.sampled_from([None, StopReason(StopKind.END_TURN), StopReason(StopKind.TOOL_USE)])
types = st.sampled_from(BlockType)
asked = st.builds(ToolUseMetadata, ids, names)
block_events = st.one_of(
    st.builds(BlockStart, indexes, st.just(BlockType.TOOL_USE), asked),
    st.builds(BlockStart, indexes, types, metadata, echoes, st.sampled_from([0, 0, 0, 1])),
    st.builds(TextDelta, indexes, texts),
    st.builds(ThinkingDelta, indexes, texts),
    st.builds(RefusalDelta, indexes, texts),
    st.builds(InputJsonDelta, indexes, texts),
    st.builds(InputValueDelta, indexes, st.sampled_from(["$.a", "$.b[0]"]), texts),
    st.builds(SignatureDelta, indexes, texts),
    st.builds(CitationDelta, indexes, st.sampled_from([{"url": "https://a.b"}, {"x": None}])),
    st.builds(BlockStop, indexes, types, stops, echoes, metadata),
    st.builds(BlockAbort, indexes, types, texts),
)
own = st.sampled_from([None, (), ("look",), ("look", "dig")])
turn_events = st.one_of(
    st.just(TurnStart()),
    st.just(TurnStop()),
    st.builds(AttemptStart, st.just("acme"), st.just("large"), own),
    st.builds(AttemptRetract, texts),
    st.builds(Status, st.sampled_from(ResponseStatus), stop_reason=stops),
    st.builds(ToolStart, calls),
    st.builds(ToolProgress, ids, st.sampled_from([0.5, None, {"a": [1]}])),
    st.builds(ToolStop, results),
    st.builds(ToolStop, results),
    st.builds(MessageAdd, st.tuples(st.builds(Message, st.just("user"), st.tuples(results))), texts),
    st.just(MessageAdd((Message.user("go on"),), "send")),
    st.just(HookMessage("hook", "message", "hello")),
    st.just(HookVerdict("hook", "before_tool_call", "Skip", "no", "c1")),
    st.just(WatcherDetach("watcher", "gone")),
    st.builds(Gap, st.just(1), st.just(2)),
    st.builds(Usage, st.integers(0, 9), st.one_of(st.none(), st.integers(0, 9))),
    st.just(Opaque("odd", None)),
    st.just(Ping()),
)


def waiting(calls: Iterable[ToolCall]) -> tuple[PausedCall, ...]:
    return tuple([PausedCall(*placed) for placed in enumerate(calls)])


run_events = st.one_of(
    st.builds(RunStart, said),
    st.builds(
        RunResume,
        said,
        st.builds(
            PauseState,
            st.sampled_from(["hook", "client_tool"]),
            st.lists(calls, max_size=2).map(waiting),
            st.just(()),
            refused=st.lists(results).map(lambda each: dict(enumerate(each, 2))),
        ),
        own_tools=own,
    ),
    st.just(RunStop()),
    st.builds(RunAbort, st.sampled_from(["cancel", "error", "abort", "limit"]), texts),
    st.builds(
        RunPause,
        st.builds(
            PauseState,
            st.sampled_from(["hook", "client_tool"]),
            st.lists(calls, max_size=3).map(waiting),
            st.sampled_from([(), (0,), (1,), (2,)]),
            texts,
        ),
    ),
)
events: st.SearchStrategy[Event] = st.one_of(
    block_events, block_events, block_events, turn_events, turn_events, run_events
)
paths = st.sampled_from([(), (), (), (), (), ("c1",), ("c1", "c2"), ("c3",)])


@st.composite
def soups(draw: st.DrawFn) -> list[Record]:
    """Any events in any order, as no worker would tell them."""
    seq = draw(st.integers(0, 3))
    records: list[Record] = []
    turn = attempt = 1
    for event, path, covers in draw(st.lists(st.tuples(events, paths, st.integers(1, 3)), max_size=40)):
        turn += isinstance(event, TurnStart)
        attempt = attempt + 1 if isinstance(event, AttemptStart) else attempt
        seq += covers
        records.append(Record(seq, "run-1", turn, attempt, 0.0, event, path, covers))
    return records


@given(soups())
def test_any_events_in_any_order_make_well_formed_streams(records: list[Record]) -> None:
    check(records)


@pytest.mark.parametrize("end", [RunPause(PauseState("hook", waiting([LOOK]), (0,), "why")), ToolStart(LOOK)])
def test_a_call_that_only_an_earlier_run_showed_is_shown_before_it_waits_or_starts(end: Event) -> None:
    """No worker resumes a run with a result of a call that then waits again."""
    refused = ToolResult("c1", "no", is_error=True, name="look")
    told = [RunResume(answered([LOOK]), PauseState("hook", (), (), refused={0: refused})), TextDelta(0, "hi"), end]
    check(numbered(*told))


@pytest.mark.parametrize(
    "told",
    [
        [ToolStop(ToolResult("c1", "a"), 0.0), RunPause(PauseState("hook", waiting([LOOK, LOOK]), ()))],
        [
            BlockStart(0, BlockType.TOOL_USE, ToolUseMetadata("c1", "look")),
            BlockStart(0, BlockType.TOOL_USE, ToolUseMetadata("c2", "look")),
            ToolStop(ToolResult("c1", "a"), 0.0),
        ],
        [
            BlockStart(0, BlockType.TOOL_USE, ToolUseMetadata("c1", "dig")),
            ToolStop(ToolResult("c1", "a"), 0.0),
            RunPause(PauseState("hook", waiting([LOOK]), ())),
        ],
    ],
    ids=["a result without a call, which waits twice", "two starts of one block", "a call that waits after its result"],
)
def test_what_no_worker_sends_makes_well_formed_streams(told: list[Event]) -> None:
    check(numbered(*told))


@given(soups(), st.integers(0, 30))
def test_a_late_watcher_is_led_to_any_state(records: list[Record], at: int) -> None:
    state = fold_run([record for record in records[:at] if record.seq])
    encoder = AgUiEncoder("thread", "run", protocol="1.0")
    caught_up = frames(b"".join(map(data_line, encoder.catch_up(state, "run-1"))))
    AgUiGrammar().read([*caught_up, *ag_ui(records[at:], encoder)])
    parts = UiMessageEncoder("message")
    caught_up = frames(b"".join(map(data_line, parts.catch_up(state, "run-1"))))
    PartGrammar().read([*caught_up, *parts_of(records[at:], parts)])


def test_a_late_watcher_learns_that_a_call_is_whole_before_it_learns_its_result() -> None:
    """A result may be there while nobody has said that the block of its call is over."""
    call = ToolUseMetadata("c1", "look")
    told = [
        TurnStart(),
        BlockStart(0, BlockType.TOOL_USE, call),
        ToolStop(ToolResult("c1", "nothing", name="look"), 0.0),
    ]
    records = numbered(*told)
    encoder = UiMessageEncoder("message")
    caught_up = frames(b"".join(map(data_line, encoder.catch_up(fold_run(records), "run-1"))))
    types = [part["type"] for part in [*caught_up, *parts_of([], encoder)]]
    assert types.index("tool-input-start") < types.index("tool-output-available")


def test_a_stop_that_answers_the_open_call_at_its_own_index_closes_it_once() -> None:
    """No provider sends this, but a custom decoder may."""
    call = ToolUseMetadata("c1", "look")
    told = [
        BlockStart(0, BlockType.TOOL_USE, call),
        BlockStop(0, BlockType.TEXT, metadata=ToolResultMetadata("c1", "")),
    ]
    check(numbered(*told))


@given(soups())
def test_the_same_records_twice_are_not_news(records: list[Record]) -> None:
    assert ag_ui([*records, *records]) == ag_ui(records)
    assert parts_of([*records, *records]) == parts_of(records)
