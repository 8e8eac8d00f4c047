"""The events of a run, built from what another program reports. Pure, but for the clock.

Theory of operation. Other libraries report less than rxworker records, and in another order: a text without the block
around it, a result without the start of its tool, an end without that of what is open. `RunBuilder` puts in what the
rules of records demand, and no more: a text begins its block, its response, its turn and its run. What a source does
not report stays unknown; no figure is made up.
"""

from __future__ import annotations

import json
import time as clock
from collections.abc import Collection, Hashable, Iterable, Mapping
from operator import attrgetter
from typing import Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from rxworker import events
from rxworker.errors import RunCancelledError, describe, message_of
from rxworker.events import BlockStart, BlockType, Event, ResponseEvent, ResponseStatus, Status, ToolUseMetadata, Usage
from rxworker.events.arguments import parse_arguments
from rxworker.messages import Conversation, Json, JsonObject, Message, StopKind, StopReason, ToolCall, ToolResult
from rxworker.messages.message import Input, read_input
from rxworker.messages.settings import check_type
from rxworker.state.run import Cause
from rxworker.tools.results import to_content

S_contra = TypeVar("S_contra", contravariant=True)

OF_A_PROCESS = (events.HandOver, events.CommandTaken, events.LoopHold, events.WatcherDetach)
"""The events of the process that has a run, which no source reports."""
OWN = (events.RunRecover, *OF_A_PROCESS)
"""What a tap records besides what its source reports."""
SOURCE = "tap"
"""The source of the messages that were added while a run of another program went on."""
UNKNOWN = "unknown"
"""The name of a tool that a source does not report."""
CANCELLED = ("CancelledError", "RunCancelled", "RunTimedOut")
"""The names of the errors with which other libraries report that a run was cancelled."""
_CALL = "run.call('call_1', 'look_up', {'word': 'blue'})"
CUT = "The run ended while this tool ran. Whether it had an effect is not known."


Arguments: TypeAlias = JsonObject | str | None
"""The arguments of a call, as a value or as JSON."""


class Tapped(Struct, frozen=True, omit_defaults=True):
    """An event of a run of another program.

    Attributes:
        event: The event.
        path: The ids of the calls in which it happened, the outermost first; empty for the run itself.
        time: When it happened, in seconds since the epoch; ``None``: now.
        run: Which run it is of, where a source has several.
    """

    event: Event
    path: tuple[str, ...] = ()
    time: float | None = None
    run: str = ""


class Mapper(Protocol[S_contra]):
    """Makes events of what another program reports: a pure machine, which may have any number of events for an item.

    The same items make the same events. A `RunBuilder` puts in what is missing between them.
    """

    def feed(self, item: S_contra, /) -> Iterable[Tapped | Event]:
        """The events of the next item."""
        ...

    def finish(self, error: Exception | None = None, /) -> Iterable[Tapped | Event]:  # noqa: ARG002 - most have none
        """The events of the end of the source, which has failed if there is an error; by default none."""
        return ()


class _Block(Struct):
    start: BlockStart
    place: int  # of its call among those of the response, in the order in which they begin
    texts: list[str] = []  # of the arguments of its call


class _Call(Struct):
    place: int
    call: ToolCall
    made: float | None = None  # when it was reported, where the source has times
    began: float | None = None
    result: ToolResult | None = None


