"""The hub's word, held against any interleaving of what a source and its watchers may do, on virtual time.

The records are those of scripted runs, whole and mutated: events are left out, told twice, cut into smaller pieces,
moved. Each watcher may come at any time, begin behind any number, be slow, raise, or leave.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from reactivex import abc
from reactivex.testing import TestScheduler

from rxworker import Worker, tool, worker_tool
from rxworker.events import Event, Gap, InputJsonDelta, Record, TextDelta, Usage, WatcherDetach
from rxworker.events.kinds import PASSING
from rxworker.hub import Coalesce, Delivery, DropOldest, Hub, Latest, Reliable
from rxworker.hub.hub import Reader as Reading
from rxworker.state import RunState, fold_run
from rxworker.testing import Reply, ScriptedModel, call, cut, fail, say, think
from rxworker.tools import ToolContext
from rxworker.transport import Retry

INSIDE = ("call_1_1",)


@tool
async def look(context: ToolContext, where: str) -> str:
    """Look somewhere."""
    context.progress({"looking": where})
    context.progress("still")
    return f"nothing {where}"


SCRIPTS: list[list[Reply | str]] = [
    ["Hello, who is there?"],
    [think("Where to look? Here.") + say("I look.") + call("look", where="here"), "Nothing here."],
    [call("look", where="here") + call("look", where="there"), say("One.") + say("Two, and more.")],
    [say("Once upon a") + cut(), say("Once upon a time") + fail("overloaded"), "The end."],
    [call("ask", task="Why is that so?"), "Because of that."],
    [say("Not at all.") + cut()] * 4,
    [think("Hm.") + say("No tool of that name:") + call("fly", to="the moon"), "Sorry."],
]


async def records_of(script: list[Reply | str]) -> list[Record]:
    inner = Worker(ScriptedModel([think("Let me think.") + say("Because it is so.")]))
    ask = worker_tool(inner, name="ask", description="Ask somebody.")
    patient = Retry(retries=3, first=0.0)
    run = Worker(ScriptedModel(script), tools=[look, ask], response_retry=patient).run("Go.")
    records: list[Record] = []
    run.subscribe(records.append, lambda _: None)
    await asyncio.gather(run, return_exceptions=True)
    return records


async def told(scripts: Sequence[list[Reply | str]]) -> list[list[Record]]:
    return [await records_of(script) for script in scripts]


STORIES = asyncio.run(told(SCRIPTS))


@st.composite
def sources(draw: st.DrawFn) -> list[Record]:
    """What a source may push: a run's records, and then not quite those."""
    records = list(draw(st.sampled_from(STORIES)))
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(records) - 1))
        match draw(st.sampled_from(["leave out", "twice", "move", "cut"])):
            case "leave out" if len(records) > 1:
                del records[place]
            case "twice":
                records.insert(place, records[place])
            case "move":
                records.insert(draw(st.integers(0, len(records) - 1)), records.pop(place))
            case _:
                records[place : place + 1] = pieces_of(records[place])
    return records


def pieces_of(record: Record) -> list[Record]:
    """A delta of text as one delta for each character, and empty ones; others as they are."""
    event = record.event
    if not isinstance(event, TextDelta | InputJsonDelta):
        return [record]
    return [replace(record, event=replace(event, text=text)) for text in ("", *event.text, "")]


DELIVERIES = st.sampled_from(
    [
        Reliable(),
        Reliable(limit=None),
        Coalesce(),
        Coalesce(),
        Coalesce(),
        Latest(),
        DropOldest(limit=1),
        DropOldest(limit=5),
    ]
)
MOVES = st.sampled_from(["emit"] * 6 + ["turn"] * 4 + ["follow", "read", "raise", "leave", "pack"] + ["take"] * 3)


class Watcher:
    """One that watches, and what it was given."""

    def __init__(self, name: str, delivery: Delivery, after: int) -> None:
        self.name = name
        self.delivery = delivery
        self.after = after
        self.given: list[Record] = []
        self.reading: Reading | None = None
        self.subscription: abc.DisposableBase | None = None

    def take(self) -> bool:
        """Take what there is, if it is one that does so itself. Whether there was something."""
        batch = self.reading.now() if self.reading is not None else None
        self.given += batch or []
        return bool(batch)

    def leave(self) -> None:
        if self.reading is not None:
            self.reading.dispose()
        if self.subscription is not None:
            self.subscription.dispose()


