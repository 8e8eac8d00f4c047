"""What OpenTelemetry's SDK has received, in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rxworker.adapters.opentelemetry import OpenTelemetry


class Received:
    """An SDK, and the spans and metrics that it has received."""

    def __init__(self) -> None:
        self.traces = TracerProvider(shutdown_on_exit=False)
        self._spans = InMemorySpanExporter()
        self.traces.add_span_processor(SimpleSpanProcessor(self._spans))
        self._metrics = InMemoryMetricReader()
        self.meters = MeterProvider([self._metrics], shutdown_on_exit=False)
        self.tracer = self.traces.get_tracer("tests")

    def observer(self, **options: Any) -> OpenTelemetry:
        """The observer, with this SDK."""
        return OpenTelemetry(tracer_provider=self.traces, meter_provider=self.meters, **options)

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        """The spans that have ended, by their names; the last of each."""
        return {span.name: span for span in self.all}

    @property
    def all(self) -> tuple[ReadableSpan, ...]:
        """The spans in the order of their ends."""
        return self._spans.get_finished_spans()

    def tree(self) -> list[str]:
        """The names of the spans in the order of their starts, each indented under its parent."""
        by_id = {span.context.span_id: span for span in self.all if span.context}

        def depth(span: ReadableSpan) -> int:
            parent = by_id.get(span.parent.span_id) if span.parent else None
            return 0 if parent is None else 1 + depth(parent)

        begun = sorted(self.all, key=lambda span: (span.start_time or 0, depth(span)))
        return [f"{'  ' * depth(span)}{span.name}" for span in begun]

    def metrics(self) -> dict[str, list[Any]]:
        """The points of each metric."""
        data = self._metrics.get_metrics_data()
        found: dict[str, list[Any]] = {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    found[metric.name] = list(metric.data.data_points)
        return found


def attributes(span: ReadableSpan) -> dict[str, Any]:
    """The attributes of a span."""
    return dict(span.attributes or {})


def events(span: ReadableSpan) -> list[tuple[str, dict[str, Any]]]:
    """The events of a span."""
    return [(event.name, dict(event.attributes or {})) for event in span.events]


def bounds(point: HistogramDataPoint) -> list[float]:
    """The boundaries of a histogram."""
    return list(point.explicit_bounds)


@pytest.fixture
def received() -> Iterator[Received]:
    """An SDK of the test's own."""
    received = Received()
    yield received
    received.traces.shutdown()
    received.meters.shutdown()
