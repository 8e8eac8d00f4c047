"""The metrics of a run, by their names, boundaries and attributes."""

from __future__ import annotations

from typing import Any

from rxworker import Worker, tool
from rxworker.events import Usage
from rxworker.testing import ScriptedModel, call, say
from tests.adapters.opentelemetry.conftest import Received, bounds
from tests.runs import records_of

USAGE = Usage(100, 20, cache_read_tokens=60)
SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
TOKENS = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864]


@tool
async def look() -> str:
    """Look."""
    return "nothing"


def model() -> ScriptedModel:
    return ScriptedModel([call("look"), say("Done.", usage=USAGE)], name="anthropic", model="m-1")


async def test_durations_tokens_and_chunks_are_histograms_with_the_boundaries_of_the_conventions(
    received: Received,
) -> None:
    run = Worker(model(), tools=[look], tracing=received.observer()).run("Look.")
    records_of(run)  # a watcher
    await run
    metrics = received.metrics()
    assert set(metrics) == {
        "gen_ai.client.operation.duration",
        "gen_ai.client.operation.time_to_first_chunk",
        "gen_ai.client.operation.time_per_output_chunk",
        "gen_ai.client.token.usage",
    }
    for name, points in metrics.items():
        assert bounds(points[0]) == (TOKENS if name.endswith("usage") else SECONDS)
    (duration,) = metrics["gen_ai.client.operation.duration"]
    assert duration.count == 2
    assert dict(duration.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "m-1",
        "gen_ai.response.model": "m-1",
    }
    used = {p.attributes["gen_ai.token.type"]: p.sum for p in metrics["gen_ai.client.token.usage"]}
    assert used == {"input": 110, "output": 25}


async def test_the_latest_version_counts_tokens_and_measures_runs_and_tools(received: Received) -> None:
    observer = received.observer(semconv="latest")
    await Worker(model(), tools=[look], tracing=observer, name="scout").run("Look.")
    metrics = received.metrics()

    def only(name: str) -> Any:
        (point,) = metrics[name]
        return point

    prefix = "gen_ai.client.inference"
    assert only(f"{prefix}.usage.input_tokens").value == 110
    assert only(f"{prefix}.usage.output_tokens").value == 25
    assert only(f"{prefix}.usage.cache_read.input_tokens").value == 60
    assert f"{prefix}.usage.reasoning.output_tokens" not in metrics
    assert only(f"{prefix}.duration").count == 2
    assert dict(only("gen_ai.invoke_agent.duration").attributes) == {"gen_ai.agent.name": "scout"}
    assert only("gen_ai.execute_tool.duration").attributes["gen_ai.tool.name"] == "look"


async def test_deltas_of_one_network_read_are_one_chunk(received: Received) -> None:
    answer = say("a long answer that comes in many deltas", chunk=1)
    await Worker(ScriptedModel([answer]), tracing=received.observer()).run("Hi")
    (chunks,) = received.metrics()["gen_ai.client.operation.time_per_output_chunk"]
    (first,) = received.metrics()["gen_ai.client.operation.time_to_first_chunk"]
    assert first.count == 1
    assert chunks.count <= 45
