"""What cannot be sent to a run is refused in one sentence wherever it is given, and ignored where it is stored."""

# pyright: reportArgumentType=false

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from rxworker import Run, Worker
from rxworker.errors import ConfigurationError
from rxworker.events import CommandTaken, MessageAdd
from rxworker.log import EventLog, Replica
from rxworker.log.values import Command, DeliveredResult, deliver_command, send_command, signal_command
from rxworker.messages import Message, Text, ToolCall, ToolResult
from rxworker.testing import ScriptedModel, call
from rxworker.worker import submit
from tests.log.conftest import OpenLog
from tests.log.processes import Waiting, end_of, stored, working
from tests.log.test_worker import events

HALF = "half of a pair: \ud83d"
REFUSED_MESSAGES: dict[str, tuple[Any, str]] = {
    "nothing": ((), "is a text, a message, or a list"),
    "an empty text": ("", "empty"),
    "blanks": (" \n", "empty"),
    "an empty message": (Message.user(), "empty"),
    "a number": (3, "is a text, a message, or a list"),
    "none": (None, "is a text, a message, or a list"),
    "messages and texts": ([Message.user("a"), "b"], "is a text, a message, or a list"),
    "half of a pair": (HALF, "surrogate"),
    "an answer": (Message.assistant("I agreed."), "only messages of the user or the system"),
    "an answer among others": ([Message.user("a"), Message.assistant("b")], "only messages of"),
    "a result": (Message.user(ToolResult("zz", "of no call")), "only messages of the user"),
    "a call": (Message("user", (ToolCall("zz", "look", {}),)), "only messages of the user"),
    "a robot": (Message("robot", (Text("x"),)), "cannot take this send command: .*robot"),
    "content that is a text": (Message("user", "text"), "cannot take this send command: "),
    "a text that is a number": (Message("user", (Text(3),)), "cannot take this send command: "),
}
REFUSED_OPTIONS: dict[str, tuple[str, dict[str, Any], str]] = {
    "a pause for a number": ("pause", {"reason": 3}, "reason is a int"),
    "a pause for nothing": ("pause", {"reason": None}, "reason is a NoneType"),
    "a cancellation for a number": ("cancel", {"reason": 3}, "reason is a int"),
    "a misspelt moment": ("cancel", {"when": "after-turn"}, "when is 'now' or 'after_turn'"),
    "no moment": ("cancel", {"when": None}, "when is 'now' or 'after_turn'"),
    "an object as the moment": ("cancel", {"when": object}, "when is 'now' or 'after_turn'"),
    "a list as the moment": ("cancel", {"when": ["now"]}, "when is 'now' or 'after_turn'"),
}
REFUSED_COMMANDS: dict[str, tuple[Any, str]] = {
    "an unknown kind": (Command("stop"), "takes no command 'stop'; give one of send, deliver, pause"),
    "what only a log makes": (Command("ignored"), "takes no command 'ignored'"),
    "a kind that is a list": (Command(["cancel"]), "takes no command"),
    "a text": ("cancel", "the command is a str"),
    "data that is a list": (Command("cancel", ["now"]), "Command\\(data\\) is a list"),
    "data without messages": (Command("send"), "messages"),
    "data with a text": (Command("send", {"text": "Hi"}), "messages"),
    "no messages": (Command("send", {"messages": []}), "a text, a message, or a list"),
    "messages that are a text": (Command("send", {"messages": "Hi"}), "messages"),
    "data that is not JSON": (Command("pause", {"x": object()}), "cannot take this"),
    "a key that is a number": (Command("pause", key=5), "cannot take this"),
    "the result of a number": (deliver_command(DeliveredResult(cast("Any", 5), "x")), "cannot take this deliver"),
    "the result of no call": (deliver_command(DeliveredResult("", "x")), "cannot take this deliver"),
    "a signal without a name": (signal_command(""), "a signal has a name"),
    "a key that no store takes": (Command("pause", key="a\0"), "key"),
    **{f"{name}, as a command": (Command(kind, data), text) for name, (kind, data, text) in REFUSED_OPTIONS.items()},
    **{
        f"{name}, as a command": (send_command((given,)), text)
        for name, (given, text) in REFUSED_MESSAGES.items()
        if isinstance(given, Message)
    },
}
FOREIGN: dict[str, tuple[bytes, str]] = {
    "an unknown kind": (b'{"kind":"stop"}', "takes no command 'stop'|Invalid enum value 'stop'"),
    "a kind that is a number": (b'{"kind":7}', "kind"),
    "no kind": (b"{}", "kind"),
    "the kind of what is ignored": (b'{"kind":"ignored"}', "takes no command 'ignored'"),
    "no text": (b'{"kind":"send","data":{"messages":[{"role":"user","content":"x"}]}}', "content"),
    "a misspelt moment": (b'{"kind":"cancel","data":{"when":"after-turn"}}', "when is 'now'"),
    "a moment in a list": (b'{"kind":"cancel","data":["after_turn"]}', "data"),
    "a reason that is a number": (b'{"kind":"cancel","data":{"reason":3}}', "reason is a int"),
    "a pause for a number": (b'{"kind":"pause","data":{"reason":3}}', "reason is a int"),
    "a key that is a number": (b'{"kind":"pause","key":3}', "key"),
    "no messages": (b'{"kind":"send","data":{"messages":[]}}', "a text, a message, or a list"),
    "nothing": (b'{"kind":"send"}', "messages"),
    "an empty message": (b'{"kind":"send","data":{"messages":[{"role":"user","content":[]}]}}', "empty"),
    "an answer": (
        b'{"kind":"send","data":{"messages":[{"role":"assistant","content":[{"type":"text","text":"x"}]}]}}',
        "only messages of the user or the system",
    ),
    "a result": (
        b'{"kind":"send","data":{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"z","content":[]}]}]}}',
        "only messages of the user or the system",
    ),
}
"""What another program may store as a command, and why it is ignored."""


