"""The observer that makes traces and metrics of runs."""

from __future__ import annotations

from functools import partial
from typing import cast

from rxworker import __version__
from rxworker.adapters.opentelemetry.names import SEMCONV, Recorder, Redact, Semconv, semconv_of
from rxworker.errors import ConfigurationError
from rxworker.messages.settings import check_plain
from rxworker.run.run import Run

try:
    from opentelemetry import context as contexts
    from opentelemetry import metrics, trace
    from opentelemetry.trace import Link
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise ImportError(
        f"traces need the package opentelemetry-api ({error}): pip install '/path/to/the/checkout[otel]'",
        name="opentelemetry",
    ) from error

from rxworker.adapters.opentelemetry.spans import Instruments, RunSpans

PROPAGATOR = TraceContextTextMapPropagator()


class OpenTelemetry:
    """Make a span of each run, of each request to a model and of each tool call, and record metrics of them.

    It is the ``tracing=`` of a `rxworker.Worker`, of `rxworker.worker.submit` and of a `rxworker.worker.QueuedWorker`;
    the ``on_run=`` of the web server and of `rxworker.worker.work`; or it is called with one run. A run that is given
    several times is traced once. Without an SDK that is set up, it does nothing, at the cost of some microseconds a
    run.

    Args:
        content: Whether messages, arguments and results are recorded. They may be large, and private.
        redact: Applied to each text of the content before it is recorded. The values of environment variables with
            names of secrets are always hidden.
        semconv: The version of the semantic conventions: ``1.37``, ``1.41`` or ``latest``. By default ``latest`` if the
            environment variable ``OTEL_SEMCONV_STABILITY_OPT_IN`` contains ``gen_ai_latest_experimental``, else
            ``1.41``.
        tracer_provider: Makes the tracer; by default the global one.
        meter_provider: Makes the meter; by default the global one.

    Raises:
        ConfigurationError: There is no such version, or ``redact`` is not callable.

    Example:
        >>> from rxworker import Worker
        >>> from rxworker.testing import ScriptedModel
        >>> worker = Worker(ScriptedModel(["Hello!"]), tracing=OpenTelemetry())
        >>> worker.run_sync("Hi").text
        'Hello!'
    """

    def __init__(
        self,
        *,
        content: bool = False,
        redact: Redact | None = None,
        semconv: Semconv | None = None,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
    ) -> None:
        if redact is not None and not callable(cast("object", redact)):
            raise ConfigurationError(f"redact={redact!r}: give a function from a text to a text")
        check_plain("OpenTelemetry(redact)", redact)
        self._names = names = SEMCONV[semconv_of(semconv)]
        url = names.schema_url or None
        self._tracer = trace.get_tracer("rxworker", __version__, tracer_provider, url)
        self._instruments = Instruments(metrics.get_meter("rxworker", __version__, meter_provider, url), names)
        self._recorder = Recorder(redact) if content else None
        self._open: set[str] = set()  # the runs that are observed

    def traceparent(self) -> str:
        """The current trace context, as the header ``traceparent`` of W3C Trace Context; empty without one."""
        carrier: dict[str, str] = {}
        PROPAGATOR.inject(carrier)
        return carrier.get("traceparent", "")

    def __call__(self, run: Run[object]) -> None:
        """Trace a run. A run within a run that is traced is part of that trace already.

        The parent of its span is the current span. A run that was recovered, or taken from the queue, continues the
        trace in which it was begun, and is linked to the current span.
        """
        observed = self._open
        if observed and (run.id in observed or not observed.isdisjoint(run.parents)):
            return
        current = trace.get_current_span().get_span_context()
        is_recovered = run.first_seq > 1
        parent, links = contexts.get_current(), list[Link]()
        if (is_recovered or not current.is_valid) and (begun := run.state.traceparent):
            parent = PROPAGATOR.extract({"traceparent": begun}, contexts.Context())
            if current.is_valid:
                links.append(Link(current))
        observed.add(run.id)
        ended = partial(observed.discard, run.id)
        RunSpans(run, self._tracer, self._names, self._instruments, self._recorder, parent, links, ended).begin(run)
