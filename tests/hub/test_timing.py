"""Operators that wait run on the run's event loop, at each entrance of a run, and their errors detach their watcher."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import Any

import pytest
import reactivex
from reactivex import operators as ops
from reactivex.internal import noop

from rxworker import Run, Worker, operators
from rxworker.events import TextDelta, WatcherDetach
from rxworker.operators import coalesce, events, only, text_deltas
from rxworker.testing import ScriptedModel

SOON = 0.002


def model(delay: float = 0.004) -> ScriptedModel:
    return ScriptedModel(["one two three four"], delay=delay)


DOORS: dict[str, Callable[[Run[object]], Callable[..., Any]]] = {
    "run": lambda run: run.pipe,
    "records": lambda run: run.records.pipe,
    "events": lambda run: run.events.pipe,
    "entries": lambda run: run.entries().pipe,
    "watch": lambda run: run.watch().pipe,
    "two pipes": lambda run: run.events.pipe(only(TextDelta)).pipe,
    "events of records": lambda run: run.pipe(events()).pipe,
    "a pipe of pipes": lambda run: run.events.pipe(ops.map(str)).pipe,
}


def to_list(window: reactivex.Observable[Any]) -> reactivex.Observable[Any]:
    return window.pipe(ops.to_list())


WAITING: dict[str, Callable[[], Any]] = {
    "buffer_with_time": lambda: ops.buffer_with_time(SOON),
    "debounce": lambda: ops.debounce(SOON),
    "delay": lambda: ops.delay(SOON),
    "sample": lambda: ops.sample(SOON),
    "throttle_with_timeout": lambda: ops.throttle_with_timeout(SOON),
    "timeout": lambda: ops.timeout(0.0001, reactivex.of("late")),
    "window_with_time": lambda: reactivex.compose(ops.window_with_time(SOON), ops.flat_map(to_list)),
    "interval": lambda: ops.merge(reactivex.interval(SOON).pipe(ops.take(2))),
}


@pytest.mark.parametrize("door", DOORS)
async def test_what_waits_is_called_on_the_loop(door: str) -> None:
    run = Worker(model(0.001)).run("Hi")
    seen: dict[str, list[int]] = {}
    others = threading.active_count()
    for name, waiting in WAITING.items():
        threads = seen[name] = list[int]()

        def observe(_: object, threads: list[int] = threads) -> None:
            threads.append(threading.get_ident())

        DOORS[door](run)(waiting()).subscribe(observe, print)
    await run
    await asyncio.sleep(3 * SOON)
    assert {name: set(threads) for name, threads in seen.items()} == {name: {threading.get_ident()} for name in WAITING}
    assert threading.active_count() <= others


@pytest.mark.parametrize("door", [door for door in DOORS if door != "entries"])
async def test_a_watcher_that_raises_at_a_timer_is_detached_and_reported(door: str) -> None:
    run = Worker(model()).run("Hi")
    errors: list[Exception] = []
    calls = 0

    def observe(_: object) -> None:
        nonlocal calls
        calls += 1
        raise OSError("the display is gone")

    DOORS[door](run)(ops.buffer_with_time(SOON)).subscribe(observe, errors.append)
    watchers = [state.name for state in run.watchers.now]
    found = [r.event async for r in run if isinstance(r.event, WatcherDetach)]
    assert [(each.watcher, "the display is gone" in each.error) for each in found] == [(watchers[0], True)]
    assert [str(error) for error in errors] == ["the display is gone"]
    assert calls == 1
    assert (await run).text == "one two three four"


async def test_a_function_of_an_operator_that_raises_at_a_timer_is_an_error_of_its_stream() -> None:
    run = Worker(model()).run("Hi")
    errors: list[Exception] = []

    def refuse(_: object) -> object:
        raise ValueError("no")

    run.events.pipe(ops.buffer_with_time(SOON), ops.map(refuse)).subscribe(print, errors.append)
    await run
    assert [str(error) for error in errors] == ["no"]


async def test_what_does_not_wait_emits_at_once() -> None:
    run = Worker(ScriptedModel(["one"])).run("Hi")
    await run
    seen: list[str] = []

    def pair(text: str) -> reactivex.Observable[str]:
        return reactivex.of(text, "!")

    run.events.pipe(text_deltas(), ops.start_with("0"), ops.flat_map(pair)).subscribe(seen.append)
    assert "".join(seen).replace("!", "") == "0one"


async def test_a_scheduler_of_the_subscriber_s_is_used() -> None:
    from reactivex.scheduler import HistoricalScheduler

    run = Worker(ScriptedModel(["one"])).run("Hi")
    clock = HistoricalScheduler()
    seen: list[object] = []
    run.events.pipe(ops.delay(5.0)).subscribe(seen.append, scheduler=clock)
    await run
    assert seen == []
    clock.start()
    assert seen


async def test_another_thread_may_subscribe_to_a_watch_with_a_pipe() -> None:
    run = Worker(model()).run("Hi")
    threads: set[int] = set()

    def observe(_: object) -> None:
        threads.add(threading.get_ident())

    def subscribe() -> Any:
        return run.watch().pipe(ops.buffer_with_time(SOON)).subscribe(observe)

    subscription = await asyncio.to_thread(subscribe)
    await run
    await asyncio.to_thread(subscription.dispose)
    assert threads == {threading.get_ident()}


async def test_the_run_s_scheduler_is_public() -> None:
    run = Worker(model()).run("Hi")
    seen: list[str] = []
    run.events.pipe(coalesce(60.0, run.scheduler), text_deltas()).subscribe(seen.append)
    await run
    assert seen == ["one two three four"]


def test_a_run_that_has_ended_is_replayed_without_its_loop() -> None:
    async def main() -> Run[object]:
        run = Worker(ScriptedModel(["one"])).run("Hi")
        await run
        return run

    run = asyncio.run(main())
    seen: list[str] = []
    run.events.pipe(ops.map(str), ops.to_list()).subscribe(seen.append)  # pyright: ignore
    assert len(seen) == 1


def timed_operators() -> dict[str, Callable[..., Any]]:
    """The public operators that take a scheduler."""
    found: dict[str, Callable[..., Any]] = {}
    for name in operators.__all__:
        value = getattr(operators, name)
        if inspect.isfunction(value) and "scheduler" in inspect.signature(value).parameters:
            found[name] = value
    return found


ARGUMENTS: dict[str, tuple[object, ...]] = {
    "retry_before_first": (noop,),
    "time_out": (60.0, 60.0),
    "fold_sliding": (max, 0.0, 60.0),
}


def same(source: reactivex.Observable[Any]) -> reactivex.Observable[Any]:
    return source.pipe(ops.map(lambda item: item))


def job(timed: Any) -> Callable[[object], reactivex.Observable[Any]]:
    def begin(item: object) -> reactivex.Observable[Any]:
        return timed(reactivex.of(item))

    return begin


PLACES: dict[str, Callable[[Any], list[Any]]] = {
    "directly": lambda timed: [timed],
    "after an operator": lambda timed: [only(TextDelta), timed],
    "after an operator of reactivex": lambda timed: [ops.map(lambda item: item), timed],
    "before others": lambda timed: [timed, ops.map(lambda item: item)],
    "twice": lambda timed: [timed, ops.map(lambda item: item), only(object), operators.sliding(1)],
    "in one function": lambda timed: [reactivex.compose(timed, only(object))],
    "in one function, after reactivex": lambda timed: [reactivex.compose(same, timed, only(object))],
    "in a lane": lambda timed: [operators.split_meta(ops.filter(bool), timed)],
    "in a job": lambda timed: [operators.map_async(job(timed), 1)],
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", timed_operators())
async def test_an_operator_that_waits_has_the_time_of_the_run_wherever_it_is(name: str, place: str) -> None:
    timed = timed_operators()[name](*ARGUMENTS.get(name, (60.0,)))
    takes_events = name in ("coalesce", "sentences") or place in ("in a lane", "after an operator")
    for door in ("events",) if takes_events else ("records", "events", "watch"):
        run = Worker(ScriptedModel(["one"])).run("Hi")
        errors: list[Exception] = []
        DOORS[door](run)(*PLACES[place](timed)).subscribe(noop, errors.append)
        await run
        # Some of these take numbers, and say so.
        assert [str(error) for error in errors if "scheduler" in str(error)] == [], door


@pytest.mark.parametrize("name", timed_operators())
async def test_an_operator_that_is_called_with_a_run_s_records_has_the_time_of_the_run(name: str) -> None:
    run = Worker(ScriptedModel(["one"])).run("Hi")
    errors: list[Exception] = []
    timed = timed_operators()[name](*ARGUMENTS.get(name, (60.0,)))
    timed(run.events).subscribe(noop, errors.append)
    await run
    assert [str(error) for error in errors if "scheduler" in str(error)] == []
