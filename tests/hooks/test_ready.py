from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from rxworker import Worker, before_tool_call, hook, tool
from rxworker.events import ConversationReplace, HookMessage, HookVerdict, MessageAdd
from rxworker.hooks import Continue, HookContext, Hooks, Pause, Skip, Verdict, chain, enabled_by
from rxworker.hooks.decorate import HookLike
from rxworker.hooks.ready import (
    always_allow,
    auto_read,
    dangerous_command_guard,
    git_status,
    long_answer_notice,
    terminal_hooks,
    time_stamp,
)
from rxworker.messages import Image, Message
from rxworker.testing import HookStub, ScriptedModel, call, call_context, end_context, result_context, send_context
from tests.hooks.asking import verdict_of

Heard = list[HookMessage | MessageAdd | ConversationReplace]


async def ask(context: HookContext, *hooks: HookLike) -> Verdict:
    assert context.point is not None
    return (await verdict_of(Hooks(hooks), context.point, context, lambda _: None))[0]


# the time


async def test_a_time_stamp_precedes_the_text_of_the_user_in_requests_only() -> None:
    hours = iter(range(24))

    def now() -> datetime:
        return datetime(2026, 1, 2, next(hours), tzinfo=UTC)

    model = ScriptedModel(["One.", "Two."])
    worker = Worker(model, hooks=[time_stamp(now)])
    await worker.run("first")
    await worker.run("second")
    sent = [[m.text for m in request.conversation.messages] for request in model.requests]
    # a message keeps the stamp that it was sent with
    assert sent == [["[00:00:00] first"], ["[00:00:00] first", "One.", "[01:00:00] second"]]
    assert [m.text for m in worker.session.conversation.messages][::2] == ["first", "second"]


async def test_a_time_stamp_leaves_alone_what_has_no_text() -> None:
    context = send_context(Message.user(Image(url="https://example.org/a.png")))
    await ask(context, time_stamp())
    assert context.messages == list(context.message_history)


# git


def git(*words: str, at: Path) -> None:
    subprocess.run(["git", *words], cwd=at, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git("init", "-q", at=tmp_path)
    return tmp_path


async def test_git_status_reports_changes_to_the_model_once(repository: Path) -> None:
    status = git_status()
    (repository / "a.txt").write_text("a")
    contexts = [result_context("edit_file", "ok", {"workspace": repository}) for _ in range(3)]
    await ask(contexts[0], status)
    await ask(contexts[1], status)
    (repository / "b.txt").write_text("b")
    await ask(contexts[2], status)
    told = [[m.text for m in context.message_history] for context in contexts]
    assert told == [["Files have changed:\n?? a.txt\n"], [], ["Files have changed:\n?? a.txt\n?? b.txt\n"]]


async def test_git_status_adds_nothing_without_a_repository_or_after_a_failure(
    tmp_path: Path, repository: Path
) -> None:
    (repository / "a.txt").write_text("a")
    failed = result_context("write", "no", {"workspace": repository}, is_error=True)
    other = result_context("read", "text", {"workspace": repository})
    nowhere = result_context("write", "ok", {"workspace": tmp_path / "gone"})
    for context in (failed, other, nowhere):
        assert await ask(context, git_status()) == Continue()
        assert context.message_history == ()


async def test_git_status_does_not_start_what_a_repository_names(repository: Path) -> None:
    trap = repository / "trap.sh"
    trap.write_text("#!/bin/sh\ntouch sprung\n")
    trap.chmod(0o755)
    git("config", "core.fsmonitor", str(trap), at=repository)
    await ask(result_context("write", "ok", {"workspace": repository}), git_status())
    assert not (repository / "sprung").exists()


# a notice


@pytest.mark.parametrize(("length", "notices"), [(10, 0), (11, 1)])
async def test_a_long_answer_has_a_notice_for_the_watchers(length: int, notices: int) -> None:
    heard: Heard = []
    await ask(end_context("x" * length, received=heard), long_answer_notice(10))
    assert len(heard) == notices
    assert all(isinstance(message, HookMessage) for message in heard)


# a guard


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /",
        "sudo rm -fr .",
        "rm -r -f x",
        "rm --recursive --force x",
        "rm -f -R x",
        "ls; RM -RF x",
        "dd if=/dev/zero of=/dev/sda",
        "mkfs.ext4 /dev/sda1",
        "format c:",
        "echo > /dev/sda",
        "chmod -R 777 /",
        ":(){ :|:& };:",
        "sudo shutdown now",
        "rmdir /s /q x",
    ],
)
async def test_a_command_that_destroys_is_refused(command: str) -> None:
    verdict = await ask(call_context("run_command", command=command), dangerous_command_guard())
    assert isinstance(verdict, Skip)
    assert "too dangerous" in verdict.reason


@pytest.mark.parametrize(
    "command", ["rm a.txt", "rm -r build", "git log --format=%h", "echo form -rf", "addif=1", "ls -rf"]
)
async def test_other_commands_pass(command: str) -> None:
    context = call_context("bash", command=command)
    assert await ask(context, dangerous_command_guard()) == Continue()


@pytest.mark.parametrize("arguments", [{"argv": ["rm", "-rf", "x"]}, {"steps": [{"run": "rm -rf x"}]}])
async def test_a_command_is_found_among_the_arguments(arguments: dict[str, Any]) -> None:
    context = call_context("shell", **arguments)
    assert isinstance(await ask(context, dangerous_command_guard()), Skip)


async def test_the_guard_is_called_for_tools_that_run_commands() -> None:
    context = call_context("write", text="rm -rf /")
    assert await ask(context, dangerous_command_guard()) == Continue()
    assert isinstance(await ask(context, dangerous_command_guard(["rm"]).replace(matcher="write")), Skip)