async def refusal(of: object, name: str, *given: object, **options: object) -> str:
    """The sentence with which a method refuses what it is given."""
    with pytest.raises(ConfigurationError) as error:
        await getattr(of, name)(*given, **options)
    return error.value.message


@asynccontextmanager
async def started(log: EventLog | None = None) -> AsyncGenerator[Run[object]]:
    """A run whose first tool waits."""
    waiting = Waiting()
    run = Worker(ScriptedModel([call("wait"), "Done."]), tools=[waiting.tool], log=log).run("Hi")
    await waiting.begun.wait()
    yield run
    waiting.go_on.set()
    assert (await run).text == "Done."
    assert run.state.turns == 2  # no request is made for what is refused


async def test_what_a_run_refuses_its_replica_and_its_log_refuse_in_the_same_words(open_store: OpenLog) -> None:
    async with open_store() as log, started() as alone, started(log) as run:
        replica = Replica(log, run.id)
        for name, (given, text) in REFUSED_MESSAGES.items():
            said = [await refusal(each, "send", given) for each in (alone, run, replica)]
            if isinstance(given, Message):
                said.append(await refusal(log, "send", run.id, send_command((given,))))
            assert len(set(said)) == 1, (name, said)
            assert re.search(text, said[0]), (name, said)
        for name, (kind, options, text) in REFUSED_OPTIONS.items():
            said = [await refusal(each, kind, **options) for each in (alone, run, replica)]
            said.append(await refusal(log, "send", run.id, Command(kind, options)))
            assert len(set(said)) == 1, (name, said)
            assert re.search(text, said[0]), (name, said)
        for name, (command, text) in REFUSED_COMMANDS.items():
            said = await refusal(log, "send", run.id, command)
            assert re.search(text, said), (name, said)
        assert await refusal(replica, "send") == await refusal(alone, "send", ())
        assert await log.sent(run.id) == []
        replica.close()


async def test_a_replica_takes_what_a_run_takes(open_store: OpenLog) -> None:
    async with open_store() as log:
        async with started(log) as run:
            replica = Replica(log, run.id)
            sent: list[Any] = ["a text", Message.user("b"), ["c", Text("d")], [Message.system("e")]]
            for given in sent:
                await replica.send(given)
            await replica.send(Message.user("f"), Message.user("g"))
            await run._context.commands.read_now()  # pyright: ignore
            replica.close()
        found = events(await stored(log, run.id), MessageAdd)
    added = [m.text for event in found if event.source == "send" for m in event.messages]  # pyright: ignore
    assert added == ["a text", "b", "cd", "e", "f", "g"]


def assert_ignored(found: list[Any]) -> None:
    """Each is taken once, and says why it is ignored."""
    assert [taken.number for taken in found] == list(range(1, len(FOREIGN) + 1))
    for taken, (_, why) in zip(found, FOREIGN.values(), strict=True):
        assert taken.kind == "ignored"
        assert re.search(why, taken.ignored), taken


async def test_a_run_ignores_and_reports_the_commands_that_another_program_has_stored_wrongly(
    open_store: OpenLog, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_store() as log:
        async with started(log) as run:
            for body, _ in FOREIGN.values():
                await log._send(run.id, "", body)  # pyright: ignore[reportPrivateUsage]
            await run._context.commands.read_now()  # pyright: ignore
        records = await stored(log, run.id)
        assert_ignored(events(records, CommandTaken))
        assert (await log.existing(run.id)).status == "finished"
    reported = [each for each in caplog.records if "is ignored" in each.getMessage()]
    assert [vars(each)["command"] for each in reported] == list(range(1, len(FOREIGN) + 1))
    assert all(run.id in each.getMessage() for each in reported)
    assert "'stop'" in reported[0].getMessage()


async def test_a_queued_run_goes_on_after_the_commands_that_are_stored_wrongly(store: EventLog) -> None:
    run = await submit(store, "Hi")
    for body, _ in FOREIGN.values():
        await store._send(run, "", body)  # pyright: ignore[reportPrivateUsage]
    async with working(store):
        (replica,) = await end_of(store, run)
    assert replica.state.status == "finished"
    assert replica.state.turns == 1
    assert_ignored(events(await stored(store, run), CommandTaken))
