"""The drawing of the loop is what a run does.

Each row is a stage, or one of the operators of `call_tools`, as a run without stages of its own executes them: what it
returns is noted when it begins, emits and completes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
import reactivex
from reactivex import Observable
from reactivex import operators as ops

from rxworker import Worker, before_tool_call, tool
from rxworker.events import (
    AttemptStart,
    BlockStop,
    BlockType,
    Event,
    MessageAdd,
    PausedCall,
    RunStop,
    TextDelta,
    ToolStart,
    ToolStop,
    TurnStart,
    TurnStop,
)
from rxworker.hooks import Skip, ToolCallContext
from rxworker.operators.kernel import Operator
from rxworker.testing import ScriptedModel, call, say
from rxworker.tools import FinishedCall
from rxworker.worker import StageName

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "the-loop-in-marbles.md"
STAGE_ROWS: tuple[StageName, ...] = ("prepare", "respond", "decide")
CALL_ROWS = ("permit", "run_tools", "revise", "settle")
ROWS = (*STAGE_ROWS[:2], *CALL_ROWS, STAGE_ROWS[2])
A = TypeVar("A")


@tool
async def weather(city: str) -> str:
    """The weather in a city."""
    return f"7 °C in {city}"


@before_tool_call
def permit_oslo(context: ToolCallContext) -> Skip | None:
    """Let one city through."""
    return Skip("not this one") if "Rome" in context.content else None


def letter(item: object) -> str:
    """The letter of an item; nothing for items that are not drawn."""
    match item:
        case TurnStart():
            return "t"
        case AttemptStart():
            return "a"
        case TextDelta():
            return "d"
        case BlockStop(block_type=BlockType.TOOL_USE) | PausedCall():
            return "c"
        case ToolStart():
            return "s"
        case ToolStop():
            return "o"
        case FinishedCall():
            return "r"
        case MessageAdd(source="tools"):
            return "m"
        case TurnStop():
            return "T"
        case RunStop():
            return "e"
        case _:
            return ""


class Drawing:
    """A column for each notification, and in it the letter of one row."""

    def __init__(self) -> None:
        self.columns: list[tuple[str, str]] = []

    def note(self, row: str, mark: str) -> None:
        if mark:
            self.columns.append((row, mark))

    def of(self, row: str) -> Operator[A, A]:
        """Note what passes."""

        def begin(source: Observable[A]) -> Observable[A]:
            def subscribed(_: object) -> Observable[A]:
                self.note(row, "^")
                return source

            def emitted(item: A) -> None:
                self.note(row, letter(item))

            def completed() -> None:
                self.note(row, "|")

            return reactivex.defer(subscribed).pipe(ops.do_action(emitted, None, completed))

        return begin

    def __str__(self) -> str:
        return "\n".join(f"{row:11}{self._row(row)}".rstrip() for row in ROWS)

    def _row(self, row: str) -> str:
        drawn, is_on = "", False
        for other, mark in self.columns:
            if mark == "^":
                is_on = is_on or other == row
            elif other == row:
                drawn += mark
                is_on = mark != "|"
            else:
                drawn += "-" if is_on else " "
        return drawn


async def test_the_drawing_of_the_loop_is_what_a_run_does(monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = Drawing()

    def drawn(name: str, make: Callable[..., Operator[Any, Any]]) -> Callable[..., Operator[Any, Any]]:
        def make_drawn(*args: Any, **kwargs: Any) -> Operator[Any, Any]:
            def apply(source: Observable[Any]) -> Observable[Any]:
                return source.pipe(make(*args, **kwargs), drawing.of(name))

            return apply

        return make_drawn

    module = sys.modules["rxworker.turn.call_tools"]
    for name in CALL_ROWS:
        monkeypatch.setattr(module, name, drawn(name, getattr(module, name)))
    model = ScriptedModel([call("weather", city="Oslo") + call("weather", city="Rome"), say("7 °C.")])
    around: dict[StageName, Operator[Event, Event]] = {name: drawing.of(name) for name in STAGE_ROWS}
    worker = Worker(model, tools=[weather], hooks=[permit_oslo], around=around)
    await worker.run("How is it in Oslo and in Rome?")
    (fence,) = re.findall(r"^```text\n(prepare +t.*?)\n```$", PAGE.read_text("utf-8"), re.M | re.S)
    assert fence == str(drawing), f"the run does this:\n{drawing}"


def test_each_row_is_linked_to_its_function() -> None:
    rows = re.findall(r"^- (?:`settle`, of )?\[`(\w+)`\]\(([^)#]+)[^)]*\): ", PAGE.read_text("utf-8"), re.M)
    # `settle` is the end of the stage alone.
    assert [name for name, _ in rows] == [name.replace("settle", "call_tools") for name in ROWS]
    for name, link in rows:
        assert f"\n- `{name}`: " in (PAGE.parent / link).read_text("utf-8")
