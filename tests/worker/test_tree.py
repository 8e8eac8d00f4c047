"""Approvals anywhere in the tree: a run inside a call pauses, and what is decided reaches it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from rxworker import Answer, Approve, ApproveAlways, Deny, Limits, Paused, Worker, tool, worker_tool
from rxworker.decisions import Decided, Decisions
from rxworker.errors import DecisionError, LocalProtocolError, RunCancelledError
from rxworker.events import MessageAdd, PausedCall, PauseState, Question, RunPause, Usage
from rxworker.events.pause import Begun, Reply
from rxworker.hooks import Hooks
from rxworker.log import EventLog, MemoryLog, Replica
from rxworker.messages import Conversation, JsonObject, ToolCall, ToolMeta
from rxworker.resume.paused import load_paused, resume_turn, save_paused
from rxworker.state import fold_run
from rxworker.testing import Reply as Answers
from rxworker.testing import ScriptedModel, call, lint, say
from rxworker.tools import ClientTool, Toolbox, ToolContext
from rxworker.turn.result import signature_of
from rxworker.worker import Budget
from tests.log.victim import ByTurn
from tests.pauses import pause_of
from tests.runs import records_of

FORM: JsonObject = {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]}
CALL = "call_1_1"


pytestmark = pytest.mark.unlogged  # the fixture gives the logs


@pytest.fixture(params=["none", "memory"], autouse=True)
def log_of_workers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of all workers of a test, those of nested runs included; or none."""
    log, init = MemoryLog() if request.param == "memory" else None, Worker.__init__

    def init_with_log(self: Worker, *args: Any, **options: Any) -> None:
        init(self, *args, **{"log": log, **options})

    monkeypatch.setattr(Worker, "__init__", init_with_log)


class Tools:
    """Tools that note their effects."""

    def __init__(self) -> None:
        self.done: list[str] = []

        @tool(requires_approval=True)
        async def wipe(what: str) -> str:
            """Wipe."""
            self.done.append(f"wipe {what}")
            return f"{what} is gone"

        @tool
        async def look() -> str:
            """Look."""
            self.done.append("look")
            return "nothing"

        @tool
        async def book(context: ToolContext) -> str:
            """Book."""
            reply = None if context.begun is None else context.begun.reply
            if reply is None:
                context.ask(Question("tables", "Which day?", FORM))
            self.done.append(f"book {reply.content}")
            return reply.action

        self.of = {"wipe": wipe, "look": look, "book": book, "tab": ClientTool(ToolMeta("tab", "Open a tab.", {}))}

    def worker(self, *answers: Answers | str, **more: Any) -> Worker:
        """A worker with all of them."""
        return Worker(ScriptedModel(list(answers)), tools=[*self.of.values()], **more)


def asks(worker: Worker | Callable[[], Worker], name: str = "ask") -> Any:
    return worker_tool(worker, name=name, description="Ask.")


def one_inside(tools: Tools, *calls: Answers, depth: int = 2) -> Worker:
    """A worker with a run inside a run, as deep as wanted, whose calls are these, one turn each."""
    worker = tools.worker(*calls, "Inside.")
    for _ in range(depth - 1):
        worker = Worker(ScriptedModel([call("ask", task="?"), "So."]), tools=[asks(worker)])
    return worker


def two_inside(tools: Tools) -> Worker:
    """A worker with two runs that pause, and a call beside them."""
    a, b = (tools.worker(call("wipe", what=name), f"{name}.") for name in ("a", "b"))
    calls = call("ask_a", task="?") + call("ask_b", task="?") + call("look")
    return Worker(ScriptedModel([calls, "So."]), tools=[asks(a, "ask_a"), asks(b, "ask_b"), tools.of["look"]])


