"""A run is cancelled at every moment that it has: nothing stays open, nothing is lost, and the worker runs again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from reactivex import Observable, abc
from reactivex.disposable import Disposable

from rxworker import (
    Paused,
    Run,
    Worker,
    after_tool_call,
    before_tool_call,
    on_abort,
    on_message_send,
    on_turn_end,
    tool,
)
from rxworker.errors import ProviderError, RunCancelledError
from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockStart,
    BlockStop,
    Event,
    InputJsonDelta,
    MessageAdd,
    Record,
    RunAbort,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
    ToolStart,
    ToolStop,
    TurnStart,
    TurnStop,
)
from rxworker.hooks import AbortContext, Pause, ToolCallContext
from rxworker.hooks.decorate import HookLike
from rxworker.messages import Conversation, Message, validate
from rxworker.providers import Anthropic, Gemini, HttpRequest, Ollama, OpenAIChat, OpenAIResponses, Options, Provider
from rxworker.testing import ReplayServer, ServedResponse, call, cut, fail, lint, say, stall, think
from rxworker.testing.server import AnswerLike
from rxworker.tools import Tool
from rxworker.transport import Client, Retry

MakeProvider = Callable[[str], Provider]
REASON = "the run was cancelled: enough"
ALL = (
    Anthropic("m", api_key="k"),
    OpenAIChat("m", api_key="k"),
    OpenAIResponses("m", api_key="k"),
    Gemini("gemini-3-pro", api_key="k"),
    Ollama("m"),
)


@pytest.fixture(params=[Anthropic, OpenAIChat], ids=["anthropic", "openai_chat"])
def make_provider(request: pytest.FixtureRequest) -> MakeProvider:
    """The two protocols that differ most in how blocks open and close."""

    def make(base_url: str) -> Provider:
        return request.param("m", api_key="k", base_url=base_url)

    return make


def is_accepted(conversation: Conversation) -> bool:
    """Whether it is sound, and every provider can be asked with it."""
    asked = conversation.add(Message.user("and now?"))
    sent = [provider.request(asked, (), Options()).body for provider in ALL]
    return validate(conversation) == [] and all(sent)


class Gate:
    """A place where something waits for ever, and tells when it has come there and when it was stopped."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.stopped = 0
        self.is_open = False

    async def wait(self) -> None:
        if self.is_open:
            return
        self.is_open = True  # the next one passes
        self.entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped += 1


@dataclass
class Scene:
    """What a moment needs: what is answered, who takes part, and how to wait until it has come.

    Attributes:
        answers: What the server answers; behind these comes one for the next run.
        come: Waits for the moment.
        gate: Where something waits.
        tools: What the model may call.
        hooks: Who takes part.
        tokens: The least that the run has cost by then.
        requests: How many requests have come in by then, at most.
        retry: When an answer that broke off is asked for again.
        client_retry: When a request that was refused is made again.
        is_answered: Whether the answer has ended by then, so that its connection may be kept for the next one.
    """

    answers: list[AnswerLike]
    come: Callable[[Run[object], ReplayServer], Awaitable[None]]
    gate: Gate = field(default_factory=Gate)
    tools: list[Tool] = field(default_factory=list[Tool])
    hooks: list[HookLike] = field(default_factory=list[HookLike])
    tokens: int = 0
    requests: int = 1
    retry: Retry | None = None
    client_retry: Retry | None = None
    is_answered: bool = False


def at(kind: type[Event], number: int = 1) -> Callable[[Run[object], ReplayServer], Awaitable[None]]:
    """The very moment at which an event of a kind is told, for the first or a later time."""

    async def come(run: Run[object], _: ReplayServer) -> None:
        seen = 0
        came = asyncio.Event()

        def watch(record: Record) -> None:
            nonlocal seen
            seen += isinstance(record.event, kind)
            if seen == number and not came.is_set():
                run.cancel(reason="enough")
                came.set()

        run.subscribe(watch, lambda _: None)
        await came.wait()

    return come


def within(gate: Gate) -> Callable[[Run[object], ReplayServer], Awaitable[None]]:
    """The moment at which something waits at the gate."""

    async def come(_: Run[object], __: ReplayServer) -> None:
        await gate.entered.wait()

    return come


