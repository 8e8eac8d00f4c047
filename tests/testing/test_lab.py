"""Stored runs again, against candidates."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from reactivex import operators as ops

from rxworker import (
    Limits,
    Paused,
    Worker,
    after_tool_call,
    before_tool_call,
    on_message_send,
    on_turn_end,
    tool,
    worker_tool,
)
from rxworker.errors import ConfigurationError, RxWorkerError
from rxworker.events import (
    Annotation,
    AttemptRetract,
    AttemptStart,
    BlockStart,
    ConversationCompact,
    Event,
    MessageAdd,
    Question,
    Record,
    RunStart,
    RunStop,
    TextDelta,
    ToolStart,
    ToolStop,
    ToolUseMetadata,
)
from rxworker.hooks import (
    Abort,
    ContinueWithMessages,
    MessageSendContext,
    Pause,
    Skip,
    ToolCallContext,
    ToolResultContext,
    TurnEndContext,
)
from rxworker.log import EventLog, MemoryLog, import_run, open_log
from rxworker.messages import Conversation, Message, Prices, ToolCall, ToolMeta, ToolResult
from rxworker.tap import RunBuilder
from rxworker.testing import Call, Reply, ScriptedModel, call, fail, say, think
from rxworker.testing.lab import LabRun, Outcome, rerun, stored_runs
from rxworker.testing.reply import reply_events
from rxworker.tools import ClientTool, ToolContext
from rxworker.tools.base import Effect
from rxworker.transport import Retry
from rxworker.worker import Budget, Compact, call_tools, respond
from tests.log import golden
from tests.tap import test_sources
from tests.whole import IS_WHOLE

MODEL = ScriptedModel([])
"""The model of candidates, which must get no request."""
TWICE = [think("Hm.", "seal") + say("Let me see.") + call("look", n=1), call("look", n=2), say("It is a cat.")]


@tool
async def look(n: int) -> str:
    """Look."""
    seen.append(n)
    return f"saw {n}"


seen: list[int] = []
"""The calls that were really made."""


async def store(*replies: Reply | str, text: Any = "Hi", **options: Any) -> LabRun:
    given: dict[str, Any] = {"tools": [look], **options}
    async with MemoryLog() as log:
        with suppress(RxWorkerError):
            await Worker(ScriptedModel(replies, name="acme", model="large"), log=log, **given).run(text)
        [stored] = await LabRun.read(log)
    seen.clear()
    return stored


async def again(stored: LabRun, **options: Any) -> Outcome:
    given: dict[str, Any] = {"tools": [look], **options}
    outcome = await rerun(stored, Worker(MODEL, **given))
    assert seen == MODEL.requests == []
    return outcome


def n_of(context: ToolCallContext) -> int:
    assert isinstance(context.tool_args, dict)
    found = context.tool_args["n"]
    assert isinstance(found, int)
    return found


def refuse_input(message: Message) -> Message:
    raise ValueError(message.text)


@before_tool_call
def other_arguments(context: ToolCallContext) -> None:
    assert isinstance(context.tool_args, dict)
    context.tool_args["n"] = n_of(context) + 1


@before_tool_call
def deny(context: ToolCallContext) -> Skip | None:
    return Skip("Not twice.") if n_of(context) == 2 else None


@before_tool_call
def refuse_all(context: ToolCallContext) -> Abort:
    return Abort("Never.")


@before_tool_call
def ask_first(context: ToolCallContext) -> Pause:
    return Pause("May it?")


@after_tool_call
def mask(context: ToolResultContext) -> None:
    context.set_content(context.result.text.replace("saw", "***"))


@on_message_send
def remind(context: MessageSendContext) -> None:
    context.add_message("Be kind.", "system")


@on_message_send
def edit(context: MessageSendContext) -> None:
    context.messages = [*context.messages, Message.user("Only now.")]


@on_turn_end
def once_more(context: TurnEndContext) -> ContinueWithMessages | None:
    return None if context.turn > 3 else ContinueWithMessages.user("Are you sure?")


@before_tool_call
async def wait_for_go(context: ToolCallContext) -> None:
    await context.until(signal="go")


@on_turn_end
async def wait_for_ever(context: TurnEndContext) -> None:
    await context.until(4e9)


@on_turn_end
def check_first(context: TurnEndContext) -> Pause:
    return Pause("May it end?")


@on_turn_end
async def wait(context: TurnEndContext) -> None:
    await asyncio.sleep(300)


@tool(name="look")
async def look_better(n: int) -> str:
    """Look closely."""
    return f"saw {n}"


@tool
async def pay(n: int) -> str:
    """Pay."""
    return "paid"


class Answer(Struct):
    word: str


Case = tuple[dict[str, Any], dict[str, Any], str]
"""The options of the stored worker, those of the candidate, and a part of the outcome."""
CASES: dict[str, Case] = {
    "same": ({}, {}, "same"),
    "same hooks": ({"hooks": [deny, once_more]}, {"hooks": [deny, once_more]}, "same"),
    "another prompt": (
        {"system": "Be brief."},
        {"system": "Be kind."},
        "at record 1: it was the system prompt 'Be brief.'; it is now the system prompt 'Be kind.'",
    ),
    "no prompt": ({"system": "Be brief."}, {}, "it is now no system prompt"),
    "another beginning": (
        {},
        {"conversation": Conversation((Message.user("1"), Message.assistant("2")))},
        "it was the conversation user: Hi; it is now the conversation user: 1 | assistant: 2 | user: Hi",
    ),
    "one tool more": ({}, {"tools": [look, pay]}, "at record 3: it was the tools look; it is now the tools look, pay"),
    "one tool less": ({}, {"tools": []}, "it was the tools look; it is now no tools"),
    "another description": ({}, {"tools": [look_better]}, "the tools look (with another description or parameters)"),
    "other arguments": ({}, {"hooks": [other_arguments]}, "it was look(n=1); it is now look(n=2)"),
    "a call denied": (
        {},
        {"hooks": [deny]},
        "it was look(n=2); it is now the hook deny answers Skip at before_tool_call of look(n=2): Not twice.",
    ),
    "a call no longer denied": (
        {"hooks": [deny]},
        {},
        "answers Skip at before_tool_call of look(n=2): Not twice.; it is",
    ),
    "an end by a hook": ({}, {"hooks": [refuse_all]}, "answers Abort at before_tool_call of look(n=1): Never."),
    "a pause": ({}, {"hooks": [ask_first]}, "answers Pause at before_tool_call of look(n=1): May it?"),
    "the same pause": ({"hooks": [ask_first]}, {"hooks": [ask_first]}, "same"),
    "a pause no more": ({"hooks": [ask_first]}, {}, "answers Pause"),
    "a hook that waits for a signal": ({"hooks": [wait_for_go]}, {"hooks": [wait_for_go]}, "not rerun equal up to"),
    "a hook that waits for a moment": ({"hooks": [wait_for_ever]}, {"hooks": [wait_for_ever]}, "not rerun equal up to"),
    "a pause at the end": ({"hooks": [check_first]}, {"hooks": [check_first]}, "same"),
    "a result masked": ({}, {"hooks": [mask]}, "it was look: saw 1; it is now look: *** 1"),
    "the same mask": ({"hooks": [mask]}, {"hooks": [mask]}, "same"),
    "a mask no more": ({"hooks": [mask]}, {}, "not rerun equal up to record"),
    "a message added": ({}, {"hooks": [remind]}, "it is now remind adds system: Be kind."),
    "the same message added": ({"hooks": [remind]}, {"hooks": [remind]}, "same"),
    "a request edited": ({}, {"hooks": [edit]}, "not rerun equal, but edit changes single requests"),
    "the same request edited": (
        {"hooks": [edit]},
        {"hooks": [edit]},
        "not rerun equal, but edit changes single requests",
    ),
    "a difference beside an edit": ({}, {"hooks": [edit, deny]}, "differs at record"),
    "an answer sent back": ({}, {"hooks": [once_more]}, "it was the run finishes; it is now the hook once_more"),
    "a hook that waits": ({}, {"hooks": [wait]}, "same"),
    "a limit": ({}, {"limits": Limits(max_turns=1)}, "it is now the run ends (limit)"),
    "the same limit": ({"limits": Limits(max_turns=1)}, {"limits": Limits(max_turns=1)}, "same"),
    "a limit on an unknown cost": (
        {"limits": Limits(max_cost=1.0, prices=Prices(1.0, 1.0))},
        {"limits": Limits(max_cost=1.0, prices=Prices(1.0, 1.0))},
        "same",
    ),
    "the oldest turns left out": (
        {"compact": Compact(at=20, by="trim", keep=1)},
        {"compact": Compact(at=20, by="trim", keep=1)},
        "same",
    ),
    "an input refused": ({}, {"map_input": refuse_input}, "it is now an input refused"),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_candidate_is_compared_up_to_its_first_difference(name: str) -> None:
    before, now, expected = CASES[name]
    stored = await store(*TWICE, *["Yes."] * 3, **before)
    assert expected in str(await again(stored, **now))


async def test_attempts_that_were_retracted_are_left_out() -> None:
    half = say("half a sen") + call("look", n=7) + fail("Overloaded", "overloaded", retryable=True)
    stored = await store(half, *TWICE, response_retry=Retry(retries=1, first=0.0))
    assert (await again(stored)).same
    assert (await again(stored, system="Be brief.")).difference is not None


@pytest.mark.parametrize("retryable", [False, True])
async def test_a_run_that_failed_fails_again(retryable: bool) -> None:
    retry = Retry(retries=1, first=0.0)
    failing = say("half") + fail("Bad luck", "server", retryable=retryable)
    stored = await store(TWICE[0], failing, failing, response_retry=retry)
    assert (await again(stored, response_retry=retry)).same


async def test_a_hook_that_no_longer_fails_is_a_difference() -> None:
    """The log has no response for the request that follows: the error of that is none of the run."""

    @on_message_send
    def breaks(context: MessageSendContext) -> None:
        if context.turn == 2:
            raise ValueError("It broke.")

    stored = await store(*TWICE, hooks=[breaks])
    assert (await again(stored, hooks=[breaks])).same
    assert "it is now one more request to the model" in str(await again(stored))


async def test_a_run_that_was_put_back_is_one_run(log: MemoryLog) -> None:
    failing = Worker(ScriptedModel([TWICE[0], fail("Bad luck", "server", retryable=False)]), tools=[look], log=log)
    with suppress(RxWorkerError):
        await failing.run("Hi")
    run_id = (await LabRun.read(log))[0].run_id
    await log.requeue(run_id)
    await Worker(ScriptedModel(TWICE[1:]), tools=[look], log=log).recover(run_id)
    [stored] = await LabRun.read(log)
    seen.clear()
    assert (await again(stored)).same
    assert "the hook deny" in str(await again(stored, hooks=[deny]))


async def test_a_result_that_is_an_error_comes_again() -> None:
    @tool(name="look")
    async def blind(n: int) -> str:
        """Look."""
        raise ValueError("It is dark.")

    stored = await store(*TWICE, tools=[blind])
    result = stored.steps.calls[0].result
    assert result is not None
    assert result.is_error
    assert (await again(stored)).same

    @tool(name="look")
    async def pretend(n: int) -> str:
        """Look."""
        return result.text

    outcome = await rerun(stored, Worker(MODEL, tools=[pretend]), tools=["look"])
    assert str(outcome).count("look: failed: ") == 1


async def test_a_long_result_is_not_cut_twice() -> None:
    @tool(name="look", max_output=50)
    async def stare(n: int) -> str:
        """Look."""
        return "saw it " * 50

    stored = await store(*TWICE, tools=[stare])
    assert (await again(stored, tools=[stare])).same


async def test_an_early_call_that_a_pause_discards_is_left_out(log: MemoryLog) -> None:
    @tool(name="look", effect="pure")
    async def peek(n: int) -> str:
        """Look."""
        await asyncio.sleep(9)
        return f"saw {n}"

    @tool(requires_approval=True)
    async def buy() -> str:
        """Buy."""
        return "bought"

    model = ScriptedModel([call("look", n=1) + say("And so on.") + call("buy")], delay=0.001)
    await Worker(model, tools=[peek, buy], log=log).run("Hi")
    [stored] = await LabRun.read(log)
    assert any(isinstance(each.event, ToolStop) for each in stored.records)
    assert (await again(stored, tools=[peek, buy])).same


async def test_a_summary_of_the_model_comes_again(log: MemoryLog) -> None:
    replies = ["One. " * 20, call("look", n=1), "What was: one.", "Two.", "Three.", "Four."]
    compact = Compact(at=60, by="model", keep=1)
    worker = Worker(ScriptedModel(replies), tools=[look], compact=compact, log=log)
    await worker.run("Count. " * 20)
    await worker.run("Go on.")
    await worker.run("And?")
    _, stored, last = await LabRun.read(log)
    seen.clear()

    @on_message_send
    def note(context: MessageSendContext) -> None:
        lengths.append(len(context.messages))

    lengths: list[int] = []
    assert last.start is not None
    assert (await again(last, hooks=[note], compact=compact)).same
    assert lengths[0] < len(last.start.conversation.messages)
    assert any(isinstance(each.event, ConversationCompact) and each.event.replaced for each in stored.records)
    assert (await again(stored, compact=compact)).same
    assert (await again(stored)).status == "differs"


async def test_the_log_of_a_candidate_stays_as_it_is(log: MemoryLog) -> None:
    stored = await store(*TWICE)
    assert (await again(stored, log=log)).same
    assert await LabRun.read(log) == []


async def test_equal_calls_of_one_response_have_their_own_results() -> None:
    count = iter(range(9))

    @tool(name="look")
    async def counted(n: int) -> str:
        """Look."""
        return f"saw {next(count)}"

    stored = await store(call("look", n=1) + call("look", n=1), call("look", n=1), "Done.", tools=[counted])
    assert [c.result and c.result.text for c in stored.steps.calls] == ["saw 0", "saw 1", "saw 2"]
    assert (await again(stored)).same

    def real(number: int) -> Worker:
        calls = [Reply(tool_calls=(Call("look", {"n": 1}, id=f"id-{at}"),)) for at in range(number)]
        return Worker(ScriptedModel([*calls, "Done."]), tools=[look], hooks=[note])

    results: list[str] = []

    @after_tool_call
    def note(context: ToolResultContext) -> None:
        results.append(context.result.text)

    assert (await rerun(stored, real(3), model="real")).same
    assert results == ["saw 0", "saw 1", "saw 2"]
    outcome = await rerun(stored, real(4), model="real")
    assert "it was the run finishes; it is now look(n=1)" in str(outcome)


async def test_pure_tools_and_structured_output(log: MemoryLog) -> None:
    @tool(name="look", effect="pure")
    async def peek(n: int) -> str:
        """Look."""
        return f"saw {n}"

    model = ScriptedModel([TWICE[0], "No JSON", '{"word": 1}', '{"word": "cat"}'])
    await Worker(model, tools=[peek], log=log).run("Hi", output=Answer)
    [stored] = await LabRun.read(log)
    assert (await rerun(stored, Worker(MODEL, tools=[peek]))).same
    assert (await rerun(stored, Worker(MODEL, tools=[peek], hooks=[deny]))).same
    assert str(await rerun(stored, Worker(MODEL, tools=[peek], hooks=[refuse_all]))).count("answers Abort") == 1


async def test_a_run_inside_is_answered_from_the_log_and_its_tokens_count() -> None:
    def worker(log: EventLog | None, outer: Sequence[Reply | str], inner: Sequence[Reply | str]) -> Worker:
        scout = worker_tool(Worker(ScriptedModel(inner)), name="scout", description="Send a scout.")
        return Worker(ScriptedModel(outer, model="priced"), tools=[scout], limits=limits, log=log)

    limits = Limits(prices=Prices(1.0, 2.0))
    async with MemoryLog() as log:
        await worker(log, [call("scout", task="Go."), "All is well."], ["Nothing there."]).run("Hi")
        [stored] = await LabRun.read(log)
    outcome = await rerun(stored, worker(None, [], []))
    assert outcome.same, outcome
    assert outcome.before == outcome.after
    assert outcome.before.cost is None
    outcome = await rerun(stored, worker(None, [], ["Enemies!"]), tools=["scout"])
    assert "it was scout: Nothing there.; it is now scout: Enemies!" in str(outcome)


@pytest.mark.parametrize("when", ["turn", "end", "at once"])
async def test_what_was_sent_into_a_run_is_sent_again(when: Any, log: MemoryLog) -> None:
    worker = Worker(ScriptedModel([*TWICE, "Yes."]), log=log)

    @tool(name="look")
    async def interrupted(n: int) -> str:
        """Look."""
        if n == 1 and when != "at once":
            run.send("Hurry!", when)
        return f"saw {n}"

    worker.tools.add(interrupted)
    run = worker.run("Hi")
    if when == "at once":
        run.send("Hurry!")
    await run
    [stored] = await LabRun.read(log)
    assert [each.text for messages in stored.steps.sent.values() for each in messages] == ["Hurry!"]
    assert (await again(stored)).same
    assert "the hook deny" in str(await again(stored, hooks=[deny]))


@pytest.mark.parametrize("end", ["cut off", "cancelled", "client", "background", "question", "message"])
async def test_what_cannot_be_given_again_is_never_the_same(end: str, log: MemoryLog) -> None:
    replies = [TWICE[0], call("look", n=2) + call("look", n=1), "Done.", "Done."]
    worker = Worker(ScriptedModel(replies, delay=0.001 if end == "message" else 0.0), log=log)

    @tool(name="look", background=end == "background")
    async def hard(n: int, context: ToolContext) -> str:
        """Look."""
        if n == 2 and end == "cancelled":
            run.cancel()
            await asyncio.sleep(9)
        if n == 2 and end == "question":
            return str(context.ask(Question("look", "Where?")))
        return f"saw {n}"

    worker.tools.add(ClientTool(look.meta) if end == "client" else hard)
    run = worker.run("Hi")
    if end == "message":
        await run.events.pipe(ops.first(lambda event: isinstance(event, TextDelta)))
        run.send("Stop!", "now")
    with suppress(RxWorkerError):
        await run
    [stored] = await LabRun.read(log)
    if end == "cut off":
        middle = next(at for at, record in enumerate(stored.records) if isinstance(record.event, ToolStop)) + 4
        stored = LabRun(stored.run_id, stored.records[:middle])
    seen.clear()
    tools = [ClientTool(look.meta)] if end == "client" else [hard]
    outcome = await again(stored, tools=tools)
    assert outcome.status == "not rerun", outcome
    assert outcome.reason.startswith("equal up to record ")
    assert (await again(stored, tools=tools, system="Be brief.")).status == "differs"


async def test_a_run_that_begins_elsewhere_is_not_rerun() -> None:
    async with MemoryLog() as log:
        worker = Worker(ScriptedModel(TWICE), tools=[look], hooks=[ask_first], log=log)
        paused = await worker.run("Hi")
        assert isinstance(paused, Paused)
        await worker.resume(paused)
        first, second = await LabRun.read(log)
        seen.clear()
    assert (await again(first, hooks=[ask_first])).same
    assert first.run_id in (await again(second, hooks=[ask_first])).reason
    assert (await again(LabRun("run-1", ()))).reason
    assert (await again(LabRun("run-1", first.records[:1]))).reason == "the log has no response of its model"


async def test_a_forked_run_is_run_again(log: MemoryLog) -> None:
    stored = await Worker(ScriptedModel(TWICE), tools=[look], log=log).run("Hi")
    at = next(r.seq for r in (await LabRun.read(log))[0].records if isinstance(r.event, MessageAdd))
    await Worker(ScriptedModel(["It is a dog."]), tools=[look], log=log).session.fork(stored.run_id, at)
    seen.clear()
    for each in await LabRun.read(log):
        assert (await again(each)).same


async def test_the_state_that_is_shared_at_the_beginning_is_that_of_the_run() -> None:
    @before_tool_call
    def deny_in(context: ToolCallContext) -> Skip | None:
        assert context.shared is not None
        return Skip("Closed.") if context.shared.value == "closed" else None

    stored = await store(*TWICE, hooks=[deny_in], shared_state="closed")
    assert (await again(stored, hooks=[deny_in])).same


async def test_what_a_person_always_allows_pauses_no_candidate(log: MemoryLog) -> None:
    session = Worker(ScriptedModel(TWICE), tools=[look], hooks=[ask_first], log=log).new_session()
    await session.allow("look", "ask_first")
    assert not isinstance(await session.run("Hi"), Paused)
    [stored] = await LabRun.read(log)
    seen.clear()
    assert (await again(stored, hooks=[ask_first])).same


@pytest.mark.parametrize("name", sorted(folder.name for folder in golden.GOLDEN.iterdir() if folder.is_dir()))
async def test_logs_of_every_format_are_run_again(name: str) -> None:
    candidate = golden.worker(MemoryLog(), "")
    outcomes: dict[str, list[str]] = {}
    for file in sorted((golden.GOLDEN / name).glob("*.jsonl")):
        async with MemoryLog() as log:
            await import_run(log, file.read_bytes().splitlines())
            for stored in await LabRun.read(log):
                outcomes.setdefault(stored.labels["case"], []).append((await rerun(stored, candidate)).status)
    same = {case for case, statuses in outcomes.items() if statuses[0] == "same"}
    assert same == {"call", "turn", "several", "resumed", "resumed and cut"}
    assert not any("differs" in statuses for statuses in outcomes.values())


def foreign(*events: Event) -> LabRun:
    return LabRun("theirs", [Record(at, "theirs", 1, 1, 0.0, each) for at, each in enumerate(events, 1)])


async def test_a_run_of_another_library_can_be_the_golden_one() -> None:
    """It knows neither tools nor hooks, has no turns, and shows a call only by its result."""
    question = Conversation((Message.user("Hi"),))
    first, last = reply_events(TWICE[0], 1, "large"), reply_events(say("A cat."), 2, "large")
    of_blocks = [each.metadata for each in first if isinstance(each, BlockStart)]
    [made] = [each.id for each in of_blocks if isinstance(each, ToolUseMetadata)]
    result = MessageAdd((Message("user", (ToolResult(made, "saw 1"),)),), "tools")
    begin = RunStart(question), AttemptStart("acme", "large")
    built = RunBuilder("theirs")
    built.start("Hi")
    built.call("call-1", "look", {"n": 1})
    built.tool_stop("call-1", "saw 1")
    built.text("A cat.")
    built.end()
    shown = [ToolStart(ToolCall(made, "look", {"n": 1})), ToolStop(ToolResult(made, "saw 1"))]
    for events in (
        [each.event for each in built.take()],
        *([*begin, *first, *between, AttemptStart("acme", "large"), *last, RunStop()] for between in ([result], shown)),
    ):
        stored = foreign(*events)
        assert (await again(stored)).same
        assert (await again(stored, system="Be kind.", tools=[look, pay])).same
        assert "Not twice" not in str(await again(stored, hooks=[deny]))
        assert "it is now look: *** 1" in str(await again(stored, hooks=[mask]))
    stored = foreign(*begin, *first, AttemptStart("acme", "large"), *last, RunStop())
    assert "the log has no result of look(n=1)" in (await again(stored)).reason
    attempt = AttemptStart("acme", "large")
    stored = foreign(*begin, *last, AttemptRetract("refused"), attempt, *first, result, attempt, *last, RunStop())
    assert (await again(stored)).same
    sent = MessageAdd((Message.user("And?"),), "send")
    stored = foreign(begin[0], sent, attempt, *last, RunStop())
    assert (await again(stored)).reason == "messages were sent to it before its first request"
    stored = foreign(*begin, *last, sent, attempt, *last, RunStop())
    assert (await again(stored)).same
    stored = foreign(*begin[:1], ConversationCompact(by="model"), attempt, *last, RunStop())
    assert (await again(stored)).reason == "equal up to record 2: a summary of its conversation failed"


class Stub:
    """A tool that must not run."""

    def __init__(self, name: str) -> None:
        self.meta = ToolMeta(name, "", {"type": "object"})

    async def execute(self, input_json: str | bytes, context: ToolContext, /) -> str:
        raise AssertionError(input_json)


LIKE_OURS = {
    *("langgraph-tools", "langgraph-whole", "langgraph-retried", "langgraph-nested"),
    *("openai_agents-tools", "openai_agents-handed_off", "openai_agents-nested", "openai_agents-hosted"),
    *("pydantic_ai-tools", "pydantic_ai-hosted"),
}
"""The recordings of libraries that our loop can repeat."""


def of_libraries() -> list[Any]:
    names = {each.partition("-")[0] for each in LIKE_OURS}
    return [each for each in test_sources.recordings() if each.values[0].name in names]


@pytest.mark.parametrize("recorded", of_libraries())
async def test_a_tapped_run_is_the_same_or_not_rerun(recorded: test_sources.Recorded) -> None:
    run = await test_sources.tapped(recorded)
    stored = LabRun(run.id, test_sources.records(run))
    tools = [Stub(name) for name in {each.call.name for each in stored.steps.calls}]
    start = stored.start
    system = None if start is None else start.conversation.system
    worker = Worker(MODEL, tools=tools, system=system)
    outcome = await rerun(stored, worker)
    if outcome.difference is None:
        assert outcome.same == (f"{recorded.name}-{recorded.case}" in LIKE_OURS), outcome
    else:  # no tool of the candidate needs approval
        assert outcome.difference.before.startswith("the run pauses at divide")


async def test_the_real_model_is_compared_by_calls_and_answers() -> None:
    stored = await store(*TWICE)

    async def real(*replies: Reply | str, **options: Any) -> Outcome:
        return await rerun(stored, Worker(ScriptedModel(replies), tools=[look]), model="real", **options)

    assert (await real(call("look", n=1), call("look", n=2), say("It is a cat."))).same
    assert "it was the answer 'It is a cat.'; it is now the answer 'It is a dog.'" in str(
        await real(call("look", n=1) + call("look", n=2), say("It is a dog."))
    )
    assert "it was look(n=2); it is now look(n=3)" in str(await real(call("look", n=1), call("look", n=3), "?"))
    assert "it was look(n=1); it is now the run finishes" in str(await real("No idea."))
    assert seen == []
    assert "look(n=3)" in str(await real(call("look", n=3), "?", tools="real"))
    assert seen == [3]
    denied = await rerun(stored, Worker(ScriptedModel(TWICE), tools=[look], hooks=[deny]), model="real")
    assert "it was look(n=2); it is now look(n=2) is not run" in str(denied)


async def test_a_budget_ends_the_real_requests() -> None:
    stored = await store(*TWICE)
    budget = Budget(max_tokens=20)
    model = ScriptedModel(TWICE * 3)
    outcomes = [await rerun(stored, Worker(model, tools=[look]), model="real", budget=budget) for _ in range(3)]
    assert [each.status for each in outcomes] == ["not rerun"] * 3
    assert outcomes[0].reason == "the budget is used up: max_tokens is 20"
    assert outcomes[0].after is not None
    assert outcomes[2].after is None
    assert len(model.requests) == 2
    other = await rerun(stored, Worker(ScriptedModel(["No."])), model="real", budget=Budget(max_tokens=10))
    assert other.status == "differs"
    with pytest.raises(ConfigurationError, match="prices"):
        await rerun(stored, Worker(model), model="real", budget=Budget(max_cost=1.0))


async def test_costs_that_are_not_known_are_not_nought() -> None:
    unknown, known = await store("Hello."), await store("Hello.", limits=Limits(prices=Prices(1.0, 2.0)))
    outcome = await again(unknown)
    assert (outcome.before.cost, outcome.before.input_tokens) == (None, 10)
    outcome = await again(known)
    assert outcome.before.cost == pytest.approx(2e-5)
    assert outcome.before == outcome.after

    class Priced(ScriptedModel):
        prices = Prices(1.0, 2.0)

    assert (await rerun(unknown, Worker(Priced([]), tools=[look], limits=Limits(max_cost=1.0)))).same


async def test_stages_that_the_log_cannot_answer_are_refused() -> None:
    stored = await store(*TWICE)
    for stage in (call_tools, respond):
        with pytest.raises(ConfigurationError, match="stage"):
            await again(stored, stages={stage.__name__: stage})
    with pytest.raises(ConfigurationError, match="it has: look"):
        await rerun(stored, Worker(MODEL, tools=[look]), tools=["fly"])
    with pytest.raises(ConfigurationError, match="give a Worker"):
        await rerun(stored, lambda: "no worker")  # pyright: ignore[reportArgumentType]


async def test_tools_that_hooks_call_or_add_are_not_run() -> None:
    @before_tool_call
    async def look_first(context: ToolCallContext) -> None:
        assert context.call_tool is not None
        await context.call_tool("look", {"n": 1})

    @on_message_send
    def add_tool(context: MessageSendContext) -> None:
        if context.toolbox is not None and "pay" not in context.toolbox:
            context.toolbox.add(pay)

    stored = await store(*TWICE)
    assert str(await again(stored, hooks=[look_first])).count("not rerun a hook calls look") == 1
    assert "it is now the tools look, pay" in str(await again(stored, hooks=[add_tool]))


async def test_secrets_and_labels_are_in_no_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_API_KEY", "sk-0123456789abcdef")
    stored = await store(*TWICE, system="Use sk-0123456789abcdef.", labels={"tenant": "secretive"})
    outcome = await again(stored)
    assert "Use ***." in str(outcome)
    assert "secretive" not in repr(outcome)


@pytest.mark.parametrize("seed", range(50 if IS_WHOLE else 20))
async def test_a_random_run_is_the_same_with_the_same_worker(seed: int) -> None:
    rng = random.Random(seed)

    def piece() -> Reply:
        pieces = [say("Hm."), think("So."), call("look", n=rng.randrange(3)), call("fly"), call("sum_up", n="x")]
        return rng.choice(pieces)

    replies: list[Reply | str] = []
    for _ in range(rng.randrange(1, 8)):
        reply = piece()
        for _ in range(rng.randrange(3)):
            reply = reply + piece()
        if rng.random() < 0.2:
            replies.append(say("half") + fail("Overloaded", "overloaded", retryable=True))
        replies.append(reply)
    replies.append("Done.")
    effects: list[Effect] = ["pure", "idempotent"]
    effect = rng.choice(effects)

    @tool(effect=effect, retries=rng.randrange(2))
    async def sum_up(n: int) -> int:
        """Sum up."""
        return n

    @tool(name="look", effect=effect)
    async def unreliable(n: int) -> str:
        """Look."""
        if rng.random() < 0.3:
            raise ValueError("It is dark.")
        await asyncio.sleep(0)
        return f"saw {rng.random()}" * rng.choice([1, 10])

    hooks = rng.sample([mask, remind, once_more], rng.randrange(4))
    retry = Retry(retries=3, first=0.0)
    options: dict[str, Any] = {"tools": [sum_up, unreliable], "hooks": hooks, "response_retry": retry, "system": "Be."}
    stored = await store(*replies, *["Yes."] * 9, **options)
    outcome = await again(stored, **options)
    assert outcome.same, outcome
    if calls := [each.call for each in stored.steps.calls if each.call.name != "fly"]:  # no hook runs for that
        made = rng.choice(calls)

        @before_tool_call
        def deny_one(context: ToolCallContext) -> Skip | None:
            return Skip("Not this.") if (context.tool_name, context.tool_args) == (made.name, made.input) else None

        outcome = await again(stored, **{**options, "hooks": [*hooks, deny_one]})
        assert "it is now the hook deny_one answers Skip" in str(outcome)


def test_runs_are_parameters_of_a_test(tmp_path: Path) -> None:
    address = f"sqlite:{tmp_path / 'runs.db'}"
    with pytest.raises(ConfigurationError, match="there is no log"):
        stored_runs(address)

    async def fill() -> list[str]:
        async with open_log(address) as log:
            ids = [(await Worker(ScriptedModel(["Hello."]), log=log).run("Hi")).run_id for _ in range(3)]
            await log.annotate(ids[0], Annotation("golden", True))
            await log.annotate(ids[1], Annotation("golden", False))
        return ids

    ids = asyncio.run(fill())
    assert stored_runs(address).kwargs["ids"] == ids
    assert stored_runs(address, where="tag:golden").kwargs["ids"] == ids[:1]
    assert stored_runs(address, where=["tag:golden", "status=finished"]).kwargs["ids"] == ids[:1]
    for where in ("tag:silver", "status=failed"):
        with pytest.raises(ConfigurationError, match="no run"):
            stored_runs(address, where)
    with pytest.raises(ConfigurationError, match="no filter"):
        stored_runs(address, "colour=red")
