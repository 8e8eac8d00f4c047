"""A reactivex operator as a hook.

The operator gets each context as an observable of one item. Its verdict is known when it completes: the context itself
means go on, a verdict of the point means that verdict, and an error means `Abort`. Anything else is a `HookError`, so
that a mistake in an operator never lets through what the hook was meant to stop.

One that remembers has one subscription, through which all contexts go. Contexts are pushed into a subject as they come.
The verdict on a context is what the operator does with it: the very object comes out again, or a verdict does. An
operator that decides at once (``filter``, ``take``, ``throttle_first``) has emitted by the time the push returns. One
that takes its time (``delay``) is waited for, with ``waits``.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar, cast, get_origin

import reactivex
from reactivex import Observable, Subject, abc
from reactivex.disposable import SerialDisposable
from reactivex.scheduler import CurrentThreadScheduler

from rxworker.errors import describe, message_of
from rxworker.hooks.context import HookContext
from rxworker.hooks.points import (
    ENDINGS,
    VERDICTS,
    Abort,
    Cancel,
    Continue,
    Finish,
    HookPoint,
    Skip,
    Verdict,
    wrong_verdict,
)
from rxworker.operators.factories import expect_operator
from rxworker.tools.function import LoopScheduler, follow

logger = logging.getLogger("rxworker.hooks")

A = TypeVar("A")
C = TypeVar("C", bound=HookContext)

ContextOperator: TypeAlias = Callable[[Observable[C]], Observable[C | Verdict]]
"""An operator over the contexts of a point, which emits contexts, verdicts, or both."""

REASON = "This call was not allowed."
THE_CONTEXT = "the context that the operator received"


class OperatorFunction(Generic[C]):
    """An operator over contexts, to be given where a hook's function is. Made by `from_operator`."""

    def __init__(self, operator: ContextOperator[C], name: str, reason: str | None = None) -> None:
        self.operator = operator
        self.reason = reason
        self.__name__ = name

    def __call__(self, context: C) -> Observable[C | Verdict]:
        """The context through the operator."""
        return reactivex.just(context).pipe(self.operator)

    async def decide(self, context: C, point: str) -> Verdict | None:
        """The verdict that the operator's notifications mean at this point.

        Raises:
            HookError: It emitted something other than the context or one verdict of the point.
        """
        at = HookPoint(point)
        try:
            emitted = cast("object", self(context))
        except Exception as error:
            return refused(at, error)
        if not isinstance(emitted, Observable):
            if inspect.iscoroutine(emitted):
                emitted.close()  # a hook's function was given in the place of an operator
            what = f"is made of an operator that returned {emitted!r} instead of an observable"
            raise wrong_verdict(what, context.hook or self.__name__, at, THE_CONTEXT)
        return await verdict_from(cast("Observable[object]", emitted), context, at, self.reason)


def from_operator(
    operator: ContextOperator[C], *, name: str | None = None, reason: str | None = None
) -> OperatorFunction[C]:
    """A reactivex operator as a hook's function, with a name and a reason.

    A hook's function may be the operator itself: ``before_tool_call(ops.filter(is_inside))``. The operator sees each
    context as an observable of one item. The verdict is known when it completes:

        --c|      the context
        [ operator ]
        --c|      Continue                 (Finish at on_turn_end)
        --V|      the verdict V            (one that the point accepts)
        ---|      Skip                     (Cancel at on_message_send, Abort at after_tool_call)
        --x       Abort                    (Cancel at on_message_send)
        other     HookError                (another object, another point's verdict, contradictory items)

    At ``on_turn_end`` completing without an item is `Finish`, and an error is the hook's failure; at ``on_abort`` every
    item but the context is. An operator that does not complete is waited for until the hook's ``timeout``. An operator
    that is to remember what it saw before is for `from_stateful_operator`.

    Args:
        operator: Emits the context it received, or a verdict, or neither.
        name: Its name; by default the operator's own name.
        reason: The reason in the verdict if the operator completes without an item.

    Example:
        >>> import asyncio
        >>> from reactivex import operators as ops
        >>> from rxworker.messages import Conversation
        >>> def is_foreign(context: HookContext) -> bool:
        ...     return context.run_id != "ours"
        >>> permit = from_operator(ops.filter(is_foreign))
        >>> context = HookContext(conversation=Conversation(), emit=print, run_id="ours")
        >>> asyncio.run(permit.decide(context, "before_tool_call"))
        Skip(reason='This call was not allowed.')
    """
    expect_operator(operator)
    return OperatorFunction(operator, name or name_of(operator), reason)


