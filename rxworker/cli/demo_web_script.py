"""What is played on the demo's page: a model that plans a trip, looks things up, and asks before it books."""

from __future__ import annotations

import asyncio

from rxworker.cli.demo_script import first_answer, make_forecast
from rxworker.messages import Message, Prices, Usage
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel, call, say, think
from rxworker.tools import FunctionTool, ToolContext, tool

MODEL = "demo-model"
PRICES = {MODEL: Prices(input=3.0, output=15.0, cache_read=0.3)}
"""Made up, so that the page has a cost to show."""

PACE = 0.03
"""Seconds between two events of the model."""


def second_answer() -> Reply:
    """The model has heard the forecasts, and wants to book."""
    thoughts = "Kyoto is wet and cool. Lisbon is dry and mild. A booking costs money, so somebody has to agree to it."
    said = (
        "Lisbon it is: 19 degrees and dry on both days, while Kyoto has rain. I found a small place by the river, with "
        "a view of the ferries. Shall I book it?"
    )
    asked = call("book_room", city="Lisbon", nights=2, guests=2)
    usage = Usage(input_tokens=598, output_tokens=141, cache_read_tokens=380)
    return think(thoughts) + say(said) + asked + Reply(usage=usage)


def third_answer(*, booked: bool) -> Reply:
    """The model has heard what became of the booking, and ends."""
    opening = (
        "Your room is booked. Here is what to pack:"
        if booked
        else "Then I book nothing. If you go all the same, pack this:"
    )
    text = (
        f"{opening}\n\n"
        "- good shoes, for the hills\n"
        "- a light jacket, for the wind by the river\n"
        "- sunglasses, and a bag for the pastries\n\n"
        "Take tram 28 early in the morning, before the crowds. Keep Kyoto for the maple leaves in November."
    )
    usage = Usage(input_tokens=803, output_tokens=118, cache_read_tokens=590)
    return say(text) + Reply(usage=usage)


def answer(request: Request) -> Reply:
    """What the model says next: it depends on what its tools have said since the question.

    >>> from rxworker.messages import Conversation
    >>> question = Request(Conversation((Message.user("Where to?"),)))
    >>> [called.name for called in answer(question).tool_calls]
    ['forecast', 'forecast']
    """
    heard = [result for message in _since_question(request) for result in message.tool_results]
    booking = next((result for result in heard if result.name == "book_room"), None)
    if booking is not None:
        return third_answer(booked=not booking.is_error)
    return second_answer() if heard else first_answer()


def _since_question(request: Request) -> list[Message]:
    """What came behind the last words of the user's."""
    since: list[Message] = []
    for message in reversed(request.conversation.messages):
        if message.role == "user" and not message.tool_results:
            break
        since.append(message)
    return since


def make_book_room(*, fast: bool) -> FunctionTool[..., object]:
    """The tool that somebody has to agree to.

    >>> make_book_room(fast=True).policy.requires_approval
    True
    """

    @tool(requires_approval=True)
    async def book_room(city: str, nights: int, guests: int, context: ToolContext) -> str:
        """Book a room.

        Args:
            city: Where.
            nights: How many nights.
            guests: For how many people.
            context: The call.
        """
        for step in ("asks the house", "holds the room", "confirms"):
            context.progress(step)
            await asyncio.sleep(0 if fast else 0.5)
        return f"Booked in {city}: {nights} nights, {guests} guests, reference 4711"

    return book_room


def make_model(*, fast: bool = False) -> ScriptedModel:
    """The model. It answers any number of questions.

    >>> make_model(fast=True).model
    'demo-model'
    """
    return ScriptedModel(answer, delay=0.0 if fast else PACE, name="demo", model=MODEL)


def make_tools(*, fast: bool = False) -> list[FunctionTool[..., object]]:
    """The tools.

    >>> [one.meta.name for one in make_tools(fast=True)]
    ['forecast', 'book_room']
    """
    return [make_forecast(fast=fast), make_book_room(fast=fast)]


__all__ = ["MODEL", "PRICES", "answer", "make_book_room", "make_model", "make_tools"]
