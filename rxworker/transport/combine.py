"""Several models as one: the next when one fails, or the quickest of them.

    model = fallback(Client(Anthropic("claude-sonnet-5-5")), Client(OpenAIChat("gpt-5.4")))
    worker = Worker(race(model, other))

The result is a `Model`, too. Its ``Status(STARTED)`` names the model that answers, so that the conversation attributes
each message, and its `Usage` counts what all of them took.
"""

from __future__ import annotations

from collections.abc import Sequence

import reactivex
from msgspec.structs import replace
from reactivex import Observable, abc
from reactivex import operators as ops
from reactivex.disposable import CompositeDisposable, Disposable, SerialDisposable

from rxworker.errors import ConfigurationError, LocalProtocolError
from rxworker.events import BlockStart, BlockStop, Error, Opaque, ResponseEvent, ResponseStatus, Status, Usage
from rxworker.messages import Conversation, Prices
from rxworker.operators.kernel import Scheduler, Sink, connect
from rxworker.providers.base import HttpRequest, Options, Provider, Request, is_background
from rxworker.providers.cache_use import CacheUse, changed_by, step_cache
from rxworker.providers.origin import UNSEALED
from rxworker.transport.base import Model, service_of
from rxworker.transport.client import Client, as_model, as_request


class CacheMeter(Client):
    """A `Client` that measures what the requests of one conversation read from the provider's cache.

    It takes the arguments of `Client`. Each request is compared with the one before: give each conversation a meter of
    its own.

    Attributes:
        use: What was read so far, and what the last request has changed of the one before.

    Example:
        >>> from rxworker.providers import Anthropic, Options
        >>> from rxworker.transport import RecordingTransport
        >>> meter = CacheMeter(Anthropic("claude-sonnet-5-5", api_key="k"), transport=RecordingTransport(b""))
        >>> for system in ("It is 12:01.", "It is 12:02."):
        ...     _ = meter.stream(Request(Conversation(system=system))).subscribe(on_error=lambda error: None)
        >>> print(meter.use.change)
        a time stamp in system[0].text (system) differs from byte 10: 'It is 12:01.' became 'It is 12:02.'
    """

    use: CacheUse = CacheUse()
    _before: Request | None = None

    def stream(self, request: Request | Conversation | str) -> Observable[ResponseEvent]:
        """The answer as events; see `Client.stream`."""
        full = as_request(request)

        def begin(_: abc.SchedulerBase) -> Observable[ResponseEvent]:
            try:
                sent = self.provider.request(full.conversation, full.tools, full.options)
            except Exception:
                return events  # which fails with the same error
            self._begin(full, sent)
            return events.pipe(ops.do_action(self._take))

        events = super().stream(full)
        return reactivex.defer(begin)

    def _begin(self, request: Request, sent: HttpRequest) -> None:
        use, before = step_cache(self.use, sent), self._before
        if use.change is not None and before is not None:
            use = replace(use, change=replace(use.change, hook=changed_by(use.change, self.provider, before, request)))
        self.use, self._before = use, request

    def _take(self, event: ResponseEvent) -> None:
        self.use = step_cache(self.use, event)


class CombinedModel:
    """Several models that answer as one. Made by `fallback` and `race`."""

    def __init__(self, models: Sequence[Provider | Model], contest: type[_Fallback] | type[_Race]) -> None:
        if not models:
            raise ConfigurationError("at least one model must be given")
        self.models = tuple([as_model(model) for model in models])
        self._contest = contest

    def __repr__(self) -> str:
        how = self._contest.__name__.removeprefix("_").lower()
        return f"{how}({', '.join(repr(model) for model in self.models)})"

    def is_background(self, options: Options) -> bool:
        """Whether a response of one of them goes on at its service without its connection.

        Only those take a request with a ``cursor``.
        """
        return any(is_background(model, options) for model in self.models)

    @property
    def name(self) -> str:
        """The first model's provider; the response itself names its provider."""
        return self.models[0].name

    @property
    def model(self) -> str:
        """The first model's name."""
        return self.models[0].model

    @property
    def prices(self) -> Prices | None:
        """The prices of the models' tokens, if they are known and the same for all."""
        first, *others = [getattr(model, "prices", None) for model in self.models]
        return first if all(one == first for one in others) else None

    @property
    def context(self) -> int | None:
        """The tokens that each of the models reads and writes at once, if all are known."""
        known = [getattr(model, "context", None) for model in self.models]
        return min((one for one in known if one is not None), default=None) if all(known) else None

    @property
    def compacts(self) -> bool:
        """Whether the providers of all models shorten a conversation by themselves."""
        return all(getattr(model, "compacts", False) is True for model in self.models)

    def stream(self, request: Request) -> Observable[ResponseEvent]:
        """The answer, cold; disposing it ends all requests."""

        def subscribe(observer: abc.ObserverBase[ResponseEvent], _scheduler: Scheduler = None) -> abc.DisposableBase:
            models = self.models
            if request.cursor:
                models = [each for each in models if is_background(each, request.options)]
            return self._contest(models, request, observer).start()

        return Observable(subscribe)


def fallback(*models: Provider | Model) -> CombinedModel:
    """Send the request to the first model; if it fails, to the next.

        --a--#                  the first
             --b--c--|          the second
        [ fallback ]
        --a----b--c--|

    A failure after the first events is covered as well: the next model's ``Status(STARTED)`` retracts the events before
    it. The last model's failure is the failure of all. A configuration error, such as a missing key, is raised and does
    not trigger the fallback.

    Args:
        models: The models; a provider stands for a `Client` of it.

    Raises:
        ConfigurationError: No model is given, or an argument is neither a model nor a provider.
    """
    return CombinedModel(models, _Fallback)