def as_operator(function: object) -> object:
    """The function itself, or an `OperatorFunction` of it where it is a bare reactivex operator.

    An operator is known by where it comes from, which is reactivex, or by its first parameter, which is annotated as an
    observable.

    >>> from reactivex import operators as ops
    >>> isinstance(as_operator(ops.take(1)), OperatorFunction)
    True
    >>> as_operator(print) is print
    True
    """
    if isinstance(function, OperatorFunction) or not callable(function):
        return cast("object", function)
    target: Callable[..., Any] = function
    if inspect.ismethod(function) and _is_of_reactivex(function.__func__):
        target = function.__func__  # a class attribute, which Python has bound to the object
    return from_operator(target) if _is_of_reactivex(target) or _takes_observable(target) else function


def _is_of_reactivex(function: object) -> bool:
    return str(getattr(function, "__module__", "")).partition(".")[0] == "reactivex"


def _takes_observable(function: Callable[..., object]) -> bool:
    try:
        signature = inspect.signature(function, eval_str=True)
    except Exception:  # a name in an annotation that only the type checker knows
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            return False
    first = next(iter(signature.parameters.values()), None)
    hint: object = None if first is None else first.annotation
    if isinstance(hint, str):
        return hint.partition("[")[0].rpartition(".")[2] == "Observable"
    kind = get_origin(hint) or hint
    return isinstance(kind, type) and issubclass(kind, Observable)


def name_of(operator: object) -> str:
    """The operator's own name. The functions of reactivex all have the same name, which identifies none of them."""
    name = str(getattr(operator, "__name__", "operator"))
    return "operator" if _is_of_reactivex(operator) or name == "<lambda>" else name


async def verdict_from(
    emitted: Observable[Any], context: HookContext, point: HookPoint, reason: str | None = None
) -> Verdict | None:
    """The verdict of an observable, after its completion.

    Raises:
        HookError: It emitted something other than the context or one verdict of the point.
    """
    items: list[object] = []
    error = await follow(emitted, items.append, _Clock)
    return judge(items, context, point, reason) if error is None else refused(point, error)


def judge(items: Sequence[object], context: HookContext, point: HookPoint, reason: str | None) -> Verdict | None:
    """The verdict for the items that an operator emitted for a context.

    Raises:
        HookError: They are something other than the context or one verdict of the point.
    """
    if not items:
        return dropped(point, reason)
    if all(item is context for item in items):
        return PASSED.get(point, Continue())
    first = items[0]
    if len(items) == 1 and isinstance(first, VERDICTS[point]):
        return first
    what = f"emitted {first!r}" if len(items) == 1 else f"emitted several items, {items!r},"
    raise wrong_verdict(what, context.hook, point, THE_CONTEXT)


PASSED = {HookPoint.ON_TURN_END: Finish(), HookPoint.ON_ABORT: None}
"""The verdict if the operator emits the context, where it is not `Continue`."""
DROPPED: dict[HookPoint, tuple[Callable[[str], Verdict], str]] = {
    HookPoint.BEFORE_TOOL_CALL: (Skip, REASON),
    HookPoint.ON_MESSAGE_SEND: (Cancel, "the request was held back"),
    HookPoint.AFTER_TOOL_CALL: (Abort, "the result was held back"),
}
"""The verdict if the operator does not emit the context, and its default reason; none at the other points."""


def refused(point: HookPoint, error: BaseException) -> Verdict:
    """The verdict at this point if the operator fails."""
    if point not in ENDINGS or not isinstance(error, Exception):
        raise error
    return ENDINGS[point](message_of(error) or type(error).__name__)


def dropped(point: HookPoint, reason: str | None) -> Verdict | None:
    """The verdict at this point if the operator does not emit the context."""
    if point not in DROPPED:
        return None
    verdict, default = DROPPED[point]
    return verdict(reason or default)


class _Clock(LoopScheduler):
    """For operators that were given no scheduler.

    They wait on the event loop, and what need not wait is done at once.
    """

    def schedule(self, action: abc.ScheduledAction[A], state: A | None = None) -> abc.DisposableBase:
        return CurrentThreadScheduler.singleton().schedule(action, state)


class _Pending(Generic[C]):
    """A context that was pushed into the operator, and the items that the operator has emitted for it.

    Attributes:
        items: The context itself, verdicts, and any other item.
        answered: Done at the first of these, and when the operator has ended.
        error: The operator's exception.
    """

    __slots__ = ("answered", "context", "error", "items")

    def __init__(self, context: C, answered: asyncio.Future[None]) -> None:
        self.context = context
        self.answered = answered
        self.items: list[object] = []
        self.error: BaseException | None = None

    def answer(self, *items: object, error: BaseException | None = None) -> None:
        self.items += items
        self.error = self.error or error
        if not self.answered.done():
            self.answered.set_result(None)


