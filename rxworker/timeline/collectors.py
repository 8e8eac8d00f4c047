"""Handlers that gather what blocks come to.

They ask for the very type of an event, since ``isinstance`` takes five times as long if it is false.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Generic, TypeVar

from rxworker.events import InputJsonDelta, InputValueDelta, TextDelta
from rxworker.events.arguments import assemble_arguments, parse_arguments
from rxworker.events.deltas import Deltas
from rxworker.messages import JsonObject, ToolCall
from rxworker.timeline.kind import (
    TextBlockEvent,
    TextBlockStart,
    TextBlockStop,
    ToolUseBlockEvent,
    ToolUseBlockStop,
)

C = TypeVar("C")

_text_of = attrgetter("text")


class _Collector(Generic[C]):
    """What was collected, safe to be taken by one thread while another collects."""

    def __init__(self) -> None:
        self._collected: list[C | partial[C]] = []  # a partial makes the item when it is read
        self._lock = threading.Lock()
        self._before = 0  # how many of them are from responses before this one

    def collected(self) -> list[C]:
        """What was collected so far; it stays."""
        with self._lock:
            collected = list(self._collected)
        return [_made(item) for item in collected]

    def take_collected(self) -> list[C]:
        """What was collected so far; it is the caller's now, and the collector begins anew."""
        with self._lock:
            taken, self._collected, self._before = self._collected, [], 0
        return [_made(item) for item in taken]

    def clear(self) -> None:
        """Forget what was collected."""
        with self._lock:
            self._collected, self._before = [], 0

    def begin_response(self) -> None:
        """Another response begins: what is collected so far stays."""
        with self._lock:
            self._before = len(self._collected)

    def on_retract(self, reason: str, /) -> None:  # noqa: ARG002 - part of the protocol
        """Drop what was collected of the retracted response, except items that were taken already."""
        with self._lock:
            del self._collected[self._before :]

    def _add(self, item: C | partial[C]) -> None:
        with self._lock:
            self._collected.append(item)


def _made(item: Any) -> Any:
    return item() if item.__class__ is partial else item


class TextBlockCollector(_Collector[str]):
    """Gathers the text of each text block when it stops. Empty blocks and aborted ones give none.

    >>> from rxworker.events import BlockStop, BlockType
    >>> from rxworker.timeline.timeline import Timeline
    >>> timeline, texts = Timeline(), TextBlockCollector()
    >>> registration = timeline.on_text_block(texts)
    >>> timeline.dispatch(TextDelta(0, "hel")); timeline.dispatch(TextDelta(0, "lo"))
    >>> timeline.dispatch(BlockStop(0, BlockType.TEXT))
    >>> texts.collected()
    ['hello']
    """

    def has_content(self) -> bool:
        """Whether a text waits to be taken."""
        return bool(self._collected)

    def scope(self) -> list[str]:
        """The pieces of one block's text."""
        return []

    def on_event(self, scope: list[str], event: TextBlockEvent, /) -> None:
        """Take an event of a text block."""
        if type(event) is TextDelta:
            scope.append(event.text)
        elif type(event) is TextBlockStart:
            scope.clear()
        elif type(event) is TextBlockStop:
            text = "".join(scope)
            if text:
                self._add(text)

    def gather(self, scope: list[str], deltas: Deltas[Any], /) -> None:
        """Take several deltas of a text block."""
        scope.extend(deltas.texts)


class ToolCallCollector(_Collector[ToolCall]):
    """Gathers each tool call when its block stops. Aborted blocks give none.

    The input of a call is an object; a call without any text has the input ``{}``. Where the text is no JSON object, the
    input is the text: that distinguishes a call whose arguments cannot be read.

    >>> from rxworker.events import BlockStart, BlockStop, BlockType, ToolUseMetadata
    >>> from rxworker.timeline.timeline import Timeline
    >>> timeline, calls = Timeline(), ToolCallCollector()
    >>> registration = timeline.on_tool_use_block(calls)
    >>> timeline.dispatch(BlockStart(0, BlockType.TOOL_USE, ToolUseMetadata("1", "look")))
    >>> timeline.dispatch(InputJsonDelta(0, '{"city": "Oslo"}'))
    >>> timeline.dispatch(BlockStop(0, BlockType.TOOL_USE))
    >>> calls.take_collected()
    [ToolCall(id='1', name='look', input={'city': 'Oslo'}, echo=None)]
    """

    def has_pending_calls(self) -> bool:
        """Whether a call waits to be taken."""
        return bool(self._collected)

    def scope(self) -> list[InputJsonDelta | InputValueDelta]:
        """The pieces of one call's arguments."""
        return []

    def on_event(
        self, scope: list[InputJsonDelta | InputValueDelta], event: ToolUseBlockEvent, /
    ) -> None:
        """Take an event of a tool call."""
        if type(event) is InputJsonDelta or type(event) is InputValueDelta:
            scope.append(event)
        elif type(event) is ToolUseBlockStop:
            self._add(partial(_call_of, event, scope))

    def gather(
        self,
        scope: list[InputJsonDelta | InputValueDelta],
        deltas: Deltas[Any],
        /,
    ) -> None:
        """Take several pieces of a tool call's arguments."""
        scope.append(InputJsonDelta(deltas.like.index, "".join(deltas.texts)))


def _call_of(
    event: ToolUseBlockStop, scope: Sequence[InputJsonDelta | InputValueDelta]
) -> ToolCall:
    return ToolCall(event.id, event.name, _arguments(scope, event.is_free_text))


def _arguments(
    deltas: Sequence[InputJsonDelta | InputValueDelta], is_free_text: bool
) -> JsonObject | str:
    texts = [delta.text for delta in deltas if isinstance(delta, InputJsonDelta)]
    if len(texts) < len(deltas):
        return assemble_arguments([d for d in deltas if isinstance(d, InputValueDelta)])
    text = "".join(texts)
    return text if is_free_text else parse_arguments(text)
