"""Sessions of one worker: what they share, and what they do not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from enum import Enum
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import pytest
from reactivex import Observable

from rxworker import Approve, Finished, Paused, Run, Session, Worker, before_tool_call, tool
from rxworker.errors import (
    ConfigurationError,
    DecisionError,
    LocalProtocolError,
    LogError,
    RunStatusError,
    SessionBusyError,
)
from rxworker.hooks import HookContext
from rxworker.log import EventLog, MemoryLog
from rxworker.messages import Conversation, Message
from rxworker.testing import ScriptedModel, call, say
from rxworker.timeline.kind import Kind
from rxworker.tools import ToolContext
from rxworker.turn.limits import Budget, Limits
from tests.pauses import pause_of

VALUES = (str, bytes, int, float, frozenset, Enum, type(None), Kind)
CONSTANT = (*VALUES, type, ModuleType, FunctionType, BuiltinFunctionType)


@tool(requires_approval=True)
def wipe(disk: str, context: ToolContext) -> str:
    """Wipe a disk."""
    context.variables["disk"] = disk
    context.set_shared_state({"wiped": disk})
    return f"{disk} is wiped"


@before_tool_call
def note(context: HookContext) -> None:
    context.variables["seen"] = True


def parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an object, and the elements of a container."""
    kind: type[Any] = value.__class__
    if issubclass(kind, dict):
        yield from [(f"[{key!r:.20}]", item) for key, item in value.items()]
    elif issubclass(kind, list | tuple | set):
        yield from [(f"[{n}]", item) for n, item in enumerate(value)]
    names = {each for base in kind.__mro__ for each in getattr(base, "__slots__", ())}
    names |= {*getattr(value, "__dict__", ())}
    yield from [(f".{each}", getattr(value, each)) for each in names if hasattr(value, each)]


def changeable(start: object, stop: set[int]) -> dict[int, str]:
    """The objects that may change and that an object leads to, with the way to each.

    What is in ``stop`` is not entered.
    """
    found: dict[int, str] = {}
    entered = set(stop)
    ahead: list[tuple[str, Any]] = [("", start)]
    while ahead:
        way, value = ahead.pop()
        if isinstance(value, CONSTANT) or id(value) in entered:
            continue
        entered.add(id(value))
        config = getattr(value, "__struct_config__", None)
        if not (isinstance(value, tuple) or (config is not None and config.frozen)):
            found[id(value)] = way
        ahead += [(way + name, item) for name, item in parts_of(value)]
    return found


async def used(worker: Worker, *, log: EventLog | None, name: str) -> Session:
    """A session in which everything that a session can have has been used."""
    session = Session(
        worker,
        Conversation((Message.user(f"I am {name}."),)),
        shared_state={"name": name},
        labels={"name": name},
        log=log,
    )
    session.allowed.append((f"tool of {name}", "requires_approval"))
    session.runs.subscribe(lambda _: None)
    paused = await pause_of(session.run("Wipe."))
    await session.resume(paused)
    assert isinstance(await session.run("Again."), Paused)
    assert session.text_collector.collected() == []
    assert [each.name for each in session.tool_call_collector.collected()] == ["wipe"]
    return session


@pytest.mark.parametrize("is_logged", [False, True])
async def test_two_sessions_of_a_worker_share_nothing_that_changes(is_logged: bool, log: MemoryLog) -> None:
    replies = [call("wipe", disk="a"), say("Done."), call("wipe", disk="b")]
    model = ScriptedModel(replies * 2)
    worker = Worker(model, tools=[wipe], hooks=[note], log=log if is_logged else None)
    of_worker = set(changeable(worker, set()))
    # What they have in common on purpose: what the worker is, and the loop that runs them.
    ada = await used(worker, log=log if is_logged else None, name="Ada")
    bob = await used(worker, log=log if is_logged else None, name="Bob")
    stop = of_worker | {id(asyncio.get_running_loop()), id(ada), id(bob)}
    ways = [changeable(vars(each), stop) for each in (ada, bob)]
    shared = {ways[0][each]: ways[1][each] for each in ways[0].keys() & ways[1].keys()}
    assert shared == {}
    assert len(ways[0]) > 20  # it has looked
    assert (ada.conversation.messages[0].text, bob.conversation.messages[0].text) == ("I am Ada.", "I am Bob.")


def test_the_walk_finds_what_two_sessions_share() -> None:
    worker = Worker(ScriptedModel([]))
    ada, bob = Session(worker), Session(worker)
    bob.allowed = ada.allowed
    of_worker = set(changeable(worker, set()))
    ways = [changeable(vars(each), of_worker) for each in (ada, bob)]
    assert len(ways[0].keys() & ways[1].keys()) == 1


