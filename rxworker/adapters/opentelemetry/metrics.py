"""The metrics of the semantic conventions, made from what the spans know when they end."""

from __future__ import annotations

from opentelemetry.context import Context
from opentelemetry.metrics import Counter, Histogram, Meter, NoOpCounter, NoOpHistogram
from opentelemetry.util.types import AttributeValue

from rxworker.adapters.opentelemetry.names import SECONDS, TOKENS, Names, counts_of
from rxworker.messages.usage import Usage

Attributes = dict[str, AttributeValue]


class Instruments:
    """The instruments of one meter; those that the version of the conventions does not have record nothing.

    Args:
        meter: Makes them.
        names: Their names.

    Attributes:
        first_chunk: Seconds until the first chunk of a response.
        per_chunk: Seconds between two chunks of a response.
        agent: Seconds of a run.
        tool: Seconds of a tool call.
    """

    def __init__(self, meter: Meter, names: Names) -> None:
        def histogram(name: str, text: str, unit: str = "s", bounds: tuple[float, ...] = SECONDS) -> Histogram:
            if not name:
                return NoOpHistogram(name)
            return meter.create_histogram(name, unit, text, explicit_bucket_boundaries_advisory=bounds)

        def counter(name: str) -> Counter:
            return meter.create_counter(name, "{token}", tokens) if name else NoOpCounter(name)

        tokens = "Tokens of a request to a model"
        self.first_chunk = histogram(names.first_chunk, "Time until the first chunk of a response")
        self.per_chunk = histogram(names.per_chunk, "Time between two chunks of a response")
        self.agent = histogram(names.agent_duration, "Duration of a run")
        self.tool = histogram(names.tool_duration, "Duration of a tool call")
        self._names = names
        self._duration = histogram(names.duration, "Duration of a request to a model")
        self._tokens = histogram(names.token_usage, tokens, "{token}", TOKENS)
        self._counters = [counter(name) for name in names.counters]

    def chat(
        self,
        seconds: float,
        usage: Usage | None,
        attributes: Attributes,
        error_type: str,
        context: Context,
    ) -> None:
        """Record a request that has ended, and its tokens."""
        counts = () if usage is None else counts_of(usage)
        for kind, count in zip(("input", "output"), counts, strict=False):
            if count is not None:
                self._tokens.record(count, {**attributes, self._names.token_type: kind}, context)
        for counter, count in zip(self._counters, counts, strict=False):
            if count is not None:
                counter.add(count, {**attributes, self._names.token_modality: "unknown"}, context)
        if error_type:
            attributes = {**attributes, self._names.error_type: error_type}
        self._duration.record(seconds, attributes, context)