async def at_once(_: Run[object], __: ReplayServer) -> None:
    """The moment at which the run has been made."""


async def asked(_: Run[object], server: ReplayServer) -> None:
    """The moment at which the request is there, and nothing has come back."""
    await server.wait_requests(1)


@tool
async def note(text: str) -> str:
    """Write a note."""
    return f"noted {text}"


def waiting_tool(gate: Gate) -> Tool:
    @tool
    async def hold() -> str:
        """Wait."""
        await gate.wait()
        return "held"

    return hold


def telling_tool(gate: Gate) -> Tool:
    @tool
    async def tell():  # pyright: ignore
        """Tell how far it is, and wait."""
        yield "a third"
        yield "two thirds"  # the first is told when there is a second: the last one is the result
        await gate.wait()
        yield "whole"

    return tell  # pyright: ignore


def waiting_hook(point: Any, gate: Gate) -> HookLike:
    @point
    async def hold(context: object) -> None:
        await gate.wait()

    return hold


class Noting(Retry, frozen=True):
    """Waits long, and tells that it does."""

    told: asyncio.Event | None = None

    def delay(self, error: Exception, attempt: int, chance: Callable[[], float] = random.random) -> float | None:
        """A long time."""
        assert self.told is not None
        self.told.set()
        return 1000.0


CALLS = say("Let me.") + call("note", text="a") + call("note", text="b")


def in_text() -> Scene:
    return Scene([say("Hello") + stall()], at(TextDelta))


def in_a_tool() -> Scene:
    gate = Gate()
    reply = call("note", text="a") + call("hold") + call("note", text="b")
    return Scene([reply], within(gate), gate, [note, waiting_tool(gate)], tokens=15, is_answered=True)


def in_a_tool_that_tells_how_far_it_is() -> Scene:
    gate = Gate()
    return Scene([call("tell")], at(ToolProgress), gate, [telling_tool(gate)], tokens=15, is_answered=True)


def in_a_hook(point: Any, answers: list[AnswerLike], tokens: int, requests: int) -> Scene:
    gate = Gate()
    hook = waiting_hook(point, gate)
    return Scene(
        answers, within(gate), gate, [note], hooks=[hook], tokens=tokens, requests=requests, is_answered=bool(answers)
    )


def refused() -> Scene:
    gate = Gate()
    busy = ServedResponse.from_status(429, body={"error": "slow down"})
    return Scene([busy], within(gate), gate, client_retry=Noting(told=gate.entered), is_answered=True)


def broken_off(answer: AnswerLike) -> Scene:
    gate = Gate()
    return Scene([answer], at(AttemptRetract), retry=Noting(told=gate.entered), is_answered=True)


MOMENTS: dict[str, Callable[[], Scene]] = {
    "before it begins": lambda: Scene([], at_once, requests=0),
    "before the request": lambda: in_a_hook(on_message_send, [], 0, 0),
    "at the start of a turn": lambda: Scene([], at(TurnStart), requests=0),
    "connecting": lambda: Scene([ServedResponse.from_frames([], delay=3600)], at(AttemptStart), requests=0),
    "before the first byte": lambda: Scene([ServedResponse.from_frames([], delay=3600)], asked),
    "at the first byte": lambda: Scene([ServedResponse.from_reply("Hello", stall_at=1)], asked),
    "at the first event": lambda: Scene([ServedResponse.from_reply("Hello", stall_after=1)], at(Status)),
    "in thinking": lambda: Scene([think("Hm.", "sealed") + stall()], at(ThinkingDelta)),
    "behind thinking": lambda: Scene([think("Hm.", "sealed") + say("Hello") + stall()], at(BlockStop)),
    "in text": in_text,
    "at the start of a call": lambda: Scene([call("note", text="a") + stall()], at(BlockStart)),
    "in the JSON of a call": lambda: Scene([CALLS + stall()], at(InputJsonDelta), tools=[note]),
    "between two calls": lambda: Scene([CALLS + stall()], at(BlockStart, 3), tools=[note]),
    "at the last event": lambda: Scene(["Hello", "never"], at(Status, 2), tokens=15, is_answered=True),
    "before the tools": lambda: in_a_hook(before_tool_call, [CALLS], 15, 1),
    "after one of two tools": lambda: Scene([CALLS], at(ToolStop), tools=[note], tokens=15, is_answered=True),
    "at the start of a tool": lambda: Scene([CALLS], at(ToolStart), tools=[note], tokens=15, is_answered=True),
    "in a tool": in_a_tool,
    "in a tool that tells how far it is": in_a_tool_that_tells_how_far_it_is,
    "after a tool": lambda: in_a_hook(after_tool_call, [CALLS], 15, 1),
    "when the results are there": lambda: Scene([CALLS], at(MessageAdd), tools=[note], tokens=15, is_answered=True),
    "between two turns": lambda: Scene([CALLS], at(TurnStop), tools=[note], tokens=15, is_answered=True),
    "in the second turn": lambda: Scene(
        [CALLS, say("Hello") + stall()], at(TextDelta, 3), tools=[note], tokens=15, requests=2
    ),
    "at the end of a turn": lambda: in_a_hook(on_turn_end, ["Hello"], 15, 1),
    "while a refused request waits": refused,
    "while a cut answer waits": lambda: broken_off(say("Hello") + cut()),
    "while a failed answer waits": lambda: broken_off(think("Hm.") + fail("busy", "overloaded")),
}


