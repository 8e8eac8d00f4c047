"""Which tools are running: what counts as a tool that has ended. Pure.

A call that was refused, skipped or cancelled before its tool has started ends as well, and no tool has run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from rxworker.events import ToolStart, ToolStop

RunningTool: TypeAlias = tuple[tuple[str, ...], int, str]
"""The path of the run of a call, the place of the call, and its id."""


def step_tools(
    running: tuple[RunningTool, ...], path: tuple[str, ...], events: Sequence[ToolStart | ToolStop]
) -> tuple[tuple[RunningTool, ...], list[ToolStop]]:
    """The tools that run after some events, and the ends of tools among these.

    >>> from rxworker.messages import ToolCall
    >>> running, _ = step_tools((), (), [ToolStart(ToolCall("call_1", "look", {}))])
    >>> [len(step_tools(running, (), [ToolStop(call_id=name)])[1]) for name in ("call_1", "call_2")]
    [1, 0]
    """
    counts: dict[RunningTool, int] = {}  # two calls may have one id, and old records have no places
    for tool in running:
        counts[tool] = counts.get(tool, 0) + 1
    ended: list[ToolStop] = []
    for event in events:
        if isinstance(event, ToolStart):
            tool = path, event.place, event.call.id
            counts[tool] = counts.get(tool, 0) + 1
        elif counts.get(tool := (path, event.place, event.call_id), 0):
            counts[tool] -= 1
            ended.append(event)
    left: list[RunningTool] = []
    for tool, count in counts.items():
        left += [tool] * count
    return tuple(left), ended
