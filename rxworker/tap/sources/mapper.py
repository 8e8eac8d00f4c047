"""What mappers share: those of the libraries, whose items are of one run, and those of UI protocols. Pure.

The encoders of rxworker send the events that these protocols do not have as values of their own: they become these
events again, so that a run of rxworker has its requests, retries and figures at the other end.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import cast

import msgspec

from rxworker import events
from rxworker.errors import LocalProtocolError
from rxworker.messages import Json, JsonObject, StopKind, Text
from rxworker.messages.json import is_list
from rxworker.messages.message import Input
from rxworker.protocols.common import media
from rxworker.tap.builder import OWN, Mapper, RunBuilder, Tapped
from rxworker.tap.sources.values import content_of, json_of, member, text


class RunMapper(Mapper[object], ABC):
    """Makes a run of the items of a library. Where the stream fails, the run does.

    Args:
        run: Its builder.
    """

    def __init__(self, run: RunBuilder) -> None:
        self._run = run

    def feed(self, item: object, /) -> Sequence[Tapped]:
        """The events of an item."""
        self._take(item)
        return self._run.take()

    def finish(self, error: Exception | None = None, /) -> Sequence[Tapped]:
        """The events of the end of the stream, which has failed if there is an error."""
        self._end(error)
        return self._run.take()

    @abstractmethod
    def _take(self, item: object) -> None:
        """Take an item."""

    def _end(self, error: Exception | None) -> None:
        """Take the end. Most streams report that of their run themselves, unless they have failed."""
        if error is not None:
            self._run.abort_with(error)


class WireMapper(RunMapper):
    """A mapper of decoded events of a protocol: mappings, or models of pydantic.

    Args:
        name: The name of the program.
        given: The input of the run, which most servers do not repeat.

    Attributes:
        sends_late: Whether a call may be sent after its response, when it runs.
        waiting: The calls that have no result.
    """

    sends_late = False

    def __init__(self, name: str = "", given: Input | None = None) -> None:
        super().__init__(RunBuilder(name))
        self.given = given
        self.runs: dict[str, RunBuilder] = {"": self._run}
        self.has_usage = False
        self._retracted: set[RunBuilder] = set()  # whose responses are, or have failed
        self._failed: set[RunBuilder] = set()
        self.waiting: set[str] = set()
        self._provided: set[str] = set()  # calls that the provider runs
        self._late: list[tuple[RunBuilder, events.Status]] = []  # ends of responses whose calls are sent when they run

    def _take(self, item: object) -> None:
        dump = getattr(item, "model_dump", None)
        event: object = dump(mode="json", by_alias=True) if callable(dump) else item
        if isinstance(event, Mapping) and self._run.status != "over":
            event = cast("Mapping[str, object]", event)
            milliseconds = event.get("timestamp")
            if isinstance(milliseconds, int | float):
                for run in self.runs.values():
                    run.time = milliseconds / 1000
            self.take(event)

    def finish(self, error: Exception | None = None, /) -> Sequence[Tapped]:
        """The end of the stream, which is not that of the run: what is open is cut off."""
        if error is None and self._run.status != "new":
            self._run.abort("the stream ended")
        found = super().finish(error)
        return [each for each in found if error is not None or each.path or not isinstance(each.event, events.RunAbort)]

    @abstractmethod
    def take(self, event: Mapping[str, object]) -> None:
        """Take the next event."""

    def call(
        self, run: RunBuilder, call_id: str, name: str, arguments: Json = None, *, is_provided: bool = False
    ) -> None:
        """The model calls a tool. One without an id has no result that belongs to it."""
        if is_provided:
            self._provided.add(call_id)
        whole = arguments if arguments is None or isinstance(arguments, dict | str) else json.dumps(arguments)
        if call_id:
            run.call(call_id, name, whole, is_provided=is_provided)

    def complete(self) -> None:
        """End the responses of which only calls were left."""
        for run, status in self._late:
            run.decoded((status,))
        self._late = []

    def whole(self, run: RunBuilder, call_id: str) -> None:
        """A call is whole."""
        run.stop_block(call_id)
        if call_id not in self._provided:
            self.waiting.add(call_id)

    def result(
        self,
        run: RunBuilder,
        call_id: str,
        content: object,
        *,
        is_error: bool = False,
        name: str = "",
        seconds: object = None,
    ) -> None:
        """A call has its result, for which it took some seconds, where that is reported."""
        if call_id in self._provided or not call_id:
            run.custom("provider_tool_result", {"id": call_id, "content": cast("Json", content)})
            return
        if run in self._failed:
            return  # its call went with the response
        self.waiting.discard(call_id)
        took = seconds if isinstance(seconds, int | float) else None
        run.tool_stop(call_id, content_of(blocks_of(content)), is_error=is_error, name=name, seconds=took)

    def inside(self, key: str, parent: RunBuilder, call_id: str, name: str) -> RunBuilder:
        """The run that a call has begun."""
        run = self.runs[key] = parent.inside(call_id, name)
        run.start()
        return run

    def retract(self, run: RunBuilder, reason: str) -> None:
        """A response is retracted, which is reported once or twice."""
        if run not in self._retracted:
            self._retracted.add(run)
            run.retract(reason)

    def change(self, operation: object) -> None:
        """An operation of JSON Patch on the shared state."""
        data = _members(operation)
        try:
            changed = msgspec.convert({**data, "type": "shared_state_change"}, events.SharedStateChange)
        except msgspec.ValidationError:
            self._run.custom("json_patch", data)
        else:
            self._run.note(changed)

    def other(self, run: RunBuilder, name: str, value: object) -> None:
        """An event of rxworker that the protocol does not have, or anything else."""
        data = _members(value)
        try:
            event = msgspec.convert(data, events.Event)
        except msgspec.ValidationError:
            run.custom(name, data)
            return
        if isinstance(event, events.AttemptStart):
            self._retracted.discard(run)
            self._failed.discard(run)
            self.complete()
            run.attempt(event.provider, event.model, event.service)
            run.late_calls = True
        elif isinstance(event, events.AttemptRetract):
            self.retract(run, event.reason)
        elif isinstance(event, events.Status | events.Usage | events.Error):
            self.has_usage = self.has_usage or isinstance(event, events.Usage)
            self._failed.update({run} if isinstance(event, events.Error) else ())
            if self.sends_late and isinstance(event, events.Status) and _calls_tools(event) and not self.waiting:
                self._late.append((run, event))
            else:
                run.decoded((event,))
        elif not isinstance(event, OWN):
            run.note(event)


def _members(value: object) -> JsonObject:
    return json_of(cast("object", value)) if isinstance(value, Mapping) else {"value": cast("Json", value)}


def _calls_tools(status: events.Status) -> bool:
    return status.stop_reason is not None and status.stop_reason.kind is StopKind.TOOL_USE


def blocks_of(content: object) -> object:
    """The content of a result: its parts as blocks, where all of them can be read, and else as it is.

    >>> blocks_of([{"type": "text", "text": "sunny"}])
    [Text(text='sunny', citations=(), echo=None)]
    """
    if not is_list(content):
        return content
    try:
        return [*map(_block, content)]
    except LocalProtocolError:
        return content


def _block(part: object) -> object:
    kind, source = member(part, "type"), member(part, "source")
    if kind == "text":
        return Text(text(part, "text"))
    if kind == "file":
        return media(text(part, "mediaType"), url=text(part, "url"))
    where = {"url" if member(source, "type") == "url" else "data": text(source, "value")}
    return media(text(source, "mimeType"), **where)
