"""Requests that grow too long are sent in a shorter form.

Once for each compaction, whatever ends the run, and the conversation stays whole.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, cast

import pytest
import reactivex
from msgspec import Struct
from msgspec.structs import replace
from reactivex import Observable
from reactivex import operators as ops
from reactivex.scheduler.eventloop import AsyncIOScheduler

from rxworker import Finished, Limits, Paused, Run, Worker, on_message_send, tool, worker_tool
from rxworker.errors import (
    ConfigurationError,
    LimitExceededError,
    ProviderError,
    RunCancelledError,
    RunHandedOverError,
    RxWorkerError,
)
from rxworker.events import (
    BlockStart,
    BlockStop,
    BlockType,
    ConversationCompact,
    Error,
    Record,
    ResponseEvent,
    ToolUseMetadata,
)
from rxworker.events.block import ToolResultMetadata
from rxworker.hooks import Cancel, MessageSendContext
from rxworker.log import MemoryLog
from rxworker.messages import (
    Conversation,
    Message,
    ServerToolCall,
    ServerToolResult,
    StopKind,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    estimate,
    from_json,
    to_json,
    turns,
    validate,
)
from rxworker.messages.usage import Prices, Usage
from rxworker.providers import Anthropic, Gemini, ModelInfo, OpenAIChat, OpenAIResponses, Options, Request
from rxworker.providers.base import Provider, ToolChoice
from rxworker.providers.cache_use import CacheUse, step_cache
from rxworker.testing import Call, Reply, ScriptedModel, call, lint, say
from rxworker.transport import Client, Retry, fallback
from rxworker.worker import Compact, load_paused, save_paused
from tests.integration.test_control_at_every_step import CONTROLS, Act, Seen, name_this_task
from tests.log.processes import stored
from tests.log.test_recover import cut, singles
from tests.steps import SteppedLoop, run_stepped
from tests.whole import IS_WHOLE

PROMPT = "Sum it up."
STRIDE = 1 if IS_WHOLE else 4
"""The distance of the steps at which a run is stopped."""
ROUNDS = 20


@tool(effect="idempotent")
async def look(place: str) -> str:
    """Look at a place."""
    await asyncio.sleep(0)
    return f"{place}: " + "grass " * 120


def is_for_summary(request: Request) -> bool:
    return request.conversation.messages[-1].text == PROMPT


def size_of(request: Request) -> int:
    return sum(map(estimate, request.conversation.messages))


class Looking:
    """A model that looks at one place after the other, and counts tokens as the estimate does.

    Args:
        rounds: How many answers have calls.
        summary: How it answers a request for a summary.
        counts: Whether it reports its tokens.
    """

    def __init__(self, rounds: int = ROUNDS, summary: Reply | None = None, *, counts: bool = True) -> None:
        self.rounds, self.summary, self.counts = rounds, summary or say("Grass."), counts
        self.name, self.model = "looking", "looking"
        self.scripted = ScriptedModel(self.answer, name=self.name)
        self.requests = self.scripted.requests

    def stream(self, request: Request) -> Observable[ResponseEvent]:
        """Each event in a step of the event loop."""
        clock = AsyncIOScheduler(asyncio.get_running_loop())
        return self.scripted.stream(request).pipe(ops.observe_on(clock))

    def answer(self, request: Request) -> Reply:
        usage = Usage(size_of(request), 10) if self.counts else None
        if is_for_summary(request):
            return replace(self.summary, usage=usage)
        # The number of calls so far is in the ids, whatever the request has of them.
        done = [c.id for m in request.conversation.messages for c in m.tool_calls]
        number = int(done[-1].split("-")[0]) + 1 if done else 0
        if number >= self.rounds:
            return replace(say("I have seen it all."), usage=usage)
        calls = [Call("look", {"place": f"{number}{x}"}, f"{number}-{x}") for x in "ab"]
        return Reply("", f"Thought {number}.", tuple(calls), usage=usage, chunk=99, signature="seal")

    @property
    def summaries(self) -> list[Request]:
        return [each for each in self.requests if is_for_summary(each)]

    @property
    def others(self) -> list[Request]:
        return [each for each in self.requests if not is_for_summary(each)]

    def worker(self, by: str = "model", at: float = 2_000, **named: Any) -> Worker:
        prompt = {"prompt": PROMPT} if by == "model" else {}
        compact: Any = Compact(at=at, by=by, **prompt)  # type: ignore[arg-type]
        return Worker(self, tools=[look], compact=compact, **named)


def compactions(records: Sequence[Record]) -> list[ConversationCompact]:
    return [each.event for each in records if isinstance(each.event, ConversationCompact)]


async def recorded(run: Run[object]) -> list[Record]:
    return [record async for record in run]


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("by", ["model", "trim"])
async def test_a_long_loop_stays_below_its_size_and_its_conversation_whole(by: str, counts: bool) -> None:
    whole = Looking(counts=counts)
    await Worker(whole, tools=[look]).run("Look around.")
    model = Looking(counts=counts)
    run = model.worker(by, system="Be exact.").run("Look around.")
    made = compactions(await recorded(run))
    assert len(made) in range(3, 9)
    assert len(model.summaries) == (len(made) if by == "model" else 0)
    conversation = (await run).conversation
    assert conversation.messages[:-1] == whole.requests[-1].conversation.messages
    for request in model.requests:
        assert validate(request.conversation) == []
        assert request.conversation.messages[0].text == "Look around."
        assert request.conversation.system == "Be exact."
        assert size_of(request) < 2_500
    assert max(map(size_of, whole.requests)) > 5_000
    # Each request begins with the one before, except after a compaction: that many cache misses.
    breaks = [
        now
        for before, now in pairwise(model.others)
        if now.conversation.messages[: len(before.conversation.messages)] != before.conversation.messages
    ]
    assert len(breaks) == len(made)
    for request in model.summaries:
        before = next(
            each
            for each in model.others
            if each.conversation.messages[: len(request.conversation.messages) - 1]
            == request.conversation.messages[:-1]
        )
        assert (request.tools, request.conversation.system) == (before.tools, "Be exact.")


SEALED: dict[str, tuple[Provider, str, Callable[[int], Message]]] = {
    "anthropic": (
        Anthropic("claude-opus-4-6", api_key="k"),
        "messages",
        lambda n: Message.assistant(Thinking("hm", f"seal {n}"), *two_calls(n)),
    ),
    "responses": (
        OpenAIResponses("gpt-5.4", api_key="k"),
        "input",
        lambda n: Message.assistant(
            Thinking(
                "",
                echo={
                    "output_index": 0,
                    "item": {"type": "reasoning", "id": f"rs_{n}", "summary": [], "encrypted_content": f"seal {n}"},
                },
            ),
            *two_calls(n),
        ),
    ),
    "gemini": (
        Gemini("gemini-3.8-flash", api_key="k"),
        "contents",
        lambda n: Message.assistant(*two_calls(n, {"thoughtSignature": f"seal {n}"})),
    ),
}


def two_calls(number: int, echo: Any = None) -> tuple[ToolCall, ToolCall]:
    first, second = (ToolCall(f"{number}-{x}", "look", {"place": x}) for x in "ab")
    return replace(first, echo=echo), second


def sealed(name: str, conversation: Conversation) -> Conversation:
    """The conversation as if this provider had answered."""
    provider, _, answer = SEALED[name]
    messages = [
        replace(answer(int(m.tool_calls[0].id.split("-")[0])), provider=provider.name) if m.tool_calls else m
        for m in conversation.messages
    ]
    return conversation.with_messages(messages)


@pytest.mark.parametrize("name", SEALED)
async def test_a_compaction_is_one_miss_of_the_cache_and_keeps_the_seals_of_what_stays(name: str) -> None:
    provider, place, _ = SEALED[name]
    model = Looking()
    run = model.worker(system="Be exact.").run("Look around.")
    made = compactions(await recorded(run))
    whole = sealed(name, (await run).conversation)

    def items(conversation: Conversation) -> list[Any]:
        return json.loads(provider.request(conversation, (look.meta,), Options()).body)[place]

    use, misses = CacheUse(), 0
    for number, request in enumerate(model.others):
        sent = sealed(name, request.conversation)
        use = step_cache(use, provider.request(sent, (look.meta,), Options(cache="auto")))
        misses += use.change is not None
        full = items(whole.with_messages(whole.messages[: 2 * number + 1]))
        rounds = [m for m in sent.messages if m.tool_calls or m.tool_results]
        tail = len(items(Conversation((Message.user("x"), *rounds)))) - 1
        assert items(sent)[-tail:] == full[-tail:] or not rounds
        assert json.dumps(items(sent)).count("seal ") == len(rounds) // 2
    assert misses == len(made) >= 3


async def test_a_summary_reads_the_cache_of_the_requests_before_it() -> None:
    model = Looking()
    options = Options(cache="auto", tool_choice=ToolChoice("auto"), thinking="low")
    await model.worker(options=options, system="Be exact.").run("Look around.")
    assert len(model.summaries) > 2
    for request in model.summaries:
        *before, last = request.conversation.messages
        assert last == Message.user(PROMPT)
        assert any(
            list(each.conversation.messages) == before and each.options == request.options for each in model.others
        )


@pytest.mark.parametrize("by", ["model", "trim"])
async def test_a_process_that_recovers_a_run_at_any_record_pays_no_summary_twice(by: str) -> None:
    first = Looking(14)
    async with MemoryLog() as log:
        run = first.worker(by, log=log).run("Look around.")
        await run
        entries, whole = [entry async for entry in log.read(run.id)], await stored(log, run.id)
    every = singles(entries, run.id)
    made = [n for n, entry in enumerate(every) if entry.kind == "conversation_compact"]
    assert len(made) >= 2
    places = {0, *(n + d for n in made for d in (-1, 0, 1, 2)), *range(1, len(every) - 1, 20)}
    for length in sorted(places):
        log = await cut(run.id, every[: length + 1])
        again = Looking(14)
        result = await again.worker(by, log=log).recover(run.id)
        assert isinstance(result, Finished)
        assert result.conversation == (await run).conversation
        known = [n for n in made if n <= length]
        assert len(again.summaries) == (len(made) - len(known) if by == "model" else 0)
        # The request that is sent first is the one that the first process sent there.
        sent = [each.conversation for each in first.others]
        assert [each.conversation for each in again.others] == sent[len(sent) - len(again.others) :]
        assert compactions(await stored(log, run.id)) == compactions(whole)


@pytest.mark.parametrize("control", ["cancel", "cancel its task", "hand over", "pause"])
def test_a_run_may_be_stopped_at_every_step_of_a_compaction(control: str) -> None:
    act: Act = CONTROLS[control]

    async def every(loop: SteppedLoop) -> tuple[int, int]:
        name_this_task()
        step = cut_short = 0
        while True:
            log, model = MemoryLog(), Looking(2)
            run = model.worker(at=200, log=log).run("Look around.")
            seen, is_in_time = Seen(run), False

            def do(run: Run[object] = run) -> None:
                nonlocal is_in_time
                is_in_time = not run.done()
                act(run)

            loop.at(step, do)
            outcome = await seen.outcome()
            assert lint(seen.observed, complete=not isinstance(outcome, RunHandedOverError)) == []
            if await log.info(run.id) is not None:
                assert await stored(log, run.id) == seen.observed
            conversation = run.state.conversation
            if not isinstance(outcome, RunHandedOverError | Paused):
                assert validate(conversation) == validate(conversation.sent) == []
            known = sum(each.replaced > 0 for each in compactions(seen.observed))
            cut_short += len(model.summaries) > known
            if isinstance(outcome, RunHandedOverError):
                model.requests.clear()
                assert isinstance(await model.worker(at=200, log=log).recover(run.id), Finished)
                assert len(model.summaries) == 1 - known
            elif isinstance(outcome, Paused):
                again = Looking(2)
                data = save_paused(cast("Paused[None]", outcome))
                await again.worker(at=200).resume(load_paused(data))
                assert len(again.summaries) == 1 - known
            if not is_in_time:
                return step, cut_short
            step += STRIDE
            assert step < 300

    steps, cut_short = run_stepped(every)
    assert steps > 30
    assert (cut_short > 3 // STRIDE) is (control != "pause")


async def test_a_compaction_is_stored_before_the_request_that_it_is_for() -> None:
    async with MemoryLog() as log:
        kinds: list[list[str]] = []

        class Reading(Looking):
            def stream(self, request: Request) -> Observable[ResponseEvent]:
                async def read() -> None:
                    kinds.append([entry.kind async for entry in log.read(run.id)])

                def then(_: None) -> Observable[ResponseEvent]:
                    return super(Reading, self).stream(request)

                return reactivex.from_future(asyncio.ensure_future(read())).pipe(ops.flat_map(then))

        model = Reading(9)
        run = model.worker(log=log).run("Look around.")
        made = compactions(await recorded(run))
    stored = [
        each.count("conversation_compact")
        for each, request in zip(kinds, model.requests, strict=True)
        if len(request.conversation.messages) > 1 and request.conversation.messages[1] in made[0].instead
    ]
    assert stored[0] == 1


async def test_a_cancelled_summary_counts() -> None:
    model = Looking(9, summary=replace(say("Grass."), stalls=True))

    def stop(event: object) -> None:
        if isinstance(event, Usage) and model.summaries:
            run.cancel()

    run = model.worker(operators=[ops.do_action(stop)]).run("Look around.")
    with pytest.raises(RunCancelledError):
        await run
    assert run.state.usage.input_tokens == sum(map(size_of, model.requests))
    assert run.state.usage.is_partial
    assert run.state.conversation.replaced == 0


async def test_the_next_run_of_a_session_a_resumed_one_and_a_fork_send_the_same_form() -> None:
    async with MemoryLog() as log:
        model = Looking(9)
        worker = model.worker(log=log)
        run = worker.run("Look around.")
        made = compactions(records := await recorded(run))
        model.requests.clear()
        model.rounds = 10
        # The first request of the next run carries what is left of the last one.
        await worker.run("And now?")
        assert model.requests[0].conversation.messages[: len(made[-1].instead)] == made[-1].instead
        assert from_json(to_json(worker.session.conversation)) == worker.session.conversation
        at = next(r.seq for r in records if r.event == made[0])
        forked = Looking(9)
        copy = await forked.worker(log=log).fork(run.id, at)
        assert copy.conversation == (await run).conversation
        assert len(forked.summaries) == len(made) - 1
        # A fork from before the compaction does not have it.
        early = worker.session.conversation.with_messages(worker.session.conversation.messages[: made[-1].replaced - 2])
        assert (early.replaced, early.instead) == (0, ())


async def test_a_worker_without_the_policy_sends_the_form_that_a_run_has() -> None:
    model = Looking(9)
    kept = (await model.worker().run("Look around.")).conversation
    assert kept.replaced
    plain = ScriptedModel(["Yes."])
    await Worker(plain, conversation=kept).run("Is that all?")
    sent = plain.requests[0].conversation
    assert sent.messages == (*kept.sent.messages, Message.user("Is that all?"))
    assert (sent.replaced, sent.instead) == (0, ())
    # So does one with another system text.
    await Worker(plain := ScriptedModel(["Yes."]), conversation=kept, system="Be brief.").run("So?")
    sent = plain.requests[0].conversation
    assert (sent.system, sent.messages[:-1]) == ("Be brief.", kept.sent.messages)


async def test_hooks_see_what_is_sent_and_what_they_change_is_sent() -> None:
    seen: list[int] = []

    @on_message_send
    def hide(context: MessageSendContext) -> None:
        seen.append(len(context.messages))
        context.messages = [
            Message(m.role, tuple(hidden(b) for b in m.content), m.provider, m.model) for m in context.messages
        ]

    def hidden(block: Any) -> Any:
        if isinstance(block, ToolResult):
            return replace(block, content=block.text.replace("grass", "*****"))
        return block

    model = Looking()
    conversation = (await model.worker(hooks=[hide]).run("Look around.")).conversation
    assert len(model.summaries) > 2
    assert seen == [len(each.conversation.messages) for each in model.requests]
    assert "grass" in str(conversation)
    assert "grass" not in str([each.conversation for each in model.requests])
    assert max(map(size_of, model.requests)) < 2_500


async def test_a_hook_may_refuse_the_request_for_a_summary() -> None:
    @on_message_send
    def refuse(context: MessageSendContext) -> Cancel | None:
        return Cancel("no summaries") if context.content == PROMPT else None

    model = Looking()
    with pytest.raises(RxWorkerError, match="no summaries"):
        await model.worker(hooks=[refuse]).run("Look around.")
    assert model.summaries == []


async def test_what_is_rewritten_for_good_is_in_no_form_that_was_made_before() -> None:
    model = Looking(7)
    worker = model.worker()
    await worker.run("Look around.")
    before = worker.session.conversation
    assert before.replaced

    @on_message_send
    def forget(context: MessageSendContext) -> None:
        context.rewrite_conversation(lambda m: Message.user("Look.") if m.text == "Look around." else m)

    worker.hooks.add(forget)
    model.requests.clear()
    model.rounds = 8
    await worker.run("And now?")
    after = worker.session.conversation
    # It changed the first request; the second one is of the whole conversation, and shortened again.
    assert len(model.summaries) == 1
    assert max(map(size_of, model.others)) < 2_500 < size_of(model.summaries[0])
    assert "Look around." not in str([each.conversation for each in model.requests])
    assert after.messages[0].text == "Look." == after.sent.messages[0].text


async def test_nested_runs_are_shortened_by_themselves_and_their_summaries_count() -> None:
    inner = Looking(14)
    ask = worker_tool(inner.worker(), name="ask", description="Ask.")
    outer = Worker(ScriptedModel([call("ask", task="Look around."), "So."]), tools=[ask])
    run = outer.run("Hi")
    records = await recorded(run)
    made = [r for r in records if isinstance(r.event, ConversationCompact)]
    assert len(made) >= 2
    assert all(r.path for r in made)
    assert run.state.conversation.replaced == 0
    used = sum(size_of(each) for each in inner.requests)
    assert run.state.usage.input_tokens == used + 20
    assert run.state.usage_by_model["looking"].input_tokens == used


async def test_summaries_count_for_the_limits_of_a_run() -> None:
    model = Looking()
    run = model.worker(limits=Limits(max_cost=1e9, prices=Prices(1, 1))).run("Look around.")
    await run
    used = sum(size_of(each) + 10 for each in model.requests)
    assert run.state.usage.total_tokens == used
    # A limit that the summary reaches ends the run before the request that it was written for.
    first = model.requests.index(model.summaries[0])
    most = sum(size_of(each) + 10 for each in model.requests[: first + 1])
    again = Looking()
    with pytest.raises(LimitExceededError):
        await again.worker(limits=Limits(max_tokens=most)).run("Look around.")
    assert len(again.requests) == first + 1


SUMMARIES: dict[str, tuple[list[Reply], int, str]] = {
    "a call": ([call("look", place="x"), say("Grass.")], 2, ""),
    "calls again and again": ([call("look", place="x"), call("look", place="x")], 2, "no summary"),
    "a failure in the middle": (
        [replace(say("Gra"), error=Error("overloaded_error", "busy", retryable=True)), say("Grass.")],
        2,
        "",
    ),
    "a refusal": ([say("I will not.", stop=StopKind.REFUSAL)], 1, "Refusal"),
    "cut off": ([say("Gra", stop=StopKind.MAX_TOKENS)], 1, "MaxTokens"),
    "nothing": ([say(" ")], 1, "no text"),
    "no shorter": ([say("Grass. " * 1_600)], 1, "too long"),
}


@pytest.mark.parametrize("case", SUMMARIES)
async def test_what_is_not_a_summary_is_requested_again_or_ends_the_run(case: str) -> None:
    replies, asked, error = SUMMARIES[case]
    model = Looking(9)

    def answer(request: Request) -> Reply:
        if is_for_summary(request):
            number = len(model.summaries) - 1
            return replace(replies[min(number, len(replies) - 1)], usage=Usage(7, 1))
        return Looking.answer(model, request)

    model.scripted = ScriptedModel(answer, name=model.name)
    model.requests = model.scripted.requests
    worker = model.worker(at=3_000, response_retry=Retry(first=0.0))
    run = worker.run("Look around.")
    if error:
        with pytest.raises(ProviderError, match=error):
            await run
        assert run.state.conversation.replaced == 0
        assert run.state.conversation.messages[0].text == "Look around."
    else:
        await run
    made = compactions([record async for record in run if True] if not error else [])
    assert len(model.summaries) == asked
    assert [each.usage.input_tokens for each in made] == ([] if error else [7 * asked])
    choices = [each.options.tool_choice for each in model.summaries]
    assert choices == [None, ToolChoice("none")][:asked] if "call" in case else set(choices) == {None}


async def test_a_summary_has_the_settings_of_the_run_but_none_that_shape_an_answer() -> None:
    class Sight(Struct):
        what: str

    model = Looking(9)
    model.answer = lambda request: Looking.answer(model, request)  # type: ignore[method-assign]
    options = Options(max_tokens=100, stop_sequences=("END",), tool_choice=ToolChoice("any"), temperature=0.5)
    run = model.worker(options=options, response_retry=Retry(retries=0)).run("Look around.", output=Sight)
    with pytest.raises(RxWorkerError):  # its answer is not a Sight
        await run
    (summary, *_) = model.summaries
    assert summary.options == Options(tool_choice=ToolChoice("none"), temperature=0.5)


async def test_a_stored_run_with_summaries_can_be_given_again() -> None:
    async with MemoryLog() as log:
        run = Looking(9).worker(log=log).run("Look around.")
        first = await run
        scripted = await ScriptedModel.from_log(log, run.id)
    worker = Worker(scripted, tools=[look], compact=Compact(at=2_000, prompt=PROMPT))
    assert (await worker.run("Look around.")).conversation.sent.messages == first.conversation.sent.messages


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"at": 0}, "at"),
        ({"at": 1.5}, "up to 1.0"),
        ({"at": True}, "at"),
        ({"at": float("nan")}, "at"),
        ({"keep": 0}, "keep"),
        ({"keep": -0.5}, "keep"),
        ({"keep": 4.0}, "whole number of turns"),
        ({"by": "models"}, "by"),
        ({"prompt": 3}, "prompt"),
        ({"by": "trim", "prompt": "x"}, "prompt"),
        ({"by": "provider", "keep": 4}, "keep"),
        ({"most": 4}, "most"),
    ],
)
def test_a_policy_that_means_nothing_is_refused(given: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        Compact(**given)


def test_a_share_needs_to_know_what_the_model_reads() -> None:
    known = Anthropic("claude-haiku-4-5", api_key="k")
    large = Anthropic("claude-sonnet-5-5", api_key="k")
    unknown = OpenAIChat("mine", base_url="http://127.0.0.1:1", api_key="k")
    assert Compact().tokens(Client(known)) == 160_000
    assert Compact(at=1.0).tokens(fallback(large, known)) == 200_000
    assert Compact(at=1).tokens(Client(unknown)) == 1
    known = OpenAIChat("mine", base_url="http://x", api_key="k", info=ModelInfo(context=10_000))
    assert Compact(at=0.5).tokens(Client(known)) == 5_000
    for model in (unknown, fallback(known, unknown), ScriptedModel(["x"])):
        with pytest.raises(ConfigurationError, match=r"at=100_000.*ModelInfo\(context"):
            Worker(model, compact=Compact())
    with pytest.raises(ConfigurationError, match="does not compact by itself"):
        Worker(unknown, compact=Compact(at=100_000, by="provider"))


async def test_a_compaction_that_is_worth_little_is_not_made() -> None:
    """Where the system text alone is too long, each request would otherwise pay a summary."""
    model = Looking(6, counts=False)
    compact = Compact(at=40_000, keep=1, prompt=PROMPT)
    worker = Worker(model, tools=[look], compact=compact, system="Be exact. " * 20_000)
    assert compactions(await recorded(worker.run("Look around."))) == model.summaries == []


class Searching(Looking):
    """A model that searches at its service before each answer, and counts again for each search what it has read."""

    def stream(self, request: Request) -> Observable[ResponseEvent]:
        def with_searches(event: ResponseEvent) -> Observable[ResponseEvent]:
            if not isinstance(event, Usage) or is_for_summary(request):
                return reactivex.of(event)
            searched = ToolUseMetadata("s", "web_search"), ToolResultMetadata("s", "web_search")
            kinds = BlockType.SERVER_TOOL_USE, BlockType.SERVER_TOOL_RESULT
            blocks: list[ResponseEvent] = []
            for at, (kind, about) in enumerate(zip(kinds, searched, strict=True), 50):
                blocks += [BlockStart(at, kind, about), BlockStop(at, kind)]
            counted = replace(event, input_tokens=4 * (event.input_tokens or 0))
            return reactivex.of(*blocks, counted)

        return super().stream(request).pipe(ops.flat_map(with_searches))


async def test_the_size_is_that_of_one_request_where_the_service_counts_several() -> None:
    """The tokens of the provider's own tools are the sum of what it has read for each."""
    searching = Searching(9)
    made = compactions(await recorded(searching.worker().run("Look around.")))
    assert len(made) == len(searching.summaries) > 0
    # Of 2,000 tokens, a quarter stays.
    assert min(map(size_of, searching.summaries)) > 1_300


