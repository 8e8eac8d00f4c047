"""The spans of one run: a fold of its records.

Theory of operation. A scope is a run: the observed one, or one inside it, by the path of its records. It has a span
``invoke_agent``, at most one open span ``chat``, which covers a request with its retries, and the open spans
``execute_tool``. Parents are explicit, and times are those of the records, so that nothing depends on when or where the
observer is called, but for one thing: at the start of a request and of a tool the observer is called in the context of
its task, or in a copy that the request alone has. There it makes the span the current one, so that the spans of an HTTP
client and of the tool's own code have the right parent. That context ends with the request or the tool, so that nothing
is to be detached.

A run ends with the stream of its records: only then is the exception known. What is open then is ended with the time of
the last record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass
from typing import Any

from msgspec import Struct, field
from opentelemetry import context as contexts
from opentelemetry.context import Context
from opentelemetry.metrics import Counter, Histogram, Meter, NoOpCounter, NoOpHistogram
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace import Status as SpanStatus
from opentelemetry.util.types import AttributeValue
from reactivex import abc

from rxworker import events
from rxworker.adapters.opentelemetry.names import PROVIDERS, SECONDS, TOKENS, Names, Recorder, counts_of
from rxworker.errors import ProviderError, RunCancelledError, RunHandedOverError, reason_of
from rxworker.events.kinds import BLOCK_TYPE_OF, Deltas
from rxworker.log.values import CONVERSATION
from rxworker.messages import Conversation, Message, StopReason
from rxworker.messages.content import ResultContent
from rxworker.messages.lenient_json import whole
from rxworker.messages.usage import Usage
from rxworker.operators.kernel import connect
from rxworker.redact import redact
from rxworker.run.run import Run
from rxworker.state import RunState, fold_run
from rxworker.state.inner import RequestTokens, step_request
from rxworker.worker import session_of

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
        self, seconds: float, usage: Usage | None, attributes: Attributes, error_type: str, context: Context
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


TOOL_ERROR = "tool_error"
"""The ``error.type`` of a tool call whose result is an error."""
CAUSES = {"cancel": "RunCancelledError", "limit": "LimitExceededError", "abort": "RunAbortedError", "error": "_OTHER"}
"""The ``error.type`` of a run inside a run, by the cause of its end."""


class _Failure(Struct, frozen=True):
    """Why something ended without a result.

    Attributes:
        type: The ``error.type``.
        text: The description of the status of the span.
        is_error: Whether the status of the span is an error; not where it was cancelled or handed over.
    """

    type: str
    text: str
    is_error: bool = True


class _Chat(Struct):
    """A request that is open.

    Attributes:
        attributes: The attributes of its metrics.
        began: When the first attempt was requested.
        requested: When this attempt was requested.
        last: When its last chunk came.
        first: When its first chunk came.
        tokens: The tokens of this attempt.
        before: Those of the attempts before it.
    """

    span: Span
    context: contexts.Context
    attributes: Attributes
    began: float
    requested: float
    last: float
    first: float | None = None
    attempts: int = 1
    response: str | None = None
    model: str | None = None
    stop: StopReason | None = None
    tokens: RequestTokens | None = None
    before: events.Usage | None = None
    error: _Failure | None = None

    @property
    def spent(self) -> events.Usage | None:
        """The tokens of all its attempts: each of them was paid."""
        usage = None if self.tokens is None else self.tokens.tokens
        return usage if self.before is None else self.before + (usage or events.Usage())


class _Tool(Struct):
    """A tool call that is open.

    Attributes:
        stopped: Set while it waits for its hooks: since when, and whether it failed.
    """

    span: Span
    context: contexts.Context
    began: float
    name: str
    stopped: tuple[float, bool] | None = None


class _Scope(Struct):
    """A run that is open.

    Attributes:
        metric: The attributes of its metrics.
        state: Its state, folded only where content is recorded.
        requested: The provider and the model of the last request.
    """

    span: Span
    context: contexts.Context
    began: float
    metric: Attributes
    state: RunState
    status: str = "running"
    abort: events.RunAbort | None = None
    requested: tuple[str, str] = ("", "")
    usage: events.Usage | None = None
    chat: _Chat | None = None
    tools: dict[tuple[int, str], _Tool] = field(default_factory=dict[tuple[int, str], _Tool])


@dataclass(eq=False)
class RunSpans(abc.ObserverBase[events.Record]):
    """The observer of one run.

    Args:
        run: The run.
        tracer: Makes the spans.
        names: The names of attributes.
        instruments: The metrics.
        recorder: Writes the content, where that is recorded.
        parent: The context of the parent of the run's span.
        links: The links of the run's span.
        ended: Called when the run has ended.
    """

    run: InitVar[Run[object]]
    tracer: Tracer
    names: Names
    instruments: Instruments
    recorder: Recorder | None
    parent: contexts.Context
    links: Sequence[Link]
    ended: Callable[[], object]

    def __post_init__(self, run: Run[object]) -> None:
        self._id = run.id
        session = session_of(run)
        self._worker, self._name = session.worker, session.name
        conversation = session.run_labels.get(CONVERSATION)
        self._common: Attributes = {self.names.conversation: conversation} if conversation else {}
        self._is_live = False
        self._has_tracer = True
        self._last = 0.0
        self._scopes: dict[tuple[str, ...], _Scope] = {}
        self._seed = run.state if self.recorder is not None and run.first_seq > 1 else RunState()

    def begin(self, run: Run[object]) -> None:
        """Take the records so far, and from then on each record within the task that emits it."""
        connect(run.entries(run.first_seq - 1, name="opentelemetry"), self)
        self._is_live = self._has_tracer

    def on_next(self, value: events.Record) -> None:
        """Take a record, or one for deltas that arrived together."""
        record = value
        self._last = time = record.time
        event: Any = record.event
        kind: type[object] = event.__class__
        handler = _HANDLERS.get(kind)
        scope = self._scopes.get(record.path)
        if scope is None:
            if kind in _BEGINNINGS:
                self._begin_scope(record, event)
            return
        if self.recorder is not None:
            scope.state = fold_run((record,), scope.state)
        if kind in _DELTAS and (chat := scope.chat) is not None and chat.last != time:
            self._chunk(chat, time)
        if handler is not None:
            handler(self, scope, record, event)

    def on_error(self, error: Exception) -> None:
        """The run ended without a result."""
        is_error = not isinstance(error, RunCancelledError | RunHandedOverError)
        self._finish(_Failure(_type_of(error), reason_of(error), is_error))

    def on_completed(self) -> None:
        """The run has ended."""
        self._finish(None)

    def _finish(self, failure: _Failure | None) -> None:
        """End what is open, the innermost first."""
        self.ended()
        for path in sorted(self._scopes, key=len, reverse=True):
            self._end_scope(path, self._scopes[path], failure)

    # Runs

    def _begin_scope(
        self, record: events.Record, event: events.RunStart | events.RunResume | events.RunRecover
    ) -> None:
        path, names = record.path, self.names
        attributes: Attributes = {names.operation: "invoke_agent", **self._common}
        if path:
            outer = self._scopes.get(path[:-1])
            if outer is None:
                return
            call = next((tool for key, tool in outer.tools.items() if key[1] == path[-1]), None)
            name, parent, links = "", outer.context, ()
            if call is not None:
                name, parent = call.name, call.context
        else:
            name, parent, links = self._name, self.parent, self.links
            model = self._worker.model
            attributes[names.provider] = PROVIDERS.get(model.name, model.name)
            attributes[names.request_model] = model.model
            attributes[names.run] = self._id
        resumes = event.resumes if isinstance(event, events.RunResume) else ""
        attributes |= _known({names.agent_name: name or None, names.resumes: resumes or None})
        span = self.tracer.start_span(
            f"invoke_agent {name}" if name else "invoke_agent",
            parent,
            SpanKind.INTERNAL,
            attributes,
            links,
            _ns(record.time),
        )
        if not path:
            self._has_tracer = span.get_span_context().is_valid  # else no SDK is set up
        metric: Attributes = {names.agent_name: name} if name else {}
        state = RunState(path=path) if path else self._seed
        scope = self._scopes[path] = _Scope(span, set_span_in_context(span), record.time, metric, state)
        if self.recorder is not None:
            scope.state = fold_run((record,), state)
            if not isinstance(event, events.RunRecover):
                added = event.added if isinstance(event, events.RunStart) else 0
                self._record_input(span, scope.state.conversation, added)
        if isinstance(event, events.RunRecover):
            _noted(self, scope, record, event)

    def _end_scope(self, path: tuple[str, ...], scope: _Scope, failure: _Failure | None) -> None:
        del self._scopes[path]
        names, span, time = self.names, scope.span, self._last
        self._end_tools(scope, time)
        if scope.chat is not None:
            self._end_chat(scope, scope.chat, time, failure or scope.chat.error)
        if failure is not None:
            by_itself = "failed" if failure.is_error else "handed_over"
            scope.status = by_itself if scope.abort is None else "aborted"
        if span.is_recording():
            cause = None if scope.abort is None else scope.abort.cause
            span.set_attributes({names.status: scope.status, **_known({names.cause: cause})})
            last = scope.state.conversation.last if scope.status == "finished" else None
            self._record_end(span, scope.usage, failure, last, scope.state.stop_reason)
        metric = scope.metric
        if failure is not None:
            metric = {**metric, names.error_type: failure.type}
        self.instruments.agent.record(max(time - scope.began, 0.0), metric, scope.context)
        span.end(_ns(time))

    def _record_input(self, span: Span, conversation: Conversation, last: int | None = None) -> None:
        """Record the system prompt and the last messages of a conversation, or all."""
        recorder, names = self.recorder, self.names
        if recorder is None or not span.is_recording():
            return
        if conversation.system:
            span.set_attribute(names.system_instructions, recorder.system(conversation.system))
        span.set_attribute(names.input_messages, recorder.input(conversation, last))

    # Requests

    def _begin_chat(self, scope: _Scope, record: events.Record, provider: str, model: str) -> _Chat:
        names = self.names
        provider = PROVIDERS.get(provider, provider)
        metric = _known({names.operation: "chat", names.provider: provider, names.request_model: model or None})
        attributes: Attributes = {**metric, names.turn: record.turn, **self._common, **_known({names.stream: True})}
        name = f"chat {model}" if model else "chat"
        span, context = self._start(scope, record, name, attributes, SpanKind.CLIENT)
        time = record.time
        chat = scope.chat = _Chat(span, context, metric, began=time, requested=time, last=time)
        if record.path:  # the models of a run inside are known from its requests alone
            scope.span.set_attributes(metric | {names.operation: "invoke_agent"})
        self._record_input(span, scope.state.conversation)
        return chat

    def _chunk(self, chat: _Chat, time: float) -> None:
        """The start of a response, and the deltas of one network read, are a chunk each."""
        if chat.first is None:
            chat.first = time
            seconds = max(time - chat.requested, 0.0)
            self.instruments.first_chunk.record(seconds, chat.attributes, chat.context)
        else:
            seconds = max(time - chat.last, 0.0)
            self.instruments.per_chunk.record(seconds, chat.attributes, chat.context)
        chat.last = time

    def _end_chat(self, scope: _Scope, chat: _Chat, time: float, failure: _Failure | None) -> None:
        scope.chat = None
        names, span = self.names, chat.span
        if chat.model:
            chat.attributes = {**chat.attributes, names.response_model: chat.model}
        if span.is_recording():
            if (spent := chat.spent) is not None:
                scope.usage = spent if scope.usage is None else scope.usage + spent
            stop, reasons = chat.stop, None if failure is None else ["error"]
            known: dict[str, AttributeValue | None] = {
                names.response_id: _safe(chat.response) if chat.response else None,
                names.response_model: chat.model or None,
                names.finish_reasons: reasons if stop is None else [_safe(stop.raw or stop.kind.value)],
                names.first_chunk_of_response: None if chat.first is None else max(chat.first - chat.requested, 0.0),
                "rxworker.attempts": chat.attempts if chat.attempts > 1 else None,
            }
            span.set_attributes(_known(known))
            last = scope.state.conversation.last if failure is None else None
            is_answer = last is not None and last.role == "assistant"
            self._record_end(span, chat.spent, failure, last if is_answer else None, stop)
        error_type = "" if failure is None else failure.type
        self.instruments.chat(max(time - chat.began, 0.0), chat.spent, chat.attributes, error_type, chat.context)
        span.end(_ns(time))

    # Tools

    def _end_tool(self, tool: _Tool, time: float, is_error: bool, content: ResultContent | None) -> None:
        names, span = self.names, tool.span
        metric: Attributes = {names.operation: "execute_tool", names.tool_name: tool.name}
        if is_error:
            metric[names.error_type] = TOOL_ERROR
            span.set_attribute(names.error_type, TOOL_ERROR)
            span.set_status(_ERROR)
        if (recorder := self.recorder) is not None and content is not None and names.tool_result:
            span.set_attribute(names.tool_result, recorder.result(content))
        self.instruments.tool.record(max(time - tool.began, 0.0), metric, tool.context)
        span.end(_ns(time))

    # Spans

    def _start(
        self,
        scope: _Scope,
        record: events.Record,
        name: str,
        attributes: Attributes,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> tuple[Span, contexts.Context]:
        """A span in a run, and the context in which it is current."""
        if not self._has_tracer:
            return scope.span, scope.context
        span = self.tracer.start_span(name, scope.context, kind, attributes, start_time=_ns(record.time))
        return span, set_span_in_context(span)

    def _end_tools(self, scope: _Scope, time: float) -> None:
        """End the tools whose results the hooks have left as they were, and those that still run."""
        for tool in scope.tools.values():
            since, is_error = tool.stopped or (time, True)
            self._end_tool(tool, since, is_error, None)
        scope.tools.clear()

    def _note(self, span: Span, record: events.Record, name: str, about: Attributes) -> None:
        if span.is_recording():
            span.add_event(name, about, _ns(record.time))

    def _record_end(
        self,
        span: Span,
        usage: events.Usage | None,
        failure: _Failure | None,
        last: Message | None,
        stop: StopReason | None,
    ) -> None:
        """Record the tokens of a run or a request, and its failure or its last message."""
        counts = () if usage is None else counts_of(usage)
        ended = _known(dict(zip(self.names.usage, counts, strict=False)))
        if failure is not None:
            ended[self.names.error_type] = failure.type
            if failure.is_error:
                span.set_status(SpanStatus(StatusCode.ERROR, _shown(failure.text)))
        if self.recorder is not None and last is not None:
            ended[self.names.output_messages] = self.recorder.output(last, stop)
        span.set_attributes(ended)


# What the events of a run change.


def _began_again(spans: RunSpans, scope: _Scope, record: events.Record, event: events.RunStart) -> None:
    """A tool that is run again begins another run."""
    spans._end_scope(record.path, scope, None)
    spans._begin_scope(record, event)


def _stopped(spans: RunSpans, scope: _Scope, record: events.Record, _: events.RunStop) -> None:
    scope.status = "finished"
    if record.path:
        spans._end_scope(record.path, scope, None)


def _paused(spans: RunSpans, scope: _Scope, record: events.Record, event: events.RunPause) -> None:
    scope.status = "paused"
    about: Attributes = {"hook": event.pause.hook, "pending": len(event.pause.tree)}
    spans._note(scope.span, record, "rxworker.run.pause", about)
    if record.path:
        spans._end_scope(record.path, scope, None)


def _aborted(spans: RunSpans, scope: _Scope, record: events.Record, event: events.RunAbort) -> None:
    scope.abort = event
    if record.path:  # the exception is known only of the observed run
        known = scope.chat.error if scope.chat is not None else None
        kind = known.type if known and event.cause == "error" else CAUSES[event.cause]
        spans._end_scope(record.path, scope, _Failure(kind, event.reason, event.cause != "cancel"))


def _requested(spans: RunSpans, scope: _Scope, record: events.Record, event: events.AttemptStart) -> None:
    chat = scope.chat
    scope.requested = event.provider, event.model
    if chat is None:
        chat = spans._begin_chat(scope, record, *scope.requested)
    else:
        chat.attempts += 1
        chat.before, chat.tokens = chat.spent, None
        chat.requested = chat.last = record.time
        chat.first = chat.error = None
    if spans._is_live:
        contexts.attach(chat.context)


def _used(_spans: RunSpans, scope: _Scope, record: events.Record, _: events.Usage) -> None:
    if scope.chat is not None:
        scope.chat.tokens = step_request(scope.chat.tokens, record)


def _status(spans: RunSpans, scope: _Scope, record: events.Record, event: events.Status) -> None:
    chat = scope.chat
    if event.status is _STARTED:
        if chat is None:  # the response begins again although it was complete
            chat = spans._begin_chat(scope, record, *scope.requested)
        chat.tokens = step_request(chat.tokens, record)
        if chat.first is None:
            spans._chunk(chat, record.time)
        chat.response = event.response_id
        chat.model = None if event.model is None else _safe(event.model)
    elif event.status is _COMPLETED and chat is not None:
        chat.stop = event.stop_reason
        spans._end_chat(scope, chat, record.time, None)


def _failed(_spans: RunSpans, scope: _Scope, _: events.Record, event: events.Error) -> None:
    if scope.chat is not None:
        kind = event.kind if event.kind != "unknown" else _safe(event.code or "_OTHER")
        scope.chat.error = _Failure(kind, event.message)


def _retracted(spans: RunSpans, scope: _Scope, record: events.Record, event: events.AttemptRetract) -> None:
    chat = scope.chat
    about: Attributes = {"delay": event.delay, "attempt": record.attempt}
    if chat is not None and chat.error is not None:
        about[spans.names.error_type] = chat.error.type
    about["reason"] = _shown(event.reason)
    span = scope.span if chat is None else chat.span
    spans._note(span, record, "rxworker.attempt.retract", about)


def _tool_started(spans: RunSpans, scope: _Scope, record: events.Record, event: events.ToolStart) -> None:
    names, call = spans.names, event.call
    name = _safe(call.name)  # a model may call a tool by any name
    attributes: Attributes = {
        names.operation: "execute_tool",
        names.tool_name: name,
        names.tool_call_id: _safe(call.id),
        names.tool_type: "function",
    }
    known = None if record.path else spans._worker.tools.get(call.name)
    if known is not None:
        attributes[names.tool_description] = known.meta.description
    span, context = spans._start(scope, record, f"execute_tool {name}", attributes)
    if spans.recorder is not None and names.tool_arguments and span.is_recording():
        span.set_attribute(names.tool_arguments, spans.recorder.arguments(call.input))
    tool = scope.tools[event.place, call.id] = _Tool(span, context, record.time, name)
    if spans._is_live:
        contexts.attach(tool.context)


def _tool_stopped(spans: RunSpans, scope: _Scope, record: events.Record, event: events.ToolStop) -> None:
    tool = scope.tools.get((event.place, event.call_id))
    if tool is None:
        return  # it has not run: a hook or a person refused it
    if event.result is None and spans.recorder is not None:
        tool.stopped = record.time, event.is_error  # the hooks may change the result
        return
    del scope.tools[event.place, event.call_id]
    spans._end_tool(tool, record.time, event.is_error, None if event.result is None else event.result.content)


def _tool_output(spans: RunSpans, scope: _Scope, _: events.Record, event: events.ToolOutput) -> None:
    key = event.place, event.result.tool_use_id
    tool = scope.tools.get(key)
    if tool is not None and tool.stopped is not None:
        del scope.tools[key]
        spans._end_tool(tool, *tool.stopped, event.result.content)


def _verdict(spans: RunSpans, scope: _Scope, record: events.Record, event: events.HookVerdict) -> None:
    tool = next((tool for key, tool in scope.tools.items() if key[1] == event.call_id), None)
    about: Attributes = {"hook": event.hook, "point": event.point, "verdict": event.verdict}
    if event.call_id is not None:
        about[spans.names.tool_call_id] = _safe(event.call_id)
    span = scope.span if tool is None else tool.span
    spans._note(span, record, "rxworker.hook.verdict", about)


def _noted(spans: RunSpans, scope: _Scope, record: events.Record, event: Struct) -> None:
    """Add an event of `_NOTES` to the span of its run."""
    name, *members = _NOTES[type(event)]
    values = {member: getattr(event, member) for member in members}
    about = {m: _shown(v) if isinstance(v, str) else v for m, v in values.items()}
    spans._note(scope.span, record, name, about)


def _turn_stopped(spans: RunSpans, scope: _Scope, record: events.Record, _: events.TurnStop) -> None:
    spans._end_tools(scope, record.time)


def _known(attributes: Mapping[str, AttributeValue | None]) -> Attributes:
    """Those that have a value, and a name in this version of the conventions."""
    return {name: value for name, value in attributes.items() if name and value is not None}


def _ns(time: float) -> int:
    return int(time * 1e9)


def _safe(text: str) -> str:
    """A text of a model or a provider as UTF-8 can hold it: a batch of spans with another one would be lost."""
    return text if text.isascii() else whole(text)


def _shown(text: str) -> str:
    """A text of an error, without the secrets of the environment."""
    return whole(redact(text))


def _type_of(error: Exception) -> str:
    if isinstance(error, ProviderError):
        kind = error.kind if error.kind != "unknown" else error.code or type(error).__name__
        return _safe(kind)
    return type(error).__name__


_STARTED, _COMPLETED = events.ResponseStatus.STARTED, events.ResponseStatus.COMPLETED
_ERROR = SpanStatus(StatusCode.ERROR)
_DELTAS: frozenset[type[object]] = frozenset({*BLOCK_TYPE_OF, Deltas})
_BEGINNINGS: frozenset[type[object]] = frozenset({events.RunStart, events.RunResume, events.RunRecover})
_NOTES: dict[type[object], tuple[str, ...]] = {
    events.RunRecover: ("rxworker.run.recover", "epoch", "owner", "reason"),
    events.LimitReached: ("rxworker.limit", "limit", "value"),
    events.LoopHold: ("rxworker.loop.hold", "kind", "name", "seconds"),
    events.WatcherDetach: ("rxworker.watcher.detach", "watcher", "error"),
    events.HandOver: ("rxworker.run.hand_over", "reason"),
    events.BackgroundStop: ("rxworker.background.stop", "id", "seconds"),
}
"""Events of the span of a run: the name, and the members of the record's event."""
_HANDLERS: dict[type[object], Callable[[RunSpans, _Scope, events.Record, Any], None]] = {
    events.RunStart: _began_again,
    events.RunStop: _stopped,
    events.RunPause: _paused,
    events.RunAbort: _aborted,
    events.TurnStop: _turn_stopped,
    events.AttemptStart: _requested,
    events.AttemptRetract: _retracted,
    events.Status: _status,
    events.Usage: _used,
    events.Error: _failed,
    events.ToolStart: _tool_started,
    events.ToolStop: _tool_stopped,
    events.ToolOutput: _tool_output,
    events.HookVerdict: _verdict,
    **dict.fromkeys(_NOTES, _noted),
}