async def test_a_worker_is_the_same_after_its_sessions_have_run() -> None:
    replies = [call("wipe", disk="a"), say("Done."), call("wipe", disk="b")]
    worker = Worker(ScriptedModel(replies), tools=[wipe], hooks=[note])

    def state() -> dict[str, str]:
        """Each attribute but the model, which counts its replies."""
        return {name: repr(value) for name, value in vars(worker).items() if name != "model"}

    before = state()
    await used(worker, log=None, name="Ada")
    assert state() == before
    assert worker.session.conversation == Conversation()


@pytest.mark.slow
async def test_a_thousand_sessions_run_at_once() -> None:
    worker = Worker(ScriptedModel([say("Hello!")] * 1000))
    sessions = [Session(worker) for _ in range(1000)]
    runs = [session.run(f"I am {n}.") for n, session in enumerate(sessions)]
    assert {(await run).text for run in runs} == {"Hello!"}
    texts = [session.conversation.messages[0].text for session in sessions]
    assert texts == [f"I am {n}." for n in range(1000)]


async def test_the_runs_of_a_session_are_an_observable() -> None:
    worker = Worker(ScriptedModel(["One.", "Two.", "Three."]))
    seen: list[str] = []
    late: list[str] = []

    def fail(_: Run[object]) -> None:
        raise ValueError("a defect of an observer")

    runs: Observable[Run[object]] = worker.runs  # those of its own session
    runs.subscribe(fail)
    subscription = runs.subscribe(lambda run: seen.append(run.id))
    first = worker.run("1")
    runs.subscribe(lambda run: late.append(run.id))
    await first
    second = worker.run("2")
    await second
    subscription.dispose()
    third = worker.run("3")
    await third
    assert seen == [first.id, second.id]
    assert late == [first.id, second.id, third.id]
    of_another: list[str] = []
    Session(worker).runs.subscribe(lambda run: of_another.append(run.id))
    assert of_another == []


@pytest.mark.parametrize("is_own", [False, True])
async def test_a_handler_of_one_session_is_called_for_no_other(is_own: bool) -> None:
    worker = Worker(ScriptedModel(["One.", "Two."]))
    one, other = worker.session if is_own else Session(worker), Session(worker)
    seen: list[str] = []
    of_worker: list[str] = []
    one.timeline.on_text_block(lambda event: seen.append(type(event).__name__))
    worker.timeline.on_text_block(lambda event: of_worker.append(type(event).__name__))
    await other.run("1")
    assert seen == []
    assert of_worker
    of_worker.clear()
    await one.run("2")
    assert seen == of_worker != []


@pytest.mark.unlogged
async def test_a_run_that_cannot_begin_leaves_what_waits() -> None:
    worker = Worker(ScriptedModel([call("wipe", disk="a"), "Done."]), tools=[wipe])
    session = Session(worker)
    paused = await pause_of(session.run("Wipe."))
    invalid: Any = object()
    claimed: list[str] = []

    def claim(run: str) -> bool:
        claimed.append(run)
        return True

    with pytest.raises(LocalProtocolError, match="cannot be shared"):
        session.resume(claim=claim, shared_state=invalid)
    assert claimed == []
    session.shared_state = invalid
    with pytest.raises(LocalProtocolError, match="cannot be shared"):
        session.run("Never mind.")
    assert (await session.resume(claim=claim)).text == "Done."
    assert claimed == [paused.run_id]


async def test_a_paused_run_is_decided_about_by_its_id_and_once() -> None:
    """With and without a log: the variables that no log can keep are there."""
    at, seen = object(), list[object]()

    @before_tool_call
    def keep(context: HookContext) -> None:
        context.variables["at"] = at

    @tool(requires_approval=True)
    def look(context: ToolContext) -> str:
        seen.append(context.variables["at"])
        return "Seen."

    worker = Worker(ScriptedModel([call("look"), "Done.", "Hi."]), tools=[look], hooks=[keep])
    session = Session(worker)
    paused = await pause_of(session.run("Look."))
    with pytest.raises(DecisionError):
        session.decide(paused.run_id, {"no-such-call": Approve()})
    resumed = await session.decide(paused.run_id, [Approve()])
    assert isinstance(resumed, Finished)
    assert resumed.text == "Done."
    assert seen == [at]
    with pytest.raises(LocalProtocolError, match="already"):
        await session.decide(paused.run_id, [Approve()])
    assert (await session.run("Hello.")).text == "Hi."


