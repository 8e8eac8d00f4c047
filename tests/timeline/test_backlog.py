"""Collectors are given what came when somebody looks. That shows nowhere: it is as if they had been given it at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reactivex import Observable, abc

from rxworker.events import (
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    InputJsonDelta,
    InputValueDelta,
    Opaque,
    Ping,
    TextDelta,
    ThinkingDelta,
    ToolUseMetadata,
    Usage,
)
from rxworker.events.deltas import Batch, Deltas
from rxworker.operators.disposables import NOTHING
from rxworker.operators.stage import Sink, Stage, connect, many
from rxworker.testing import ScriptedModel, call, say
from rxworker.timeline import TextBlockCollector, TextBlockEvent, Timeline, ToolCallCollector
from rxworker.timeline import backlog as backlog_module
from rxworker.timeline.backlog import EACH, MOST
from rxworker.timeline.follower import Follower
from rxworker.timeline.gathering import Gathering
from rxworker.tools import tool
from rxworker.worker import Worker

T = BlockType
STOP = BlockStop(0, T.TEXT)


class Texts(TextBlockCollector):
    """The plain definition: one that is derived is given everything at once."""


class Calls(ToolCallCollector):
    """The same for calls."""


def play(timeline: Timeline, *told: Event) -> None:
    for event in told:
        timeline.dispatch(event)


class Scene:
    """Two timelines, some collectors, and all that can be done with them."""

    def __init__(
        self, texts: type[TextBlockCollector], tool_calls: type[ToolCallCollector]
    ) -> None:
        self.timelines = Timeline(), Timeline()
        self.made = texts(), tool_calls(), texts()
        first, second = self.timelines
        first.on_text_block(self.made[0])
        first.on_tool_use_block(self.made[1])
        self.others = [second.on_text_block(self.made[0])]
        self.seen: list[object] = []
        self.pushes = [self._follow(timeline) for timeline in self.timelines]

    def _follow(self, timeline: Timeline) -> abc.ObserverBase[Event]:
        observers: list[abc.ObserverBase[Event]] = []

        def subscribe(
            observer: abc.ObserverBase[Event], _: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            observers.append(observer)
            return NOTHING

        events: Observable[Event] = Stage(subscribe)
        connect(timeline(events), Sink(self.seen.append, print, print))
        return observers[0]

    @property
    def collectors(self) -> tuple[TextBlockCollector, ToolCallCollector, TextBlockCollector]:
        return self.made

    def look(self, which: int) -> None:
        self.seen.append(tuple(map(str, self.collectors[which].collected())))

    def take(self, which: int) -> None:
        self.seen.append(tuple(map(str, self.collectors[which].take_collected())))

    def clear(self, which: int) -> None:
        self.collectors[which].clear()

    def clear_all(self, _: int) -> None:
        for collector in self.collectors:
            collector.clear()

    def end(self, which: int) -> None:
        self.timelines[which % 2].abort_current_block("over")

    def end_and_clear(self, which: int) -> None:
        self.end(which)
        self.clear_all(which)

    def register(self, which: int) -> None:
        timeline = self.timelines[which % 2]
        handlers: list[Callable[[], abc.DisposableBase]] = [
            lambda: timeline.on_text_block(self.collectors[2]),
            lambda: timeline.on_tool_use_block(self.collectors[1]),
            lambda: timeline.on_text_block(self._read),
            lambda: timeline.on_usage(self.seen.append),
        ]
        self.others.append(handlers[which % 4]())

    def _read(self, event: TextBlockEvent) -> None:
        self.seen.append(event)
        self.look(0)

    def remove(self, which: int) -> None:
        if self.others:
            self.others.pop(which % len(self.others)).dispose()

    def by_hand(self, _: int) -> None:
        texts = self.collectors[0]
        scope = texts.scope()
        timeline = Timeline()
        timeline.on_text_block(texts)
        timeline.dispatch(TextDelta(5, "by hand"))
        timeline.dispatch(BlockStop(5, T.TEXT))
        texts.on_event(scope, TextDelta(0, "unheard"))


class Late(Scene):
    """The first timeline makes its collectors when somebody looks at them."""

    def __init__(self) -> None:
        super().__init__(TextBlockCollector, ToolCallCollector)
        self.remove(0)
        self.gathering = Gathering()
        self.timelines = self.gathering, Timeline()
        self.pushes = [self._follow(timeline) for timeline in self.timelines]

    @property
    def collectors(self) -> tuple[TextBlockCollector, ToolCallCollector, TextBlockCollector]:
        return self.gathering.texts, self.gathering.tool_calls, self.made[2]

    def clear_all(self, _: int) -> None:
        self.gathering.clear()
        self.made[2].clear()


def deltas(kind: type[TextDelta | InputJsonDelta], index: int, texts: list[str]) -> Deltas[Event]:
    return Deltas(kind(index, ""), texts)


indices = st.integers(0, 2)
words = st.sampled_from(["", "a", '{"a":', " 1}", "b"])
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(
        BlockStart,
        indices,
        st.sampled_from([T.TEXT, T.TOOL_USE, T.THINKING]),
        st.sampled_from([None, ToolUseMetadata("1", "look")]),
    ),
    st.builds(TextDelta, indices, words),
    st.builds(InputJsonDelta, indices, words),
    st.builds(InputValueDelta, indices, st.just("$.a"), st.integers(0, 3)),
    st.builds(ThinkingDelta, indices, words),
    st.builds(BlockStop, indices, st.sampled_from([T.TEXT, T.TOOL_USE])),
    st.builds(BlockAbort, indices, st.just(T.TEXT)),
    st.just(Ping()),
    st.builds(Usage, st.integers(0, 3)),
)
together = st.builds(
    deltas, st.sampled_from([TextDelta, InputJsonDelta]), indices, st.lists(words, min_size=1)
)
DEEDS = [
    Scene.look,
    Scene.take,
    Scene.clear,
    Scene.clear_all,
    Scene.end,
    Scene.end_and_clear,
    Scene.register,
    Scene.remove,
    Scene.by_hand,
]
Deed: TypeAlias = Callable[[Scene], None]


def dispatched(which: int, event: Event) -> Deed:
    return lambda scene: scene.timelines[which].dispatch(event)


def dispatched_together(which: int, row: Deltas[Event]) -> Deed:
    return lambda scene: scene.timelines[which].dispatch_many(row)


def pushed(which: int, event: Event) -> Deed:
    return lambda scene: scene.pushes[which].on_next(event)


def pushed_together(which: int, read: Sequence[Event | Deltas[Event]], is_plain: bool) -> Deed:
    batch = Batch(read)

    def push(scene: Scene) -> None:
        many(scene.pushes[which])(list(batch) if is_plain else batch)

    return push


def done(deed: Callable[[Scene, int], None], which: int) -> Deed:
    return lambda scene: deed(scene, which)


def whole(which: int, text: str) -> Deed:
    return lambda scene: play(scene.timelines[which], TextDelta(0, text), STOP)


sides = st.sampled_from([0, 0, 1])
deeds: st.SearchStrategy[Deed] = st.one_of(
    st.builds(dispatched, sides, events),
    st.builds(dispatched_together, sides, together),
    st.builds(pushed, sides, events),
    st.builds(pushed_together, sides, st.lists(st.one_of(events, together)), st.booleans()),
    st.builds(whole, sides, words),
    st.builds(done, st.sampled_from(DEEDS), st.integers(0, 2)),
    st.builds(done, st.sampled_from([Scene.look, Scene.clear, Scene.end_and_clear]), indices),
)


@settings(max_examples=200)
@given(st.lists(deeds, max_size=25), st.sampled_from([3 * EACH, 20 * EACH, MOST]))
def test_what_is_given_late_is_what_would_have_been_given_at_once(
    script: list[Deed], most: int
) -> None:
    compare(Scene(TextBlockCollector, ToolCallCollector), Scene(Texts, Calls), script, most)


@settings(max_examples=200)
@given(st.lists(deeds, max_size=25), st.sampled_from([3 * EACH, 20 * EACH, MOST]))
def test_collectors_that_are_made_late_have_what_they_would_have_had(
    script: list[Deed], most: int
) -> None:
    plain = Scene(Texts, Calls)
    plain.remove(0)  # what is made late is of one timeline
    compare(Late(), plain, script, most)


def compare(late: Scene, plain: Scene, script: list[Deed], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backlog_module, "MOST", most)
        for deed in script:
            deed(late)
            deed(plain)
    for scene in (late, plain):
        for which in range(3):
            scene.look(which)
    assert late.seen == plain.seen


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What collectors of texts have added, when it is added."""
    seen: list[str] = []
    add = TextBlockCollector._add

    def tell(collector: TextBlockCollector, item: str) -> None:
        seen.append(item)
        add(collector, item)

    monkeypatch.setattr(TextBlockCollector, "_add", tell)
    return seen


