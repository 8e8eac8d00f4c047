"""A hook at a tool point ends a run well, or gives a call its result."""

from __future__ import annotations

from typing import Any

import pytest

from rxworker import Answer, Approve, Finished, Worker, after_tool_call, before_tool_call, on_turn_end, tool
from rxworker.errors import HookError, RunAbortedError
from rxworker.events import HookVerdict, RunStop, ToolOutput, ToolStart, ToolStop
from rxworker.hooks import Abort, Finish, Hook, Pause, ToolCallContext, ToolResultContext, chain
from rxworker.log import MemoryLog
from rxworker.messages import Image, Message, ToolMeta, validate
from rxworker.testing import Reply, ScriptedModel, call, lint, say
from rxworker.tools import ClientTool
from tests.log.processes import stored
from tests.log.test_recover import cut, singles
from tests.pauses import pause_of
from tests.runs import finish_of

RAN: list[str] = []


@pytest.fixture(autouse=True)
def forget() -> None:
    RAN.clear()


@tool
async def note(text: str) -> str:
    """Note."""
    RAN.append(text)
    return f"noted {text}"


@tool(effect="pure")
async def look(text: str) -> str:
    """Look."""
    RAN.append(text)
    return f"saw {text}"


page = ClientTool(ToolMeta("page", "Open a page.", {"type": "object"}))
CALLS = say("Let me see.") + call("note", text="a") + call("note", text="b") + call("note", text="c")
NOT_RUN = "This call was not run: stop has finished the run."


def finish_at(text: str, point: Any = before_tool_call, verdict: object = None) -> Hook[Any]:
    def stop(context: Any) -> Any:
        return (verdict or Finish(final=True)) if context.call.input == {"text": text} else None

    return point(stop)


async def run_with(*hooks: Hook[Any], calls: Reply = CALLS, **options: Any) -> tuple[Any, list[Any], ScriptedModel]:
    model = ScriptedModel([calls, "Done."])
    worker = Worker(model, tools=[note, look, page], hooks=hooks, **options)
    run = worker.run("Go.")
    records: list[Any] = []
    run.records.subscribe(records.append)
    result = await run
    assert lint([record.event for record in records]) == []
    assert validate(result.conversation) == []
    return result, [record.event for record in records], model


def results(result: Any) -> list[str]:
    return [r.text for m in result.conversation.messages for r in m.tool_results]


async def test_finish_before_a_call_runs_no_call_and_the_run_has_a_result() -> None:
    result, events, model = await run_with(finish_at("b"))
    assert isinstance(result, Finished)
    assert (result.text, RAN, len(model.requests)) == ("Let me see.", [], 1)
    assert results(result) == [NOT_RUN] * 3
    assert isinstance(events[-1], RunStop)
    assert not any(isinstance(event, ToolStart) for event in events)
    assert [e.verdict for e in events if isinstance(e, HookVerdict)] == ["Finish"]


async def test_finish_after_a_call_keeps_the_results_as_the_other_hooks_leave_them() -> None:
    @after_tool_call
    def mask(context: ToolResultContext) -> None:
        context.set_content(context.content.replace("noted", "***"))

    result, events, model = await run_with(finish_at("a", after_tool_call), mask)
    assert isinstance(result, Finished)
    assert (RAN, len(model.requests)) == (["a", "b", "c"], 1)
    assert results(result) == ["*** a", "*** b", "*** c"]
    shown = [e.result for e in events if isinstance(e, ToolOutput | ToolStop) and e.result]
    assert [r.text for r in shown] == ["*** a", "*** b", "*** c"]


async def test_a_later_hook_may_still_abort_or_withhold() -> None:
    @after_tool_call
    def abort(context: ToolResultContext) -> Abort:
        return Abort("secret")

    @after_tool_call(on_failure="skip")
    def fail(context: ToolResultContext) -> None:
        raise OSError

    with pytest.raises(RunAbortedError, match="secret"):
        await run_with(finish_at("a", after_tool_call), abort)
    result, _, model = await run_with(finish_at("a", after_tool_call), fail)
    assert all("withheld" in text for text in results(result))
    assert len(model.requests) == 1


