"""Slash commands, sessions, themes, and the switch of the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rxworker import Worker, tool
from rxworker.boards import Dashboard, panel
from rxworker.errors import ConfigurationError
from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    Record,
    RunStart,
    ToolStart,
    ToolStop,
    ToolUseMetadata,
    TurnStart,
)
from rxworker.log import SQLiteLog
from rxworker.messages import Conversation, Message, ToolCall, ToolResult
from rxworker.panels import count
from rxworker.testing import ReplayServer, ScriptedModel, call
from rxworker.ui.terminal.bars import CommandMenu, Composer
from rxworker.ui.terminal.session import list_sessions, title_of_session
from rxworker.ui.terminal.trace import Bar, trace_rows
from rxworker.views import RunView

from .conftest import Open


async def test_commands_are_completed_while_they_are_typed(open_app: Open) -> None:
    async with open_app(Worker(ScriptedModel(["Hello."])), size=(100, 30)) as person:
        await person.press("/", sees="begin a new conversation")
        await person.press("t", "h", "tab")
        assert person.typed == "/theme "
        await person.sees("rxworker-contrast")
        await person.press(*"contrast", "enter")
        await person.until(lambda: person.app.theme == "rxworker-contrast")
        assert person.typed == ""
        await person.press("/")
        await person.press("escape")
        assert not person.app.query_one(CommandMenu).is_open
        assert person.typed == "/"


async def test_enter_sends_what_is_typed_before_the_menu_has_followed(open_app: Open) -> None:
    async with open_app(Worker(ScriptedModel(["Hello."])), size=(100, 30)) as person:
        await person.press(*"/them", sees="/theme")
        menu, text = person.app.query_one(CommandMenu), "/theme rxworker-contrast"
        before = list(menu.choices)
        person.app.query_one(Composer).text = text
        await person.until(lambda: menu.text == text)
        menu.show(before, "/them")  # as if it had not followed yet
        await person.press("enter")
        await person.until(lambda: person.app.theme == "rxworker-contrast")


async def test_an_unknown_command_stays_in_the_input_and_two_slashes_are_a_message(open_app: Open) -> None:
    model = ScriptedModel(["Hello."])
    async with open_app(Worker(model), size=(100, 30)) as person:
        await person.say("/thme")
        await person.is_notified("There is no command /thme. Did you mean /theme?")
        assert person.typed == "/thme"
        await person.ask("//thme is a word")
        assert model.requests[0].conversation.messages[-1].text == "/thme is a word"


@pytest.mark.slow
async def test_a_conversation_is_renamed_left_and_resumed_in_another_process(open_app: Open, tmp_path: Path) -> None:
    worker = Worker(ScriptedModel(["One.", "Other."]))
    async with SQLiteLog(tmp_path / "runs.db") as worker.log, open_app(worker) as person:
        await person.ask("First question")
        await person.say("/rename A [bold]trip")
        await person.is_notified("This conversation is called A [bold]trip.")
        await person.say("/new")
        await person.until(lambda: not person.lanes)
        await person.ask("Second question")
    async with SQLiteLog(tmp_path / "runs.db") as log:
        assert [title_of_session(each) for each in await list_sessions(log)] == ["Second question", "A [bold]trip"]
        model = ScriptedModel(["Two."])
        async with open_app(Worker(model, log=log), size=(100, 30)) as person:
            await person.say("/resume", sees="A [bold]trip")  # chosen from the menu, or before it has followed
            await person.press(*"trip", "enter")
            await person.until(lambda: len(person.lanes) == 2)
            await person.ask("Go on")
            sent = [message.text for message in model.requests[0].conversation.messages]
            assert sent == ["First question", "One.", "Go on"]
        assert [len(each.runs) for each in await list_sessions(log)] == [2, 1]


@pytest.mark.slow
async def test_the_app_begins_with_the_conversation_that_was_used_last(open_app: Open, tmp_path: Path) -> None:
    async with SQLiteLog(tmp_path / "runs.db") as log:
        worker = Worker(ScriptedModel(["One."]), log=log)
        async with open_app(worker, goes_on=True) as person:
            await person.is_notified("There is no stored conversation yet.")
            await person.ask("First question")
        model = ScriptedModel(["Two."])
        async with open_app(Worker(model, log=log), goes_on=True) as person:
            await person.until(lambda: len(person.lanes) == 2)
            await person.ask("Go on")
        sent = [message.text for message in model.requests[0].conversation.messages]
        assert sent == ["First question", "One.", "Go on"]


@pytest.mark.slow
async def test_without_a_log_a_paused_conversation_is_kept_and_decided_later(open_app: Open) -> None:
    ran: list[str] = []

    @tool(requires_approval=True)
    async def delete(path: str) -> str:
        """Delete a file."""
        ran.append(path)
        return "gone"

    worker = Worker(ScriptedModel([call("delete", path="a"), "Else.", "Done."]), tools=[delete])
    async with open_app(worker) as person:
        await person.ask("Clean up", sees="delete waits for approval")
        await person.press("escape")
        await person.say("/new")
        await person.until(lambda: not person.lanes)
        await person.ask("Something else")
        await person.say("/resume clean")
        await person.until(lambda: person.app.session.waiting is not None)
        await person.press("ctrl+r", sees="delete waits for approval")
        await person.press("ctrl+s", sees="Done.")
        assert ran == ["a"]
    assert worker.log is None


@pytest.mark.slow
async def test_a_tool_that_is_always_allowed_runs_without_approval_until_that_is_revoked(open_app: Open) -> None:
    @tool(requires_approval=True)
    async def delete(path: str) -> str:
        """Delete a file."""
        return f"{path} is gone"

    answers = [call("delete", path=name) for name in "abc"]
    worker = Worker(ScriptedModel([answers[0], answers[1], "Done.", answers[2]]), tools=[delete])
    async with open_app(worker, size=(100, 30)) as person:
        await person.ask("Clean up", sees="delete waits for approval")
        await person.press("ctrl+a", sees="Done.")
        await person.say("/allow delete")
        await person.is_notified("delete needs approval again.")
        await person.ask("Once more", sees="delete waits for approval")
        await person.press("escape")


@pytest.mark.slow
async def test_what_is_always_allowed_is_kept_with_a_stored_session(open_app: Open, tmp_path: Path) -> None:
    @tool(requires_approval=True)
    async def delete(path: str) -> str:
        """Delete a file."""
        return f"{path} is gone"

    model = ScriptedModel(
        lambda request: "Done." if request.conversation.messages[-1].tool_results else call("delete", path="a")
    )
    async with SQLiteLog(tmp_path / "runs.db") as log:
        for is_first in (True, False):
            async with open_app(Worker(model, tools=[delete], log=log), size=(100, 30)) as person:
                session = person.app.session
                if is_first:
                    await person.ask("Clean up", sees="delete waits for approval")
                    await person.press("ctrl+a", sees="Done.")
                    continue
                [stored] = await list_sessions(log)
                await person.say(f"/resume {stored.id}")
                await person.until(lambda: len(person.lanes) > 1)
                assert session.allowed == ["delete"]
                session.allow("delete", is_allowed=False)
        [stored] = await list_sessions(log)
        assert stored.runs[-1].row.allowed == ()


async def test_the_model_is_switched_and_the_conversation_goes_on(open_app: Open) -> None:
    first, second = ScriptedModel(["One."]), ScriptedModel(["Two."], model="other")
    worker = Worker(first)
    async with open_app(worker, size=(100, 30)) as person:

        def find(provider: str, model: str) -> ScriptedModel:
            if provider != "scripted":
                raise ConfigurationError(f"unknown provider {provider}")
            return second

        person.app.session._find_model = find
        await person.ask("Hi")
        await person.say("/model nobody/x")
        await person.is_notified("unknown provider nobody")
        await person.press("ctrl+u")
        await person.say("/model scripted/other")
        await person.is_notified("answers from now on")
        await person.ask("And?")
        assert [m.text for m in second.requests[0].conversation.messages] == ["Hi", "One.", "And?"]
    assert worker.model is first  # another program may share it


async def test_the_conversation_is_copied_and_exported_and_no_file_is_replaced(open_app: Open, tmp_path: Path) -> None:
    async with open_app(Worker(ScriptedModel(["It **is**."])), size=(100, 30)) as person:
        await person.ask("Is it?")
        await person.say("/copy")
        await person.until(lambda: person.app.clipboard == "It **is**.")
        for suffix in ("md", "html", "jsonl"):
            await person.say(f"/export {tmp_path / 'out'}.{suffix}")
            await person.until((tmp_path / f"out.{suffix}").exists)
        assert (tmp_path / "out.md").read_text() == "## User\n\nIs it?\n\n## Assistant\n\nIt **is**.\n"
        assert "Is it?" in (tmp_path / "out.html").read_text()
        assert (tmp_path / "out.jsonl").read_text().startswith('{"run":')
        await person.say(f"/export {tmp_path / 'out.md'}")
        await person.is_notified("exists already")


@pytest.mark.slow
async def test_chat_resumes_a_stored_conversation_and_stores_what_follows(
    chat: Callable[..., Any], tmp_path: Path
) -> None:
    async with SQLiteLog(tmp_path / "runs.db") as log:
        await Worker(ScriptedModel(["Hello there!"]), log=log).run("Hi")

    def talk() -> None:
        with ReplayServer(["Again."]) as server:
            opened = chat(server.base_url, "--log", "sqlite:runs.db", "--also", "openai-chat/m2", "--no-hooks")
            opened.answer("Type a message to begin.", "/resume hi\r")
            opened.answer("Hello there!", "More\r")
            opened.wait_for("Again.")
            opened.answer("20 tokens in, 10 out", "/model ")
            opened.answer("openai-chat/m2", "\x15\x04")
            assert opened.end() == 0
            assert opened.is_restored

    await asyncio.to_thread(talk)
    async with SQLiteLog(tmp_path / "runs.db") as log:
        assert [len(each.runs) for each in await list_sessions(log)] == [2]


def test_the_trace_has_the_wait_of_each_attempt_and_the_time_of_each_call() -> None:
    view, asked = RunView(), ToolCall("c1", "look", {})
    use, named = BlockType.TOOL_USE, ToolUseMetadata("c1", "look")
    events: list[tuple[float, int, int, Event]] = [
        (0.0, 0, 0, RunStart(Conversation((Message.user("Hi"),)))),
        (0.0, 1, 0, TurnStart()),
        (0.0, 1, 1, AttemptStart("scripted", "m")),
        (2.0, 1, 1, BlockStart(0, BlockType.TEXT)),
        (2.5, 1, 1, AttemptRetract("it broke")),
        (3.0, 1, 2, AttemptStart("scripted", "m")),
        (4.0, 1, 2, BlockStart(0, use, named)),
        (5.0, 1, 2, BlockStop(0, use, metadata=named)),
        (6.0, 1, 2, ToolStart(asked)),
        (9.0, 1, 2, ToolStop(ToolResult("c1", "a view", name="look"), 3.0)),
    ]
    for seq, (at, turn, attempt, event) in enumerate(events, 1):
        view.step(Record(seq, "r", turn, attempt, at, event))
    rows = trace_rows(view, 10.0)
    assert [(row.depth, row.name, row.note) for row in rows] == [
        (0, "turn 1", "10.0 s"),
        (1, "response", "retracted"),
        (2, "text", "retracted"),
        (1, "attempt 2", "first after 1.0 s"),
        (2, "⚙ look", "3.0 s"),
    ]
    assert rows[3].bars[0] == Bar("wait", 3.0, 4.0)
    assert rows[4].bars == (Bar("write", 4.0, 5.0), Bar("run", 6.0, 9.0))


async def test_the_trace_of_the_last_run_is_shown_and_is_empty_without_one(open_app: Open) -> None:
    async with open_app(Worker(ScriptedModel(["Hello."])), size=(100, 30)) as person:
        await person.press("ctrl+y")
        assert person.app.screen is not person.app.conversation
        await person.press("escape", "x", "backspace")
        await person.ask("Hi")
        await person.say("/trace", sees="turn 1")
        assert "first after" in person.screen
        await person.press("escape")
        assert person.app.screen is person.app.conversation


async def test_the_dashboard_of_the_conversation_is_shown_and_follows_its_runs(open_app: Open) -> None:
    async with open_app(Worker(ScriptedModel(["Hello.", "Again."])), size=(100, 60)) as person:
        await person.say("/usage", sees=f"{'Tokens':<19}  ...")
        await person.press("escape")
        await person.ask("Hi")
        await person.say("/usage", sees=f"{'Tokens':<19}  15")
        assert "Calls by tool" in person.screen
        await person.press("escape")
        assert person.app.screen is person.app.conversation


async def test_another_dashboard_can_be_given(open_app: Open) -> None:
    board = Dashboard([panel("Turns so far", count(TurnStart))], title="Mine")
    worker = Worker(ScriptedModel(["Hello.", "Again."]))
    async with open_app(worker, size=(100, 30), dashboard=board) as person:
        for text in ("Hi", "And?"):
            await person.ask(text)
        await person.say("/usage", sees="Turns so far  2")
        assert "Mine" in person.screen
        assert "Time to first token" not in person.screen
