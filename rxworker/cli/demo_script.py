"""The scripts of the demonstrations: the questions, the tools, and the answers of the model.

``rxworker demo`` sends one question. The worker of ``rxworker serve --demo`` also books a room if a person approves. The model on the page of
``rxworker demo --web`` plans a trip, looks things up, and needs an approval before it books.
"""

from __future__ import annotations

import asyncio

from rxworker.hooks import MessageSendContext, Pause, ToolCallContext
from rxworker.hooks.decorate import before_tool_call, on_message_send
from rxworker.messages import Message, Prices
from rxworker.messages.usage import Usage
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel, ServedResponse, call, say, think
from rxworker.tools import FunctionTool, ToolContext
from rxworker.tools.decorate import tool
from rxworker.worker.worker import Worker

QUESTION = "Kyoto or Lisbon this weekend, and what do I pack?"
SYSTEM = "You plan short trips. Look things up before you answer."
MODEL = "demo-model"
WORKER = "scripted demo"
SCRIPTED = "The answers come from a script: it plans the same trip for any question."

PACE = 0.024
"""Seconds between two events of the model."""

FORECASTS = {"Kyoto": ("11 C, rain on both days", 0.8), "Lisbon": ("19 C, dry, a light wind", 1.2)}
STATIONS = 4


def first_answer() -> Reply:
    """The model thinks, and requests both forecasts at once."""
    thoughts = "Two cities, two forecasts. Neither needs the other, so I request both at once."
    calls = call("forecast", city="Kyoto", days=2) + call("forecast", city="Lisbon", days=2)
    used = Reply(usage=Usage(input_tokens=412, output_tokens=96))
    return think(thoughts) + say("Let me look at both forecasts.") + calls + used


def second_answer() -> Reply:
    """The model has received the results, and answers."""
    thoughts = "Kyoto is wet and cool. Lisbon is dry and mild."
    text = (
        "Go to Lisbon: 19 degrees and dry on both days, while Kyoto has rain. Pack good shoes for the hills "
        "and a light jacket for the wind by the river. Keep Kyoto for the maple leaves in November."
    )
    usage = Usage(input_tokens=598, output_tokens=141, cache_read_tokens=380)
    return think(thoughts) + say(text) + Reply(usage=usage)


@on_message_send(name="scripted demo")
def announce_script(context: MessageSendContext) -> None:
    """Emit a message for the watchers: the answers come from a script."""
    if context.turn == 1:
        context.send_message(SCRIPTED)


def answers(*, fast: bool) -> list[ServedResponse]:
    """The answers of the server, one for each request.

    >>> len(answers(fast=True))
    2
    """
    pace = 0.0 if fast else PACE
    return [
        ServedResponse.from_reply(reply, pace=pace) for reply in (first_answer(), second_answer())
    ]


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


def demo_worker() -> Worker:
    """A worker that plans short trips from a script. It requests approval before it books one.

    >>> demo_worker().tools.names
    ('forecast', 'book')
    """
    model = ScriptedModel(demo_answer, delay=PACE, name="demo", model=MODEL)
    tools = [make_forecast(fast=False), book]
    return Worker(model, tools=tools, hooks=[announce_script, ask_to_book], system=SYSTEM)


@tool
async def book(city: str, nights: int) -> str:
    """Book a room.

    Args:
        city: Where.
        nights: For how many nights.
    """
    return f"booked: {nights} nights in {city}"


@before_tool_call(name="ask_to_book", matcher="book")
def ask_to_book(context: ToolCallContext) -> Pause:  # noqa: ARG001 - the signature of a hook
    """Pause for a decision, since booking costs money."""
    return Pause("Booking costs money. May I?")


def demo_answer(request: Request) -> Reply:
    """The answer of the model to the last message."""
    last = request.conversation.messages[-1]
    results = last.tool_results
    if any(result.name == "book" for result in results):
        refused = any(result.is_error for result in results)
        return say("Then I book nothing." if refused else "The room is booked. Have a good trip!")
    if results:
        return second_answer()
    return booking() if "book" in text_of(last) else first_answer()


def booking() -> Reply:
    """The model wants to book a room."""
    thoughts = "Lisbon is dry and mild, so that is the place."
    return think(thoughts) + say("I book a room.") + call("book", city="Lisbon", nights=2)


def text_of(message: Message) -> str:
    """The text of a message in lower case."""
    return message.text.lower()


PRICES = {MODEL: Prices(input=3.0, output=15.0, cache_read=0.3)}
"""Invented prices, so that the page can show a cost."""

WEB_PACE = 0.03
"""Seconds between two events of the model."""


def second_web_answer() -> Reply:
    """The model has received the forecasts, and wants to book."""
    thoughts = "Kyoto is wet and cool. Lisbon is dry and mild. A booking costs money, so a person has to approve it."
    text = (
        "Lisbon it is: 19 degrees and dry on both days, while Kyoto has rain. I found a small place by the river, with "
        "a view of the ferries. Shall I book it?"
    )
    calls = call("book_room", city="Lisbon", nights=2, guests=2)
    usage = Usage(input_tokens=598, output_tokens=141, cache_read_tokens=380)
    return think(thoughts) + say(text) + calls + Reply(usage=usage)


def third_web_answer(*, booked: bool) -> Reply:
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
    usage = Usage(input_tokens=803, output_tokens=118, cache_read_tokens=590)
    return say(text) + Reply(usage=usage)


def web_answer(request: Request) -> Reply:
    """The next answer of the model, which depends on the results since the question.

    >>> from rxworker.messages import Conversation
    >>> question = Request(Conversation((Message.user("Where to?"),)))
    >>> [called.name for called in web_answer(question).tool_calls]
    ['forecast', 'forecast']
    """
    results = [result for message in _since_question(request) for result in message.tool_results]
    booking = next((result for result in results if result.name == "book_room"), None)
    if booking is not None:
        return third_web_answer(booked=not booking.is_error)
    return second_web_answer() if results else first_answer()


def _since_question(request: Request) -> list[Message]:
    """The messages after the last question."""
    since: list[Message] = []
    for message in reversed(request.conversation.messages):
        if message.role == "user" and not message.tool_results:
            break
        since.append(message)
    return since


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


def make_model(*, fast: bool = False) -> ScriptedModel:
    """The model. It answers any number of questions.

    >>> make_model(fast=True).model
    'demo-model'
    """
    return ScriptedModel(web_answer, delay=0.0 if fast else WEB_PACE, name="demo", model=MODEL)


def make_tools(*, fast: bool = False) -> list[FunctionTool[..., object]]:
    """The tools.

    >>> [one.meta.name for one in make_tools(fast=True)]
    ['forecast', 'book_room']
    """
    return [make_forecast(fast=fast), make_book_room(fast=fast)]
