"""OTLP: what our own observer, and any SDK, exports of a run is that run at the other end."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
from typing import Any, cast

import aiohttp
import pytest
import reactivex
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from rxworker import Run
from rxworker.adapters.opentelemetry import OpenTelemetry
from rxworker.errors import ConfigurationError
from rxworker.events import Record, TextDelta, ToolStop
from rxworker.log import MemoryLog
from rxworker.run.run import end_of
from rxworker.tap import tap_each
from rxworker.tap.sources import OTLP, OTLPReceiver
from rxworker.tap.sources.otlp import Span
from rxworker.testing.conformance import lint
from tests.mutate import odd
from tests.tap.test_wire import CASES, figures, records_of


async def exported(run: Run[Any], url: str, content: bool) -> None:
    """Run, and export the trace with the SDK's exporter."""
    tracers = TracerProvider(resource=Resource.create({"service.name": "desk"}), shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
    OpenTelemetry(tracer_provider=tracers, content=content)(run)
    try:
        await end_of(run)
        await asyncio.to_thread(tracers.force_flush)
    finally:
        await asyncio.to_thread(tracers.shutdown)


@pytest.mark.parametrize("content", [False, True])
@pytest.mark.parametrize("case", ["text", "retries", "inside", "fails", "limit", "pause"])
async def test_a_trace_has_the_figures_of_its_run(case: str, content: bool) -> None:
    run = CASES[case]().run("Go.")
    async with OTLPReceiver(port=0, settle=0.0) as receiver:
        each = tap_each(receiver, OTLP(), name="desk")
        runs: list[Run[None]] = []
        each.runs.subscribe(runs.append)
        await exported(run, receiver.url, content)
    await each.ended()
    (again,) = runs
    assert lint(records_of(again)) == []
    found, expected = figures(again.state), figures(run.state)
    if case in ("retries", "inside"):  # a span has the tokens of its last attempt
        found["usage"] = expected["usage"]
    if case == "fails":  # the text of a response that has failed is not recorded
        found["messages"] = expected["messages"]
    names = ("status", "usage", "names", "messages") if content else ("status", "usage", "names")
    assert {name: found[name] for name in names} == {name: expected[name] for name in names}
    own, other = run.state, again.state
    assert (other.turns, other.tool_calls, other.tool_errors) == (own.turns, own.tool_calls, own.tool_errors)
    stops = [[round(s.seconds, 3) for s in map(_stop, records_of(each)) if s] for each in (again, run)]
    assert sorted(stops[0]) == pytest.approx(sorted(stops[1]), abs=0.05)
    times = [record.time for record in records_of(again)]
    assert times == sorted(times)
    assert records_of(again)[0].time == pytest.approx(records_of(run)[0].time, abs=1e-3)
    assert again.state.labels["service"] == "desk"


def _stop(record: Any) -> ToolStop | None:
    return record.event if isinstance(record.event, ToolStop) and record.event.result is not None else None


GEN_AI = "gen_ai.operation.name"
T, AGENT, CHAT, LOOK = "0" * 31 + "1", "a" * 16, "b" * 16, "c" * 16


def span(name: str, parent: str, start: int, end: int, **attributes: Any) -> dict[str, Any]:
    """A span in the JSON of OTLP."""
    pairs = [{"key": key, "value": _any(value)} for key, value in attributes.items()]
    ids = {"traceId": T, "spanId": name, "parentSpanId": parent, "name": name}
    return {**ids, "startTimeUnixNano": f"{start}000000000", "endTimeUnixNano": f"{end}000000000", "attributes": pairs}


def _any(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"arrayValue": {"values": [_any(each) for each in cast("list[Any]", value)]}}
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {"kvlistValue": {"values": [{"key": name, "value": _any(each)} for name, each in members.items()]}}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def of(operation: str, **attributes: Any) -> dict[str, Any]:
    named = {f"gen_ai.{name.replace('__', '.')}": value for name, value in attributes.items()}
    return {GEN_AI: operation, **named}


SPANS = [
    span(AGENT, "", 10, 20, **of("invoke_agent", agent__name="weather", conversation__id="c1")),
    span(CHAT, "f" * 16, 11, 13, **of("chat", request__model="m", provider__name="acme", usage__input_tokens=7)),
    span("f" * 16, AGENT, 11, 14),
    span(LOOK, AGENT, 13, 17, **of("execute_tool", tool__name="look")),
    span("d" * 16, AGENT, 18, 19, **of("chat", request__model="m", usage__input_tokens=9, usage__output_tokens=2)),
]


def request(*spans: dict[str, Any], signal: str = "Spans") -> dict[str, Any]:
    service = {"attributes": [{"key": "service.name", "value": {"stringValue": "desk"}}]}
    kind = "logRecords" if signal == "Logs" else "spans"
    return {f"resource{signal}": [{"resource": service, f"scope{signal}": [{kind: [*spans]}]}]}


async def post(url: str, body: Any, kind: str = "application/json", **headers: str) -> tuple[int, bytes]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Content-Type": kind, **headers}
    async with aiohttp.ClientSession() as http, http.post(url, data=data, headers=given) as response:
        return response.status, await response.read()


async def taken(receiver: OTLPReceiver, *posts: tuple[str, Any]) -> list[tuple[Span, ...]]:
    """What a receiver gives of requests, when it is closed."""
    async with receiver:
        for path, body in posts:
            assert await post(f"{receiver.url}/v1/{path}", body) == (200, b"{}")
    return [trace async for trace in receiver]


async def test_spans_come_in_any_order_and_in_several_requests() -> None:
    orders = [SPANS, SPANS[::-1], [SPANS[2], SPANS[4], SPANS[0], SPANS[3], SPANS[1]]]
    found: list[Any] = []
    for order in orders:
        (trace,) = await taken(OTLPReceiver(port=0), *[("traces", request(each)) for each in order])
        found.append([(each.event, each.time) for each in OTLP().feed(trace)])
    assert found[0] == found[1] == found[2]
    stops = [event for event, _ in found[0] if isinstance(event, ToolStop)]
    assert [(stop.tool, stop.seconds) for stop in stops] == [("look", 4.0)]
    assert [type(event).__name__ for event, _ in found[0]].count("TurnStart") == 2


async def test_a_trace_is_whole_when_its_root_has_come_or_nothing_has_for_long() -> None:
    async with OTLPReceiver(port=0, settle=0.0, quiet=3600.0) as receiver:
        await post(f"{receiver.url}/v1/traces", request(*SPANS[1:]))
        await post(f"{receiver.url}/v1/traces", request(SPANS[0]))
        assert len(await anext(aiter(receiver))) == len(SPANS)
    async with OTLPReceiver(port=0, settle=3600.0, quiet=0.0) as receiver:
        await post(f"{receiver.url}/v1/traces", request(SPANS[1]))
        (rest,) = await anext(aiter(receiver))
        made = OTLP().feed([rest])
        assert [type(each.event).__name__ for each in made][-2:] == ["TurnStop", "RunStop"]


async def test_content_may_be_logged_beside_its_span() -> None:
    message = {"role": "assistant", "parts": [{"type": "text", "content": "Rain."}]}
    log = {
        "traceId": T,
        "spanId": "d" * 16,
        "attributes": [{"key": "gen_ai.output.messages", "value": _any([message])}],
    }
    receiver = OTLPReceiver(port=0)
    (trace,) = await taken(
        receiver, ("logs", request(log, signal="Logs")), ("traces", request(*SPANS)), ("metrics", {})
    )
    assert [each.event.text for each in OTLP().feed(trace) if isinstance(each.event, TextDelta)] == ["Rain."]


async def test_what_is_not_otlp_is_refused_with_the_reason() -> None:
    async with OTLPReceiver(port=0) as receiver:
        url = f"{receiver.url}/v1/traces"
        assert (await post(url, b"{"))[0] == 400
        status, body = await post(url, b"no", "application/x-protobuf")
        assert (status, body[2:].decode()) == (400, "this is not OTLP: DecodeError")
        assert (await post(url, b"", "text/plain"))[0] == 415
        assert (await post(url, request(), Host="evil.example"))[0] == 403
        assert (await post(f"{receiver.url}/v1/other", request()))[0] == 404
        status, body = await post(url, request({**SPANS[0], "spanId": ""}, SPANS[1]))
        assert (status, json.loads(body)["partialSuccess"]["rejectedSpans"]) == (200, "1")
        zipped = gzip.compress(json.dumps(request(SPANS[2])).encode())
        assert await post(url, zipped, **{"Content-Encoding": "gzip"}) == (200, b"{}")
    assert [len(trace) async for trace in receiver] == [2]


async def test_a_full_receiver_lets_its_programs_send_again() -> None:
    async with OTLPReceiver(port=0, settle=0.0, max_spans=1) as receiver:
        url = f"{receiver.url}/v1/traces"
        assert (await post(url, request(SPANS[0])))[0] == 200
        assert (await post(url, request(SPANS[1])))[0] == 503
        await anext(aiter(receiver))
        log = request({"traceId": T, "spanId": CHAT}, signal="Logs")
        assert (await post(f"{receiver.url}/v1/logs", log))[0] == 200
        assert (await post(url, request(SPANS[1])))[0] == 503  # what is logged is held, too


async def test_other_machines_need_a_token() -> None:
    with pytest.raises(ConfigurationError, match="give the receiver a token"):
        OTLPReceiver("0.0.0.0")
    async with OTLPReceiver(port=0, token="secret") as receiver:
        url = f"{receiver.url}/v1/traces"
        assert (await post(url, request()))[0] == 401
        assert (await post(url, request(), Authorization="Bearer secret"))[0] == 200


async def test_each_agent_of_a_trace_is_a_run_and_the_rest_is_one(log: MemoryLog) -> None:
    root = span("e" * 16, "", 1, 60)
    one = span("1" * 16, "e" * 16, 10, 20, **of("invoke_agent", agent__name="one"))
    two = span("2" * 16, "e" * 16, 30, 40, **{**of("invoke_agent", agent__name="two"), "error.type": "Boom"})
    inner = span("3" * 16, "1" * 16, 12, 18, **of("invoke_agent", agent__name="inner", usage__output_tokens=4))
    stray = span("4" * 16, "e" * 16, 50, 51, **of("chat", request__model="m"))
    (trace,) = await taken(OTLPReceiver(port=0), ("traces", request(root, one, two, inner, stray)))
    each = tap_each(reactivex.of(trace), OTLP(), log=log)
    await each.ended()
    rows = {info.run_id[-16:]: info.row for info in await log.list()}
    assert {key: row.status for key, row in rows.items()} == {
        "1" * 16: "finished",
        "2" * 16: "aborted",
        "4" * 16: "finished",
    }
    assert rows["2" * 16].reason == "Boom"
    assert rows["1" * 16].labels["agent"] == "one"


def test_spans_in_any_shape_never_raise() -> None:
    for seed in range(150):
        chance = random.Random(seed)
        ids = [f"{n}" for n in range(8)]
        kinds = ["invoke_agent", "chat", "execute_tool", "", "invoke_workflow"]
        messages = [{"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "x", "arguments": 1}]}]
        trace: list[Span] = []
        for each in ids:
            names = {**of(chance.choice(kinds)), "gen_ai.output.messages": odd(chance, messages, share=0.1)}
            error = chance.choice([None, None, "", "no"])
            times = chance.randrange(9), chance.randrange(9)
            attributes = {name: odd(chance, value, share=0.05) for name, value in names.items()}
            trace.append(Span("t", each, chance.choice([*ids, ""]), each, *times, attributes, error))
        records: dict[str, list[Record]] = {}
        for made in OTLP().feed(trace):
            own = records.setdefault(made.run, [])
            own.append(Record(len(own) + 1, made.run, 1, 1, made.time or 0.0, made.event, made.path))
        assert [lint(own) for own in records.values() if lint(own)] == [], seed
