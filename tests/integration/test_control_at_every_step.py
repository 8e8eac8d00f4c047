"""A run is cancelled, paused, limited, handed over or cut off at every step of its event loop, over every kind of log.

All that wait for it end, and the log has what they saw.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from rxworker import Finished, Paused, Run, Worker, after_tool_call, before_tool_call, on_abort, on_turn_end, tool
from rxworker.errors import LocalProtocolError, RunHandedOverError, RxWorkerError
from rxworker.events import Record, RunStop
from rxworker.log import EventLog
from rxworker.run.driver import CLOSING
from rxworker.testing import ScriptedModel, call, lint, say
from tests.log.processes import stored
from tests.steps import SteppedLoop, run_stepped
from tests.stores import LOGS, make_log
from tests.whole import IS_WHOLE

STEPPED, RECORDED = (LOGS, LOGS) if IS_WHOLE else (["slow"], ["none"])
"""The logs over which a run is stopped at every step, and at every record."""
ENOUGH = 400
"""More steps than any of these runs has."""


@tool(effect="idempotent")
async def note(text: str) -> str:
    """Write a note."""
    await asyncio.sleep(0)
    return f"noted {text}"


@before_tool_call
async def look(context: object) -> None:
    await asyncio.sleep(0)


@after_tool_call
async def read(context: object) -> None:
    await asyncio.sleep(0)


@on_turn_end
async def judge(context: object) -> None:
    await asyncio.sleep(0)


@on_abort
async def clean_up(context: object) -> None:
    await asyncio.sleep(0)


def worker_of(log: EventLog | None) -> Worker:
    first = say("Let me.") + call("note", text="a") + call("note", text="b")
    hooks = [look, read, judge, clean_up]
    return Worker(ScriptedModel([first, "Noted."]), tools=[note], hooks=hooks, log=log)


def name_this_task() -> None:
    """Name the task of the test as one that is not cancelled."""
    task = asyncio.current_task()
    assert task is not None
    task.set_name("test")


def cancel_all(run: Run[object]) -> None:
    """What `asyncio.run` does when its coroutine has returned, and some servers when they stop."""
    for task in asyncio.all_tasks():
        if task.get_name() != "test":
            task.cancel()


def pause(run: Run[object]) -> None:
    with suppress(LocalProtocolError):
        run.pause()


def hand_over(run: Run[object]) -> None:
    with suppress(LocalProtocolError):  # it has no log
        run.hand_over(seconds=0.002)


def reach_limit(run: Run[object]) -> None:
    run._driver._out_of_time(1.0)


def cancel_task(run: Run[object]) -> None:
    run._driver.task.cancel()


Act = Callable[[Run[object]], object]
CONTROLS: dict[str, Act] = {
    "cancel": lambda run: run.cancel(),
    "cancel after the turn": lambda run: run.cancel("after_turn"),
    "pause": pause,
    "hand over": hand_over,
    "limit": reach_limit,
    "cancel its task": cancel_task,
    "cancel every task": cancel_all,
}


class Seen:
    """What those who wait for a run have received."""

    def __init__(self, run: Run[object]) -> None:
        self.observed: list[Record] = []
        self.read: list[Record] = []
        run.subscribe(self.observed.append, lambda _: None)
        self._run = run
        self.tasks = [asyncio.create_task(self._await(), name="test"), asyncio.create_task(self._read(), name="test")]

    async def _await(self) -> object:
        try:
            return await self._run
        except RxWorkerError as error:
            return error

    async def _read(self) -> None:
        with suppress(RxWorkerError):
            async for record in self._run:
                self.read.append(record)

    async def outcome(self) -> object:
        async with asyncio.timeout(60):
            outcome, _ = await asyncio.gather(*self.tasks)
        assert self.read == self.observed
        return outcome


def status_of(outcome: object) -> str:
    if isinstance(outcome, Finished):
        return "finished"
    if isinstance(outcome, Paused):
        return "paused"
    return "running" if isinstance(outcome, RunHandedOverError) else "aborted"


async def check(log: EventLog | None, run: Run[object], seen: Seen, outcome: object) -> None:
    """Check that the records are legal, and that the log has them, the status of the outcome, and no claim."""
    assert lint(seen.observed, complete=not isinstance(outcome, RunHandedOverError)) == []
    if log is None:
        return
    assert not log.heartbeat.renews(run.id)
    info = await log.info(run.id)
    if info is None:
        assert outcome is CLOSING, "only a run whose task has not begun is not stored"
        return
    assert (info.owner, info.status) == ("", status_of(outcome)), outcome
    assert await stored(log, run.id) == seen.observed
    if isinstance(outcome, RunHandedOverError):
        assert isinstance(await worker_of(log).recover(run.id), Finished)


async def play(loop: SteppedLoop, log: EventLog | None, step: int, act: Act) -> bool:
    """Run once, and act before this step. Returns whether that was before the end."""
    run = worker_of(log).run("hi")
    seen = Seen(run)
    is_in_time = False

    def do() -> None:
        nonlocal is_in_time
        is_in_time = not run.done()
        act(run)

    loop.at(step, do)
    await check(log, run, seen, await seen.outcome())
    async with asyncio.timeout(60):
        while len(asyncio.all_tasks()) > 1:  # noqa: ASYNC110 - the last ones are about to end
            await asyncio.sleep(0)
    return is_in_time


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("kind", STEPPED)
def test_a_run_may_be_stopped_at_every_step(kind: str, control: str, tmp_path: Path) -> None:
    act = CONTROLS[control]

    async def every(loop: SteppedLoop) -> int:
        name_this_task()
        log = make_log(kind, tmp_path, seconds=0)
        step = 0
        while await play(loop, log, step, act):
            step += 1
            assert step < ENOUGH
        if log is not None:
            await log.close()
        return step

    assert run_stepped(every) > 10


async def play_at(log: EventLog | None, seq: int, act: Act) -> object:
    """Run once, and act when a watcher receives this record.

    Returns the outcome; ``None`` if there is no such record.
    """
    run = worker_of(log).run("hi")
    has_acted = False

    def watch(record: Record) -> None:
        nonlocal has_acted
        if record.seq == seq:
            has_acted = True
            act(run)

    run.subscribe(watch, lambda _: None)
    seen = Seen(run)
    outcome: object = await seen.outcome()
    await check(log, run, seen, outcome)
    is_too_late = isinstance(seen.observed[min(seq, len(seen.observed)) - 1].event, RunStop)
    assert status_of(outcome) == "finished" or not is_too_late
    return outcome if has_acted else None


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("kind", RECORDED)
async def test_a_run_may_be_stopped_at_every_record(kind: str, control: str, tmp_path: Path) -> None:
    name_this_task()
    log = make_log(kind, tmp_path, seconds=0)
    outcomes: list[object] = []
    while (outcome := await play_at(log, len(outcomes) + 1, CONTROLS[control])) is not None:
        outcomes.append(outcome)
    assert len(outcomes) > 20
    if log is not None:
        await log.close()