# reading


@pytest.mark.parametrize(("result", "arguments"), [('{"file_path":"a.txt"}', {}), ("ok", {"path": "a.txt"})])
async def test_a_changed_file_is_shown_to_the_watchers(result: str, arguments: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    heard: Heard = []
    context = result_context("create", result, {"workspace": tmp_path, "received": heard}, **arguments)
    await ask(context, auto_read())
    assert heard == [HookMessage("auto_read", "system", "a.txt:\nhello")]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("../b.txt", "../b.txt is outside of the workspace, and not shown."),
        ("/etc/passwd", "/etc/passwd is outside of the workspace, and not shown."),
        ("gone.txt", "gone.txt cannot be read: No such file or directory"),
        ("picture", "picture:\n(no text)"),
        ("long.txt", "long.txt:\nxxxxx\n(and more)"),
    ],
)
async def test_what_cannot_be_shown_gives_the_reason(path: str, shown: str, tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"\x89\0")
    (tmp_path / "long.txt").write_text("x" * 10)
    heard: Heard = []
    context = result_context("edit", "ok", {"workspace": tmp_path, "received": heard}, path=path)
    await ask(context, auto_read(limit=5))
    assert [message.content for message in heard if isinstance(message, HookMessage)] == [shown]


async def test_where_no_file_is_named_nothing_is_shown(tmp_path: Path) -> None:
    heard: Heard = []
    context = result_context("edit", "[1]", {"workspace": tmp_path, "received": heard}, n=1)
    await ask(context, auto_read())
    assert heard == []


async def test_the_hooks_for_a_terminal_work_together(repository: Path) -> None:
    @tool
    async def write_file(path: str) -> str:
        """Write a file."""
        (repository / path).write_text("hello")
        return "written"

    model = ScriptedModel([call("write_file", path="a.txt"), "Done." * 1000])
    hooks = terminal_hooks()
    worker = Worker(model, tools=[write_file], hooks=hooks, workspace=repository)
    run = worker.run("Write a.txt.")
    heard: list[tuple[str, str]] = []

    def hear(event: object) -> None:
        if isinstance(event, HookMessage):
            heard.append((event.hook, event.content[:12]))

    run.events.subscribe(hear)
    await run
    assert heard == [("auto_read", "a.txt:\nhello"), ("long_answer_notice", "A long answe")]
    assert worker.session.conversation.messages[3] == Message.system("Files have changed:\n?? a.txt\n")
    assert model.requests[0].conversation.messages[0].text.endswith("] Write a.txt.")


# hooks that are configured


@pytest.mark.parametrize(("value", "enabled"), [("1", True), ("yes", True), ("0", False), ("Off", False), ("", False)])
async def test_a_variable_of_the_environment_enables_a_hook_while_it_is_set(
    value: str, enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = HookStub("before_tool_call", when=enabled_by("RXWORKER_TEST_HOOK"))
    await ask(call_context("read"), stub)
    monkeypatch.setenv("RXWORKER_TEST_HOOK", value)
    await ask(call_context("read"), stub)
    assert stub.call_count == int(enabled)


class Config(Struct):
    """Settings of a hook, in a file of the workspace."""

    blocked: list[str]


async def test_a_hook_reads_its_settings_from_a_file_of_the_workspace(tmp_path: Path) -> None:
    @hook("PreToolUse")
    def configured(context: HookContext) -> Skip | None:
        path = context.workspace / "hook_config.json"
        config = msgspec.json.decode(path.read_bytes(), type=Config)
        return Skip("blocked") if context.tool_name in config.blocked else None

    (tmp_path / "hook_config.json").write_text('{"blocked": ["delete"]}')
    context = call_context("delete", fields={"workspace": tmp_path})
    assert await ask(context, configured) == Skip("blocked")


async def test_always_allow_passes_over_the_pauses_of_one_cause_and_nothing_else() -> None:
    @before_tool_call(priority=9)
    def permit(context: HookContext) -> Pause:
        return Pause("Really?")

    @before_tool_call
    def guard(context: HookContext) -> Skip | None:
        return Skip("no") if context.tool_args == {"path": "/"} else None

    permitted = always_allow("delete", "permit")
    heard: list[HookVerdict] = []
    assert isinstance(await ask(call_context("delete"), permit), Pause)
    verdict = await verdict_of(Hooks([permit, permitted]), permitted.point, call_context("delete"), heard.append)
    assert verdict == (Continue(), "")
    assert [(event.hook, event.verdict) for event in heard] == [("permit", "Continue")]
    assert isinstance(await ask(call_context("delete_all"), permit, permitted), Pause)
    assert isinstance(await ask(call_context("delete"), permit, always_allow("delete")), Pause)
    assert isinstance(await ask(call_context("delete", path="/"), permit, guard, permitted), Skip)
    within = always_allow("delete", "both/permit")
    both = chain(permit, guard, name="both")
    assert await ask(call_context("delete", path="a"), both, within) == Continue()


async def test_a_tool_that_requires_approval_runs_while_it_is_always_allowed() -> None:
    @tool(requires_approval=True)
    def delete(path: str) -> str:
        """Delete."""
        return f"{path} is gone"

    calls = [call("delete", path="a"), "Gone.", call("delete", path="b")]
    worker = Worker(ScriptedModel(calls), tools=[delete], hooks=[always_allow("delete")])
    assert (await worker.run("Delete a")).text == "Gone."
    assert worker.hooks.remove(always_allow("delete").name)
    assert type(await worker.run("Delete b")).__name__ == "Paused"
