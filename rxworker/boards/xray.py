"""X-ray: the operators of a pipeline as a graph, and, while it runs, what each emits, how long it takes, and which one raised.

Theory of operation. No operator knows of it. `XRay` applies a pipeline to a `Probe`, a stage whose ``pipe`` gives each operator another probe as its source, so that what
the pipeline is made of is seen as it is put together: chains, functions that make chains, branches that are arguments of an operator, and the chains that are made for
each group. Each probe counts what goes from one operator to the next, an `Edge`. An operator of a library is one node, whatever it does inside, and so is a function
whose result was not made by ``pipe``. A pipeline that is put together again, for another group, counts in the same nodes: a node is known by the place of its ``pipe``.
Where nothing is explained there are no probes.

The time of one operator is that between an item that it is given and one that it emits, and what follows until it returns. It is measured for one item in `SAMPLE` of the source.
"""

from __future__ import annotations

import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

from msgspec import Struct
from reactivex import ConnectableObservable, GroupedObservable, Observable, abc
from reactivex.internal import UTC_ZERO, default_error, noop

from rxworker.boards.operator_names import (
    COMPOSED,
    captured_by,
    code_of,
    explained,
    is_library,
    name_of,
)
from rxworker.errors import ConfigurationError
from rxworker.events import Record
from rxworker.events.deltas import Deltas, Parts, flatten
from rxworker.operators.disposables import Call
from rxworker.operators.factories import expect_operator
from rxworker.operators.kernel import (
    TRAMPOLINE,
    Guard,
    Operator,
    Scheduler,
    Sink,
    Source,
    Stage,
    connect,
    many,
)

A = TypeVar("A")
B = TypeVar("B")

SAMPLE = 64
"""The time of operators is measured for one item of the source in so many."""
MOST_MARBLES = 24
"""How many of the last items of an operator are kept."""
COLUMNS = 32
"""The width of a drawing."""
LONGEST = 40
"""The maximum length of a value that is shown."""


_Moment: TypeAlias = Record | datetime
"""The moment of an item: that of the record that has brought it, or of the clock. It becomes seconds when it is shown."""