def both() -> tuple[Timeline, TextBlockCollector, ToolCallCollector]:
    timeline, texts, tool_calls = Timeline(), TextBlockCollector(), ToolCallCollector()
    timeline.on_text_block(texts)
    timeline.on_tool_use_block(tool_calls)
    return timeline, texts, tool_calls


def test_nothing_is_done_until_somebody_looks(added: list[str]) -> None:
    timeline, texts, _ = both()
    play(timeline, TextDelta(0, "a"), STOP)
    assert added == []
    assert texts.has_content()
    assert added == ["a"]


def test_what_all_have_cleared_is_dropped_unread(added: list[str]) -> None:
    timeline, texts, tool_calls = both()
    play(timeline, TextDelta(0, "a"), STOP)
    timeline.abort_current_block("the stream ended")
    texts.clear()
    tool_calls.clear()
    play(timeline, TextDelta(0, "b"), STOP)
    assert texts.collected() == ["b"]
    assert added == ["b"]


def test_a_block_goes_on_though_all_is_cleared() -> None:
    timeline, texts, tool_calls = both()
    play(timeline, TextDelta(0, "a"), TextDelta(0, "b"))
    texts.clear()
    tool_calls.clear()
    play(timeline, TextDelta(0, "c"), STOP)
    assert texts.collected() == ["abc"]


