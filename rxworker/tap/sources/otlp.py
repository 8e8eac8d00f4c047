"""Spans of OpenTelemetry with the semantic conventions for generative AI. Pure.

Theory of operation. A span is known when it ends, so a trace is read as a whole: each ``invoke_agent`` that is in no
other one is a run, and what is in none is one more. The starts and ends of its spans are steps, which are put in order
and given to a `RunBuilder`. Other spans between them, such as those of HTTP clients, are looked through.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import cast

from msgspec import Struct

from rxworker.messages import Content, Conversation, JsonObject, Message, Text, Thinking, ToolCall, ToolResult
from rxworker.messages.usage import Usage
from rxworker.protocols.common import latest_from
from rxworker.state.run import Cause
from rxworker.tap.builder import Mapper, RunBuilder, Tapped
from rxworker.tap.sources.values import content_of, decoded, items, member, members, stop_of, text, usage_of

AGENT, CHAT, TOOL = "invoke_agent", "chat", "execute_tool"
OPERATIONS = {
    AGENT: AGENT,
    "invoke_workflow": AGENT,
    CHAT: CHAT,
    "generate_content": CHAT,
    "text_completion": CHAT,
    TOOL: TOOL,
}
"""What the operations are of."""
_USAGE = "gen_ai.usage."


class Span(Struct, frozen=True):
    """A span that has ended.

    Attributes:
        trace: The id of its trace.
        id: Its id.
        parent: The id of its parent; empty for the root of the trace.
        name: Its name.
        start: When it began, in seconds since the epoch.
        end: When it ended.
        attributes: Its attributes.
        error: The text of its status, if that is an error.
        service: The name of the service.
    """

    trace: str
    id: str
    parent: str = ""
    name: str = ""
    start: float = 0.0
    end: float = 0.0
    attributes: Mapping[str, object] = {}
    error: str | None = None
    service: str = ""

    @property
    def kind(self) -> str:
        """What it is of: an agent, a chat or a tool; empty for anything else."""
        return OPERATIONS.get(self.get("operation.name"), "")

    def get(self, name: str) -> str:
        """The text of an attribute of ``gen_ai``."""
        return text(self.attributes.get(f"gen_ai.{name}"))

    def json(self, name: str) -> object:
        """The value of such an attribute, which may be JSON."""
        return decoded(self.attributes.get(f"gen_ai.{name}"))

    @property
    def failure(self) -> str:
        """Why it has failed; empty if it has not."""
        kind = text(self.attributes.get("error.type"))
        return kind if self.error is None else self.error or kind or "it failed"

    @property
    def usage(self) -> Usage | None:
        """The tokens, if they are known."""
        counted = [name for name in self.attributes if name.startswith(_USAGE)]
        counts = {name.removeprefix(_USAGE).replace(".", "_"): self.attributes[name] for name in counted}
        return usage_of(counts, is_exact=True)


def parts_of(span: Span) -> Iterator[object]:
    """The parts of the answer that it has recorded."""
    for message in items(span.json("output.messages")):
        yield from members(message, "parts")


def _recorded_calls(span: Span) -> Iterator[ToolCall]:
    for place, part in enumerate(parts_of(span)):
        if member(part, "type") == "tool_call":
            key = text(part, "id") or f"{span.id}-{place}"
            yield ToolCall(key, text(part, "name"), arguments_of(member(part, "arguments")))


def arguments_of(given: object) -> JsonObject | str:
    """The arguments of a call; none where they are not recorded."""
    if given is None:
        return {}
    return cast("JsonObject", given) if isinstance(given, dict | str) else json.dumps(given)


def _message(value: object) -> Message:
    """A message in the JSON of the conventions."""
    content: list[Content] = []
    for part in members(value, "parts"):
        match member(part, "type"):
            case "text":
                content.append(Text(text(part, "content")))
            case "reasoning" | "thinking":
                content.append(Thinking(text(part, "content")))
            case "tool_call":
                called = arguments_of(member(part, "arguments"))
                content.append(ToolCall(text(part, "id"), text(part, "name"), called))
            case "tool_call_response":
                result = member(part, "response") if member(part, "response") is not None else member(part, "result")
                content.append(ToolResult(text(part, "id"), content_of(result)))
            case _:
                pass
    role = text(value, "role")
    return Message("assistant" if role == "assistant" else "system" if role == "system" else "user", tuple(content))


def calls_of(spans: Sequence[Span], chats: Mapping[str, Span]) -> tuple[dict[str, list[ToolCall]], dict[str, str]]:
    """The calls of each response, with those that only a tool has reported; and the ids of the calls of the tools."""
    calls: dict[str, list[ToolCall]] = {}
    ids: dict[str, str] = {}
    made: list[ToolCall] = []
    for span in spans:
        if span.id in chats:
            made = calls[span.id] = [*_recorded_calls(span)]
            continue
        name = span.get("tool.name") or span.get("agent.name") or span.name
        free = [each.id for each in made if each.name == name and each.id not in ids.values()]
        key = ids[span.id] = span.get("tool.call.id") or (free[0] if free else span.id)
        if key not in [each.id for each in made]:
            made.append(ToolCall(key, name, arguments_of(span.json("tool.call.arguments"))))
    return calls, ids


def given_of(span: Span) -> tuple[Conversation, list[Message]]:
    """The conversation before a request that has recorded it, and its input."""
    messages = [each for one in items(span.json("input.messages")) if (each := _message(one)).content]
    system = "".join([text(part, "content") for part in items(span.json("system_instructions"))])
    at = latest_from(messages)
    return Conversation(tuple(messages[:at]), system or None), messages[at:]


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


class OTLP(Mapper[Sequence[Span]]):
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

    def feed(self, trace: Sequence[Span], /) -> list[Tapped]:
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


def _parent(span: Span, known: Mapping[str, Span]) -> str:
    """The id of the agent or the tool that a span is in; empty without one."""
    seen: set[str] = set()
    parent = known.get(span.parent)
    while parent is not None and parent.kind not in (AGENT, TOOL) and parent.id not in seen:
        seen.add(parent.id)
        parent = known.get(parent.parent)
    return "" if parent is None or parent.id in seen else parent.id