@pytest.mark.product(2)
@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_run_cancelled_there_leaves_nothing_open_and_the_worker_runs_again(
    make_provider: MakeProvider, moment: str
) -> None:
    scene = MOMENTS[moment]()
    left = iter(scene.answers)
    is_over = False
    told: list[AbortContext] = []

    def answer(_: object) -> AnswerLike:
        return "again" if is_over else next(left)

    @on_abort
    def tell(context: AbortContext) -> None:
        told.append(context)

    async with ReplayServer(answer) as server:
        client = Client(make_provider(server.base_url), retry=scene.client_retry)
        worker = Worker(
            client,
            tools=scene.tools,
            hooks=[*scene.hooks, tell],
            response_retry=scene.retry,
            parallel=1,
            system="Be brief.",
        )
        run = worker.run("hi")
        records: list[Record] = []
        run.subscribe(records.append, lambda _: None)
        await scene.come(run, server)
        await run.cancel(reason="enough")
        with pytest.raises(RunCancelledError, match="enough"):
            await run
        if not scene.is_answered:
            await server.wait_closed()
        assert len(server.requests) <= scene.requests

        assert [(t.cause, t.reason) for t in told] == [("cancel", REASON)]
        assert isinstance(told[0].error, RunCancelledError)
        assert records[-1].event == RunAbort("cancel", REASON)
        assert lint(records) == []
        assert stopped_tools(records) == started_tools(records)
        assert scene.gate.stopped == scene.gate.is_open
        assert (run.state.usage.total_tokens or 0) >= scene.tokens
        assert told[0].conversation.messages[0] == Message.user("hi")
        assert worker.session.conversation.messages[0] == Message.user("hi")
        assert is_accepted(worker.session.conversation)

        is_over = True
        assert (await worker.run("and now?")).text == "again"
        assert is_accepted(worker.session.conversation)
    assert len(told) == 1


def started_tools(records: list[Record]) -> set[str]:
    return {r.event.call.id for r in records if isinstance(r.event, ToolStart)}


def stopped_tools(records: list[Record]) -> set[str]:
    return {r.event.call_id for r in records if isinstance(r.event, ToolStop)}


async def test_a_response_that_was_cut_keeps_its_text_and_none_of_its_calls_is_left(
    make_provider: MakeProvider,
) -> None:
    """Half a call is not kept. One whose arguments are whole has a result that says that it was not run."""
    reply = say("Let me.") + call("note", text="a") + call("note", text="b")
    async with ReplayServer([reply + stall()]) as server:
        worker = Worker(make_provider(server.base_url), tools=[note])
        run = worker.run("hi")
        records: list[Record] = []
        run.subscribe(records.append, lambda _: None)
        await at(BlockStart, 3)(run, server)
        with pytest.raises(RunCancelledError):
            await run
    said = worker.session.conversation.messages[1]
    assert said.text == "Let me."
    assert any(isinstance(r.event, BlockAbort) for r in records)
    for message in worker.session.conversation.messages[2:]:
        assert all("not run" in result.text for result in message.tool_results)
    assert is_accepted(worker.session.conversation)


