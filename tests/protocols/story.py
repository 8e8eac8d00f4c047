"""What the tests of the encoders let a run tell."""

from __future__ import annotations

from typing import Any

from rxworker import tool
from rxworker.events import (
    AttemptStart,
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    InputJsonDelta,
    Record,
    ToolUseMetadata,
)
from rxworker.events.pause import Question
from rxworker.tools import ToolContext

OWN = AttemptStart(own_tools=("look",))
"""A request of a worker that runs the tool itself."""


@tool
def look(city: str) -> str:
    """Look out of a window."""
    return f"rain in {city}"


@tool(requires_approval=True)
def remove(path: str) -> str:
    """Remove a file."""
    return f"{path} is gone"


def booking(question: Question) -> Any:
    """A tool that asks, and returns what the user has done."""

    @tool
    async def book(context: ToolContext) -> str:
        """Book."""
        if context.begun is None:
            context.ask(question)
        assert context.begun.reply is not None
        return f"{context.begun.reply.action} {context.begun.reply.content or ''}".strip()

    return book


def numbered(*events: Event, first: int = 1) -> list[Record]:
    """The records of a run."""
    return [Record(n, "run-1", 1, 1, 0.0, event) for n, event in enumerate(events, start=first)]


def start_call(native: str = "c1", index: int = 0, text: str = "{}") -> list[Event]:
    """The block of a call."""
    which = ToolUseMetadata(native, "look")
    return [
        BlockStart(index, BlockType.TOOL_USE, which),
        InputJsonDelta(index, text),
        BlockStop(index, BlockType.TOOL_USE, metadata=which),
    ]
