"""Traces and metrics of runs with OpenTelemetry, by its semantic conventions for generative AI.

Needs the extra ``otel``.
"""

from rxworker.adapters.opentelemetry.names import SEMCONV, Semconv
from rxworker.adapters.opentelemetry.observer import OpenTelemetry

__all__ = [
    "OpenTelemetry",
    # the names of the conventions
    "Semconv",
    "SEMCONV",
]