@pytest.mark.parametrize("point", [before_tool_call, after_tool_call])
async def test_a_chain_finishes_the_run_too_and_the_end_of_the_turn_is_not_checked(point: Any) -> None:
    checked: list[object] = []

    @on_turn_end
    def check(context: Any) -> None:
        checked.append(context)

    made = chain(finish_at("a", point), finish_at("b", point), name="both")
    result, events, _ = await run_with(made, check)
    assert isinstance(result, Finished)
    assert checked == []
    verdicts = [(e.hook, e.verdict) for e in events if isinstance(e, HookVerdict)]
    assert verdicts[0] == ("both/stop", "Finish")


@pytest.mark.parametrize("point", [before_tool_call, after_tool_call])
async def test_finish_that_is_not_final_is_a_mistake_there(point: Any) -> None:
    with pytest.raises(HookError, match="answered Finish\\(\\), which is Finish\\(final=True\\)"):
        await run_with(finish_at("a", point, Finish()))


@pytest.mark.parametrize("point", [before_tool_call, after_tool_call])
async def test_a_run_that_must_return_a_value_cannot_finish_without_it(point: Any) -> None:
    model = ScriptedModel([CALLS, "3"])
    worker = Worker(model, tools=[note], hooks=[finish_at("a", point)])
    with pytest.raises(HookError, match="no value of its output type yet: use Abort"):
        await worker.run("Go.", output=int)


@pytest.mark.parametrize(
    ("hook", "calls", "expected"),
    [
        # A pure call that has started keeps its result.
        (finish_at("b").replace(matcher="note"), call("look", text="a") + call("note", text="b"), ["saw a", NOT_RUN]),
        # The calls of a client do not wait when a result finishes the run.
        (finish_at("a", after_tool_call), call("page") + call("note", text="a"), [NOT_RUN, "noted a"]),
    ],
)
async def test_what_has_not_started_is_not_run(hook: Hook[Any], calls: Reply, expected: list[str]) -> None:
    result, events, _ = await run_with(hook, calls=calls)
    assert isinstance(result, Finished)
    assert results(result) == expected
    assert sorted(event.place for event in events if isinstance(event, ToolStop)) == [0, 1]


async def test_the_calls_that_wait_are_not_run_when_the_answer_of_a_person_finishes_the_run() -> None:
    def wait(context: ToolCallContext) -> Pause | None:
        return Pause("may it?") if context.call.input == {"text": "a"} else None

    def stop(context: ToolResultContext) -> Finish:
        return Finish(final=True)

    model = ScriptedModel([call("note", text="a") + call("note", text="b")])
    worker = Worker(model, tools=[note], hooks=[before_tool_call(wait), after_tool_call(stop)])
    paused = await pause_of(worker.run("go"))
    first, second = paused.pending
    await finish_of(worker.resume(decisions={first.id: Answer("known"), second.id: Approve()}))
    assert RAN == []
    texts = [each.text for each in worker.session.conversation.messages[-1].tool_results]
    assert texts == ["known", "This call was not run: stop has finished the run."]


async def test_messages_that_were_sent_meanwhile_are_answered_as_at_any_end() -> None:
    model = ScriptedModel([CALLS, "Hello."])
    worker = Worker(model, tools=[note])

    @before_tool_call
    def stop(context: ToolCallContext) -> Finish:
        run.send("And this?")
        return Finish(final=True)

    worker.hooks.add(stop)
    run = worker.run("Go.")
    assert (await run).text == "Hello."
    assert model.requests[1].conversation.messages[-1] == Message.user("And this?")


@pytest.mark.parametrize("point", [before_tool_call, after_tool_call])
async def test_a_run_that_a_hook_has_finished_stays_finished_wherever_its_process_ends(point: Any) -> None:
    log = MemoryLog()
    model = ScriptedModel([CALLS, "Done."])
    run = Worker(model, tools=[note], hooks=[finish_at("b", point)], log=log).run("Go.")
    await run
    entries = singles([entry async for entry in log.read(run.id)], run.id)
    begin = next(n for n, entry in enumerate(entries, 1) if entry.kind == "hook_verdict")
    for length in range(begin, len(entries)):
        again = await cut(run.id, entries[:length])
        other = ScriptedModel(["Go on."])
        # The hook is not there any more: its verdict is in the log.
        result = await Worker(other, tools=[note], log=again).recover(run.id)
        assert isinstance(result, Finished), length
        assert (result.text, other.requests) == ("Let me see.", []), length
        assert len(results(result)) == 3, length
        assert [r.seq for r in await stored(again, run.id)][-1] > length


