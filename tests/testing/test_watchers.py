from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rxworker import Run, Worker
from rxworker.operators import text_deltas
from rxworker.testing import ScriptedModel, raise_from_watchers


async def run_with(*watch: Callable[[Run[object]], object]) -> None:
    run = Worker(ScriptedModel(["Hello!"])).run("Hi")
    for attach in watch:
        attach(run)
    await run


def fail(_: object) -> None:
    assert not "this"


class OddError(BaseException):
    pass


def fail_oddly(_: object) -> None:
    raise OddError


@pytest.mark.parametrize("name", ["run", "events", "watch", "pipe"])
def test_an_assertion_of_a_watcher_fails_the_block(name: str) -> None:
    sources: dict[str, Callable[[Run[object]], Any]] = {
        "run": lambda run: run,
        "events": lambda run: run.events,
        "watch": lambda run: run.watch(),
        "pipe": lambda run: run.events.pipe(text_deltas()),
    }
    with pytest.raises(AssertionError, match="this"), raise_from_watchers():
        asyncio.run(run_with(lambda run: sources[name](run).subscribe(fail)))


def test_what_a_watcher_raises_at_its_end_fails_the_block() -> None:
    with pytest.raises(AssertionError), raise_from_watchers():
        asyncio.run(run_with(lambda run: run.subscribe(on_completed=lambda: fail(0))))


def test_several_watchers_raise_together() -> None:
    with pytest.raises(BaseExceptionGroup) as raised, raise_from_watchers():
        asyncio.run(run_with(lambda run: run.subscribe(fail), lambda run: run.subscribe(fail_oddly)))
    assert {type(error) for error in raised.value.exceptions} == {AssertionError, OddError}


def test_what_the_block_raises_is_raised_with_a_note_of_the_watcher() -> None:
    async def run_and_raise() -> None:
        await run_with(lambda run: run.subscribe(fail))
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as raised, raise_from_watchers():
        asyncio.run(run_and_raise())
    assert "watcher-1 has raised AssertionError" in raised.value.__notes__[0]


def test_nothing_is_raised_where_no_watcher_has_or_the_block_is_over() -> None:
    with raise_from_watchers():
        asyncio.run(run_with(lambda run: run.subscribe(lambda record: None)))
    asyncio.run(run_with(lambda run: run.subscribe(fail)))
