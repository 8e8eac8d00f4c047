"""Approvals anywhere in the tree: a run inside a call pauses, and what is decided reaches it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from rxworker import Answer, Approve, ApproveAlways, Deny, Paused, Worker, tool, worker_tool
from rxworker.decisions import Decisions
from rxworker.errors import DecisionError, LocalProtocolError
from rxworker.events import Question
from rxworker.log import EventLog
from rxworker.messages import ToolMeta
from rxworker.resume.paused import load_paused, save_paused
from rxworker.state import fold_run
from rxworker.testing import Reply, ScriptedModel, call, lint
from rxworker.tools import ClientTool, ToolContext
from tests.pauses import pause_of
from tests.runs import records_of

FORM = {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]}
CALL = "call_1_1"


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

    def worker(self, *answers: Reply | str, **more: Any) -> Worker:
        """A worker with all of them."""
        return Worker(ScriptedModel(list(answers)), tools=[*self.of.values()], **more)


def asks(worker: Worker | Callable[[], Worker], name: str = "ask") -> Any:
    return worker_tool(worker, name=name, description="Ask.")


def one_inside(tools: Tools, *calls: Reply, depth: int = 2) -> Worker:
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


def wiped(depth: int, what: str = "a") -> tuple[Callable[[Tools], Worker], Any, Any]:
    return (lambda tools: one_inside(tools, call("wipe", what="a"), depth=depth)), depth, what


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
