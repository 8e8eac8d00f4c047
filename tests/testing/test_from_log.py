"""A stored run as the script of a model."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from rxworker import Worker, tool, worker_tool
from rxworker.errors import LogError, ProviderError
from rxworker.events import ResponseEvent
from rxworker.hub.history import expand
from rxworker.log import EventLog, MemoryLog, diff_runs
from rxworker.log.format import records_of
from rxworker.testing import Reply, RequestChangedError, ScriptedModel, ScriptExhaustedError, call, fail, say, think
from rxworker.transport import Retry

REPLIES = [think("Hm.", "seal") + say("Let me see.") + call("look", n=1), say("It is a cat.")]


@tool
async def look(n: int) -> str:
    """Look."""
    return f"saw {n}"


async def store(log: EventLog, *replies: Reply, text: str = "Hi", **options: Any) -> str:
    model = ScriptedModel(replies, name="acme", model="large")
    given: dict[str, Any] = {"tools": [look], **options}
    run = Worker(model, log=log, **given).run(text)
    with suppress(ProviderError):
        await run
    return run.id


async def responses(log: EventLog, run_id: str) -> list[Any]:
    found = records_of([entry async for entry in log.read(run_id)], run_id)
    events = [each.event for record in found for each in expand(record)]
    return [event for event in events if isinstance(event, ResponseEvent)]


async def test_a_stored_run_is_a_regression_test(log: MemoryLog) -> None:
    """The worker runs again with the answers of then and its tools of now, and comes to the same conversation."""
    stored = await store(log, *REPLIES)
    model = await ScriptedModel.from_log(log, stored)
    assert (model.name, model.model) == ("acme", "large")
    run = Worker(model, tools=[look], log=log).run("Hi")
    await run
    diff = await diff_runs(log, stored, run.id)
    assert diff.is_equal
    assert diff.messages == ()
    assert await responses(log, run.id) == await responses(log, stored)
    assert len(model.requests) == 2


async def test_a_tool_that_has_changed_fails_the_next_request(log: MemoryLog) -> None:
    stored = await store(log, *REPLIES)

    @tool(name="look")
    async def look_again(n: int) -> str:
        """Look."""
        return f"saw {n + 1}"

    model = await ScriptedModel.from_log(log, stored)
    with pytest.raises(RequestChangedError) as caught:
        await Worker(model, tools=[look_again]).run("Hi")
    assert caught.value.request == 2
    assert caught.value.difference == ("message 3 was 'user: look: saw 1', and is now 'user: look: saw 2'")
    model = await ScriptedModel.from_log(log, stored, strict=False)
    result = await Worker(model, tools=[look_again]).run("Hello?")
    assert result.text == "It is a cat."


async def test_the_first_difference_is_named(log: MemoryLog) -> None:
    stored = await store(log, *REPLIES, system="Be brief.")

    async def difference(text: str = "Hi", **options: Any) -> str:
        model = await ScriptedModel.from_log(log, stored)
        given: dict[str, Any] = {"tools": [look], "system": "Be brief.", **options}
        with pytest.raises(RequestChangedError) as caught:
            await Worker(model, **given).run(text)
        return caught.value.difference

    assert await difference("Hello") == "message 1 was 'user: Hi', and is now 'user: Hello'"
    assert await difference(system=None) == ("the system text was 'Be brief.', and is now None")
    assert await difference(tools=[]) == "the tools differ: ['look'] are missing, and [] are new"


async def test_more_requests_than_then_are_refused(log: MemoryLog) -> None:
    stored = await store(log, say("Hello."))
    model = await ScriptedModel.from_log(log, stored, strict=False)
    await Worker(model).run("Hi")
    with pytest.raises(ScriptExhaustedError):
        await Worker(model).run("Hi")


async def test_attempts_that_were_retracted_are_left_out(log: MemoryLog) -> None:
    first = say("half a sen") + fail("Overloaded", "overloaded", retryable=True)
    stored = await store(log, first, *REPLIES, response_retry=Retry(retries=1, first=0.0))
    model = await ScriptedModel.from_log(log, stored)
    run = Worker(model, tools=[look]).run("Hi")
    assert (await run).text == "It is a cat."
    assert run.state.attempts == 2


async def test_a_run_that_failed_fails_again(log: MemoryLog) -> None:
    for reply in (
        say("half a sen") + fail("Bad luck", "server", retryable=False),
        fail("Bad luck", "server", retryable=False),
    ):
        stored = await store(log, reply)
        model = await ScriptedModel.from_log(log, stored)
        with pytest.raises(ProviderError, match="Bad luck"):
            await Worker(model, tools=[look]).run("Hi")


async def test_the_responses_of_runs_inside_are_left_out(log: MemoryLog) -> None:

    def make(outer: Any, inner: Any) -> Worker:
        scout = Worker(inner)
        send = worker_tool(scout, name="scout", description="Send a scout.")
        return Worker(outer, tools=[send], log=log)

    run = make(ScriptedModel([call("scout", task="Go."), say("All is well.")]), ScriptedModel(["Nothing there."])).run(
        "Hi"
    )
    await run
    model = await ScriptedModel.from_log(log, run.id)
    again = make(model, ScriptedModel(["Nothing there."])).run("Hi")
    assert (await again).text == "All is well."


async def test_a_run_without_a_response_is_not_a_script(log: MemoryLog) -> None:
    with pytest.raises(LogError, match="no run"):
        await ScriptedModel.from_log(log, "run-9")