class StatefulOperator(OperatorFunction[C]):
    """An operator over all contexts of a hook. Made by `from_stateful_operator`."""

    def __init__(self, operator: ContextOperator[C], name: str, reason: str | None, *, waits: bool) -> None:
        super().__init__(operator, name, reason)
        self._waits = waits
        self._pending: dict[int, _Pending[C]] = {}
        self._pushed: _Pending[C] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._source: Subject[C] = Subject()
        self._subscription = SerialDisposable()
        self._ended = False

    def dispose(self) -> None:
        """Dispose the subscription: the operator's state is dropped, and its pending work is cancelled."""
        subscription, self._subscription = self._subscription, SerialDisposable()
        subscription.dispose()
        self._loop = None
        self._end()

    async def decide(self, context: C, point: str) -> Verdict | None:
        """The verdict that follows from the operator's output for this context.

        Raises:
            HookError: It emitted something other than contexts and verdicts of the point, or several things for one
                context.
        """
        at, loop = HookPoint(point), asyncio.get_running_loop()
        if self._loop is not loop:
            self._begin(loop)
        if self._ended:
            return dropped(at, self.reason)
        pending = _Pending(context, loop.create_future())
        self._pending[id(context)] = pending
        try:
            self._push(pending)
            if self._waits:
                await pending.answered
        finally:
            self._pending.pop(id(context), None)
        if pending.error is not None:
            return refused(at, pending.error)
        return judge(pending.items, context, at, self.reason)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Subscribe. The timers of an operator belong to an event loop, and end with it."""
        self.dispose()
        self._loop, self._ended, self._source = loop, False, Subject()
        try:
            self._subscription.disposable = self._source.pipe(self.operator).subscribe(
                self._on_next, self._on_error, self._end, scheduler=_Clock(loop, self._on_error)
            )
        except BaseException:
            self._loop = None
            raise

    def _push(self, pending: _Pending[C]) -> None:
        before, self._pushed = self._pushed, pending
        try:
            self._source.on_next(pending.context)
        except Exception as error:  # an operator that raises instead of failing
            self._on_error(error)
        except BaseException as error:  # nothing is known of its state any more
            self._on_error(RuntimeError(describe(error)))
            raise
        finally:
            self._pushed = before

    def _on_next(self, item: C | Verdict) -> None:
        if isinstance(item, HookContext):
            pending = self._pending.get(id(item))
            if pending is not None:
                pending.answer(item)
            return  # otherwise it comes too late
        # A verdict does not name the context that it is meant for: the one that is being pushed, or the only one that
        # waits.
        meant = [self._pushed] if self._pushed is not None else list(self._pending.values())
        for pending in meant:
            pending.answer(item)
            if len(meant) > 1:
                pending.answer(item)  # one for several contexts is a mistake, as several for one are
        if not meant:
            logger.warning(
                "hook %s emitted %r while no context was pending", self.__name__, item, extra={"hook": self.__name__}
            )

    def _on_error(self, error: BaseException) -> None:
        # The next context begins anew: an observable that has failed emits nothing more.
        self._loop = None
        if not self._pending:
            logger.warning(
                "hook %s failed while no context was pending",
                self.__name__,
                exc_info=error,
                extra={"hook": self.__name__},
            )
        self._end(error)

    def _end(self, error: BaseException | None = None) -> None:
        self._ended = True
        for pending in self._pending.values():
            pending.answer(error=error)


def from_stateful_operator(
    operator: ContextOperator[C], *, name: str | None = None, reason: str | None = None, waits: bool = False
) -> StatefulOperator[C]:
    """A reactivex operator as a hook's function that sees all contexts in one subscription, and so may remember.

        --a--b-----c--|        contexts, each pushed when the hook runs
        [ throttle_first(4) ]
        --a--------c--|
        --C--S-----C--|        C Continue, S Skip

    A context that comes out again, the very same object, is passed on; the verdicts are those of `from_operator`. A
    verdict that comes out is that of the context that is being pushed, or of the only one that waits. A context that
    comes out after its call of the hook has ended is ignored. Anything else, and several different items for one
    context, are a `HookError`. The subscription begins when the hook first runs, and lasts until ``dispose``, until the
    operator fails (the next context begins a new one) or until the hook runs in another event loop. When the operator
    completes, everything after that is dropped: ``take(10)`` lets ten through.

    Args:
        operator: Operators that wait and were given no scheduler wait on the event loop.
        name: Its name; by default the operator's own name.
        reason: The reason in the verdict if the operator does not emit the context.
        waits: Wait until the context comes out, or the operator ends; the hook's ``timeout`` bounds that. Otherwise
            what does not come out at once is dropped.

    Example:
        >>> from reactivex import operators as ops
        >>> from rxworker.messages import Conversation
        >>> twice = from_stateful_operator(ops.take(2))
        >>> async def decide() -> Verdict | None:
        ...     return await twice.decide(HookContext(conversation=Conversation(), emit=print), "before_tool_call")
        >>> async def thrice() -> list[Verdict | None]:
        ...     return [await decide(), await decide(), await decide()]
        >>> asyncio.run(thrice())
        [Continue(), Continue(), Skip(reason='This call was not allowed.')]
    """
    expect_operator(operator)
    return StatefulOperator(operator, name or name_of(operator), reason, waits=waits)
