"""What the type checker knows after each operator; pyright is the judge, pytest only runs it."""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from typing import assert_type

from reactivex import GroupedObservable, Observable
from reactivex import operators as ops
from reactivex.scheduler import VirtualTimeScheduler

from rxworker import Run, RunResult, Worker
from rxworker.events import BlockEvent, Event, Ping, Record, ResponseEvent, TextDelta, ThinkingDelta, Usage
from rxworker.events.meta import Meta
from rxworker.operators import (
    Block,
    Records,
    ToolInput,
    coalesce,
    events,
    fail_on_error,
    fold_scope,
    group_blocks,
    hold_back,
    join_runs,
    lines,
    map_async,
    mask,
    merge_deltas,
    merge_runs,
    only,
    quorum,
    reject,
    results,
    retry_before_first,
    scan_scope,
    session_windows,
    split_meta,
    text_deltas,
    time_out,
    tool_inputs,
    usage_changes,
)
from rxworker.operators.kernel import Operator, Source
from rxworker.state import BlockState, content_of, step_block
from rxworker.testing import ScriptedModel
from rxworker.timeline import Timeline
from rxworker.worker import RunStream


def length(text: str) -> int:
    return len(text)


def count(state: int, _: BlockEvent) -> int:
    return state + 1


def to_names(source: Observable[Meta]) -> Observable[str]:
    return source.pipe(ops.map(repr))


def to_sizes(source: Observable[BlockEvent]) -> Observable[int]:
    return source.pipe(text_deltas(), ops.map(length))


def test_selecting_narrows_the_type() -> None:
    source: Source[ResponseEvent] = Source()
    assert_type(source.pipe(only(TextDelta)), Observable[TextDelta])
    assert_type(source.pipe(only(TextDelta, Usage)), Observable[TextDelta | Usage])
    assert_type(
        source.pipe(only(TextDelta, Usage, Ping, ThinkingDelta)), Observable[TextDelta | Usage | Ping | ThinkingDelta]
    )
    assert_type(source.pipe(reject(Ping)), Observable[ResponseEvent])
    assert_type(source.pipe(text_deltas(), ops.map(length)), Observable[int])


def test_records_become_events() -> None:
    source: Source[Record] = Source()
    assert_type(source.pipe(events()), Observable[Event])
    assert_type(source.pipe(events(), tool_inputs()), Observable[ToolInput])


def test_lanes_join_their_types() -> None:
    source: Source[Event] = Source()
    assert_type(source.pipe(split_meta(to_names, to_sizes)), Observable[str | int])


def test_scopes_keep_their_state() -> None:
    source: Source[Event] = Source()
    assert_type(source.pipe(group_blocks()), Observable[Block])
    assert_type(source.pipe(group_blocks(), scan_scope(count, 0)), Observable[int])
    none: BlockState | None = None

    def step(state: BlockState | None, event: BlockEvent) -> BlockState | None:
        return step_block(state, event)

    def content(state: BlockState | None) -> str:
        return repr(content_of(state)) if state else ""

    blocks = source.pipe(group_blocks(), fold_scope(step, none), ops.map(content))
    assert_type(blocks, Observable[str])


def test_operators_about_time_keep_the_type() -> None:
    source: Source[ResponseEvent] = Source()
    scheduler = VirtualTimeScheduler()

    def never(_: Exception, __: int) -> float | None:
        return None

    timed = source.pipe(
        retry_before_first(never, scheduler),
        time_out(30.0, 30.0, scheduler),
        coalesce(0.05, scheduler),
        fail_on_error(),
        Timeline(),
    )
    assert_type(timed, Observable[ResponseEvent])
    assert_type(merge_deltas([TextDelta(0, "a")]), list[TextDelta])


def test_work_in_order_has_the_type_of_the_work() -> None:
    source: Source[str] = Source()
    sizes: Source[int] = Source()

    def work(_: str) -> Observable[int]:
        return sizes

    async def length_of(text: str) -> int:
        return len(text)

    assert_type(source.pipe(map_async(work, 2)), Observable[int])
    assert_type(source.pipe(map_async(length_of, 2, in_order=True)), Observable[int])
    assert_type(source.pipe(quorum(2)), Observable[str])
    runs: Source[Run[int]] = Source()
    assert_type(runs.pipe(results()), Observable[RunResult[int]])
    assert_type(runs.pipe(join_runs(str)), Observable[GroupedObservable[str, Record]])
    assert_type(source.pipe(session_windows(1.0)), Observable[tuple[str, ...]])


def test_a_lambda_that_follows_a_block_knows_its_type() -> None:
    def use(source: Observable[Event]) -> None:
        counts = source.pipe(group_blocks(lambda block: block.pipe(ops.count())))
        assert_type(counts, Observable[int])
        texts = source.pipe(group_blocks(lambda block: block.pipe(text_deltas()), replay=True))
        assert_type(texts, Observable[str])

    assert callable(use)


def shout() -> Operator[Event, Event]:
    def apply(source: Observable[Event]) -> Observable[Event]:
        return source

    return apply


def quiet() -> Operator[ResponseEvent, ResponseEvent]:
    return reject(Ping)


def test_operators_of_a_worker_may_be_typed_with_any_event() -> None:
    listed = [shout(), shout()]
    mixed: list[Operator[Event, Event]] = [shout()]
    for operators in ([shout()], [quiet()], [lines()], [shout(), quiet(), lines()], listed, mixed):
        assert Worker(ScriptedModel([]), operators=operators).operators
    Worker(ScriptedModel([]), operators=[lines(), hold_back(bool), mask("a"), Timeline()])
    Worker(ScriptedModel([]), operators=[usage_changes()])  # pyright: ignore[reportArgumentType]
    Worker(ScriptedModel([]), operators=[text_deltas()])  # pyright: ignore[reportArgumentType]


def test_a_run_is_taken_where_its_records_are() -> None:
    def use(run: Run[None], several: list[Records]) -> None:
        assert_type(merge_runs([run, run.records, run.watch()]), Observable[Record])
        several.append(run)

    assert callable(use)


def test_no_output_is_an_output() -> None:
    def use(worker: Worker) -> None:
        assert_type(worker.run("hi", output=None), Run[None])
        assert_type(worker.run_sync("hi", output=None), RunResult[None])
        assert_type(worker.run_sync("hi", output=int), RunResult[int])
        assert_type(worker.stream_sync("hi", output=None), RunStream[None])

    assert callable(use)
