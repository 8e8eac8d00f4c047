"""A run that waits for somebody, here or in another process."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from rxworker import Answer, Approve, Deny, Paused, Worker, before_tool_call, tool
from rxworker.errors import ConfigurationError, LocalProtocolError
from rxworker.events import RunPause, ToolStop
from rxworker.hooks import Pause, Skip, ToolCallContext
from rxworker.messages import JsonObject, Message, ToolMeta, repair
from rxworker.testing import Call, Reply, ScriptedModel, call, lint
from rxworker.tools import Tool, ToolContext, ToolPolicy
from rxworker.worker import Decision, load_paused, save_paused
from tests.pauses import pause_of
from tests.runs import finish_of

RAN: list[tuple[str, str]] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


@tool
async def note(text: str, context: ToolContext) -> str:
    """Write a note."""
    RAN.append((text, context.idempotency_key))
    return f"noted {text}"


class Careful:
    """A tool of which each call has to be approved."""

    meta = ToolMeta("wipe", "Wipe.", {"type": "object", "properties": {}})
    policy = ToolPolicy(requires_approval=True)

    async def execute(self, input_json: str | bytes, context: ToolContext, /) -> str:
        RAN.append(("wipe", context.call_id))
        return "wiped"


@before_tool_call(matcher="note")
def ask(context: ToolCallContext) -> Pause:
    return Pause("may I?")


CALLS = call("note", text="a") + call("note", text="b") + call("note", text="c")


def worker_of(*answers: object, tools: tuple[Tool, ...] = (note,), hooks: tuple[object, ...] = (ask,)) -> Worker:
    return Worker(ScriptedModel(list(answers)), tools=tools, hooks=hooks)  # type: ignore[arg-type]


async def paused_at_three() -> tuple[Worker, Paused[None]]:
    worker = worker_of(CALLS, "done")
    paused = await pause_of(worker.run("go"))
    return worker, paused


async def test_one_decision_for_each_call_and_no_call_waits_again() -> None:
    worker, paused = await paused_at_three()
    a, b, c = (call.id for call in paused.pending)
    run = worker.resume(decisions={a: Approve(input={"text": "A"}), b: Deny("not b"), c: Answer("c is known")})
    result = await finish_of(run)
    answers = result.conversation.messages[2].tool_results
    assert [(r.text, r.is_error) for r in answers] == [("noted A", False), ("not b", True), ("c is known", False)]
    assert [text for text, _ in RAN] == ["A"]
    assert repair(result.conversation) == result.conversation
    # What was decided without running is reported to the watchers.
    records = [record async for record in run]
    results = [r.event.result for r in records if isinstance(r.event, ToolStop)]
    assert {r.tool_use_id: r.text for r in results if r} == {a: "noted A", b: "not b", c: "c is known"}
    assert lint(records) == []


async def test_calls_that_nothing_is_decided_about_wait_again() -> None:
    worker, paused = await paused_at_three()
    first, second, _ = (call.id for call in paused.pending)
    again = await pause_of(worker.resume(decisions={first: Approve(), second: Approve()}))
    assert again.paused_at == paused.pending[2].id
    assert RAN == []
    assert (await worker.resume()).text == "done"
    assert [text for text, _ in RAN] == ["a", "b", "c"]


async def test_a_run_saved_here_continues_elsewhere() -> None:
    _, paused = await paused_at_three()
    data = save_paused(paused, key=b"secret")
    decisions: dict[str, Decision] = {call.id: Approve() for call in paused.pending}
    elsewhere = worker_of("done")
    run = elsewhere.resume(load_paused(data, key=b"secret"), decisions=decisions)
    result = await run
    assert result.text == "done"
    assert [text for text, _ in RAN] == ["a", "b", "c"]
    assert [m.role for m in result.conversation.messages] == ["user", "assistant", "user", "assistant"]
    assert lint([record async for record in run]) == []


@pytest.mark.parametrize("pauses", [1, 2])
async def test_a_run_is_resumed_once_with_the_idempotency_keys_that_it_has_without_a_pause(pauses: int) -> None:
    worker, paused = await paused_at_three()
    first = paused.run_id
    if pauses == 2:
        paused = await pause_of(worker.resume())
    every: dict[str, Decision] = {call.id: Approve() for call in paused.pending}
    await worker.resume(paused, decisions=every)
    assert [key.rpartition("/")[0] for _, key in RAN] == [f"{first}/1/{n}" for n in range(3)]
    with pytest.raises(LocalProtocolError, match="was resumed already"):
        worker.resume(paused, decisions=every)
    assert len(RAN) == 3


async def test_a_tool_may_require_approval_by_itself() -> None:
    run = worker_of(call("wipe"), "done", tools=(Careful(),), hooks=()).run("go")
    paused = await pause_of(run)
    assert (paused.hook, paused.reason) == ("requires_approval", "wipe requires approval")
    events = [record.event async for record in run]
    assert isinstance(events[-1], RunPause)
    assert RAN == []


async def test_a_hook_that_skips_a_call_makes_the_approval_unnecessary() -> None:
    @before_tool_call
    def never(context: ToolCallContext) -> Skip:
        return Skip("never")

    result = await worker_of(call("wipe"), "fine", tools=(Careful(),), hooks=(never,)).run("go")
    assert result.text == "fine"
    assert RAN == []


@pytest.mark.parametrize(
    ("key", "was", "becomes", "other", "complaint"),
    [
        (None, b'"text":"a"', b'"text":"z"', None, "was changed after it was saved"),
        (b"one", b'"text":"a"', b'"text":"z"', b"one", "was changed after it was saved"),
        (b"one", b'"version":3', b'"version":2', b"one", "was changed after it was saved"),
        (None, b'"seal":"', '"seal":"é'.encode(), None, "was changed after it was saved"),
        (b"one", b"", b"", b"two", "another key"),
        (None, b'"version":3', b'"version":7', None, "version 7"),
    ],
)
async def test_what_was_changed_on_the_way_is_refused(
    key: bytes | None, was: bytes, becomes: bytes, other: bytes | None, complaint: str
) -> None:
    _, paused = await paused_at_three()
    data = save_paused(paused, key=key)
    assert was in data
    with pytest.raises(LocalProtocolError, match=complaint):
        load_paused(data.replace(was, becomes, 1) if was else data, key=other)


DEEP = "[" * 100_000
STATE = f'{{"conversation":{DEEP}{"]" * 100_000}}}'
SEAL = hmac.new(b"k", f"3:{STATE}".encode(), hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[1]",
        b"\xff",
        b'{"version":3}',
        "no",
        "\ud800",
        DEEP,
        DEEP.encode(),
        f'{{"version":3,"seal":"","state":{DEEP}',
        f'{{"version":3,"seal":"{SEAL}","state":{STATE}}}',
    ],
    ids=lambda data: repr(data[:20]),
)
def test_what_is_not_a_paused_run_is_refused(data: bytes | str) -> None:
    with pytest.raises(LocalProtocolError, match="not a paused run"):
        load_paused(data, key=b"k")


async def test_everything_survives_the_bytes() -> None:
    _, paused = await paused_at_three()
    assert load_paused(save_paused(paused)) == paused
    assert msgspec.json.decode(save_paused(paused), type=dict[str, object])["version"] == 3
    with pytest.raises(LocalProtocolError, match="cannot be saved"):
        save_paused(replace(paused, text="\ud800"))


@pytest.mark.parametrize("key", [b"", "", "hunter2", 0])
async def test_an_invalid_key_is_refused_where_it_is_given(key: Any) -> None:
    """An empty one comes from a variable that is not set, and would seal nothing."""
    _, paused = await paused_at_three()
    for use in (lambda: save_paused(paused, key=key), lambda: load_paused(b"{}", key=key)):
        with pytest.raises(ConfigurationError, match=r"key is .*os\.environ") as caught:
            use()
        assert "hunter2" not in str(caught.value)


async def test_values_that_are_not_decisions_are_refused() -> None:
    worker, paused = await paused_at_three()
    first = paused.pending[0].id
    nonsense: dict[str, Decision] = {first: "yes"}  # type: ignore[dict-item]
    with pytest.raises(LocalProtocolError, match=r"give Approve\(\)"):
        worker.resume(decisions=nonsense)
    with pytest.raises(LocalProtocolError, match="no pending call has the id 'zzz'"):
        worker.resume(decisions={"zzz": Approve()})
    edited: JsonObject = {"text": 3}
    result = await worker.resume(decisions={call.id: Approve(input=edited) for call in paused.pending})
    assert all(r.is_error for r in result.conversation.messages[2].tool_results)


async def test_messages_may_be_added_behind_the_results() -> None:
    worker, paused = await paused_at_three()
    every: dict[str, Decision] = {call.id: Approve() for call in paused.pending}
    result = await worker.resume(decisions=every, add=[Message.user("and hurry")])
    roles = [(m.role, bool(m.tool_results)) for m in result.conversation.messages]
    assert roles == [("user", False), ("assistant", False), ("user", True), ("user", False), ("assistant", False)]


@pytest.mark.parametrize("way", ["another state", "in place"])
async def test_a_call_that_was_changed_other_than_by_its_decision_is_refused(way: str) -> None:
    worker, paused = await paused_at_three()
    first = paused.pending[0]
    if way == "in place":
        assert isinstance(first.input, dict)
        first.input["text"] = "z"
    else:
        changed = replace(first, input={"text": "z"})
        calls = (replace(paused.pause.calls[0], call=changed), *paused.pause.calls[1:])
        paused = replace(paused, pause=replace(paused.pause, calls=calls))
    with pytest.raises(LocalProtocolError, match="was changed since the run paused"):
        worker.resume(paused)
    assert RAN == []


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"paused": "x"}, "paused is a str"),
        ({"decisions": 5}, "decisions is"),
        ({"decisions": "yes"}, "decisions is"),
        ({"add": ["hurry"]}, "a message of add is a str"),
        ({"add": 5}, "add is 5"),
    ],
)
async def test_what_a_run_cannot_be_resumed_with_is_refused_at_once(given: dict[str, Any], complaint: str) -> None:
    worker, _ = await paused_at_three()
    with pytest.raises(ConfigurationError, match=complaint):
        worker.resume(**given)
    assert isinstance(await worker.resume(), Paused)


@pytest.mark.unlogged
async def test_only_one_of_several_processes_has_a_saved_run() -> None:
    _, paused = await paused_at_three()
    taken: set[str] = set()

    def claim(run_id: str) -> bool:
        is_first = run_id not in taken
        taken.add(run_id)
        return is_first

    data = save_paused(paused)
    every: dict[str, Decision] = {call.id: Approve() for call in paused.pending}
    here, there = worker_of("done"), worker_of("done")
    await here.resume(load_paused(data), decisions=every, claim=claim)
    with pytest.raises(LocalProtocolError, match="resumed by another process"):
        there.resume(load_paused(data), decisions=every, claim=claim)
    assert len(RAN) == 3


async def test_a_run_that_was_left_for_another_is_not_resumed_later() -> None:
    worker = worker_of(CALLS, "something else")
    paused = await pause_of(worker.run("go"))
    await worker.run("never mind")
    with pytest.raises(LocalProtocolError, match="another run has begun since"):
        worker.resume(paused)
    assert RAN == []


async def test_plain_json_of_a_paused_run_is_bound_to_its_arguments_too() -> None:
    _, paused = await paused_at_three()
    data = msgspec.json.encode(paused)
    whole = msgspec.json.decode(data, type=Paused[None])
    changed = msgspec.json.decode(data.replace(b'"input":{"text":"a"}', b'"input":{"text":"z"}'), type=Paused[None])
    with pytest.raises(LocalProtocolError, match="was changed since the run paused"):
        worker_of("done").resume(changed)
    every: dict[str, Decision] = {call.id: Approve() for call in whole.pending}
    assert (await worker_of("done").resume(whole, decisions=every)).text == "done"


async def test_two_calls_of_one_id_are_distinguished_by_their_place() -> None:
    twins = Reply(tool_calls=(Call("note", {"text": "a"}, "x"), Call("note", {"text": "b"}, "x")))
    worker = worker_of(twins, "done")
    first = await pause_of(worker.run("go"))
    second = await pause_of(worker.resume())
    assert (first.pause.at, second.pause.at) == (0, 1)
    result = await worker.resume()
    assert [r.text for r in result.conversation.messages[2].tool_results] == ["noted a", "noted b"]


@pytest.mark.unlogged
@pytest.mark.parametrize("answer", [None, 1, "yes", "false", [True], object()])
async def test_a_claim_is_true_or_false(answer: Any) -> None:
    """What a function of the program returns by mistake does not permit a call."""
    worker, paused = await paused_at_three()

    async def claim(_: str) -> bool:
        return False

    with pytest.raises(ConfigurationError, match="claim returned"):
        worker.resume(paused, claim=lambda _: answer)
    with pytest.raises(ConfigurationError, match="not a coroutine function"):
        worker.resume(paused, claim=claim)  # pyright: ignore[reportArgumentType]
    assert RAN == []
