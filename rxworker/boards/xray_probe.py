"""How a pipeline is seen as it is put together: sources whose ``pipe`` gives each operator another such source.

Theory of operation. What the pipeline is made of is seen: chains, functions that make chains, branches that are
arguments of an operator, and the chains that are made for each group. An operator of a library is one node, whatever it
does inside, and so is a function whose result was not made by ``pipe``. A pipeline that is put together again, for
another group, counts in the same nodes: a node is known by the place of its ``pipe``.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any, cast

import reactivex.operators
from reactivex import Observable, abc
from reactivex.internal import default_error, noop

from rxworker.boards.operator_names import is_library, name_of, written_at, written_name
from rxworker.boards.xray_count import OBSERVABLES, CountedSource, Live, Node, Tap
from rxworker.operators.disposables import Call
from rxworker.operators.factories import expect_operator
from rxworker.operators.kernel import TRAMPOLINE, Scheduler, Sink, Stage, connect

_CURRIED = name_of(reactivex.operators.map(abs))
"""The name that reactivex gives all its operators."""


class Scope:
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
        node: Node | None = None,
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

        def pipe(self, *operators: Callable[[Any], Any]) -> Any:
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

    def apply(self, operator: Callable[[Any], Any], caller: FrameType | None = None, index: int = 0) -> Any:
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
            if name == _CURRIED and caller is not None and (written := written_at(caller)):
                node.name = written_name(written[index])
                for branch in self._branches(written[index], caller):
                    branch.is_used, branch.consumer = True, node
                    node.inputs.setdefault(branch.producer.number)
            result = self._call(operator, scope, node)
            if node.name == _CURRIED:
                node.name = getattr(result, "_subscribe", operator).__qualname__.partition("_.<locals>")[0]
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

    def _branches(self, written: ast.expr, caller: FrameType) -> Iterator[Probe]:
        """What an operator such as ``ops.merge(...)`` is given: variables, and what ``pipe`` makes in its place."""
        if any(isinstance(each, ast.Attribute) and each.attr == "pipe" for each in ast.walk(written)):
            yield from [each for each in self._scope.made if not each.is_used]
        for each in written.args if isinstance(written, ast.Call) else ():
            value = caller.f_locals.get(each.id) if isinstance(each, ast.Name) else None
            if isinstance(value, Probe):
                yield value

    def _call(self, operator: Callable[[Any], Any], scope: Scope, node: Node | None) -> Any:
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
        consumer = self.consumer or self._scope.node
        if isinstance(self.inner, CountedSource):
            return self.inner.attach(observer, consumer)
        edge = self.producer.edge(consumer, is_inner=self.is_inner)
        tap = Tap(self.live, self.producer, consumer, edge, self._given)
        sink, guard = tap.sink(observer, scheduler, is_guarded=is_guarded)
        if not is_guarded:
            return connect(self.inner, sink, scheduler)

        def subscribe(_: object, scheduler: Scheduler) -> abc.DisposableBase:
            return self.inner._subscribe_core(sink, scheduler)

        if self.is_direct or not TRAMPOLINE.schedule_required():
            guard.begin(subscribe, scheduler)
        else:
            TRAMPOLINE.schedule(partial(guard.begin, subscribe, scheduler))
        return Call(guard.dispose)


OBSERVABLES.add(Probe)
