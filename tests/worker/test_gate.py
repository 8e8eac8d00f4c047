"""What `hold_back` refuses reaches nothing that a run has: records, the log, spans, the protocols, the messages."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from statistics import quantiles
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from reactivex import Observable
from reactivex import operators as ops
from reactivex.testing import TestScheduler

from rxworker import Limits, Run, Worker, after_tool_call, before_tool_call, on_turn_end, tool, worker_tool
from rxworker.adapters.opentelemetry import OpenTelemetry
from rxworker.errors import LimitExceededError, RxWorkerError, TextRejectedError
from rxworker.events import AttemptStart, CustomEvent, GateVerdict, Record, TextDelta, ToolStart, Usage
from rxworker.events.arguments import REFUSED
from rxworker.events.kinds import Deltas
from rxworker.hooks import Pause, ToolCallContext, ToolResultContext, TurnEndContext
from rxworker.log import MemoryLog
from rxworker.log.format import record_of
from rxworker.messages import Text
from rxworker.operators import hold_back, only
from rxworker.operators.gate import decoded
from rxworker.protocols.ag_ui import AgUiEncoder, ag_ui_stream
from rxworker.protocols.openai.chat import chat_stream
from rxworker.protocols.openai.responses import ResponseEncoder, ResponseHead, response_stream
from rxworker.protocols.ui_messages import ui_message_stream
from rxworker.providers import Ollama
from rxworker.testing import ReplayServer, Reply, ScriptedModel, ServedResponse, call, say, think
from rxworker.testing.reply import USAGE, Call
from rxworker.testing.server import Received
from rxworker.tools import ToolContext
from rxworker.transport import Client
from rxworker.worker import model_check

pytestmark = pytest.mark.unlogged  # the runs have logs of their own
SECRET = "hunter2"


def is_clean(text: str) -> bool:
    return SECRET not in text


async def is_clean_later(text: str) -> bool:
    await asyncio.sleep(0)
    return is_clean(text)


class Note(CustomEvent, frozen=True, tag="acme.note"):
    text: str


@tool
async def look(where: str, context: ToolContext) -> str:
    """Look."""
    if where == "progress":
        context.progress({"seen": [SECRET]})
        context.progress("half")
    if where == "event":
        context.emit(Note(SECRET))
    if where == "state":
        context.set_shared_state({"password": SECRET})
    if where == "error":
        raise RuntimeError(SECRET)
    return f'{{"password": "hunter\\u0032"}} in {where}' if where == "result" else where


@tool(effect="pure")
def peek(where: str) -> tuple[Text, ...]:
    """Peek. What is read of two texts is one."""
    return (Text("hun"), Text("ter2"))


@tool(background=True)
async def fetch(what: str, context: ToolContext) -> str:
    """Fetch."""
    await asyncio.sleep(0)
    context.progress(SECRET if what == "progress" else "half")
    return SECRET if what == "result" else "fetched"


def told(word: str) -> Reply:
    return say(f"I know {word}, and more.") if word else say("Done.")


@before_tool_call
def note(context: ToolCallContext) -> None:
    context.emit(Note(f"{context.tool_args}"))


@after_tool_call(matcher="look")
def add(context: ToolResultContext) -> None:
    if (context.tool_args or {}).get("where") == "hook":
        context.set_content(f"from a hook: {SECRET}")


def inner() -> Worker:
    return Worker(ScriptedModel([think(SECRET) + call("look", where="result"), told(SECRET)]), tools=[look])


NESTED = worker_tool(inner, name="delegate", description="Delegate.")
LATER = worker_tool(inner, name="delegate_later", description="Delegate.", background=True)
ESCAPED = Reply(tool_calls=(Call("look", '{"where": "h\\u0075nter\\u0032"}'),))
PLANTED: dict[str, Reply] = {
    "text": told(SECRET),
    "thinking": think(f"It is {SECRET}.") + say("Done."),
    "arguments": call("look", where=SECRET),
    "arguments, escaped": ESCAPED,
    "name": call(SECRET, where="here"),
    "unknown tool": call("lookup", where=SECRET),
    "progress": call("look", where="progress"),
    "event": call("look", where="event"),
    "state": call("look", where="state"),
    "error": call("look", where="error"),
    "result": call("look", where="result"),
    "result in parts": call("peek", where="x"),
    "hook": call("look", where="hook"),
    "background, progress": call("fetch", what="progress"),
    "background, result": call("fetch", what="result"),
    "nested": call("delegate", task="Look."),
    "nested, in the background": call("delegate_later", task="Look."),
}


class Sinks:
    """A run with everything that can have its content."""

    def __init__(self, reply: Reply, check: Callable[[str], Any], replacement: str | None, **options: Any) -> None:
        self.log = MemoryLog()
        self._spans = InMemorySpanExporter()
        traces = TracerProvider(shutdown_on_exit=False)
        traces.add_span_processor(SimpleSpanProcessor(self._spans))
        self.model = ScriptedModel([reply, told(""), told("")])
        self.worker = Worker(
            self.model,
            tools=[look, peek, fetch, NESTED, LATER],
            operators=[hold_back(check, window=20, replacement=replacement)],
            tracing=OpenTelemetry(tracer_provider=traces, content=True),
            log=self.log,
            **options,
        )
        self.records: list[Record] = []

    async def run(self) -> Any:
        run = self.worker.run("Go.")
        run.subscribe(self.records.append, lambda _: None)
        try:
            return await run
        except RxWorkerError as error:
            return error

    async def content(self) -> dict[str, str]:
        """All that they have."""
        stored: list[object] = []
        async for infos in self.log.list_pages():
            for info in infos:
                stored.append(info)
                async for entry in self.log.read(info.run_id):
                    record = record_of(entry, info.run_id)
                    event: Any = record.event
                    is_merged = isinstance(event, Deltas)
                    stored.append(replace(record, event=event.with_text(event.text())) if is_merged else record)
        frames = {
            "ag-ui": ag_ui_stream(self._batches(), AgUiEncoder("c", "r")),
            "chat": ui_message_stream(self._batches(), "m"),
            "completions": chat_stream(self._batches(), {}),
            "responses": response_stream(self._batches(), ResponseEncoder(ResponseHead("r", 0.0, "m"))),
        }
        return {
            **{name: as_read([piece async for piece in stream]) for name, stream in frames.items()},
            "records": as_read([msgspec.json.encode(record) for record in self.records]),
            "log": as_read([msgspec.json.encode(each) for each in stored]),
            "spans": "".join(span.to_json() for span in self._spans.get_finished_spans()),
            "conversation": f"{self.worker.session.conversation} {self.worker.session.shared_state}",
            "requests": f"{self.model.requests}",
        }

    async def _batches(self) -> AsyncGenerator[list[Record], None]:
        yield self.records


def verdicts(records: list[Record]) -> list[GateVerdict]:
    found = [GateVerdict.of(record.event) for record in records]
    return [each for each in found if each is not None]


def as_read(frames: list[bytes]) -> str:
    """Frames, and the text that a client makes of the pieces in them."""
    text = b"\n".join(frames).decode()
    pieces = re.findall(r'"(?:delta|text|content|inputTextDelta|arguments)":("(?:[^"\\\\]|\\\\.)*")', text)
    whole = "".join([json.loads(piece) for piece in pieces])
    return decoded(decoded(f"{text} {whole}"))


@pytest.mark.product(3)
@pytest.mark.parametrize("hooks", [(), (note, add)], ids=["", "hooks"])
@pytest.mark.parametrize("replacement", ["[removed]", None])
@pytest.mark.parametrize("check", [is_clean, is_clean_later])
@pytest.mark.parametrize("planted", PLANTED)
async def test_what_is_refused_reaches_nothing(
    planted: str, check: Callable[[str], Any], replacement: str | None, hooks: Any
) -> None:
    sinks = Sinks(PLANTED[planted], check, replacement, hooks=hooks)
    async with asyncio.timeout(20):
        result = await sinks.run()
    for place, content in (await sinks.content()).items():
        assert SECRET not in content, place
    if planted == "hook" and not hooks:
        return
    refused = [each for each in verdicts(sinks.records) if each.verdict != "pass"]
    assert refused, planted
    goes_on = planted == "state" or "background" in planted or "nested" in planted
    assert isinstance(result, TextRejectedError) == (replacement is None and not goes_on), result


@pytest.mark.parametrize("planted", PLANTED)
async def test_without_the_gate_it_is_found(planted: str) -> None:
    """So the test above looks where it would be."""
    sinks = Sinks(PLANTED[planted], bool, None, hooks=(note, add))
    await sinks.run()
    found = [place for place, content in (await sinks.content()).items() if SECRET in content]
    assert {"records", "log"} <= {*found}, found


@pytest.mark.parametrize(("characters", "every", "ahead"), [(10, 0.005, 20), (5, 0.01, 12)])
def test_a_check_of_100_ms_delays_deltas_by_less_than_150(characters: int, every: float, ahead: int) -> None:
    """In virtual time, for 2000 and for 500 characters a second."""
    arrived: list[float] = []
    passed: list[float] = []

    def note(times: list[float]) -> Callable[[Observable[Any]], Observable[Any]]:
        def note_text(event: object) -> None:
            if isinstance(event, TextDelta):
                times.extend([asyncio.get_running_loop().time()] * len(event.text))

        return ops.do_action(note_text)

    async def check(_: str) -> bool:
        await asyncio.sleep(0.1)
        return True

    scheduler = TestScheduler()
    text = "x" * characters * 300
    model = ScriptedModel([Reply(text, chunk=characters)], delay=every, scheduler=scheduler)
    operators: list[Any] = [note(arrived), hold_back(check, ahead=ahead, at_most=64), note(passed)]
    assert Worker(model, operators=operators, scheduler=scheduler).run_sync("Go.").text == text
    delays = [after - before for before, after in zip(arrived, passed, strict=True)]
    assert quantiles(delays, n=20)[-1] < 0.15
    assert min(delays) >= 0.1


async def test_the_connection_waits_for_checks_whose_requests_do_not() -> None:
    """More comes than may wait; the requests of checks pass no gate, and count in the usage of the run."""
    text = "x" * 2_000_000
    judged: list[str] = []

    def answer(request: Received) -> ServedResponse | Reply:
        body = json.dumps(request.body)
        if "probability" not in body:
            return Reply(text, chunk=2000)
        judged.append(body)
        return ServedResponse.from_reply('{"probability": 0.1}', delay=0.3 if len(judged) == 1 else 0.0)

    async with ReplayServer(answer) as server:
        client = Client(Ollama("m", base_url=server.base_url))
        gated = hold_back(model_check(client, "Is it bad?"), window=100_000, at_most=1)
        async with asyncio.timeout(20):
            result = await Worker(client, operators=[gated]).run("Go.")
    assert result.text == text
    assert len(judged) == 40
    assert result.usage.output_tokens == 41 * (USAGE.output_tokens or 0)


async def test_what_a_check_of_a_model_takes_counts_and_no_record_has_what_it_reads() -> None:
    @tool(background=True)
    async def look(context: ToolContext) -> str:
        context.progress("half")
        return "a tree"

    def begun(judge: ScriptedModel, limits: Limits) -> Run:
        model = ScriptedModel([call("look"), "I look.", "A tree."])
        check = hold_back(model_check(judge, "Is it bad?"))
        return Worker(model, tools=[look], operators=[check], log=MemoryLog(), limits=limits).run("Go.")

    judge = ScriptedModel(['{"probability": 0.1}'] * 60, model="judge")
    run = begun(judge, Limits())
    records = [record async for record in run]
    starts = [(record.event.model, bool(record.path)) for record in records if isinstance(record.event, AttemptStart)]
    assert starts.count(("judge", True)) == len(judge.requests) > 4
    assert (await run).usage == sum([USAGE] * len(starts), Usage())
    assert not any("Is it bad" in str(record.event) or "probability" in str(record.event) for record in records)
    with pytest.raises(LimitExceededError):
        await begun(ScriptedModel(['{"probability": 0.1}'] * 60), Limits(max_tokens=4 * USAGE.total_tokens))


def test_more_than_may_wait_fails_the_stream() -> None:
    async def check(_: str) -> bool:
        return await asyncio.get_running_loop().create_future()

    model = ScriptedModel([say("x" * 1000)])
    with pytest.raises(RxWorkerError, match="holds more than 500 characters"):
        Worker(model, operators=[hold_back(check, window=20, limit=500)]).run_sync("Go.")


async def test_a_tool_that_takes_free_text_does_not_run_with_what_is_refused() -> None:
    codes: list[str] = []

    @tool(format="text")
    async def execute(code: str) -> str:
        """Execute."""
        codes.append(code)
        return "done"

    script = [
        Reply(tool_calls=(Call("execute", f"print({SECRET!r})"),)),
        call("execute", code="print(1)"),
        say("Done."),
    ]
    model = ScriptedModel(script)
    log = MemoryLog()
    gated = hold_back(is_clean, window=20, replacement="[removed]")
    run = Worker(model, tools=[execute], operators=[gated], log=log).run("Go.")
    await run
    assert not any(SECRET in code for code in codes)
    assert "refused by a check" in model.requests[1].conversation.messages[-1].tool_results[0].text
    stored = [record_of(entry, run.id).event async for entry in log.read(run.id)]
    calls = [event.call for event in stored if isinstance(event, ToolStart)]
    assert calls[0].input.endswith(REFUSED) if isinstance(calls[0].input, str) else False


async def test_a_panel_counts_verdicts() -> None:
    model = ScriptedModel([say(f"It is {SECRET}."), say("Good morning.")])
    worker = Worker(model, operators=[hold_back(is_clean, replacement="[removed]")])
    counts = Counter[str]()
    for _ in range(2):
        run = worker.run("Go.")
        run.events.pipe(only(GateVerdict)).subscribe(lambda each: counts.update([f"{each.check} {each.verdict}"]))
        await run
    assert counts == {"is_clean replace": 1, "is_clean pass": 1}


@pytest.mark.parametrize("verdict", [None, Pause("later")])
async def test_what_a_hook_emits_last_comes_before_the_end(verdict: Pause | None) -> None:
    @on_turn_end
    def note_end(context: TurnEndContext) -> Pause | None:
        context.emit(Note(SECRET))
        context.emit(Note("the end"))
        return verdict

    gated = hold_back(is_clean_later, replacement="[removed]")
    run = Worker(ScriptedModel(["Done."]), operators=[gated], hooks=[note_end]).run("Go.")
    notes: list[str] = []
    run.events.pipe(only(Note)).subscribe(lambda each: notes.append(each.text))
    await run
    assert notes == ["the end"]
