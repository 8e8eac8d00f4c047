"""Traces and metrics through OpenTelemetry's exporter to a collector over HTTP."""

from __future__ import annotations

import asyncio
import gzip

from aiohttp import web
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from rxworker import Worker, tool
from rxworker.adapters.opentelemetry import OpenTelemetry
from rxworker.testing import ScriptedModel, call


async def test_a_run_reaches_a_collector_over_otlp() -> None:
    traces, metrics = ExportTraceServiceRequest(), ExportMetricsServiceRequest()

    async def body(request: web.Request) -> bytes:
        data = await request.read()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data

    async def take_traces(request: web.Request) -> web.Response:
        traces.MergeFromString(await body(request))
        return web.Response(content_type="application/x-protobuf")

    async def take_metrics(request: web.Request) -> web.Response:
        metrics.MergeFromString(await body(request))
        return web.Response(content_type="application/x-protobuf")

    app = web.Application()
    app.router.add_post("/v1/traces", take_traces)
    app.router.add_post("/v1/metrics", take_metrics)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    address = f"http://{host}:{port}"

    @tool
    async def look() -> str:
        """Look."""
        return "nothing"

    resource = Resource.create({"service.name": "desk"})
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{address}/v1/traces")))
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{address}/v1/metrics"))
    meters = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
    observer = OpenTelemetry(tracer_provider=tracers, meter_provider=meters)
    try:
        await Worker(ScriptedModel([call("look"), "Done."]), tools=[look], tracing=observer).run("Look.")
        await asyncio.to_thread(tracers.force_flush)
        await asyncio.to_thread(meters.force_flush)
    finally:
        await asyncio.to_thread(tracers.shutdown)
        await asyncio.to_thread(meters.shutdown)
        await runner.cleanup()
    (resource_spans,) = traces.resource_spans
    (scope,) = resource_spans.scope_spans
    assert scope.scope.name == "rxworker"
    assert scope.schema_url == "https://opentelemetry.io/schemas/1.41.0"
    names = [span.name for span in scope.spans]
    assert names == ["chat scripted", "execute_tool look", "chat scripted", "invoke_agent"]
    root = scope.spans[-1]
    assert {span.parent_span_id for span in scope.spans[:-1]} == {root.span_id}
    assert all(root.start_time_unix_nano <= span.start_time_unix_nano for span in scope.spans)
    told = {metric.name for metric in metrics.resource_metrics[0].scope_metrics[0].metrics}
    assert "gen_ai.client.operation.duration" in told
