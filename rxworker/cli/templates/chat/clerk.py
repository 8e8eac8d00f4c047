"""A clerk that looks orders up, and cancels them if a person approves.

``rxworker serve clerk:make_worker`` shows it on a page, and ``rxworker serve --log sqlite:runs.db clerk:make_worker``
keeps its conversations.
"""

import os

from rxworker import Worker, before_tool_call, tool
from rxworker.hooks import Pause, ToolCallContext
from rxworker.providers import Anthropic, Request
from rxworker.testing import Reply, ScriptedModel, call, say

ORDERS = {7: "shipped", 8: "waiting"}


@tool(effect="pure")
def find_order(number: int) -> str:
    """Find the state of an order.

    Args:
        number: The number of the order.
    """
    return ORDERS.get(number, "unknown")


@tool
def cancel_order(number: int) -> str:
    """Cancel an order.

    Args:
        number: The number of the order.
    """
    ORDERS[number] = "cancelled"
    return f"order {number} is cancelled"


@before_tool_call(matcher="cancel_order")
def ask_first(context: ToolCallContext) -> Pause:
    """Let a person decide: the page shows the call with its arguments."""
    return Pause(f"Cancel order {context.input.get('number')}?")


def answer(request: Request) -> Reply:
    """The answers where no key is set: the call that cancels order 8, so that the page shows an approval."""
    results = request.conversation.messages[-1].tool_results
    if results:
        return say(f"Done: {results[0].text}.")
    return call("cancel_order", number=8)


def make_model() -> Anthropic | ScriptedModel:
    """Claude, or a script where there is no key."""
    if os.environ.get("ANTHROPIC_API_KEY"):
        return Anthropic("claude-sonnet-5-5")
    return ScriptedModel(answer)


def make_worker() -> Worker:
    """Answers questions about orders."""
    return Worker(
        make_model(),
        tools=[find_order, cancel_order],
        hooks=[ask_first],
        system="You are the clerk of a shop. Be brief.",
    )
