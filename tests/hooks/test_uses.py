"""What hooks are for, each use with a worker and a scripted model, as the how-to page shows them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import pytest

from rxworker import Worker, after_tool_call, before_tool_call, on_message_send, on_turn_end, tool
from rxworker.errors import RunAbortedError
from rxworker.events import HookVerdict, ToolStart
from rxworker.hooks import (
    Cancel,
    ContinueWithMessages,
    MessageSendContext,
    Skip,
    ToolCallContext,
    ToolResultContext,
    TurnEndContext,
)
from rxworker.messages import Message, ToolResult
from rxworker.operators import only
from rxworker.testing import ScriptedModel, call


@tool
async def read(path: str) -> str:
    """Read a file."""
    return f"{path}: the password is hunter2"


@tool
async def delete(path: str) -> str:
    """Delete a file."""
    raise AssertionError("nobody may delete")


def results_of(worker: Worker) -> list[ToolResult]:
    return [r for message in worker.session.conversation.messages for r in message.tool_results]


class Blocker:
    """Tools that may not be used."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)

    def before_tool_call(self, context: ToolCallContext) -> Skip | None:
        if context.call.name in self.names:
            return Skip(f"{context.call.name} is not allowed here.")
        return None


class Log:
    """Calls and results, in order, from both points of one object."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def before_tool_call(self, context: ToolCallContext) -> None:
        self.lines.append(f"> {context.call.name} {context.input}")

    def after_tool_call(self, context: ToolResultContext) -> None:
        self.lines.append(f"< {context.call.name} {context.result.text}")


async def test_permission_a_blocked_tool_does_not_run_and_the_model_reads_why() -> None:
    model = ScriptedModel([call("delete", path="a") + call("read", path="b"), "Sorry."])
    worker = Worker(model, tools=[read, delete], hooks=[Blocker("delete")])
    run = worker.run("Delete a, read b.")
    verdicts: list[HookVerdict] = []
    run.events.pipe(only(HookVerdict)).subscribe(verdicts.append)
    await run
    assert [(r.is_error, r.text[:22]) for r in results_of(worker)] == [
        (True, "delete is not allowed "),
        (False, "b: the password is hun"),
    ]
    assert [(v.hook, v.verdict) for v in verdicts] == [("Blocker", "Skip")]


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


@on_turn_end
def want_json(context: TurnEndContext) -> ContinueWithMessages | None:
    try:
        msgspec.json.decode(context.text)
    except msgspec.DecodeError as error:
        return ContinueWithMessages.user(f"That is not JSON: {error}. Answer with JSON only.")
    return None


async def test_validation_the_model_corrects_its_answer() -> None:
    model = ScriptedModel(["Sure: {}", '{"ok": true}'])
    result = await Worker(model, hooks=[want_json]).run("Answer in JSON.")
    assert (result.text, result.turns) == ('{"ok": true}', 2)
    assert "That is not JSON" in model.requests[1].conversation.messages[-1].text


def time_stamp(now: Callable[[], datetime]) -> Callable[[MessageSendContext], None]:
    def stamp(context: MessageSendContext) -> None:
        context.messages.insert(0, Message.user(f"[{now().isoformat()}]"))

    return stamp


def noon() -> datetime:
    return datetime(2026, 1, 2, 12, tzinfo=UTC)


async def test_injection_a_time_stamp_is_sent_and_does_not_stay() -> None:
    model = ScriptedModel(["Noon."])
    worker = Worker(model, hooks=[on_message_send(time_stamp(noon))])
    await worker.run("What time is it?")
    sent = [message.text for message in model.requests[0].conversation.messages]
    assert sent == ["[2026-01-02T12:00:00+00:00]", "What time is it?"]
    assert [m.text for m in worker.session.conversation.messages] == ["What time is it?", "Noon."]


async def test_injection_a_hook_changes_the_system_text_of_this_request_only() -> None:
    @on_message_send
    def inject(context: MessageSendContext) -> None:
        context.system = f"{context.system} The user is called Ada."

    model = ScriptedModel(["Hello Ada.", "Hello again."])
    worker = Worker(model, system="Be brief.", hooks=[inject])
    await worker.run("Hello.")
    assert model.requests[0].conversation.system == "Be brief. The user is called Ada."
    assert worker.session.conversation.system == "Be brief."


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


async def test_formatting_results_that_are_not_errors_get_a_prefix() -> None:
    @tool
    async def fly() -> str:
        """Fly."""
        raise ValueError("no wings")

    @after_tool_call
    def mark(context: ToolResultContext) -> None:
        if not context.result.is_error:
            context.set_content(f"[OK] {context.result.text}")

    model = ScriptedModel([call("read", path="a") + call("fly"), "Done."])
    worker = Worker(model, tools=[read, fly], hooks=[mark])
    await worker.run("Read and fly.")
    texts = [result.text for result in results_of(worker)]
    assert texts == ["[OK] a: the password is hunter2", "The tool failed: ValueError: no wings"]


async def test_rate_limit_calls_above_it_are_skipped_until_time_has_passed() -> None:
    time = [0.0]

    class RateLimit:
        def __init__(self, most: int, seconds: float) -> None:
            self.most, self.seconds = most, seconds
            self.calls: list[float] = []

        def before_tool_call(self, context: ToolCallContext) -> Skip | None:
            self.calls = [at for at in self.calls if time[0] - at < self.seconds]
            if len(self.calls) >= self.most:
                return Skip(f"Only {self.most} calls in {self.seconds:g} seconds. Try later.")
            self.calls.append(time[0])
            return None

    answers = [call("read", path="a") + call("read", path="b") + call("read", path="c"), "Done."]
    model = ScriptedModel([*answers, *answers])
    worker = Worker(model, tools=[read], hooks=[RateLimit(2, 60.0)])
    await worker.run("Read a, b and c.")
    time[0] = 61.0
    await worker.run("Again.")
    assert [result.is_error for result in results_of(worker)] == [False, False, True] * 2


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


async def test_filtering_a_request_with_a_secret_is_not_sent() -> None:
    @on_message_send
    def guard(context: MessageSendContext) -> Cancel | None:
        said = "".join(message.text for message in context.messages)
        return Cancel("the request holds a key") if "sk-" in said else None

    model = ScriptedModel([])
    with pytest.raises(RunAbortedError, match="hook 'guard': the request holds a key"):
        await Worker(model, hooks=[guard]).run("My key is sk-123.")
    assert model.requests == []
