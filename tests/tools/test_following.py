"""Operators that may have to wait: subscribed to, and awaited with their source, they come to the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import reactivex
from hypothesis import given
from hypothesis import strategies as st
from reactivex import Subject

from rxworker.errors import LocalProtocolError
from rxworker.tools.coroutines import CoroutineObservable, Emitter, Following, Rest, following, in_turn

Heard = list[object]


class Step(Following[str, str]):
    """Marks the items, and does at the end what its steps say.

    ``.`` where it waits, ``!`` where it fails, ``x`` where something that it waits for is cancelled; else it emits.
    """

    def __init__(self, steps: str, log: Heard, emit: Callable[[str], None], fail: Callable[[Exception], None]) -> None:
        super().__init__(emit, fail)
        self._steps = steps
        self._log = log

    def take(self, item: str) -> None:
        self._emit(f"{item}{self._steps[:1]}")

    def finish(self) -> Rest | None:
        return self._go() if self._steps else None

    async def _go(self) -> None:
        for step in self._steps:
            if step == ".":
                await asyncio.sleep(0)
            elif step == "!":
                raise ValueError(self._steps)
            elif step == "x":
                gone = asyncio.get_running_loop().create_future()
                gone.cancel()
                await gone
            else:
                self._emit(step)

    def stop(self) -> Rest | None:
        self._log.append(f"stop {self._steps}")
        return None


def pipe_of(several: list[str], log: Heard) -> reactivex.Observable[str]:
    source: Any = reactivex.of("1", "2")
    return source.pipe(*[following(partial(Step, steps, log)) for steps in several])


async def subscribed(several: list[str]) -> tuple[Heard, Heard]:
    heard, log = list[object](), list[object]()
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_error(error: Exception) -> None:
        heard.append(type(error).__name__)
        over.set_result(None)

    pipe_of(several, log).subscribe(heard.append, on_error, lambda: over.set_result(None))
    await over
    return heard, log


async def awaited(several: list[str]) -> tuple[Heard, Heard]:
    heard, log = list[object](), list[object]()
    try:
        await Emitter[str](heard.append).follow(pipe_of(several, log))
    except asyncio.CancelledError:
        heard.append("RunCancelledError")  # as who awaits a run sees it
    except ValueError as error:
        heard.append(type(error).__name__)
    return heard, log


@given(st.lists(st.text("ab.!x", max_size=4), min_size=1, max_size=3))
def test_a_pipe_is_the_same_subscribed_to_and_awaited(several: list[str]) -> None:
    async def both() -> tuple[tuple[Heard, Heard], tuple[Heard, Heard]]:
        return await subscribed(several), await awaited(several)

    (heard, log), (awaited_heard, awaited_log) = asyncio.run(both())
    assert heard == awaited_heard
    # The one that has failed is stopped, and those after it.
    assert sorted(map(str, log)) == sorted(map(str, awaited_log))


async def test_it_subscribes_and_completes_at_once_where_nothing_waits() -> None:
    source, heard = Subject[str](), list[object]()
    source.pipe(following(partial(Step, "", []))).subscribe(heard.append, on_completed=lambda: heard.append("|"))
    source.on_next("a")
    source.on_completed()
    assert heard == ["a", "|"]


async def test_disposing_cancels_what_it_waits_for() -> None:
    heard, log = list[object](), list[object]()
    source: Any = reactivex.of("1")
    subscription = source.pipe(following(partial(Step, ".a", log))).subscribe(heard.append)
    subscription.dispose()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (heard, log) == (["1."], ["stop .a"])
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_an_error_of_the_source_stops_it() -> None:
    source, heard, log = Subject[str](), list[object](), list[object]()
    source.pipe(following(partial(Step, "a", log))).subscribe(heard.append, heard.append)
    error = ValueError("cut")
    source.on_error(error)
    source.on_completed()
    assert (heard, log) == ([error], ["stop a"])


def test_it_needs_a_running_loop() -> None:
    with pytest.raises(LocalProtocolError, match="outside an event loop"):
        pipe_of(["a"], []).subscribe()


async def test_sources_in_turn_begin_when_the_one_before_has_completed() -> None:
    heard: Heard = []

    def source(name: str) -> CoroutineObservable[str]:
        async def work(emitter: Emitter[str]) -> None:
            emitter.emit(f"{name} begins")
            await asyncio.sleep(0)
            emitter.emit(f"{name} ends")

        return CoroutineObservable(work, set())

    await Emitter[str](heard.append).follow(in_turn(source("a"), source("b")))
    assert heard == ["a begins", "a ends", "b begins", "b ends"]


async def test_a_pipe_that_is_destroyed_stops_and_waits_for_nothing() -> None:
    """To close a coroutine raises GeneratorExit in it, after which it cannot await."""
    log: Heard = []

    class Slow(Step):
        def stop(self) -> Rest | None:
            super().stop()
            return self._wait()

        async def _wait(self) -> None:
            await asyncio.sleep(0)
            self._log.append("waited")

    source: Any = reactivex.of("1")
    work: Any = Emitter[str](log.append).follow(source.pipe(following(partial(Slow, ".", log))))
    work.send(None)
    work.close()
    assert log == ["1.", "stop ."]
