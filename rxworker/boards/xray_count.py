"""What is counted of a pipeline that is explained.

The operators as nodes, what goes between them as edges, and the taps that count on the way to an observer.

Theory of operation. A `Tap` stands between two operators. The records of a panel need none: its `CountedSource` counts
them as it pushes them, once for all operators that are subscribed to it.

The time of one operator is that between an item that it is given and one that it emits, and what follows until it
returns. It is measured for one item in `SAMPLE` of the source.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct
from reactivex import ConnectableObservable, GroupedObservable, Observable, abc
from reactivex.internal import UTC_ZERO

from rxworker.boards.operator_names import explained
from rxworker.events import Record
from rxworker.events.kinds import Deltas, Parts, flatten
from rxworker.operators.kernel import TRAMPOLINE, Scheduler, Sink, Source, many

A = TypeVar("A")

SAMPLE = 256
"""The time of operators is measured for one item of the source in so many."""
MAX_MARBLES = 24
"""How many of the last items of an operator are kept."""
LONGEST = 40
"""The maximum length of a value that is shown."""
MAX_OF_ERROR = 500
MAX_READ = 4096
"""Of a text that is shown, at most so many characters are looked at."""

_Moment: TypeAlias = Record | datetime
"""The moment of an item: that of the record that has brought it, or of the clock.

