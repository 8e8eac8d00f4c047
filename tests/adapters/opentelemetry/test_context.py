"""The trace context: what is current within a request and a tool, and how a trace crosses processes."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import weakref
from typing import Any

import aiohttp
import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from rxworker import Paused, Run, Worker, before_tool_call, tool, worker_tool
from rxworker.events import RunResume, RunStart
from rxworker.hooks import ToolCallContext
from rxworker.log import EventLog, MemoryLog
from rxworker.log.format import records_of
from rxworker.providers import Anthropic
from rxworker.testing import ReplayServer, ScriptedModel, call, fail, say, stall
from rxworker.transport import Retry
from rxworker.ui.web import WebServer
from rxworker.worker import load_paused, save_paused, submit, work
from tests.adapters.opentelemetry.conftest import Received, events


def current() -> str:
    """The name of the current span."""
    return getattr(trace.get_current_span(), "name", "")


@tool
async def look() -> str:
    """The current span of a tool."""
    return current()


async def test_the_current_span_of_a_tool_is_its_own_also_in_a_thread_and_side_by_side(received: Received) -> None:
    @tool
    def think() -> str:
        """The current span of a tool in a thread."""
        with received.tracer.start_as_current_span("thought"):
            return "a thought"

    seen: list[str] = []

    @before_tool_call
    def note(context: ToolCallContext) -> None:
        seen.append(current())

    model = ScriptedModel([call("look") + call("think") + call("gone"), call("look"), "Done."])
    worker = Worker(model, tools=[look, think], hooks=[note], tracing=received.observer())
    with received.tracer.start_as_current_span("request"):
        await worker.run("Look.")
        assert current() == "request"
    results = [r.text for m in worker.session.conversation.messages for r in m.tool_results]
    assert results[0] == results[3] == "execute_tool look"
    assert seen == ["request"] * 3  # a hook is neither in a request nor in a tool
    tree = received.tree()
    assert tree.index("      thought") == tree.index("    execute_tool think") + 1
    assert sorted(tree) == [
        "      thought",
        "    chat scripted",
        "    chat scripted",
        "    chat scripted",
        "    execute_tool gone",
        "    execute_tool look",
        "    execute_tool look",
        "    execute_tool think",
        "  invoke_agent",
        "request",
    ]


async def test_the_current_span_of_an_http_request_is_that_of_its_chat(
    received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    plain = aiohttp.ClientSession._request

    async def request(self: aiohttp.ClientSession, *args: Any, **options: Any) -> Any:
        seen.append(f"{current()} {trace.get_current_span().get_span_context().span_id:x}")
        return await plain(self, *args, **options)

    monkeypatch.setattr(aiohttp.ClientSession, "_request", request)
    replies = [say("Half a") + fail("busy", "overloaded"), "Whole."]
    async with ReplayServer(replies) as server:
        provider = Anthropic("claude-x", api_key="x", base_url=server.base_url)
        worker = Worker(provider, tracing=received.observer(), response_retry=Retry(first=0.0))
        await worker.run("Hi")
    chat = received.spans["chat claude-x"]
    assert chat.context is not None
    assert seen == [f"chat claude-x {chat.context.span_id:x}"] * 2


async def test_the_current_span_within_a_run_inside_a_run_is_that_of_its_call(received: Received) -> None:
    inner = ScriptedModel([call("look"), "Seen."])
    scout = worker_tool(Worker(inner, tools=[look]), name="scout", description="Look around.")
    model = ScriptedModel([call("scout", task="Look."), "Done."])
    await Worker(model, tools=[scout], tracing=received.observer()).run("Look.")
    assert inner.requests[1].conversation.messages[-1].tool_results[0].text == "execute_tool look"


async def test_the_parent_of_a_run_is_the_span_in_which_it_was_begun(received: Received) -> None:
    worker = Worker(ScriptedModel(["Hello."]), tracing=received.observer())
    with received.tracer.start_as_current_span("request"):
        run = worker.run("Hi")
    await run
    assert received.tree() == ["request", "  invoke_agent", "    chat scripted"]
    carrier: dict[str, str] = {}
    parent = set_span_in_context(NonRecordingSpan(_context_of(received, "request")))
    TraceContextTextMapPropagator().inject(carrier, parent)
    assert run.state.traceparent == carrier["traceparent"]


def _context_of(received: Received, name: str) -> SpanContext:
    context = received.spans[name].context
    assert context is not None
    return context


async def test_a_run_that_another_process_takes_over_continues_the_trace_and_links_to_the_taker(
    received: Received, log: MemoryLog
) -> None:
    first = Worker(ScriptedModel([call("look"), stall()]), tools=[look], log=log, tracing=received.observer())
    with received.tracer.start_as_current_span("request"):
        run = first.run("Look.")
    async for record in run:
        if record.turn == 2:
            break
    await run.hand_over(reason="a deployment")
    one = received.spans["invoke_agent"]
    assert dict(one.attributes or {})["rxworker.run.status"] == "handed_over"
    second = Worker(ScriptedModel(["Done."]), tools=[look], log=log, tracing=received.observer())
    with received.tracer.start_as_current_span("sweep") as sweep:
        taken = await second.recover(run.id, reason="found").started()
    await taken
    other = received.spans["invoke_agent"]
    assert other is not one
    names = [span.name for span in received.all]
    assert names.count("chat scripted") == 3  # what the first process has traced is not traced again
    assert names.count("execute_tool look") == 1
    assert other.parent is not None
    assert other.parent.span_id == _context_of(received, "request").span_id
    assert other.context is not None
    assert other.context.trace_id == _context_of(received, "request").trace_id
    assert [link.context.span_id for link in other.links] == [sweep.get_span_context().span_id]
    (name, about) = events(other)[0]
    assert (name, about["reason"]) == ("rxworker.run.recover", "found")


async def test_a_queued_run_keeps_the_context_of_its_submitter(received: Received) -> None:
    async with MemoryLog() as log:
        observer = received.observer()
        with received.tracer.start_as_current_span("order"):
            run = await submit(log, "Hi", tracing=observer)
        assert [span.name for span in received.all] == ["order"]  # a submission is not a run
        done = asyncio.Event()

        def follow(run: Any) -> None:
            observer(run)
            run.subscribe(on_completed=done.set)

        working = asyncio.create_task(work(log, lambda info: Worker(ScriptedModel(["Hello."])), on_run=follow))
        await done.wait()
        working.cancel()
        await asyncio.wait([working])
        assert (await log.info(run)) is not None
    root = received.spans["invoke_agent"]
    assert root.parent is not None
    assert root.parent.span_id == _context_of(received, "order").span_id
    assert root.links == ()


async def _starts(log: EventLog, run_id: str) -> list[RunStart | RunResume]:
    entries = [entry async for entry in log.read(run_id)]
    found = [record.event for record in records_of(entries, run_id)]
    return [event for event in found if isinstance(event, RunStart | RunResume)]


async def test_without_tracing_nothing_is_stored_and_a_damaged_context_is_not_a_parent(received: Received) -> None:
    async with MemoryLog() as log:
        with received.tracer.start_as_current_span("request"):
            run = Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
            await run
        (start,) = await _starts(log, run.id)
        assert start.traceparent == ""

        class Damaged:
            def traceparent(self) -> str:
                return "00-zz-1-x\r\n"

            def __call__(self, run: Any) -> None:
                received.observer()(run)

        await Worker(ScriptedModel(["Hello."]), log=log, tracing=Damaged()).run("Hi")
    assert received.spans["invoke_agent"].parent is None


async def test_the_observer_is_the_on_run_of_the_web_server(received: Received) -> None:
    observer, begun = received.observer(), list[Run[object]]()

    def on_run(run: Run[object]) -> None:
        observer(run)
        begun.append(run)

    def make() -> Worker:
        return Worker(ScriptedModel(["Hello."]))

    async with (
        MemoryLog() as log,
        WebServer(make, port=0, on_run=on_run, log=log) as server,
        aiohttp.ClientSession(server.url, trust_env=False) as http,
    ):
        answer = await http.post("api/runs", json={"input": "Hi"})
        started = await answer.json()
        await begun[0]
    told = dict(received.spans[f"invoke_agent {started['worker']}"].attributes or {})
    assert told["rxworker.run.id"] == started["id"]
    assert told["gen_ai.conversation.id"] == started["conversation"]


async def test_a_saved_pause_keeps_the_context(received: Received) -> None:
    @tool(requires_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    worker = Worker(ScriptedModel([call("pay")]), tools=[pay], tracing=received.observer())
    with received.tracer.start_as_current_span("request"):
        paused = await worker.run("Pay.")
    assert isinstance(paused, Paused)
    assert load_paused(save_paused(paused)).traceparent == paused.traceparent != ""


async def test_a_traced_run_leaves_no_garbage(received: Received) -> None:
    async def begin() -> weakref.ref[object]:
        run = Worker(ScriptedModel(["Hello!"]), tracing=received.observer()).run("Hi")
        await run
        return weakref.ref(run)

    gc.disable()
    try:
        run = await begin()
        await asyncio.sleep(0)
        assert run() is None
    finally:
        gc.enable()


def test_without_the_package_the_error_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "import rxworker.worker\n"
        "try:\n    import rxworker.adapters.opentelemetry\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "pip install '/path/to/the/checkout[otel]'" in done.stdout, done.stderr
