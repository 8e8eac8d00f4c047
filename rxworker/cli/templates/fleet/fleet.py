"""Runs in a queue, taken by any number of processes: see README.md for the commands."""

import os

from rxworker import Worker, tool
from rxworker.log import RunInfo
from rxworker.providers import Anthropic, Request
from rxworker.testing import Reply, ScriptedModel, call, say


@tool(effect="idempotent")
async def send_letter(to: str, text: str) -> str:
    """Send a letter. It is idempotent: after a crash the same letter is sent under the same key.

    Args:
        to: The name of the reader.
        text: The letter.
    """
    return f"a letter of {len(text)} letters to {to}"


def answer(request: Request) -> Reply:
    """The answers where no key is set."""
    if request.conversation.messages[-1].tool_results:
        return say("The letter is on its way.")
    return call("send_letter", to="Ada", text="Dear Ada")


def make_model() -> Anthropic | ScriptedModel:
    """Claude, or a script where there is no key."""
    if os.environ.get("ANTHROPIC_API_KEY"):
        return Anthropic("claude-sonnet-5-5")
    return ScriptedModel(answer)


def make_worker(info: RunInfo) -> Worker:
    """The worker of a queued run; ``info`` names its kind and its tenant."""
    return Worker(make_model(), tools=[send_letter], system="You write letters.")
