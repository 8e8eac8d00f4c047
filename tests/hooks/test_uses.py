"""What hooks see and change in a run where ``docs/how-to/hooks.md``, whose blocks run as well, does not print it."""

from __future__ import annotations

import re

from rxworker import Worker, after_tool_call, before_tool_call, tool
from rxworker.events import ToolStart
from rxworker.hooks import ToolCallContext, ToolResultContext
from rxworker.messages import ToolResult
from rxworker.operators import only
from rxworker.testing import ScriptedModel, call


@tool
async def read(path: str) -> str:
    """Read a file."""
    return f"{path}: the password is hunter2"


def results_of(worker: Worker) -> list[ToolResult]:
    return [r for message in worker.session.conversation.messages for r in message.tool_results]


class Log:
    """Calls and results, in order, from both points of one object."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def before_tool_call(self, context: ToolCallContext) -> None:
        self.lines.append(f"> {context.call.name} {context.input}")

    def after_tool_call(self, context: ToolResultContext) -> None:
        self.lines.append(f"< {context.call.name} {context.result.text}")


async def test_log_every_call_sees_all_calls_before_any_runs() -> None:
    log = Log()
    model = ScriptedModel([call("read", path="a") + call("read", path="b"), "Done."])
    await Worker(model, tools=[read], hooks=[log]).run("Read a and b.")
    assert log.lines == [
        "> read {'path': 'a'}",
        "> read {'path': 'b'}",
        "< read a: the password is hunter2",
        "< read b: the password is hunter2",
    ]


async def test_masking_neither_the_model_nor_the_watchers_see_the_secret() -> None:
    @after_tool_call
    def mask(context: ToolResultContext) -> None:
        context.set_content(re.sub(r"hunter\d", "***", context.result.text))

    model = ScriptedModel([call("read", path="a"), "Read."])
    worker = Worker(model, tools=[read], hooks=[mask])
    run = worker.run("Read a.")
    records = [record async for record in run]
    assert [result.text for result in results_of(worker)] == ["a: the password is ***"]
    assert "hunter2" not in str(records)


async def test_sanitising_changed_arguments_are_what_runs_and_what_watchers_see() -> None:
    @before_tool_call(matcher="read|delete")
    def inside(context: ToolCallContext) -> None:
        context.input["path"] = f"workspace/{context.input['path']}"

    model = ScriptedModel([call("read", path="a"), "Done."])
    worker = Worker(model, tools=[read], hooks=[inside])
    run = worker.run("Read a.")
    starts: list[ToolStart] = []
    run.events.pipe(only(ToolStart)).subscribe(starts.append)
    await run
    assert results_of(worker)[0].text.startswith("workspace/a:")
    assert starts[0].call.input == {"path": "workspace/a"}
