"""Traces and metrics of runs with OpenTelemetry, by its semantic conventions for generative AI. Needs the extra ``otel``."""

from rxworker.ui.opentelemetry.names import SEMCONV, Names, Semconv, semconv_of
from rxworker.ui.opentelemetry.observer import OpenTelemetry

__all__ = [
    "OpenTelemetry",
    # the names of the conventions
    "Semconv",
    "SEMCONV",
    "Names",
    "semconv_of",
]
