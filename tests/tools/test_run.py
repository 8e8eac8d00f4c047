from __future__ import annotations

import asyncio
import contextvars
import datetime
import logging
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from rxworker import tool
from rxworker.errors import ExecutionFailedError, InvalidArgumentError, describe
from rxworker.events import ToolProgress, ToolStart, ToolStop
from rxworker.messages import Image, JsonObject, Text, ToolCall, ToolMeta, ToolResult
from rxworker.tools import Toolbox, ToolContext, ToolPolicy
from rxworker.tools.run import CallScope, ToolEvent, run_call
from tests.tools.row import run_calls


def call(name: str, id: str = "1", /, **arguments: Any) -> ToolCall:  # noqa: A002
    return ToolCall(id, name, arguments)


@tool
async def echo(text: str) -> str:
    return text


async def run(function: Callable[..., Any], input: JsonObject | str = "") -> ToolResult:  # noqa: A002
    made = tool(function)
    return await run_call(Toolbox([made]), ToolCall("1", made.meta.name, input))


async def test_a_call_is_answered_by_its_id() -> None:
    result = await run_call(Toolbox([echo]), call("echo", "call_7", text="hi"))
    assert result == ToolResult("call_7", "hi", name="echo")


async def test_an_unknown_name_is_an_error_that_lists_the_known_ones() -> None:
    @tool
    def look() -> None: ...

    result = await run_call(Toolbox([echo, look]), call("fly"))
    assert result.is_error
    assert result.name == "fly"
    assert result.text == "There is no tool called 'fly'. These are the tools: echo, look."


async def test_arguments_that_cannot_be_written_are_an_error_whatever_they_raise() -> None:
    class Nowhere(datetime.tzinfo):
        def utcoffset(self, dt: datetime.datetime | None) -> datetime.timedelta:
            raise KeyError("offset")

    for odd in (datetime.datetime(2026, 1, 1, tzinfo=Nowhere()), object(), "\ud800"):
        result = await run_call(Toolbox([echo]), call("echo", text=odd))
        assert result.is_error
        assert "has no JSON form" in result.text


async def test_a_tool_is_looked_up_when_it_is_called() -> None:
    toolbox = Toolbox()
    assert (await run_call(toolbox, call("echo", text="a"))).is_error
    toolbox.add(echo)
    assert not (await run_call(toolbox, call("echo", text="a"))).is_error


async def test_wrong_arguments_are_an_error_that_names_the_path() -> None:
    result = await run_call(Toolbox([echo]), call("echo", text=1))
    assert result.is_error
    assert result.text == (
        "The call was not run, invalid arguments at $.text: Expected `str`, got `int`. Correct the arguments and "
        "call again."
    )


async def test_what_a_tool_raises_is_an_error_with_type_and_message_alone() -> None:
    def fail() -> None:
        raise KeyError("no such city")

    async def fail_later() -> None:
        raise ValueError("not today")

    result = await run(fail)
    assert (result.is_error, result.text) == (True, "The tool failed: KeyError: 'no such city'")
    assert (await run(fail_later)).text == "The tool failed: ValueError: not today"


async def test_stop_iteration_is_an_error_like_others() -> None:
    def in_thread() -> None:
        raise StopIteration

    async def on_loop() -> None:
        raise StopAsyncIteration

    assert (await run(in_thread)).is_error
    assert (await run(on_loop)).is_error


def test_an_exception_without_a_text_is_named_by_its_type() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert describe(MuteError()).endswith("MuteError")