def test_no_block_goes_on_when_a_response_is_over_whether_it_was_looked_at_or_not() -> None:
    timeline, texts, _ = both()
    play(timeline, TextDelta(0, "a"))
    assert texts.collected() == []
    for text in "bc":
        timeline.abort_current_block("the stream ended")
        play(timeline, TextDelta(0, text), STOP)
    assert texts.collected() == ["b", "c"]


@pytest.mark.parametrize("looks", [True, False])
def test_what_one_has_cleared_the_other_still_has(looks: bool) -> None:
    timeline, texts, tool_calls = both()
    play(timeline, TextDelta(0, "a"), STOP, BlockStop(1, T.TOOL_USE))
    timeline.abort_current_block("the stream ended")
    texts.clear()
    if looks:
        assert texts.collected() == []
    play(timeline, TextDelta(0, "b"), STOP)
    assert texts.collected() == ["b"]
    assert len(tool_calls.collected()) == 1


def test_a_collector_of_two_timelines_has_all_in_order() -> None:
    timeline, texts, _ = both()
    other = Timeline()
    other.on_text_block(texts)
    for number in range(4):
        play((timeline, other)[number % 2], TextDelta(0, str(number)), STOP)
    assert texts.collected() == ["0", "1", "2", "3"]


def test_what_was_kept_for_a_collector_that_was_removed_is_given_to_it() -> None:
    timeline, texts, _ = both()
    added = TextBlockCollector()
    registration = timeline.on_text_block(added)
    play(timeline, TextDelta(0, "a"), STOP)
    registration.dispose()
    play(timeline, TextDelta(0, "b"), STOP)
    assert (texts.collected(), added.collected()) == (["a", "b"], ["a"])


def test_no_more_than_so_much_is_kept(added: list[str]) -> None:
    timeline, _, _ = both()
    play(timeline, TextDelta(0, "a"), STOP)
    timeline.dispatch_many(Deltas(TextDelta(0, ""), ["b" * (MOST - 4 * EACH)]))
    assert added == []
    timeline.dispatch(Ping())  # concerns no block
    assert added == []
    timeline.dispatch(TextDelta(0, "c"))
    assert added == ["a"]


@pytest.mark.parametrize(
    "event",
    [
        ThinkingDelta(0, "a" * MOST),
        Opaque("picture", "a" * MOST),
        BlockStart(0, T.SERVER_TOOL_RESULT, None, {"pages": "a" * MOST}),
        BlockStop(0, T.OPAQUE, None, {"picture": "a" * MOST}),
    ],
)
def test_what_is_long_and_for_no_collector_is_not_kept(event: Event) -> None:
    timeline, _, _ = both()
    assert timeline._keep([event])
    assert timeline._backlog._kept == []


