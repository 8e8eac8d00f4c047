from __future__ import annotations

import logging

import pytest

from rxworker import Worker, tool
from rxworker.errors import ExecutionFailedError, InvalidArgumentError, ToolError, ToolTimeoutError
from rxworker.messages import ToolCall
from rxworker.testing import ScriptedModel, call
from rxworker.tools import Toolbox
from rxworker.tools.run import run_call


@tool(timeout=5)
async def look(at: int) -> str:
    """Look at something."""
    raise LookupError(f"nothing at {at}")


def in_french(error: ToolError) -> str:
    cause = type(error.__cause__).__name__
    return f"{error.tool}: {type(error).__name__}, {cause} - réessayez"


async def test_the_formatter_makes_what_the_model_reads() -> None:
    toolbox = Toolbox([look], error_formatter=in_french)
    failed = await run_call(toolbox, ToolCall("1", "look", {"at": 1}))
    assert failed.text == "look: ExecutionFailedError, LookupError - réessayez"
    assert failed.is_error
    wrong = await run_call(toolbox, ToolCall("1", "look", {"at": "x"}))
    assert wrong.text == "look: InvalidArgumentError, ValidationError - réessayez"


async def test_a_worker_takes_one() -> None:
    worker = Worker(ScriptedModel([call("look", at=1), "Done."]), tools=[look], error_formatter=in_french)
    result = await worker.run("go")
    assert result.conversation.messages[2].tool_results[0].text.endswith("réessayez")


async def test_a_worker_takes_over_that_of_a_toolbox() -> None:
    toolbox = Toolbox([look], error_formatter=in_french)
    worker = Worker(ScriptedModel([]), tools=toolbox)
    assert worker.tools.error_formatter is in_french


@pytest.mark.parametrize("failure", [ValueError("formatter"), SystemExit(1)], ids=repr)
async def test_a_formatter_that_fails_leaves_the_usual_text(
    failure: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(error: ToolError) -> str:
        raise failure

    with caplog.at_level(logging.WARNING, "rxworker.tools"):
        result = await run_call(Toolbox([look], error_formatter=broken), ToolCall("1", "look", {"at": 1}))
    assert result.text == "The tool failed: LookupError: nothing at 1"
    assert "the error formatter failed" in caplog.text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            InvalidArgumentError("invalid arguments at $", tool="t"),
            "The call was not run, invalid arguments at $. Correct the arguments and call again.",
        ),
        (ToolTimeoutError("too long", tool="t"), "The call was given up: too long."),
        (ExecutionFailedError("no", tool="t"), "The tool failed: no"),
    ],
)
def test_without_one_each_sort_of_error_has_its_words(error: ToolError, text: str) -> None:
    assert Toolbox().format_error(error) == text
