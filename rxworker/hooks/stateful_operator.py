"""A reactivex operator as a hook that remembers: one subscription through which all contexts go.

Contexts are pushed into a subject as they come. The verdict on a context is what the operator does with it: the very object comes
out again, or a verdict does. An operator that decides at once (``filter``, ``take``, ``throttle_first``) has emitted by the time
the push returns. One that takes its time (``delay``) is waited for, with ``waits``.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Generic, TypeVar

from reactivex import Subject, abc
from reactivex.disposable import SerialDisposable
from reactivex.scheduler import CurrentThreadScheduler
from reactivex.scheduler.eventloop import AsyncIOThreadSafeScheduler

from rxworker.hooks.context import HookContext
from rxworker.hooks.operator import (
    ContextOperator,
    OperatorFunction,
    dropped,
    judge,
    name_of,
    refused,
)
from rxworker.hooks.points import HookPoint, Verdict

logger = logging.getLogger("rxworker.hooks")

A = TypeVar("A")
C = TypeVar("C", bound=HookContext)


class _Clock(AsyncIOThreadSafeScheduler):
    """For operators that were given no scheduler: they wait on the event loop, and what need not wait is done at once."""

    def schedule(
        self, action: abc.ScheduledAction[A], state: A | None = None
    ) -> abc.DisposableBase:
        return CurrentThreadScheduler.singleton().schedule(action, state)


class _Question(Generic[C]):
    """A context that the operator was given, and what it has emitted for it.

    Attributes:
        items: The context itself, verdicts, and whatever else came out.
        answered: Done at the first of these, and when the operator has ended.
        error: What the operator failed with.
    """

    __slots__ = ("answered", "context", "error", "items")

    def __init__(self, context: C, answered: asyncio.Future[None]) -> None:
        self.context = context
        self.answered = answered
        self.items: list[object] = []
        self.error: Exception | None = None

    def answer(self, *items: object, error: Exception | None = None) -> None:
        self.items += items
        self.error = self.error or error
        if not self.answered.done():
            self.answered.set_result(None)


class StatefulOperator(OperatorFunction[C]):
    """An operator over all contexts of a hook. Made by `from_stateful_operator`."""

    def __init__(
        self,
        operator: ContextOperator[C],
        name: str,
        reason: str | None,
        *,
        waits: bool,
    ) -> None:
        super().__init__(operator, name, reason)
        self._waits = waits
        self._asked: dict[int, _Question[C]] = {}
        self._pushed: _Question[C] | None = None
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

    async def ask(self, context: C, point: str) -> Verdict | None:
        """The verdict that follows from the operator's output for this context.

        Raises:
            HookError: It emitted something other than contexts and verdicts of the point, or several things for one context.
        """
        at, loop = HookPoint(point), asyncio.get_running_loop()
        if self._loop is not loop:
            self._begin(loop)
        if self._ended:
            return dropped(at, self.reason)
        question = _Question(context, loop.create_future())
        self._asked[id(context)] = question
        try:
            self._push(question)
            if self._waits:
                await question.answered
        finally:
            self._asked.pop(id(context), None)
        if question.error is not None:
            return refused(at, question.error)
        return judge(question.items, context, at, self.reason)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Subscribe. The timers of an operator belong to an event loop, and end with it."""
        self.dispose()
        self._loop, self._ended, self._source = loop, False, Subject()
        try:
            self._subscription.disposable = self._source.pipe(self.operator).subscribe(
                self._on_next, self._on_error, self._end, scheduler=_Clock(loop)
            )
        except BaseException:
            self._loop = None
            raise

    def _push(self, question: _Question[C]) -> None:
        before, self._pushed = self._pushed, question
        try:
            self._source.on_next(question.context)
        except Exception as error:  # an operator that raises instead of failing
            self._on_error(error)
        except BaseException as error:  # nothing is known of its state any more
            self._on_error(RuntimeError(f"{type(error).__name__}: {error}"))
            raise
        finally:
            self._pushed = before

    def _on_next(self, item: C | Verdict) -> None:
        if isinstance(item, HookContext):
            question = self._asked.get(id(item))
            if question is not None:
                question.answer(item)
            return  # otherwise it comes too late
        # A verdict does not name the context that it is meant for: the one that is being pushed, or the only one that waits.
        meant = [self._pushed] if self._pushed is not None else list(self._asked.values())
        for question in meant:
            question.answer(item)
            if len(meant) > 1:
                question.answer(
                    item
                )  # several items are a mistake, and so is one for several contexts
        if not meant:
            logger.warning(
                "hook %s emitted %r while it was asked nothing",
                self.__name__,
                item,
                extra={"hook": self.__name__},
            )

    def _on_error(self, error: Exception) -> None:
        # The next context begins anew: an observable that has failed emits nothing more.
        self._loop = None
        if not self._asked:
            logger.warning(
                "hook %s failed while it was asked nothing",
                self.__name__,
                exc_info=error,
                extra={"hook": self.__name__},
            )
        self._end(error)

    def _end(self, error: Exception | None = None) -> None:
        self._ended = True
        for question in self._asked.values():
            question.answer(error=error)


def from_stateful_operator(
    operator: ContextOperator[C],
    *,
    name: str | None = None,
    reason: str | None = None,
    waits: bool = False,
) -> StatefulOperator[C]:
    """A reactivex operator as a hook's function that sees all contexts in one subscription, and so may remember.

        --a--b-----c--|        contexts, each pushed when the hook is asked
        [ throttle_first(4) ]
        --a--------c--|
        --C--S-----C--|        C Continue, S Skip

    A context that comes out again, the very same object, is passed on; the verdicts are those of `from_operator`. A verdict that
    comes out is that of the context that is being pushed, or of the only one that waits. A context that comes out later than it
    was asked about is ignored. Anything else, and several different items for one context, are a `HookError`. The subscription begins when the hook is first asked, and lasts until ``dispose``, until the operator
    fails (the next context begins a new one) or until another event loop asks. When the operator completes, everything after
    that is dropped: ``take(10)`` lets ten through.

    Args:
        operator: Operators that wait and were given no scheduler wait on the event loop.
        name: What it is called; the operator's own name by default.
        reason: The reason in the verdict if the operator does not emit the context.
        waits: Wait until the context comes out, or the operator ends; the hook's ``timeout`` bounds that. Otherwise what
            has not come out at once is dropped.

    Example:
        >>> from reactivex import operators as ops
        >>> from rxworker.messages import Conversation
        >>> twice = from_stateful_operator(ops.take(2))
        >>> async def ask() -> Verdict | None:
        ...     return await twice.ask(HookContext(conversation=Conversation(), emit=print), "before_tool_call")
        >>> async def thrice() -> list[Verdict | None]:
        ...     return [await ask(), await ask(), await ask()]
        >>> asyncio.run(thrice())
        [Continue(), Continue(), Skip(reason='This call was not allowed.')]
    """
    return StatefulOperator(operator, name or name_of(operator), reason, waits=waits)
