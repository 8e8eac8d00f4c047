"""A reactivex operator as a hook that remembers: one subscription through which all contexts go.

Contexts are pushed into a subject as they come. The verdict on a context is what the operator does with that very object:
whether it comes out again. An operator that decides at once (``filter``, ``take``, ``throttle_first``) has passed it on, or
has not, by the time the push returns. One that takes its time (``delay``) is waited for, with ``waits``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from reactivex import Observable, Subject, abc
from reactivex.disposable import SerialDisposable
from reactivex.scheduler import CurrentThreadScheduler
from reactivex.scheduler.eventloop import AsyncIOThreadSafeScheduler

from rxworker.hooks.context import HookContext
from rxworker.hooks.operator import OperatorFunction, dropped, let_through, refused
from rxworker.hooks.verdicts import Verdict

logger = logging.getLogger("rxworker.hooks")

A = TypeVar("A")
C = TypeVar("C", bound=HookContext)


class _Clock(AsyncIOThreadSafeScheduler):
    """For operators that were given no scheduler: they wait on the event loop, and what need not wait is done at once."""

    def schedule(
        self, action: abc.ScheduledAction[A], state: A | None = None
    ) -> abc.DisposableBase:
        return CurrentThreadScheduler.singleton().schedule(action, state)


class LastingOperator(OperatorFunction[C]):
    """An operator over all contexts of a hook. Made by `from_lasting_operator`."""

    def __init__(
        self,
        operator: Callable[[Observable[C]], Observable[C]],
        name: str,
        reason: str | None,
        *,
        waits: bool,
    ) -> None:
        super().__init__(operator, name, reason)
        self._waits = waits
        self._asked: dict[int, asyncio.Future[bool]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._source: Subject[C] = Subject()
        self._subscription = SerialDisposable()
        self._ended = False

    def dispose(self) -> None:
        """Let go of the subscription: what the operator remembers is forgotten, and what it still has to do is not done."""
        subscription, self._subscription = self._subscription, SerialDisposable()
        subscription.dispose()
        self._loop = None
        self._end(None)

    async def ask(self, context: C, point: str) -> Verdict | None:
        """The verdict that the operator's treatment of this context stands for."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._begin(loop)
        if self._ended:
            return dropped(point, self.reason)
        answer: asyncio.Future[bool] = loop.create_future()
        self._asked[id(context)] = answer
        try:
            self._push(context)
            passed = (await answer) if self._waits or answer.done() else False
        except Exception as error:
            return refused(point, error)
        finally:
            self._asked.pop(id(context), None)
        return let_through(point) if passed else dropped(point, self.reason)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Subscribe. The timers of an operator belong to an event loop, and end with it."""
        self.dispose()
        self._loop, self._ended, self._source = loop, False, Subject()
        self._subscription.disposable = self._source.pipe(self.operator).subscribe(
            self._on_next, self._on_error, self._on_completed, scheduler=_Clock(loop)
        )

    def _push(self, context: C) -> None:
        try:
            self._source.on_next(context)
        except Exception as error:  # an operator that raises instead of failing
            self._on_error(error)

    def _on_next(self, context: C) -> None:
        answer = self._asked.get(id(context))
        if answer is not None and not answer.done():
            answer.set_result(True)

    def _on_error(self, error: Exception) -> None:
        # The next context begins anew: an observable that has failed tells nothing more.
        self._loop = None
        if all(answer.done() for answer in self._asked.values()):
            logger.warning(
                "hook %s failed while it was asked nothing", self.__name__, exc_info=error
            )
        self._end(error)

    def _on_completed(self) -> None:
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        self._ended = True
        for answer in self._asked.values():
            if answer.done():
                continue
            if error is None:
                answer.set_result(False)
            else:
                answer.set_exception(error)


def from_lasting_operator(
    operator: Callable[[Observable[C]], Observable[C]],
    *,
    name: str | None = None,
    reason: str | None = None,
    waits: bool = False,
) -> LastingOperator[C]:
    """A reactivex operator as a hook's function that sees all contexts in one subscription, and so may remember.

        --a--b-----c--|        contexts, each pushed when the hook is asked
        [ throttle_first(4) ]
        --a--------c--|
        --C--S-----C--|        C Continue, S Skip

    A context that comes out again, the very same object, is passed on; the verdicts are those of `from_operator`. Whatever else
    comes out is ignored. The subscription begins when the hook is first asked, and lasts until ``dispose``, until the operator
    fails (the next context begins a new one) or until another event loop asks. When the operator completes, everything after
    that is dropped: ``take(10)`` lets ten through.

    Args:
        operator: Operators that wait and were given no scheduler wait on the event loop.
        name: What it is called; the operator's own name by default.
        reason: What the verdict says where the context is not passed on.
        waits: Wait until the context comes out, or the operator ends; the hook's ``timeout`` bounds that. Otherwise what
            has not come out at once is dropped.

    Example:
        >>> from reactivex import operators as ops
        >>> from rxworker.messages import Conversation
        >>> twice = from_lasting_operator(ops.take(2))
        >>> async def ask() -> Verdict | None:
        ...     return await twice.ask(HookContext(conversation=Conversation(), emit=print), "before_tool_call")
        >>> async def thrice() -> list[Verdict | None]:
        ...     return [await ask(), await ask(), await ask()]
        >>> asyncio.run(thrice())
        [Continue(), Continue(), Skip(reason='This call was not allowed.')]
    """
    called = name or getattr(operator, "__name__", "operator")
    return LastingOperator(operator, called, reason, waits=waits)


__all__ = ["LastingOperator", "from_lasting_operator"]
