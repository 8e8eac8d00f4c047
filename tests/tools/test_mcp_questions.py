"""Questions of MCP servers: a call pauses its run, and goes on with the answer of a person."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import pytest
from msgspec.structs import replace

from rxworker import Answer, Approve, Deny, Finished, Paused, Worker, tool, worker_tool
from rxworker.decisions import Decision
from rxworker.errors import DecisionError, RunCancelledError
from rxworker.events import Record
from rxworker.events.form import below, check_form, form_problem
from rxworker.events.pause import Question, Reply
from rxworker.log import MemoryLog
from rxworker.log.values import RunRow
from rxworker.messages import Json, JsonObject, ToolCall
from rxworker.testing import ScriptedModel, call, lint
from rxworker.tools import Toolbox, ToolContext
from rxworker.tools.mcp import McpTool
from rxworker.tools.mcp_call import ROUNDS
from rxworker.tools.mcp_connection import Connection, question_of
from rxworker.tools.run import run_call
from rxworker.worker import QueuedWorker, load_paused, save_paused

pytest.importorskip("mcp")

from mcp import types
from mcp.server import Server

from rxworker.tools import McpClient
from tests.pauses import pause_of
from tests.runs import finish_of

FORM: JsonObject = {
    "type": "object",
    "properties": {"guests": {"type": "integer", "minimum": 1}, "name": {"type": "string"}},
    "required": ["guests"],
}
ASK = types.ElicitRequest(params=types.ElicitRequestFormParams(message="How many?", requested_schema=FORM))
SIGN_IN = types.ElicitRequest(
    params=types.ElicitRequestURLParams(message="Sign in.", url="https://example.org/sign?in")
)
ROOTS = types.ListRootsRequest()
NESTED: JsonObject = {"type": "object", "properties": {"a": {"type": "object"}}}
ODD = types.ElicitRequest(params=types.ElicitRequestFormParams(message="What?", requested_schema=NESTED))
REQUESTS: dict[str, dict[str, Any]] = {
    "book": {"party": ASK},
    "both": {"party": ASK, "sign": SIGN_IN},
    "sign": {"sign": SIGN_IN},
    "roots": {"party": ASK, "roots": ROOTS},
    "odd": {"odd": ODD},
    "state": {},
    "look": {},
}
"""What each tool requires before it does anything."""


class Small:
    """A server of the package, in revision 2026-07-28, and what it has received and done."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str | None]] = []
        self.done: list[str] = []
        self.server = Server("small", on_list_tools=self.list_tools, on_call_tool=self.call_tool)

    async def list_tools(self, *_: object) -> types.ListToolsResult:
        schema = {"type": "object"}
        return types.ListToolsResult(tools=[types.Tool(name=n, input_schema=schema) for n in REQUESTS])

    async def call_tool(
        self, _: object, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        name, given = params.name, params.input_responses or {}
        self.calls.append((name, params.request_state))
        await asyncio.sleep(0)
        if name == "state":
            return types.InputRequiredResult(request_state="again")
        if set(given) < set(REQUESTS[name]):
            return types.InputRequiredResult(input_requests=REQUESTS[name], request_state=f"secret {name}")
        assert name == "look" or params.request_state == f"secret {name}"
        answers = [each.model_dump(exclude_none=True) for _, each in sorted(given.items())]
        self.done.append(f"{name} {answers}")
        return types.CallToolResult(content=[types.TextContent(text=self.done[-1])])


@asynccontextmanager
async def connected(small: Small) -> AsyncGenerator[list[McpTool], None]:
    connection = Connection("memory", 20.0)
    await connection.open(small.server)
    try:
        yield await McpClient(connection).tools()
    finally:
        await connection.close()


def model(*names: str) -> ScriptedModel:
    first = call(names[0])
    for name in names[1:]:
        first = first + call(name)
    return ScriptedModel([first, "Done."])


def texts(result: Any) -> list[str]:
    return [r.text for m in result.conversation.messages for r in m.tool_results]


ACCEPTED = "book [{'action': 'accept', 'content': {'guests': 2}}]"
ANSWERS: list[tuple[str, list[Decision], str]] = [
    ("book", [Approve({"guests": 2})], ACCEPTED),
    ("book", [Deny()], "book [{'action': 'decline'}]"),
    ("book", [Answer("It is closed.")], "It is closed."),
    ("sign", [Approve()], "sign [{'action': 'accept'}]"),
    ("sign", [Deny("no")], "sign [{'action': 'decline'}]"),
    (
        "both",
        [Approve({"guests": 1}), Deny()],
        "both [{'action': 'accept', 'content': {'guests': 1}}, {'action': 'decline'}]",
    ),
]


@pytest.mark.parametrize(("name", "decisions", "expected"), ANSWERS)
async def test_a_question_pauses_the_run_and_another_process_answers(
    name: str, decisions: list[Decision], expected: str
) -> None:
    small = Small()
    async with connected(small) as tools:
        run = Worker(model(name), tools=tools).run("go")
        result: Any = await run
        assert lint([record async for record in run]) == []
    for decision in decisions:
        assert isinstance(result, Paused)
        assert (result.hook, result.paused_at) == ("question", "call_1_1")
        assert result.reason.startswith("small (memory) has a question: ")
        assert small.done == []
        # Another connection, and another worker, which has the bytes alone.
        async with connected(small) as tools:
            other = Worker(ScriptedModel(["Done."]), tools=tools)
            resumed = other.resume(load_paused(save_paused(cast("Paused[object]", result))), decisions=[decision])
            result = await resumed
            assert lint([record async for record in resumed]) == []
    assert isinstance(result, Finished)
    assert texts(result) == [expected]


REFUSED: list[tuple[str, Decision | None, str]] = [
    ("book", None, "waits for an answer"),
    ("book", Approve(), r"input\.guests is missing"),
    ("book", Approve({"guests": 0}), r"input\.guests is below 1"),
    ("book", Approve({"guests": True}), r"input\.guests is not a whole number"),
    ("book", Approve({"guests": 1, "more": 1}), r"input\.more: the form has no such property"),
    ("book", Approve("2"), "input is not an object"),
    ("sign", Approve({"code": "1"}), "there is no form"),
]


@pytest.mark.parametrize(("name", "decision", "why"), REFUSED)
async def test_what_does_not_answer_is_refused_and_the_call_stays_waiting(
    name: str, decision: Decision | None, why: str
) -> None:
    small = Small()
    async with connected(small) as tools:
        worker = Worker(model(name), tools=tools)
        await worker.run("go")
        with pytest.raises(DecisionError, match=why):
            await worker.resume(decisions=[decision])
        with pytest.raises(DecisionError, match="waits for an answer"):
            await worker.resume()  # nothing is accepted by default
        assert (small.done, len(small.calls)) == ([], 1)
        fine = Approve({"guests": 2} if name == "book" else None)
        assert isinstance(await worker.resume(decisions=[fine]), Finished)


async def test_other_calls_run_and_questions_are_answered_side_by_side() -> None:
    small = Small()
    async with connected(small) as tools:
        worker = Worker(model("book", "look", "sign"), tools=tools)
        paused: Any = await worker.run("go")
        assert [each.name for each in paused.pending] == ["book", "sign"]
        assert paused.pause.required == (0, 1)
        assert small.done == ["look []"]
        result = await worker.resume(decisions=[Deny(), Approve()])
        declined = "book [{'action': 'decline'}]"
        assert texts(result) == [declined, "look []", "sign [{'action': 'accept'}]"]


CANCELLED: list[tuple[str, str]] = [
    ("book", "book [{'action': 'cancel'}]"),
    ("both", "both [{'action': 'cancel'}, {'action': 'cancel'}]"),
]


@pytest.mark.parametrize(("name", "expected"), CANCELLED)
async def test_where_nothing_can_answer_the_question_is_cancelled(name: str, expected: str) -> None:
    small = Small()
    async with connected(small) as tools:
        alone = await run_call(Toolbox(tools), ToolCall("1", name, {}))
        assert alone.text == expected
        inner = Worker(model(name), tools=tools)
        nested = worker_tool(inner, name="inner", description="Do it.")
        outer = Worker(ScriptedModel([call("inner", task="go"), "Done."]), tools=[nested])
        paused: Any = await outer.run("go")  # a person can answer it there, at any depth
        assert small.done == [expected]
        while isinstance(paused, Paused):
            assert [each.name for each in paused.pending] == ["inner", name]
            paused = await outer.resume(decisions=[None, Deny()])
        assert small.done == [expected, expected.replace("cancel", "decline")]


NOT_UNDERSTOOD: list[tuple[str, str]] = [
    ("roots", "requests a feature that this client does not have: 'roots/list'"),
    ("odd", "the property 'a' is neither a text, a number, a boolean nor a choice"),
    ("state", f"repeated more than {ROUNDS} times"),
]


@pytest.mark.parametrize(("name", "why"), NOT_UNDERSTOOD)
async def test_what_is_not_understood_fails_the_call(name: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rxworker.tools.mcp_call.PAUSES", (0.0,))
    small = Small()
    async with connected(small) as tools:
        result = await Worker(model(name), tools=tools).run("go")
    assert isinstance(result, Finished)
    assert why in texts(result)[0]
    assert small.done == []


async def test_a_stored_question_is_decided_about_by_another_process_and_accepted_once() -> None:
    """The log is cut behind each record of the run that resumes, as if its process had ended there."""
    small, log = Small(), MemoryLog()
    async with log, connected(small) as tools:
        first = Worker(model("book"), tools=tools, log=log)
        paused: Any = await first.run("go")
        loaded = await pause_of(Worker(model("book"), tools=tools, log=log).load(paused.run_id))
        assert loaded.pause == paused.pause
        run = first.session.resume(loaded, decisions=[Approve({"guests": 2})])
        assert texts(await run) == [ACCEPTED]
        entries = [entry async for entry in log.read(run.id)]
    starts = 0
    for cut in range(1, len(entries)):
        small.done.clear()
        left = MemoryLog(lease=0.0)
        async with left, connected(small) as tools:
            claim = await left.claim(run.id, create=True)
            await left.append(claim, entries[:cut], after=0, row=RunRow())
            left.lease = 15.0
            worker = Worker(ScriptedModel(["Done."]), tools=tools, log=left)
            result: Any = await worker.recover(run.id)
            kinds = [entry.kind for entry in entries[:cut]]
            if "tool_start" in kinds and "tool_stop" not in kinds:
                starts += 1  # whether the server has had the answer is not known
                assert (result.hook, small.done) == ("recovery", [])
            else:
                assert texts(result) == [ACCEPTED]
                assert small.done == ([] if "tool_stop" in kinds else [ACCEPTED])
    assert starts


async def test_a_call_that_is_cancelled_at_any_moment_ends_with_its_run() -> None:
    steps, result = 0, None
    while result is None:
        small, records = Small(), list[Record]()
        async with connected(small) as tools:
            run = Worker(model("book"), tools=tools).run("go")
            run.subscribe(records.append, lambda _: None)
            for _ in range(steps):
                await asyncio.sleep(0)
            await run.cancel()
            with suppress(RunCancelledError):
                result = await run
            assert lint(records) == []
            assert small.done == []
        steps += 1
    assert isinstance(result, Paused)
    assert steps > 3


CONTENTS: list[tuple[JsonObject, Json, str]] = [
    ({"type": "string", "minLength": 2}, "a", "has fewer than 2 characters"),
    ({"type": "string", "maxLength": 2}, "abc", "has more than 2 characters"),
    ({"type": "string"}, 1, "is not text"),
    ({"type": "string", "format": "email"}, "a@b.c", ""),
    ({"type": "string", "format": "email"}, "a", "is not a valid email"),
    ({"type": "string", "format": "uri"}, "https://a", ""),
    ({"type": "string", "format": "uri"}, "a b", "is not a valid uri"),
    ({"type": "string", "format": "date"}, "2026-07-28", ""),
    ({"type": "string", "format": "date"}, "2026-13-01", "is not a valid date"),
    ({"type": "string", "format": "date-time"}, "2026-07-28T10:00:00Z", ""),
    ({"type": "string", "format": "date-time"}, "2026-07-28", "is not a valid date-time"),
    ({"type": "number", "maximum": 1.5}, 1.5, ""),
    ({"type": "number", "maximum": 1.5}, 2, "is above 1.5"),
    ({"type": "number"}, True, "is not a number"),
    ({"type": "integer"}, 1.5, "is not a whole number"),
    ({"type": "number"}, math.nan, "is not a number"),
    ({"type": "number"}, math.inf, "is not a number"),
    ({"type": "boolean"}, False, ""),
    ({"type": "boolean"}, 0, "is not a boolean (true or false)"),
    ({"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]}, "b", ""),
    ({"type": "string", "enum": ["a", "b"]}, "c", "is not among: a, b"),
    ({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}, "A", "is not among: a"),
    (
        {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "maxItems": 1},
        ["a", "b"],
        "has more than 1 items",
    ),
    ({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}, "minItems": 1}, ["a"], ""),
    ({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}, ["b"], "[0] is not among: a"),
]


@pytest.mark.parametrize(("field", "value", "problem"), CONTENTS)
def test_a_content_fits_its_form(field: JsonObject, value: Json, problem: str) -> None:
    schema: JsonObject = {"type": "object", "properties": {"x": field}}
    assert check_form(schema) == ""
    assert form_problem(schema, {"x": value}) == (below("input.x", problem) if problem else "")


NO_FORMS: list[JsonObject] = [
    {},
    {"type": "object"},
    {"type": "object", "properties": {}, "required": ["x"]},
    {"type": "object", "properties": {}, "allOf": []},
    {"type": "object", "properties": {"x": {"type": "object", "properties": {}}}},
    {"type": "object", "properties": {"x": {"type": ["string", "null"]}}},
    {"type": "object", "properties": {"x": {"$ref": "#/x"}}},
    {"type": "object", "properties": {"x": {"type": "string", "pattern": "(a+)+"}}},
    {"type": "object", "properties": {"x": {"type": "string", "format": "ipv4"}}},
    {"type": "object", "properties": {"x": {"type": "string", "enum": []}}},
    {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "string"}}}},
    {"type": "object", "properties": {"x": {"type": "string"}}, "required": [["x"]]},
    {"type": "object", "properties": {"x": {"type": "string"}}, "required": [1]},
    {"type": "object", "properties": {}, "title": ["x"]},
    {"type": "object", "properties": {"x": {"type": "string", "title": {"x": 1}}}},
    {"type": "object", "properties": {"x": {"type": "string", "minLength": "2"}}},
    {"type": "object", "properties": {"x": {"type": "string", "maxLength": -1}}},
    {"type": "object", "properties": {"x": {"type": "number", "minimum": math.nan}}},
    {"type": "object", "properties": {"x": {"type": "number", "maximum": True}}},
    {"type": "object", "properties": {"x": {"type": "string", "default": [[["x"]]]}}},
    {"type": "object", "properties": {"x": {"type": "string", "default": {"x": "x"}}}},
    {"type": "object", "properties": {"x": {"type": "string", "enum": ["a", ["a"]]}}},
    {"type": "object", "properties": {"x": {"type": "string", "enum": ["a"], "enumNames": [1]}}},
    {"type": "object", "properties": {"x": {"type": "string", "oneOf": [{"const": {}}]}}},
    {"type": "object", "properties": {"x": {"type": "string", "oneOf": [{"const": "a", "if": 1}]}}},
    {"type": "object", "properties": {"x": {"type": "array", "items": {"enum": ["a"], "contains": {}}}}},
    {"type": "object", "properties": {"x": {"type": "\ud800"}}},
    {"type": "\ud800", "properties": {}},
]


