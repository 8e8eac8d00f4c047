"""The metrics of the semantic conventions, made from what the spans know when they end."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.context import Context
from opentelemetry.metrics import Counter, Histogram, Meter
from opentelemetry.util.types import AttributeValue

from rxworker.adapters.opentelemetry.names import SECONDS, TOKENS, Names
from rxworker.messages.usage import Usage

Attributes = dict[str, AttributeValue]


class Instruments:
    """The instruments of one meter; those that the version of the conventions does not have are left out.

    Args:
        meter: Makes them.
        names: Their names.
    """

    def __init__(self, meter: Meter, names: Names) -> None:
        def histogram(name: str, text: str) -> Histogram | None:
            return _histogram(meter, name, "s", text, SECONDS)

        self._names = names
        self._duration = histogram(names.duration, "Duration of a request to a model")
        self._first_chunk = histogram(names.first_chunk, "Time until the first chunk of a response")
        self.per_chunk = histogram(names.per_chunk, "Time between two chunks of a response")
        self._agent = histogram(names.agent_duration, "Duration of a run")
        self._tool = histogram(names.tool_duration, "Duration of a tool call")
        tokens = "Tokens of a request to a model"
        self._tokens = _histogram(meter, names.token_usage, "{token}", tokens, TOKENS)
        counted = (
            names.input_counter,
            names.output_counter,
            names.cache_read_counter,
            names.cache_creation_counter,
            names.reasoning_counter,
        )
        self._counters: list[Counter | None] = [
            meter.create_counter(name, "{token}", tokens) if name else None for name in counted
        ]

    def first_chunk(self, seconds: float, attributes: Attributes, context: Context) -> None:
        """Record how long the first chunk of a response took."""
        if self._first_chunk is not None:
            self._first_chunk.record(seconds, attributes, context)

    def chat(
        self,
        seconds: float,
        usage: Usage | None,
        attributes: Attributes,
        error_type: str,
        context: Context,
    ) -> None:
        """Record a request that has ended, and its tokens."""
        if usage is None:
            pass
        elif self._tokens is not None:
            for kind, count in (("input", usage.input_tokens), ("output", usage.output_tokens)):
                if count is not None:
                    of_kind = {**attributes, self._names.token_type: kind}
                    self._tokens.record(count, of_kind, context)
        else:
            self._count(usage, {**attributes, self._names.token_modality: "unknown"}, context)
        if self._duration is not None:
            if error_type:
                attributes = {**attributes, self._names.error_type: error_type}
            self._duration.record(seconds, attributes, context)

    def _count(self, usage: Usage, attributes: Attributes, context: Context) -> None:
        counts = (
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_creation_tokens,
            usage.reasoning_tokens,
        )
        for counter, count in zip(self._counters, counts, strict=True):
            if counter is not None and count is not None:
                counter.add(count, attributes, context)

    def run(self, seconds: float, attributes: Attributes, context: Context) -> None:
        """Record a run that has ended."""
        if self._agent is not None:
            self._agent.record(seconds, attributes, context)

    def tool(self, seconds: float, attributes: Attributes, context: Context) -> None:
        """Record a tool call that has ended."""
        if self._tool is not None:
            self._tool.record(seconds, attributes, context)


def _histogram(
    meter: Meter, name: str, unit: str, text: str, bounds: Sequence[float]
) -> Histogram | None:
    if not name:
        return None
    return meter.create_histogram(name, unit, text, explicit_bucket_boundaries_advisory=bounds)
