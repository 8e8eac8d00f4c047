"""Every verb says what it takes: whatever else it is given ends the stream with the remedy, and never with silence.

A new public operator is one row of `VERBS`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias

import pytest
import reactivex
from msgspec import Struct
from reactivex import Observable, Subject
from reactivex import operators as ops
from reactivex.scheduler import HistoricalScheduler

from rxworker import Run, Worker, operators
from rxworker.adapters.tables import call_rows, response_rows, run_rows
from rxworker.errors import ConfigurationError
from rxworker.events import (
    AttemptStart,
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    InputJsonDelta,
    Ping,
    Record,
    ResponseStatus,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolStart,
    ToolUseMetadata,
    Usage,
)
from rxworker.events.kinds import Deltas
from rxworker.messages import ToolCall
from rxworker.operators import (
    coalesce,
    combine_gauges,
    committed,
    decode,
    events,
    fail_on_error,
    fold_scope,
    fold_sliding,
    group_blocks,
    hold_back,
    join_runs,
    lineage,
    lines,
    live,
    map_async,
    mask,
    merge_deltas,
    merge_runs,
    only,
    partial_json,
    partial_values,
    quorum,
    rate,
    records_of,
    reject,
    results,
    retry_before_first,
    scan_scope,
    sentences,
    session_windows,
    sliding,
    spans,
    split_meta,
    text_deltas,
    text_so_far,
    think_tags,
    thinking_deltas,
    throttle,
    time_out,
    tool_calls,
    tool_inputs,
    usage_changes,
)
from rxworker.operators.kernel import Operator
from rxworker.testing import ScriptedModel
from rxworker.timeline import Timeline
from tests.seen import through

Kind: TypeAlias = Literal["events", "records", "texts", "blocks", "numbers"]

EVENTS: list[Event] = [
    AttemptStart(),
    BlockStart(0, BlockType.TEXT),
    TextDelta(0, "[1, hunter2"),
    TextDelta(0, "2. \n"),
    ThinkingDelta(1, "hunter2 hm"),
    BlockStop(0, BlockType.TEXT),
    BlockStart(2, BlockType.TOOL_USE, ToolUseMetadata("1", "look")),
    InputJsonDelta(2, '{"a": 1, "b": 2}'),
    BlockStop(2, BlockType.TOOL_USE),
    ToolStart(ToolCall("1", "look", {})),
    Usage(1, 2),
    Status(ResponseStatus.COMPLETED),
]


def envelop(event: Any) -> Record:
    return Record(seq=1, run_id="r", turn=1, attempt=1, time=0.0, event=event)


def same(item: Any) -> Any:
    return item


def passed(source: Observable[Any]) -> Observable[Any]:
    return source


class Same:
    def feed(self, data: Any, /) -> Sequence[Any]:
        return [data]

    def finish(self) -> Sequence[Any]:
        return []


class Row(Struct, frozen=True):
    last: object = None


def count(state: int, _: object) -> int:
    return state + 1


def later(one: object, other: object) -> object:
    return other


def begins(record: Record) -> int | None:
    return 0 if isinstance(record.event, AttemptStart) else None


def ends(record: Record) -> int | None:
    return 0 if isinstance(record.event, Status) else None


def allow(_: str) -> bool:
    return True


def run_id(run: Run[Any]) -> str:
    return str(run)


def give_up(_: Exception, __: int) -> float | None:
    return None


CLOCK = HistoricalScheduler()

ANYTHING: set[Kind] = {"events", "records", "texts", "blocks", "numbers"}

# Each public operator: the words by which its error names it, an operator made with it, and what it takes.
VERBS: dict[str, tuple[str, Callable[[], Operator[Any, Any]], set[Kind]]] = {
    "coalesce": ("coalesce(...)", lambda: coalesce(1.0, CLOCK), {"events"}),
    "combine_gauges": ("", lambda: combine_gauges(Row(), last=ops.map(same)), ANYTHING),
    "committed": ("committed()", committed, {"events", "records"}),
    "decode": ("", lambda: decode(Same), ANYTHING),
    "events": ("events()", events, {"records"}),
    "fail_on_error": ("fail_on_error()", fail_on_error, {"events"}),
    "fold_scope": ("fold_scope(...)", lambda: fold_scope(count, 0), {"blocks"}),
    "fold_sliding": ("", lambda: fold_sliding(later, None, 1.0, CLOCK), ANYTHING),
    "group_blocks": ("group_blocks()", group_blocks, {"events"}),
    "think_tags": ("think_tags(...)", think_tags, {"events"}),
    "hold_back": ("hold_back(...)", lambda: hold_back(allow), {"events"}),
    "lineage": ("lineage()", lineage, {"records"}),
    "lines": ("lines()", lines, {"events"}),
    "live": ("live()", live, {"events", "records"}),
    "map_async": ("", lambda: map_async(reactivex.of, 1), ANYTHING),
    "map_async, in order": ("", lambda: map_async(reactivex.of, 1, in_order=True), ANYTHING),
    "join_runs": ("join_runs(...)", lambda: join_runs(run_id), set()),
    "quorum": ("", lambda: quorum(9), ANYTHING),
    "results": ("results()", results, set()),
    "session_windows": ("", lambda: session_windows(1.0, CLOCK), ANYTHING),
    "text_so_far": ("text_so_far()", text_so_far, {"events"}),
    "sentences, idle": ("sentences()", lambda: sentences(1.0, 9, CLOCK), {"events"}),
    "mask": ("mask(...)", lambda: mask("x"), {"events"}),
    "merge_deltas": (
        "merge_deltas(...)",
        lambda: ops.flat_map(lambda item: reactivex.from_iterable(merge_deltas([item]))),
        {"events"},
    ),
    "merge_runs": ("merge_runs(...)", lambda: lambda source: merge_runs([source]), {"records"}),
    "only": ("only(TextDelta, Usage)", lambda: only(TextDelta, Usage), {"events"}),
    "only, of records": ("only(Record)", lambda: only(Record), {"records"}),
    "only, of anything": ("", lambda: only(object), ANYTHING),
    "partial_json": ("partial_json()", partial_json, {"texts"}),
    "partial_values": ("partial_values()", partial_values, {"events"}),
    "partial_values, of a type": ("partial_values()", lambda: partial_values(dict[str, int]), {"events"}),
    "rate": ("rate(...)", lambda: rate(1.0, CLOCK), {"numbers"}),
    "records_of": ("records_of(Ping)", lambda: records_of(Ping), {"records"}),
    "reject": ("reject(Ping)", lambda: reject(Ping), {"events"}),
    "retry_before_first": ("", lambda: retry_before_first(give_up, CLOCK), ANYTHING),
    "scan_scope": ("scan_scope(...)", lambda: scan_scope(count, 0), {"blocks"}),
    "sentences": ("sentences()", sentences, {"events"}),
    "sliding": ("", lambda: sliding(1.0, CLOCK), ANYTHING),
    "spans": ("spans(...)", lambda: spans(begins, ends), {"records"}),
    "split_meta": ("split_meta(...)", lambda: split_meta(passed, passed), {"events"}),
    "text_deltas": ("text_deltas()", text_deltas, {"events"}),
    "thinking_deltas": ("thinking_deltas()", thinking_deltas, {"events"}),
    "throttle": ("", lambda: throttle(1.0, scheduler=CLOCK), ANYTHING),
    "time_out": ("", lambda: time_out(1.0, 1.0, CLOCK), ANYTHING),
    "tool_calls": ("tool_calls()", tool_calls, {"events"}),
    "tool_inputs": ("tool_inputs()", tool_inputs, {"events"}),
    "usage_changes": ("usage_changes()", usage_changes, {"records"}),
    # operators of other packages
    "Timeline": ("timeline", Timeline, {"events"}),
    "call_rows": ("call_rows()", call_rows, {"records"}),
    "response_rows": ("response_rows()", response_rows, {"records"}),
    "run_rows": ("run_rows()", run_rows, {"records"}),
}

# What else is public: classes, types, and functions that take no stream.
NO_VERBS = {
    "Block",
    "Link",
    "Records",
    "Span",
    "ToolInput",
    "UsageChange",
    "Window",
    "error_to_exception",
    "percentile",
}


def blocks() -> list[Any]:
    return through(EVENTS, group_blocks(replay=True))


def entries() -> list[Any]:
    """What ``run.entries()`` emits: records, of which some have several deltas."""
    several = Deltas(TextDelta(0, ""), ["hunter2", "[1", ", 2", "]. \n"])
    return [envelop(event) for event in (*EVENTS[:4], several, *EVENTS[4:])]


ITEMS: dict[str, tuple[Kind | None, Callable[[], list[Any]]]] = {
    "events": ("events", lambda: list(EVENTS)),
    "records": ("records", lambda: [envelop(event) for event in EVENTS]),
    "entries": ("records", entries),
    "deltas of entries": (None, lambda: [entry.event for entry in entries()][4:5]),
    "lists": (None, lambda: [EVENTS[:4], EVENTS[4:]]),
    "texts": ("texts", lambda: ["[1, hunter2", "2]. \n"]),
    "numbers": ("numbers", lambda: [1, 2.5]),
    "blocks": ("blocks", blocks),
}

# What is not among the items of its kind that a verb takes.
REFUSES = {("records_of", "entries"), ("spans", "entries")}


def from_iterable(items: Iterable[Any]) -> Observable[Any]:
    return reactivex.from_iterable(items)


def mapped(items: Iterable[Any]) -> Observable[Any]:
    return reactivex.from_iterable(items).pipe(ops.map(same))


class Watched:
    """What an observer receives, in order."""

    def __init__(self, observable: Observable[Any]) -> None:
        self.items: list[Any] = []
        self.errors: list[Exception] = []
        self.completions = 0
        observable.subscribe(self.items.append, self.errors.append, self._complete)

    def _complete(self) -> None:
        self.completions += 1


def test_every_public_operator_has_a_row() -> None:
    named = {name.partition(",")[0] for name in VERBS}
    assert set(operators.__all__) - NO_VERBS <= named, "a new operator: give it a row of VERBS"
    assert not NO_VERBS & named
    for name in NO_VERBS:  # nothing hides there that returns an operator
        known = getattr(operators, name)
        if inspect.isfunction(known):
            assert "Operator" not in str(inspect.signature(known).return_annotation), name


def fits(name: str, what: str) -> bool:
    kind, _ = ITEMS[what]
    takes = VERBS[name][2]
    return (name, what) not in REFUSES and (takes is ANYTHING or kind in takes)


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_takes_what_its_signature_states_and_refuses_all_else_with_the_remedy(name: str) -> None:
    verb, make, _ = VERBS[name]
    for what, (_, items) in ITEMS.items():
        for source in (from_iterable, mapped):
            seen = Watched(source(items()).pipe(make()))
            if fits(name, what):
                assert not seen.errors, (what, seen.errors)
                assert seen.completions == 1, what
                continue
            assert not seen.completions, f"{name} completes in silence with {what}"
            [error] = seen.errors
            assert isinstance(error, ConfigurationError), (what, error)
            assert str(error).startswith(verb), error
            assert ": put " in str(error) or "use " in str(error) or "so put it" in str(error)
            assert "hunter2" not in str(error)
            assert not [item for item in seen.items if "hunter2" in repr(item)], what


@pytest.mark.parametrize("name", VERBS)
def test_the_first_wrong_item_ends_the_stream_and_reaches_no_producer(name: str) -> None:
    _, make, _ = VERBS[name]
    right = next((items for what, (_, items) in ITEMS.items() if fits(name, what)), list[Any])
    for what, (_, items) in ITEMS.items():
        if fits(name, what) or (name, what) in REFUSES:
            continue
        producer: Subject[Any] = Subject()
        seen = Watched(producer.pipe(make()))
        for item in right():
            producer.on_next(item)
        assert not seen.errors, what
        producer.on_next(items()[0])
        assert [type(error) for error in seen.errors] == [ConfigurationError], what
        before = len(seen.items)
        for item in (*right(), *items()):
            producer.on_next(item)
        producer.on_completed()
        assert (len(seen.items), len(seen.errors), seen.completions) == (before, 1, 0), what
        assert not producer.observers


@pytest.mark.parametrize("name", [name for name, (_, _, takes) in VERBS.items() if takes == {"events"}])
async def test_a_verb_for_events_refuses_every_door_of_a_run_but_events(name: str) -> None:
    verb, make, _ = VERBS[name]
    run: Run[object] = Worker(ScriptedModel(["hunter2 is it.\n"])).run("Hi")
    doors: list[Callable[..., Any]] = [
        run.pipe,
        run.records.pipe,
        run.watch().pipe,
        run.entries().pipe,
        run.pipe(ops.map(same)).pipe,
    ]
    errors: list[Exception] = []
    items: list[Any] = []
    for pipe in doors:
        try:
            pipe(make()).subscribe(items.append, errors.append)
        except ConfigurationError as error:
            errors.append(error)
    whole = [Watched(run.events.pipe(make())), Watched(run.pipe(events(), make()))]
    whole += [Watched(run.entries().pipe(events(), make()))]
    assert (await run).text == "hunter2 is it.\n"
    await asyncio.sleep(0)
    assert [type(error) for error in errors] == [ConfigurationError] * len(doors)
    assert all(str(error).startswith(verb) and "run.events.pipe" in str(error) for error in errors)
    assert items == []
    # Observers that were pushed to at once; a timer of coalesce may still wait.
    assert [seen.errors for seen in whole] == [[]] * 3
    if name != "coalesce":
        assert len({repr(seen.items) for seen in whole if name != "group_blocks"}) < 2


@pytest.mark.parametrize("item", [envelop(Ping()), "text", [Ping()], None, 1, Deltas])
def test_a_timeline_dispatches_events_alone(item: Any) -> None:
    timeline, seen = Timeline(), list[object]()
    timeline.on_text_block(seen.append)
    timeline.on_usage(seen.append)
    with pytest.raises(ConfigurationError, match="timeline takes events"):
        timeline.dispatch(item)
    with pytest.raises(ConfigurationError, match="timeline takes events"):
        timeline.dispatch_many([TextDelta(0, "a"), item])
    assert seen == []


def test_only_of_other_types_takes_all_but_records() -> None:
    assert Watched(reactivex.of(1, "a", Ping()).pipe(only(int))).items == [1]
    assert Watched(reactivex.of(1, "a", envelop(Ping())).pipe(only(Record, int))).errors == []
    seen = Watched(reactivex.of(1, envelop(Ping())).pipe(only(int)))
    assert seen.items == [1]
    assert isinstance(seen.errors[0], ConfigurationError)


@pytest.mark.parametrize("verb", [only, reject])
@pytest.mark.parametrize("types", [(), ("TextDelta",), (Ping(),), (Event,)])
def test_choosing_takes_types(verb: Callable[..., object], types: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigurationError, match="takes types"):
        verb(*types)


def test_bytes_are_decoded_before_they_are_events() -> None:
    source: Observable[Any] = reactivex.of(b"hunter2")
    seen = Watched(source.pipe(text_deltas()))
    assert "hunter2" not in str(seen.errors[0])
