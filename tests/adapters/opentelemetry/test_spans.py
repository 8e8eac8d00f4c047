"""The spans of a run: their tree, their times, their attributes, and how each of them ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import reactivex
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode
from reactivex import Observable
from reactivex import operators as ops

from rxworker import Limits, Paused, Worker, before_tool_call, tool, worker_tool
from rxworker.adapters.opentelemetry import OpenTelemetry, Semconv
from rxworker.errors import LimitExceededError, ProviderError, RunCancelledError
from rxworker.events import Record, ResponseEvent, ResponseStatus, RunStop, Status, ToolStart, ToolStop, Usage
from rxworker.hooks import Pause, Skip, ToolCallContext
from rxworker.messages import StopKind, StopReason
from rxworker.providers import Request
from rxworker.testing import Call, Reply, ScriptedModel, call, cut, fail, say, stall
from rxworker.testing.reply import reply_events
from rxworker.transport import Retry
from tests.adapters.opentelemetry.conftest import Received, attributes, events
from tests.runs import reached, records_of

USAGE = Usage(100, 20, cache_read_tokens=60, cache_creation_tokens=10, reasoning_tokens=5)
AT_ONCE = Retry(first=0.0)


@tool
async def look(at: str) -> str:
    """Look at something."""
    return f"nothing at {at}"


@tool
async def fall(n: int) -> str:
    """Fail."""
    raise ValueError(f"{n} is too much")


def status(span: ReadableSpan) -> tuple[StatusCode, str | None, Any]:
    return span.status.status_code, span.status.description, attributes(span).get("error.type")


async def test_a_run_its_requests_and_its_tools_are_spans_with_the_times_of_the_records(received: Received) -> None:
    stop = StopReason(StopKind.END_TURN, "stop")
    model = ScriptedModel(
        [call("look", at="a") + call("fall", n=1), say("Done.", stop=stop, usage=USAGE)],
        name="openai_chat",
        model="gpt-x",
    )
    worker = Worker(
        model, tools=[look, fall], name="scout", labels={"conversation": "c-1"}, tracing=received.observer()
    )
    run = worker.run("Look.")
    records = records_of(run)
    await run
    assert received.tree() == [
        "invoke_agent scout",
        "  chat gpt-x",
        "  execute_tool look",
        "  execute_tool fall",
        "  chat gpt-x",
    ]
    spans = received.spans
    root, chat = spans["invoke_agent scout"], spans["chat gpt-x"]
    assert (root.kind, chat.kind) == (SpanKind.INTERNAL, SpanKind.CLIENT)
    assert attributes(root) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-x",
        "gen_ai.agent.name": "scout",
        "gen_ai.conversation.id": "c-1",
        "gen_ai.usage.input_tokens": 110,
        "gen_ai.usage.output_tokens": 25,
        "gen_ai.usage.cache_read.input_tokens": 60,
        "gen_ai.usage.cache_creation.input_tokens": 10,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "rxworker.run.id": run.id,
        "rxworker.run.status": "finished",
    }
    told = attributes(chat)
    assert 0 <= told.pop("gen_ai.response.time_to_first_chunk") < 10
    assert told == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-x",
        "gen_ai.request.stream": True,
        "gen_ai.conversation.id": "c-1",
        "gen_ai.response.id": "response_2",
        "gen_ai.response.model": "gpt-x",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 60,
        "gen_ai.usage.cache_creation.input_tokens": 10,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "rxworker.turn": 2,
    }
    assert attributes(spans["execute_tool look"]) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": "call_1_1",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Look at something.",
    }
    assert status(spans["execute_tool fall"]) == (StatusCode.ERROR, None, "tool_error")
    assert status(root) == (StatusCode.UNSET, None, None)

    def time_of(kind: type[object]) -> int:
        return next(int(each.time * 1e9) for each in records if type(each.event) is kind)

    looked = spans["execute_tool look"]
    assert (looked.start_time, looked.end_time) == (time_of(ToolStart), time_of(ToolStop))
    assert (root.start_time, root.end_time) == (int(records[0].time * 1e9), time_of(RunStop))


async def test_parallel_tools_overlap_and_each_ends_with_its_own_record(received: Received) -> None:
    is_second_done = asyncio.Event()

    @tool
    async def first() -> None:
        """Wait for the second."""
        await is_second_done.wait()

    @tool
    async def second() -> None:
        """Let the first go on."""
        is_second_done.set()

    model = ScriptedModel([call("first") + call("second"), "Done."])
    await Worker(model, tools=[first, second], tracing=received.observer()).run("Both.")
    names = [span.name for span in received.all if span.name.startswith("execute")]
    assert names == ["execute_tool second", "execute_tool first"]


async def test_a_run_inside_a_run_is_a_child_of_the_call_that_began_it_and_is_traced_once(received: Received) -> None:
    observer = received.observer()
    inner = Worker(
        ScriptedModel([call("look", at="b"), "Seen."], name="gemini", model="inner-1"), tools=[look], tracing=observer
    )
    scout = worker_tool(inner, name="scout", description="Look around.")
    model = ScriptedModel([call("scout", task="Look."), "Done."], model="outer-1")
    await Worker(model, tools=[scout], tracing=observer).run("Look.")
    assert received.tree() == [
        "invoke_agent",
        "  chat outer-1",
        "  execute_tool scout",
        "    invoke_agent scout",
        "      chat inner-1",
        "      execute_tool look",
        "      chat inner-1",
        "  chat outer-1",
    ]
    told = attributes(received.spans["invoke_agent scout"])
    assert told["gen_ai.provider.name"] == "gcp.gemini"
    assert told["gen_ai.request.model"] == "inner-1"
    assert told["gen_ai.operation.name"] == "invoke_agent"
    assert told["gen_ai.usage.input_tokens"] == 20


async def test_a_run_inside_a_run_that_fails_has_the_error_of_its_last_response(received: Received) -> None:
    inner = Worker(ScriptedModel([fail("No such key", "authentication")]))
    scout = worker_tool(inner, name="scout", description="Look around.")
    model = ScriptedModel([call("scout", task="Look."), "Done."])
    await Worker(model, tools=[scout], tracing=received.observer()).run("Look.")
    code, text, kind = status(received.spans["invoke_agent scout"])
    assert (code, kind) == (StatusCode.ERROR, "authentication")
    assert text is not None
    assert "No such key" in text
    assert status(received.spans["execute_tool scout"])[0] is StatusCode.ERROR


async def test_a_retried_request_is_one_span_with_its_retraction_as_an_event(received: Received) -> None:
    model = ScriptedModel([say("Half a sen") + fail("Overloaded", "overloaded"), "Whole."])
    run = Worker(model, tracing=received.observer(), response_retry=AT_ONCE).run("Hi")
    await run
    assert received.tree() == ["invoke_agent", "  chat scripted"]
    chat = received.spans["chat scripted"]
    for span in (chat, received.spans["invoke_agent"]):  # each attempt was paid
        assert attributes(span)["gen_ai.usage.input_tokens"] == run.state.usage.input_tokens
        assert attributes(span)["gen_ai.usage.output_tokens"] == run.state.usage.output_tokens
    ((name, about),) = events(chat)
    assert name == "rxworker.attempt.retract"
    assert (about["attempt"], about["error.type"]) == (1, "overloaded")
    assert attributes(chat)["rxworker.attempts"] == 2
    assert status(chat) == (StatusCode.UNSET, None, None)
    points = received.metrics()["gen_ai.client.operation.time_to_first_chunk"]
    assert [point.count for point in points] == [2]  # each attempt has a first chunk


async def test_a_response_that_begins_anew_within_an_attempt_was_paid_too(received: Received) -> None:
    left = [ValueError("not good enough")]

    def check(event: ResponseEvent) -> ResponseEvent:
        if isinstance(event, Status) and event.status is ResponseStatus.COMPLETED and left:
            raise left.pop()
        return event

    def again(source: Observable[ResponseEvent]) -> Observable[ResponseEvent]:
        return source.pipe(ops.map(check), ops.retry(2))

    run = Worker(ScriptedModel(["No.", "Yes."]), operators=[again], tracing=received.observer()).run("Hi")
    await run
    assert run.state.usage.input_tokens == 20
    for span in received.all:
        assert attributes(span)["gen_ai.usage.input_tokens"] == 20


async def test_a_cut_response_fails_the_request_and_the_run(received: Received) -> None:
    worker = Worker(ScriptedModel([say("Half") + cut()]), tracing=received.observer(), response_retry=Retry(retries=0))
    with pytest.raises(Exception, match="terminal event"):
        await worker.run("Hi")
    for span in received.all:
        assert status(span)[::2] == (StatusCode.ERROR, "TruncatedError")
    chat, root = received.all
    assert attributes(chat)["gen_ai.response.finish_reasons"] == ("error",)
    assert attributes(root)["rxworker.run.status"] == "aborted"
    assert attributes(root)["rxworker.run.cause"] == "error"


async def test_the_error_of_a_provider_has_its_kind_and_no_secret(
    received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOORS_API_KEY", "open sesame")
    model = ScriptedModel([fail("the key 'open sesame' is not known", "authentication")])
    with pytest.raises(ProviderError):
        await Worker(model, tracing=received.observer()).run("Hi")
    chat, root = received.all
    expected = (StatusCode.ERROR, "the key '***' is not known", "authentication")
    assert status(chat) == expected
    assert status(root) == expected
    assert chat.end_time == root.end_time
    (point,) = received.metrics()["gen_ai.client.operation.duration"]
    assert dict(point.attributes)["error.type"] == "authentication"


async def test_a_cancelled_run_ends_its_spans_without_an_error(received: Received) -> None:
    worker = Worker(ScriptedModel([say("Hm") + stall()]), tracing=received.observer())
    run = worker.run("Hi")
    async for record in run:
        if record.turn:
            break
    await run.cancel(reason="lunch")
    with pytest.raises(RunCancelledError):
        await run
    chat, root = received.all
    assert status(chat) == (StatusCode.UNSET, None, "RunCancelledError")
    assert status(root) == (StatusCode.UNSET, None, "RunCancelledError")
    assert attributes(root)["rxworker.run.cause"] == "cancel"


async def test_a_tool_that_is_cancelled_with_its_run_ends(received: Received) -> None:
    @tool
    async def wait() -> None:
        """Wait."""
        await asyncio.Event().wait()

    run = Worker(ScriptedModel([call("wait")]), tools=[wait], tracing=received.observer()).run("x")
    await reached(run, ToolStart)
    await run.cancel()
    assert [span.name for span in received.all] == ["chat scripted", "execute_tool wait", "invoke_agent"]


async def test_a_limit_is_an_event_and_the_error_of_the_run(received: Received) -> None:
    worker = Worker(
        ScriptedModel([call("look", at="a")]), tools=[look], limits=Limits(max_turns=1), tracing=received.observer()
    )
    with pytest.raises(LimitExceededError):
        await worker.run("Look.")
    root = received.spans["invoke_agent"]
    assert events(root) == [("rxworker.limit", {"limit": "max_turns", "value": 1})]
    assert status(root)[::2] == (StatusCode.ERROR, "LimitExceededError")


async def test_a_verdict_of_a_hook_is_an_event_and_a_skipped_call_no_span(received: Received) -> None:
    @before_tool_call
    def permit(context: ToolCallContext) -> Skip:
        return Skip("the password is hunter2")

    worker = Worker(
        ScriptedModel([call("look", at="a"), "Ok."]), tools=[look], hooks=[permit], tracing=received.observer()
    )
    await worker.run("Look.")
    assert received.tree() == ["invoke_agent", "  chat scripted", "  chat scripted"]
    about = {"hook": "permit", "point": "before_tool_call", "verdict": "Skip", "gen_ai.tool.call.id": "call_1_1"}
    assert events(received.spans["invoke_agent"]) == [("rxworker.hook.verdict", about)]


async def test_a_paused_run_ends_its_span_and_the_resumed_run_goes_on_in_its_trace(received: Received) -> None:
    @before_tool_call
    def ask(context: ToolCallContext) -> Pause:
        return Pause("Look?")

    observer = received.observer()
    worker = Worker(ScriptedModel([call("look", at="a"), "Seen."]), tools=[look], hooks=[ask], tracing=observer)
    with received.tracer.start_as_current_span("request") as request:
        paused = await worker.run("Look.")
    assert isinstance(paused, Paused)
    first = received.spans["invoke_agent"]
    assert attributes(first)["rxworker.run.status"] == "paused"
    assert events(first)[-1] == ("rxworker.run.pause", {"hook": "ask", "pending": 1})
    await worker.resume(paused)  # without a current span
    second = received.spans["invoke_agent"]
    assert attributes(second)["rxworker.run.resumes"] == paused.run_id
    assert second.parent is not None
    assert second.parent.span_id == request.get_span_context().span_id


async def test_what_is_open_is_ended_when_the_observer_is_detached(
    received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rxworker.adapters.opentelemetry import spans

    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setitem(spans._HANDLERS, ToolStart, broken)
    model = ScriptedModel([call("look", at="a"), "Seen."])
    result = await Worker(model, tools=[look], tracing=received.observer()).run("Look.")
    assert result.text == "Seen."
    assert status(received.spans["invoke_agent"])[::2] == (StatusCode.ERROR, "RuntimeError")


async def test_an_observer_that_raises_affects_no_run(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def traceparent(self) -> str:
            return ""

        def __call__(self, run: object) -> None:
            raise RuntimeError("a defect")

    result = await Worker(ScriptedModel(["Hello."]), tracing=Broken()).run("Hi")
    assert result.text == "Hello."
    assert "is not reported to tracing" in caplog.text


async def test_a_traced_run_without_watchers_counts_as_unobserved(received: Received) -> None:
    worker = Worker(ScriptedModel([stall()]), tracing=received.observer())
    run = worker.run("Hi")
    assert run.watchers.now == ()
    run.cancel_when_unobserved(grace=0.0)
    with pytest.raises(RunCancelledError, match="no watcher"):
        await run


@pytest.mark.parametrize("how", ["called", "late"])
async def test_a_run_is_traced_by_calling_the_observer_also_late_and_only_once(received: Received, how: str) -> None:
    observer = received.observer()
    run = Worker(ScriptedModel(["Hello."])).run("Hi")
    if how == "late":
        await run
    observer(run)
    if how == "called":
        observer(run)
    await run
    assert received.tree() == ["invoke_agent", "  chat scripted"]


@pytest.mark.parametrize(
    ("version", "absent", "present"),
    [
        ("1.37", {"gen_ai.usage.cache_read.input_tokens", "gen_ai.request.stream"}, set[str]()),
        ("1.41", set[str](), {"gen_ai.usage.cache_creation.input_tokens"}),
        (
            "latest",
            {"gen_ai.usage.cache_creation.input_tokens"},
            {"gen_ai.usage.cache_write.input_tokens", "gen_ai.request.stream"},
        ),
    ],
)
async def test_the_names_are_those_of_the_chosen_version(
    received: Received, version: Semconv, absent: set[str], present: set[str]
) -> None:
    model = ScriptedModel([say("Hello.", usage=USAGE)])
    await Worker(model, tracing=received.observer(semconv=version)).run("Hi")
    told = set(attributes(received.spans["chat scripted"]))
    assert not told & absent
    assert present <= told
    assert "" not in told
    assert {"gen_ai.provider.name", "gen_ai.usage.input_tokens"} <= told


async def test_the_environment_opts_into_the_latest_version(
    received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "http, gen_ai_latest_experimental")
    await Worker(ScriptedModel(["Hello."]), tracing=received.observer()).run("Hi")
    assert "gen_ai.client.inference.duration" in received.metrics()
    assert "gen_ai.client.operation.duration" not in received.metrics()


async def test_a_response_that_begins_again_after_its_end_is_another_span(received: Received) -> None:
    class Proxy(ScriptedModel):
        def stream(self, request: Request) -> Observable[ResponseEvent]:
            return reactivex.of(*reply_events(say("It is 41.")), *reply_events(say("It is 42."), 2))

    worker = Worker(Proxy([]), tracing=received.observer(content=True))
    assert (await worker.run("Hi")).text == "It is 42."
    first, second, _ = received.all
    assert attributes(second)["gen_ai.provider.name"] == "scripted"
    assert attributes(second)["gen_ai.response.id"] == "response_2"
    assert "41" in attributes(first)["gen_ai.output.messages"]
    assert "41" not in attributes(second)["gen_ai.input.messages"]


async def test_two_calls_of_one_id_are_two_spans(received: Received) -> None:
    twice = tuple([Call("scout", {"task": "Look."}, id="x")] * 2)

    def inner() -> Worker:
        return Worker(ScriptedModel(["Seen."], delay=0.001))

    scout = worker_tool(inner, name="scout", description="Look around.")
    model = ScriptedModel([Reply(tool_calls=twice), "Done."])
    await Worker(model, tools=[scout], tracing=received.observer()).run("Look.")
    names = [span.name for span in received.all]
    assert names.count("execute_tool scout") == 2
    assert names[-1] == "invoke_agent"


async def test_a_watcher_that_is_detached_is_an_event_without_the_secrets_of_its_error(
    received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOORS_API_KEY", "open sesame")

    def broken(_: Record) -> None:
        raise ValueError("no door opens to open sesame")

    run = Worker(ScriptedModel(["Hello."]), tracing=received.observer()).run("Hi")
    run.watch(name="dashboard").subscribe(broken, print)
    await run
    about = {"watcher": "dashboard", "error": "ValueError: no door opens to ***"}
    assert ("rxworker.watcher.detach", about) in events(received.spans["invoke_agent"])


def test_arguments_that_cannot_be_are_refused() -> None:
    with pytest.raises(Exception, match=r"semconv='1\.0': give one of"):
        OpenTelemetry(semconv="1.0")  # pyright: ignore[reportArgumentType]
    with pytest.raises(Exception, match="redact=3: give a function"):
        OpenTelemetry(redact=3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(Exception, match="tracing='yes': give tracing=OpenTelemetry"):
        Worker(ScriptedModel([]), tracing="yes")  # pyright: ignore[reportArgumentType]


async def test_without_an_sdk_nothing_is_recorded_and_the_run_is_the_same() -> None:
    worker = Worker(ScriptedModel([call("look", at="a"), "Seen."]), tools=[look])
    worker.tracing = OpenTelemetry()
    assert (await worker.run("Look.")).text == "Seen."
