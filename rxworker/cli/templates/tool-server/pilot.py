"""A worker as a tool of Claude Desktop, an editor or another agent, over the Model Context Protocol.

``rxworker mcp pilot:make_pilot``.
"""

import os

from rxworker import Worker, tool
from rxworker.providers import Anthropic
from rxworker.testing import ScriptedModel

TIDES = {"Brest": "11:20", "Dover": "04:45"}


@tool(effect="pure")
def high_water(harbour: str) -> str:
    """When the water is high today.

    Args:
        harbour: The name of the harbour.
    """
    if harbour not in TIDES:
        raise ValueError(f"there are no tides of {harbour}, only of {', '.join(TIDES)}")
    return TIDES[harbour]


def make_model() -> Anthropic | ScriptedModel:
    """Claude, or a script where there is no key."""
    if os.environ.get("ANTHROPIC_API_KEY"):
        return Anthropic("claude-sonnet-5-5")
    return ScriptedModel(lambda _: "In Brest at 11:20.")


def make_pilot() -> Worker:
    """Knows when the water is high in a harbour."""
    return Worker(make_model(), tools=[high_water], system="You are a pilot. Be brief.")