@pytest.mark.parametrize("schema", NO_FORMS)
def test_a_schema_that_is_not_a_form_is_refused(schema: JsonObject) -> None:
    assert check_form(schema)
    params: JsonObject = {"message": "?", "requestedSchema": schema}
    assert isinstance(question_of({"method": "elicitation/create", "params": params}, "s"), str)


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "https://",
        "https://a b",
        "https://ex\u0430mple.org",
        "http://[",
        "data:,x",
        "https://bank.example@example.org/",
        "https://me:secret@example.org/",
        "https://bank.example\\@example.org/",
        "https://example.org:99999999/",
        "https://example.org/" + "x" * 100_000,
    ],
)
def test_an_address_that_is_not_of_the_web_is_refused(url: str) -> None:
    params: JsonObject = {"mode": "url", "message": "?", "url": url}
    asked = question_of({"method": "elicitation/create", "params": params}, "s")
    assert asked == "an address that is not of the web"


ENUM: JsonObject = {"type": "string", "enum": [str(number) for number in range(50_000)]}
TEXT: JsonObject = {"type": "string"}
LONG: list[JsonObject] = [
    {"message": "?" * 200_000, "requestedSchema": FORM},
    {"message": "?", "requestedSchema": {"type": "object", "properties": {"x": ENUM}}},
    {"message": "?", "requestedSchema": {"type": "object", "properties": dict.fromkeys(map(str, range(9_999)), TEXT)}},
    {"message": None, "requestedSchema": FORM},
]


