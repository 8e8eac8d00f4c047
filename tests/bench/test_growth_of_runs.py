"""Twice as much costs twice as much: the hub, runs, and the memory that is left of them. Work is counted, not timed."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Callable

import pytest
from reactivex import Observable
from reactivex import operators as ops

from rxworker import Limits, RunResult, Worker, tool, worker_tool
from rxworker.events import AttemptStart, Event, MessageAdd, Record, RunStart, TextDelta, ToolStart, ToolStop, TurnStart
from rxworker.hub import Coalesce, Delivery, DropOldest, Hub, Latest, Reliable, iterate
from rxworker.hub.history import TAIL
from rxworker.log import Fleet, MemoryLog, RunInfo
from rxworker.log.values import RunRow
from rxworker.messages import Conversation, Message, ToolCall, ToolResult
from rxworker.operators import merge_runs, text_deltas
from rxworker.providers import Anthropic, HttpRequest, OpenAIChat
from rxworker.state import fold_run
from rxworker.testing import Call, Reply, ScriptedModel, anthropic_frames, call, openai_chat_frames, say, think
from rxworker.testing.reply import reply_events
from rxworker.transport import Client, RecordingTransport
from tests.log.test_runs import store

Task = Callable[[], object]
AssertLinear = Callable[..., None]
MakeScript = Callable[[int], list[Reply | str]]

WORD = "word"


@tool
async def write(text: str) -> str:
    """Write a text."""
    return str(len(text))


@tool
async def look(at: str) -> str:
    """Look at something."""
    return at


def texts(n: int) -> list[Reply | str]:
    return [say(WORD * n)]


def thoughts(n: int) -> list[Reply | str]:
    return [think(WORD * n) + say("done")]


def arguments(n: int) -> list[Reply | str]:
    return [call("write", text=WORD * n), say("done")]


SCRIPTS = pytest.mark.parametrize("make", [texts, thoughts, arguments])


def worker_of(script: list[Reply | str]) -> Worker:
    return Worker(ScriptedModel(script), tools=[write, look])


# one run


@pytest.mark.parametrize("is_logged", [False, True])
def test_a_run_with_more_nested_runs(is_logged: bool, assert_linear: AssertLinear) -> None:
    """Each turn calls a worker, under one id."""

    def prepare(n: int) -> Task:
        asked = worker_tool(lambda: Worker(ScriptedModel(["Because."])), name="ask", description="Ask somebody.")
        asking = Reply(tool_calls=(Call("ask", {"task": "Why?"}, id="same"),))

        def run() -> object:
            model = ScriptedModel([*[asking] * n, "So."])
            log = MemoryLog() if is_logged else None
            limits = Limits(max_turns=None, max_repeats=None, max_tool_calls=None)
            return Worker(model, tools=[asked], log=log, limits=limits).run_sync("go")

        return run

    assert_linear(prepare, n=50)


@SCRIPTS
def test_a_run(make: MakeScript, assert_linear: AssertLinear) -> None:
    def prepare(n: int) -> Task:
        worker = worker_of(make(n))
        return lambda: worker.run_sync("Go on.")

    assert_linear(prepare)


@SCRIPTS
def test_a_run_whose_state_is_read_at_each_record(make: MakeScript, assert_linear: AssertLinear) -> None:
    def prepare(n: int) -> Task:
        worker = worker_of(make(n))

        async def watch() -> None:
            run = worker.run("Go on.")
            seen: list[int] = []

            def note(_: Record) -> None:
                seen.append(run.state.seq)

            run.subscribe(note)
            await run
            assert seen == sorted(seen)

        return lambda: asyncio.run(watch())

    assert_linear(prepare)


@SCRIPTS
def test_a_run_that_is_iterated(make: MakeScript, assert_linear: AssertLinear) -> None:
    def prepare(n: int) -> Task:
        worker = worker_of(make(n))

        async def watch() -> None:
            async for _ in worker.run("Go on."):
                pass

        return lambda: asyncio.run(watch())

    assert_linear(prepare)


def anthropic(text: str) -> Client:
    body = b"".join(anthropic_frames(say(text)))
    return Client(Anthropic("m", api_key="k"), transport=RecordingTransport(body, chunk=64))


def openai_chat(text: str) -> Client:
    body = b"".join(openai_chat_frames(say(text)))
    return Client(OpenAIChat("m", api_key="k"), transport=RecordingTransport(body, chunk=64))


@pytest.mark.parametrize("make", [anthropic, openai_chat])
def test_a_client_whose_bytes_are_cut_anywhere(make: Callable[[str], Client], assert_linear: AssertLinear) -> None:
    def prepare(n: int) -> Task:
        client = make(WORD * n)
        return lambda: client.stream("Go on.").pipe(text_deltas()).subscribe()

    assert_linear(prepare)


@pytest.mark.parametrize("has_places", [True, False])
def test_the_calls_of_one_response(has_places: bool, assert_linear: AssertLinear) -> None:
    """Folded from records: those of other versions and programs have no places, only ids."""

    def prepare(n: int) -> Task:
        calls = [ToolCall(f"call-{at}", "look", {}) for at in range(n)]
        results = [ToolResult(each.id, "seen", name="look") for each in calls]
        places = [at if has_places else -1 for at in range(n)]
        reply = Reply(tool_calls=tuple(Call("look", {}, id=each.id) for each in calls))
        events: list[Event] = [
            RunStart(Conversation((Message.user("Go on."),)), 1),
            *(TurnStart(), AttemptStart("scripted", "m")),
            *reply_events(reply),
            *map(ToolStart, calls, places),
            *(
                ToolStop(each, 0.1, each.tool_use_id, at)
                for each, at in zip(reversed(results), reversed(places), strict=True)
            ),
            MessageAdd((Message("user", tuple(results)),), "tools"),
        ]
        records = [Record(at, "r", 1, 1, 0.0, event) for at, event in enumerate(events, 1)]

        def fold() -> object:
            state = fold_run(records)
            assert (state.tool_calls, state.calls) == (n, ())
            return state

        return fold

    assert_linear(prepare)


# the hub and its watchers


def push(hub: Hub, items: int) -> None:
    for n in range(hub.last_seq + 1, hub.last_seq + items + 1):
        hub.push(Record(n, "r", 1, 1, 0.0, TextDelta(0, WORD)))


def hub_task(items: int, watchers: int, *, late: int = 0) -> Task:
    def work() -> None:
        seen: list[Record] = []
        hub = Hub()
        for _ in range(watchers):
            hub.subscribe(seen.append)
        push(hub, items)
        hub.end()
        for _ in range(late):
            hub.subscribe(seen.append)
        assert len(seen) == items * (watchers + late)

    return work


HUBS: dict[str, tuple[Callable[[int], Task], int]] = {
    "more records": (lambda n: hub_task(n, 5), 1024),
    "more watchers": (lambda n: hub_task(200, n), 20),
    "more watchers that come late": (lambda n: hub_task(200, 1, late=n), 20),
}


@pytest.mark.parametrize("name", HUBS)
def test_a_hub_with(name: str, assert_linear: AssertLinear) -> None:
    assert_linear(*HUBS[name])


DELIVERIES = pytest.mark.parametrize("delivery", [Reliable(), Coalesce(), Latest(), DropOldest(limit=16)], ids=str)


@DELIVERIES
def test_followers_of_a_hub_with_more_records(delivery: Delivery, assert_linear: AssertLinear) -> None:
    def prepare(n: int) -> Task:
        def work() -> None:
            hub = Hub()  # without an event loop nothing is deferred: each record is shown alone
            for _ in range(3):
                hub.watch(delivery).subscribe()
            push(hub, n)
            hub.end()

        return work

    assert_linear(prepare, 1024)


@DELIVERIES
def test_a_hub_with_more_followers(delivery: Delivery, assert_linear: AssertLinear) -> None:
    def prepare(n: int) -> Task:
        def work() -> None:
            hub = Hub()
            followers = [hub.watch(delivery).subscribe() for _ in range(n)]
            push(hub, 200)
            for follower in followers:
                follower.dispose()
            assert hub.watching == 0

        return work

    assert_linear(prepare, 20)


@DELIVERIES
def test_a_hub_that_is_read_by_several(delivery: Delivery, assert_linear: AssertLinear) -> None:
    def prepare(n: int) -> Task:
        async def share() -> None:
            hub = Hub()

            async def read() -> int:
                return sum([record.covers async for record in hub.watch(delivery)])

            readers = [asyncio.ensure_future(read()) for _ in range(3)]
            for _ in range(n):
                push(hub, 1)
                await asyncio.sleep(0)
            hub.end()
            assert await asyncio.gather(*readers) == [n, n, n]

        return lambda: asyncio.run(share())

    assert_linear(prepare)


@DELIVERIES
def test_reading_a_hub_late(delivery: Delivery, assert_linear: AssertLinear) -> None:
    def prepare(n: int) -> Task:
        hub = Hub()
        push(hub, n)
        hub.end()

        async def read() -> None:
            assert sum([record.covers async for record in hub.watch(delivery)]) == n

        return lambda: asyncio.run(read())

    assert_linear(prepare, 2048)


def test_iterating_an_observable(assert_linear: AssertLinear) -> None:
    def prepare(n: int) -> Task:
        hub = Hub()
        push(hub, n)
        hub.end()

        async def read(source: Observable[Record]) -> None:
            assert len([item async for item in iterate(source, limit=n)]) == n

        return lambda: asyncio.run(read(hub))

    assert_linear(prepare)


def test_a_hub_keeps_the_text_and_a_few_bytes_a_delta() -> None:
    def filled(n: int) -> Hub:
        hub = Hub()
        push(hub, n)
        return hub

    filled(10)
    few, many = kept(lambda: filled(2 * TAIL)), kept(lambda: filled(22 * TAIL))
    assert many - few < 20 * TAIL * (len(WORD) + 12 + 4)


# what is left


def kept(make: Callable[[], object]) -> int:
    """The bytes that are held by what is made."""
    gc.collect()
    tracemalloc.start()
    try:
        made = make()
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        del made
    finally:
        tracemalloc.stop()
    return held


def result_of(n: int) -> RunResult:
    worker = worker_of(texts(n))
    return worker.run_sync("Go on.")


def records_of(n: int) -> list[Record]:
    worker = worker_of(texts(n))

    async def watch() -> list[Record]:
        return [record async for record in worker.run("Go on.")]

    return asyncio.run(watch())


def conversation_of(n: int) -> Conversation:
    worker = worker_of([*texts(n), "And again."])
    worker.run_sync("Go on.")
    worker.run_sync("And again.")
    return worker.session.conversation


@pytest.mark.parametrize("make", [result_of, conversation_of])
def test_what_is_left_of_a_run_is_its_text(make: Callable[[int], object]) -> None:
    """Four times the text is more than enough; the pieces it came in would be twenty times."""
    make(10)
    few, many = kept(lambda: make(1_000)), kept(lambda: make(11_000))
    assert many - few < 4 * 10_000 * len(WORD)


def test_the_records_of_a_run_take_the_same_for_each_delta() -> None:
    records_of(10)
    once, twice = kept(lambda: records_of(2_000)), kept(lambda: records_of(4_000))
    assert twice < 2.2 * once
    assert (twice - once) / 2_000 < 1_000  # bytes by the delta


def test_a_worker_that_is_kept_does_not_keep_the_deltas_of_its_runs() -> None:
    workers: list[Worker] = []

    def run(n: int) -> None:
        workers.append(worker_of(texts(n)))
        workers[-1].run_sync("Go on.")

    run(10)
    few, many = kept(lambda: run(1_000)), kept(lambda: run(11_000))
    assert many - few < 4 * 10_000 * len(WORD)


def test_a_delta_is_small() -> None:
    """The most frequent object of all."""
    held = kept(lambda: [TextDelta(0, WORD) for _ in range(1_000)])
    assert held / 1_000 < 100


class InTurn:
    """A transport whose answers are these, one after the other."""

    def __init__(self, bodies: list[bytes]) -> None:
        self._transports = iter([RecordingTransport(body) for body in bodies])

    def send(self, request: HttpRequest) -> Observable[bytes]:
        """The next answer."""
        return next(self._transports).send(request)


async def watched_by_collector(rounds: int) -> int:
    """How many more objects the garbage collector watches after a run of so many rounds, while it is still held."""
    asked = [b"".join(anthropic_frames(call("look", at=str(n)) + call("write", text="a"))) for n in range(rounds)]
    said = b"".join(anthropic_frames(say("done")))
    client = Client(Anthropic("m", api_key="k"), transport=InTurn([*asked, said]))
    worker = Worker(client, tools=[write, look])
    gc.collect()
    gc.disable()
    try:
        before = gc.get_count()[0]
        run = worker.run("Go on.")
        await run
        return gc.get_count()[0] - before
    finally:
        gc.enable()


async def test_a_round_leaves_little_for_the_garbage_collector() -> None:
    """It searches each time that there are 700 more. Nothing of a response but its content is left when it is over."""
    await watched_by_collector(1)
    few, many = await watched_by_collector(2), await watched_by_collector(12)
    assert many - few < 10 * 30


def test_the_fold_of_all_runs(assert_linear: AssertLinear) -> None:
    def prepare(n: int) -> Task:
        infos = [RunInfo(f"run-{i}", RunRow("finished", turns=1), 1, 1, "", 0.0, i, i, 0, i, 0) for i in range(n)]

        def fold() -> None:
            fleet = Fleet()
            for info in infos:
                fleet.note(info)

        return fold

    assert_linear(prepare)


def test_the_records_of_all_stored_runs_as_one_stream(assert_linear: AssertLinear) -> None:
    def prepare(n: int) -> Task:
        async def main() -> None:
            async with MemoryLog() as log:
                for at in range(n):
                    await store(log, f"run-{at}")
                starts = merge_runs(log.runs()).pipe(ops.take(n), ops.count())
                assert await starts == n

        return lambda: asyncio.run(main())

    assert_linear(prepare, n=100)