async def test_as_many_turns_stay_as_are_to_be_kept() -> None:
    for keep, expected in ((1, 1), (3, 3), (1_000, 5)):
        model = Looking()
        compact = Compact(at=4_000, keep=keep, prompt=PROMPT)
        run = Worker(model, tools=[look], compact=compact).run("Look around.")
        made = compactions(await recorded(run))[0]
        first = next(r for r in model.others if r.conversation.messages[1:2] == made.instead[1:])
        kept = turns(Conversation(first.conversation.messages[len(made.instead) :]))
        assert len(kept) == expected, keep


def test_a_turn_ends_after_the_results_of_the_providers_own_tools() -> None:
    """A call of the provider's whose result comes in a later answer is parted from it nowhere."""
    messages = (
        Message.user("Go."),
        Message.assistant(ServerToolCall("s1", "code_execution"), ToolCall("1", "look", {})),
        Message.user(ToolResult("1", "x")),
        Message.assistant(ServerToolResult("s1"), Text("So."), ToolCall("2", "look", {})),
        Message.user(ToolResult("2", "x")),
        Message.assistant("Done."),
    )
    assert [len(turn) for turn in turns(Conversation(messages))] == [5, 1]


def test_the_short_form_lasts_as_long_as_the_messages_that_it_stands_for() -> None:
    one, two, three = (Message.user(each) for each in ("one", "two", "three"))
    short = Conversation((one, two), "s", replaced=1, instead=(three,))
    assert short.add(one).sent.messages == (three, two, one)
    assert short.with_messages((one, three)).sent.messages == (three, three)
    assert short.with_messages((two, two)) == Conversation((two, two), "s")
    assert short.with_messages(()) == Conversation((), "s")


def test_a_provider_that_compacts_is_sent_the_size() -> None:
    class Compacting(ScriptedModel):
        context, compacts = 200_000, True

    model = Compacting(["Hello.", "Hello."])
    worker = Worker(model, compact=Compact(at=0.5, by="provider"))
    worker.run_sync("Hi")
    worker.options = Options(compact_at=70_000)
    worker.run_sync("Hi")
    assert [each.options.compact_at for each in model.requests] == [100_000, 70_000]