class Play:
    """A hub on virtual time, what is pushed to it, and its watchers."""

    def __init__(self, source: Sequence[Record]) -> None:
        self.clock = TestScheduler()
        self.hub = Hub(self._detached, defer=self._soon)
        self.source = list(source)
        self.exact: list[Record] = []
        self.watchers: list[Watcher] = []
        self.came = 0
        self.hub.subscribe(self.exact.append)

    def _soon(self, call: Callable[[], None]) -> None:
        def go(_: abc.SchedulerBase, __: object = None) -> None:
            call()

        self.clock.schedule(go)

    def _detached(self, name: str, error: BaseException) -> None:
        event = WatcherDetach(name, str(error))
        self.hub.push(Record(self.hub.last_seq + 1, "r", 1, 1, 0.0, event))

    def emit(self, count: int, *, together: bool = False) -> None:
        records, first = self.source[:count], self.hub.last_seq + 1
        del self.source[:count]
        if together:
            numbered = [replace(record, seq=n) for n, record in enumerate(records, first)]
            self.hub.push_many(numbered)
        else:
            for record in records:
                self.hub.push(replace(record, seq=self.hub.last_seq + 1))

    def turn(self) -> None:
        self.clock.advance_by(1)

    def come(self, delivery: Delivery, after: int) -> Watcher:
        self.came += 1
        watcher = Watcher(f"w{self.came}", delivery, after)
        self.watchers.append(watcher)
        return watcher

    def follow(self, delivery: Delivery, after: int) -> None:
        watcher = self.come(delivery, after)
        watch = self.hub.watch(delivery, after=after, name=watcher.name)
        watcher.subscription = watch.subscribe(watcher.given.append)

    def read(self, delivery: Delivery, after: int) -> None:
        watcher = self.come(delivery, after)
        watcher.reading = Reading(self.hub, delivery, after, watcher.name)

    def follow_and_raise(self, delivery: Delivery, after: int, most: int) -> None:
        left = most

        def boom(_: Record) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise ValueError("enough")

        self.hub.watch(delivery, after=after, name="bad").subscribe(boom)

    def leave(self, place: int) -> None:
        if self.watchers:
            self.watchers.pop(place % len(self.watchers)).leave()

    def check_accounts(self) -> None:
        """Everybody's counts add up at any moment, and say what it was given."""
        by_name = {state.name: state for state in self.hub.states()}
        for watcher in self.watchers:
            state = by_name[watcher.name]
            assert state.delivered + state.merged + state.dropped == state.seq - watcher.after
            assert state.seq + state.lag == self.hub.last_seq
            assert state.delivered == sum(not isinstance(r.event, Gap) for r in watcher.given)

    def drain(self) -> None:
        """Everybody comes to the end."""
        self.emit(len(self.source))
        for _ in range(3):
            self.turn()
        for watcher in self.watchers:
            while watcher.take():
                pass
        self.check_accounts()
        self.hub.end()
        self.turn()


def states_of(records: Sequence[Record], before: Sequence[Record]) -> list[RunState]:
    """What the run, and the one inside it, come to."""
    states = [RunState(), RunState(path=INSIDE)]
    return [fold_run(records, fold_run(before, state)) for state in states]


def lasting(records: Sequence[Record]) -> list[tuple[int, Event]]:
    passing = (*PASSING, Usage, Gap)
    return [(r.seq, r.event) for r in records if not isinstance(r.event, passing)]


def check_given(watcher: Watcher, exact: Sequence[Record]) -> None:
    given, after = watcher.given, watcher.after
    before = after
    for record in given:
        assert record.first == before + 1
        before = record.seq
    assert before == len(exact)
    assert lasting(given) == lasting(exact[after:])
    match watcher.delivery:
        case Coalesce():
            assert states_of(given, exact[:after]) == states_of(exact, ())
        case Reliable():
            assert given == exact[after:]
        case DropOldest():
            kept = [r for r in given if not isinstance(r.event, Gap)]
            gaps = [r.event for r in given if isinstance(r.event, Gap)]
            missing = [n for gap in gaps for n in range(gap.first, gap.last + 1)]
            assert kept == [exact[r.seq - 1] for r in kept]
            assert sorted([*missing, *(r.seq for r in kept)]) == [*range(after + 1, len(exact) + 1)]
        case Latest():
            assert all(r.event == exact[r.seq - 1].event and r.time == exact[r.seq - 1].time for r in given)


@settings(max_examples=150, deadline=None)
@given(source=sources(), moves=st.lists(MOVES, max_size=40), data=st.data())
def test_any_interleaving_keeps_the_hubs_word(source: list[Record], moves: list[str], data: st.DataObject) -> None:
    play = Play(source)

    def after() -> int:
        return data.draw(st.integers(0, play.hub.last_seq))

    for move in moves:
        match move:
            case "emit":
                play.emit(data.draw(st.integers(1, 12)), together=data.draw(st.booleans()))
            case "turn":
                play.turn()
            case "follow":
                play.follow(data.draw(DELIVERIES), after())
            case "read":
                play.read(data.draw(DELIVERIES), after())
            case "raise":
                play.follow_and_raise(data.draw(DELIVERIES), after(), data.draw(st.integers(0, 5)))
            case "leave":
                play.leave(data.draw(st.integers(0, 9)))
            case "pack":
                play.hub.history.pack()
            case _:
                for watcher in play.watchers[:: data.draw(st.integers(1, 3))]:
                    watcher.take()
        play.check_accounts()
    play.drain()
    assert [record.seq for record in play.exact] == list(range(1, play.hub.last_seq + 1))
    for watcher in play.watchers:
        check_given(watcher, play.exact)


def test_the_stories_hold_what_matters() -> None:
    """Else the property would say little."""
    kinds = {type(record.event).__name__ for story in STORIES for record in story}
    assert {"ToolProgress", "AttemptRetract", "InputJsonDelta", "RunAbort", "RunStop"} <= kinds
    assert any(record.path == INSIDE for story in STORIES for record in story)
    assert sum(map(len, STORIES)) > 150