@pytest.mark.parametrize("params", LONG)
def test_a_question_that_is_too_long_to_be_read_is_refused(params: JsonObject) -> None:
    assert isinstance(question_of({"method": "elicitation/create", "params": params}, "s"), str)


class Remembering(Small):
    """A server that needs much to go on."""

    async def call_tool(
        self, _: object, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        found = await super().call_tool(_, params)
        return found.model_copy(update={"request_state": "x" * 1_000_000})


async def test_a_state_of_a_server_that_is_too_long_to_be_kept_fails_the_call() -> None:
    async with connected(Remembering()) as tools:
        result = await Worker(model("book"), tools=tools).run("go")
    assert isinstance(result, Finished)
    assert "is longer than" in texts(result)[0]


async def test_a_question_is_answered_by_a_stored_decision_that_another_process_takes() -> None:
    small, log = Small(), MemoryLog()
    async with log, connected(small) as tools:
        paused: Any = await Worker(model("book"), tools=tools, log=log).run("go")
        desk = QueuedWorker("", log=log)  # it has neither the tools nor the model
        with pytest.raises(DecisionError, match=r"input\.guests is missing"):
            await desk.decide_later(paused.run_id, decisions=[Approve()])
        await desk.decide_later(paused.run_id, decisions=[Approve({"guests": 2})])
        other = Worker(ScriptedModel(["Done."]), tools=tools, log=log)
        assert texts(await other.recover(paused.run_id)) == [ACCEPTED]
    assert small.done == [ACCEPTED]


async def test_an_answer_that_was_given_elsewhere_does_not_count_where_its_pause_was_imported() -> None:
    """A hook has paused the call after its question was answered, and the pause came from another log."""
    small = Small()
    async with connected(small) as tools:
        worker = Worker(model("book"), tools=tools)
        paused: Any = await worker.run("go")
        [waiting] = paused.pause.calls
        answered = replace(waiting.begun, reply=Reply("accept", {"guests": 2}))
        pause = replace(paused.pause, hook="permit", required=(), calls=(replace(waiting, begun=answered),))
        result: Any = await worker.resume(replace(paused, pause=pause, is_foreign=True))
        assert (result.hook, small.done) == ("question", [])


async def test_a_form_of_a_tool_of_ones_own_is_checked_before_it_is_shown() -> None:
    @tool
    async def plant(context: ToolContext) -> str:
        """Plant a tree."""
        context.ask(Question("garden", "Which tree?", NESTED))

    worker = Worker(model("plant"), tools=[plant])
    result = await finish_of(worker.run("go"))
    assert "the property 'a' is neither a text" in texts(result)[0]


async def test_an_invalid_form_of_another_log_can_be_declined() -> None:
    small = Small()
    async with connected(small) as tools:
        worker = Worker(model("book"), tools=tools)
        paused: Any = await worker.run("go")
        [waiting] = paused.pause.calls
        asked = replace(waiting.begun, question=Question("tables", "How many?", {}))
        pause = replace(paused.pause, calls=(replace(waiting, begun=asked),))
        with pytest.raises(DecisionError, match="it is not an object with properties"):
            await worker.resume(replace(paused, pause=pause), decisions=[Approve({"guests": 2})])
        await worker.resume(replace(paused, pause=pause), decisions=[Deny()])
        assert small.done == ["book [{'action': 'decline'}]"]
