"""The open parts of one scope of a run: the run itself, or a run inside it; and each block as it is shown.

Theory of operation. A block is kept from its first event to its last, by its index. Its id is made of the run, the
turn, the attempt and the index, so that it is the same for every watcher. A block whose start was missed is shown where
that does no harm: a text without its beginning is still a text, while half of a call's arguments cannot be used. Such a
call is shown with all of its arguments when it starts to run or waits.

All methods that return an iterator yield the changes that follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from rxworker import events
from rxworker.events.arguments import assemble_arguments
from rxworker.events.block import BlockMetadata, OpaqueMetadata, ToolResultMetadata
from rxworker.events.kinds import start_of
from rxworker.messages import JsonObject, StopReason, ToolCall, ToolResult
from rxworker.messages.lenient_json import encode_lenient
from rxworker.state.block import HOLDS, OpenBlocks
from rxworker.views import changes
from rxworker.views.call_tracker import CallTracker

NOT_RUN = "This call was not run."
RETRACTED = "This call was retracted: the response that made it failed."


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
                call.id, call.name, response.name, block_type=self.kind, is_free_text=call.is_free_text
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
            yield from self.calls.give_up(aborted, shown.id)

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
    **dict.fromkeys(HOLDS, OpenBlock._grew),
    events.InputValueDelta: OpenBlock._valued,
    events.SignatureDelta: OpenBlock._extra,
    events.CitationDelta: OpenBlock._extra,
    events.BlockStop: OpenBlock._stopped,
    events.BlockAbort: OpenBlock._aborted,
}


class ScopeTracker:
    """The open blocks, calls and turn of one scope.

    Args:
        calls: The scope's calls.
        run_id: The run's id.
        is_detailed: Whether further choices and single values of arguments are shown.
        sees_all: Whether the watcher receives every response of the scope from its first event on.

    Attributes:
        scope: The scope.
        calls: Its calls.
        response: The response that is being received.
        turn: The number of the open turn; ``None`` between turns.
        has_begun: Whether its start was received.
        stop_reason: Why its last response ended.
    """

    def __init__(self, calls: CallTracker, run_id: str, *, is_detailed: bool, sees_all: bool) -> None:
        self.scope = scope = calls.scope
        self.calls = calls
        self.response = ShownResponse(scope, f"{run_id}.{scope.id}" if scope.id else run_id)
        self.turn: int | None = None
        self.has_begun = False
        self.stop_reason: StopReason | None = None
        self._is_detailed = is_detailed
        self._sees_all = sees_all
        self._adopts = False
        self._open: OpenBlocks[OpenBlock] = OpenBlocks()

    def open_step(self, turn: int) -> changes.Changes:
        """Open a turn, when none is open."""
        self.turn = turn
        yield changes.StepOpen(self.scope, turn)

    def end(self, reason: str, answer: str | None = NOT_RUN) -> changes.Changes:
        """End everything that is open; calls without a result get this placeholder, unless it is ``None``."""
        yield from self._end_blocks(reason)
        if answer is not None:
            yield from self.calls.give_up(answer)
        if self.turn is not None:
            turn, self.turn = self.turn, None
            yield changes.StepClose(self.scope, turn)

    def enter(self, turn: int, attempt: int, *, is_start: bool = False) -> changes.Changes:
        """An event of this attempt follows: end the blocks that another attempt left open."""
        response = self.response
        if self._adopts and not is_start:
            # The blocks of `catch_up` are part of this attempt, whatever its number.
            response.turn, response.attempt = turn, attempt
        self._adopts = False
        if (response.turn, response.attempt) != (turn, attempt):
            yield from self._end_blocks("the response ended before it was whole")
            self._begin(turn, attempt, is_all_seen=is_start or self._sees_all)

    def catch_up(self, seq: int, *, has_started: bool) -> None:
        """Begin a response in its middle: the events up to this record follow as a replay."""
        self._begin(0, 0, seq, is_all_seen=True)
        self.response.has_started = has_started
        self._adopts = True

    def start(self) -> changes.Changes:
        """The response starts.

        A second start retracts the first, while blocks before the first start are kept, as in `ResponseState`.
        """
        response = self.response
        if response.has_started or not response.is_all_seen:
            yield from self.retract("the response began anew")
        self.response.has_started = True

    def retract(self, reason: str) -> changes.Changes:
        """Retract all blocks of the response."""
        yield from self._end_blocks(reason)
        void = self.response
        if not void.text_ids and not void.call_ids:
            return
        yield from self.calls.give_up(RETRACTED)
        yield changes.Retract(self.scope, reason, tuple(void.text_ids), tuple(void.call_ids))
        self._begin(void.turn, void.attempt, void.again + 1, is_all_seen=void.is_all_seen)

    def feed(self, event: events.BlockEvent) -> changes.Changes:
        """Take an event of a block."""
        index = event.index
        for ended, reason in self._open.end_before(event):
            yield from ended.end(reason)
        if (block := self._open.get(index)) is None:
            block = self._open_block(event)
            if not isinstance(event, events.BlockStart | events.BlockStop | events.BlockAbort):
                yield from block.show()
        if (answered := block.answers(event)) is not None:
            yield from self.end_call(answered)
            if index not in self._open:
                # It was the call whose result this is, still open at the same index.
                block = self._open_block(event)
        yield from block.feed(event)
        if isinstance(event, events.BlockStop | events.BlockAbort):
            self._open.pop(index, None)

    def end_call(self, native: str) -> changes.Changes:
        """Close the block of a call that runs or has its result, also where no stop was received."""
        for index, block in list(self._open.items()):
            shown = block.shown
            if shown is not None and shown.call_id == native and not shown.choice:
                del self._open[index]
                yield from block.end(None)

    def find_call(self, call: ToolCall, *, starts: bool = False) -> Generator[changes.Change, None, changes.ShownBlock]:
        """Find a call that waits for its result; it is shown if it was not. ``starts`` if the worker runs it now."""
        yield from self.end_call(call.id)
        found = self.calls.find(call.id)
        if found is None and self.calls.has_answered(call.id):
            found = self.calls.expect(call)
        return found or (yield from self.calls.announce(call, self.response.name, starts=starts))

    def _end_blocks(self, reason: str) -> changes.Changes:
        """Abort all open blocks."""
        for block, _ in self._open.end_all(reason):
            yield from block.end(reason)

    def _begin(self, turn: int, attempt: int, again: int = 0, *, is_all_seen: bool) -> None:
        self.response = ShownResponse(self.scope, self.response.prefix, turn, attempt, again, is_all_seen)

    def _open_block(self, event: events.BlockEvent) -> OpenBlock:
        start = start_of(event)
        block = self._open[event.index] = OpenBlock(
            start, self.response, self.calls, self._is_detailed, start.block_type
        )
        return block
