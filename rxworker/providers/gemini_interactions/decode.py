"""Frames of the Interactions stream to events.

An interaction is a list of steps: `rxworker.providers.gemini_interactions.step` turns them into blocks. A step that the
stream continues without its start begins with its first delta. The interaction ends at its last event, which has its
status and its usage; bytes that end before are a truncated response, unless an update has reported its end. A second
``interaction.created`` of the same interaction is a repetition; one of another retracts what came before it.

See https://ai.google.dev/gemini-api/docs/streaming
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from rxworker.events import ResponseEvent, ResponseStatus, Status
from rxworker.framing.sse import SseFrame
from rxworker.messages import Json, JsonObject, StopReason
from rxworker.messages.lenient_json import word
from rxworker.providers.batch_decoder import Events
from rxworker.providers.error_table import RETRYABLE_KINDS
from rxworker.providers.failure import CANCELLED, Failure, ended_failure
from rxworker.providers.gemini_interactions import wire
from rxworker.providers.gemini_interactions.step import IMPLIED, KINDS, Output, Step
from rxworker.providers.malformed import EventDecoder, Handlers
from rxworker.providers.usage import merge_usage

# In the echo of an answer that was cut by the limit of one request: what continues it, and the interaction that it is
# of.
TOKEN, OWNER = "continuation_token", "interaction_id"
NOTHING = wire.WireInteraction()


class GeminiInteractionsDecoder(EventDecoder):
    """`SseFrame` to events, for one interaction.

    Args:
        outlives_errors: Whether an error that may pass ends only the stream of events, since the interaction goes on at
            the service.

    Attributes:
        steps: How many steps have begun.

    >>> decoder = GeminiInteractionsDecoder()
    >>> data = b'{"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": "Hi"}}'
    >>> decoder.feed(SseFrame(data))[-1]
    TextDelta(index=0, text='Hi', choice=0)
    """

    _growing = ("text", "arguments")
    _decode = staticmethod(wire.decode_event)
    _event = wire.WireEvent
    _whole = "interaction"
    _known = wire.INTERACTION

    def __init__(self, *, outlives_errors: bool = False) -> None:
        super().__init__()
        self._outlives_errors = outlives_errors
        self._failure: Failure | None = None  # that may have ended the stream of events alone
        self._begin()

    def _begin(self) -> None:
        """Reset."""
        self._started = None
        self._open: dict[int, Step] = {}
        self.steps = 0
        self._called = self._malformed = False
        self._status = self._token = ""
        self._usage: JsonObject = {}
        self._emitted_usage: JsonObject = {}

    def finish(self) -> Events:
        """The bytes ended. Before the end of the interaction, that is an error."""
        if self._over:
            return ()
        if self._status not in wire.ENDS or self._broken:
            return self._fail(self._failure or self._cut())
        events: list[ResponseEvent] = []
        self._end(NOTHING, events)
        return events

    # the interaction

    def _take_created(self, event: wire.WireEvent, events: list[ResponseEvent]) -> None:
        interaction = event.interaction or NOTHING
        if self.steps and word(interaction.id) != self._started:
            events += self.blocks.begin_again("the provider started the response again")
            self._begin()
        self._start(interaction, events)

    def _start(self, interaction: wire.WireInteraction, events: list[ResponseEvent]) -> None:
        self._failure = None  # the stream goes on
        if self._started is None:
            self._started = word(interaction.id)
            self._has_begun = True
            model = word(interaction.model) or word(interaction.agent)
            events.append(Status(ResponseStatus.STARTED, self._started or None, model or None))

    def _take_status(self, event: wire.WireEvent, events: list[ResponseEvent]) -> None:
        self._start(wire.WireInteraction(event.interaction_id), events)
        self._status = word(event.status)
        self._token = word(event.continuation_token) or self._token
        self._usage = _with_usage(self._usage, event.usage)

    def _take_completed(self, event: wire.WireEvent, events: list[ResponseEvent]) -> None:
        interaction = event.interaction or NOTHING
        self._start(interaction, events)
        if not self.steps and isinstance(interaction.steps, list):
            for step in interaction.steps:
                if isinstance(step, dict):
                    self._stop_step(self._new_step(step, events), events)
        self._status = word(interaction.status) or self._status
        self._token = word(interaction.continuation_token)
        self._end(interaction, events)

    def _end(self, interaction: wire.WireInteraction, events: list[ResponseEvent]) -> None:
        self._usage = _with_usage(self._usage, interaction.usage)
        status = self._status
        if status in (wire.FAILED, CANCELLED):
            events += self._fail(self._failure or ended_failure("interaction", status, interaction.errors))
            return
        for step in self._open.values():
            if status in wire.WHOLE or isinstance(step, Output):
                self._stop_step(step, events)
            else:
                step.abort(f"the interaction was cut: {status}", events)
        events += self._new_usage()
        self._over = True
        named = word(interaction.id)
        echo: JsonObject | None = None
        if self._token and status == wire.CONTINUES:
            echo = {TOKEN: self._token, OWNER: named or self.response_id}
        stop = wire.read_stop(status, called=self._called, malformed=self._malformed)
        response_id = named if named != self._started else None
        events.append(Status(ResponseStatus.COMPLETED, response_id or None, stop_reason=stop, echo=echo))

    # its steps

    def _take_start(self, event: wire.WireEvent, events: list[ResponseEvent]) -> None:
        self._start(NOTHING, events)
        step = event.step or {}
        index = self.steps if event.index is None else event.index
        before = self._open.get(index)
        if before is not None and before.kind == word(step.get("type")):
            return  # sent again
        if before is not None:
            before.abort("the provider started another step in its place", events)
        self._open[index] = self._new_step(step, events)

    def _take_delta(self, event: wire.WireEvent, events: list[ResponseEvent]) -> None:
        self._start(NOTHING, events)
        delta = event.delta or {}
        index = next(reversed(self._open), self.steps) if event.index is None else event.index
        step = self._open.get(index)
        if step is None:
            kind = word(delta.get("type"))
            step = self._open[index] = self._new_step({"type": IMPLIED.get(kind, kind)}, events)
        step.take(delta, events)
        if isinstance(event.metadata, dict):
            self._usage = _with_usage(self._usage, event.metadata.get("total_usage"))

    def _take_stop(self, event: wire.WireEvent, events: list[ResponseEvent]) -> None:
        index = next(reversed(self._open), self.steps) if event.index is None else event.index
        if (step := self._open.pop(index, None)) is not None:
            self._stop_step(step, events)
        self._usage = _with_usage(self._usage, event.usage)
        events += self._new_usage()

    def _new_step(self, step: JsonObject, events: list[ResponseEvent]) -> Step:
        self.steps += 1
        kind = word(step.get("type"))
        made = KINDS.get(kind, Step)(kind, self.blocks)
        made.start(step, events)
        return made

    def _stop_step(self, step: Step, events: list[ResponseEvent]) -> None:
        step.stop(events)
        self._called |= step.called
        self._malformed |= step.malformed

    # its usage

    def _new_usage(self) -> Events:
        """The newest usage, if it was not emitted yet."""
        if self._usage == self._emitted_usage:
            return ()
        self._emitted_usage = self._usage
        return (wire.read_usage(self._usage),)

    # what went wrong, and what does not fit

    def _take_error(self, failure: Failure) -> Events:
        if not (self._outlives_errors and self._started and failure.kind in RETRYABLE_KINDS):
            return self._fail(failure)
        self._failure = failure
        return ()

    def _fail(self, failure: Failure, stop: StopReason | None = None) -> Events:
        return [*self._new_usage(), *super()._fail(failure, stop)]

    @staticmethod
    def _last_frame(response: JsonObject) -> SseFrame:
        return SseFrame(msgspec.json.encode({"event_type": "interaction.completed", "interaction": response}))

    _handlers: ClassVar[Handlers] = {
        "interaction.created": _take_created,
        "interaction.status_update": _take_status,
        "interaction.completed": _take_completed,
        "step.start": _take_start,
        "step.delta": _take_delta,
        "step.stop": _take_stop,
    }


def _with_usage(before: JsonObject, usage: Json) -> JsonObject:
    """The usage so far, with what is reported now."""
    return merge_usage(before, usage) if isinstance(usage, dict) else before