async def test_a_hook_gives_a_call_its_result_and_the_others_run() -> None:
    @after_tool_call
    def mark(context: ToolResultContext) -> None:
        context.set_content(f"[{context.call.input}] {context.content}")

    result, events, model = await run_with(finish_at("b", verdict=Answer("cached b")), mark)
    assert RAN == ["a", "c"]
    assert results(result) == ["[{'text': 'a'}] noted a", "[{'text': 'b'}] cached b", "[{'text': 'c'}] noted c"]
    assert len(model.requests) == 2
    sent = model.requests[1].conversation.messages[-1].tool_results
    assert [r.is_error for r in sent] == [False] * 3
    assert [e.verdict for e in events if isinstance(e, HookVerdict)] == ["Answer"]
    assert [e.place for e in events if isinstance(e, ToolStart)] == [0, 2]
    assert sorted(e.place for e in events if isinstance(e, ToolStop)) == [0, 1, 2]


async def test_an_answer_may_be_an_error_blocks_or_what_a_tool_may_return() -> None:
    for content, is_error, text in (
        ("no", True, "no"),
        ((Image(url="https://example.org/a.png"),), False, ""),
        ({"celsius": 21}, False, '{"celsius":21}'),
        ("half \ud83d", False, "half ?"),
    ):
        verdict: Any = Answer(content, is_error)  # pyright: ignore[reportArgumentType]
        result, _, _ = await run_with(finish_at("b", verdict=verdict))
        answer = result.conversation.messages[2].tool_results[1]
        assert (answer.text, answer.is_error, answer.name) == (text, is_error, "note")
    with pytest.raises(HookError, match="hook 'stop' answered a object, which has no JSON form"):
        await run_with(finish_at("b", verdict=Answer(object())))  # pyright: ignore[reportArgumentType]


async def test_an_answer_survives_a_pause_and_the_hooks_for_its_result_run_once() -> None:
    seen: list[str] = []

    @after_tool_call
    def once(context: ToolResultContext) -> None:
        seen.append(context.content)

    @before_tool_call(name="ask")
    def ask(context: ToolCallContext) -> Pause | None:
        return Pause() if context.input["text"] == "c" else None

    model = ScriptedModel([CALLS, "Done."])
    worker = Worker(model, tools=[note], hooks=[finish_at("b", verdict=Answer("known")), ask, once])
    paused = await pause_of(worker.run("Go."))
    assert [waiting.input for waiting in paused.pending] == [{"text": "a"}, {"text": "c"}]
    result = await worker.resume(decisions={paused.pending[1].id: Approve()})
    assert results(result) == ["noted a", "known", "noted c"]
    assert seen == ["known", "noted a", "noted c"]


async def test_an_answer_needs_no_approval_and_no_client() -> None:
    @tool(requires_approval=True)
    async def pay(euros: int) -> str:
        """Pay."""
        RAN.append("paid")
        return "paid"

    @before_tool_call
    def known(context: ToolCallContext) -> Answer:
        return Answer(f"known {context.call.name}")

    model = ScriptedModel([call("pay", euros=1) + call("page"), "Done."])
    result = await finish_of(Worker(model, tools=[pay, page], hooks=[known]).run("Go."))
    assert (results(result), RAN) == (["known pay", "known page"], [])


async def test_a_result_is_cached_and_found_again() -> None:
    """The use that the verdict was made for."""

    class Cache:
        def __init__(self) -> None:
            self.known: dict[str, str] = {}

        def before_tool_call(self, context: ToolCallContext) -> Answer | None:
            found = self.known.get(str(context.input))
            return None if found is None else Answer(found)

        def after_tool_call(self, context: ToolResultContext) -> None:
            if not context.result.is_error:
                self.known[str(context.tool_args)] = context.content

    model = ScriptedModel([call("note", text="a"), call("note", text="a"), "Done."])
    result = await Worker(model, tools=[note], hooks=[Cache()]).run("Go.")
    assert (results(result), RAN) == (["noted a"] * 2, ["a"])
