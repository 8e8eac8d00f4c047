"""What is played in the demonstration: the question, the tool, and the model's two answers."""

from __future__ import annotations

import asyncio

from rxworker.hooks import MessageSendContext, on_message_send
from rxworker.messages import Usage
from rxworker.testing import Answer, Reply, call, say, think
from rxworker.tools import FunctionTool, ToolContext, tool

QUESTION = "Kyoto or Lisbon this weekend, and what do I pack?"
SYSTEM = "You plan short trips. Look things up before you answer."
MODEL = "demo-model"
WORKER = "scripted demo"
SCRIPTED = "The answers come from a script: whatever is asked, it plans the same trip."

PACE = 0.024
"""Seconds between two events of the model."""

FORECASTS = {"Kyoto": ("11 C, rain on both days", 0.8), "Lisbon": ("19 C, dry, a light wind", 1.2)}
STATIONS = 4


def first_answer() -> Reply:
    """The model thinks, and asks for both forecasts at once."""
    thoughts = "Two cities, two forecasts. Neither needs the other, so I ask for both at once."
    asked = call("forecast", city="Kyoto", days=2) + call("forecast", city="Lisbon", days=2)
    used = Reply(usage=Usage(input_tokens=412, output_tokens=96))
    return think(thoughts) + say("Let me look at both forecasts.") + asked + used


def second_answer() -> Reply:
    """The model has heard the results, and answers."""
    thoughts = "Kyoto is wet and cool. Lisbon is dry and mild."
    text = (
        "Go to Lisbon: 19 degrees and dry on both days, while Kyoto has rain. Pack good shoes for the hills "
        "and a light jacket for the wind by the river. Keep Kyoto for the maple leaves in November."
    )
    usage = Usage(input_tokens=598, output_tokens=141, cache_read_tokens=380)
    return think(thoughts) + say(text) + Reply(usage=usage)


@on_message_send(name="scripted demo")
def say_that_it_is_scripted(context: MessageSendContext) -> None:
    """Tell whoever watches a run that its answers come from a script."""
    if context.turn == 1:
        context.send_message(SCRIPTED)


def answers(*, fast: bool) -> list[Answer]:
    """What the server answers, request by request.

    >>> len(answers(fast=True))
    2
    """
    pace = 0.0 if fast else PACE
    return [Answer.from_reply(reply, pace=pace) for reply in (first_answer(), second_answer())]


def make_forecast(*, fast: bool) -> FunctionTool[..., object]:
    """The tool. It takes its time, and tells how far it is.

    >>> make_forecast(fast=True).meta.name
    'forecast'
    """

    @tool(effect="idempotent")
    async def forecast(city: str, days: int, context: ToolContext) -> str:
        """The weather of the next days.

        Args:
            city: Where.
            days: How many days.
            context: The call.
        """
        weather, seconds = FORECASTS[city]
        for station in range(1, STATIONS + 1):
            context.progress(f"asks station {station} of {STATIONS}")
            await asyncio.sleep(0 if fast else seconds / STATIONS)
        return f"{weather} (next {days} days)"

    return forecast


__all__ = ["MODEL", "QUESTION", "SYSTEM", "answers", "make_forecast"]
