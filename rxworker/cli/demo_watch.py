"""The three watchers of the demonstration: each has its own subscription, its own view of the run, and its own pace."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from reactivex import abc
from reactivex import operators as ops

from rxworker.events import BlockType, Record
from rxworker.ui.clean import one_line
from rxworker.ui.describe import describe_call, describe_result, plural
from rxworker.views import (
    BlockClose,
    BlockView,
    CallResult,
    CallStart,
    RunView,
    StepOpen,
    ViewItem,
    ViewStep,
)
from rxworker.worker import Run

WATCHERS = 3
KEPT = 200
"""How many items a view keeps: more than any screen shows."""
VOICES = {
    BlockType.THINKING: "thinking",
    BlockType.TEXT: "text",
    BlockType.REFUSAL: "text",
}


def _view() -> RunView:
    return RunView(keep=KEPT)


@dataclass
class Views:
    """The views of the watchers.

    Attributes:
        text: For the text. Its watcher subscribes to the records.
        timeline: For the timeline. Its watcher is an ``async for`` at its own pace.
        usage: For the numbers. Its watcher maps the records.
        seen: How many records each watcher has received.
    """

    text: RunView = field(default_factory=_view)
    timeline: RunView = field(default_factory=_view)
    usage: RunView = field(default_factory=_view)
    seen: dict[str, int] = field(default_factory=dict[str, int])

    def count(self, watcher: str) -> None:
        """Count one more record for a watcher."""
        self.seen[watcher] = self.seen.get(watcher, 0) + 1


def watch_text(run: Run, views: Views) -> abc.DisposableBase:
    """Follow the text with a plain subscription: each record is pushed as it comes."""

    def on_next(record: Record) -> None:
        views.text.step(record)
        views.count("text")

    return run.subscribe(on_next, _ignore)


def watch_usage(run: Run, views: Views) -> abc.DisposableBase:
    """Follow the numbers with an operator: ``map`` makes a step of each record."""

    def on_next(_: ViewStep) -> None:
        views.count("usage")

    return run.pipe(ops.map(views.usage.step)).subscribe(on_next, _ignore)


async def watch_timeline(run: Run, views: Views, pause: float = 0.0) -> None:
    """Follow the timeline with a loop that rests after each record. It falls behind, and delays no other watcher.

    Args:
        run: What to follow.
        views: Holds the view.
        pause: Seconds of rest.
    """
    async for record in run:
        views.timeline.step(record)
        views.count("timeline")
        if pause:
            await asyncio.sleep(pause)


def summary_line(view: RunView, watchers: int) -> str:
    """The run in one line.

    >>> summary_line(RunView(), 3)
    'One run: 0 turns, 0 tool calls, 0 tokens, 0.0 s; 3 watchers'
    """
    state = view.state
    parts = (
        plural(state.turns, "turn"),
        plural(state.tool_calls, "tool call"),
        plural(state.usage.total_tokens, "token"),
        f"{view.seconds:.1f} s",
    )
    return f"One run: {', '.join(parts)}; {plural(watchers, 'watcher')}"


class PlainAccount:
    """Takes the records of a run, and returns a line for each part that becomes complete: the demonstration where nothing can be drawn over.

    >>> from rxworker.events import TurnStart
    >>> account = PlainAccount()
    >>> account.feed(Record(seq=1, run="r", turn=1, attempt=1, time=0.0, event=TurnStart()))
    ['turn 1']
    """

    def __init__(self) -> None:
        self._view = _view()

    def feed(self, record: Record) -> list[str]:
        """Take the next record; return the lines that it completes."""
        return list(self._lines(self._view.step(record)))

    def _lines(self, step: ViewStep) -> Iterator[str]:
        for change in step.changes:
            match change:
                case StepOpen(scope=scope, turn=turn) if not scope.path:
                    yield f"turn {turn}"
                case BlockClose(block=block, aborted=None) if block.block_type in VOICES:
                    voice = VOICES[block.block_type]
                    yield f"  {voice:<9} {one_line(_text_of(step.items, block.id))}"
                case CallStart(call=call):
                    yield f"  calls     {describe_call(call)}"
                case CallResult(result=result, is_placeholder=False):
                    yield f"  hears     {describe_result(result)}"
                case _:
                    pass


def _text_of(items: list[ViewItem], block_id: str) -> str:
    blocks = (item for item in items if isinstance(item, BlockView))
    return next((item.text for item in blocks if item.block.id == block_id), "")


def _ignore(_error: Exception) -> None:
    """The error is raised where the run is awaited."""