def race(*models: Provider | Model) -> CombinedModel:
    """Send the request to all models; the first to begin a block of its answer wins, and the other requests are ended.

        -----a--b--|            one
        --c--d--|               two
        [ race ]
        --c--d--|

    A model that fails drops out; when all have, the last one's failure is the failure of all.

    Args:
        models: As for `fallback`.

    Raises:
        ConfigurationError: As for `fallback`.
    """
    return CombinedModel(models, _Race)


class _Candidate:
    """One model's part: its events with its name on them, and what the others took added to its usage."""

    def __init__(self, model: Model, observer: abc.ObserverBase[ResponseEvent]) -> None:
        self.model = model
        self.took = Usage()
        self.others = Usage()
        self._observer = observer
        self._counted = False

    def say(self, event: ResponseEvent) -> None:
        if isinstance(event, Usage):
            self.took, self._counted = event, True
            if self.others != Usage():
                event = replace(self.others + event, raw=event.raw)
        elif isinstance(event, Status) and event.status is ResponseStatus.STARTED:
            self._counted = False
            event = event if event.provider else _named(event, self.model)
        elif isinstance(event, Status) and not self._counted and self.others != Usage():
            self._observer.on_next(self.others)  # this model emits no events of its own
        self._observer.on_next(event)


class _Fallback:
    """One request through a row of models."""

    def __init__(self, models: Sequence[Model], request: Request, observer: abc.ObserverBase[ResponseEvent]) -> None:
        self._waiting = list(models)
        self._request = request
        self._observer = observer
        self._current = SerialDisposable()
        self._spent = Usage()
        self._begun = False

    def start(self) -> abc.DisposableBase:
        self._next()
        return self._current

    def _next(self) -> None:
        candidate = _Candidate(self._waiting.pop(0), self._observer)
        candidate.others = self._spent
        starts_anew = self._begun
        held: list[ResponseEvent] = []

        def on_next(event: ResponseEvent) -> None:
            nonlocal starts_anew
            if held or (self._waiting and isinstance(event, Error)):
                held.append(event)  # its failure matters only if no other model follows
                return
            if starts_anew:
                starts_anew = False
                if not (isinstance(event, Status) and event.status is ResponseStatus.STARTED):
                    self._observer.on_next(_started(candidate.model))
            # Before an answer begins, only this is reported: nothing was taken yet.
            self._begun = self._begun or not (isinstance(event, Opaque) and event.kind == UNSEALED)
            candidate.say(event)

        def on_error(error: Exception) -> None:
            if self._waiting and not isinstance(error, LocalProtocolError):
                if self._begun or candidate.took != Usage():
                    self._spent += replace(candidate.took, is_partial=True)
                self._next()
                return
            for event in held:
                candidate.say(event)
            self._observer.on_error(error)

        # Its own place first: a model that fails at once has been followed by the next when `connect` returns.
        own = self._current.disposable = SerialDisposable()
        sink = Sink(on_next, on_error, self._observer.on_completed)
        own.disposable = connect(candidate.model.stream(self._request), sink)


class _Race:
    """One request to several models at once."""

    def __init__(self, models: Sequence[Model], request: Request, observer: abc.ObserverBase[ResponseEvent]) -> None:
        self._candidates = [_Candidate(model, observer) for model in models]
        self._left = len(self._candidates)
        self._request = request
        self._observer = observer
        self._winner: _Candidate | None = None
        self._all = CompositeDisposable()
        self._own: dict[_Candidate, abc.DisposableBase] = {}

    def start(self) -> abc.DisposableBase:
        for candidate in self._candidates:
            if self._winner is None:
                self._enter(candidate)
        return self._all

    def _enter(self, candidate: _Candidate) -> None:
        held: list[ResponseEvent] = []
        own = self._own[candidate] = SerialDisposable()
        self._all.add(own)

        def on_next(event: ResponseEvent) -> None:
            if self._winner is candidate:
                candidate.say(event)
                return
            if self._winner is not None:
                return
            held.append(event)
            if isinstance(event, Usage):
                candidate.took = event
            if isinstance(event, BlockStart | BlockStop):
                self._win(candidate, held)

        def on_error(error: Exception) -> None:
            if self._winner is candidate:
                self._observer.on_error(error)
                return
            self._left -= 1
            if self._winner is None and self._left == 0:
                self._win(candidate, held)
                self._observer.on_error(error)

        def on_completed() -> None:
            if self._winner is None:
                self._win(candidate, held)
            if self._winner is candidate:
                self._observer.on_completed()

        own.disposable = connect(candidate.model.stream(self._request), Sink(on_next, on_error, on_completed))

    def _win(self, winner: _Candidate, held: list[ResponseEvent]) -> None:
        self._winner = winner
        for candidate in self._candidates:
            if candidate is winner:
                continue
            if candidate.took != Usage():
                winner.others += replace(candidate.took, is_partial=True)
            self._own.get(candidate, Disposable()).dispose()
        for event in held:
            winner.say(event)


def _started(model: Model) -> Status:
    return _named(Status(ResponseStatus.STARTED, model=model.model), model)


def _named(started: Status, model: Model) -> Status:
    return replace(started, provider=model.name, service=service_of(model) or None)