Case = tuple[Callable[[Tools], Worker], list[Decisions | None], list[str], list[str]]
"""The worker, what is decided at each pause, the effects, and the results of the outer calls."""
CASES: dict[str, Case] = {
    "without words": (lambda t: one_inside(t, call("wipe", what="a")), [None], ["wipe a"], ["Inside."]),
    "by its path, at depth 3": (
        lambda t: one_inside(t, call("wipe", what="a"), depth=3),
        [{f"{CALL}/{CALL}/{CALL}": Approve()}],
        ["wipe a"],
        ["So."],
    ),
    "by its index": (lambda t: one_inside(t, call("wipe", what="a")), [[None, Approve()]], ["wipe a"], ["Inside."]),
    "with the call around it": (
        lambda t: one_inside(t, call("wipe", what="a")),
        [[Approve(), Approve()]],
        ["wipe a"],
        ["Inside."],
    ),
    "other arguments": (
        lambda t: one_inside(t, call("wipe", what="a"), depth=3),
        [[None, None, Approve({"what": "b"})]],
        ["wipe b"],
        ["So."],
    ),
    "denied": (lambda t: one_inside(t, call("wipe", what="a")), [[None, Deny("no")]], [], ["Inside."]),
    "answered": (lambda t: one_inside(t, call("wipe", what="a")), [[None, Answer("kept")]], [], ["Inside."]),
    "the call around it denied": (lambda t: one_inside(t, call("wipe", what="a")), [[Deny("no"), None]], [], ["no"]),
    "denied around, approved inside": (
        lambda t: one_inside(t, call("wipe", what="a")),
        [[Deny("no"), Approve()]],
        [],
        ["no"],
    ),
    "the call around it answered": (
        lambda t: one_inside(t, call("wipe", what="a")),
        [{f"{CALL}": Answer("done by hand")}],
        [],
        ["done by hand"],
    ),
    "twice": (
        lambda t: one_inside(t, call("wipe", what="a"), call("look"), call("wipe", what="b"), depth=3),
        [None, None],
        ["wipe a", "look", "wipe b"],
        ["So."],
    ),
    "a question": (
        lambda t: one_inside(t, call("book")),
        [[None, Approve({"day": "Monday"})]],
        ["book {'day': 'Monday'}"],
        ["Inside."],
    ),
    "a tool of the client": (lambda t: one_inside(t, call("tab")), [[None, Answer("opened")]], [], ["Inside."]),
    "two runs": (
        two_inside,
        [[None, Approve(), None, Deny("no"), None][:4]],
        ["look", "wipe a"],
        ["a.", "b.", "nothing"],
    ),
    "two runs, one after the other": (
        two_inside,
        [[None, None, None, Approve()], [None, Approve()]],
        ["look", "wipe b", "wipe a"],
        ["a.", "b.", "nothing"],
    ),
    "two runs, one of which ends": (
        two_inside,
        [[Deny("no"), None, None, None], [None, Approve()]],
        ["look", "wipe b"],
        ["no", "b.", "nothing"],
    ),
}


async def resume(worker: Worker, paused: Paused[Any], decisions: Decisions | None, tools: Tools, make: Any) -> Any:
    """Resume a paused run as another process would: with nothing but what was saved or stored."""
    log = worker.log
    if log is None:
        return worker.resume(load_paused(save_paused(paused)), decisions=decisions)
    return worker.new_session().decide(paused.run_id, decisions)


@pytest.mark.parametrize("name", CASES)
async def test_what_is_decided_reaches_the_call_inside_once(name: str) -> None:
    make, rounds, effects, results = CASES[name]
    tools = Tools()
    worker = make(tools)
    run = worker.run("go")
    for decisions in rounds:
        paused = await pause_of(run)
        assert lint(records_of(run)) == []
        run = await resume(worker, paused, decisions, tools, make)
    result = await run
    assert lint(records_of(run)) == []
    assert (tools.done, result.text) == (effects, "So.")
    told = [each.text for message in result.conversation.messages for each in message.tool_results]
    assert told == results
    assert fold_run(records_of(run)).conversation == result.conversation
    await expect_nothing_waits(worker.log, run.id)


async def expect_nothing_waits(log: EventLog | None, run_id: str) -> None:
    """No run of a log waits for a decision that nothing can take any more."""
    if log is None:
        return
    mine = [info for info in await log.list(limit=1000) if info.run_id.startswith(run_id.partition("~")[0])]
    known = {info.run_id for info in mine}
    for info in mine:
        number = int(info.run_id.rpartition("~")[2]) if "~" in info.run_id else 1
        assert info.status != "paused" or f"{info.run_id.partition('~')[0]}~{number + 1}" in known, info.run_id


