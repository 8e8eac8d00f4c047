"""The error of a run is raised by each that reads it.

None of them lengthens the traceback of another, or keeps its frames.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest
import reactivex

from rxworker import Worker
from rxworker.boards import publish
from rxworker.errors import (
    HttpStatusError,
    LeaseHeldError,
    LimitExceededError,
    LogError,
    ProviderError,
    RunCancelledError,
)
from rxworker.hub import Hub
from rxworker.log import MemoryLog, Replica
from rxworker.testing import ScriptedModel, fail, say


class OddError(Exception):
    """An error of a program, which is not made of its arguments."""

    def __init__(self, *, what: str) -> None:
        super().__init__("odd")
        self.what = what


class AwkwardError(Exception):
    """An error of a program that cannot be copied."""

    def __new__(cls, what: str) -> AwkwardError:
        if what == "odd":
            return super().__new__(cls)
        raise TypeError

    def __init__(self, what: str) -> None:
        super().__init__(f"not {what}")


ERRORS: list[Callable[[], Exception]] = [
    RunCancelledError,
    lambda: LimitExceededError("max_turns", 3),
    lambda: LeaseHeldError("run-1", "me", 3.0),
    lambda: HttpStatusError("no", status=429, headers={"a": "b"}, body=b"x", url="http://x"),
    lambda: OddError(what="it"),
    lambda: AwkwardError("odd"),
    lambda: OSError(2, "no such file", "a.txt"),
    lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
    lambda: KeyError("city"),
    lambda: ExceptionGroup("two", [ValueError("a"), KeyError("b")]),
]


def depth(error: BaseException) -> int:
    return len(traceback.extract_tb(error.__traceback__))


def raised_by(make: Callable[[], Exception]) -> Exception:
    try:
        raise make()
    except Exception as error:
        return error


@pytest.mark.parametrize("make", ERRORS)
async def test_the_hundredth_reader_has_the_traceback_of_the_first(make: Callable[[], Exception]) -> None:
    hub, error = Hub(), raised_by(make)
    text, members = str(error), dict(vars(error))
    hub.end(error)
    caught: list[Exception] = []
    depths: list[int] = []
    for _ in range(100):
        try:
            async for _ in hub:
                pass
        except Exception as mine:
            caught.append(mine)
            depths.append(depth(mine))
    assert len(depths) == 100
    assert len(set(depths)) == 1
    for each in caught:
        assert type(each) is type(error)
        assert (str(each), each.args, dict(vars(each))) == (text, error.args, members)
    if not isinstance(error, AwkwardError):
        assert all(depth(each) == depths[0] for each in caught)
        assert len(set(map(id, caught))) == 100
        assert depth(error) == 1


async def test_a_note_or_a_cause_of_one_reader_is_not_that_of_another() -> None:
    hub = Hub()
    hub.end(raised_by(RunCancelledError))
    caught: list[Exception] = []
    for n in range(2):
        try:
            async for _ in hub:
                pass
        except Exception as error:
            error.add_note(f"reader {n}")
            caught.append(error)
    assert [getattr(each, "__notes__", []) for each in caught] == [["reader 0"], ["reader 1"]]


async def test_an_observer_that_raises_the_error_does_not_lengthen_it_for_others() -> None:
    """reactivex raises the error for an observer without on_error."""
    hub, error = Hub(), raised_by(RunCancelledError)
    for _ in range(20):
        hub.watch().subscribe(lambda _: None)
        hub.subscribe(lambda _: None)
    hub.end(error)
    await asyncio.sleep(0)
    assert depth(error) == 1


async def watched(what: str) -> AsyncIterator[Callable[[], Any]]:
    """What has failed, each time as something that raises."""
    if what == "replica":
        async with MemoryLog() as log:
            replica = Replica(log, "run-1")
            await asyncio.sleep(0.01)
            yield replica.ready
        return
    if what == "published":
        stream = publish("count", reactivex.throw(ValueError("no")))

        async def read() -> None:
            async for _ in stream:
                pass

        yield read
        return
    run = Worker(ScriptedModel([say("half") + fail("too much", "invalid_request")])).run("hi")
    with suppress(ProviderError):
        await run

    async def follow() -> None:
        async for _ in {"run": run, "watch": run.watch()}[what]:
            pass

    async def wait() -> None:
        await run

    yield wait if what == "await" else follow


@pytest.mark.parametrize("what", ["run", "watch", "await", "published", "replica"])
async def test_whatever_is_read_raises_no_longer_traceback_for_the_next(what: str) -> None:
    async for read in watched(what):
        depths: list[int] = []
        for _ in range(20):
            try:
                await read()
            except (Exception, LogError) as error:
                depths.append(depth(error))
        assert len(depths) == 20
        assert max(depths) == depths[0]  # asyncio gives the second that awaits less
