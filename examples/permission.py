"""A permission hook: the run pauses before a file is deleted, and a person decides.

Needs the environment variable ``ANTHROPIC_API_KEY``. It deletes nothing.
"""

import asyncio

from rxworker import Approve, Deny, Paused, Worker, before_tool_call, tool
from rxworker.hooks import Pause, ToolCallContext
from rxworker.providers import Anthropic


@tool
def delete_file(path: str) -> str:
    """Delete a file.

    Args:
        path: Which one.
    """
    return f"{path} is gone"


@before_tool_call(matcher="delete_.*")
def ask_a_person(context: ToolCallContext) -> Pause:
    return Pause(f"{context.call.name} {context.input.get('path')}?")


def decide(question: str) -> bool:
    """A program would ask a person here. This function keeps the letters."""
    return "letters" not in question


async def main() -> None:
    worker = Worker(Anthropic("claude-sonnet-5-5"), tools=[delete_file], hooks=[ask_a_person], system="Be brief.")
    result = await worker.run("Delete notes.txt and letters.txt.")
    while isinstance(result, Paused) and result.paused_at:
        allowed = decide(result.reason)
        print(result.reason, "yes" if allowed else "no")
        decision = Approve() if allowed else Deny("The user wants to keep this file.")
        result = await worker.resume(decisions={result.paused_at: decision})
    print(result.text)


if __name__ == "__main__":
    asyncio.run(main())
