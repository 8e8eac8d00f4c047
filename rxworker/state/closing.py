"""The events that close what is open in a run that is cut short. Pure."""

from __future__ import annotations

from typing import Literal, TypeAlias

from rxworker.events import BlockAbort, Event, ResponseStatus, Status, ToolOutput, ToolStop
from rxworker.messages import ToolResult
from rxworker.state.run import HELD_BACK
from rxworker.state.run_state import RunState

Cause: TypeAlias = Literal["cancel", "error", "abort", "limit"]


def response_ends(state: RunState, reason: str) -> list[Event]:
    """The aborts of the blocks that are open, and the status of the response, unless it has one.

    >>> response_ends(RunState(), "lunch")
    []
    """
    response = state.response
    if response is None:
        return []
    ends: list[Event] = [BlockAbort(block.index, block.block_type, reason) for block in response.open.values()]
    if response.status is ResponseStatus.STARTED and response.error is None:
        ends.append(Status(ResponseStatus.CANCELLED))
    return ends


def call_ends(state: RunState, cause: Cause | Literal["cut"]) -> list[Event]:
    """An end for each running tool, and an error result for each call whose result the hooks have not passed.

    The state adds them to the conversation, and answers the other calls.
    """
    ended = {
        "cancel": "run was cancelled",
        "limit": "run reached a limit",
        "cut": "call was cut off",
    }
    what = ended.get(cause, "run failed")
    text = f"The {what} while this tool ran. Whether it had an effect is not known."
    ends: list[Event] = []
    for each in state.calls:
        call, place = each.call, each.place
        if each.phase == "running":
            result = ToolResult(call.id, text, is_error=True, name=call.name)
            ends.append(ToolStop(result, place=place))
        elif each.phase == "ended" and each.result is None:
            held = ToolResult(call.id, HELD_BACK, is_error=True, name=call.name)
            ends.append(ToolOutput(held, place))
    return ends
