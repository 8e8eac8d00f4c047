"""Which tools are running: what counts as a tool that has ended. Pure.

A call that was refused, skipped or cancelled before its tool has started ends as well, and no tool has run.
"""

from __future__ import annotations

from typing import TypeAlias

from rxworker.events import ToolStart, ToolStop

RunningTool: TypeAlias = tuple[tuple[str, ...], int, str]
"""The path of the run of a call, the place of the call, and its id."""


def step_tools(
    running: tuple[RunningTool, ...], path: tuple[str, ...], event: ToolStart | ToolStop
) -> tuple[tuple[RunningTool, ...], bool]:
    """The tools that run after an event, and whether one of them has ended with it.

    >>> from rxworker.messages import ToolCall
    >>> running, _ = step_tools((), (), ToolStart(ToolCall("call_1", "look", {})))
    >>> step_tools(running, (), ToolStop(call_id="call_1")), step_tools(running, (), ToolStop(call_id="call_2"))[1]
    (((), True), False)
    """
    if isinstance(event, ToolStart):
        return (*running, (path, event.place, event.call.id)), False
    tool = path, event.place, event.call_id
    if tool not in running:
        return running, False
    at = running.index(tool)  # two calls may have one id, and old records have no places
    return (*running[:at], *running[at + 1 :]), True
