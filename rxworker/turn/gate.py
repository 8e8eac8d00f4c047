"""The gates of a run: `hold_back` in the operators of its worker, and in those of the runs around it.

Theory of operation. The operators let the responses pass. What tools write goes through the same gates in the pipe of
the calls, before and after the hooks of their results; a value that has passed once is not checked again. Each call has
a row of its own, so that none waits for the checks of another, and its start, which has arguments that have passed, is
never held. What hooks emit, and changes of the shared state, have a row of the run; what is refused there is dropped.

A run inside a tool call has the gates of the runs around it, so that what it records has passed when it is relayed. The
requests of checks are on their own: they neither wait for the connection that waits for them nor belong to the run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from msgspec.structs import replace
from reactivex import Observable

from rxworker.errors import reason_of
from rxworker.events import Event, ToolOutput, ToolProgress, ToolStop
from rxworker.messages import ToolResult
from rxworker.operators.gate import Gate, Row, Tally, texts_in
from rxworker.operators.hold_back import whole_of
from rxworker.operators.kernel import Operator
from rxworker.tools.calls import CallItem, FinishedCall, PendingCall
from rxworker.tools.coroutines import Following, Rest, following
from rxworker.transport.base import ACCOUNT, PRESSURE
from rxworker.turn.account import RunAccount
from rxworker.turn.context import ResponseOperator, RunContext

logger = logging.getLogger("rxworker.worker")


def gate_of(operator: object) -> Gate | None:
    """The gate of an operator; ``None`` for another operator than `hold_back`."""
    return getattr(operator, "gate", None)


def operators_of(context: RunContext) -> Sequence[ResponseOperator]:
    """The operators of the responses of a run: its worker's, and the gates of the runs around it."""
    own = context.worker.operators
    outer = [each for run in context.parents for each in run.worker.operators if gate_of(each) is not None]
    return (*own, *[each for each in dict.fromkeys(outer) if each not in own]) if outer else own


def gates_of(context: RunContext) -> list[Gate]:
    """The gates of a run, in order."""
    return [gate for each in operators_of(context) if (gate := gate_of(each)) is not None]


def check_context(run: RunContext | None) -> Context:
    """The context of checks: what they request waits for nothing, and no record of the run has its text."""
    context = copy_context()
    context.run(PRESSURE.set, None)
    context.run(ACCOUNT.set, None if run is None else RunAccount(run, "check"))
    return context


_Take: TypeAlias = Callable[[Event], None]
CallOperator: TypeAlias = Operator[CallItem, CallItem]


def gate_calls(gates: Sequence[Gate], context: RunContext | None = None) -> tuple[CallOperator, CallOperator]:
    """The operators for what tools write in a run: before the hooks of the results, and after them."""
    known: list[dict[int, ToolResult]] = [{} for _ in gates]

    def apply(source: Observable[CallItem]) -> Observable[CallItem]:
        for gate, passed in zip(gates, known, strict=True):
            source = following(partial(_Gated, context, gate, passed))(source)
        return source

    return apply, apply


class EventGate:
    """Gives events to a function when they have passed: those of hooks and of calls in the background.

    What is refused is dropped, and the result of a call in the background is replaced: there is nothing that could
    fail at once.

    Args:
        context: The run.
        gates: The gates.
    """

    def __init__(self, context: RunContext, gates: Sequence[Gate]) -> None:
        several = [replace(gate, replacement=gate.replacement or "") for gate in gates]
        emit = context.journal.emit  # their verdicts
        self._rows = [Row[Event](gate, emit, _failed, check_context(context)) for gate in several]

    def __call__(self, event: Event, emit: _Take) -> None:
        """Give an event to the function when it has passed."""
        self._take(0, event, emit)

    def _take(self, number: int, event: Event, emit: _Take) -> None:
        if number == len(self._rows):
            emit(event)
            return
        row, passed = self._rows[number], partial(self._take, number + 1, event, emit)
        if isinstance(event, ToolStop) and event.result is not None:
            left = replace(event, result=replace(event.result, content=row.gate.replacement or HELD_RESULT))
            row.put_value(_texts_of(event.result), Tally("result"), passed, partial(self._take, number + 1, left, emit))
        elif (whole := whole_of(event)) is not None:
            row.put_value([*texts_in(whole[1](event))], Tally(whole[0]), passed, bool)
        else:
            row.then(passed)

    async def idle(self) -> None:
        """Wait until all have passed."""
        for row in self._rows:
            while (passed := row.idle()) is not None:
                await passed


