"""The text blocks and tool calls of a run, folded when they are read."""

from __future__ import annotations

from rxworker.timeline import TextBlockCollector, Timeline, ToolCallCollector
from rxworker.worker.journal import Journal


class Collected:
    """The built-in collectors, which fold the records of the last run when they are read, and when it ends: a delta costs them nothing."""

    def __init__(self) -> None:
        self.text_collector = TextBlockCollector(self._read)
        self.tool_call_collector = ToolCallCollector(self._read)
        self._journal: Journal | None = None
        self._seq = 0
        self._timeline = Timeline(ends_with_stream=True)
        self._timeline.on_text_block(self.text_collector)
        self._timeline.on_tool_use_block(self.tool_call_collector)

    def begin(self, journal: Journal, first_seq: int) -> None:
        """Another run begins: forget those of the last one. What was stored of it is not collected."""
        self.text_collector.clear()
        self.tool_call_collector.clear()
        self._journal, self._seq = journal, first_seq - 1
        self._timeline.abort_current_block()

    def end(self) -> None:
        """The run has ended: keep what its responses contained, and not its records."""
        self._read()
        self._journal = None

    def _read(self) -> None:
        """Give the records that are new since the last reading to the collectors."""
        journal = self._journal
        if journal is None or journal.hub.last_seq == self._seq:
            return
        entries = [*journal.hub.history.unseen(self._seq)]
        self._seq = journal.hub.last_seq
        for entry in entries:
            if not entry.path:
                self._timeline.dispatch_many((entry.event,))
