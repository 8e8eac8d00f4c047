"""Whatever is raised, wherever and whenever: everyone who waits is woken, and the others see everything."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
from reactivex import Observable, abc
from reactivex import operators as ops
from reactivex.disposable import Disposable

from rxworker import Run, Worker, after_tool_call, before_tool_call, on_abort, on_message_send, on_turn_end, tool
from rxworker.errors import ConfigurationError, RunCancelledError, RxWorkerError
from rxworker.events import (
    ConversationReplace,
    Record,
    ResponseEvent,
    RunAbort,
    RunStart,
    RunStop,
    TextDelta,
    ToolStop,
    WatcherDetach,
)
from rxworker.hooks.decorate import HookLike
from rxworker.messages import validate
from rxworker.providers import Request
from rxworker.testing import ScriptedModel, call, say
from rxworker.testing.reply import reply_events
from rxworker.timeline import TextBlockStart, TextBlockStop
from tests.runs import records_of, settle


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
MOMENTS = ["first", "middle", "last"]
POINTS: dict[str, Callable[..., HookLike]] = {
    "on_message_send": on_message_send,
    "before_tool_call": before_tool_call,
    "after_tool_call": after_tool_call,
    "on_turn_end": on_turn_end,
    "on_abort": on_abort,
}


@tool
async def look(where: str) -> str:
    return f"nothing {where}"


def model() -> ScriptedModel:
    first = say("Let me look.") + call("look", where="here") + call("look", where="there")
    return ScriptedModel([first, *["Nothing anywhere."] * 3])


class Scene:
    """A run with everything that may wait for it, and with one thing in it that raises."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error
        self.raised = 0
        self.left: list[BaseException] = []
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(self._unhandled)
        self.unhandled: list[dict[str, Any]] = []

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.unhandled.append(context)

    def fail(self) -> None:
        self.raised += 1
        raise self.error("on purpose")

    def complete(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run it to its end, however often an interrupt leaves the loop meanwhile."""
        task = self.loop.create_task(work)
        while True:
            try:
                return self.loop.run_until_complete(task)
            except (KeyboardInterrupt, SystemExit) as error:
                self.left.append(error)
                assert len(self.left) < 3
                assert not task.done()

    def play(
        self, worker: Worker, watch: Callable[[Run[object]], None] = lambda run: None
    ) -> tuple[list[Record], BaseException | None]:
        try:
            return self.complete(self._play(worker, watch))
        finally:
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()

    async def _play(
        self, worker: Worker, watch: Callable[[Run[object]], None]
    ) -> tuple[list[Record], BaseException | None]:
        run = worker.run("Where is it?")
        watch(run)
        seen: dict[str, list[Any]] = {"observer": [], "follower": [], "events": []}
        ends: dict[str, asyncio.Future[Any]] = {}

        def observe(name: str, source: Observable[Any]) -> None:
            end = ends[name] = self.loop.create_future()
            source.subscribe(seen[name].append, lambda error: end.set_result(error), lambda: end.set_result(None))

        observe("observer", run.records)
        observe("follower", run.watch())
        observe("events", run.events)
        far: list[int] = []

        def read_in_thread() -> None:
            with suppress(Exception):
                far.extend(record.seq for record in run.watch(name="thread"))

        thread = threading.Thread(target=read_in_thread, daemon=True)
        thread.start()

        async def read() -> list[Record]:
            records: list[Record] = []
            try:
                async for record in run:
                    records.append(record)
            except Exception:
                pass
            return records

        async def wait() -> BaseException | None:
            try:
                await run
            except Exception as error:
                return error
            return None

        reading = asyncio.create_task(read())
        awaiting = [asyncio.create_task(wait()) for _ in range(2)]
        sent = run.send("And behind the door?")
        async with asyncio.timeout(60):
            await asyncio.wait([sent, *awaiting, *ends.values(), reading])
            await run.cancel()
        # Not joined here: a thread that starts late attaches through this event loop.
        await asyncio.to_thread(thread.join, 20)
        assert not thread.is_alive()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        records = reading.result()
        error = await awaiting[0]
        assert await awaiting[1] is error
        for name in ("observer", "follower", "events"):
            assert ends[name].result() is error, name
        numbers = list(range(1, run.last_seq + 1))
        assert [record.seq for record in records] == numbers
        assert [record.seq for record in seen["observer"]] == numbers
        assert seen["events"] == [record.event for record in records]
        assert seen["follower"][-1].seq == run.last_seq
        assert far[-1] == run.last_seq
        assert sent.done()
        sent.exception()
        told = [r.event for r in records if not isinstance(r.event, WatcherDetach)]
        assert isinstance(told[-1], RunAbort if error else RunStop)
        assert validate(worker.session.conversation) == []
        # A hook that fails at the first request takes back what was to be sent.
        taken_back = any(isinstance(record.event, ConversationReplace) for record in records)
        assert bool(worker.session.conversation.messages) != taken_back
        worker.model = ScriptedModel(["Here."])
        worker.operators = ()
        worker.hooks.clear()
        again = await Worker(worker.model, conversation=worker.session.conversation).run("And now?")
        assert again.text == "Here."
        return records, error

    def check(self, records: list[Record], error: BaseException | None) -> None:
        """What was raised is named where the run ended, and only an interrupt has left the loop."""
        assert self.raised
        assert self.unhandled == []
        is_interrupt = self.error is KeyboardInterrupt
        assert [type(left) for left in self.left] == [KeyboardInterrupt] * is_interrupt
        last = records[-1].event
        if error is None:
            return
        assert isinstance(last, RunAbort)
        for text in (str(error), last.reason):
            named = "cancelled" if self.error is asyncio.CancelledError else self.error.__name__
            assert named in text or "CancelledError" in text or self.error is ValueError, text
        assert isinstance(error, (ValueError, RxWorkerError))
        if self.error is KeyboardInterrupt:
            assert last.cause == "cancel"


def place(moment: str, record: Record) -> bool:
    match moment:
        case "first":
            return isinstance(record.event, RunStart)
        case "middle":
            return isinstance(record.event, ToolStop)
        case _:
            return isinstance(record.event, RunStop)


@pytest.mark.product(4)
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("kind", ["observer", "follower", "events", "operator", "audience"])
def test_a_watcher_may_raise_anything(kind: str, moment: str, error: type[BaseException]) -> None:
    scene = Scene(error)

    def on_next(record: Record) -> None:
        if place(moment, record):
            scene.fail()

    def on_event(event: object) -> None:
        on_next(Record(1, "", 1, 1, 0.0, event))  # pyright: ignore[reportArgumentType]

    def on_states(states: object) -> None:
        scene.fail()

    def watch(run: Run[object]) -> None:
        match kind:
            case "observer":
                run.subscribe(on_next)
            case "follower":
                run.watch().subscribe(on_next)
            case "events":
                run.events.subscribe(on_event)
            case "operator":
                run.pipe(ops.filter(lambda r: True), ops.do_action(on_next)).subscribe(on_error=lambda e: None)
            case _:
                run.watchers.subscribe(on_states)

    records, ended = scene.play(Worker(model(), tools=[look]), watch)
    scene.check(records, ended)
    if error is KeyboardInterrupt and moment != "last":
        assert ended is not None
    if kind in ("observer", "follower", "events") and moment != "last":
        assert any(isinstance(r.event, WatcherDetach) and error.__name__ in r.event.error for r in records)


@pytest.mark.product(4)
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("kind", ["observer", "follower", "events"])
@pytest.mark.parametrize("fails", [False, True])
def test_a_watcher_may_raise_anything_at_its_end(kind: str, error: type[BaseException], fails: bool) -> None:
    scene = Scene(error)

    def watch(run: Run[object]) -> None:
        source = {"observer": run, "follower": run.watch(), "events": run.events}[kind]
        source.subscribe(None, lambda e: scene.fail(), scene.fail)

    def bad(text: object) -> None:
        raise ValueError("the handler")

    worker = Worker(model(), tools=[look])
    if fails:
        worker.timeline.on_text_block(bad)
    _, ended = scene.play(worker, watch)
    assert isinstance(ended, ValueError) == fails
    assert scene.raised
    assert [type(left) for left in scene.left] == [KeyboardInterrupt] * (error is KeyboardInterrupt)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_tool_may_raise_anything(moment: str, error: type[BaseException]) -> None:
    scene = Scene(error)

    @tool(name="look")
    async def bad(where: str) -> str:
        if moment != "first":
            await asyncio.sleep(0)
        if where == ("here" if moment == "last" else "there"):
            return "nothing"
        scene.fail()
        return ""

    records, ended = scene.play(Worker(model(), tools=[bad]))
    scene.check(records, ended)
    # Whatever a tool raises is its failure, which the model reads; an interrupt alone ends the run.
    assert (ended is None) == (error is not KeyboardInterrupt)


@pytest.mark.product(4)
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("timeout", [None, 5.0])
@pytest.mark.parametrize("point", list(POINTS))
def test_a_hook_may_raise_anything(point: str, timeout: float | None, error: type[BaseException]) -> None:
    scene = Scene(error)

    async def bad(context: object) -> None:
        scene.fail()

    made = POINTS[point](bad, timeout=timeout)
    worker = Worker(model(), tools=[look], hooks=[made])
    if point == "on_abort":

        def break_off(text: object) -> None:
            raise ValueError("the handler")

        worker.timeline.on_text_block(break_off)
        records, ended = scene.play(worker)
        assert isinstance(ended, ValueError)
        expected = [KeyboardInterrupt] * (error is KeyboardInterrupt)
        assert [type(left) for left in scene.left] == expected
        assert scene.raised
        return
    records, ended = scene.play(worker)
    assert ended is not None
    scene.check(records, ended)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_handler_may_raise_anything(moment: str, error: type[BaseException]) -> None:
    scene = Scene(error)
    kinds = {"first": TextBlockStart, "middle": TextDelta, "last": TextBlockStop}

    def bad(event: object) -> None:
        if isinstance(event, kinds[moment]):
            scene.fail()

    worker = Worker(model(), tools=[look])
    worker.timeline.on_text_block(bad)
    records, ended = scene.play(worker)
    assert ended is not None
    scene.check(records, ended)


def failing(scene: Scene, moment: str) -> Callable[[Observable[Any]], Observable[Any]]:
    """An operator that raises out of its observer, which a well-behaved one would not."""

    def apply(source: Observable[Any]) -> Observable[Any]:
        def subscribe(
            observer: abc.ObserverBase[Any], scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            count = 0

            def on_next(event: Any) -> None:
                nonlocal count
                count += 1
                if (moment, count) in (("first", 1), ("middle", 3)):
                    scene.fail()
                observer.on_next(event)

            def on_completed() -> None:
                if moment == "last":
                    scene.fail()
                observer.on_completed()

            return source.subscribe(on_next, observer.on_error, on_completed, scheduler=scheduler)

        return Observable(subscribe)

    return apply


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("when", ["at once", "later"])
def test_an_operator_may_raise_anything(when: str, moment: str, error: type[BaseException]) -> None:
    """Later: in a callback of the scheduler, where nobody upstream is on the stack."""
    scene = Scene(error)
    operators = [failing(scene, moment)]
    if when == "later":
        operators = [ops.delay(0.001), *operators]
    records, ended = scene.play(Worker(model(), tools=[look], operators=operators))
    assert ended is not None
    scene.check(records, ended)


@pytest.mark.parametrize("error", ERRORS)
def test_what_an_operator_schedules_may_raise_anything(error: type[BaseException]) -> None:
    scene = Scene(error)

    def apply(source: Observable[Any]) -> Observable[Any]:
        def subscribe(
            observer: abc.ObserverBase[Any], scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            def act(clock: abc.SchedulerBase, state: object = None) -> None:
                scene.fail()

            assert scheduler is not None
            return scheduler.schedule_relative(0.001, act)

        return Observable(subscribe)

    records, ended = scene.play(Worker(model(), operators=[apply]))
    assert ended is not None
    scene.check(records, ended)


class BadModel:
    """A model that raises where it should call ``on_error``."""

    name = model = "bad"

    def __init__(self, scene: Scene, moment: str) -> None:
        self._scene = scene
        self._moment = moment

    def stream(self, request: Request) -> Observable[ResponseEvent]:
        def subscribe(
            observer: abc.ObserverBase[ResponseEvent], scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            if self._moment == "first":
                self._scene.fail()
            for event in reply_events(say("Let me look."), 1, "bad"):
                observer.on_next(event)
                if self._moment == "middle" and isinstance(event, TextDelta):
                    self._scene.fail()
            self._scene.fail()
            raise AssertionError

        return Observable(subscribe)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_model_may_raise_anything(moment: str, error: type[BaseException]) -> None:
    scene = Scene(error)
    records, ended = scene.play(Worker(BadModel(scene, moment)))
    assert ended is not None
    scene.check(records, ended)


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_may_raise_anything_when_it_is_printed(error: type[BaseException]) -> None:
    scene = Scene(error)

    class UnprintableError(ValueError):
        def __str__(self) -> str:
            scene.fail()
            return ""

    def on_next(record: Record) -> None:
        if isinstance(record.event, ToolStop):
            raise UnprintableError

    records, ended = scene.play(Worker(model(), tools=[look]), lambda run: run.subscribe(on_next) and None)
    assert ended is None
    [detached] = [r.event for r in records if isinstance(r.event, WatcherDetach)]
    assert "UnprintableError" in detached.error


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("where", ["tool", "hook", "model"])
def test_what_is_raised_while_a_run_is_cancelled_does_not_hide_that(where: str, error: type[BaseException]) -> None:
    scene = Scene(error)

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            scene.fail()

    @tool(name="look")
    async def waiting(where: str) -> str:
        await wait()
        return ""

    @on_message_send
    async def hesitate(context: object) -> None:
        await wait()

    class Slow:
        name = model = "slow"

        def stream(self, request: Request) -> Observable[ResponseEvent]:
            def subscribe(
                observer: abc.ObserverBase[ResponseEvent], scheduler: abc.SchedulerBase | None = None
            ) -> abc.DisposableBase:
                return Disposable(scene.fail)

            return Observable(subscribe)

    async def main() -> tuple[BaseException | None, list[Record]]:
        worker = Worker(
            Slow() if where == "model" else ScriptedModel([call("look", where="here")]),
            tools=[waiting],
            hooks=[hesitate] if where == "hook" else [],
        )
        run = worker.run("Where is it?")
        await settle()
        async with asyncio.timeout(60):
            await run.cancel(reason="lunch")
        assert validate(worker.session.conversation) == []
        records = records_of(run)
        try:
            await run
        except Exception as ended:
            return ended, records
        return None, records

    ended, records = scene.complete(main())
    scene.loop.close()
    assert scene.raised
    assert isinstance(ended, RunCancelledError)
    assert isinstance(records[-1].event, RunAbort)
    assert records[-1].event.cause == "cancel"
    assert [type(left) for left in scene.left] == [KeyboardInterrupt] * (error is KeyboardInterrupt)


WRONG: Any = [TextDelta(0, 7), TextDelta("0", "x"), 7]  # pyright: ignore[reportArgumentType] - as programs without types


@pytest.mark.parametrize("wrong", WRONG)
async def test_an_event_of_an_operator_whose_field_has_another_type_ends_the_run(wrong: Any) -> None:
    """It would break each fold that reads it, also that of the end of the run."""

    def change(event: ResponseEvent) -> ResponseEvent:
        return wrong if isinstance(event, TextDelta) else event

    worker = Worker(ScriptedModel(["Hello."]), operators=[ops.map(change)])
    run = worker.run("go")
    with pytest.raises(ConfigurationError, match=f"operator of the worker emitted a {type(wrong).__name__}"):
        await run
    assert run.state.status == "aborted"
