"""The stages of a turn: each is an observable of its own, which may be replaced, or have an operator around it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast, get_args

import pytest
import reactivex
from reactivex import Observable
from reactivex import operators as ops
from reactivex.scheduler import NewThreadScheduler

from rxworker import Limits, Paused, Worker, after_tool_call, before_tool_call, on_abort, on_turn_end, tool
from rxworker.errors import ConfigurationError, RunAbortedError, RunCancelledError, RxWorkerError
from rxworker.events import Event, HookMessage, MessageAdd, Ping, Record, RunStop, ToolStart, TurnStart, TurnStop
from rxworker.hooks import (
    Abort,
    AbortContext,
    ContinueWithMessages,
    Pause,
    ToolCallContext,
    ToolResultContext,
    TurnEndContext,
)
from rxworker.log import MemoryLog
from rxworker.messages import Message, ToolCall, ToolResult, validate
from rxworker.operators.kernel import Operator
from rxworker.testing import ScriptedModel, call, cut, say
from rxworker.transport import Retry
from rxworker.worker import StageName, Turn, TurnStage, call_tools, decide, prepare, respond
from tests.pauses import pause_of
from tests.runs import finish_of

STAGES: tuple[StageName, ...] = get_args(StageName)
USUAL: tuple[TurnStage, ...] = (prepare, respond, call_tools, decide)


@tool
async def look(where: str = "here") -> str:
    """Look."""
    await asyncio.sleep(0)
    return f"nothing {where}"


@tool(effect="pure")
async def peek() -> str:
    """Look, without any effect."""
    await asyncio.sleep(0)
    return "nothing"


@tool
async def fall() -> str:
    """Fail."""
    raise ValueError("down")


@before_tool_call
def stop(context: ToolCallContext) -> Abort:
    """End the run."""
    return Abort("enough")


@before_tool_call
def wait(context: ToolCallContext) -> Pause:
    """Pause the run."""
    return Pause("may it?")


@on_turn_end
def again(context: TurnEndContext) -> ContinueWithMessages | None:
    """Send the first answer back."""
    return ContinueWithMessages.user("Sure?") if context.turn == 1 else None


def worker_of(*script: Any, **given: Any) -> Callable[..., Worker]:
    """Makes the worker of a scenario."""

    def make(**more: Any) -> Worker:
        model = ScriptedModel([*script])
        tools = [look, peek, fall]
        return Worker(model, tools=tools, response_retry=Retry(first=0.0), **given, **more)

    return make


SCENARIOS: dict[str, Callable[..., Worker]] = {
    "an answer": worker_of("Hello."),
    "calls": worker_of(call("look") + call("look", where="there"), call("peek"), "Done."),
    "a call that fails": worker_of(call("fall"), "Done."),
    "a call of no tool": worker_of(call("fly"), "Done."),
    "a response that is cut": worker_of(say("Hel") + cut(), call("look"), "Done."),
    "a response that is cut for good": worker_of(*[say("Hel") + cut()] * 9),
    "a hook that sends back": worker_of("No.", "Yes.", hooks=[again]),
    "a hook that aborts": worker_of(call("look"), hooks=[stop]),
    "a hook that pauses": worker_of(call("look"), "Done.", hooks=[wait]),
    "a limit": worker_of(*[call("look")] * 9, limits=Limits(max_turns=3)),
    "a loop without progress": worker_of(*[call("look")] * 20),
}


async def told_by(worker: Worker) -> list[Event]:
    """The events of a run, and of the one that resumes it."""
    events: list[Event] = []
    runs: list[Awaitable[Any]] = [worker.run("go")]
    while runs:
        run = cast("Any", runs.pop())
        run.events.subscribe(events.append, on_error=lambda error: None)  # pyright: ignore
        try:
            result = await run
        except RxWorkerError:
            continue
        if isinstance(result, Paused) and len(events) < 40:
            runs.append(worker.resume())
    return [_timeless(event) for event in events]


def _timeless(event: Any) -> Any:
    return re.sub(r"(run|conversation)-[0-9a-f]+|, seconds=[^,]*", "", repr(event))


def same(source: Observable[Event]) -> Observable[Event]:
    return source.pipe(ops.map(lambda event: event))


@pytest.mark.product(4)
@pytest.mark.parametrize("names", [*[(name,) for name in STAGES], STAGES], ids="+".join)
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_stage_that_is_subscribed_to_emits_what_one_does_that_is_awaited(
    scenario: str, names: tuple[StageName, ...]
) -> None:
    make = SCENARIOS[scenario]
    plain = await told_by(make())
    assert plain == await told_by(make(around=dict.fromkeys(names, same)))


async def test_a_time_out_around_the_tools_ends_the_run_with_a_valid_conversation() -> None:
    @tool
    async def sleep() -> str:
        """Sleep."""
        await asyncio.Event().wait()
        return "awake"

    model = ScriptedModel([call("look") + call("sleep")])
    worker = Worker(model, tools=[look, sleep], around={"call_tools": ops.timeout(0.25)})
    run = worker.run("go")
    with pytest.raises(Exception, match=r"[Tt]imeout"):
        await run
    assert run.state.status == "aborted"
    conversation = worker.session.conversation
    assert [result.is_error for result in conversation.messages[-1].tool_results] == [False, True]


def fails(source: Observable[Event]) -> Observable[Event]:
    return reactivex.throw(ValueError("down"))


def raises(source: Observable[Event]) -> Observable[Event]:
    raise ValueError("down")


def returns_nothing(source: Observable[Event]) -> Observable[Event]:
    return cast("Any", None)


def raises_at_an_event(source: Observable[Event]) -> Observable[Event]:
    def subscribe(observer: Any, scheduler: Any = None) -> Any:
        def on_next(event: Event) -> None:
            raise ValueError("down")

        return source.subscribe(on_next, observer.on_error, observer.on_completed)

    return Observable(subscribe)


def emits_no_event(source: Observable[Event]) -> Observable[Event]:
    return cast("Any", reactivex.of("text"))


def fails_in_a_thread(source: Observable[Event]) -> Observable[Event]:
    def subscribe(observer: Any, scheduler: Any = None) -> Any:
        threading.Thread(target=observer.on_error, args=(ValueError("down"),)).start()

    return Observable(subscribe)


@pytest.mark.parametrize(
    "operator", [fails, raises, returns_nothing, raises_at_an_event, emits_no_event, fails_in_a_thread]
)
@pytest.mark.parametrize("name", STAGES)
async def test_an_operator_that_fails_around_a_stage_fails_the_run(
    name: StageName, operator: Operator[Event, Event]
) -> None:
    worker = SCENARIOS["calls"](around={name: operator})
    run = worker.run("go")
    with pytest.raises(Exception, match=r"down|not an observable|not an event"):
        await run
    assert run.state.status == "aborted"
    assert worker.session.conversation.messages[0].text == "go"


@pytest.mark.unlogged
@pytest.mark.parametrize("name", STAGES)
async def test_events_of_a_stage_that_come_from_another_thread_are_recorded_in_that_of_the_run(name: StageName) -> None:
    homes: set[int] = set()
    worker = SCENARIOS["calls"](around={name: ops.observe_on(NewThreadScheduler())})
    run = worker.run("go")
    run.records.subscribe(lambda _: homes.add(threading.get_ident()), on_error=lambda _: None)
    if name == "respond":
        with pytest.raises(ConfigurationError, match="holds back what respond emits"):
            await run
    else:
        assert (await run).text == "Done."
    assert homes == {threading.get_ident()}


async def test_a_run_that_is_resumed_begins_with_its_calls() -> None:
    begun: list[str] = []

    def noted(name: str, stage: TurnStage) -> TurnStage:
        def begin(turn: Turn) -> Observable[Event]:
            begun.append(f"{name} {[made.name for made in turn.calls]}")
            return stage(turn)

        return begin

    worker = SCENARIOS["a hook that pauses"](
        stages={
            "respond": noted("respond", respond),
            "call_tools": noted("call_tools", call_tools),
            "decide": noted("decide", decide),
        }
    )
    await worker.run("go")
    assert begun == ["respond []", "call_tools ['look']"]
    begun.clear()
    await worker.resume()
    assert begun == ["call_tools ['look']", "decide []", "respond []", "call_tools []", "decide []"]


async def test_a_stage_may_end_the_run_and_no_other_follows() -> None:
    def known(turn: Turn) -> Observable[Event]:
        return reactivex.of(TurnStart(), MessageAdd((Message.assistant("42"),), "known"), TurnStop(), RunStop())

    model = ScriptedModel([])
    result = await Worker(model, stages={"prepare": known}).run("What is it?")
    assert (result.text, model.requests) == ("42", [])


@pytest.mark.parametrize("name", STAGES)
async def test_a_stage_may_be_preceded_and_followed(name: StageName) -> None:
    usual: dict[StageName, TurnStage] = dict(zip(STAGES, USUAL, strict=True))

    def said(text: str) -> Observable[Event]:
        return reactivex.just(HookMessage("test", "message", text))

    def between(turn: Turn) -> Observable[Event]:
        return reactivex.concat(said("before"), usual[name](turn), said("after"))

    run = SCENARIOS["an answer"](stages={name: between}).run("go")
    texts = [r.event.content async for r in run if isinstance(r.event, HookMessage)]
    # Nothing follows the end of the run.
    assert texts == (["before"] if name == "decide" else ["before", "after"])
    assert (await run).text == "Hello."


async def test_a_request_that_nothing_prepared_has_the_conversation_and_the_tools() -> None:
    def begin(turn: Turn) -> Observable[Event]:
        return reactivex.just(TurnStart())

    model = ScriptedModel(["Hello."])
    await Worker(model, tools=[look], stages={"prepare": begin}).run("go")
    (request,) = model.requests
    assert [each.name for each in request.tools] == ["look"]
    assert [message.text for message in request.conversation.messages] == ["go"]


async def test_a_turn_is_what_its_stages_have_done_so_far() -> None:
    seen: list[object] = []

    def look_on(name: str, stage: TurnStage) -> TurnStage:
        def begin(turn: Turn) -> Observable[Event]:
            texts = [message.text for message in turn.request.conversation.messages]
            calls = [made.name for made in turn.calls]
            seen.append((name, turn.number, texts, calls, len(turn.conversation.messages)))
            return stage(turn)

        return begin

    worker = Worker(
        ScriptedModel([call("look"), "Done."]),
        tools=[look],
        stages={"call_tools": look_on("call_tools", call_tools), "decide": look_on("d", decide)},
    )
    await worker.run("go")
    assert seen[:2] == [("call_tools", 1, ["go"], ["look"], 2), ("d", 1, ["go"], [], 3)]
    assert seen[3] == ("d", 2, ["go", "", ""], [], 4)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"around": {"call_tool": same}}, "no stage 'call_tool'.*did you mean 'call_tools'"),
        ({"stages": {"responds": respond}}, "no stage 'responds'.*did you mean 'respond'"),
        ({"stages": [respond]}, r"stages=\{'call_tools': my_stage\}"),
        ({"stages": {"respond": "respond"}}, "give a function of a Turn"),
        ({"around": {"respond": ops.map}}, "write map"),
        ({"around": same}, r"around=\{'call_tools': my_operator\}"),
    ],
)
def test_what_is_not_a_stage_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Worker(ScriptedModel([]), **given)


async def test_what_a_stage_returns_must_be_an_observable() -> None:
    async def ask(turn: Turn) -> None: ...

    with pytest.raises(ConfigurationError, match="give a plain function"):
        Worker(ScriptedModel([]), stages={"respond": cast("Any", ask)})

    def nothing(turn: Turn) -> Any: ...

    worker = Worker(ScriptedModel([]), stages={"respond": nothing})
    with pytest.raises(ConfigurationError, match="the stage nothing returned a NoneType"):
        await worker.run("go")


@pytest.mark.parametrize("around", [{}, {"call_tools": same}])
def test_an_interrupt_in_a_tool_ends_the_run_and_the_program_also_from_within_an_operator(
    around: dict[StageName, Operator[Event, Event]],
) -> None:
    reasons: list[str] = []

    @tool
    async def interrupt() -> str:
        """Press Ctrl-C."""
        raise KeyboardInterrupt("now")

    @on_abort
    def note(context: AbortContext) -> None:
        reasons.append(context.reason)

    model = ScriptedModel([call("interrupt")])
    worker = Worker(model, tools=[interrupt], hooks=[note], around=around)
    with pytest.raises(KeyboardInterrupt):
        worker.run_sync("go")
    assert [reason.startswith("the run was cancelled") for reason in reasons] == [True]
    assert worker.session.conversation.messages[-1].tool_results[0].is_error


@pytest.mark.product(2)
@pytest.mark.parametrize("verb", ["cancel", "pause"])
async def test_a_run_with_operators_around_its_stages_is_cancelled_and_paused_like_any_other(verb: str) -> None:
    """At each of its records, from within a watcher.

    It may end earlier, since a stage that is subscribed to yields to the loop.
    """

    async def ends(at: int, around: dict[StageName, Operator[Event, Event]]) -> str:
        worker = SCENARIOS["calls"](around=around)
        run = worker.run("go")

        def act(record: Record) -> None:
            if record.seq == at:
                getattr(run, verb)()

        run.subscribe(act, lambda error: None)
        with contextlib.suppress(RunCancelledError):
            async with asyncio.timeout(60):
                await run
        if run.state.status == "paused":
            await worker.resume()
        assert validate(worker.session.conversation) == []
        return run.state.status

    at, ended = 1, [""]
    while ended != ["finished"] * 2:
        ended = [await ends(at, {}), await ends(at, dict.fromkeys(STAGES, same))]
        assert ended[0] == ended[1], at
        at += 1
    assert at > 30


def repeats_late(source: Observable[Event]) -> Observable[Event]:
    return source.pipe(ops.repeat(2), ops.delay(0.001))


ENDS: dict[str, tuple[Any, type[object]]] = {
    "pause": (Pause("may it?"), Paused),
    "abort": (Abort("enough"), RunAbortedError),
}


@pytest.mark.parametrize("operator", [ops.repeat(2), ops.retry(2), repeats_late])
@pytest.mark.parametrize("end", ENDS)
async def test_a_verdict_that_ends_the_run_holds_if_an_operator_calls_the_tools_again(
    operator: Operator[Event, Event], end: str
) -> None:
    """A hook that would agree the second time is not asked: the run already waits for a person, or has ended."""
    verdict, expected = ENDS[end]
    asked: list[str] = []
    ran: list[str] = []

    @before_tool_call
    def once(context: ToolCallContext) -> Any:
        asked.append(context.call.id)
        return verdict if len(asked) == 1 else None

    @tool
    async def pay() -> str:
        """Pay."""
        ran.append("pay")
        return "paid"

    model = ScriptedModel([call("pay") + call("pay"), "Done."])
    worker = Worker(model, tools=[pay], hooks=[once], around={"call_tools": operator})
    try:
        outcome: object = await worker.run("go")
    except RunAbortedError as error:
        outcome = error
    assert isinstance(outcome, expected)
    assert (len(asked), ran) == (1, [])


@pytest.mark.parametrize("name", STAGES)
async def test_a_stage_that_fails_after_it_has_ended_the_run_does_not_abort_it(name: StageName) -> None:
    def ended(turn: Turn) -> Observable[Event]:
        return reactivex.concat(reactivex.of(RunStop()), reactivex.throw(ValueError("late")))

    run = SCENARIOS["calls"](stages={name: ended}).run("go")
    await run
    records = [record.event async for record in run]
    assert isinstance(records[-1], RunStop)
    assert run.state.status == "finished"
    assert not validate(run.state.conversation)


def answers(turn: Turn) -> Observable[Event]:
    """A stage in place of `call_tools` that uses nothing of it."""
    results = [ToolResult(made.id, "42", name=made.name) for made in turn.calls]
    added = MessageAdd((Message("user", tuple(results)),), "answers")
    return reactivex.just(added) if results else reactivex.empty()


async def test_a_turn_follows_results_that_a_stage_of_the_application_has_added() -> None:
    """Whether there are results is in the conversation, and not in what the usual stage has left."""
    model = ScriptedModel([call("look") + call("look"), call("look"), "Done."])
    result = await Worker(model, tools=[look], stages={"call_tools": answers}).run("go")
    assert (result.text, len(model.requests)) == ("Done.", 3)


async def test_a_turn_follows_results_of_a_stage_of_the_application_in_a_resumed_run() -> None:
    model = ScriptedModel([call("look"), "Done."])
    paused = await pause_of(Worker(model, tools=[look], hooks=[wait]).run("go"))
    other = Worker(model, tools=[look], hooks=[wait], stages={"call_tools": answers})
    assert (await other.new_session().resume(paused)).text == "Done."


async def test_an_empty_answer_after_tools_ends_the_run() -> None:
    """It adds no message, so that the results of the turn before are the last one."""
    model = ScriptedModel([call("look"), say("")])
    await finish_of(Worker(model, tools=[look]).run("go"))
    assert len(model.requests) == 2


def drops_all(source: Observable[Event]) -> Observable[Event]:
    return source.pipe(ops.ignore_elements())


def nothing(*_: object) -> Observable[Event]:
    return reactivex.empty()


def end(turn: Turn) -> Observable[Event]:
    return reactivex.just(RunStop())


LEFT: list[dict[str, Any]] = [
    {"stages": {"call_tools": nothing}},
    {"stages": {"call_tools": end}},
    {"around": {"call_tools": ops.take(0)}},
    {"around": {"call_tools": drops_all}},
    {"around": {"call_tools": ops.catch(nothing)}},
]


@pytest.mark.parametrize("changed", LEFT)
@pytest.mark.parametrize("hooks", [[], [stop]], ids=["", "aborts"])
async def test_calls_that_a_stage_leaves_without_results_are_answered_before_the_next_request(
    changed: dict[str, Any], hooks: list[Any]
) -> None:
    model = ScriptedModel([call("look") + call("look"), "Done.", "More.", "More."])
    limits = Limits(max_turns=3)
    worker = Worker(model, tools=[look], hooks=hooks, limits=limits, **changed)
    with contextlib.suppress(RxWorkerError):
        await worker.run("go")
    assert validate(worker.session.conversation) == []
    for request in model.requests:
        assert validate(request.conversation) == []


def drops_starts(source: Observable[Event]) -> Observable[Event]:
    return source.pipe(ops.filter(lambda event: not isinstance(event, ToolStart)))


def puts_others(source: Observable[Event]) -> Observable[Event]:
    return source.pipe(ops.map(lambda event: Ping() if isinstance(event, ToolStart) else event))


@pytest.mark.parametrize("operator", [ops.delay(0.001), ops.skip(1), drops_starts, puts_others])
@pytest.mark.parametrize("own", [False, True], ids=["tools", "executor"])
async def test_no_call_of_a_logged_run_is_made_whose_start_an_operator_keeps_from_the_log(
    operator: Operator[Event, Event], own: bool
) -> None:
    """Another process that continues the run would make it again."""
    ran: list[str] = []

    @tool
    async def pay() -> str:
        """Pay."""
        ran.append("pay")
        return "paid"

    def executed(made: ToolCall) -> ToolResult:
        ran.append("executor")
        return ToolResult(made.id, "paid")

    stages: dict[StageName, TurnStage] = {"call_tools": partial(call_tools, executor=ops.map(executed))} if own else {}
    model = ScriptedModel([call("pay"), "Done."])
    worker = Worker(model, tools=[pay], log=MemoryLog(), stages=stages, around={"call_tools": operator})
    with pytest.raises(ConfigurationError, match="around the stage call_tools drops or holds back"):
        await worker.run("go")
    assert ran == []


@pytest.mark.unlogged
@pytest.mark.parametrize("operator", [same, ops.delay(0.001), repeats_late])
async def test_a_result_that_hooks_have_passed_is_emitted_also_where_an_operator_waits(
    operator: Operator[Event, Event],
) -> None:
    @after_tool_call
    def checked(context: ToolResultContext) -> None:
        """Pass each result."""

    worker = SCENARIOS["calls"](hooks=[checked], around={"call_tools": operator})
    events = await told_by(worker)
    assert sum("ToolOutput(" in str(event) for event in events) == 3
