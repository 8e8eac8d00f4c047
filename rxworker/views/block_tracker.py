"""One block of a response as it is shown: the changes that an event of the block makes.

Theory of operation. A block is kept from its first event to its last, by its index. Its id is made of the run, the
turn, the attempt and the index, so that it is the same for every watcher. A block whose start was missed is shown where
that does no harm: a text without its beginning is still a text, while half of a call's arguments cannot be used. Such a
call is shown with all of its arguments when it starts to run or waits. All methods that return an iterator yield the
changes that follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from rxworker import events
from rxworker.events.arguments import assemble_arguments
from rxworker.events.block import BlockMetadata, OpaqueMetadata, ToolResultMetadata
from rxworker.messages import JsonObject, ToolResult
from rxworker.messages.lenient_json import encode_lenient
from rxworker.state.block import HOLDS
from rxworker.views import changes
from rxworker.views.call_tracker import CallTracker


@dataclass(slots=True, eq=False)
class ShownResponse:
    """One response of a scope, and the ids of its blocks.

    Attributes:
        scope: The scope of the response.
        prefix: The beginning of its name.
        turn: The turn's number.
        attempt: The attempt's number.
        again: Distinguishes it from an earlier response of the same attempt.
        is_all_seen: Whether the watcher received all of its events.
        has_started: Whether its start was received.
        text_ids: The ids of the text blocks that were shown.
        call_ids: The ids of the calls that were shown.
        used: How often each index was used for a text block.

    >>> response = ShownResponse(changes.Scope(), "run-1", turn=2, attempt=1)
    >>> response.name, response.name_text(0), response.name_text(0)
    ('run-1.2.1', 'run-1.2.1.0', 'run-1.2.1.0~2')
    """

    scope: changes.Scope
    prefix: str
    turn: int = 0
    attempt: int = 0
    again: int = 0
    is_all_seen: bool = False
    has_started: bool = False
    text_ids: list[str] = field(default_factory=list[str])
    call_ids: list[str] = field(default_factory=list[str])
    used: Counter[int] = field(default_factory=Counter[int])

    @property
    def name(self) -> str:
        """Its name, the same for every watcher."""
        name = f"{self.prefix}.{self.turn}.{self.attempt}"
        return f"{name}.{self.again}" if self.again else name

    def name_text(self, index: int) -> str:
        """Return the id of a new text block at this index."""
        self.used[index] += 1
        again = self.used[index]
        name = f"{self.name}.{index}" + (f"~{again}" if again > 1 else "")
        self.text_ids.append(name)
        return name


TEXTS = frozenset({events.BlockType.TEXT, events.BlockType.REFUSAL, events.BlockType.THINKING})
CALLS = frozenset({events.BlockType.TOOL_USE, events.BlockType.SERVER_TOOL_USE})
WHOLES = frozenset({events.BlockType.IMAGE, events.BlockType.OPAQUE})


@dataclass(slots=True, eq=False)
class OpenBlock:
    """An open block.

    Attributes:
        start: Its first event, as a start.
        response: The response that it is part of.
        calls: The calls of the scope.
        is_detailed: Whether further choices and single values of arguments are shown.
        kind: The type of the block.
        shown: The block as it is shown; ``None`` before that.
        metadata: Which tool or result, as far as it is known.
        echo: The JSON that the provider sent with it.
        waiting: The text that arrived before it was shown.
        values: The values of its arguments, by their paths.
    """

    start: events.BlockStart
    response: ShownResponse
    calls: CallTracker
    is_detailed: bool
    kind: events.BlockType
    shown: changes.ShownBlock | None = None
    metadata: BlockMetadata | None = None
    echo: JsonObject | None = None
    waiting: list[str] = field(default_factory=list[str])
    values: list[events.InputValueDelta] = field(default_factory=list[events.InputValueDelta])

    @property
    def is_hidden(self) -> bool:
        """Whether it belongs to a further choice, which is not part of the conversation."""
        return self.start.choice != 0 and not self.is_detailed

    def is_shown_call(self, native: str) -> bool:
        """Whether it is the call of this id, and was shown."""
        shown = self.shown
        return shown is not None and shown.call_id == native and not self.start.choice

    def answers(self, event: events.BlockEvent) -> str | None:
        """The id of the call whose result ends with this event, if it is one."""
        if self.start.choice or not isinstance(event, events.BlockStop):
            return None
        which = event.metadata or self.metadata
        return which.tool_use_id if isinstance(which, ToolResultMetadata) else None

    def feed(self, event: events.BlockEvent) -> changes.Changes:
        """Take an event of the block."""
        if (handler := _HANDLERS.get(type(event))) is not None and not self.is_hidden:
            yield from handler(self, event)

    def show(self) -> changes.Changes:
        """Open the block for users, if it can be shown, with the text that arrived before."""
        if self.shown is not None or self.is_hidden:
            return
        choice, response, call = self.start.choice, self.response, self.metadata
        if self.kind in TEXTS:
            self.shown = self._named(response.name_text(self.start.index))
        elif self.kind not in CALLS or not isinstance(call, events.ToolUseMetadata):
            return
        elif choice:
            # A call of another choice never runs, so it waits for no result.
            shown = self._named(response.name_text(self.start.index))
            self.shown = replace(shown, tool=call.name, is_free_text=call.is_free_text, call_id=call.id)
        else:
            self.shown = self.calls.show(
                call.id,
                call.name,
                response.name,
                is_provided=self.kind is events.BlockType.SERVER_TOOL_USE,
                is_free_text=call.is_free_text,
            )
            response.call_ids.append(self.shown.id)
        yield changes.BlockOpen(self.shown)
        if self.waiting:
            yield changes.BlockGrow(self.shown, "".join(self.waiting))
            self.waiting.clear()

    def _named(self, name: str) -> changes.ShownBlock:
        response = self.response
        return changes.ShownBlock(response.scope, name, response.name, self.kind, choice=self.start.choice)

    def _learn(self, event: events.BlockStart | events.BlockStop) -> None:
        self.metadata = event.metadata or self.metadata
        if event.echo is not None:
            self.echo = event.echo if self.echo is None else {**self.echo, **event.echo}

    def _started(self, event: events.BlockStart) -> changes.Changes:
        self._learn(event)
        yield from self.show()

    def _grew(
        self, event: events.TextDelta | events.ThinkingDelta | events.RefusalDelta | events.InputJsonDelta
    ) -> changes.Changes:
        if not event.text or self.kind not in HOLDS[type(event)]:
            return
        if self.shown is not None:
            yield changes.BlockGrow(self.shown, event.text)
        elif self.response.is_all_seen:
            self.waiting.append(event.text)

    def _valued(self, event: events.InputValueDelta) -> changes.Changes:
        if self.kind not in CALLS:
            return
        self.values.append(event)
        if self.is_detailed and self.shown is not None:
            yield changes.ArgumentValue(self.shown, event)

    def _extra(self, event: events.SignatureDelta | events.CitationDelta) -> changes.Changes:
        if self.shown is not None and self.kind in TEXTS:
            yield changes.BlockExtra(self.shown, event)

    def _stopped(self, event: events.BlockStop) -> changes.Changes:
        self._learn(event)
        if self.shown is None and self.kind in CALLS and event.block_type in CALLS:
            self.kind = event.block_type  # deltas without a start do not name who runs the call
        if self.kind in TEXTS or self.response.is_all_seen:
            yield from self.show()
        yield from self.end(None)

    def _aborted(self, event: events.BlockAbort) -> changes.Changes:
        yield from self.end(event.reason or "it was cut")

    def end(self, aborted: str | None) -> changes.Changes:
        """End the block; ``aborted`` is the reason if it is not whole."""
        shown = self.shown
        if shown is None:
            if aborted is None and not self.is_hidden:
                yield from self._whole()
            return
        if self.values:
            yield changes.BlockGrow(shown, encode_lenient(assemble_arguments(self.values)).decode())
        yield changes.BlockClose(shown, aborted)
        if aborted is not None and self.kind in CALLS:
            yield from self.calls.give_up(shown.id, aborted)

    def _whole(self) -> changes.Changes:
        """The change for a block that is shown in one piece: a result, a picture, or a block of an unknown type."""
        metadata = self.metadata
        if isinstance(metadata, ToolResultMetadata):
            if self.start.choice:
                return
            echo = "" if self.echo is None else encode_lenient(self.echo).decode()
            content = "".join(self.waiting) or echo
            yield from self.calls.answer(ToolResult(metadata.tool_use_id, content, name=metadata.name))
        elif self.kind in WHOLES:
            kind = metadata.kind if isinstance(metadata, OpaqueMetadata) else ""
            yield changes.BlockWhole(self._named(f"{self.response.name}.{self.start.index}"), kind, self.echo)


_HANDLERS: dict[type[object], Callable[[OpenBlock, Any], changes.Changes]] = {
    events.BlockStart: OpenBlock._started,
    events.TextDelta: OpenBlock._grew,
    events.ThinkingDelta: OpenBlock._grew,
    events.RefusalDelta: OpenBlock._grew,
    events.InputJsonDelta: OpenBlock._grew,
    events.InputValueDelta: OpenBlock._valued,
    events.SignatureDelta: OpenBlock._extra,
    events.CitationDelta: OpenBlock._extra,
    events.BlockStop: OpenBlock._stopped,
    events.BlockAbort: OpenBlock._aborted,
}
