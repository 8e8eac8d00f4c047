"""A model that answers from a script, a list or a function: no network, no key, the same answers every time.

The answers may also be the responses of a stored run, whose requests it compares.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Generic, Self, TypeAlias, TypeVar

from msgspec import Struct
from reactivex import Observable, abc
from reactivex.disposable import Disposable, MultipleAssignmentDisposable
from reactivex.scheduler import CurrentThreadScheduler, ImmediateScheduler, TimeoutScheduler, TrampolineScheduler
from reactivex.scheduler.eventloop import AsyncIOScheduler

from rxworker import events
from rxworker.errors import ConfigurationError, LocalProtocolError, LogError, ProviderError
from rxworker.events import AttemptStart, Record, ResponseEvent, ResponseStatus, Status
from rxworker.hub.history import expand
from rxworker.log import EventLog
from rxworker.log.diff import message_keys
from rxworker.log.format import records_of
from rxworker.messages import Conversation, Message
from rxworker.messages.history import HEADING
from rxworker.messages.settings import check_number, check_plain
from rxworker.operators.recovery import error_to_exception
from rxworker.providers.base import Request
from rxworker.state import RunState, step_run
from rxworker.testing.reply import Reply, reply_events, to_reply
from rxworker.transport.base import ACCOUNT
from rxworker.ui.describe import describe_message


class RequestChangedError(LocalProtocolError):
    """A request differs from the one that a stored run has made at this point.

    Attributes:
        request: The number of the request, from 1.
        difference: The first difference.
    """

    def __init__(self, request: int, difference: str) -> None:
        super().__init__(
            f"request {request} differs from the stored one: {difference}. "
            "If this is intended, store a new run, or pass strict=False"
        )
        self.request = request
        self.difference = difference


class StoredResponse(Struct, frozen=True):
    """One response of a stored run, with its request.

    Attributes:
        provider: The name of the provider.
        model: The name of the model.
        conversation: The conversation of the request, without the changes that a hook made for this request alone;
            ``None`` of a summary, whose prompt is not stored.
        tools: The names of the tools; ``None`` if the run has not stored them.
        events: The events of the response.
        error: The error that ended it.
        seq: The number of the record with which its request was sent; of a summary, that of its record.
    """

    provider: str
    model: str
    conversation: Conversation | None
    tools: frozenset[str] | None
    events: tuple[ResponseEvent, ...] = ()
    error: Exception | None = None
    seq: int = 0


def responses_of(records: Iterable[Record]) -> list[StoredResponse]:
    """The responses of a run, in order, without those that were retracted and those of runs inside it."""
    state = RunState()
    tools: frozenset[str] | None = None
    kept: list[StoredResponse] = []
    start: AttemptStart | None = None
    seq, conversation, received = 0, state.conversation, list[ResponseEvent]()
    error: Exception | None = None

    def keep() -> None:
        if start is not None:
            ending = _error_of(received, error)
            if ending is None and received and received[-1] == Status(ResponseStatus.CANCELLED):
                ending = LocalProtocolError(_CUT_OFF)
                received[:] = [event for event in received[:-1] if not isinstance(event, events.BlockAbort)]
            kept.append(StoredResponse(start.provider, start.model, conversation, tools, tuple(received), ending, seq))

    for record in records:
        state = step_run(state, record)
        event = record.event
        if record.path:
            continue
        match event:
            case events.RunStart(tools=digests):
                tools = frozenset(digests)
            case AttemptStart():
                keep()
                start, seq, conversation = event, record.seq, state.conversation.sent
                received, error = [], None
            case events.ConversationCompact(by="model", replaced=replaced, instead=(*_, summary)) if replaced:
                keep()
                start = None
                text = summary.text.removeprefix(HEADING).strip()
                written = reply_events(Reply(text, usage=event.usage), len(kept) + 1, event.model)
                kept.append(StoredResponse("", event.model, None, None, tuple(written), seq=record.seq))
            case events.AttemptRetract():
                start = None
            case events.RunAbort(cause="error", reason=reason):
                error = ProviderError(reason)
            case events.RunRequeue():
                if _error_of(received, error) is not None:
                    start = None  # another one follows
            case _:
                received += [one.event for one in expand(record) if isinstance(one.event, ResponseEvent)]
    keep()
    return kept


_CUT_OFF = (
    "the stored response was cut off, by a message that was sent now or by a cancellation: do so again before its end"
)


def _error_of(received: list[ResponseEvent], aborted: Exception | None) -> Exception | None:
    """The error that ended the response, if it did not complete; ``aborted`` if its events do not contain it."""
    last = next((event for event in reversed(received) if isinstance(event, Status)), None)
    if last is not None and last.status is ResponseStatus.COMPLETED:
        return None
    error = next((event for event in reversed(received) if isinstance(event, events.Error)), None)
    return aborted if error is None else error_to_exception(error)


def difference_of(stored: StoredResponse, request: Request) -> str | None:
    """The first difference between a stored request and one that is made now.

    >>> then = StoredResponse("", "", Conversation((Message.user("Hi"),)), None)
    >>> difference_of(then, Request(Conversation((Message.user("Hello"),))))
    "message 1 was 'user: Hi', and is now 'user: Hello'"
    """
    then, now = stored.conversation, request.conversation
    if then is None:
        return None
    if then.system != now.system:
        return f"the system text was {then.system!r:.100}, and is now {now.system!r:.100}"
    for at, (one, other) in enumerate(zip_longest(message_keys(then.messages), message_keys(now.messages))):
        if one != other:
            was, is_now = _message_at(then, at), _message_at(now, at)
            return f"message {at + 1} was {was}, and is now {is_now}"
    names = frozenset(tool.name for tool in request.tools)
    if stored.tools is not None and stored.tools != names:
        gone, new = sorted(stored.tools - names), sorted(names - stored.tools)
        return f"the tools differ: {gone} are missing, and {new} are new"
    return None


def _message_at(conversation: Conversation, at: int) -> str:
    messages: tuple[Message, ...] = conversation.messages
    return repr(describe_message(messages[at])) if at < len(messages) else "not there"


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
    """Returns one answer for each request, in order, in any thread.

    >>> script = Script[str, str](["first", "second"])
    >>> script.answer("?"), script.answer("?")
    ((1, 'first'), (2, 'second'))
    """

    def __init__(self, answers: Answers[B, A]) -> None:
        check_plain("answers", answers)
        self._answers = answers
        self._lock = threading.Lock()
        self._count = 0

    def answer(self, request: A) -> tuple[int, B]:
        """The number of this request, from 1, and its answer.

        Raises:
            ScriptExhaustedError: There are no more answers.
        """
        with self._lock:
            self._count += 1
            number = self._count
        if callable(self._answers):
            return number, self._answers(request)
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
        scheduler: The scheduler that counts these seconds.
        name: The provider's name, as messages carry it.
        model: The model's name.

    Attributes:
        name: The provider's name.
        model: The model's name.
        requests: The requests that it has received, in order.
        left: How many subscribers left before their answer had ended.

    >>> from rxworker.messages import Conversation, Message
    >>> from rxworker.events import TextDelta
    >>> model = ScriptedModel(["Hello", "Goodbye"])
    >>> request = Request(Conversation((Message.user("hi"),)))
    >>> received = []
    >>> _ = model.stream(request).subscribe(received.append)
    >>> "".join(event.text for event in received if isinstance(event, TextDelta))
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
        if isinstance(replies, str):
            raise ConfigurationError("ScriptedModel(replies): give a list, one reply for each request")
        if not callable(replies):
            for reply in replies:
                to_reply(reply)  # anything else is refused now
        check_number("ScriptedModel(delay)", delay)
        self._script = Script[Request, Reply | str | StoredResponse](replies)
        self._is_strict = False
        self._delay = delay
        self._scheduler = scheduler
        self.name = name
        self.model = model
        self.requests: list[Request] = []
        self.left = 0

    @classmethod
    async def from_log(cls, log: EventLog, run_id: str, *, strict: bool = True) -> Self:
        """A model that answers the requests of a run as they were answered when the run was stored.

        A stored run as a test fixture.

        The responses are given in order, with the same events, without those that were retracted and those of runs
        inside the run.

        Args:
            log: The log of the run.
            run_id: The run's id.
            strict: Whether a request fails with `RequestChangedError` if its messages, its system text or the names of
                its tools differ from the recorded ones. Ids, models and what a provider wants back are not compared.
                What an ``on_message_send`` hook has changed for one request alone is not stored, so that such a run
                needs ``strict=False``.

        Raises:
            LogError: There is no such run, it has no response, or the log cannot be read.

        Example:
            >>> from rxworker import Worker
            >>> from rxworker.log import MemoryLog
            >>> async def main() -> None:
            ...     async with MemoryLog() as log:
            ...         run = Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
            ...         await run
            ...         model = await ScriptedModel.from_log(log, run.id)
            ...         print((await Worker(model).run("Hi")).text)
            >>> asyncio.run(main())
            Hello.
        """
        stored = responses_of(records_of([entry async for entry in log.read(run_id)], run_id))
        if not stored:
            raise LogError(f"{run_id} has no response that could be given again")
        first = next((one for one in stored if one.provider), stored[0])
        made = cls([], name=first.provider, model=first.model)
        made._script = Script[Request, Reply | str | StoredResponse](stored)
        made._is_strict = strict
        return made

    def stream(self, request: Request) -> Observable[ResponseEvent]:
        """The next reply as events, cold; it ends with ``on_error`` where the reply fails.

        The stream of a subscriber that comes when the script is at its end fails with `ScriptExhaustedError`.
        """
        return self._answer(request, is_counted=False)

    def _answer(self, request: Request, is_counted: bool) -> Observable[ResponseEvent]:
        def subscribe(
            observer: abc.ObserverBase[ResponseEvent], scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            if not is_counted and (account := ACCOUNT.get()) is not None:
                answer = account.count(self, self._answer(request, is_counted=True))
                return answer.subscribe(observer, scheduler=scheduler)
            self.requests.append(request)
            try:
                number, answer = self._script.answer(request)
                if isinstance(answer, StoredResponse) and self._is_strict:
                    difference = difference_of(answer, request)
                    if difference is not None:
                        raise RequestChangedError(number, difference)
                if isinstance(answer, StoredResponse):
                    given, error, stalls = answer.events, answer.error, False
                else:
                    reply = to_reply(answer)
                    given, stalls = reply_events(reply, number, self.model), reply.stalls
                    error = None if reply.error is None else error_to_exception(reply.error)
            except Exception as raised:  # a function of the user's may raise anything
                observer.on_error(raised)
                return Disposable()
            # Without a delay, the trampoline of the subscription: by the time it runs, the subscriber can leave.
            usual = _clock(scheduler) if self._delay > 0 else CurrentThreadScheduler.singleton()
            return _Emission(self, observer, given, error, stalls, self._scheduler or usual)

        return Observable(subscribe)


class _Emission(abc.DisposableBase):
    """One answer on its way to one subscriber: at once, or one event after each delay."""

    def __init__(
        self,
        model: ScriptedModel,
        observer: abc.ObserverBase[ResponseEvent],
        given: Iterable[ResponseEvent],
        error: Exception | None,
        stalls: bool,
        clock: abc.SchedulerBase,
    ) -> None:
        self._model, self._observer = model, observer
        self._events, self._error, self._stalls = iter(given), error, stalls
        self._timer = MultipleAssignmentDisposable()
        self._over = False
        self._delay = delay = model._delay
        self._timer.disposable = clock.schedule_relative(delay, self._go) if delay > 0 else clock.schedule(self._go)

    def _go(self, scheduler: abc.SchedulerBase, state: object = None) -> None:
        """Emit the next event, or all that are left, and then end."""
        if self._over:
            return
        for event in self._events:
            self._observer.on_next(event)
            if self._over:
                return
            if self._delay > 0:
                self._timer.disposable = scheduler.schedule_relative(self._delay, self._go, state)
                return
        if self._stalls:
            return
        self._over = True
        if self._error is not None:
            self._observer.on_error(self._error)
        else:
            self._observer.on_completed()

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
