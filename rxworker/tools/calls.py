"""The values of a pipe of tool calls: ``calls | permit | run_tools | revise | settle``.

A call goes through it with its place among the calls of its response, as a `PausedCall`. It leaves it as a
`FinishedCall` when its result is known, or as a `PendingCall` when it needs a decision first. Events go through the
same pipe, in their order.
"""

from __future__ import annotations

from typing import TypeAlias, final

from msgspec import Struct

from rxworker.events import Event, PausedCall
from rxworker.messages import ToolResult
from rxworker.tools.base import Tool


@final
class FinishedCall(Struct, frozen=True):
    """A call whose result is known: its tool has run, or a hook or a person has given the result.

    Attributes:
        paused: The call, with its place.
        result: The result.
        tool: The tool that it began with, if there is one.
        is_final: Whether no ``after_tool_call`` hook runs for the result any more.

    >>> from rxworker.messages import ToolCall
    >>> FinishedCall(PausedCall(0, ToolCall("1", "look", {})), ToolResult("1", "here")).result.text
    'here'
    """

    paused: PausedCall
    result: ToolResult
    tool: Tool | None = None
    is_final: bool = False

    @property
    def place(self) -> int:
        """The index of the call among those of its response."""
        return self.paused.place


@final
class PendingCall(Struct, frozen=True):
    """A call that waits for a decision, or for a client that runs it.

    Attributes:
        paused: The call, with its place, and what it needs to go on.
        hook: What has paused it, as in `PauseState`.
        reason: The reason, which is shown to users and not interpreted.
        is_required: Whether this very call needs the decision; otherwise it waits since another one does.
        has_begun: Whether its tool waits itself, so that the hooks have agreed to it.
    """

    paused: PausedCall
    hook: str
    reason: str = ""
    is_required: bool = False
    has_begun: bool = False


@final
class FinishedCalls(Struct, frozen=True):
    """A hook has finished the run with these calls: those that have not begun are not run.

    Attributes:
        hook: The name of the hook.
        point: The point at which it did.
    """

    hook: str
    point: str


@final
class PausedCalls(Struct, frozen=True):
    """The application pauses the run before these calls, also where all of them have their results.

    Attributes:
        hook: What has paused them, as in `PauseState`.
        reason: The reason, which is shown to users and not interpreted.
    """

    hook: str
    reason: str


CallItem: TypeAlias = Event | PausedCall | FinishedCall | PendingCall | FinishedCalls | PausedCalls
"""An item of a pipe of calls."""


def not_run(paused: PausedCall, hook: str) -> FinishedCall:
    """A call that is not run, since a hook has finished the run: a conversation has a result for each call."""
    text = f"This call was not run: {hook} has finished the run."
    result = ToolResult(paused.call.id, text, is_error=True, name=paused.call.name)
    return FinishedCall(paused, result, is_final=True)
