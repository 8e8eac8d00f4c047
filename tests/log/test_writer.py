"""The writer of a run: its states, and what becomes of those that wait for it when the log hangs or raises anything."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from itertools import product
from queue import Queue
from typing import Any, TypeVar

import pytest
from reactivex import operators as ops

from rxworker import Worker, tool
from rxworker.errors import LogError, RxWorkerError
from rxworker.events import (
    AttemptStart,
    BlockStop,
    BlockType,
    Event,
    Ping,
    Record,
    ResponseStatus,
    RunStart,
    RunStop,
    Status,
    TextDelta,
    TurnStart,
    TurnStop,
    Usage,
)
from rxworker.events.kinds import PASSING
from rxworker.log import Claim, EventLog, MemoryLog
from rxworker.log.format import records_of
from rxworker.log.leases import Heartbeat
from rxworker.log.store import Append
from rxworker.log.values import RunRow
from rxworker.log.writer import FOLLOWS, RunWriter, WriterState
from rxworker.messages import Conversation, Prices
from rxworker.resume.stored import row_of
from rxworker.state import fold_run
from rxworker.state.run import TOOL_STEPS, TURN_STEPS
from rxworker.testing import ScriptedModel, call
from rxworker.turn.journal import Journal
from tests.steps import run_stepped

T = TypeVar("T")

CALLS = ["_claim", "_append", "_release"]


class OddError(BaseException):
    """Derived from BaseException, as test frameworks and cancellation libraries do it."""


ERRORS: list[type[BaseException]] = [
    ValueError,
    OddError,
    SystemExit,
    KeyboardInterrupt,
    asyncio.CancelledError,
    GeneratorExit,
]


def replace_call(log: EventLog, name: str, before: Callable[[], Awaitable[object]], first: int = 0) -> None:
    """Await something before each call of a method of the store, from the one of this number on."""
    call: Callable[..., Any] = getattr(log, name)
    number = 0

    async def replaced(*args: Any) -> Any:
        nonlocal number
        number += 1
        if number > first:
            await before()
        return await call(*args)

    setattr(log, name, replaced)


async def steps() -> None:
    """Let the loop make so many steps that nothing that is ready is left."""
    for _ in range(30):
        await asyncio.sleep(0)


def complete(work: Coroutine[Any, Any, T]) -> tuple[T, list[BaseException]]:
    """Run a coroutine to its end, however often an interrupt leaves the loop meanwhile. Returns the interrupts too."""
    interrupts: list[BaseException] = []
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    while not task.done() and len(interrupts) < 3:
        try:
            loop.run_until_complete(task)
        except (KeyboardInterrupt, SystemExit) as raised:
            interrupts.append(raised)
    try:
        loop.run_until_complete(steps())
    except (KeyboardInterrupt, SystemExit) as raised:
        interrupts.append(raised)
    loop.close()
    return task.result(), interrupts


def writer_of(log: EventLog, run_id: str = "run-1", claim: Claim | None = None) -> RunWriter:
    writer = RunWriter(log, run_id, RunRow, {}, claim)
    writer.put(Record(1, run_id, 0, 0, 0.0, RunStart(Conversation())))
    return writer


@pytest.mark.parametrize("model", ["claude-opus-5-5", "mine"])
async def test_a_list_shows_the_figures_of_all_that_is_stored_and_deltas_write_none(model: str) -> None:
    log, journal, rows = MemoryLog(), Journal("run-1"), list[bool]()
    store = log._append

    async def append(given: Append) -> bool:
        rows.append(given.row is not None)
        return await store(given)

    log._append = append  # pyright: ignore[reportAttributeAccessIssue]
    journal.writer = writer = RunWriter(log, "run-1", lambda: row_of(journal.state, RunRow()), {})
    text, used = TextDelta(0, "Hi"), Usage(1_000, 1)
    emitted: list[Event] = [
        RunStart(Conversation()),
        TurnStart(),
        AttemptStart("anthropic", model=model),
        *(Status(ResponseStatus.STARTED), used, text, text, Usage(1_000, 300), text),
        *(Ping(), BlockStop(0, BlockType.TEXT), Status(ResponseStatus.COMPLETED)),
        *(TurnStop(), RunStop()),
    ]
    for event in emitted:
        journal.emit(event)
        await (writer.barrier() if writer.claim else writer.open())
        stored = records_of([entry async for entry in log.read("run-1")], "run-1")
        assert (await log.existing("run-1")).row == row_of(fold_run(stored), RunRow())
    assert rows == [type(event) not in (TextDelta, Ping) for event in emitted]
    assert PASSING.isdisjoint({*TURN_STEPS, *TOOL_STEPS, Usage, Status}), "no step of a run takes what writes no row"
    cost = (await log.existing("run-1")).row.cost
    assert cost is None if model == "mine" else cost == Prices(4.0, 20.0).cost(Usage(1_000, 300))


def test_every_state_can_end_and_those_that_have_ended_stay() -> None:
    assert FOLLOWS.keys() == {*WriterState}
    ends = {WriterState.CLOSED, WriterState.FAILED}
    for state in WriterState:
        reached, seen = {state}, set[WriterState]()
        while reached:
            seen |= reached
            reached = {after for each in reached for after in FOLLOWS[each]} - seen
        assert seen & ends
        assert (not FOLLOWS[state]) == (state in ends)


async def test_a_state_that_may_not_follow_is_refused() -> None:
    for state, after in product(WriterState, WriterState):
        if after not in FOLLOWS[state]:
            writer = writer_of(MemoryLog())
            writer.state = state
            with pytest.raises(AssertionError, match="->"):
                writer._enter(after)


async def test_a_writer_passes_through_its_states() -> None:
    log, release = MemoryLog(), asyncio.Event()
    replace_call(log, "_release", release.wait)
    writer = writer_of(log)
    states = [writer.state]
    opening = asyncio.ensure_future(writer.open())
    await asyncio.sleep(0)
    states.append(writer.state)
    await opening
    states.append(writer.state)
    closed = writer.close()
    states.append(writer.state)
    await steps()
    states.append(writer.state)
    assert not closed.done()
    release.set()
    await closed
    assert [*states, writer.state] == [state for state in WriterState if state is not WriterState.FAILED]


@pytest.mark.parametrize("call", CALLS)
async def test_who_waits_for_a_log_that_hangs_is_woken_when_it_is_given_up(call: str) -> None:
    log, release = MemoryLog(), asyncio.Event()
    replace_call(log, call, release.wait)
    writer = writer_of(log)
    opening = asyncio.ensure_future(writer.open())
    closed = writer.close()
    await steps()
    error = LogError("no answer")
    writer.give_up(error)
    assert closed.done()
    if call == "_release":
        assert (await opening, await closed) == (None, None), "all was stored"
        assert writer.state is WriterState.CLOSED
    else:
        assert await asyncio.gather(opening, closed, return_exceptions=True) == [error, error]
        assert writer.state is WriterState.FAILED
    assert not log.heartbeat.renews("run-1")
    release.set()
    await steps()
    info = await log.existing("run-1")
    assert (info.owner, writer._task) == ("", None), "a claim that comes late is released"


@pytest.mark.parametrize("call", CALLS)
async def test_a_log_that_hangs_does_not_hold_a_run_for_ever(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rxworker.run.driver.GRACE", 0.01)
    log, release = MemoryLog(), asyncio.Event()
    log.patience = 0.0
    replace_call(log, call, release.wait)
    run = Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
    if call == "_release":
        assert (await run).text == "Hello."
    else:
        run.cancel()
        with pytest.raises(LogError, match=r"not answered for 0\.01 s: the end of run-\w+ may not"):
            await run
    release.set()
    await steps()
    info = await log.existing(run.id)
    assert info.owner == ""


async def test_the_last_append_of_a_finished_run_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rxworker.run.driver.GRACE", 0.01)
    log, never = MemoryLog(), asyncio.Event()
    log.patience = 0.0
    replace_call(log, "_append", never.wait, first=1)
    run = Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
    with pytest.raises(LogError, match="not answered"):
        await run
    never.set()
    await asyncio.sleep(0)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(("call", "first"), [("_claim", 0), ("_append", 0), ("_append", 1), ("_release", 0)])
def test_whatever_a_store_raises_ends_the_run_with_an_error_and_nothing_else(
    call: str, first: int, error: type[BaseException]
) -> None:
    async def fail() -> None:
        raise error("on purpose")

    async def main() -> object:
        log = MemoryLog()
        replace_call(log, call, fail, first)
        run = Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
        records: list[Record] = []
        run.subscribe(records.append, lambda _: None)
        try:
            async with asyncio.timeout(60):
                result = await run
        except RxWorkerError as raised:
            return raised
        assert isinstance(records[-1].event, RunStop)
        return result.text

    outcome, interrupts = complete(main())
    if call == "_release":
        assert outcome == "Hello."
    else:
        assert isinstance(outcome, LogError)
    assert len(interrupts) == (error is KeyboardInterrupt), "it reaches the program, once"


def test_a_cancelled_call_is_made_again_and_counts_once() -> None:
    """The event loop closes while a claim or an append is made that the store completes all the same."""
    for name in CALLS:

        async def main(_: object, name: str = name) -> None:
            log = MemoryLog()
            done: Callable[..., Any] = getattr(log, name)
            has_cancelled = False

            async def cancelled(*args: Any) -> Any:
                nonlocal has_cancelled
                found = await done(*args)
                if not has_cancelled:
                    has_cancelled = True
                    asyncio.current_task().cancel()  # type: ignore[union-attr]  # pyright: ignore
                    await asyncio.sleep(0)
                return found

            setattr(log, name, cancelled)
            writer = writer_of(log)
            await writer.open()
            await writer.close()
            info = await log.existing("run-1")
            assert (info.epoch, info.last_seq, info.owner) == (1, 1, "")

        run_stepped(main)


async def test_a_claim_that_another_run_of_this_process_holds_is_not_taken_for_its_own() -> None:
    log = MemoryLog()
    first = writer_of(log)
    await first.open()
    started = asyncio.Event()

    async def wait() -> None:
        if not started.is_set():
            started.set()
            await asyncio.Event().wait()

    replace_call(log, "_claim", wait)
    second = writer_of(log)
    opening = asyncio.ensure_future(second.open())
    await started.wait()
    assert second._task is not None
    second._task.cancel()
    with pytest.raises(LogError, match=r"already|holds"):
        await opening
    await first.close()


@tool
async def wait() -> str:
    """Wait."""
    await steps()
    return "waited"


class FailingCodec:
    """A codec that raises once, when it encodes or decodes for the time of this number."""

    def __init__(self, error: type[BaseException], way: str, first: int) -> None:
        self._error, self._way, self._left = error, way, first

    def fail_next(self) -> None:
        self._left = 0

    def _pass(self, way: str, data: bytes) -> bytes:
        if way == self._way:
            self._left -= 1
            if self._left == -1:
                raise self._error("on purpose")
        return data

    def encode(self, data: bytes, run_id: str) -> bytes:
        return self._pass("encode", data)

    def decode(self, data: bytes, run_id: str) -> bytes:
        return self._pass("decode", data)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(("way", "first"), [("encode", n) for n in range(4)] + [("decode", 0)])
def test_whatever_a_codec_raises_ends_no_more_than_the_run(way: str, first: int, error: type[BaseException]) -> None:
    async def main() -> object:
        log = MemoryLog(codec=FailingCodec(error, way, first))
        run = Worker(ScriptedModel([call("wait"), *["Hello."] * 3]), tools=[wait], log=log).run("Hi")
        sent = run.send("And you?")
        try:
            async with asyncio.timeout(60):
                result: object = (await run).text
        except RxWorkerError as raised:
            result = raised
        await steps()
        assert sent.done()
        return result

    outcome, interrupts = complete(main())
    assert isinstance(outcome, LogError | str)
    assert outcome == "Hello." or way == "encode"
    assert [type(each) for each in interrupts] == [KeyboardInterrupt] * (error is KeyboardInterrupt)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("point", ["traceparent", "call"])
def test_whatever_tracing_raises_does_not_affect_the_run(point: str, error: type[BaseException]) -> None:
    class Tracing:
        def traceparent(self) -> str:
            if point == "traceparent":
                raise error("on purpose")
            return ""

        def __call__(self, run: object, /) -> None:
            if point == "call":
                raise error("on purpose")

    async def main() -> object:
        try:
            run = Worker(ScriptedModel(["Hello."]), tracing=Tracing()).run("Hi")
        except KeyboardInterrupt:
            return "interrupted before there is a run"
        try:
            return (await run).text
        except RxWorkerError as raised:
            return str(raised)

    outcome, interrupts = complete(main())
    if error is not KeyboardInterrupt:
        assert (outcome, interrupts) == ("Hello.", [])
    elif point == "call":
        assert outcome == "the run was cancelled: KeyboardInterrupt: on purpose"
        assert len(interrupts) == 1


def test_the_heartbeat_outlives_whatever_a_store_raises() -> None:
    renewed = threading.Event()
    raised: list[BaseException] = []

    def renew(claims: Sequence[Claim]) -> Sequence[str]:
        if len(raised) < len(ERRORS):
            raised.append(ERRORS[len(raised)]("on purpose"))
            raise raised[-1]
        renewed.set()
        return []

    heartbeat = Heartbeat(renew, 0.001)
    heartbeat.add(Claim("run-1", 1, 0, "me"), lambda: None)
    assert renewed.wait(5)
    heartbeat.close()
    assert [type(each) for each in raised] == ERRORS


def test_the_heartbeat_keeps_no_thread_without_a_claim_and_begins_again_with_the_next() -> None:
    """A thread would keep a log that is never closed."""
    renewed: Queue[tuple[threading.Thread, Sequence[Claim]]] = Queue()

    def renew(claims: Sequence[Claim]) -> Sequence[str]:
        renewed.put((threading.current_thread(), claims))
        return []

    heartbeat = Heartbeat(renew, 0.001)
    for epoch in (1, 2):
        claim = Claim("run-1", epoch, 0, "me")
        heartbeat.add(claim, lambda: None)
        thread, claims = renewed.get(timeout=60)
        heartbeat.remove("run-1")
        thread.join(60)
        assert not thread.is_alive()
        assert claims == [claim]
        renewed.queue.clear()


@pytest.mark.parametrize("error", ERRORS)
def test_whatever_a_codec_raises_is_an_error_of_the_log_for_its_readers(error: type[BaseException]) -> None:
    """An interrupt goes to the program."""

    async def main() -> list[object]:
        codec = FailingCodec(error, "decode", 10_000)
        log = MemoryLog(codec=codec)
        run = Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
        await run
        found: list[object] = []
        for read in (
            lambda: log.records(run.id).pipe(ops.to_list()),
            lambda: log.read(run.id).__anext__(),
            lambda: Worker(ScriptedModel([]), log=log).load(run.id),
        ):
            codec.fail_next()
            try:
                async with asyncio.timeout(60):
                    found.append(await read())
            except LogError as raised:
                found.append(raised)
        return found

    if error is not KeyboardInterrupt:
        found, interrupts = complete(main())
        assert ([type(each) for each in found], interrupts) == ([LogError] * 3, [])
