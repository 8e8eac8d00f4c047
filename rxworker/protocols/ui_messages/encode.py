"""From the records of a run to the parts of a UI Message Stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rxworker.events import Record
from rxworker.protocols.ui_messages.blocks import BlockParts
from rxworker.protocols.ui_messages.calls import CallParts
from rxworker.protocols.ui_messages.inside import Inside
from rxworker.protocols.ui_messages.message import MessageParts
from rxworker.protocols.ui_messages.notes import note
from rxworker.protocols.ui_messages.wire import UiMessagePart
from rxworker.state import RunState
from rxworker.views import (
    BlockClose,
    BlockExtra,
    BlockGrow,
    BlockOpen,
    BlockWhole,
    CallProgress,
    CallResult,
    CallStart,
    Change,
    Note,
    Retract,
    ScopeClose,
    ScopeOpen,
    StepClose,
    StepOpen,
    Tracker,
    ViewAbort,
    ViewBegin,
    ViewCut,
    ViewFinish,
    ViewPause,
)

Encode = Callable[[Any], Iterator[UiMessagePart]]


class UiMessageEncoder:
    """Takes the records of one run and returns parts of one message; any records, and always parts that ``useChat`` accepts.

    Args:
        message_id: The message's id. For a run that was resumed, that of the message that it goes on with.
        can_reset: Whether the client knows ``reset-step``, which takes back what a failed response has said. Without it, a data part
            says so.

    Example:
        >>> from rxworker.events import TextDelta
        >>> encoder = UiMessageEncoder("message-1")
        >>> record = Record(seq=1, run="run-1", turn=1, attempt=1, time=0.0, event=TextDelta(0, "hi"))
        >>> [type(part).__name__ for part in encoder.feed(record)]
        ['Start', 'StartStep', 'TextStart', 'TextDeltaPart']
        >>> [type(part).__name__ for part in encoder.close("the watcher left")]
        ['TextEnd', 'FinishStep', 'Abort', 'ErrorPart']
    """

    def __init__(self, message_id: str | None = None, *, can_reset: bool = True) -> None:
        calls = CallParts()
        message = MessageParts(message_id, calls, can_reset=can_reset)
        self._tracker = Tracker()
        self._inside = Inside()
        self._table = _table(message, BlockParts(calls), calls)

    @property
    def is_over(self) -> bool:
        """Whether the last part has been returned."""
        return self._tracker.is_over

    def feed(self, record: Record) -> list[UiMessagePart]:
        """The parts that a record makes, which may be none."""
        return self._encoded(self._tracker.feed(record))

    def catch_up(self, state: RunState, run: str) -> list[UiMessagePart]:
        """The parts of what is being said; what was said before is in the client's messages, or replayed to it.

        Args:
            state: What the records so far have come to.
            run: The run's id.
        """
        return self._encoded(self._tracker.catch_up(state, run))

    def close(self, reason: str) -> list[UiMessagePart]:
        """There are no more records: close what is open and say why. Nothing, if the run has told of its end."""
        return self._encoded(self._tracker.close(reason))

    def _encoded(self, changes: list[Change]) -> list[UiMessagePart]:
        return [part for change in changes for part in self._parts(change)]

    def _parts(self, change: Change) -> Iterator[UiMessagePart]:
        if _is_inside(change):
            return self._inside.feed(change)
        return self._table[type(change)](change)


def _is_inside(change: Change) -> bool:
    """Whether it is told by a run inside, and would be taken for the run's own."""
    match change:
        case ScopeOpen() | ScopeClose():
            return True
        case BlockOpen() | BlockGrow() | BlockExtra() | BlockClose() | BlockWhole():
            return bool(change.block.scope.id)
        case CallStart() | CallProgress() | CallResult():
            return bool(change.scope.id)
        case _:
            return False


def _table(
    message: MessageParts, blocks: BlockParts, calls: CallParts
) -> dict[type[object], Encode]:
    """From changes to what encodes them."""
    return {
        ViewBegin: message.begin,
        ViewFinish: message.finish,
        ViewPause: message.pause,
        ViewAbort: message.abort,
        ViewCut: message.cut,
        StepOpen: message.open_step,
        StepClose: message.close_step,
        Retract: message.take_back,
        BlockOpen: blocks.open,
        BlockGrow: blocks.grow,
        BlockExtra: blocks.extra,
        BlockClose: blocks.close,
        BlockWhole: blocks.whole,
        CallStart: calls.start,
        CallProgress: calls.progress,
        CallResult: calls.result,
        Note: note,
    }


__all__ = ["UiMessageEncoder"]
