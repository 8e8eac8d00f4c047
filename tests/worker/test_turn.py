from __future__ import annotations

import asyncio
import sys
from types import FrameType
from typing import Any

import pytest

from rxworker import Worker, after_tool_call, before_tool_call, tool
from rxworker.hooks import ToolCallContext, ToolResultContext
from rxworker.testing import ScriptedModel, call


@tool
async def look() -> str:
    """Look."""
    return "nothing"


@pytest.mark.unlogged
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


async def test_a_default_run_executes_the_public_operators() -> None:
    entered: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "rxworker" in frame.f_code.co_filename:
            entered.add(frame.f_code.co_qualname)

    def agree(context: ToolCallContext) -> None: ...

    def read(context: ToolResultContext) -> None: ...

    model = ScriptedModel([call("look") + call("look"), "done"])
    worker = Worker(model, tools=[look], hooks=[before_tool_call(agree), after_tool_call(read)])
    worker.timeline.on_text_block(lambda _: None)
    sys.setprofile(note)
    try:
        await worker.run("go")
    finally:
        sys.setprofile(None)
    verbs = {name.split(".")[0] for name in entered}
    assert {"prepare", "respond", "call_tools", "decide"} <= verbs
    assert {"permit", "run_tools", "revise", "settle"} <= verbs
    assert {"split_meta", "announce_blocks"} <= verbs
    # What they return takes the calls.
    assert {"_Permit.take", "_Row.take", "_Revise.take", "_Settle.take"} <= entered