class RunBuilder:
    """Builds the events of a run. What is missing between two of them is put in.

    Args:
        name: The name of the program, which lists show as the worker.
        run: Which run it is, where a source has several.
        late_calls: Whether a tool may begin before its response is whole, or the source reports a call only then: the
            response goes on until the next one, so that all calls are in it. Otherwise the start of a tool ends it.

    Attributes:
        name: The name of the program.
        run: Which run it is.
        late_calls: See above.
        time: When what follows has happened, in seconds since the epoch; ``None``: now.
        last: The time of the last event; ``None``: then.
        status: Whether the run has not begun, goes on, or has ended.
        is_responding: Whether a response is open.

    Example:
        >>> run = RunBuilder("my-agent")
        >>> run.start("What is 6 times 7?")
        >>> run.text("42")
        >>> run.end()
        >>> [type(each.event).__name__ for each in run.take()]  # doctest: +NORMALIZE_WHITESPACE
        ['RunStart', 'TurnStart', 'AttemptStart', 'Status', 'BlockStart', 'TextDelta', 'BlockStop', 'Status',
         'TurnStop', 'RunStop']
    """

    def __init__(self, name: str = "", run: str = "", *, late_calls: bool = False) -> None:
        self.name = name
        self.run = run
        self.late_calls = late_calls
        self.time: float | None = None
        self.last: float | None = None
        self._path: tuple[str, ...] = ()
        self._out: list[Tapped] = []
        self._reset()

    def _reset(self) -> None:
        self.status: Literal["new", "running", "over"] = "new"
        self.is_responding = self._in_turn = False
        self._failure = self._retracted = ""  # why the last response has failed, or was retracted
        self._model = self._provider = ""
        self._open: dict[Hashable, _Block] = {}
        self._current: Hashable = None
        self._index = self._place = 0  # of the next block, and of the next call
        self._ids: dict[Hashable, str] = {}  # of the calls of the response, by their keys
        self._calls: dict[str, _Call] = {}
        self._inner: dict[str, RunBuilder] = {}

    @property
    def has_blocks(self) -> bool:
        """Whether a response is open and has a block."""
        return self.is_responding and self._index > 0

    @property
    def calls(self) -> list[ToolCall]:
        """The calls of the last response that have no result, in their order."""
        return [each.call for each in self._placed() if each.result is None]

    def _placed(self) -> list[_Call]:
        return sorted(self._calls.values(), key=attrgetter("place"))

    def take(self) -> list[Tapped]:
        """What was built since this was called last."""
        out = self._out.copy()
        self._out.clear()
        return out

    def _emit(self, event: Event) -> None:
        self.last = self.time
        self._out.append(Tapped(event, self._path, self.time, self.run))

    def start(
        self,
        given: Input | None = None,
        *,
        before: Conversation | None = None,
        system: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """The run begins. Where it has begun, the input is a message that was added to it.

        Args:
            given: Its input; ``None`` if it is not known.
            before: The conversation before it.
            system: The system prompt, if it is known.
            labels: Its labels.
        """
        messages = () if given is None else read_input(given)
        for name, value in (labels or {}).items():
            check_type(f"the label {name}", value, str, "run.start(labels={'tenant': 'acme'})")
        if self.status == "running":
            self.add(*messages)
            return
        if self.status == "over":
            self._reset()
        self.status = "running"
        before = Conversation(system=system) if before is None else before
        self._emit(events.RunStart(before.add(*messages), len(messages), labels=dict(labels or {}), worker=self.name))

    def add(self, *messages: Message) -> None:
        """Messages were added to the conversation while the run went on."""
        if messages:
            self.start()
            self.respond()
            self._emit(events.MessageAdd(messages, SOURCE))

    def request(
        self,
        model: str = "",
        provider: str = "",
        response_id: str | None = None,
        *,
        service: str = "",
        since: float | None = None,
    ) -> None:
        """A request was sent to a model: another turn begins, or, after `retract`, another attempt.

        Args:
            model: The name of the model.
            provider: The name of the provider.
            response_id: The id of the response.
            service: The host.
            since: When it was sent, if ``time`` is that of its response; ``None``: then.
        """
        check_type("the id of a response", response_id, str, "run.request(response_id='msg_1')", optional=True)
        time, self.time = self.time, self.time if since is None else since
        self.attempt(model, provider, service)
        self._emit(Status(ResponseStatus.STARTED, response_id, model or None))
        self.time = time

    def attempt(self, model: str = "", provider: str = "", service: str = "") -> None:
        """The same, where the start of the response follows with `decoded`."""
        for name in (model, provider, service):
            check_type("the name of a model, provider or host", name, str, "run.request('small')", optional=True)
        self.start()
        self.respond()
        if self._failure:
            self.retract(self._failure)
        if not self._retracted:
            self.end_turn()
        if not self._in_turn:
            self._in_turn = True
            self._emit(events.TurnStart())
        self._model, self._provider = model or self._model, provider or self._provider
        self._emit(events.AttemptStart(self._provider, self._model, service=service))
        self.is_responding, self._retracted, self._index, self._place = True, "", 0, 0
        self._ids = {}

    def text(self, text: str, key: Hashable = None) -> None:
        """The model has written some text.

        Args:
            text: What was added.
            key: Which block it is of; by default the current one, or another one after one of another kind.
        """
        self._delta(BlockType.TEXT, key, events.TextDelta, text)

    def thinking(self, text: str, key: Hashable = None) -> None:
        """The model has written some of its thinking; the arguments are those of `text`."""
        self._delta(BlockType.THINKING, key, events.ThinkingDelta, text)

    def signature(self, signature: str, key: Hashable = None) -> None:
        """The provider has signed a block that is open; by default the current one."""
        block = self._open.get(self._current if key is None else key)
        if signature and block is not None:
            self._emit(events.SignatureDelta(block.start.index, signature))

    def call(
        self, call_id: str, name: str, arguments: Arguments = None, *, key: Hashable = None, is_provided: bool = False
    ) -> None:
        """The model calls a tool.

        Args:
            call_id: The id of the call.
            name: The name of the tool.
            arguments: All of its arguments, as a value or as JSON; ``None`` if they follow with `arguments`.
            key: What else its block is known by in this response, such as its place.
            is_provided: Whether the provider runs the tool, within the response.

        A call that is reported a second time, before its result, is no other call: its arguments count if none have
        come in pieces.
        """
        known = self._calls.get(check_type("the id of a call", call_id, str, _CALL))
        if known is not None and known.result is None:
            return
        check_type("the name of a tool", name, str, _CALL, optional=True)
        if call_id not in self._open:
            kind = BlockType.SERVER_TOOL_USE if is_provided else BlockType.TOOL_USE
            self._begin(kind, call_id, ToolUseMetadata(call_id, name or UNKNOWN))
        if key is not None:
            self._ids[key] = call_id
        if arguments is not None:
            whole = arguments if isinstance(arguments, str) else json.dumps(arguments)
            self.arguments("" if self._open[call_id].texts else whole, call_id)
            self.stop_block(call_id)

    def arguments(self, text: str, key: Hashable = None) -> None:
        """The model has written some of the arguments of a call, by its id or its key; by default the current one."""
        block = self._open.get(self._ids.get(key, key) or self._current)
        if text and block is not None and isinstance(block.start.metadata, ToolUseMetadata):
            block.texts.append(text)
            self._emit(events.InputJsonDelta(block.start.index, text))

    def stop_block(self, key: Hashable = None) -> None:
        """A block is whole; by default the current one."""
        if key is None:
            key = self._current
        elif key not in self._open:
            key = self._ids.get(key, key)
        block = self._open.pop(key, None)
        if block is None:
            return
        start, known = block.start, block.start.metadata
        if isinstance(known, ToolUseMetadata) and start.block_type is BlockType.TOOL_USE:
            arguments = parse_arguments("".join(block.texts) or "{}")
            self._calls[known.id] = _Call(block.place, ToolCall(known.id, known.name, arguments), self.time)
        self._emit(events.BlockStop(start.index, start.block_type, metadata=known))

    def abort_block(self, reason: str, key: Hashable = None) -> None:
        """A block is not whole, and does not count; by default the current one."""
        key = self._current if key is None else key
        if (block := self._open.pop(key, None)) is not None:
            self._emit(events.BlockAbort(block.start.index, block.start.block_type, reason))

    def _delta(
        self, kind: BlockType, key: Hashable, make: type[events.TextDelta | events.ThinkingDelta], text: str
    ) -> None:
        if not check_type("a text of a run", text, str, "run.text('Hello')", optional=True):
            return
        block = self._open.get(self._current if key is None else key)
        start = None if block is None else block.start
        if start is None or start.block_type is not kind:
            start = self._begin(kind, (kind, self._index) if key is None else key)
        self._emit(make(start.index, text))

    def _begin(self, kind: BlockType, key: Hashable, metadata: ToolUseMetadata | None = None) -> BlockStart:
        began = not self.late_calls and any(each.began for each in self._calls.values())
        if not self.is_responding or began:
            self.request()
        self.stop_block(key)
        known = self._open.get(self._current)
        if known is not None and not isinstance(known.start.metadata, ToolUseMetadata):
            self.stop_block()
        start = BlockStart(self._index, kind, metadata)
        self._index, self._current = self._index + 1, key
        self._put(key, start)
        return start

    def _put(self, key: Hashable, start: BlockStart) -> None:
        self._open[key] = _Block(start, self._place)
        self._place += start.block_type is BlockType.TOOL_USE
        self._emit(start)

    def usage(self, usage: Usage | None) -> None:
        """What the response took so far, as the source reports it: a snapshot; ``None`` if that is not known."""
        check_type("the usage", usage, Usage, "run.usage(Usage(input_tokens=10))", optional=True)
        if usage is None:
            return
        if not self.is_responding:
            self.request()
        self._emit(usage)

    def respond(self, reason: StopReason | None = None) -> None:
        """The response is whole. Nothing happens if there is none.

        Args:
            reason: Why it ended; ``None`` if that is not known.
        """
        if not self.is_responding:
            return
        self._stop_blocks()
        if reason is None and self._calls:
            reason = StopReason(StopKind.TOOL_USE)
        self.decoded((Status(ResponseStatus.COMPLETED, stop_reason=reason),))

    def fail(self, message: str, code: str | None = None, *, retryable: bool = False) -> None:
        """The response has failed."""
        check_type("why a response has failed", message, str, "run.fail(str(error))")
        if not self.is_responding:
            self.request()
        self.decoded((events.Error(code, message, retryable), Status(ResponseStatus.FAILED)))

    def retract(self, reason: str) -> None:
        """What the response has brought does not count: another attempt follows."""
        is_next = not self._in_turn or (not self.late_calls and any(each.began for each in self._calls.values()))
        if is_next and not (self.is_responding or self._failure):
            self.attempt()  # it is the next one that has failed
        if self._in_turn:
            self._cut(reason)
            self._end_calls(reason)
            self._emit(events.AttemptRetract(reason))
            self.is_responding, self._retracted, self._failure = False, reason or "retracted", ""
            self._calls, self._inner = {}, {}

    def _stop_blocks(self) -> None:
        for key in [*self._open]:
            self.stop_block(key)

    def _cut(self, reason: str) -> None:
        for key in [*self._open]:
            self.abort_block(reason, key)

    def decoded(self, given: Iterable[ResponseEvent]) -> None:
        """Events of a response, as a decoder of a provider makes them."""
        for event in given:
            if not self.is_responding:
                self.attempt()
            if isinstance(event, BlockStart):
                self._put(event.index, event)
                continue
            if isinstance(event, events.BlockStop) and event.index in self._open:
                self.stop_block(event.index)
                continue
            if isinstance(event, events.InputJsonDelta):
                self._open[event.index].texts.append(event.text)
            elif isinstance(event, events.BlockAbort):
                self._open.pop(event.index, None)
            elif isinstance(event, events.Error):
                self._cut(event.message)
                self._failure = event.message or "the response has failed"
            elif isinstance(event, Status):
                self._end_blocks(event.status)
            self._emit(event)

    def _end_blocks(self, status: ResponseStatus) -> None:
        """End what is open when a response is whole, or cut it off when it is not, or begins again."""
        if status is ResponseStatus.COMPLETED:
            self._stop_blocks()
        else:
            self._cut(status.value)
        if status is ResponseStatus.STARTED:
            self._calls, self._place, self._index = {}, 0, 0
        else:
            self.is_responding = False
        if status is ResponseStatus.FAILED:
            self._failure = self._failure or "the response has failed"

    def tool_start(self, call_id: str, name: str = "", arguments: Arguments = None) -> None:
        """A tool runs. A call that no response has made is put into one.

        Args:
            call_id: The id of the call.
            name: The name of the tool, if no response has made the call.
            arguments: Its arguments then, or those with which it runs, where they are others than those of the call.
        """
        self.stop_block(call_id)
        if call_id not in self._calls:
            self.call(call_id, name, {} if arguments is None else arguments)
        if not self.late_calls:
            self.respond()
        each = self._calls[call_id]
        if each.began is None:
            if isinstance(arguments, dict):
                each.call = replace(each.call, input=arguments)
            each.began = self._now()
            self._emit(events.ToolStart(each.call, each.place))

    def tool_progress(self, call_id: str, progress: Json) -> None:
        """A tool reports its progress."""
        self.tool_start(call_id)
        if self._calls[call_id].result is None:
            self._emit(events.ToolProgress(call_id, progress, self._calls[call_id].place))

    def tool_stop(
        self,
        call_id: str,
        content: object = "",
        *,
        is_error: bool = False,
        name: str = "",
        seconds: float | None = None,
    ) -> None:
        """A tool has ended.

        Args:
            call_id: The id of the call.
            content: Its result for the model: what a tool may return.
            is_error: Whether it has failed.
            name: The name of the tool, if no response has made the call.
            seconds: How long it took; by default since `tool_start`, or else since its call, where the source has the
                times of both.
        """
        known = self._calls.get(call_id)
        if known is not None and known.result is not None:
            return
        took = seconds or 0.0
        if seconds is None and known is not None:
            if known.began is not None:
                took = self._now() - known.began
            elif known.made is not None and self.time is not None:
                took = self.time - known.made
        self.tool_start(call_id, name)
        if call_id in self._inner:
            self._inner[call_id].end()
        each = self._calls[call_id]
        each.result = ToolResult(call_id, to_content(content, each.call.name), is_error, each.call.name)
        self._emit(events.ToolStop(each.result, max(took, 0.0), call_id, each.place, is_error, each.call.name))

    def _now(self) -> float:
        return clock.time() if self.time is None else self.time

    def inside(self, call_id: str, name: str = "") -> RunBuilder:
        """The builder of the run that a call has begun: its events have the id of the call in their path."""
        self.tool_start(call_id)
        if call_id not in self._inner:
            self._inner[call_id] = self.beside(call_id, name)
        self._inner[call_id].time = self.time
        return self._inner[call_id]

    def beside(self, call_id: str, name: str = "") -> RunBuilder:
        """The builder of a run that a call has begun, and that may go on after it: its end is not that of the call."""
        builder = RunBuilder(name, self.run, late_calls=self.late_calls)
        builder._path, builder._out, builder.time = (*self._path, call_id), self._out, self.time
        return builder

    def custom(self, name: str, data: JsonObject) -> None:
        """Something that has no event of its own."""
        self.note(events.Custom(name, data))

    def note(self, event: Event) -> None:
        """An event that may come at any time, such as a `rxworker.events.SharedStateChange`."""
        self.start()
        self._emit(event)

    def end_turn(self) -> None:
        """The turn is over, with the results of its calls; what is added now comes after them."""
        if not self._in_turn:
            return
        self.respond()
        self._in_turn = False
        if self._calls:
            self._end_calls()
            results = tuple([each.result for each in self._placed() if each.result is not None])
            self._emit(events.MessageAdd((Message("user", results),), "tools")) if results else None
            self._calls, self._inner = {}, {}
        self._emit(events.TurnStop())

    def _end_calls(self, reason: str = "") -> None:
        """End the tools that run; with a reason, they and the runs inside were cut off."""
        for inner in self._inner.values():
            if reason and inner.status == "running":
                inner.abort(reason)
        for call_id, each in self._calls.items():
            if each.began is not None and each.result is None:
                self.tool_stop(call_id, CUT, is_error=True, seconds=0.0)

    def end(self) -> None:
        """The run has ended well, unless its last response has failed or was retracted.

        One that has not begun, or has ended, stays as it is.
        """
        if self.status != "running":
            return
        if self._failure or self._retracted:
            self.abort(self._failure or self._retracted)
            return
        self.end_turn()
        self.status = "over"
        self._emit(events.RunStop())

    def pause(self, reason: str = "", ids: Collection[str] = (), *, hook: str = "requires_approval") -> None:
        """The run has paused. One that has not begun, or has ended, stays as it is.

        Args:
            reason: Why; shown to users, not interpreted.
            ids: The calls that need a decision.
            hook: What has requested it, as `rxworker.events.PauseState` has it.
        """
        if self.status != "running":
            return
        self.respond()
        for inner in self._inner.values():
            inner.pause(reason)
        calls = self._placed()
        waiting = tuple([events.PausedCall(each.place, each.call) for each in calls if each.result is None])
        required = tuple([at for at, each in enumerate(waiting) if each.call.id in ids])
        results = {each.place: each.result for each in calls if each.result is not None}
        self.status = "over"
        self._emit(events.RunPause(events.PauseState(hook, waiting, required, reason, results)))

    def abort_with(self, error: Exception) -> None:
        """The source has failed: with the response, if one is open, or since its program was cancelled."""
        if self.status == "over":
            return
        is_cancel = isinstance(error, RunCancelledError) or type(error).__name__ in CANCELLED
        if self.is_responding and not is_cancel:
            self.fail(describe(error))
        self.abort(message_of(error) if is_cancel else describe(error), "cancel" if is_cancel else "error")

    def abort(self, reason: str, cause: Cause = "error") -> None:
        """The run was cut short.

        Args:
            reason: Why; shown to users, not interpreted.
            cause: The kind of the end.
        """
        check_type("why a run has ended", reason, str, "run.abort(str(error))")
        if self.status == "over":
            return
        self.start()
        self._cut(reason)
        if self.is_responding:
            self.decoded((Status(ResponseStatus.CANCELLED),))
        self._end_calls(reason or cause)
        self.status = "over"
        self._emit(events.RunAbort(cause, reason))