REFUSED: list[tuple[Callable[[Tools], Worker], Decisions | None, str]] = [
    (lambda t: one_inside(t, call("wipe", what="a")), [Approve(), None], "paused at the call 'call_1_1/call_1_1'"),
    (lambda t: one_inside(t, call("wipe", what="a")), [Approve({"task": "!"}), None], "waits with a run inside"),
    (lambda t: one_inside(t, call("wipe", what="a")), [None, ApproveAlways()], "always: only the call"),
    (lambda t: one_inside(t, call("wipe", what="a")), [None, Approve("a")], "gives invalid arguments"),
    (lambda t: one_inside(t, call("wipe", what="a")), {"call_2": Approve()}, "no pending call has the id"),
    (lambda t: one_inside(t, call("book") + call("book")), [None, Approve({"day": "Monday"}), None], "for an answer"),
    (lambda t: one_inside(t, call("book")), [None, Approve({"day": 1})], r"input\.day"),
    (lambda t: one_inside(t, call("tab")), None, "no decision was given"),
    (two_inside, None, "no decision was given"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
async def test_what_does_not_fit_is_refused_and_all_of_it_stays_waiting(number: int) -> None:
    make, decisions, why = REFUSED[number]
    tools = Tools()
    worker = make(tools)
    paused = await pause_of(worker.run("go"))
    with pytest.raises(DecisionError, match=why):
        await worker.resume(paused, decisions=decisions)
    assert [each for each in tools.done if each != "look"] == []
    pending = paused.pending
    await worker.resume(paused, decisions=[Deny("enough") if each.name.startswith("ask") else None for each in pending])


async def test_arguments_that_were_changed_in_a_saved_run_are_refused_at_any_depth() -> None:
    tools = Tools()
    worker = one_inside(tools, call("wipe", what="a"), depth=3)
    paused = await pause_of(worker.run("go"))

    def changed(pause: Any, depth: int) -> Any:
        [each] = pause.calls
        if depth:
            inner = changed(each.begun.paused, depth - 1)
            return replace(pause, calls=(replace(each, begun=replace(each.begun, paused=inner)),))
        return replace(pause, calls=(replace(each, call=replace(each.call, input={"what": "all", "task": "all"})),))

    for depth in range(3):
        with pytest.raises(LocalProtocolError, match="was changed since the run paused"):
            await worker.resume(replace(paused, pause=changed(paused.pause, depth)))
    if paused.nested:  # what the run inside would run is what was shown
        [(run, inner)] = paused.nested.items()
        other = replace(inner, pause=changed(inner.pause, 1))
        with pytest.raises(LocalProtocolError, match="was changed since the run paused"):
            await worker.resume(replace(paused, nested={run: other}))
    assert tools.done == []


async def test_calls_beside_it_go_on_to_their_ends_before_the_pause() -> None:
    tools, may_end, is_paused = Tools(), asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        """Take long."""
        await may_end.wait()
        tools.done.append("slow")
        return "done"

    inner = tools.worker(call("wipe", what="a"), "Inside.")
    calls = call("ask", task="?") + call("slow")
    run = Worker(ScriptedModel([calls, "So."]), tools=[asks(inner), slow]).run("go")

    def note(record: Any) -> None:
        if record.path and isinstance(record.event, RunPause):
            is_paused.set()

    run.subscribe(note)
    await is_paused.wait()
    assert not run.done()
    may_end.set()
    paused = await pause_of(run)
    assert (tools.done, paused.hook, paused.reason) == (["slow"], "nested", "ask: wipe requires approval")


async def test_a_worker_that_is_made_for_the_call_refuses_other_arguments_and_waits_again() -> None:
    tools = Tools()
    answers = [call("wipe", what="a"), "Inside."]
    model = ScriptedModel(answers)
    made = asks(lambda: Worker(model, tools=[*tools.of.values()]))
    worker = Worker(ScriptedModel([call("ask", task="?"), "So."]), tools=[made])
    paused = await pause_of(worker.run("go"))
    again = await pause_of(worker.resume(paused, decisions=[None, Approve("everything")]))
    assert "gives invalid arguments" in again.reason
    assert tools.done == []
    assert (await worker.resume(again)).text == "So."
    assert tools.done == ["wipe a"]


@pytest.mark.parametrize("steps", [None, 3])
async def test_limits_and_budgets_hold_across_a_pause_inside(steps: int | None) -> None:
    tools, budget = Tools(), Budget()
    inner = tools.worker(call("wipe", what="a"), call("look"), "Inside.")
    limits = Limits() if steps is None else Limits(max_tool_calls=steps)
    model = ScriptedModel([call("ask", task="?"), "So."])
    worker = Worker(model, tools=[asks(inner)], limits=limits, budget=budget)
    paused = await pause_of(worker.run("go"))
    spent = budget.spent.total_tokens
    result = await worker.resume(paused)
    assert spent == 30
    assert budget.spent.total_tokens == result.usage.total_tokens == (75 if steps is None else 60)
    # The call that goes on has started twice, as one with a question.
    assert tools.done == (["wipe a", "look"] if steps is None else ["wipe a"])


async def test_a_run_inside_is_sent_to_and_cancelled_alone() -> None:
    """By its path: in this process, and through the log."""
    for verb in ("send", "cancel"):
        tools, begun, may_end = Tools(), asyncio.Event(), asyncio.Event()

        waits = _waiting_tool(begun, may_end)
        inner = Worker(ScriptedModel([call("wait"), "Inside."]), tools=[waits])
        middle = Worker(ScriptedModel([call("ask", task="?"), "Middle."]), tools=[asks(inner)])
        worker = Worker(ScriptedModel([call("ask", task="?"), "So."]), tools=[asks(middle)])
        run = worker.run("go")
        await begun.wait()
        with pytest.raises(LocalProtocolError, match="no run of a call 'call_9' runs"):
            run.inner("call_9")
        inside: Any = run.inner(CALL).inner(CALL)
        if worker.log is not None:
            await run.barrier()
            outer = Replica(worker.log, run.id)
            inside = await (await outer.inner(CALL)).inner(CALL)
        done = inside.send("Be short.") if verb == "send" else inside.cancel(reason="enough")
        if worker.log is not None:
            await done
        if verb == "send":
            may_end.set()
        result = await run
        records = records_of(run)
        assert lint(records) == []
        assert result.text == "So."
        deep = [each.event for each in records if len(each.path) == 2]
        sent = [e for e in deep if isinstance(e, MessageAdd) and e.source == "send"]
        assert (len(sent), type(deep[-1]).__name__) == ((1, "RunStop") if verb == "send" else (0, "RunAbort"))
        assert tools.done == []


def _waiting_tool(begun: asyncio.Event, may_end: asyncio.Event) -> Any:
    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await may_end.wait()
        return "waited"

    return wait


async def test_a_cancellation_while_a_run_inside_is_paused_ends_it_too() -> None:
    tools, begun = Tools(), asyncio.Event()
    inner = tools.worker(call("wipe", what="a"), "Inside.")
    middle = Worker(ScriptedModel([call("ask", task="?"), "Middle."]), tools=[asks(inner)])
    calls = call("ask", task="?") + call("wait")
    worker = Worker(ScriptedModel([calls, "So."]), tools=[asks(middle), _waiting_tool(begun, asyncio.Event())])
    run = worker.run("go")
    async for record in run:
        if len(record.path) == 1 and isinstance(record.event, RunPause):
            break
    await begun.wait()
    await run.cancel()
    with pytest.raises(RunCancelledError):
        await run
    assert lint(records_of(run)) == []
    if worker.log is not None:
        infos = [info for info in await worker.log.list() if info.run_id.startswith(run.id)]
        assert {(info.status, info.row.cause) for info in infos} == {("aborted", "cancel")}
        assert len(infos) == 3


async def test_nothing_that_was_decided_counts_in_a_fork() -> None:
    tools = Tools()

    def make() -> Worker:
        inner = Worker(ByTurn([call("wipe", what="a"), say("Inside.")]), tools=[tools.of["wipe"]])
        return Worker(ByTurn([call("ask", task="?"), say("So.")]), tools=[asks(inner)])

    worker = make()
    if worker.log is None:
        return
    paused = await pause_of(worker.run("go"))
    end = (await worker.log.existing(paused.run_id)).last_seq
    resumed = make().new_session().decide(paused.run_id)
    await resumed
    assert tools.done == ["wipe a"]
    for source, seq in ((paused.run_id, end - 1), (resumed.id, 1), (resumed.id, 2)):
        tools.done.clear()
        copy = await pause_of(make().new_session().fork(source, seq))
        assert [node.name for node in copy.pause.tree if node.needs_decision] == ["call_1_1/call_1_1"]
        assert copy.pause.tree[0].inner_run.startswith(copy.run_id)
        assert tools.done == []
        assert (await make().new_session().decide(copy.run_id)).text == "So."
        assert tools.done == ["wipe a"]


def test_a_decision_in_a_copy_is_about_its_call_alone() -> None:
    """What was decided inside does not count in it, and what is decided beside that does."""
    inside = PauseState("permit", (PausedCall(0, ToolCall("y", "wipe", {})),), (0,))
    begun = Begun(run="run-1.1", paused=inside)
    asked = PausedCall(1, ToolCall("z", "book", {}), begun=Begun(question=Question("tables", "Which day?", FORM)))
    pause = PauseState("question", (PausedCall(0, ToolCall("x", "ask", {}), begun=begun), asked), (1,))
    signatures = tuple([signature_of(each) for each in pause.pending])
    shown = {"turns": 1, "stop_reason": None, "run_id": "run-1", "is_foreign": True}
    paused: Any = Paused(Conversation(), "", Usage(), pause=pause, signatures=signatures, **shown)  # pyright: ignore
    given = Decided([Approve(), Approve(), Approve({"day": "Monday"})])
    _, scope, _ = resume_turn(paused, given, Hooks(), Toolbox())
    again, booked = scope.pause.calls
    assert (again.begun, again.is_approved) == (None, False)
    assert booked.begun is not None
    assert booked.begun.reply == Reply("accept", {"day": "Monday"})
