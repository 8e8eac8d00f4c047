"""Whatever happens in a run: its spans form one tree, and each of them ends once, within its parent or with it."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.trace import get_current_span

from rxworker import Limits, Worker, before_tool_call, tool, worker_tool
from rxworker.adapters.opentelemetry import OpenTelemetry
from rxworker.errors import RxWorkerError
from rxworker.hooks import Abort, Pause, Skip, ToolCallContext
from rxworker.testing import Reply, ScriptedModel, call, cut, fail, say
from rxworker.tools import Tool
from rxworker.transport import Retry


class Ledger(SpanProcessor):
    """The spans that have started, and how often each has ended."""

    def __init__(self) -> None:
        self.started: list[Span] = []
        self.ended: list[ReadableSpan] = []

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.started.append(span)

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span)


@tool(effect="pure")
async def look(n: int) -> str:
    """Look; starts early."""
    await asyncio.sleep(0)
    return str(n)


@tool
def compute(n: int) -> str:
    """Compute in a thread, or fail."""
    if n % 3 == 0:
        raise ValueError("no")
    return get_current_span().get_span_context().trace_id.to_bytes(16).hex()


def reply(chance: random.Random, depth: int = 0) -> Reply:
    """Any reply."""
    made = say("Let me see." if chance.random() < 0.5 else "")
    for _ in range(chance.randrange(4)):
        names = ["look", "compute", "gone", *(["scout"] if depth == 0 else [])]
        name = chance.choice(names)
        made += call(name, task="Go.") if name == "scout" else call(name, n=chance.randrange(6))
    ending = chance.random()
    if ending < 0.15:
        return made + cut()
    return made + fail("busy", "overloaded") if ending < 0.3 else made


def worker(chance: random.Random, depth: int = 0) -> Worker:
    """A worker that does anything."""

    def answer(_: object) -> Reply:
        return reply(chance, depth)

    def inner() -> Worker:
        return worker(chance, 1)

    @before_tool_call
    def decide(context: ToolCallContext) -> Skip | Pause | Abort | None:
        drawn = chance.random()
        if drawn < 0.1:
            return Skip("no")
        return Pause("ask") if drawn < 0.15 else Abort("stop") if drawn < 0.18 else None

    tools: list[Tool] = [look, compute]
    if depth == 0:
        tools.append(worker_tool(inner, name="scout", description="Look around."))
    hooks = [decide] if chance.random() < 0.5 else []
    limits = Limits(max_turns=4)
    return Worker(
        ScriptedModel(answer), tools=tools, hooks=hooks, limits=limits, response_retry=Retry(retries=1, first=0.0)
    )


@pytest.mark.parametrize("seed", range(24))
async def test_every_span_ends_once_and_all_are_one_tree(seed: int) -> None:
    chance = random.Random(seed)
    ledger, provider = Ledger(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(ledger)
    traced = worker(chance)
    traced.tracing = OpenTelemetry(tracer_provider=provider, content=seed % 2 == 0)
    run = traced.run("Go.")
    if chance.random() < 0.2:
        asyncio.get_running_loop().call_later(0.0, run.cancel)
    with contextlib.suppress(RxWorkerError):
        await run
    assert not get_current_span().get_span_context().is_valid
    assert len(ledger.ended) == len(ledger.started)
    by_id = {span.context.span_id: span for span in ledger.ended if span.context}
    assert len(by_id) == len(ledger.ended)
    (root,) = [span for span in ledger.ended if span.parent is None]
    assert root is ledger.ended[-1]
    for span in ledger.ended:
        assert (span.start_time or 0) <= (span.end_time or 0)
        if span.parent is not None:
            parent = by_id[span.parent.span_id]
            assert (parent.start_time or 0) <= (span.start_time or 0)
            assert (span.end_time or 0) <= (parent.end_time or 0)
        operation = span.name.partition(" ")[0]
        assert dict(span.attributes or {})["gen_ai.operation.name"] == operation