@pytest.mark.unlogged
async def test_without_a_log_a_run_is_decided_about_in_its_own_session() -> None:
    worker = Worker(ScriptedModel([call("wipe", disk="a"), "Hi."]), tools=[wipe])
    session = Session(worker)
    paused = await pause_of(session.run("Wipe."))
    with pytest.raises(ConfigurationError, match="needs a log"):
        Session(worker).decide(paused.run_id, [Approve()])
    await session.run("Never mind.")
    with pytest.raises(LocalProtocolError, match="another run has begun since"):
        session.decide(paused.run_id, [Approve()])


async def test_a_paused_run_that_was_dismissed_is_not_resumed() -> None:
    ended = asyncio.Event()

    @tool(background=True)
    async def watch() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    worker = Worker(ScriptedModel([call("watch"), call("wipe", disk="a"), "Hi."]), tools=[watch, wipe])
    session = Session(worker)
    paused = await pause_of(session.run("Wipe."))
    with pytest.raises((LocalProtocolError, LogError), match="run-typo"):
        await session.dismiss("run-typo", "no longer")
    await session.dismiss(paused.run_id, "no longer")
    await ended.wait()
    assert session.paused is None
    with pytest.raises((LocalProtocolError, RunStatusError)):
        await session.dismiss(paused.run_id, "again")
    with pytest.raises((LocalProtocolError, RunStatusError)):
        await session.resume(paused, decisions=[Approve()])
    with pytest.raises((LocalProtocolError, RunStatusError)):
        await session.decide(paused.run_id, [Approve()])
    assert (await session.run("Hello.")).text == "Hi."


async def test_a_session_has_one_run_at_a_time() -> None:
    worker = Worker(ScriptedModel(["One.", "Two.", "Three."]))
    session = Session(worker)
    run = session.run("1")
    with pytest.raises(SessionBusyError, match=rf"{run.id}: await it, cancel it, or begin another one"):
        session.run("2")
    with pytest.raises(SessionBusyError, match=run.id):
        session.fork("run-1", 1)
    await Session(worker).run("2")
    await run
    assert (await session.run("3")).text == "Three."


async def test_a_session_goes_on_after_a_run_of_another_one() -> None:
    """With its conversation, its shared state and what is allowed there, and with labels of its own."""
    allowed = [("delete", "requires_approval")]
    worker = Worker(ScriptedModel(["Hello, Ada!", "You are Ada."]), labels={"desk": "1"})
    first = Session(worker, shared_state={"name": "Ada"})
    run = first.run("I am Ada.")
    await run
    second = Session(worker, labels={"floor": "2"}, allowed=[("send", "permit")])
    second.go_on_from(run.state, allowed)
    assert second.run_labels == {"desk": "1", "floor": "2"}
    assert (second.allowed, second.shared_state) == (allowed, {"name": "Ada"})
    await second.run("Who am I?")
    assert [each.text for each in second.conversation.messages][::3] == ["I am Ada.", "You are Ada."]
    assert len(first.conversation.messages) == 2


async def test_a_run_whose_collectors_are_not_read_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(ScriptedModel(["One.", "Two.", "Three."]))
    folded: list[object] = []
    monkeypatch.setattr(worker.session._collected._timeline, "dispatch_many", folded.extend)
    for question in "123":
        await worker.run(question)
    assert folded == []
    worker.session.text_collector.collected()
    assert len(folded) > 3


async def test_a_run_keeps_the_settings_with_which_it_has_begun() -> None:
    first, other = Budget(max_tokens=1000), Budget(max_tokens=1)

    @tool
    def change() -> str:
        """Change the worker while it runs."""
        worker.model = ScriptedModel([say("Of another model.")])
        worker.limits, worker.budget = Limits(max_turns=1), other
        return "Changed."

    model = ScriptedModel([call("change"), say("Of the same model.")])
    worker = Worker(model, tools=[change], budget=first)
    assert (await worker.run("Go")).text == "Of the same model."
    assert first.spent.total_tokens > 0
    assert other.spent.total_tokens == 0


async def test_a_session_has_the_name_of_its_worker_unless_it_was_given_its_own() -> None:
    worker = Worker(ScriptedModel([]))
    session = worker.session
    worker.name = "desk"
    assert session.name == "desk"
    session.name = "front"
    assert (session.name, worker.new_session().name) == ("front", "desk")


def test_a_verb_for_scripts_begins_the_run_of_a_subclass() -> None:
    begun: list[Any] = []

    class Noted(Worker):
        def run(self, input: Any, *, output: Any = None) -> Run[object]:  # noqa: A002
            begun.append(input)
            return super().run(input, output=output)

    worker = Noted(ScriptedModel(["Hello!", "Hello!"]))
    assert worker.run_sync("in one piece").text == "Hello!"
    with worker.stream_sync("in pieces") as stream:
        assert [*stream]
    assert begun == ["in one piece", "in pieces"]
