"""Which blocks are open, and what ends them.

The rule that the timeline, the operators, the views and the state of a response share. Pure.

Theory of operation. A block is known by its index. The first event of an index opens its block, a stop or an abort ends
it, and then the index may open again. Three events end blocks beside their own stop or abort, as if an abort of each
came just before: a start at the index of an open block; a ``Status(STARTED)`` that is not the first status of the
response, which begins the response anew; a request that begins or is retracted. What came before the first status of a
response belongs to it.
"""

from __future__ import annotations

from typing import TypeVar

from rxworker.events import AttemptRetract, AttemptStart, BlockStart, Event, ResponseStatus, Status

B = TypeVar("B")

STARTED_AT_ITS_INDEX = "another block has started at its index"
BEGUN_ANEW = "the response has begun anew"
REQUESTED_AGAIN = "the response is requested again"

BORDERS: frozenset[type[object]] = frozenset({BlockStart, Status, AttemptStart, AttemptRetract})
"""The events that may end other blocks. `OpenBlocks.end_before` has nothing to do for others."""


class OpenBlocks(dict[int, B]):
    """The open blocks by index, in the order in which they opened.

    Its owner adds each, and removes it at its stop or abort.

    >>> from rxworker.events import BlockType
    >>> blocks = OpenBlocks({0: "the first"})
    >>> list(blocks.end_before(BlockStart(0, BlockType.TEXT)))
    [('the first', 'another block has started at its index')]
    >>> blocks
    {}
    """

    has_status = False

    def begin(self) -> None:
        """Another response begins: its first status is still to come."""
        self.has_status = False

    def end_before(self, event: Event) -> list[tuple[B, str]]:
        """Remove the blocks that end before this event, and return each with the reason."""
        if isinstance(event, BlockStart):
            index = event.index
            return [(self.pop(index), STARTED_AT_ITS_INDEX)] if index in self else []
        reason = self.begins_anew(event)
        return [] if reason is None else self.end_all(reason)

    def begins_anew(self, event: Event) -> str | None:
        """Why nothing of the response so far counts after this event; ``None`` where the response goes on.

        Call it once for each event.
        """
        match event:
            case Status(status=status):
                again, self.has_status = self.has_status, True
                return BEGUN_ANEW if again and status is ResponseStatus.STARTED else None
            case AttemptStart():
                self.begin()
                return REQUESTED_AGAIN
            case AttemptRetract(reason=reason):
                self.begin()
                return reason
            case _:
                return None

    def end_all(self, reason: str) -> list[tuple[B, str]]:
        """Remove all blocks, and return each with the reason."""
        ended = [(block, reason) for block in self.values()]
        self.clear()
        return ended