def test_what_a_collector_raises_ends_the_stream_that_brought_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timeline, _, _ = both()
    failure = ValueError("no")

    def fail(events: Sequence[Event]) -> bool:
        raise failure

    monkeypatch.setattr(timeline, "_keep", fail)
    ended: list[Exception] = []
    follower = Follower(timeline, Sink(print, ended.append, print))
    many(follower)(Batch([TextDelta(0, "a"), STOP]))
    assert ended == [failure]


def test_the_pieces_of_a_long_block_are_not_kept_for_longer_than_it_is_open(
    added: list[str],
) -> None:
    timeline, _, _ = both()
    timeline.dispatch_many(Deltas(TextDelta(0, ""), ["a"] * MOST))
    play(timeline, STOP)
    assert added == []
    timeline.abort_current_block("the stream ended")
    assert added == ["a" * MOST]
    play(timeline, TextDelta(0, "b"), STOP)
    timeline.abort_current_block("the stream ended")
    assert len(added) == 1


def test_another_handler_begins_behind_what_was_kept() -> None:
    timeline, texts, _ = both()
    play(timeline, TextDelta(0, "a"))
    seen: list[object] = []
    registration = timeline.on_text_block(seen.append)
    play(timeline, TextDelta(0, "b"))
    registration.dispose()
    play(timeline, TextDelta(0, "c"), STOP)
    assert seen == [TextDelta(0, "b")]
    assert texts.collected() == ["abc"]


def test_a_handler_may_wait_for_a_thread_that_looks() -> None:
    timeline, texts, _ = both()
    play(timeline, TextDelta(0, "a"), STOP)
    seen: list[list[str]] = []

    def look(_: Ping) -> None:
        thread = threading.Thread(target=lambda: seen.append(texts.collected()))
        thread.start()
        thread.join(timeout=10)

    timeline.on_ping(look)
    play(timeline, Ping())
    assert seen == [["a"]]


def test_threads_that_look_lose_nothing() -> None:
    timeline, texts, _ = both()
    taken: list[str] = []
    over = threading.Event()

    def take() -> None:
        while not over.is_set():
            taken.extend(texts.take_collected())

    thread = threading.Thread(target=take)
    thread.start()
    for number in range(2000):
        play(timeline, TextDelta(0, str(number)), STOP)
    over.set()
    thread.join()
    assert [*taken, *texts.take_collected()] == [str(number) for number in range(2000)]


async def test_a_worker_has_the_texts_and_calls_of_its_last_run(added: list[str]) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "nothing"

    replies = [say("I look.") + call("look"), say("Nothing."), say("Bye.")]
    worker = Worker(ScriptedModel(replies), tools=[look])
    await worker.run("What is there?")
    assert added == []
    assert worker.texts.collected() == ["I look.", "Nothing."]
    assert [called.name for called in worker.tool_calls.collected()] == ["look"]
    added.clear()
    await worker.run("Bye.")
    assert worker.tool_calls.collected() == []
    assert worker.texts.collected() == added == ["Bye."]


async def test_a_run_whose_texts_nobody_has_read_costs_the_next_run_nothing(
    added: list[str],
) -> None:
    worker = Worker(ScriptedModel([say("Hello."), say("Bye.")]))
    await worker.run("Hello.")
    await worker.run("Bye.")
    assert worker.texts.collected() == added == ["Bye."]


async def test_a_worker_whose_texts_nobody_reads_makes_no_collectors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[object] = []
    make = TextBlockCollector.__init__

    def tell(collector: TextBlockCollector) -> None:
        made.append(collector)
        make(collector)

    monkeypatch.setattr(TextBlockCollector, "__init__", tell)
    worker = Worker(ScriptedModel([say("Hello.")]))
    await worker.run("Hello.")
    assert made == []
    assert worker.texts.take_collected() == ["Hello."]
    assert made == [worker.texts]


def test_a_handler_comes_behind_the_collectors_that_are_not_made_yet() -> None:
    timeline = Gathering()
    play(timeline, TextDelta(0, "a"), STOP)
    seen: list[object] = []

    def look(event: TextBlockEvent) -> None:
        del event
        seen.append(timeline.texts.collected())

    timeline.on_text_block(look)
    play(timeline, TextDelta(0, "b"), STOP)
    assert seen == [["a"], ["a", "b"]]
