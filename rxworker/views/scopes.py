"""The open parts of one scope of a run: the run itself, or a run inside it.

All methods that return an iterator yield the changes that follow.
"""

from __future__ import annotations

from rxworker.events import BlockAbort, BlockEvent, BlockStart, BlockStop
from rxworker.events.kinds import start_of
from rxworker.messages import StopReason
from rxworker.state.open_blocks import OpenBlocks
from rxworker.views.block_tracker import OpenBlock, ShownResponse
from rxworker.views.call_tracker import CallTracker
from rxworker.views.changes import Changes, Retract, Scope, StepClose, StepOpen

NOT_RUN = "This call was not run."
RETRACTED = "This call was retracted: the response that made it failed."


class ScopeTracker:
    """The open blocks, calls and turn of one scope.

    Args:
        scope: The scope.
        run_id: The run's id.
        calls: The scope's calls.
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

    def __init__(
        self, scope: Scope, run_id: str, calls: CallTracker, *, is_detailed: bool = False, sees_all: bool = False
    ) -> None:
        self.scope = scope
        self.calls = calls
        self.response = ShownResponse(scope, f"{run_id}.{scope.id}" if scope.id else run_id)
        self.turn: int | None = None
        self.has_begun = False
        self.stop_reason: StopReason | None = None
        self._is_detailed = is_detailed
        self._sees_all = sees_all
        self._adopts = False
        self._open: OpenBlocks[OpenBlock] = OpenBlocks()

    def open_step(self, turn: int) -> Changes:
        """Open a turn, when none is open."""
        self.turn = turn
        yield StepOpen(self.scope, turn)

    def end(self, reason: str, answer: str | None = NOT_RUN) -> Changes:
        """End everything that is open; calls without a result get this placeholder, unless it is ``None``."""
        yield from self._end_blocks(reason)
        if answer is not None:
            yield from self.calls.give_up_all(answer)
        if self.turn is not None:
            turn, self.turn = self.turn, None
            yield StepClose(self.scope, turn)

    def enter(self, turn: int, attempt: int, *, is_start: bool = False) -> Changes:
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

    def start(self) -> Changes:
        """The response starts.

        A second start retracts the first, while blocks before the first start are kept, as in `ResponseState`.
        """
        response = self.response
        if response.has_started or not response.is_all_seen:
            yield from self.retract("the response began anew")
        self.response.has_started = True

    def retract(self, reason: str) -> Changes:
        """Retract all blocks of the response."""
        yield from self._end_blocks(reason)
        void = self.response
        if not void.text_ids and not void.call_ids:
            return
        yield from self.calls.give_up_all(RETRACTED)
        yield Retract(self.scope, reason, tuple(void.text_ids), tuple(void.call_ids))
        self._begin(void.turn, void.attempt, void.again + 1, is_all_seen=void.is_all_seen)

    def feed(self, event: BlockEvent) -> Changes:
        """Take an event of a block."""
        index = event.index
        for ended, reason in self._open.end_before(event):
            yield from ended.end(reason)
        block = self._open.get(index)
        if block is None:
            block = self._open_block(event)
            if not isinstance(event, BlockStart | BlockStop | BlockAbort):
                yield from block.show()
        if (answered := block.answers(event)) is not None:
            yield from self.end_call(answered)
            if index not in self._open:
                # It was the call whose result this is, still open at the same index.
                block = self._open_block(event)
        yield from block.feed(event)
        if isinstance(event, BlockStop | BlockAbort):
            self._open.pop(index, None)

    def end_call(self, native: str) -> Changes:
        """Close the block of a call that runs or has its result, also where no stop was received."""
        for index, block in list(self._open.items()):
            if block.is_shown_call(native):
                del self._open[index]
                yield from block.end(None)

    def _end_blocks(self, reason: str) -> Changes:
        """Abort all open blocks."""
        for block, _ in self._open.end_all(reason):
            yield from block.end(reason)

    def _begin(self, turn: int, attempt: int, again: int = 0, *, is_all_seen: bool) -> None:
        self.response = ShownResponse(self.scope, self.response.prefix, turn, attempt, again, is_all_seen)

    def _open_block(self, event: BlockEvent) -> OpenBlock:
        start = start_of(event)
        block = self._open[event.index] = OpenBlock(
            start, self.response, self.calls, self._is_detailed, start.block_type
        )
        return block