async def test_the_logger_receives_the_cause(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise KeyError("secret path")

    with caplog.at_level(logging.DEBUG, "rxworker.tools"):
        await run(fail)
    (record,) = caplog.records
    assert record.levelno == logging.DEBUG
    assert record.exc_info is not None
    error = record.exc_info[1]
    assert isinstance(error, ExecutionFailedError)
    assert isinstance(error.__cause__, KeyError)


async def test_a_lone_surrogate_does_not_reach_the_conversation() -> None:
    async def name() -> str:
        return "a\udcff"

    async def named() -> list[object]:
        return [Text("b\udcff"), Image(url="u")]

    assert (await run(name)).content == "a?"
    assert (await run(named)).content == (Text("b?"), Image(url="u"))


async def test_a_tool_that_takes_too_long_is_given_up() -> None:
    cleaned: list[str] = []

    @tool(timeout=0.001)
    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("up")

    result = await run_call(Toolbox([wait]), call("wait"))
    assert result.is_error
    assert result.text == "The call was given up: wait gave no result within 0.001 seconds."
    assert cleaned == ["up"]


async def test_a_tool_may_raise_a_time_out_of_its_own() -> None:
    @tool(timeout=60)
    async def wait() -> None:
        raise TimeoutError("the station does not answer")

    result = await run_call(Toolbox([wait]), call("wait"))
    assert result.text == "The tool failed: TimeoutError: the station does not answer"


async def test_a_tool_that_fails_because_it_is_given_up_is_given_up() -> None:
    @tool(timeout=0.001)
    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("interrupted") from None

    assert "given up" in (await run_call(Toolbox([wait]), call("wait"))).text


async def test_a_thread_that_is_given_up_does_not_hold_the_loop() -> None:
    go_on, ended = threading.Event(), threading.Event()
    cancelled: list[bool] = []

    @tool(timeout=0.001)
    def block(context: ToolContext) -> None:
        go_on.wait(30)
        context.progress("too late")
        cancelled.append(context.cancelled)
        ended.set()

    heard: list[object] = []
    result = await run_call(Toolbox([block]), call("block"), emit=heard.append)
    assert "given up" in result.text
    go_on.set()
    assert await asyncio.to_thread(ended.wait, 30)
    assert cancelled == [True]
    assert [type(event) for event in heard] == [ToolStart, ToolStop]


def test_a_loop_can_be_closed_while_a_thread_still_runs() -> None:
    go_on, ended = threading.Event(), threading.Event()

    @tool(timeout=0.001)
    def block() -> None:
        go_on.wait(30)
        ended.set()

    result = asyncio.run(run_call(Toolbox([block]), call("block")))
    assert result.is_error
    go_on.set()
    assert ended.wait(30)


async def test_a_plain_function_runs_in_a_thread_with_the_callers_context() -> None:
    who = contextvars.ContextVar[str]("who")
    who.set("Ada")

    def look() -> list[object]:
        return [threading.current_thread() is threading.main_thread(), who.get()]

    assert (await run(look)).text == '[false,"Ada"]'


async def test_a_call_is_retried_as_often_as_its_tool_allows() -> None:
    keys: list[str] = []

    @tool(effect="idempotent", retries=2)
    async def flaky(context: ToolContext) -> str:
        keys.append(context.idempotency_key)
        if len(keys) < 3:
            raise ConnectionError
        return "at last"

    assert (await run_call(Toolbox([flaky]), call("flaky"), CallScope("run/2"))).text == "at last"
    assert len(set(keys)) == 1
    assert keys[0].startswith("run/2/0/")


async def test_the_last_failure_is_reported_when_retries_are_used_up() -> None:
    attempts: list[int] = []

    @tool(effect="pure", retries=1)
    async def fail() -> None:
        attempts.append(1)
        raise ConnectionError(f"no {len(attempts)}")

    result = await run_call(Toolbox([fail]), call("fail"))
    assert result.text == "The tool failed: ConnectionError: no 2"


async def test_wrong_arguments_are_not_retried() -> None:
    attempts: list[int] = []

    class Picky:
        meta = ToolMeta("picky", "", {})
        policy = ToolPolicy(effect="pure", retries=5)

        async def execute(self, input_json: str | bytes, context: ToolContext, /) -> str:
            attempts.append(1)
            raise InvalidArgumentError(f"no {input_json!r}", tool=context.tool)

    assert (await run_call(Toolbox([Picky()]), call("picky"))).is_error
    assert attempts == [1]


async def test_any_object_of_the_right_shape_is_a_tool() -> None:
    class Shout:
        meta = ToolMeta("shout", "", {})

        async def execute(self, input_json: str | bytes, context: ToolContext, /) -> str:
            if input_json == b"{}":
                raise ValueError("words only")
            return f"{context.tool}: {input_json!r}"

    toolbox = Toolbox([Shout()])
    assert (await run_call(toolbox, call("shout", a="b"))).text == 'shout: b\'{"a":"b"}\''
    assert (await run_call(toolbox, call("shout"))).text == "The tool failed: ValueError: words only"
    free = await run_call(toolbox, ToolCall("1", "shout", "free text"))
    assert "this is not a JSON object but the text 'free text'" in free.text


async def test_the_context_knows_the_call() -> None:
    contexts: list[ToolContext] = []

    @tool
    async def look(context: ToolContext) -> None:
        contexts.append(context)
        context.variables["seen"] = True

    variables: dict[str, Any] = {}
    await run_call(Toolbox([look]), call("look", "call_7"), CallScope(variables=variables))
    (context,) = contexts
    assert (context.call_id, context.tool) == ("call_7", "look")
    assert context.idempotency_key.startswith("call_7/0/")
    assert variables == {"seen": True}


async def test_the_context_of_a_call_has_all_that_a_context_has() -> None:
    attributes: list[set[str]] = []

    @tool
    async def look(context: ToolContext) -> None:
        attributes.append(set(dir(context)))

    await run_call(Toolbox([look]), call("look"))
    assert attributes[0] >= set(ToolContext.__slots__) - {"_key"}


async def test_what_is_cancelled_inside_a_tool_is_a_failure_of_the_tool() -> None:
    async def wait() -> None:
        inner = asyncio.ensure_future(asyncio.Event().wait())
        inner.cancel()
        await inner

    assert (await run(wait)).text == "The tool failed: what it waited for was cancelled"


# Several calls at once.


async def test_starts_are_reported_when_a_call_gets_its_turn() -> None:
    heard: list[object] = []

    @tool
    async def step(name: str, context: ToolContext) -> None:
        context.progress({"at": name})

    calls = [call("step", n, name=n) for n in "ab"] + [call("none", "c")]
    await run_calls(Toolbox([step]), calls, heard.append, limit=1)
    assert [event for event in heard if not isinstance(event, ToolStop)] == [
        ToolStart(calls[0]),
        ToolProgress("a", {"at": "a"}),
        ToolStart(calls[1], 1),
        ToolProgress("b", {"at": "b"}, 1),
        ToolStart(calls[2], 2),
    ]


async def test_progress_from_a_thread_arrives_in_order_on_the_loop() -> None:
    home = threading.get_ident()
    heard: list[tuple[bool, object]] = []

    @tool
    def count(context: ToolContext) -> str:
        for number in range(100):
            context.progress(number)
        return "done"

    def emit(event: ToolEvent) -> None:
        if isinstance(event, ToolProgress):
            heard.append((threading.get_ident() == home, event.progress))

    await run_calls(Toolbox([count]), [call("count")], emit)
    assert heard == [(True, number) for number in range(100)]


async def test_a_cancellation_reaches_every_call_once_and_waits_for_them() -> None:
    started: list[int] = []
    cleaned: list[int] = []
    all_started = asyncio.Event()

    @tool
    async def wait(number: int) -> None:
        started.append(number)
        if len(started) == 2:
            all_started.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(number * 5):
                await asyncio.sleep(0)  # a second cancellation would break in here
            cleaned.append(number)

    calls = [call("wait", str(n), number=n) for n in range(1, 5)]
    task = asyncio.create_task(run_calls(Toolbox([wait]), calls, limit=2))
    await all_started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert started == [1, 2]
    assert cleaned == [1, 2]


async def test_progress_is_a_copy() -> None:
    heard: list[object] = []

    @tool
    async def go(context: ToolContext) -> None:
        done: list[int] = []
        for number in range(2):
            done.append(number)
            context.progress(done)

    await run_calls(Toolbox([go]), [call("go")], heard.append)
    assert heard[1:-1] == [ToolProgress("1", [0]), ToolProgress("1", [0, 1])]


async def test_big_integers_survive() -> None:
    @tool
    async def double(number: int) -> int:
        return number * 2

    arguments: JsonObject = msgspec.json.decode(b'{"number": 123456789012345678901234567890}')
    result = await run_call(Toolbox([double]), ToolCall("1", "double", arguments))
    assert result.text == "246913578024691357802469135780"


async def test_a_tool_that_cancels_its_own_task_has_failed_and_the_others_go_on() -> None:
    @tool
    async def give_up() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    calls = [call("give_up"), call("echo", "2", text="hi")]
    first, second = await run_calls(Toolbox([give_up, echo]), calls)
    assert first.result == ToolResult("1", "The tool cancelled itself.", is_error=True, name="give_up")
    assert second.result.text == "hi"


async def test_a_call_that_fails_as_it_is_cancelled_is_not_made_again() -> None:
    started, begun = list[int](), asyncio.Event()

    @tool(retries=3, effect="idempotent")
    async def stumble() -> None:
        started.append(len(started))
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise ValueError("in the middle of it") from None

    running = asyncio.create_task(run_calls(Toolbox([stumble]), [call("stumble")]))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert started == [0]
