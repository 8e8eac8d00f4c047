from __future__ import annotations

import asyncio
from typing import Any

from rxworker import Worker, tool
from rxworker.events import TextDelta
from rxworker.testing import ScriptedModel, call


@tool
async def look() -> str:
    """Look."""
    return "nothing"


async def test_a_run_is_one_task_and_so_is_each_call() -> None:
    loop, made = asyncio.get_running_loop(), list[str]()

    def factory(loop: asyncio.AbstractEventLoop, work: Any, **given: Any) -> asyncio.Task[Any]:
        made.append(work.__qualname__)
        return asyncio.Task(work, loop=loop, **given)

    loop.set_task_factory(factory)
    try:
        result = await Worker(ScriptedModel([call("look"), "done"]), tools=[look]).run("go")
    finally:
        loop.set_task_factory(None)
    assert result.text == "done"
    assert made == ["RunDriver._drive", "run_at"]


async def test_who_reads_the_response_may_pause_before_its_tools_run() -> None:
    run = Worker(ScriptedModel([call("look"), "done"]), tools=[look]).run("go")
    async for record in run:
        if record.turn == 1 and not run.done():
            run.pause()
            break
    result = await run
    assert [pending.name for pending in getattr(result, "pending", ())] == ["look"]


async def test_a_reader_of_the_answer_may_send_a_message_to_it() -> None:
    run = Worker(ScriptedModel(["first", "second"])).run("go")
    async for record in run:
        if isinstance(record.event, TextDelta):
            run.send("and then?")
            break
    assert (await run).text == "second"
