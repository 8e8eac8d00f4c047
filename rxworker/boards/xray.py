"""X-ray.

The operators of a pipeline as a graph, and, while it runs, what each emits, how long it takes, and which one raised.

No operator knows of it, and where nothing is explained nothing of it is in the way. `XRay` applies a pipeline to a
`Probe` (xray_probe.py), which sees what it is made of; a `Tap` between two operators counts (xray_count.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from reactivex import Observable

from rxworker.boards.operator_names import name_of
from rxworker.boards.xray_count import CountedSource, Live, OperatorState
from rxworker.boards.xray_probe import Probe, Scope
from rxworker.boards.xray_text import operators_text
from rxworker.errors import ConfigurationError
from rxworker.events import Record
from rxworker.messages.settings import check_plain
from rxworker.operators.factories import expect_operator
from rxworker.operators.kernel import Operator, Source

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
    whose result was not made by ``pipe``, and what ``reactivex.compose`` makes. Operators of reactivex are named as
    they are written between the parentheses of ``pipe``.

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
        scope = Scope((), ("",), Counter())
        made: Any = Probe(live, source, live.source, scope).apply(self.pipeline)
        if not isinstance(made, Observable):
            raise ConfigurationError(f"the pipeline returned {made!r:.60}, which is not an observable")
        return cast("Observable[B]", made)


def source_of(pipeline: Operator[Record, Any]) -> Source[Record]:
    """The source of records of a panel with this pipeline."""
    return cast("XRay[Record, Any]", pipeline).source() if isinstance(pipeline, XRay) else Source()
