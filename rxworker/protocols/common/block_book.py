"""The open blocks of one scope. Every method returns the changes that follow.

Theory of operation. A block is kept from its first event to its last, by its index. Its name is made of the run, the turn,
the attempt and the index, so that it is the same for every watcher.
"""

from __future__ import annotations

from collections.abc import Iterator

from rxworker.events import BlockAbort, BlockEvent, BlockStart, BlockStop
from rxworker.events.kinds import start_of
from rxworker.protocols.common.call_book import CallBook
from rxworker.protocols.common.changes import Change, Scope, TakeBack
from rxworker.protocols.common.open_block import OpenBlock
from rxworker.protocols.common.response import Response

TAKEN_BACK = "This call was taken back: the response that made it failed."


class BlockBook:
    """The open blocks of one scope.

    Args:
        scope: Whose blocks.
        prefix: What their names begin with.
        calls: Where tool calls are kept.
    """

    def __init__(self, scope: Scope, prefix: str, calls: CallBook) -> None:
        self._scope = scope
        self._prefix = prefix
        self._calls = calls
        self._adopts = False
        self._open: dict[int, OpenBlock] = {}
        self._response = Response(scope, prefix)

    @property
    def response(self) -> str:
        """The name of the response that is being received."""
        return self._response.name

    def enter(self, turn: int, attempt: int, *, is_start: bool) -> Iterator[Change]:
        """An event of this attempt comes; what another attempt has left open ends."""
        response = self._response
        if self._adopts and not is_start:
            # What was caught up with is part of this attempt, whatever its number.
            response.turn, response.attempt = turn, attempt
        self._adopts = False
        if (response.turn, response.attempt) != (turn, attempt):
            yield from self.end("the response ended before it was whole")
            self._begin(turn, attempt, is_all_seen=is_start)

    def catch_up(self, seq: int) -> None:
        """A response is under way, and what it said until this record is about to come."""
        self._begin(0, 0, seq, is_all_seen=True)
        self._adopts = True

    def take_back(self, reason: str) -> Iterator[Change]:
        """What the response has said is void."""
        yield from self.end(reason)
        void = self._response
        if not void.said and not void.asked:
            return
        yield from self._calls.give_up_all(TAKEN_BACK)
        yield TakeBack(self._scope, reason, tuple(void.said), tuple(void.asked))
        self._begin(void.turn, void.attempt, void.again + 1, is_all_seen=void.is_all_seen)

    def note_gap(self) -> None:
        """Deltas are missing."""
        self._response.is_all_seen = False

    def feed(self, event: BlockEvent) -> Iterator[Change]:
        """An event of a block."""
        index = event.index
        block = self._open.get(index)
        if block is not None and isinstance(event, BlockStart) and block.kind != event.block_type:
            yield from self._abort(index, "another block began in its place")
            block = None
        if block is None:
            block = self._open[index] = OpenBlock(start_of(event), self._response, self._calls)
            if not isinstance(event, BlockStart | BlockStop | BlockAbort):
                yield from block.show()
        answered = block.answers(event)
        if answered is not None:
            yield from self.end_call(answered)
        yield from block.feed(event)
        if isinstance(event, BlockStop | BlockAbort):
            self._open.pop(index, None)

    def end_call(self, native: str) -> Iterator[Change]:
        """A call runs, or has its result: its block is whole, whether that was said or not."""
        for index, block in list(self._open.items()):
            if block.is_shown_call(native):
                del self._open[index]
                yield from block.end(None)

    def end(self, reason: str) -> Iterator[Change]:
        """All open blocks end, unfinished."""
        for index in list(self._open):
            yield from self._abort(index, reason)

    def _begin(self, turn: int, attempt: int, again: int = 0, *, is_all_seen: bool) -> None:
        self._response = Response(
            self._scope, self._prefix, turn=turn, attempt=attempt, again=again
        )
        self._response.is_all_seen = is_all_seen

    def _abort(self, index: int, reason: str) -> Iterator[Change]:
        yield from self._open.pop(index).end(reason)


__all__ = ["BlockBook"]
