"""A worker for the tests of editors.

Its answers depend on the last message, so that they are the same in each process.
"""

from __future__ import annotations

import subprocess
import sys

from rxworker import Worker, tool
from rxworker.messages import Json
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel, call, say, stall, think
from rxworker.tools import FileEdit, ToolContext, update_plan


@tool(requires_approval=True)
def edit_file(path: str, new_text: str, context: ToolContext) -> str:
    """Edit a file, and print where only the protocol may."""
    print("this is not a message")
    subprocess.run([sys.executable, "-c", "print('and this neither'); input()"], check=False)
    context.progress(FileEdit(path, new_text, "x = 1"))
    return "edited"


def answer(request: Request) -> Reply | str:
    last = request.conversation.messages[-1]
    results = [result.name for result in last.tool_results]
    match results or [last.text]:
        case ["edit"]:
            steps: Json = [{"content": "Edit", "status": "in_progress"}]
            return think("A plan first.") + call("update_plan", steps=steps)
        case ["update_plan"]:
            return call("edit_file", path="a.py", new_text="x = 2")
        case ["edit_file"]:
            return "It is edited."
        case ["wait"]:
            return say("Well") + stall()
        case _:
            return f"You have sent {len(request.conversation.messages)} messages."


def make_worker() -> Worker:
    return Worker(ScriptedModel(answer), tools=[edit_file, update_plan])
