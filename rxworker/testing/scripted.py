"""A model that answers from a script, a list or a function: no network, no key, the same answers every time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

from reactivex import Observable, abc
from reactivex.disposable import Disposable, MultipleAssignmentDisposable
from reactivex.scheduler import (
    CurrentThreadScheduler,
    ImmediateScheduler,
    TimeoutScheduler,
    TrampolineScheduler,
)
from reactivex.scheduler.eventloop import AsyncIOScheduler

from rxworker.errors import LocalProtocolError
from rxworker.events import ResponseEvent
from rxworker.operators.recovery import error_to_exception
from rxworker.providers.base import Request
from rxworker.testing.reply import Reply, reply_events, to_reply

A = TypeVar("A")
B = TypeVar("B")

Answers: TypeAlias = Sequence[B] | Callable[[A], B]


class ScriptExhaustedError(LocalProtocolError):
    """More requests came than answers were scripted.

    Attributes:
        scripted: How many answers there were.
        request: The number of the request that found none.
    """

    def __init__(self, scripted: int, request: int) -> None:
        super().__init__(
            f"request {request} came, but only {scripted} answers were scripted; give one for each request, "
            "or a function that answers any number of them"
        )
        self.scripted = scripted
        self.request = request


class Script(Generic[A, B]):
    """Hands out one answer for each request, in order. May be asked from any thread.

    >>> script = Script[str, str](["first", "second"])
    >>> script.answer("?"), script.answer("?")
    ((1, 'first'), (2, 'second'))
    """

    def __init__(self, answers: Answers[B, A]) -> None:
        self._answers = answers
        self._lock = threading.Lock()
        self._count = 0

    def answer(self, asked: A) -> tuple[int, B]:
        """The number of this request, from 1, and its answer.

        Raises:
            ScriptExhaustedError: The list has come to its end.
        """
        with self._lock:
            self._count += 1
            number = self._count
        if callable(self._answers):
            return number, self._answers(asked)
        if number > len(self._answers):
            raise ScriptExhaustedError(len(self._answers), number)
        return number, self._answers[number - 1]


class ScriptedModel:
    """A `Model` that gives one scripted reply for each request.

    The stream is cold: a reply is taken at each subscription. Without ``delay`` all events are emitted within
    ``subscribe``; with it, each event comes ``delay`` seconds after the one before, on ``scheduler``, on the scheduler
    that the subscriber gave, on the running event loop, or on a timer's thread - the first of these that there is.

    Args:
        replies: One reply for each request, or a function of the request. A text is a reply with that text.
        delay: Seconds before each event.
        scheduler: What counts these seconds.
        name: The provider's name, as messages carry it.
        model: The model's name.

    Attributes:
        requests: What it was asked, in order.
        left: How many subscribers left before their answer had ended.

    >>> from rxworker.messages import Conversation, Message
    >>> from rxworker.events import TextDelta
    >>> model = ScriptedModel(["Hello", "Goodbye"])
    >>> request = Request(Conversation((Message.user("hi"),)))
    >>> heard = []
    >>> _ = model.stream(request).subscribe(heard.append)
    >>> "".join(event.text for event in heard if isinstance(event, TextDelta))
    'Hello'
    >>> len(model.requests)
    1
    """

    def __init__(
        self,
        replies: Answers[Reply | str, Request],
        *,
        delay: float = 0.0,
        scheduler: abc.SchedulerBase | None = None,
        name: str = "scripted",
        model: str = "scripted",
    ) -> None:
        self._script = Script[Request, Reply | str](replies)
        self._delay = delay
        self._scheduler = scheduler
        self._name = name
        self._model = model
        self.requests: list[Request] = []
        self.left = 0

    @property
    def name(self) -> str:
        """The provider's name, as messages carry it."""
        return self._name

    @property
    def model(self) -> str:
        """The model's name."""
        return self._model

    def stream(self, request: Request) -> Observable[ResponseEvent]:
        """The next reply as events, cold; it ends with ``on_error`` where the reply fails.

        The stream of a subscriber that comes when the script is at its end fails with `ScriptExhaustedError`.
        """

        def subscribe(
            observer: abc.ObserverBase[ResponseEvent], scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            self.requests.append(request)
            try:
                number, answer = self._script.answer(request)
            except Exception as error:  # a function of the user's may raise anything
                observer.on_error(error)
                return Disposable()
            telling = _Telling(self, to_reply(answer), number, observer)
            if self._delay > 0:
                telling.paced(self._delay, self._scheduler or _clock(scheduler))
            else:
                # The trampoline of the subscription: by the time it runs, the subscriber can leave.
                telling.at_once(self._scheduler or CurrentThreadScheduler.singleton())
            return telling

        return Observable(subscribe)


class _Telling(abc.DisposableBase):
    """One answer on its way to one subscriber."""

    def __init__(
        self,
        model: ScriptedModel,
        reply: Reply,
        number: int,
        observer: abc.ObserverBase[ResponseEvent],
    ) -> None:
        self._model = model
        self._reply = reply
        self._observer = observer
        self._events = iter(reply_events(reply, number, model.model))
        self._timer = MultipleAssignmentDisposable()
        self._over = False

    def at_once(self, clock: abc.SchedulerBase) -> None:
        """Emit everything at once, and stop where the subscriber unsubscribes."""

        def go(_scheduler: abc.SchedulerBase, _state: object = None) -> None:
            while not self._over and self._step():
                pass

        self._timer.disposable = clock.schedule(go)

    def paced(self, delay: float, clock: abc.SchedulerBase) -> None:
        """Emit one event after each delay."""

        def tick(scheduler: abc.SchedulerBase, state: object = None) -> None:
            if not self._over and self._step():
                self._timer.disposable = scheduler.schedule_relative(delay, tick, state)

        self._timer.disposable = clock.schedule_relative(delay, tick)

    def _step(self) -> bool:
        """Emit the next event, or end. Returns whether more follow."""
        event = next(self._events, None)
        if event is not None:
            self._observer.on_next(event)
            return True
        if self._reply.stalls:
            return False
        self._over = True
        if self._reply.error is not None:
            self._observer.on_error(error_to_exception(self._reply.error))
        else:
            self._observer.on_completed()
        return False

    def dispose(self) -> None:
        """The subscriber leaves, or its answer has ended."""
        if not self._over:
            self._over = True
            self._model.left += 1
        self._timer.dispose()


def _clock(given: abc.SchedulerBase | None) -> abc.SchedulerBase:
    """The clock of the seconds if the model has none.

    A subscriber may hand on reactivex's own default, a trampoline, which can only wait by blocking the thread.
    """
    if given is not None and not isinstance(given, (ImmediateScheduler, TrampolineScheduler)):
        return given
    try:
        return AsyncIOScheduler(asyncio.get_running_loop())
    except RuntimeError:
        return TimeoutScheduler.singleton()