async def test_each_tool_reports_its_own_result(make_provider: MakeProvider) -> None:
    scene = in_a_tool()
    async with ReplayServer(scene.answers) as server:
        worker = Worker(make_provider(server.base_url), tools=scene.tools, parallel=1)
        run = worker.run("hi")
        await scene.come(run, server)
        await run.cancel()
    first, second, third = worker.session.conversation.messages[-1].tool_results
    assert "cancelled while this tool ran" in second.text
    assert "not run" in third.text
    assert first.text


async def test_a_tool_that_began_while_the_model_speaks_is_stopped_with_it() -> None:
    gate = Gate()

    @tool(effect="pure")
    async def peek() -> str:
        """Look, and wait."""
        await gate.wait()
        return "seen"

    reply = call("peek") + call("note", text="a") + stall()
    async with ReplayServer([reply, "again"]) as server:
        provider = Anthropic("m", api_key="k", base_url=server.base_url)
        worker = Worker(provider, tools=[peek, note])
        run = worker.run("hi")
        records: list[Record] = []
        run.subscribe(records.append, lambda _: None)
        await gate.entered.wait()
        await run.cancel()
        with pytest.raises(RunCancelledError):
            await run
        await server.wait_closed()
        assert gate.stopped == 1
        assert lint(records) == []
        assert stopped_tools(records) == started_tools(records)
        assert is_accepted(worker.session.conversation)
        assert (await worker.run("and now?")).text == "again"


async def test_a_paused_run_is_over_and_the_worker_may_leave_it(make_provider: MakeProvider) -> None:
    told: list[AbortContext] = []

    @on_abort
    def tell(context: AbortContext) -> None:
        told.append(context)

    @before_tool_call
    def ask(context: ToolCallContext) -> Pause:
        return Pause("may I?")

    async with ReplayServer([CALLS, "again"]) as server:
        worker = Worker(make_provider(server.base_url), tools=[note], hooks=[ask, tell])
        run = worker.run("hi")
        assert isinstance(await run, Paused)
        await run.cancel()
        assert isinstance(await run, Paused)
        assert run.state.usage.total_tokens == 15
        assert (await worker.run("never mind")).text == "again"
        assert is_accepted(worker.session.conversation)
    assert told == []


async def test_a_run_that_fails_is_not_cancelled_while_on_abort_is_reported(make_provider: MakeProvider) -> None:
    told: list[AbortContext] = []
    entered, leave = asyncio.Event(), asyncio.Event()

    @on_abort
    async def tell(context: AbortContext) -> None:
        told.append(context)
        entered.set()
        await leave.wait()

    async with ReplayServer([say("Hel") + fail("down"), "again"]) as server:
        worker = Worker(make_provider(server.base_url), hooks=[tell], response_retry=Retry(retries=0))
        run = worker.run("hi")
        await entered.wait()
        cancelled = run.cancel()
        leave.set()
        await cancelled
        with pytest.raises(ProviderError, match="down"):
            await run
        assert [context.cause for context in told] == ["error"]
        assert is_accepted(worker.session.conversation)
        assert (await worker.run("and now?")).text == "again"


class NeverConnecting:
    """A transport whose connection does not come about."""

    def __init__(self) -> None:
        self.sent = asyncio.Event()
        self.left = 0

    def send(self, request: HttpRequest) -> Observable[bytes]:
        """Nothing, for ever."""

        def subscribe(_: abc.ObserverBase[bytes], __: abc.SchedulerBase | None = None) -> abc.DisposableBase:
            self.sent.set()
            return Disposable(self.leave)

        return Observable(subscribe)

    def leave(self) -> None:
        """Whoever waited has gone."""
        self.left += 1


async def test_a_connection_that_does_not_come_about_is_given_up() -> None:
    transport = NeverConnecting()
    worker = Worker(Client(ALL[0], transport=transport))
    run = worker.run("hi")
    await transport.sent.wait()
    assert transport.left == 0
    await run.cancel()
    assert transport.left == 1
    with pytest.raises(RunCancelledError):
        await run
    assert is_accepted(worker.session.conversation)