def _failed(error: Exception) -> None:
    logger.error("a check of hold_back failed, so that no event of a hook passes any more: %s", reason_of(error))


HELD_RESULT = "This result was held back by a check."


def _texts_of(result: ToolResult) -> list[str]:
    content = result.content
    texts = [*texts_in(content)]
    return texts if isinstance(content, str) else [*texts, result.text]  # as it is read


@dataclass(eq=False)
class _Gated(Following[CallItem, CallItem]):
    """What the calls of one turn write, through one gate.

    Attributes:
        _context: The run.
        _gate: The gate.
        _passed: The results that have passed it, by their places.
        _emit: Emits an item.
        _fail: Fails the stream.
        _given: The results that stand in the rows, by their places.
        _rows: The rows, by the places of their calls.
        _error: Why a row has ended.
        _is_finishing: Whether the source has completed.
    """

    _context: RunContext | None
    _gate: Gate
    _passed: dict[int, ToolResult]
    _emit: Callable[[CallItem], None]
    _fail: Callable[[Exception], None]
    _given: dict[int, ToolResult] = field(default_factory=dict[int, ToolResult])
    _rows: dict[int, Row[CallItem]] = field(default_factory=dict[int, Row[CallItem]])
    _error: Exception | None = None
    _is_finishing: bool = False

    def take(self, item: CallItem) -> None:
        """Let an item pass after a check of what it carries."""
        if isinstance(item, FinishedCall | ToolStop | ToolOutput):
            self._take_result(item, item.result)
        elif isinstance(item, PendingCall) and item.paused.begun is not None:
            texts = [*texts_in((item.reason, item.paused.begun))]
            row, tally = self._row(item.paused.place), Tally("question", call_id=item.paused.call.id)
            row.put_value(texts, tally, partial(self._emit, item), partial(self._refuse, item))
        elif (whole := whole_of(item)) is not None:
            kind, texts_of, _ = whole
            row = self._row(item.place if isinstance(item, ToolProgress) else -1)
            tally = Tally(kind, call_id=getattr(item, "call_id", ""))
            row.put_value([*texts_in(texts_of(item))], tally, partial(self._emit, item), bool)
        else:
            self._emit(item)

    def _take_result(self, item: FinishedCall | ToolStop | ToolOutput, result: ToolResult | None) -> None:
        place = item.place
        row, given = self._row(place), self._given.get(place)
        if result is None or result == self._passed.get(place):
            row.pass_on(item)
        elif result == given:
            row.then(partial(self._emit_known, item))
        else:
            self._given[place] = result
            left = replace(result, content=self._gate.replacement or "")
            row.put_value(
                _texts_of(result),
                Tally("result", call_id=result.tool_use_id),
                partial(self._decided, item, result),
                partial(self._decided, item, left),
            )

    def _decided(self, item: Any, left: ToolResult) -> None:
        self._passed[item.place] = left
        self._emit_known(item)

    def _emit_known(self, item: Any) -> None:
        self._emit(replace(item, result=self._passed[item.place]))

    def _refuse(self, item: PendingCall) -> None:
        """A question that no person may read: the call ends with an error."""
        paused = item.paused
        result = ToolResult(paused.call.id, self._gate.replacement or "", is_error=True, name=paused.call.name)
        self._emit(ToolStop(result, place=paused.place))
        self._emit(FinishedCall(paused, result, is_final=True))

    def _row(self, place: int) -> Row[CallItem]:
        if place not in self._rows:
            self._rows[place] = Row(self._gate, self._emit, self._end, check_context(self._context))
        return self._rows[place]

    def _end(self, error: Exception) -> None:
        self._error = self._error or error
        for row in self._rows.values():
            row.dispose()
        if not self._is_finishing:
            self._fail(error)

    def finish(self) -> Rest | None:
        """Wait for what is checked."""
        self._is_finishing = True
        waits = self._error is not None or any(row.idle() is not None for row in self._rows.values())
        return self._until_passed() if waits else None

    async def _until_passed(self) -> None:
        for row in self._rows.values():
            while (passed := row.idle()) is not None:
                await passed
        if self._error is not None:
            raise self._error

    def stop(self) -> Rest | None:
        """Cancel the checks."""
        for row in self._rows.values():
            row.dispose()
        return None
