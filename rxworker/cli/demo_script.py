"""The scripts of the demonstrations: the questions, the tools, and the answers of the model.

``rxworker demo`` sends one question. The worker of ``rxworker demo --web`` also books a room if a person approves; that
of ``--demo``, an option of several commands, does if the question is about a booking.
"""

from __future__ import annotations

import asyncio
from functools import partial

from rxworker.hooks import MessageSendContext
from rxworker.hooks.decorate import on_message_send
from rxworker.messages import Prices, ToolResult
from rxworker.messages.usage import Usage
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel, call, say, think
from rxworker.tools import FunctionTool, ToolContext
from rxworker.tools.function import tool
from rxworker.worker.session import Worker

QUESTION = "Kyoto or Lisbon this weekend, and what do I pack?"
SYSTEM = "You plan short trips. Look things up before you answer."
MODEL = "demo-model"
WORKER = "scripted demo"
SCRIPTED = "The answers come from a script: it plans the same trip for any question."

PACE = 0.024
"""Seconds between two events of the model."""
PRICES = {MODEL: Prices(input=3.0, output=15.0, cache_read=0.3)}
"""Invented prices, so that the page can show a cost."""

FORECASTS = {"Kyoto": ("11 C, rain on both days", 0.8), "Lisbon": ("19 C, dry, a light wind", 1.2)}
STATIONS = 4


def first_answer() -> Reply:
    """The model thinks, and requests both forecasts at once."""
    thoughts = "Two cities, two forecasts. Neither needs the other, so I request both at once."
    calls = call("forecast", city="Kyoto", days=2) + call("forecast", city="Lisbon", days=2)
    used = Reply(usage=Usage(input_tokens=412, output_tokens=96))
    return think(thoughts) + say("Let me look at both forecasts.") + calls + used


def second_answer(*, books: bool = False) -> Reply:
    """The model has received the forecasts, and answers, or wants to book.

    Args:
        books: Whether it wants to book.
    """
    used = Reply(usage=Usage(input_tokens=598, output_tokens=141, cache_read_tokens=380))
    thoughts = "Kyoto is wet and cool. Lisbon is dry and mild."
    if not books:
        text = (
            "Go to Lisbon: 19 degrees and dry on both days, while Kyoto has rain. Pack good shoes for the hills "
            "and a light jacket for the wind by the river. Keep Kyoto for the maple leaves in November."
        )
        return think(thoughts) + say(text) + used
    text = (
        "Lisbon it is: 19 degrees and dry on both days, while Kyoto has rain. I found a small place by the river, with "
        "a view of the ferries. Shall I book it?"
    )
    booking = call("book_room", city="Lisbon", nights=2, guests=2)
    return think(f"{thoughts} A booking costs money, so a person has to approve it.") + say(text) + booking + used


@on_message_send(name="scripted demo")
def announce_script(context: MessageSendContext) -> None:
    """Emit a message for the watchers: the answers come from a script."""
    if context.turn == 1:
        context.send_message(SCRIPTED)


def make_forecast(*, fast: bool) -> FunctionTool[..., object]:
    """The forecast tool. It takes a while, and reports its progress.

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
            context.progress(f"queries station {station} of {STATIONS}")
            await asyncio.sleep(0 if fast else seconds / STATIONS)
        return f"{weather} (next {days} days)"

    return forecast


def third_answer(*, booked: bool) -> Reply:
    """The model has received the result of the booking, and finishes."""
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
    return say(text) + Reply(usage=Usage(input_tokens=803, output_tokens=118, cache_read_tokens=590))


def next_answer(request: Request, *, always_books: bool) -> Reply:
    """The next answer of the model, which depends on the results since the question.

    Args:
        request: The request.
        always_books: Whether it wants to book regardless of the question.

    >>> from rxworker.messages import Conversation, Message
    >>> question = Request(Conversation((Message.user("Where to?"),)))
    >>> [called.name for called in next_answer(question, always_books=True).tool_calls]
    ['forecast', 'forecast']
    """
    results: dict[str, ToolResult] = {}
    question = ""
    for message in reversed(request.conversation.messages):
        if message.role == "user" and not message.tool_results:
            question = message.text.lower()
            break
        results.update((result.name, result) for result in message.tool_results)
    if booking := results.get("book_room"):
        return third_answer(booked=not booking.is_error)
    return second_answer(books=always_books or "book" in question) if results else first_answer()


def make_book_room(*, fast: bool) -> FunctionTool[..., object]:
    """The booking tool, which requires approval.

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
        for step in ("calls the house", "holds the room", "confirms"):
            context.progress(step)
            await asyncio.sleep(0 if fast else 0.5)
        return f"Booked in {city}: {nights} nights, {guests} guests, reference 4711"

    return book_room


def demo_worker(*, fast: bool = False, always_books: bool = False) -> Worker:
    """A worker that plans short trips from a script. It requires approval before it books one.

    Args:
        fast: Whether to leave out the pauses.
        always_books: Whether it wants to book regardless of the question.

    >>> demo_worker().tools.names
    ('forecast', 'book_room')
    """
    answer = partial(next_answer, always_books=always_books)
    model = ScriptedModel(answer, delay=0.0 if fast else PACE, name="demo", model=MODEL)
    tools = [make_forecast(fast=fast), make_book_room(fast=fast)]
    return Worker(model, tools=tools, hooks=[announce_script], system=SYSTEM)
