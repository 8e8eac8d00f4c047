"""A `RunView` agrees with the `RunState` of the same records, from the start or any middle, merged, at any moment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rxworker import Approve, Deny, Paused, Run, Worker, tool, worker_tool
from rxworker.errors import RxWorkerError
from rxworker.events import (
    Annotation,
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    CitationDelta,
    ConversationReplace,
    Event,
    InputValueDelta,
    Opaque,
    PausedCall,
    PauseState,
    Record,
    ResponseStatus,
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
    Usage,
)
from rxworker.events.block import ToolResultMetadata
from rxworker.events.kinds import EVENT_KINDS, EventKind
from rxworker.events.pause import BackgroundCall
from rxworker.events.turn import DISCARDED_EARLY
from rxworker.hub import Coalesce, Reliable
from rxworker.messages import Conversation, Message, Refusal, Text, Thinking, ToolCall, ToolResult
from rxworker.providers import PROVIDERS
from rxworker.state import RunState, fold_run
from rxworker.testing import Reply, ScriptedModel, call, cut, fail, say, think
from rxworker.tools import ToolContext
from rxworker.transport import Retry
from rxworker.views import BlockView, CallView, NoteView, RunView, ViewItem, run_view
from rxworker.views.changes import CallOffer, Change, ScopeClose, ScopeOpen, ViewPause
from tests.over_recordings import provider_of

TEXTS = (BlockType.TEXT, BlockType.REFUSAL)
STARTED = Status(ResponseStatus.STARTED)
CALL = ToolCall("c1", "look", {"at": "a"})


@tool
async def look(where: str, context: ToolContext) -> str:
    """Look somewhere."""
    context.progress({"at": where})
    return f"nothing {where}"


@tool
async def broken() -> str:
    """Fail."""
    raise OSError("the disk is gone")


@tool(requires_approval=True)
async def delete(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


def worker(replies: Sequence[Reply | str]) -> Worker:
    """A worker that tries again at once."""
    inner = [think("Let me think.") + call("look", where="inside"), say("Because it is so.")]
    ask = worker_tool(
        lambda: Worker(ScriptedModel(list(inner)), tools=[look]), name="ask", description="Ask for a reason."
    )
    patient = Retry(retries=2, first=0.0)
    return Worker(ScriptedModel(list(replies)), tools=[look, broken, delete, ask], response_retry=patient)


async def watch(run: Run[object], *, merged: bool = False) -> list[Record]:
    """All records of a run, however it ends."""
    records: list[Record] = []
    try:
        async for record in run.watch(Coalesce() if merged else Reliable()):
            records.append(record)
    except RxWorkerError:
        pass
    return records


def text_of(messages: Iterable[Message], *kinds: type[Text | Refusal | Thinking]) -> str:
    said = [b for m in messages for b in m.content if isinstance(b, Text | Refusal | Thinking)]
    return "".join(b.text for b in said if isinstance(b, kinds))


def check(view: RunView, state: RunState) -> None:
    """Compare what the view shows with the conversation of the state, and the response that is not part of it yet."""
    before = () if view.conversation is None else view.conversation.messages
    answers = [m for m in state.conversation.messages[len(before) :] if m.role == "assistant"]
    response = None if state.is_closed else state.response
    open_blocks = [] if response is None else [b for b in response.blocks if not b.choice]
    blocks = [b for b in view.blocks() if b.stage != "retracted" and not b.block.choice]
    for kinds, types in (((Text, Refusal), TEXTS), ((Thinking,), (BlockType.THINKING,))):
        expected = text_of(answers, *kinds) + "".join("".join(b.text) for b in open_blocks if b.block_type in types)
        assert "".join(b.text for b in blocks if b.block.block_type in types) == expected
    calls = [c for c in blocks if isinstance(c, CallView) and c.block.block_type is BlockType.TOOL_USE]
    whole = [c for c in calls if c.written is not None and not c.reason]
    results = {r.tool_use_id: r for m in state.conversation.messages for r in m.tool_results}
    for each in calls:
        result = each.result
        known = [r for r in (*state.results, *results.values()) if r == result]
        # A provider's own search may report a result without any id.
        assert result is None or known or not result.tool_use_id
    if response is None:
        made = [c.id for m in answers for c in m.tool_calls]
        assert [c.block.call_id for c in whole if c.block.response] == made
        by_id = {c.block.call_id: c for c in calls}
        for known_call in state.calls:
            shown = by_id.get(known_call.call.id)
            if shown is None:  # refused by the person who was asked: its result follows as a record
                assert known_call.result is not None
                continue
            assert (shown.stage == "running") is (known_call.phase == "running")
            assert shown.result == known_call.result
    assert view.state == state
    ends = {"ViewPause": "paused", "ViewFinish": "finished", "ViewAbort": "aborted"}
    if view.end is not None:
        assert ends[type(view.end).__name__] == state.status
        assert all(item.is_over or item.stage == "waiting" for item in view.items)


def view_of(records: Iterable[Record], view: RunView | None = None) -> RunView:
    view = view or RunView()
    for record in records:
        view.step(record)
    return view


def tokens(usage: Usage) -> tuple[int | None, int | None]:
    return usage.input_tokens or 0, usage.output_tokens or 0


def check_everywhere(records: list[Record], merged: list[Record]) -> None:
    view, state = RunView(), RunState()
    for record in records:
        state = fold_run([record], state)
        view.step(record)
        check(view, state)
    if isinstance(records[0].event, RunStart):
        own = [a.usage for a in view.attempts if not a.scope.path and a.usage is not None]
        assert tokens(sum(own, Usage())) == tokens(state.own_usage)
    check(view_of(merged), fold_run(merged))
    for at in range(0, len(records), max(1, len(records) // 12)):
        middle = fold_run(records[:at])
        late = RunView()
        if at:
            late.catch_up(middle, records[0].run_id)
        check(view_of(records[at:], late), state)


replies = st.lists(
    st.sampled_from(
        [
            say("Hello, who is there?"),
            think("Where to look? Here.") + say("I look.") + call("look", where="here"),
            call("look", where="here") + call("look", where="there"),
            call("broken") + say("Oh.") + call("unknown", a=1),
            say("Once upon a") + cut(),
            say("Once upon a time") + fail("overloaded", retryable=True),
            say("Half a sen") + fail("No", "auth"),
            call("ask", task="Why?") + call("look", where="here"),
            say("May I?") + call("look", where="there") + call("delete", path="a.txt"),
        ]
    ),
    min_size=1,
    max_size=4,
)


async def run_of(script: list[Reply | str]) -> None:
    run = worker([*script, "That is all."]).run("Go.")
    records = await watch(run)
    check_everywhere(records, await watch(run, merged=True))


@settings(max_examples=40, deadline=None)
@given(replies)
def test_a_view_agrees_with_the_state_of_any_run(script: list[Reply | str]) -> None:
    asyncio.run(run_of(script))


@pytest.mark.parametrize("decision", [Approve({"path": "b.txt"}), Deny("not that one")])
async def test_a_view_of_a_resumed_run_agrees_with_its_state(decision: Approve | Deny) -> None:
    asked = worker([call("delete", path="a.txt"), "Done."])
    first = asked.run("Tidy up")
    result = await first
    assert isinstance(result, Paused)
    before = view_of(await watch(first))
    waiting = before.calls()[0]
    assert waiting.stage == "waiting"
    run = asked.resume(decisions={result.pending[0].id: decision})
    records = await watch(run)
    check_everywhere(records, await watch(run, merged=True))
    after = view_of(records, RunView(resumes=before))
    assert after.calls()[0] is waiting
    assert waiting.stage == ("done" if isinstance(decision, Approve) else "refused")
    assert waiting.is_denied is isinstance(decision, Deny)


def test_a_view_agrees_with_the_state_of_a_recorded_response(recording: Path) -> None:
    decoder = PROVIDERS[provider_of(recording)]("a-model").decoder()
    events: list[Event] = [
        RunStart(Conversation((Message.user("Hi"),))), TurnStart(), AttemptStart(),
    ]  # fmt: skip
    events += [*decoder.feed(recording.read_bytes()), *decoder.finish()]
    records = [Record(seq, "run-1", 1, 1, 0.0, event) for seq, event in enumerate(events, start=1)]
    view, state = RunView(), RunState()
    for record in records:
        state = fold_run([record], state)
        view.step(record)
    check(view, state)
    if records:
        middle = len(records) // 2
        late = RunView()
        late.catch_up(fold_run(records[:middle]), "run-1")
        check(view_of(records[middle:], late), state)


def test_every_change_is_applied_to_the_view_or_changes_no_item() -> None:
    changes = set(get_args(Change))
    assert set(run_view._APPLIERS) <= changes
    assert changes - set(run_view._APPLIERS) == {ScopeOpen, ScopeClose, CallOffer}


def example(kind: type[Any]) -> Any:
    """An event of this type, with values for its required fields."""
    values: dict[str, Any] = {
        "call": CALL,
        "result": ToolResult("c1", "nothing"),
        "conversation": Conversation((Message.user("hi"),)),
        "messages": (Message.user("go on"),),
        "citation": {"url": "https://a.b"},
        "block_type": BlockType.TEXT,
        "status": ResponseStatus.STARTED,
        "cause": "error",
        "pause": PauseState("ask", (), ()),
        "background": BackgroundCall("c1", CALL, "key", 0, 0.0),
    }
    fields = [field for field in msgspec.structs.fields(kind) if field.required]
    return kind(**{f.name: values.get(f.name, 1 if f.type in (int, float) else "x") for f in fields})


@pytest.mark.parametrize("kind", EVENT_KINDS, ids=lambda kind: kind.type.__name__)
def test_every_kind_of_event_leaves_view_and_state_in_agreement(kind: EventKind) -> None:
    """An event that stands by itself becomes an item, unless it belongs to an attempt.

    One that is hidden changes nothing.
    """
    fold = Fold()
    fold.feed(RunStart(Conversation((Message.user("hi"),))), AttemptStart(), TextDelta(0, "a"))
    changed = fold.feed(example(kind.type))
    assert fold.view.state.seq == 4
    if kind.display == "hidden":
        assert changed == []
    elif kind.display == "note" and kind.type is not Usage:
        assert [type(item) for item in changed] == [NoteView]
    if kind.type not in (RunStart, RunResume, ConversationReplace):  # they replace the conversation
        check(fold.view, fold.view.state)


def test_blocks_before_the_first_start_of_a_response_are_kept() -> None:
    fold = Fold()
    fold.feed(AttemptStart(), TextDelta(0, "a"), STARTED, TextDelta(0, "b"))
    assert fold.texts() == [("open", "ab")]
    check(fold.view, fold.view.state)
    fold.feed(STARTED)
    assert fold.texts() == [("retracted", "ab")]
    check(fold.view, fold.view.state)


class Fold:
    """A view that is fed events."""

    def __init__(self, **options: Any) -> None:
        self.view = RunView(**options)
        self._seq = 0

    def feed(self, *events: Event, path: tuple[str, ...] = ()) -> list[ViewItem]:
        changed: dict[ViewItem, None] = {}
        for event in events:
            self._seq += 1
            record = Record(self._seq, "r", 1, 1, 100.0 + self._seq, event, path)
            changed.update(dict.fromkeys(self.view.step(record).items))
        return list(changed)

    def texts(self) -> list[tuple[str, str]]:
        return [(i.stage, i.text) for i in self.view.items if isinstance(i, BlockView)]


def called() -> list[Event]:
    start = BlockStart(0, BlockType.TOOL_USE, ToolUseMetadata("c1", "look"))
    return [start, BlockStop(0, BlockType.TOOL_USE)]


def test_a_step_returns_the_items_that_it_changed() -> None:
    fold = Fold()
    fold.feed(BlockStart(0, BlockType.THINKING), ThinkingDelta(0, "Hm."))
    fold.feed(SignatureDelta(0, "s"), BlockStop(0, BlockType.THINKING))
    (item,) = fold.feed(TextDelta(1, "Hel"), TextDelta(1, "lo"), CitationDelta(1, {"url": "u"}))
    assert isinstance(item, BlockView)
    assert (item.text, item.citations, item.stage) == ("Hello", [{"url": "u"}], "open")
    assert fold.texts() == [("done", "Hm."), ("open", "Hello")]


def test_a_call_is_one_item_with_its_times() -> None:
    fold = Fold()
    fold.feed(*called(), ToolStart(CALL), ToolProgress("c1", "half"))
    fold.feed(ToolStop(ToolResult("c1", "rain", name="look"), 0.5))
    (item,) = fold.view.calls()
    assert (item.began, item.written, item.started, item.ended) == (101, 102, 103, 105)
    assert (item.stage, item.call, item.progress, item.seconds) == ("done", CALL, "half", 0.5)


def test_a_result_that_hooks_change_later_does_not_move_the_end_of_its_call() -> None:
    fold = Fold()
    fold.feed(*called(), ToolStart(CALL), ToolStop(None, 0.5, "c1"))
    (item,) = fold.view.calls()
    assert (item.stage, item.ended, item.result) == ("done", 104, None)


def test_a_discarded_early_result_leaves_the_call_waiting() -> None:
    fold = Fold()
    fold.feed(*called(), ToolStart(CALL), ToolStop(ToolResult("c1", DISCARDED_EARLY, True), 0.5))
    assert fold.view.calls()[0].stage == "waiting"


def test_a_retracted_attempt_takes_the_runs_inside_its_calls_with_it() -> None:
    fold = Fold()
    fold.feed(AttemptStart(), STARTED, *called(), ToolStart(CALL), Opaque("logprobs"))
    fold.feed(TurnStart(), TextDelta(0, "inner"), path=("c1",))
    fold.feed(AttemptRetract("overloaded"), AttemptStart(), TextDelta(0, "Again"))
    assert fold.texts() == [("retracted", ""), ("retracted", "inner"), ("open", "Again")]
    notes = [item for item in fold.view.items if isinstance(item, NoteView)]
    assert [note.stage for note in notes] == ["retracted", "done"]


def test_events_of_an_unknown_type_are_counted() -> None:
    fold = Fold()
    fold.feed(*(Opaque("logprobs", {"at": n}) for n in range(20)), Opaque("other"))
    notes = [item for item in fold.view.items if isinstance(item, NoteView)]
    assert [note.times for note in notes] == [20, 1]


def test_further_choices_are_shown_and_their_calls_do_not_wait() -> None:
    fold = Fold()
    start = BlockStart(1, BlockType.TOOL_USE, ToolUseMetadata("c2", "look"), choice=1)
    fold.feed(TextDelta(0, "One"), TextDelta(2, "Two", choice=1), start)
    fold.feed(BlockStop(1, BlockType.TOOL_USE))
    assert [item.block.choice for item in fold.view.blocks()] == [0, 1, 1]
    assert fold.view.calls()[0].stage == "refused"


def test_arguments_by_path_are_there_while_the_call_is_open() -> None:
    fold = Fold()
    start = BlockStart(0, BlockType.TOOL_USE, ToolUseMetadata("c1", "look"))
    fold.feed(start, InputValueDelta(0, "$.at", "under"))
    (item,) = fold.view.calls()
    assert ([value.value for value in item.values], item.text) == (["under"], "")
    fold.feed(BlockStop(0, BlockType.TOOL_USE))
    assert item.text == '{"at":"under"}'


def test_the_result_of_a_provider_belongs_to_its_call() -> None:
    fold = Fold()
    use, result = BlockType.SERVER_TOOL_USE, BlockType.SERVER_TOOL_RESULT
    fold.feed(BlockStart(0, use, ToolUseMetadata("s1", "search")), BlockStop(0, use))
    fold.feed(BlockStart(1, result, ToolResultMetadata("s1"), {"found": 1}), BlockStop(1, result))
    (item,) = fold.view.items
    assert isinstance(item, CallView)
    assert item.stage == "done"
    assert item.result is not None
    assert item.result.text == '{"found":1}'


def test_what_is_open_when_the_run_pauses_or_ends_does_not_stay_open() -> None:
    fold = Fold()
    fold.feed(
        RunStart(Conversation((Message.user("Hi"),))),
        *called(),
        RunPause(PauseState("ask", (PausedCall(0, CALL),), ())),
    )
    assert [item.stage for item in fold.view.items] == ["waiting"]
    fold = Fold()
    fold.feed(*called(), TextDelta(1, "Half"), BlockAbort(1, BlockType.TEXT, "cut"), RunStop())
    assert [item.stage for item in fold.view.items] == ["refused", "stopped"]


def test_each_call_whose_effects_are_unknown_needs_a_decision() -> None:
    fold = Fold()
    known, unknown = replace(CALL, id="c2"), replace(CALL, id="c3")
    calls = tuple([PausedCall(*placed) for placed in enumerate((CALL, known, unknown))])
    fold.feed(*called(), RunPause(PauseState("recovery", calls, (0, 2))))
    assert isinstance(fold.view.end, ViewPause)
    assert [each.needs_decision for each in fold.view.end.pending] == [True, False, True]


def test_a_view_keeps_the_last_items_only_and_forgets_ids() -> None:
    fold = Fold(keep=5)
    for _ in range(50):
        fold.feed(AttemptStart(), STARTED, *called(), ToolStart(CALL))
        fold.feed(ToolStop(ToolResult("c1", "rain")), TextDelta(1, "x"))
        fold.feed(BlockStop(1, BlockType.TEXT))
    assert len(fold.view.items) == 5
    fold.feed(RunStop())
    assert not fold.view._live
    assert not fold.view._calls


def test_an_annotation_makes_no_run_longer() -> None:
    view = RunView()
    rated = Annotation("rating", 5).custom
    for seq, (time, event) in enumerate([(1.0, rated), (3.0, RunStop()), (9.0, rated)], start=1):
        view.step(Record(seq, "r", 1, 1, time, event))
    assert (view.seconds, view.state.seq) == (2.0, 3)


def test_a_clock_that_is_set_back_moves_nothing_back() -> None:
    view = RunView()
    for seq, (time, event) in enumerate([(5.0, TextDelta(0, "a")), (1.0, RunStop())], start=1):
        view.step(Record(seq, "r", 1, 1, time, event))
    assert (view.items[0].began, view.items[0].ended) == (5.0, 5.0)
