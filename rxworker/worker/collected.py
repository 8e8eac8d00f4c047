"""The text blocks and tool calls of a run, folded when they are read."""

from __future__ import annotations

from functools import cached_property

from rxworker.hub.history import History
from rxworker.timeline import TextBlockCollector, Timeline, ToolCallCollector

_LONG = 4_096
"""The number of records of a run whose history is not kept."""


class Collected:
    """The built-in collectors, which are made and fold the records of the last run when they are read.

    A run whose collectors are not read costs nothing. The history of a long run is folded at its end, so that little is
    kept until the next one begins.
    """

    def __init__(self) -> None:
        self._history: History | None = None
        self._seq = 0

    @cached_property
    def text_collector(self) -> TextBlockCollector:
        """The text blocks."""
        return TextBlockCollector(self._read)

    @cached_property
    def tool_call_collector(self) -> ToolCallCollector:
        """The tool calls."""
        return ToolCallCollector(self._read)

    @cached_property
    def _timeline(self) -> Timeline:
        timeline = Timeline(ends_with_stream=True)
        timeline.on_text_block(self.text_collector)
        timeline.on_tool_use_block(self.tool_call_collector)
        return timeline

    def begin(self, history: History, first_seq: int) -> None:
        """Another run begins: forget the records of the last one. What was stored of this one is not collected."""
        self._history, self._seq = history, history.last_seq
        if "_timeline" in self.__dict__:  # something was collected
            self.text_collector.clear()  # which reads what is new
            self.tool_call_collector.clear()
            self._timeline.abort_current_block()
        self._seq = first_seq - 1

    def end(self) -> None:
        """The run has ended: read the rest of a long history, and forget it."""
        history = self._history
        if history is not None and history.last_seq - self._seq > _LONG:
            history.pack()  # as the hub will, so that the deltas are merged once
            self._read()
            self._history = None

    def _read(self) -> None:
        """Give the records that are new since the last reading to the collectors."""
        history = self._history
        if history is None or history.last_seq == self._seq:
            return
        records = history.merged(self._seq)
        self._seq = history.last_seq
        self._timeline.dispatch_many([record.event for record in records if not record.path])
