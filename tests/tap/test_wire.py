"""AG-UI and the UI Message Stream: a run that our encoders send is the same run at the other end of a tap."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import reactivex
from reactivex import Observable

from rxworker import Limits, Run, Worker, tool, worker_tool
from rxworker.events import Custom, Record, ResponseEvent, ToolStop
from rxworker.messages import Conversation, Message, Text
from rxworker.messages.lenient_json import encode_lenient
from rxworker.protocols.ag_ui import AgUiEncoder
from rxworker.protocols.ui_messages.encode import UiMessageEncoder
from rxworker.run.run import end_of
from rxworker.state import RunState
from rxworker.tap import tap
from rxworker.tap.sources import AGUI, UIMessages
from rxworker.tap.sources.mapper import WireMapper
from rxworker.testing import ScriptedModel, call, fail, say, think
from rxworker.testing.conformance import check, lint
from rxworker.tools import ToolContext
from rxworker.transport import Retry
from tests.decoded import events_of
from tests.mutate import odd
from tests.over_recordings import provider_of, pytest_generate_tests  # noqa: F401  # pyright: ignore[reportUnusedImport]

AT_ONCE = Retry(first=0.0)
Items = list[dict[str, Any]]


@tool
async def look(city: str, context: ToolContext) -> str:
    """Look out of a window."""
    context.progress({"window": city})
    context.set_shared_state({"city": city})
    return f"rain in {city}"


@tool(effect="pure")
async def peek(city: str) -> str:
    """Look early."""
    return f"sun in {city}"


@tool(requires_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool
async def fails() -> str:
    """Fail."""
    raise ValueError("no")


def worker(*script: Any, **options: Any) -> Worker:
    answers = [think("hm") + call("look", city="B"), say("x") + fail("overloaded"), "Inside."] * 2
    inner = Worker(ScriptedModel(answers), tools=[look], name="inner", response_retry=AT_ONCE)
    tools = [look, peek, pay, fails, worker_tool(inner, name="ask", description="Ask another worker.")]
    return Worker(ScriptedModel([*script]), tools=tools, response_retry=AT_ONCE, **options)


CASES: dict[str, Callable[[], Worker]] = {
    "text": lambda: worker("Hello there."),
    "retries": lambda: worker(
        think("I look") + say("so") + call("look", city="K") + call("fails"),
        say("half") + call("look", city="L") + fail("overloaded"),
        fail("overloaded"),
        "Done.",
    ),
    "early": lambda: worker(call("peek", city="K") + say("and") + call("peek", city="L") + call("look", city="M"), "."),
    "inside": lambda: worker(call("ask", task="go") + call("look", city="O") + call("ask", task="again"), "Done."),
    "pause": lambda: worker(call("look", city="O") + call("pay", amount=3)),
    "fails": lambda: worker(call("look", city="O"), say("ha") + fail("refused", "auth")),
    "limit": lambda: worker(call("look", city="O"), "Never.", limits=Limits(max_turns=1)),
}
KINDS: dict[str, tuple[Callable[[], Any], Callable[[], WireMapper]]] = {
    "ag_ui": (lambda: AgUiEncoder("t", "r", protocol="1.0"), lambda: AGUI("desk", "Go.")),
    "ui_messages": (lambda: UiMessageEncoder("m"), lambda: UIMessages("desk", "Go.")),
}
each_kind = pytest.mark.parametrize("kind", [*KINDS])


def records_of(run: Run[Any]) -> list[Record]:
    return list(run._journal.hub.history.records(0))


async def sent(run: Run[Any], kind: str) -> Items:
    """What an encoder makes of a run, at its end."""
    await end_of(run)
    encoder = KINDS[kind][0]()
    return [json.loads(encode_lenient(each)) for record in records_of(run) for each in encoder.feed(record)]


def again(items: Items, kind: str) -> Run[None]:
    return tap(reactivex.from_iterable(items), KINDS[kind][1]())


async def tapped(items: Items, kind: str) -> Run[None]:
    run = again(items, kind)
    await end_of(run)
    assert lint(records_of(run)) == []
    return run


def content(conversation: Conversation) -> list[tuple[str, list[tuple[str, object]]]]:
    """The texts, calls and results. Neither protocol has thinking without a text."""
    found = [(each.role, [*_content(each)]) for each in conversation.messages]
    return [(role, parts) for role, parts in found if parts]


def _content(message: Message) -> Iterator[tuple[str, object]]:
    for block in message.content:
        each: Any = block
        kind = type(block).__name__.replace("Refusal", "Text")
        if kind in ("Text", "Thinking") and each.text:
            yield kind, each.text
        elif kind in ("ToolCall", "ServerToolCall"):
            yield kind, (each.name, each.input or {})
        elif kind == "ToolResult":
            yield kind, (each.content, each.is_error, each.name)


def figures(state: RunState) -> dict[str, object]:
    usage = (state.usage.input_tokens, state.usage.output_tokens, state.usage.cache_read_tokens)
    counts = (state.turns, state.attempts, state.tool_calls, state.tool_errors)
    names = (state.model, state.provider)
    return {
        "status": state.status,
        "counts": counts,
        "usage": usage,
        "names": names,
        "messages": content(state.conversation),
    }


@each_kind
@pytest.mark.parametrize("case", [*CASES])
async def test_a_run_is_the_same_at_the_other_end(case: str, kind: str) -> None:
    run = CASES[case]().run("Go.")
    items = await sent(run, kind)
    again = await tapped(items, kind)
    assert figures(again.state) == figures(run.state)
    assert again.state.shared_state == run.state.shared_state
    assert {each.path for each in records_of(again)} == {each.path for each in records_of(run)}
    if kind == "ag_ui":
        stops = [[r.event.seconds for r in records_of(each) if isinstance(r.event, ToolStop)] for each in (run, again)]
        assert stops[0] == stops[1]
    for cut in range(1, len(items), 3):
        assert (await tapped(items[:cut], kind)).state.status == "aborted"


@each_kind
@pytest.mark.parametrize("case", [*CASES])
async def test_what_is_tapped_keeps_all_rules(case: str, kind: str) -> None:
    items = await sent(CASES[case]().run("Go."), kind)
    for part in (items, items[: len(items) // 2]):
        report = await check(partial(again, part, kind))
        report.raise_for_broken()


class Decoded:
    """A model that gives recorded events, and then a text."""

    name = model = "recorded"

    def __init__(self, events: list[ResponseEvent]) -> None:
        self._answers = [events, events_of("ollama", b'{"message":{"content":"Done."},"done":true}\n')]

    def stream(self, request: object) -> Observable[ResponseEvent]:
        return reactivex.from_iterable(self._answers.pop(0) if self._answers else [])


def recorded(recording: Path) -> Worker:
    return Worker(Decoded(events_of(provider_of(recording), recording.read_bytes())))


FREE_TEXT = {"xai-overlapping-items", "custom-tool"}
"""Recordings with calls of free text, which arrive as JSON."""
BEGUN_TWICE = {"quirk-spliced-message-start"}
"""Recordings with a response that begins twice, which counts as two attempts."""


@pytest.mark.product(4)
@each_kind
async def test_a_recorded_answer_is_the_same_at_the_other_end(recording: Path, kind: str) -> None:
    run = recorded(recording).run("Go.")
    again = await tapped(await sent(run, kind), kind)
    found, expected = figures(again.state), figures(run.state)
    if recording.stem in BEGUN_TWICE:
        found["counts"] = expected["counts"]
    if recording.stem in FREE_TEXT:
        found["messages"] = expected["messages"]
    assert found == expected


def ag(kind: str, **members: object) -> dict[str, Any]:
    return {"type": kind, **members}


START, END = ag("RUN_STARTED", threadId="t", runId="r"), ag("RUN_FINISHED", threadId="t", runId="r")
HISTORY = [{"id": "1", "role": "user", "content": "Hi"}, {"id": "2", "role": "assistant", "content": "Hello"}]
INPUT = {"messages": [*HISTORY, {"id": "3", "role": "user", "content": "Go."}], "state": {"a": 1}}


async def state_of(*events: dict[str, Any], kind: str = "ag_ui") -> RunState:
    return (await tapped([*events], kind)).state


async def test_the_input_is_that_of_the_agent_or_of_its_snapshot() -> None:
    for first in ([{**START, "input": INPUT}], [START, ag("MESSAGES_SNAPSHOT", messages=INPUT["messages"])]):
        run = tap(reactivex.from_iterable([*first, ag("TEXT_MESSAGE_CHUNK", delta="Yes"), END]), AGUI())
        await run
        assert [each.text for each in run.state.conversation.messages] == ["Hi", "Hello", "Go.", "Yes"]
        assert run.state.labels == {"thread": "t"}


async def test_shorthands_and_older_names_are_read() -> None:
    state = await state_of(
        START,
        ag("THINKING_START"),
        ag("THINKING_TEXT_MESSAGE_CONTENT", delta="Hm"),
        ag("THINKING_TEXT_MESSAGE_END"),
        ag("TEXT_MESSAGE_CHUNK", messageId="1", role="assistant", delta="I "),
        ag("TEXT_MESSAGE_CHUNK", delta="look."),
        ag("TOOL_CALL_CHUNK", toolCallId="c", toolCallName="look", delta='{"a":'),
        ag("TOOL_CALL_CHUNK", delta="1}"),
        ag("TOOL_CALL_RESULT", messageId="2", toolCallId="c", content=[{"type": "text", "text": "rain"}]),
        ag("TEXT_MESSAGE_START", messageId="3", role="user"),
        ag("TEXT_MESSAGE_CONTENT", messageId="3", delta="Also."),
        ag("TEXT_MESSAGE_END", messageId="3"),
        ag("STEP_STARTED", stepName="one"),
        ag("TEXT_MESSAGE_CHUNK", messageId="4", delta="One."),
        ag("STEP_FINISHED", stepName="one"),
        ag("STEP_STARTED", stepName="two"),
        ag("TEXT_MESSAGE_CHUNK", messageId="5", delta="Two."),
        {**END, "usage": [{"inputTokens": 4, "outputTokens": 2, "model": "m"}, {"inputTokens": 1, "outputTokens": 1}]},
    )
    assert content(state.conversation) == [
        ("user", [("Text", "Go.")]),
        ("assistant", [("Thinking", "Hm"), ("Text", "I look."), ("ToolCall", ("look", {"a": 1}))]),
        ("user", [("ToolResult", ((Text("rain"),), False, "look"))]),
        ("user", [("Text", "Also.")]),
        ("assistant", [("Text", "One.")]),
        ("assistant", [("Text", "Two.")]),
    ]
    assert (state.usage.input_tokens, state.usage.output_tokens) == (5, 3)


async def test_operations_on_the_shared_state_and_what_has_no_event() -> None:
    run = await tapped(
        [
            START,
            ag("STATE_SNAPSHOT", snapshot={"a": [1]}),
            ag(
                "STATE_DELTA",
                delta=[{"op": "add", "path": "/a/-", "value": 2}, {"op": "move", "from": "/a", "path": "/b"}],
            ),
            ag("CUSTOM", name="note", value=1),
            ag("RAW", event={}),
            ag("SOMETHING_NEW", x=1),
            END,
        ],
        "ag_ui",
    )
    assert run.state.shared_state == {"a": [1, 2]}
    customs = [record.event for record in records_of(run) if isinstance(record.event, Custom)]
    assert [(each.name, each.data.get("op")) for each in customs] == [
        ("json_patch", "move"),
        ("note", None),
        ("ag_ui.something_new", None),
    ]


CALL = [ag("TOOL_CALL_START", toolCallId="c", toolCallName="pay"), ag("TOOL_CALL_END", toolCallId="c")]
ASKED = {
    "type": "interrupt",
    "interrupts": [{"id": "i", "reason": "tool_call", "toolCallId": "c", "message": "May I?"}],
}
PARTS = [ag("start"), ag("start-step"), ag("tool-input-available", toolCallId="c", toolName="pay", input={"a": 1})]


@pytest.mark.parametrize(
    ("events", "status", "reason", "waits"),
    [
        ([START, *CALL, {**END, "outcome": ASKED}], "paused", "May I?", ["pay"]),
        ([START, *CALL, {**END, "outcome": {"type": "success", "pendingToolCallIds": ["c"]}}], "paused", "", ["pay"]),
        ([START, {**END, "outcome": {"type": "cancelled"}}], "aborted", "the run was cancelled: by its program", []),
        ([START, *CALL, ag("RUN_ERROR", message="no", code="E1")], "aborted", "no", []),
        ([START, *CALL, {**END, "outcome": {"type": "success"}}], "finished", "", []),
        (
            [*PARTS, ag("tool-approval-request", toolCallId="c", reason="May I?"), ag("finish")],
            "paused",
            "May I?",
            ["pay"],
        ),
        ([*PARTS, ag("finish", finishReason="tool-calls")], "paused", "", ["pay"]),
        ([*PARTS, ag("abort", reason="enough")], "aborted", "the run was cancelled: enough", []),
        ([*PARTS, ag("error", errorText="no")], "aborted", "no", []),
    ],
)
async def test_how_it_ends(events: Items, status: str, reason: str, waits: list[str]) -> None:
    state = await state_of(*events, kind="ag_ui" if events[0] is START else "ui_messages")
    why, pending = (state.reason, ()) if state.pause is None else (state.pause.reason, state.pause.pending)
    assert (state.status, why, [each.name for each in pending]) == (status, reason, waits)


async def test_a_run_inside_without_a_call_is_inside_one_of_its_name() -> None:
    run = await tapped(
        [
            START,
            ag("SUBAGENT_STARTED", subagentRunId="s", name="helper", timestamp=1000),
            ag("TEXT_MESSAGE_CHUNK", subagentRunId="s", messageId="1", delta="Inside.", timestamp=2000),
            ag("SUBAGENT_FINISHED", subagentRunId="s", timestamp=4500),
            ag("TEXT_MESSAGE_CHUNK", messageId="2", delta="Done."),
            END,
        ],
        "ag_ui",
    )
    assert {record.path for record in records_of(run)} == {(), ("s",)}
    (stop,) = [record.event for record in records_of(run) if isinstance(record.event, ToolStop)]
    assert (stop.tool, stop.seconds, stop.is_error) == ("helper", 3.5, False)


async def test_tools_of_the_ai_sdk_run_while_their_response_goes_on() -> None:
    state = await state_of(
        *[
            *PARTS,
            ag("tool-output-available", toolCallId="c", output={"ok": True}),
            ag("text-delta", id="1", delta="And"),
        ],
        ag("tool-input-start", toolCallId="d", toolName="search", providerExecuted=True),
        ag("tool-input-available", toolCallId="d", toolName="search", input={}, providerExecuted=True),
        ag("tool-output-available", toolCallId="d", output=[], providerExecuted=True),
        *[
            ag("tool-input-start", toolCallId="e", toolName="pay"),
            ag("tool-input-delta", toolCallId="e", inputTextDelta="{"),
        ],
        ag("tool-input-error", toolCallId="e", toolName="pay", input="{", errorText="not JSON"),
        *[ag("finish-step"), ag("start-step"), ag("text-delta", id="1", delta="Done."), ag("finish-step")],
        ag("finish", finishReason="length"),
        kind="ui_messages",
    )
    assert content(state.conversation)[1:] == [
        ("assistant", [("ToolCall", ("pay", {"a": 1})), ("Text", "And"), ("ServerToolCall", ("search", {}))]),
        ("user", [("ToolResult", ('{"ok":true}', False, "pay"))]),
        ("assistant", [("Text", "Done.")]),
    ]
    assert state.stop_reason is not None
    assert state.stop_reason.raw == "length"


@each_kind
async def test_what_is_odd_or_missing_never_raises(kind: str) -> None:
    items = [*await sent(CASES["inside"]().run("Go."), kind), *PARTS, *CALL, {**START, "input": INPUT}]
    for seed in range(60):
        chance = random.Random(seed)
        mapper = KINDS[kind][1]()
        made = [each for item in items for each in mapper.feed(odd(chance, item, share=0.1))]
        assert [each.event for each in [*made, *mapper.finish()]]
