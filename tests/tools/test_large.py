"""Large arguments, and many calls at once."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest

from rxworker import Limits, Worker, tool
from rxworker.errors import LimitExceededError
from rxworker.messages import ToolCall
from rxworker.testing import Reply, ScriptedModel, lint
from rxworker.testing.reply import Call
from rxworker.tools import Toolbox
from rxworker.tools.run import run_call
from tests.runs import records_of

MANY = 1_000
LARGE = 10_000_000


@tool
async def measure(text: str) -> int:
    """How long it is."""
    return len(text)


async def test_arguments_of_ten_megabytes_arrive() -> None:
    text = "ä" * (LARGE // 2)
    result = await run_call(Toolbox([measure]), ToolCall("1", "measure", {"text": text}))
    assert result.text == str(LARGE // 2)


async def test_a_large_text_is_cut_before_it_is_cleaned() -> None:
    text = "ä" * LARGE

    @tool
    async def read() -> str:
        return text

    tracemalloc.start()
    try:
        result = await run_call(Toolbox([read]), ToolCall("1", "read", {}))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert f"of {LARGE:,} characters were left out" in result.text
    assert peak < LARGE // 10


async def test_they_arrive_through_a_worker_too() -> None:
    big = Reply(tool_calls=(Call("measure", {"text": "a" * LARGE}),), chunk=65_536)
    run = Worker(ScriptedModel([big, "Done."]), tools=[measure]).run("go")
    records = records_of(run)
    result = await run
    assert result.conversation.messages[2].tool_results[0].text == str(LARGE)
    assert lint(records) == []


async def test_a_thousand_calls_in_one_response_run_and_answer_in_order() -> None:
    running: list[int] = []
    most: list[int] = []

    @tool
    async def count(number: int) -> int:
        running.append(number)
        most.append(len(running))
        await asyncio.sleep(0)
        running.remove(number)
        return number

    calls = tuple(Call("count", {"number": n}) for n in range(MANY))
    limits = Limits(max_tool_calls=MANY)
    worker = Worker(ScriptedModel([Reply(tool_calls=calls), "Done."]), tools=[count], limits=limits, parallel=16)
    run = worker.run("go")
    records = records_of(run)
    result = await run
    texts = [r.text for r in result.conversation.messages[2].tool_results]
    assert texts == [str(n) for n in range(MANY)]
    assert max(most) == 16
    assert lint(records) == []


async def test_more_calls_than_a_run_may_make_are_refused_before_any_runs() -> None:
    calls = tuple(Call("measure", {"text": "a"}) for _ in range(MANY))
    worker = Worker(ScriptedModel([Reply(tool_calls=calls), "Done."]), tools=[measure])
    run = worker.run("go")
    with pytest.raises(LimitExceededError, match="max_tool_calls"):
        await run
    assert run.state.tool_calls == 0
    answers = [r for m in worker.session.conversation.messages for r in m.tool_results]
    assert len(answers) == MANY