It becomes seconds when it is shown.
"""


class OperatorState(Struct, frozen=True):
    """An operator of a pipeline, and what it has done so far.

    Times are those of the pipeline: of the records, or of the scheduler that it is subscribed with.

    Attributes:
        id: Its number; the source is 0.
        name: Its name and the functions that it was given, such as ``map(cost_of)``.
        within: The functions that put it together, the outermost first.
        inputs: The numbers of the operators that it receives items from.
        items: How many items it has emitted.
        rate: Items a second, over the last ones.
        lag: Seconds from its last item to the last of the source; ``None`` before the first.
        micros: Microseconds that it takes for an item of the source, without those of other operators.
        last: Its last items, each with its time, as short texts.
        error: What it has raised, at most `MAX_OF_ERROR` characters of it.
    """

    id: int
    name: str
    within: Sequence[str] = ()
    inputs: Sequence[int] = ()
    items: int = 0
    rate: float = 0.0
    lag: float | None = None
    micros: float = 0.0
    last: Sequence[tuple[float, str]] = ()
    error: str = ""


class Edge:
    """What goes from one operator to another.

    Attributes:
        items: How many items.
        samples: How many of them were timed.
        due: The number of the next one that is timed.
        recent: The last items, each with its moment; a record has its own.
        is_inner: Whether they are items of an observable that is an item itself.
    """

    __slots__ = ("due", "is_inner", "items", "recent", "samples")

    def __init__(self, *, is_inner: bool) -> None:
        self.is_inner = is_inner
        self.items = self.samples = self.due = 0
        self.recent: deque[Record | tuple[_Moment, object]] = deque(maxlen=MAX_MARBLES)


class Node:
    """An operator, and the edges that begin at it, by where they end."""

    def __init__(self, number: int, name: str, within: tuple[str, ...]) -> None:
        self.number = number
        self.name = name
        self.within = within
        self.inputs: dict[int, None] = {}
        self.edges: dict[tuple[int | None, bool], Edge] = {}
        self.seconds = 0.0
        self.error = ""

    def edge(self, consumer: Node | None, *, is_inner: bool) -> Edge:
        """The edge to a consumer."""
        if consumer is not None:
            consumer.inputs.setdefault(self.number)
        key = (None if consumer is None else consumer.number), is_inner
        return self.edges.setdefault(key, Edge(is_inner=is_inner))

    @property
    def busiest(self) -> Edge:
        """The edge that the operator is shown with: several consumers receive the same items."""
        edges = sorted(self.edges.values(), key=lambda each: (not each.is_inner, each.items))
        return edges[-1] if edges else Edge(is_inner=False)

    def state(self, now: float, samples: int, redact: Callable[[str], str]) -> OperatorState:
        """What it has done until now, if so many items of the source were timed."""
        edge = self.busiest
        recent = [*map(_dated, edge.recent)]
        past = now - recent[0][0] if recent else 0.0
        return OperatorState(
            self.number,
            self.name,
            self.within,
            [*self.inputs],
            edge.items,
            len(recent) / past if past > 0 else 0.0,
            now - recent[-1][0] if recent else None,
            1e6 * self.seconds / samples if samples else 0.0,
            [(at, _short(value, redact)) for at, value in recent],
            redact(self.error[:MAX_READ])[:MAX_OF_ERROR],
        )


class Live:
    """What all applications of a pipeline share: the nodes by their places, the time, and the error that was seen last.

    Attributes:
        source: The source.
        nodes: The operators by their places, the source first.
        at: The moment of the item of the source that is under way, unless it is timed.
        timed_at: The same if it is timed.
        mark: Until when the time is accounted for.
        failed: The error that was seen last.
        culprit: The name of the operator that raised it.
    """

    __slots__ = ("at", "culprit", "failed", "mark", "nodes", "source", "timed_at")

    def __init__(self) -> None:
        self.source = Node(0, "source", ())
        self.nodes: dict[object, Node] = {None: self.source}
        self.at: _Moment | None = None
        self.timed_at: _Moment | None = None
        self.mark = 0.0
        self.failed: Exception | None = None
        self.culprit = ""

    def states(self, redact: Callable[[str], str]) -> tuple[OperatorState, ...]:
        """The operators, each after those that it receives items from; texts are redacted before they are cut."""
        recents = [node.busiest.recent for node in self.nodes.values()]
        now = max((_dated(recent[-1])[0] for recent in recents if recent), default=0.0)
        samples = self.source.busiest.samples
        return tuple(node.state(now, samples, redact) for node in self.nodes.values())

    def node(self, place: object, name: str, within: tuple[str, ...]) -> Node:
        """The operator at a place of the pipeline."""
        if (found := self.nodes.get(place)) is None:
            found = self.nodes[place] = Node(len(self.nodes), name, within)
        return found

    def begin(self, edge: Edge, at: _Moment) -> None:
        """An item of the source is under way; now and then one is timed."""
        if edge.items < edge.due:
            self.at = at
            return
        edge.due = edge.items + SAMPLE
        edge.samples += 1
        self.timed_at = at
        self.mark = time.perf_counter()

    def charge(self, node: Node | None) -> None:
        """Account the time since the mark."""
        now = time.perf_counter()
        if node is not None:
            node.seconds += now - self.mark
        self.mark = now

    def blame(self, node: Node | None, error: Exception) -> None:
        """Note who raised an error: it is seen first at the end of the operator that raised it."""
        if error is self.failed:
            return
        self.failed, self.culprit = error, "" if node is None else node.name
        if node is not None:
            node.error = explained(error, "", node.name)


OBSERVABLES: set[type[object]] = {Observable, GroupedObservable, ConnectableObservable}
"""The observables that are seen as items.

