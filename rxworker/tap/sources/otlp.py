"""Spans of OpenTelemetry with the semantic conventions for generative AI. Pure.

Theory of operation. A span is known when it ends, so a trace is read as a whole: each ``invoke_agent`` that is in no
other one is a run, and what is in none is one more. The starts and ends of its spans are steps, which are put in order
and given to a `RunBuilder`. Other spans between them, such as those of HTTP clients, are looked through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import cast

from rxworker.messages import ToolCall
from rxworker.state.run import Cause
from rxworker.tap.builder import RunBuilder, Tapped
from rxworker.tap.sources.spans import AGENT, CHAT, TOOL, Span, calls_of, given_of, parts_of
from rxworker.tap.sources.values import content_of, items, member, stop_of, text

CAUSES = {"RunCancelledError": "cancel", "CancelledError": "cancel", "asyncio.exceptions.CancelledError": "cancel"}


class _Scope:
    """A run, or a run inside it: makes the steps of its spans.

    Args:
        span: Its span.
        inside: The spans that are directly in others, by the ids of these.
        builder: Its builder, when a step is taken.
        limits: The times before and after which nothing of it happens.
    """

    def __init__(
        self,
        span: Span,
        inside: Mapping[str, Sequence[Span]],
        builder: Callable[[], RunBuilder],
        limits: tuple[float, float],
    ) -> None:
        self.steps: list[tuple[float, Callable[[], None]]] = []
        self._inside = inside
        self._builder = builder
        self._floor = limits[0]
        self._ceiling = max(limits[0], min(limits[1], span.end))  # clocks differ
        spans = sorted(inside.get(span.id, ()), key=_time)
        chats = {each.id: each for each in spans if each.kind == CHAT}
        if not chats and (span.usage is not None or span.json("output.messages")):
            spans, chats = [*spans, span], {span.id: span}  # its requests are not recorded
        calls, ids = calls_of(spans, chats)
        self._step(span.start, _begin, span, [*chats.values()])
        free = span.start
        for each in spans:
            start = self._within(max(each.start, free))
            end = self._within(max(each.end, start))
            if each.id in chats:
                self._step(start, _request, each)
                self._step(end, _answer, each, calls[each.id], each.id == [*chats][-1])
                free = end
            else:
                self._tool(each, ids[each.id], start, end)
        self._step(span.end, _end, span)

    def _step(self, time: float, act: Callable[..., None], *given: object) -> None:
        self.steps.append((self._within(time), lambda: act(self._builder(), *given)))

    def _within(self, time: float) -> float:
        return min(max(time, self._floor), self._ceiling)

    def _tool(self, span: Span, key: str, start: float, end: float) -> None:
        name = span.get("tool.name") or span.get("agent.name") or span.name
        self._step(start, RunBuilder.tool_start, key, name)
        found = self._inside.get(span.id, ()) if span.kind == TOOL else (span,)
        agents = [each for each in found if each.kind == AGENT] or ([span] if found else [])
        for agent in agents:
            self.steps += _Scope(agent, self._inside, partial(self._run_inside, key, agent), (start, end)).steps
        self._step(end, _result, span, key, end - start)

    def _run_inside(self, key: str, agent: Span) -> RunBuilder:
        return self._builder().inside(key, agent.get("agent.name"))


def _time(span: Span) -> tuple[float, float]:
    return span.start, span.end


def _begin(run: RunBuilder, span: Span, chats: Sequence[Span]) -> None:
    before, given = given_of(chats[0] if chats and chats[0].json("input.messages") else span)
    labels = {"service": span.service, "agent": span.get("agent.name"), "thread": span.get("conversation.id")}
    run.start(given or None, before=before, labels={name: each for name, each in labels.items() if each})


def _request(run: RunBuilder, span: Span) -> None:
    model = span.get("response.model") or span.get("request.model")
    run.request(model, span.get("provider.name") or span.get("system"), span.get("response.id") or None)


def _answer(run: RunBuilder, span: Span, calls: Sequence[ToolCall], is_last: bool) -> None:
    for place, part in enumerate(parts_of(span)):
        if member(part, "type") in ("text", "reasoning", "thinking", "refusal"):
            write = run.thinking if member(part, "type") in ("reasoning", "thinking") else run.text
            write(text(part, "content"), place)
            run.stop_block(place)
    for call in calls:
        run.call(call.id, call.name, call.input)
    if span.usage is not None:
        run.usage(span.usage)
    if not span.failure:
        reasons = items(span.attributes.get("gen_ai.response.finish_reasons"))
        run.respond(None if calls or not reasons else stop_of(reasons[0]))
    elif is_last:
        run.fail(span.failure, text(span.attributes.get("error.type")) or None)
    else:
        run.retract(span.failure)


def _result(run: RunBuilder, span: Span, key: str, seconds: float) -> None:
    result = span.json("tool.call.result")
    run.tool_stop(
        key, content_of(result) if result is not None else span.failure, is_error=bool(span.failure), seconds=seconds
    )


def _end(run: RunBuilder, span: Span) -> None:
    kind = text(span.attributes.get("error.type"))
    cause = text(span.attributes.get("rxworker.run.cause")) or CAUSES.get(kind, "error")
    if span.attributes.get("rxworker.run.status") == "paused":
        run.pause()
    elif span.failure:
        run.abort(span.failure, cast("Cause", cause))
    else:
        run.end()


class OTLP:
    """Reads traces with the semantic conventions for generative AI, such as those that `OTLPReceiver` receives.

    A run is an ``invoke_agent`` span with what is in it: its ``chat`` spans are its responses, with model, usage and
    errors, its ``execute_tool`` spans the calls of its tools, with their durations, and an agent in a tool is a run
    inside. Messages, arguments and results are known where the program records content; the names and ids of the calls
    are known in any case. All times are those of the spans. A trace is read when it has ended, so that its runs are
    shown then. Not reported are deltas, and attempts within a request.

    Args:
        name: The name of the program.

    Example:
        >>> chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.output_tokens": 2}
        >>> made = OTLP().feed([Span("t", "2", "1", "chat m", 1.0, 2.0, chat)])
        >>> [type(each.event).__name__ for each in made]
        ['RunStart', 'TurnStart', 'AttemptStart', 'Status', 'Usage', 'Status', 'TurnStop', 'RunStop']
    """

    def __init__(self, name: str = "") -> None:
        self._name = name

    def feed(self, trace: Sequence[Span]) -> list[Tapped]:
        """The events of a trace."""
        known = {each.id: each for each in trace}
        inside: dict[str, list[Span]] = {}
        for span in trace:
            if span.kind:
                inside.setdefault(_parent(span, known), []).append(span)
        tops = [each for each in inside.get("", ()) if each.kind == AGENT]
        if rest := sorted([each for each in inside.get("", ()) if each.kind != AGENT], key=_time):
            first, end = rest[0], max(each.end for each in rest)
            inside[f"of {first.id}"] = rest
            tops.append(Span(first.trace, f"of {first.id}", start=first.start, end=end, service=first.service))
        return [each for top in sorted(tops, key=_time) for each in self._run(top, inside)]

    def _run(self, top: Span, inside: Mapping[str, Sequence[Span]]) -> list[Tapped]:
        run = RunBuilder(self._name, f"{top.trace}-{top.id.removeprefix('of ')}")
        scope = _Scope(top, inside, lambda: run, (top.start, max(top.start, top.end)))
        for time, act in sorted(scope.steps, key=itemgetter(0)):
            run.time = time
            act()
        return run.take()

    def finish(self, error: Exception | None = None) -> list[Tapped]:  # noqa: ARG002 - as a mapper has it
        """Nothing: a trace is whole."""
        return []


def _parent(span: Span, known: Mapping[str, Span]) -> str:
    """The id of the agent or the tool that a span is in; empty without one."""
    seen: set[str] = set()
    parent = known.get(span.parent)
    while parent is not None and parent.kind not in (AGENT, TOOL) and parent.id not in seen:
        seen.add(parent.id)
        parent = known.get(parent.parent)
    return "" if parent is None or parent.id in seen else parent.id
