"""What the last hook has seen is what the tool receives, in whatever way and form the arguments of a call come."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import msgspec
import pytest
import reactivex
from msgspec.structs import replace
from reactivex import Observable

from rxworker import Approve, Paused, Worker, after_tool_call, before_tool_call, on_message_send
from rxworker.errors import HookError, LocalProtocolError
from rxworker.events import Event, RunResume, ToolStart, ToolStop
from rxworker.events.block import BlockStart, BlockStop, ToolUseMetadata
from rxworker.hooks import MessageSendContext, Pause, Skip, ToolCallContext, ToolResultContext
from rxworker.hooks.decorate import HookLike
from rxworker.log import MemoryLog, fork_run
from rxworker.log.values import RunRow
from rxworker.messages import Json, JsonObject, ToolMeta
from rxworker.providers import Request
from rxworker.testing import Call, Reply, ScriptedModel
from rxworker.testing.reply import reply_events, say
from rxworker.tools import ToolContext, ToolPolicy
from tests.log.test_recover import cut, upto
from tests.pauses import pause_of

SCHEMA: JsonObject = {"type": "object", "properties": {"command": {"type": "string"}}}
GIVEN: dict[str, JsonObject | None] = {
    # texts of JSON objects: the object
    '{"command": "ls"}': {"command": "ls"},
    ' \n{"command":\t"ls"} ': {"command": "ls"},
    r'{"command": "\u006cs"}': {"command": "ls"},
    r'{"comm\u0061nd": "ls"}': {"command": "ls"},
    # a person has to send a member once
    '{"command": "cat", "command": "ls"}': {"command": "ls"},
    '{"command": "1000"}': {"command": "1000"},
    '{"command": 1000}': {"command": 1000},
    '{"command": 1.0}': {"command": 1.0},
    '{"command": null}': {"command": None},
    '{"command": "{\\"command\\": \\"ls\\"}"}': {"command": '{"command": "ls"}'},
    '{"command": ["ls", {"ls": ["-l"]}]}': {"command": ["ls", {"ls": ["-l"]}]},
    r'{"command": "\ud83d\ude00"}': {"command": "\U0001f600"},
    r'{"command": "half \ud83d"}': {"command": "half \ufffd"},
    r'{"half \ud83d": "ls"}': {"half \ufffd": "ls"},
    "{}": {},
    # what the guard below forbids, however it is written: the hook has to see it
    r'{"command": "r\u006d -rf /"}': {"command": "rm -rf /"},
    '{"command": "ls", "command": "rm"}': {"command": "rm"},
    '{"command": {"then": ["rm"]}}': {"command": {"then": ["rm"]}},
    # anything else: refused
    "[1]": None,
    '["rm"]': None,
    '"rm -rf /"': None,
    "rm -rf /": None,
    '{"command": "rm': None,
    '{"command": "rm"} trailing': None,
    '\ufeff{"command": "rm"}': None,
    "{'command': 'rm'}": None,
    "3": None,
    "true": None,
    "NaN": None,
    '{"command": NaN}': None,
}
NOTHING: dict[str, JsonObject | None] = {"": {}, " ": {}, "null": {}, " null ": {}}
"""What a model writes in place of an object without members."""


class Shell:
    """A tool that keeps what it receives. It is not a function, so no signature checks the arguments."""

    def __init__(self, *, fails: int = 0, policy: ToolPolicy | None = None) -> None:
        self.meta = ToolMeta("shell", "", SCHEMA)
        self.policy = policy or ToolPolicy(effect="idempotent", retries=fails)
        self.received: list[Json] = []
        self._fails = fails

    async def execute(self, input_json: str | bytes, context: ToolContext, /) -> str:
        del context
        self.received.append(msgspec.json.decode(input_json))
        if len(self.received) <= self._fails:
            raise OSError("again")
        return "done"


class Guard:
    """The last hook: it forbids ``rm``, and keeps what it sees."""

    def __init__(self) -> None:
        self.seen: list[JsonObject] = []
        self.objects: list[object] = []

    def before_tool_call(self, context: ToolCallContext) -> Skip | None:
        assert context.call.input is context.input
        assert context.input is context.tool_args
        self.seen.append(copy.deepcopy(context.input))
        self.objects.append(context.input)
        return Skip() if "rm" in str(context.input) else None


def model_of(given: JsonObject | str) -> ScriptedModel:
    return ScriptedModel([Reply(tool_calls=(Call("shell", given, "x"),)), "Done."])


class Custom:
    """A model that calls an ordinary tool with free text, as a service may that knows both kinds."""

    name = model = "custom"

    def __init__(self, given: str) -> None:
        self._replies = [Reply(tool_calls=(Call("shell", given, "x"),)), say("Done.")]

    def stream(self, request: Request) -> Observable[Any]:
        del request
        return reactivex.from_iterable(map(free, reply_events(self._replies.pop(0))))


def free(event: Any) -> Any:
    if isinstance(event, BlockStart | BlockStop) and isinstance(event.metadata, ToolUseMetadata):
        return replace(event, metadata=replace(event.metadata, is_free_text=True))
    return event


Way: TypeAlias = Callable[[str, Shell, Sequence[HookLike], list[Event]], Awaitable[object]]


async def followed(worker: Worker, events: list[Event], text: str = "Go.") -> object:
    run = worker.run(text)
    run.events.subscribe(events.append)
    return await run


async def by_the_model(given: str, shell: Shell, hooks: Sequence[HookLike], events: list[Event]) -> object:
    return await followed(Worker(model_of(given), tools=[shell], hooks=hooks), events)


async def by_the_model_as_free_text(given: str, shell: Shell, hooks: Sequence[HookLike], events: list[Event]) -> object:
    return await followed(Worker(Custom(given), tools=[shell], hooks=hooks), events)


async def by_a_hook_as_input(given: str, shell: Shell, hooks: Sequence[HookLike], events: list[Event]) -> object:
    @before_tool_call(name="change")
    def change(context: ToolCallContext) -> None:
        context.call = replace(context.call, input=given)

    worker = Worker(model_of({"command": "cat"}), tools=[shell], hooks=[change, *hooks])
    return await followed(worker, events)


async def by_a_hook_as_content(given: str, shell: Shell, hooks: Sequence[HookLike], events: list[Event]) -> object:
    @before_tool_call(name="change")
    def change(context: ToolCallContext) -> None:
        context.set_content(given)

    worker = Worker(model_of({"command": "cat"}), tools=[shell], hooks=[change, *hooks])
    return await followed(worker, events)


@before_tool_call(name="ask")
def ask(context: ToolCallContext) -> Pause:
    return Pause("May it?")


async def by_a_decision(given: str, shell: Shell, hooks: Sequence[HookLike], events: list[Event]) -> object:
    worker = Worker(model_of({"command": "cat"}), tools=[shell], hooks=[ask, *hooks])
    assert isinstance(await worker.run("Go."), Paused)
    run = worker.resume(decisions={"x": Approve(input=given)})
    run.events.subscribe(events.append)
    return await run


async def by_a_page(given: str, shell: Shell, hooks: Sequence[HookLike], events: list[Event]) -> object:
    wire = msgspec.json.encode({"type": "approve", "input": given})
    return await by_a_decision(str(msgspec.json.decode(wire, type=Approve).input), shell, hooks, events)


async def by_a_recovery(given: str, shell: Shell, hooks: Sequence[HookLike], events: list[Event]) -> object:
    """The process that has resumed the run ends before the first hook is asked."""
    log = MemoryLog()
    worker = Worker(model_of({"command": "cat"}), tools=[shell], hooks=[ask], log=log)
    paused = await pause_of(worker.run("Go."))
    run = worker.resume(decisions={"x": Approve(input=given)})
    await run
    shell.received.clear()
    entries = [entry async for entry in log.read(run.id)]
    again = await cut(run.id, upto(entries, lambda entry: entry.kind == "run_resume"))
    claim = await again.claim(paused.run_id, create=True)
    before = [entry async for entry in log.read(paused.run_id)]
    await again.append(claim, before, after=0, row=RunRow(title="Go.", status="paused"))
    other = Worker(ScriptedModel(["Done."]), tools=[shell], hooks=[ask, *hooks], log=again)
    recovered = await other.recover(run.id).started()
    recovered.events.subscribe(events.append)
    return await recovered


async def by_a_fork(given: str, shell: Shell, hooks: Sequence[HookLike], events: list[Event]) -> object:
    """The fork begins where the response has ended, and runs the calls that it made."""
    log = MemoryLog()
    first = Worker(model_of(given), tools=[Shell()], log=log)
    run = first.run("Go.")
    records: list[Any] = []
    run.records.subscribe(records.append)
    await run
    at = next((r.seq for r in records if isinstance(r.event, ToolStart)), None)
    assert at is not None
    fork = await fork_run(log, run.id, at - 1)
    other = Worker(ScriptedModel(["Done."]), tools=[shell], hooks=hooks, log=log)
    recovered = await other.recover(fork).started()
    recovered.events.subscribe(events.append)
    return await recovered


FROM_A_MODEL: list[Way] = [by_the_model, by_the_model_as_free_text, by_a_fork]
FROM_A_HOOK: list[Way] = [by_a_hook_as_input, by_a_hook_as_content]
FROM_A_PERSON: list[Way] = [by_a_decision, by_a_page, by_a_recovery]
WAYS = [*FROM_A_MODEL, *FROM_A_HOOK, *FROM_A_PERSON]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_the_tool_receives_the_object_that_the_last_hook_has_seen(way: Way) -> None:
    for given, expected in (GIVEN | (NOTHING if way not in FROM_A_PERSON else {})).items():
        shell, guard, events = Shell(fails=1), Guard(), list[Event]()
        is_forbidden = "rm" in str(expected)
        is_double = way in FROM_A_PERSON and given.count('"command": ') > 1
        if is_double or (expected is None and way not in FROM_A_MODEL):
            with pytest.raises(HookError if way in FROM_A_HOOK else LocalProtocolError) as refused:
                await way(given, shell, [guard], events)
            why = "the member 'command' twice" if is_double else "this is not a JSON object"
            assert why in str(refused.value), given
            assert (guard.seen, shell.received) == ([], []), given
            continue
        await way(given, shell, [guard], events)
        assert guard.seen == ([] if expected is None else [expected]), given
        # Twice, since its first attempt fails.
        runs = expected is not None and not is_forbidden
        assert shell.received == ([expected] * 2 if runs else []), given
        starts = [event.call for event in events if isinstance(event, ToolStart)]
        stops = [event for event in events if isinstance(event, ToolStop)]
        assert [stop.is_error for stop in stops] == [not runs], given
        if runs:
            assert starts[0].input is guard.objects[0], given
        if expected is None:
            assert stops[0].result is not None
            assert "this is not a JSON object" in stops[0].result.text, given
        for event in events:
            if isinstance(event, RunResume):
                assert [call.input for call in event.pause.pending] == [expected], given


async def test_a_pure_tool_does_not_start_early_with_arguments_that_cannot_be_decoded() -> None:
    for given, expected in (GIVEN | NOTHING).items():
        shell, events = Shell(policy=ToolPolicy(effect="pure")), list[Event]()
        await by_the_model(given, shell, [], events)
        assert shell.received == ([] if expected is None else [expected]), given
        assert sum(isinstance(event, ToolStart) for event in events) == 1, given


async def test_arguments_that_cannot_be_decoded_are_not_shown_for_approval() -> None:
    shell = Shell(policy=ToolPolicy(requires_approval=True))
    result = await by_the_model('{"command": "rm', shell, [ask], [])
    assert not isinstance(result, Paused)
    assert shell.received == []


async def test_an_empty_text_of_a_person_is_not_an_object() -> None:
    for way in (by_a_decision, by_a_page):
        for given in NOTHING:
            shell, guard = Shell(), Guard()
            with pytest.raises(LocalProtocolError, match="or no input to run the call with"):
                await way(given, shell, [guard], [])
            assert (guard.seen, shell.received) == ([], [])


ODD: dict[str, object] = {"$.command": float("nan"), "$.command.at[1]": {"at": [0, float("inf")]}, "$": {1: "a"}}


async def test_a_hook_that_leaves_what_json_would_change_has_failed() -> None:
    """The tool receives text, in which ``NaN`` is null, and two names can be one."""
    for path, odd in ODD.items():

        @before_tool_call
        def change(context: ToolCallContext, path: str = path, odd: Any = odd) -> None:
            if path == "$":
                context.input.update(odd)
            else:
                context.input["command"] = odd

        shell = Shell()
        with pytest.raises(HookError, match="no JSON form") as failed:
            await by_the_model('{"command": "ls"}', shell, [change], [])
        assert f"at {path}:" in str(failed.value)
        assert failed.value.hook == "change"
        assert shell.received == []


NESTED: dict[str, JsonObject | str] = {
    "a text": '{"command": ' + "[" * 600 + "]" * 600 + "}",
    "an object": {"command": msgspec.json.decode("[" * 600 + "]" * 600)},
}


@pytest.mark.parametrize("given", NESTED.values(), ids=NESTED.keys())
async def test_arguments_that_are_nested_too_deeply_are_refused(given: JsonObject | str) -> None:
    """They are copied for the hooks, and read by many: a run must not end because a model has written many brackets."""
    shell, guard = Shell(), Guard()

    @on_message_send
    def look(context: MessageSendContext) -> None:
        """Receives a copy of the calls."""

    @after_tool_call
    def check(context: ToolResultContext) -> None:
        assert "more than 100 arrays and objects within one another" in context.content

    result = await Worker(model_of(given), tools=[shell], hooks=[guard, look, check]).run("Go.")
    assert result.text == "Done."
    assert (guard.seen, shell.received) == ([], [])


async def test_a_hook_that_leaves_arguments_that_hold_themselves_has_failed() -> None:
    @before_tool_call(on_failure="skip")
    def change(context: ToolCallContext) -> None:
        context.input["command"] = context.input

    shell = Shell()
    await by_the_model('{"command": "ls"}', shell, [change], [])
    assert shell.received == []


SHARED: JsonObject = {"command": ["ls"]}
KEPT: list[JsonObject] = []


def give_the_object(context: ToolCallContext) -> None:
    context.input = SHARED


def give_the_call(context: ToolCallContext) -> None:
    context.call = replace(context.call, input=SHARED)


def give_a_member(context: ToolCallContext) -> None:
    context.input.update(SHARED)


def keep(context: ToolCallContext) -> None:
    context.input.update(copy.deepcopy(SHARED))
    KEPT.append(context.input)
    if len(KEPT) > 1:
        KEPT[0]["command"] = ["rm"]


@pytest.mark.parametrize("give", [give_the_object, give_the_call, give_a_member, keep])
async def test_what_a_hook_does_for_a_call_does_not_change_another(give: Callable[[ToolCallContext], None]) -> None:
    """Its last hook has already seen the other, which has not run yet."""
    KEPT.clear()

    @before_tool_call
    def change(context: ToolCallContext) -> None:
        if context.call.id == "y":
            command = context.input["command"]
            assert isinstance(command, list)
            command.append("rm")

    shell, guard = Shell(), Guard()
    calls = (Call("shell", {}, "x"), Call("shell", {}, "y"))
    model = ScriptedModel([Reply(tool_calls=calls), "Done."])
    hooks = [before_tool_call(give), change, guard]
    await Worker(model, tools=[shell], hooks=hooks).run("Go.")
    assert guard.seen == [{"command": ["ls"]}, {"command": ["ls", "rm"]}]
    assert shell.received == [{"command": ["ls"]}]
    assert SHARED == {"command": ["ls"]}
