"""X-ray: the operators of a pipeline as a graph, and while it runs, what each emits, its time, and which raised.

No operator knows of it, and where nothing is explained nothing of it is in the way. `XRay` applies a pipeline to a
`Probe`, which sees what it is made of; a `Tap` between two operators counts (xray_count.py).

Theory of operation. A probe is a source whose ``pipe`` gives each operator another such source. So what the pipeline
is made of is seen as it is put together: chains, functions that make chains, branches that are arguments of an
operator, and the chains that are made for each group. An operator of a library is one node, whatever it does inside,
and so is a function whose result was not made by ``pipe``. A pipeline that is put together again, for another group,
counts in the same nodes: a node is known by the place of its ``pipe``.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from reactivex import Observable, abc

from rxworker.boards.operator_names import given_to, is_library, name_of
from rxworker.boards.xray_count import LONGEST, OBSERVABLES, CountedSource, Live, Node, OperatorState, Tap
from rxworker.errors import ConfigurationError
from rxworker.events import Record
from rxworker.messages.settings import check_plain
from rxworker.operators.factories import expect_operator
from rxworker.operators.kernel import Operator, Source, Stage, connect


class Scope:
    """Where operators are applied: in which functions, and how often at each place in one application of the pipeline.

    Attributes:
        node: The node of the function, if it is one.
        made: The ends of the chains that were made in it.
    """

    def __init__(
        self, within: tuple[str, ...], place: tuple[object, ...], seen: Counter[object], node: Node | None = None
    ) -> None:
        self.within = within
        self.seen = seen
        self.node = node
        self.made: list[Probe] = []
        self._place = place

    def place(self, producer: Node, where: tuple[object, ...]) -> tuple[object, ...]:
        """The place of an operator, as a key."""
        place = (*self._place, producer.number, *where)
        self.seen[place] += 1
        return (*place, self.seen[place])


class Probe(Stage[Any]):
    """The source of an operator that is explained.

    The same observable, whose items are counted, and whose ``pipe`` is seen.

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
        live: Live,
        inner: Observable[Any],
        producer: Node,
        scope: Scope,
        consumer: Node | None = None,
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

        def pipe(self, *operators: Callable[[Any], object]) -> Any:
            """Compose operators, from left to right, in sight."""
            if self._is_opaque:
                return super().pipe(*operators)
            caller = sys._getframe(1)
            result = self
            for index, each in enumerate(operators):
                result = result.apply(each, caller, index) if isinstance(result, Probe) else each(result)
            if isinstance(result, Probe):
                self._scope.made.append(result)
            return result

    def apply(self, operator: Callable[[Any], object], caller: FrameType | None = None, index: int = 0) -> Any:
        """Apply an operator as a part of the graph.

        Args:
            operator: The operator.
            caller: What has called ``pipe``.
            index: The place of the operator among the arguments of that call.
        """
        self.is_used = True
        live, scope, name = self.live, self._scope, name_of(operator)
        place = scope.place(self.producer, (caller and (caller.f_code, caller.f_lasti), index))
        if is_library(operator):
            node = live.node(place, name, scope.within)
            node.inputs.setdefault(self.producer.number)
            for branch in given_to(operator):  # such as that of ``ops.merge(...)``
                if isinstance(branch, Probe):
                    branch.is_used, branch.consumer = True, node
                    node.inputs.setdefault(branch.producer.number)
            result = self._call(operator, scope, node)
        else:
            inside = Scope((*scope.within, name), place, scope.seen)
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

    def _call(self, operator: Callable[[Any], object], scope: Scope, node: Node | None) -> Any:
        source = Probe(self.live, self.inner, self.producer, scope, node, is_inner=self.is_inner)
        try:
            result = operator(source)
        except TypeError:
            expect_operator(operator)
            raise
        if isinstance(result, FunctionType):
            expect_operator(operator)
        return result

    def _given(self, consumer: Node, value: Any) -> Any:
        """An observable, such as a group, as the consumer is given it: its operators are seen too."""
        scope = Scope((*self._scope.within, consumer.name), (consumer.number,), Counter(), consumer)
        if isinstance(value, Probe) and not value.is_inner:  # the end of a chain
            return Probe(value.live, value.inner, value.producer, scope)
        inner = value.inner if isinstance(value, Probe) else value
        return Probe(self.live, inner, self.producer, scope, is_inner=True)

    def _subscribe_core(
        self, observer: abc.ObserverBase[Any], scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        consumer = self.consumer or self._scope.node
        if isinstance(self.inner, CountedSource):
            return self.inner.attach(observer, consumer)
        tap = Tap(self.live, self.producer, consumer, self.producer.edge(consumer, is_inner=self.is_inner), self._given)
        return connect(self.inner, tap.sink(observer, scheduler), scheduler)


OBSERVABLES.add(Probe)


COLUMNS = 32
"""The width of a drawing."""
SIDES = "><><>>>><"
"""Where the texts of each column of a drawing stand."""


def operators_text(states: Sequence[OperatorState]) -> str:
    """The operators, one a line, with their last items on one axis of time.

    Args:
        states: The operators; see `XRay.states`.
    """
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
        cells = [f"{text:{side}{width}}" for text, side, width in zip(row, SIDES, widths, strict=True)]
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
        # A number in part would be another number.
        mark = text if len(text) <= (8 if text[:1] in "-0123456789" else 4) else text[0].lower()
        place = round((at - begin) * scale)
        if place + len(mark) < free or free > COLUMNS:
            line[place : place + len(mark)] = mark
            free = place
    return "".join(line) + ("#" if state.error else "")


A = TypeVar("A")
B = TypeVar("B")


def explain(pipeline: Operator[A, B]) -> XRay[A, B]:
    """The operators of a pipeline, and what they do while it runs.

    The result is the same operator: put it in the place of the pipeline, in ``pipe`` or in a `panel`, and read it
    whenever you like.

        --2--3-----1--|
        [ explain(total) ]     emits what total emits
        --2--5-----6--|

    An operator that subscribes to something inside, such as ``ops.publish(mapper)``, is one node, as is a function
    whose result was not made by ``pipe``, and what ``reactivex.compose`` makes. An operator is named with the
    functions and the numbers that it was given.

    Args:
        pipeline: The operator, made of ours, reactivex's and your own.

    Raises:
        ConfigurationError: It is not an operator.

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
    return cast("XRay[A, B]", pipeline) if isinstance(pipeline, XRay) else XRay(pipeline)


class XRay(Generic[A, B]):
    """A pipeline with its operators in sight: itself an operator. Made by `explain`, which see; ``str`` draws it.

    Args:
        pipeline: The operator.
    """

    def __init__(self, pipeline: Operator[A, B]) -> None:
        self.pipeline = pipeline
        self._live = Live()

    def __call__(self, source: Observable[A]) -> Observable[B]:
        """Apply the operator."""
        made = self._apply(source, self._live)
        timing = getattr(source, "timing", None)
        return made if timing is None else timing(made)

    def source(self) -> Source[Record]:
        """A source of records to apply it to, which counts them for less than another one does."""
        return CountedSource(self._live)

    @property
    def states(self) -> tuple[OperatorState, ...]:
        """The source and the operators, each after those that it receives items from."""
        return self.redacted(str)

    def redacted(self, redact: Callable[[str], str]) -> tuple[OperatorState, ...]:
        """As `states`, for others.

        Args:
            redact: Removes secrets from a text, which is cut only then.
        """
        check_plain("redacted(redact)", redact)
        live = self._live
        if len(live.nodes) == 1:  # it has not been applied
            self._apply(Source[A](), live)
        return live.states(redact)

    def operator_of(self, error: Exception) -> str:
        """The name of the operator that raised an error; empty if it is not known."""
        return self._live.culprit if self._live.failed is error else ""

    def __str__(self) -> str:
        return operators_text(self.states)

    def __repr__(self) -> str:
        return f"explain({name_of(self.pipeline)})"

    def _apply(self, source: Observable[A], live: Live) -> Observable[B]:
        made: Any = Probe(live, source, live.source, Scope((), ("",), Counter())).apply(self.pipeline)
        if not isinstance(made, Observable):
            raise not_an_observable(made)
        return cast("Observable[B]", made)


def not_an_observable(made: object) -> ConfigurationError:
    """The error of a pipeline that returned something else.

    >>> print(not_an_observable(print))
    the pipeline returned <built-in function print>, which is not an observable: call what makes the operator, with \
parentheses
    """
    remedy = ": call what makes the operator, with parentheses" if callable(made) else ": return records.pipe(...)"
    return ConfigurationError(f"the pipeline returned {made!r:.60}, which is not an observable{remedy}")


def source_of(pipeline: Operator[Record, Any]) -> Source[Record]:
    """The source of records of a panel with this pipeline."""
    return cast("XRay[Record, Any]", pipeline).source() if isinstance(pipeline, XRay) else Source()
