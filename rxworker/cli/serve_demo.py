"""The worker of ``rxworker serve --demo``: a model of the demonstration's, tools, and a hook that asks a person."""

from __future__ import annotations

from rxworker.cli.demo_script import (
    MODEL,
    PACE,
    SYSTEM,
    first_answer,
    make_forecast,
    say_that_it_is_scripted,
    second_answer,
)
from rxworker.hooks import Pause, ToolCallContext, before_tool_call
from rxworker.messages import Message
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel, call, say, think
from rxworker.tools import tool
from rxworker.worker import Worker


def demo_worker() -> Worker:
    """A worker that plans short trips from a script. Told to book one, it asks for approval.

    >>> demo_worker().tools.names
    ('forecast', 'book')
    """
    model = ScriptedModel(demo_answer, delay=PACE, name="demo", model=MODEL)
    tools = [make_forecast(fast=False), book]
    return Worker(model, tools=tools, hooks=[say_that_it_is_scripted, ask_to_book], system=SYSTEM)


@tool
async def book(city: str, nights: int) -> str:
    """Book a room.

    Args:
        city: Where.
        nights: For how many nights.
    """
    return f"booked: {nights} nights in {city}"


@before_tool_call(name="ask_to_book", matcher="book")
def ask_to_book(context: ToolCallContext) -> Pause:  # noqa: ARG001 - what a hook is given
    """Booking costs money, so a person decides."""
    return Pause("Booking costs money. May I?")


def demo_answer(request: Request) -> Reply:
    """What the model says to what was said last."""
    last = request.conversation.messages[-1]
    results = last.tool_results
    if any(result.name == "book" for result in results):
        refused = any(result.is_error for result in results)
        return say("Then I book nothing." if refused else "The room is booked. Have a good trip!")
    if results:
        return second_answer()
    return booking() if "book" in said(last) else first_answer()


def booking() -> Reply:
    """The model wants to book a room."""
    thoughts = "Lisbon is dry and mild, so that is the place."
    return think(thoughts) + say("I book a room.") + call("book", city="Lisbon", nights=2)


def said(message: Message) -> str:
    """The text of a message, in small letters."""
    return message.text.lower()


__all__ = ["book", "demo_answer", "demo_worker"]