class OperatorState(Struct, frozen=True):
    """An operator of a pipeline, and what it has done so far. Times are those of the pipeline: of the records, or of the scheduler that it is subscribed with.

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
        error: What it has raised.
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


def explain(pipeline: Operator[A, B]) -> XRay[A, B]:
    """The operators of a pipeline, and what they do while it runs.

    The result is the same operator: put it in the place of the pipeline, in ``pipe`` or in a `panel`, and read it whenever you like.

        --2--3-----1--|
        [ explain(total) ]     emits what total emits
        --2--5-----6--|

    An operator that subscribes to something inside, such as ``ops.publish(mapper)``, is one node, as is a function whose result was not made by ``pipe``.

    Args:
        pipeline: The operator, made of ours, reactivex's and your own.

    Raises:
        ConfigurationError: It is no operator.

    >>> from reactivex import of, operators as ops
    >>> def doubled(number: int) -> int:
    ...     return 2 * number
    >>> def pipeline(numbers: Observable[int]) -> Observable[int]:
    ...     return numbers.pipe(ops.map(doubled), ops.filter(bool))
    >>> xray = explain(pipeline)
    >>> of(0, 1, 2).pipe(xray).subscribe(print) and None
    2
    4
    >>> [(each.name, each.items) for each in xray.states]
    [('source', 3), ('map(doubled)', 3), ('filter(bool)', 2)]
    """
    expect_operator(pipeline)
    return XRay(pipeline)


class XRay(Generic[A, B]):
    """A pipeline with its operators in sight: itself an operator. Made by `explain`, which see; ``str`` draws it.

    Args:
        pipeline: The operator.
    """

    def __init__(self, pipeline: Operator[A, B]) -> None:
        self.pipeline = pipeline
        self._live = _Live()

    def __call__(self, source: Observable[A]) -> Observable[B]:
        """Apply the operator."""
        made = self._apply(source, self._live)
        timing = getattr(source, "timing", None)
        return made if timing is None else timing(made)

    @property
    def states(self) -> tuple[OperatorState, ...]:
        """The source and the operators, each after those that it receives items from."""
        live = self._live
        if len(live.nodes) == 1:  # it has not been applied
            self._apply(Source[A](), live)
        recents = [node.busiest.recent for node in live.nodes.values()]
        now = max((_dated(recent[-1])[0] for recent in recents if recent), default=0.0)
        samples = live.source.busiest.samples
        return tuple(node.state(now, samples) for node in live.nodes.values())

    def operator_of(self, error: Exception) -> str:
        """The name of the operator that raised an error; empty if it is not known."""
        return self._live.culprit if self._live.failed is error else ""

    def __str__(self) -> str:
        return _drawn(self.states)

    def __repr__(self) -> str:
        return f"explain({name_of(self.pipeline)})"

    def _apply(self, source: Observable[A], live: _Live) -> Observable[B]:
        scope = _Scope((), ("",), Counter())
        made: Any = Probe(live, source, live.source, scope).apply(self.pipeline, ("",))
        if not isinstance(made, Observable):
            raise ConfigurationError(f"the pipeline returned {made!r:.60}, and no observable")
        return cast("Observable[B]", made)


class _Edge:
    """What goes from one operator to another."""

    __slots__ = ("is_inner", "items", "recent", "samples")

    def __init__(self, *, is_inner: bool) -> None:
        self.is_inner = is_inner
        self.items = self.samples = 0
        self.recent: deque[Record | tuple[_Moment, object]] = deque(maxlen=MOST_MARBLES)


class _Node:
    """An operator, and the edges that begin at it, by where they end."""

    def __init__(self, number: int, name: str, within: tuple[str, ...]) -> None:
        self.number = number
        self.name = name
        self.within = within
        self.inputs: dict[int, None] = {}
        self.edges: dict[tuple[int | None, bool], _Edge] = {}
        self.seconds = 0.0
        self.error = ""

    def edge(self, consumer: _Node | None, *, is_inner: bool) -> _Edge:
        if consumer is not None:
            consumer.inputs.setdefault(self.number)
        key = (None if consumer is None else consumer.number), is_inner
        return self.edges.setdefault(key, _Edge(is_inner=is_inner))

    @property
    def busiest(self) -> _Edge:
        """The edge that the operator is shown with: several consumers receive the same items."""
        edges = sorted(self.edges.values(), key=lambda each: (not each.is_inner, each.items))
        return edges[-1] if edges else _Edge(is_inner=False)

    def state(self, now: float, samples: int) -> OperatorState:
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
            [(at, _short(value)) for at, value in recent],
            self.error,
        )


class _Live:
    """What all applications of a pipeline share: the nodes by their places, the time, and the error that was seen last."""

    def __init__(self) -> None:
        self.source = _Node(0, "source", ())
        self.nodes: dict[object, _Node] = {None: self.source}
        self.at: _Moment | None = None  # of the item of the source that is under way
        self.timed_at: _Moment | None = None  # the same if its way is timed
        self.mark = 0.0  # until when the time is accounted for
        self.failed: Exception | None = None
        self.culprit = ""

    def node(self, place: object, name: str, within: tuple[str, ...]) -> _Node:
        found = self.nodes.get(place)
        if found is None:
            found = self.nodes[place] = _Node(len(self.nodes), name, within)
        return found

    def charge(self, node: _Node | None) -> None:
        """Account the time since the mark."""
        now = time.perf_counter()
        if node is not None:
            node.seconds += now - self.mark
        self.mark = now

    def blame(self, node: _Node | None, error: Exception) -> None:
        """Note who raised an error: it is seen first at the end of the operator that raised it."""
        if error is self.failed:
            return
        self.failed, self.culprit = error, "" if node is None else node.name
        if node is not None:
            node.error = explained(error, "", node.name)


class _Scope:
    """Where operators are applied: in which functions, and how often at each place in one application of the pipeline.

    Attributes:
        node: The node of the function, if it is one.
        made: The ends of the chains that were made in it.
    """

    def __init__(
        self,
        within: tuple[str, ...],
        place: tuple[object, ...],
        seen: Counter[object],
        node: _Node | None = None,
    ) -> None:
        self.within = within
        self.seen = seen
        self.node = node
        self.made: list[Probe] = []
        self._place = place

    def place(self, producer: _Node, where: tuple[object, ...]) -> tuple[object, ...]:
        place = (*self._place, producer.number, *where)
        self.seen[place] += 1
        return (*place, self.seen[place])


class Probe(Stage[Any]):
    """The source of an operator that is explained: the same observable, whose items are counted, and whose ``pipe`` is seen.

    Args:
        live: What is seen.
        inner: The observable.
        producer: The operator that it is the result of.
        scope: Where it is used.
        consumer: The operator of a library that it is the source of, which applies operators unseen.
        is_inner: Whether it was an item of another observable.
    """

    def __init__(
        self,
        live: _Live,
        inner: Observable[Any],
        producer: _Node,
        scope: _Scope,
        consumer: _Node | None = None,
        *,
        is_inner: bool = False,
    ) -> None:
        super().__init__()
        if isinstance(inner, Stage):
            self.is_direct, self.emits_records = inner.is_direct, inner.emits_records
            self.timing = inner.timing
        self.live = live
        self.inner = inner
        self.producer = producer
        self.consumer = consumer
        self.is_inner = is_inner
        self.is_used = False
        self._scope = scope
        self._is_opaque = consumer is not None

    def __getattr__(self, name: str) -> Any:
        """What the observable has besides, such as the ``key`` of a group."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    if not TYPE_CHECKING:  # the base's knows its types

        def pipe(self, *operators: Callable[[Any], Any]) -> Any:
            """Compose operators, from left to right, in sight."""
            if self._is_opaque:
                return super().pipe(*operators)
            caller = sys._getframe(1)
            result = self
            for index, each in enumerate(operators):
                if isinstance(result, Probe):
                    result = result.apply(each, (caller.f_code, caller.f_lasti, index))
                else:
                    result = each(result)
            if isinstance(result, Probe):
                self._scope.made.append(result)
            return result

    def apply(self, operator: Callable[[Any], Any], where: tuple[object, ...]) -> Any:
        """Apply an operator as a part of the graph.

        Args:
            operator: The operator.
            where: The place in the program.
        """
        self.is_used = True
        captured = captured_by(operator)
        if code_of(operator) is COMPOSED:
            result: Any = self
            for index, each in enumerate(captured["operators"]):
                result = result.apply(each, (*where, index))
            return result
        live, scope, name = self.live, self._scope, name_of(operator)
        place = scope.place(self.producer, where)
        if is_library(operator):
            node = live.node(place, name, scope.within)
            node.inputs.setdefault(self.producer.number)
            for branch in _probes(captured.values()):
                branch.is_used, branch.consumer = True, node
                node.inputs.setdefault(branch.producer.number)
            result = self._call(operator, scope, node)
        else:
            inside = _Scope((*scope.within, name), place, scope.seen)
            result = self._call(operator, inside, None)
            if isinstance(result, Probe) and result.live is live:
                # The function has put operators together: they are the graph.
                return Probe(live, result.inner, result.producer, scope)
            node = inside.node = live.node(place, name, scope.within)
            ends = [each.producer for each in inside.made if not each.is_used]
            for each in ends or [self.producer]:
                node.inputs.setdefault(each.number)
        if not isinstance(result, Observable):
            return result
        return Probe(live, cast("Observable[Any]", result), node, scope)

    def _call(self, operator: Callable[[Any], Any], scope: _Scope, node: _Node | None) -> Any:
        source = Probe(self.live, self.inner, self.producer, scope, node, is_inner=self.is_inner)
        try:
            result = operator(source)
        except TypeError:
            expect_operator(operator)
            raise
        if isinstance(result, FunctionType):
            expect_operator(operator)
        return result

    def _given(self, value: Any, consumer: _Node | None) -> Any:
        """An item as the consumer is given it: of an observable, such as a group, the operators are seen too."""
        if value.__class__ not in _OBSERVABLES or consumer is None:
            return value
        within = (*self._scope.within, consumer.name)
        scope = _Scope(within, (consumer.number,), Counter(), consumer)
        if isinstance(value, Probe) and not value.is_inner:  # the end of a chain
            return Probe(value.live, value.inner, value.producer, scope)
        inner = value.inner if isinstance(value, Probe) else value
        return Probe(self.live, inner, self.producer, scope, is_inner=True)

    def subscribe(
        self,
        on_next: abc.ObserverBase[Any] | abc.OnNext[Any] | None = None,
        on_error: abc.OnError | None = None,
        on_completed: abc.OnCompleted | None = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        """Subscribe an observer of another library, or functions."""
        observer: Any = on_next
        if not callable(getattr(observer, "on_next", None)):
            observer = Sink[Any](observer or noop, on_error or default_error, on_completed or noop)
        return self._attach(observer, scheduler, is_guarded=True)

    def _subscribe_core(
        self, observer: abc.ObserverBase[Any], scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        return self._attach(observer, scheduler, is_guarded=not isinstance(self.inner, Stage))

    def _attach(
        self,
        observer: abc.ObserverBase[Any],
        scheduler: abc.SchedulerBase | None,
        *,
        is_guarded: bool,
    ) -> abc.DisposableBase:
        """Count on the way to an observer, in place of the guard that would be there without."""
        producer, live = self.producer, self.live
        consumer = self.consumer or self._scope.node
        edge = producer.edge(consumer, is_inner=self.is_inner)
        is_source = producer is live.source
        push, push_many = observer.on_next, many(observer)
        keep = edge.recent.append
        clock = scheduler or TRAMPOLINE
        has_plain = False  # the first item was no observable, and so is none
        left = 1  # items of the source until the next one whose way is timed

        def from_source(value: Any) -> None:
            nonlocal left
            if guard._is_stopped:
                return
            left -= 1
            edge.items += 1
            if not left or value.__class__ is not Record:
                value = self._given(value, consumer)
                begin(push, value, value)
                return
            keep(value)
            live.at = value
            try:
                push(value)
            except Exception as error:
                live.at = None
                live.blame(consumer, error)
                raise
            live.at = None

        def begin(push: Callable[[Any], None], pushed: Any, last: Any) -> None:
            """Push what comes from the source, timed if it is its turn."""
            nonlocal left
            now = last if last.__class__ is Record else clock.now
            keep((now, last))
            if left:
                live.at = now
            else:
                left = SAMPLE
                edge.samples += 1
                live.timed_at = now
                live.mark = time.perf_counter()
            try:
                hand_over(push, pushed)
            finally:
                live.at = live.timed_at = None

        def on_next(value: Any) -> None:
            nonlocal has_plain
            if guard._is_stopped:
                return
            edge.items += 1
            if not has_plain:
                has_plain = value.__class__ not in _OBSERVABLES
                value = self._given(value, consumer)
            if (at := live.at) is None:
                go_on(push, value, value)
                return
            keep((at, value))
            try:
                push(value)
            except Exception as error:
                live.blame(consumer, error)
                raise

        def go_on(push: Callable[[Any], None], pushed: Any, last: Any) -> None:
            """Push what is timed, what a timer has emitted, or several items."""
            if live.timed_at is not None:
                live.charge(producer)
            keep((live.timed_at or live.at or clock.now, last))
            hand_over(push, pushed)

        def hand_over(push: Callable[[Any], None], pushed: Any) -> None:
            try:
                push(pushed)
            except Exception as error:
                live.blame(consumer, error)
                raise
            finally:
                if live.timed_at is not None:
                    live.charge(consumer)

        def on_many(parts: Parts[Any]) -> None:
            nonlocal left
            if is_guarded or parts[0].__class__ in _OBSERVABLES:
                for value in flatten(parts):
                    push_one(value)
                return
            left -= 1
            last: Any = parts[-1]
            edge.items += sum(len(part) if part.__class__ is Deltas else 1 for part in parts)
            if last.__class__ is Deltas:
                last = last[len(last) - 1]
            (begin if is_source else go_on)(push_many, parts, last)

        def on_error(error: Exception) -> None:
            live.blame(producer, error)
            observer.on_error(error)

        def subscribe(_: object, scheduler: Scheduler) -> abc.DisposableBase:
            return self.inner._subscribe_core(sink, scheduler)

        push_one = from_source if is_source else on_next
        guard = Guard[Any](push_one, on_error, observer.on_completed)
        if not is_guarded:
            sink = Sink[Any](push_one, on_error, observer.on_completed, on_many)
            return connect(self.inner, sink, scheduler)
        sink = Sink[Any](push_one, guard.on_error, guard.on_completed, on_many)
        if self.is_direct or not TRAMPOLINE.schedule_required():
            guard.begin(subscribe, scheduler)
        else:
            TRAMPOLINE.schedule(partial(guard.begin, subscribe, scheduler))
        return Call(guard.dispose)


_OBSERVABLES: frozenset[type[object]] = frozenset(
    {Observable, GroupedObservable, ConnectableObservable, Probe}
)
"""The observables that are seen as items. The classes of others may mean something to the operator that is given them, as `Block` does."""


def _seconds(at: _Moment) -> float:
    return at.time if isinstance(at, Record) else (at - UTC_ZERO).total_seconds()


def _dated(item: Record | tuple[_Moment, object]) -> tuple[float, object]:
    return (item.time, item) if isinstance(item, Record) else (_seconds(item[0]), item[1])


def _probes(values: Iterable[object], depth: int = 4) -> Iterator[Probe]:
    """The probes that an operator was given, such as those of ``ops.merge(...)``."""
    for value in values:
        if isinstance(value, Probe):
            yield value
        elif depth and isinstance(value, tuple | list):
            yield from _probes(cast("Sequence[object]", value), depth - 1)
        elif depth and isinstance(value, FunctionType):
            yield from _probes(captured_by(value).values(), depth - 1)


# Text


def _short(value: object) -> str:
    """An item in a few characters: a number, a text, or what it is."""
    if isinstance(value, str):
        text = " ".join(value.split())
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int | float):
        return f"{value:.6g}"
    return type(value.event if isinstance(value, Record) else value).__name__


def _drawn(states: Sequence[OperatorState]) -> str:
    """The operators, one a line, with their last items on one axis of time."""
    times = [at for state in states for at, _ in state.last]
    begin, end = (min(times), max(times)) if times else (0.0, 0.0)
    rows = [("", "operator", "from", "last items", "items", "a second", "lag", "µs", "in")]
    rows += [
        (
            str(each.id),
            each.name,
            ",".join(map(str, each.inputs)),
            _marbles(each, begin, end),
            str(each.items),
            f"{each.rate:.3g}",
            "" if each.lag is None else f"{each.lag:.3g}",
            f"{each.micros:.3g}",
            " > ".join(each.within),
        )
        for each in states
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines: list[str] = []
    for row, state in zip(rows, (None, *states), strict=True):
        cells = [
            text.ljust(width) if at in (1, 3, 8) else text.rjust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
        if state is not None and state.error:
            lines.append(f"{'':{widths[0]}}  has stopped: {state.error}")
    return "\n".join(lines)


def _marbles(state: OperatorState, begin: float, end: float) -> str:
    """The last items as marbles: the newest whole, older ones where there is room for them."""
    line = ["-"] * COLUMNS
    scale = (COLUMNS - 1) / (end - begin) if end > begin else 0.0
    free = COLUMNS + LONGEST
    for at, text in reversed(state.last):
        mark = text if len(text) <= 4 else text[0].lower()
        place = round((at - begin) * scale)
        if place + len(mark) < free or free > COLUMNS:
            line[place : place + len(mark)] = mark
            free = place
    return "".join(line) + ("#" if state.error else "")