The classes of others may mean something to the operator that is given them, as `Block` does.
"""


class Tap(Struct, frozen=True):
    """Counts on the way from one operator to the next.

    Attributes:
        live: What is counted.
        producer: The operator before it.
        consumer: The operator after it.
        edge: What goes between the two.
        given: An item that is an observable, as the consumer is given it.
    """

    live: Live
    producer: Node
    consumer: Node | None
    edge: Edge
    given: Callable[[Node, object], object]

    def sink(self, observer: abc.ObserverBase[object], scheduler: Scheduler) -> Sink[object]:
        """The observer in front of another, whose subscriber has this clock."""
        live, producer, consumer, edge = self.live, self.producer, self.consumer, self.edge
        push, push_many = observer.on_next, many(observer)
        keep = edge.recent.append
        clock = scheduler or TRAMPOLINE
        has_plain = False  # the first item was not an observable, so the others are not either

        def on_next(value: object) -> None:
            nonlocal has_plain
            edge.items += 1
            at = live.at
            if not has_plain or (at is None and live.timed_at is not None):
                has_plain = value.__class__ not in OBSERVABLES
                self._go_on(push, value if has_plain else self._seen(value), value, clock)
                return
            keep((at or clock.now, value))
            try:
                push(value)
            except Exception as error:
                live.blame(consumer, error)
                raise

        def from_source(value: object) -> None:
            edge.items += 1
            self._begin(push, self._seen(value), value, clock)

        def on_many(parts: Parts[Any]) -> None:
            if parts[0].__class__ in OBSERVABLES:
                for value in flatten(parts):
                    push_one(value)
                return
            last: Any = parts[-1]
            edge.items += sum(len(part) if part.__class__ is Deltas else 1 for part in parts)
            if last.__class__ is Deltas:
                last = last[len(last) - 1]
            (self._begin if is_source else self._go_on)(push_many, parts, last, clock)

        def on_error(error: Exception) -> None:
            live.blame(producer, error)
            observer.on_error(error)

        is_source = producer is live.source
        push_one = from_source if is_source else on_next
        sink = Sink[object](push_one, on_error, observer.on_completed, on_many)
        sink.kinds, sink.reads = getattr(observer, "kinds", None), getattr(observer, "reads", None)
        return sink

    def _go_on(self, push: Callable[[A], None], pushed: A, last: object, clock: abc.SchedulerBase) -> None:
        """Push what is timed, several items, or an observable."""
        live = self.live
        timed_at = live.timed_at
        if timed_at is not None:
            live.charge(self.producer)
        self.edge.recent.append((timed_at or live.at or clock.now, last))
        try:
            push(pushed)
        except Exception as error:
            live.blame(self.consumer, error)
            raise
        finally:
            if timed_at is not None:
                live.charge(self.consumer)

    def _begin(self, push: Callable[[A], None], pushed: A, last: object, clock: abc.SchedulerBase) -> None:
        live = self.live
        live.begin(self.edge, last if isinstance(last, Record) else clock.now)
        try:
            self._go_on(push, pushed, last, clock)
        finally:
            live.at = live.timed_at = None

    def _seen(self, value: object) -> object:
        if self.consumer is None or value.__class__ not in OBSERVABLES:
            return value
        return self.given(self.consumer, value)


class CountedSource(Source[Record]):
    """The source of the records of a panel, which are counted as they are pushed.

    Args:
        live: What is counted.
    """

    def __init__(self, live: Live) -> None:
        super().__init__()
        self._live = live
        self._edge = live.source.edge(None, is_inner=False)
        self._keep = self._edge.recent.append
        self._consumers: dict[Callable[[Record], None], Node | None] = {}

    def attach(self, observer: abc.ObserverBase[Record], consumer: Node | None) -> abc.DisposableBase:
        """Subscribe an observer of an operator."""
        self._live.source.edge(consumer, is_inner=False)
        self._consumers[observer.on_next] = consumer
        return self._subscribe_core(observer)

    def _remove(self, observer: abc.ObserverBase[object]) -> None:
        super()._remove(observer)
        self._consumers.pop(observer.on_next, None)

    def on_next(self, value: Record) -> None:
        """Push a record to all subscribers."""
        live, edge = self._live, self._edge
        edge.items = items = edge.items + 1
        self._keep(value)
        is_timed = items >= edge.due
        if is_timed:
            live.begin(edge, value)
        else:
            live.at = value  # as `begin` does it, for each record
        failure: Exception | None = None
        for push in self._pushes:
            try:
                push(value)
            except Exception as error:
                failure = failure or error
                live.blame(self._consumers.get(push), error)
            if is_timed:
                live.charge(self._consumers.get(push))
        live.at = None
        if is_timed:
            live.timed_at = None
        if failure is not None:
            raise failure


def _dated(item: Record | tuple[_Moment, object]) -> tuple[float, object]:
    if isinstance(item, Record):
        return item.time, item
    at, value = item
    return (at.time if isinstance(at, Record) else (at - UTC_ZERO).total_seconds()), value


def _short(value: object, redact: Callable[[str], str]) -> str:
    """An item in a few characters: a number, a text, or what it is."""
    if isinstance(value, str):
        text = " ".join(redact(value[:MAX_READ]).split())
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int | float):
        return f"{value:.6g}"
    return type(value.event if isinstance(value, Record) else value).__name__
