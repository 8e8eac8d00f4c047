"""The events of the blocks that a decoder opens: each has an index and an id of its own, and ends exactly once. Pure.

A call that the server sends twice in one response is made once. Gateways send a call again: under the next index, whole
after its pieces, or at the end of the response. It would be run and paid for twice. Calls with the id of the server,
the name and the arguments of an earlier one are the same call.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rxworker.events import (
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    InputJsonDelta,
    InputValueDelta,
    Opaque,
    ResponseEvent,
    ResponseStatus,
    Status,
    ToolUseMetadata,
)
from rxworker.events.arguments import whole_arguments
from rxworker.events.block import BlockMetadata
from rxworker.events.kinds import Deltas, flatten, is_block_event
from rxworker.events.meta import TRUNCATED
from rxworker.messages import JsonObject, StopReason
from rxworker.messages.content import AGAIN
from rxworker.providers.failure import Failure

Parts: TypeAlias = Sequence[ResponseEvent | Deltas[ResponseEvent]]
REPEATED = "repeated_call"
"""The kind of the `Opaque` that stands for a call which was sent again."""


class Calls(Struct, eq=False):
    """The calls of one response.

    Theory of operation. Whether a call is sent again is known when its arguments are whole. So from the start of a call
    with the id and the name of an earlier one, everything is held back until both have ended. Then the later one is
    left out, or what was held back goes on as it came.

    The first argument are the blocks of the response that are open, by their indexes.
    """

    _open: Mapping[int, BlockStart]
    _ids: dict[str, int] = {}  # how often each came
    _like: dict[tuple[int, str, str], list[int]] = {}  # the blocks by choice, id and name
    _suspects: dict[int, list[int]] = {}  # what was begun again, with the blocks before it
    _passed: list[Parts] = []
    _held: list[ResponseEvent] = []

    def begin(self, call: ToolUseMetadata, index: int, choice: int) -> ToolUseMetadata:
        """Note a call that begins.

        Returns:
            It under its id, or under a numbered one if an earlier call of the response has it: results are matched by
            ids.
        """
        like = self._like.setdefault((choice, call.id, call.name), [])
        if like:
            self._suspects[index] = [*like]
        like.append(index)
        while (number := self._ids.get(call.id, 0) + 1) > 1:
            self._ids[call.id] = number
            call = replace(call, id=f"{call.id}{AGAIN}{number}")
        self._ids[call.id] = number
        return call

    def begin_again(self) -> None:
        """The response begins anew: no call of before is sent again."""
        self._ids, self._like, self._suspects, self._passed = {}, {}, {}, []

    def once(self, parts: Parts) -> Parts:
        """What goes on of the events that a read brought."""
        if not (self._suspects or self._held):
            self._passed.append(parts)
            return parts
        self._held += flatten(parts)
        blocks = {*self._suspects, *chain(*self._suspects.values())}
        if not blocks.isdisjoint(self._open):
            return ()
        held, self._held = self._held, []
        self._passed.append(held)
        whole = _whole_calls(event for read in self._passed for event in flatten(read))
        again = {
            index
            for index, before in self._suspects.items()
            if index in whole and whole[index] in [whole.get(one) for one in before]
        }
        self._suspects = {}
        return [*_without(again, held)]


def _whole_calls(events: Iterable[ResponseEvent]) -> dict[int, str]:
    """The arguments of the calls that ended well, in one form, by their blocks."""
    deltas: dict[int, list[InputJsonDelta | InputValueDelta]] = {}
    whole: dict[int, str] = {}
    for event in events:
        if isinstance(event, InputJsonDelta | InputValueDelta):
            deltas.setdefault(event.index, []).append(event)
        elif type(event) is BlockStop:
            whole[event.index] = json.dumps(whole_arguments(deltas.get(event.index, ())), sort_keys=True)
    return whole


def _without(again: Set[int], events: Iterable[ResponseEvent]) -> Iterator[ResponseEvent]:
    """The events without the calls of these blocks, each of which is noted where it began."""
    for event in events:
        if not is_block_event(event) or event.index not in again:
            yield event
        elif isinstance(event, BlockStart) and isinstance(event.metadata, ToolUseMetadata):
            yield Opaque(REPEATED, {"id": event.metadata.id.partition(AGAIN)[0], "name": event.metadata.name})


TOOL_USE = BlockType.TOOL_USE
CUT = Failure(
    "the stream ended before the response was complete; the connection was probably cut", TRUNCATED, TRUNCATED
)


class BlockFactory(Struct, eq=False):
    """Makes the start, the stop and the abort of every block of a response.

    Attributes:
        calls: Those of its tools, once one has begun.

    >>> blocks = BlockFactory()
    >>> start = blocks.start(BlockType.TEXT)
    >>> blocks.stop(start.index).block_type
    <BlockType.TEXT: 'text'>
    >>> blocks.abort_all("cut")
    []
    """

    _open: dict[int, BlockStart] = {}
    _next: int = 0
    calls: Calls | None = None

    @property
    def is_used(self) -> bool:
        """Whether a block was opened."""
        return self._next > 0

    def start(
        self,
        block_type: BlockType,
        metadata: BlockMetadata | None = None,
        echo: JsonObject | None = None,
        *,
        choice: int = 0,
        wish: int = 0,
    ) -> BlockStart:
        """Open a block under the index wished for, or a higher one if that has been used."""
        index = wish if wish > self._next else self._next
        if block_type is TOOL_USE and type(metadata) is ToolUseMetadata:
            calls = self.calls = self.calls or Calls(self._open)
            metadata = calls.begin(metadata, index, choice)
        self._next = index + 1
        start = BlockStart(index, block_type, metadata, echo, choice)
        self._open[index] = start
        return start

    def stop(self, index: int, stop_reason: StopReason | None = None, echo: JsonObject | None = None) -> BlockStop:
        """Close a block that is whole."""
        start = self._open.pop(index)
        return BlockStop(index, start.block_type, stop_reason, echo, start.metadata)

    def abort(self, index: int, reason: str) -> BlockAbort:
        """Close a block that is not."""
        return BlockAbort(index, self._open.pop(index).block_type, reason)

    def abort_all(self, reason: str) -> list[ResponseEvent]:
        """Close everything, in the order in which it was opened."""
        return [self.abort(index, reason) for index in list(self._open)]

    def begin_again(self, reason: str) -> list[ResponseEvent]:
        """Close everything; the next block is the first one of the response."""
        events = self.abort_all(reason)
        self._next = 0
        if self.calls is not None:
            self.calls.begin_again()
        return events

    def fail(self, failure: Failure, stop: StopReason | None = None) -> list[ResponseEvent]:
        """The end of a response that failed: blocks aborted, one error, one status."""
        return [*self.abort_all(failure.message), failure.event(), Status(ResponseStatus.FAILED, stop_reason=stop)]
