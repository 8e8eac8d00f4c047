"""The verbs of a session have one shape, and one entry for scripts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from reactivex.testing import TestScheduler

from rxworker import Finished, Paused, Worker, tool
from rxworker.errors import ConfigurationError, LocalProtocolError
from rxworker.log import MemoryLog
from rxworker.messages import Conversation
from rxworker.run.run import Run
from rxworker.testing import ScriptedModel, call
from rxworker.worker import submit

BEGIN: dict[str, Callable[[Any, Any], Any]] = {
    "run": lambda verb, _: verb("Rest"),
    "resume": lambda verb, stored: verb(stored),
    "decide": lambda verb, stored: verb(stored.run_id),
    "recover": lambda verb, stored: verb(stored.run_id),
    "fork": lambda verb, stored: verb(stored.run_id, 1),
}
"""How each verb is called with what is stored."""


def worker_with_rest(verb: str, log: MemoryLog, scheduler: TestScheduler | None = None) -> Worker:
    """A worker with a tool that takes half an hour, and an approval where a run is to pause."""

    @tool(requires_approval=verb in ("resume", "decide"))
    async def rest() -> str:
        """Rest."""
        await asyncio.sleep(1800)
        return "rested"

    model = ScriptedModel([call("rest"), "Done."])
    return Worker(model, tools=[rest], log=log, scheduler=scheduler)


class Queued:
    """A stored run that no process has begun."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id


def stored_for(verb: str, worker: Worker, log: MemoryLog) -> Paused[None] | Queued:
    if verb not in ("resume", "decide"):
        return Queued(asyncio.run(submit(log, "Rest")))
    paused = worker.run_sync("Rest")
    assert isinstance(paused, Paused)
    return paused


@pytest.mark.parametrize("verb", BEGIN)
def test_a_verb_in_a_script_plays_the_run_in_virtual_time(verb: str) -> None:
    scheduler, log = TestScheduler(), MemoryLog()
    worker = worker_with_rest(verb, log, scheduler)
    stored = stored_for(verb, worker, log)
    session = worker.new_session()
    result = BEGIN[verb](partial(session.in_script, getattr(session, verb)), stored)
    assert isinstance(result, Finished)
    assert result.text == "Done."
    assert session.conversation == result.conversation
    assert 1800 <= scheduler.clock < 1900


@pytest.mark.parametrize("verb", BEGIN)
async def test_a_verb_returns_a_run_at_once_and_the_entry_for_scripts_refuses_a_loop(verb: str, log: MemoryLog) -> None:
    worker = worker_with_rest("decide", log)
    paused = await worker.run("Rest")
    session = worker.new_session(Conversation())
    with pytest.raises(LocalProtocolError, match=rf"await worker\.{verb}"):
        BEGIN[verb](partial(session.in_script, getattr(session, verb)), paused)
    run = BEGIN[verb](getattr(session, verb), paused)
    assert isinstance(run, Run)
    await run.cancel()


def test_the_entry_for_scripts_refuses_what_begins_no_run() -> None:
    worker: Any = worker_with_rest("decide", MemoryLog())
    with pytest.raises(ConfigurationError, match=r"not a coroutine function.*such as worker\.resume"):
        worker.in_script(worker.load, "run-1")
