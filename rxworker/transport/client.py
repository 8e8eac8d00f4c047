"""A provider and a transport joined: requests in, events out.

request ─▶ HttpRequest ─▶ bytes ─▶ decoder ─▶ events
           └────── again, while nothing has come ──┘
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from sys import maxsize
from typing import Any, cast

import reactivex
from reactivex import Observable, abc
from reactivex import operators as ops

from rxworker.errors import ConfigurationError, HttpStatusError, LocalProtocolError, ProviderError
from rxworker.events import Opaque, ResponseEvent
from rxworker.framing.decoder import MAX_FRAME, Limited
from rxworker.messages import Conversation, Message, Prices
from rxworker.messages.settings import awaited, check_number, check_type, checks_arguments, is_coroutine_function
from rxworker.operators.expect import Follow
from rxworker.operators.kernel import NOTHING, Scheduler, Stage, connect
from rxworker.operators.recovery import Attempts
from rxworker.providers.base import (
    BackgroundProvider,
    HttpRequest,
    Options,
    Provider,
    Request,
    ResponseDecoder,
    is_background,
    resumable,
    secrets_in,
    secrets_of_url,
)
from rxworker.providers.endpoint import masked
from rxworker.providers.failure import names_sealed
from rxworker.providers.fit import OwnNames
from rxworker.providers.models import ModelInfo
from rxworker.providers.origin import MAX_REFUSED, UNSEALED, Refused
from rxworker.providers.takes import LEFT_OUT
from rxworker.redact import without_secrets
from rxworker.transport.answer import Answer, Background, Retry, Timeouts
from rxworker.transport.base import ACCOUNT, Model, Transport
from rxworker.transport.clock import LoopClock, loop_clock
from rxworker.watchdog import running_loop

logger = logging.getLogger("rxworker.transport")


def as_model(model: Provider | Model) -> Model:
    """A model unchanged, or a client for a provider.

    Raises:
        ConfigurationError: The argument is neither.
    """
    known: Any = model
    if not isinstance(model, type) and hasattr(model, "stream"):
        for member in ("name", "model"):
            if not isinstance(getattr(model, member, None), str):
                raise ConfigurationError(
                    f"{type(model).__name__} has stream(), but no {member}: a model has the texts name (of its "
                    "provider) and model, which each message carries"
                )
        return known
    check_provider(model)
    return Client(known)


def check_provider(provider: object) -> None:
    """Refuse what is not a provider.

    Raises:
        ConfigurationError: It has not the methods of one.
    """
    if isinstance(provider, type):
        name = provider.__name__
        raise ConfigurationError(f"{name} is a class: give a model, for example {name}('name')")
    if not (hasattr(provider, "request") and hasattr(provider, "decoder")):
        raise ConfigurationError(
            f"{provider!r:.80} is neither a provider, for example Anthropic('claude-sonnet-5-5'), nor a model with "
            "stream()"
        )


@checks_arguments
class Client:
    r"""A `Model` over a connection.

    Args:
        provider: The provider of the protocol.
        transport: The source of bytes; by default HTTP.
        retry: When a request is made again that failed before its first event.
        timeouts: How long to wait for events.
        max_frame: Bytes that a line or frame of a response may have; ``None`` for any number. A larger one ends the
            response with a `rxworker.errors.RemoteProtocolError`. A decoder that is not `rxworker.framing.Limited` has
            no limit.
        scheduler: The scheduler of waits; by default the running event loop.

    Raises:
        ConfigurationError: An argument is invalid; the message names it.

    Example:
        >>> from rxworker.operators import text_deltas
        >>> from rxworker.providers import Anthropic
        >>> from rxworker.transport import RecordingTransport
        >>> body = b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}\n\n'
        >>> client = Client(Anthropic("claude-sonnet-5-5", api_key="k"), transport=RecordingTransport(body))
        >>> _ = client.stream("hello").pipe(text_deltas()).subscribe(print, lambda error: print(type(error).__name__))
        Hi
        TruncatedError
    """

    def __init__(
        self,
        provider: Provider,
        *,
        transport: Transport | None = None,
        retry: Retry | None = None,
        timeouts: Timeouts | None = None,
        max_frame: int | None = MAX_FRAME,
        scheduler: abc.SchedulerBase | None = None,
    ) -> None:
        check_provider(provider)
        check_type("retry", retry, Retry, "retry=Retry(retries=0)", optional=True)
        check_type("timeouts", timeouts, Timeouts, "timeouts=Timeouts(idle=30)", optional=True)
        check_number("max_frame", max_frame, least=1, whole=True, optional=True)
        self.provider = provider
        if transport is None:
            from rxworker.transport.http import HttpTransport  # it imports aiohttp

            transport = HttpTransport()
        self.transport = transport
        self.retry = retry or Retry()
        self.timeouts = timeouts or Timeouts()
        self.max_frame = max_frame
        self._scheduler = scheduler
        self._refused = Refused()
        self._left_out = OrderedDict[int, object]()  # those that watchers know of

    def __repr__(self) -> str:
        return f"Client({self.provider!r})"

    def is_background(self, options: Options) -> bool:
        """Whether a response with these settings goes on at the service without its connection.

        See `rxworker.providers.Request`.
        """
        return is_background(self.provider, options)

    @property
    def name(self) -> str:
        """The provider's name."""
        return self.provider.name

    @property
    def model(self) -> str:
        """The model's name."""
        return self.provider.model

    @property
    def service(self) -> str:
        """The host of the provider's service, as messages carry it; empty if the provider has none."""
        return getattr(self.provider, "service", "")

    @property
    def prices(self) -> Prices | None:
        """The prices of the model's tokens, if the provider knows them."""
        info = getattr(self.provider, "info", None)
        return info.prices if isinstance(info, ModelInfo) else None

    @property
    def context(self) -> int | None:
        """The tokens that the model reads and writes at once, if the provider knows them."""
        info = getattr(self.provider, "info", None)
        return info.context if isinstance(info, ModelInfo) else None

    @property
    def compacts(self) -> bool:
        """Whether the provider shortens a conversation by itself.

        See ``compact_at`` of `rxworker.providers.Options`.
        """
        return getattr(self.provider, "compacts", False) is True

    def stream(self, request: Request | Conversation | str) -> Observable[ResponseEvent]:
        """The answer as events. Cold: each subscription makes its own request; disposing it closes the connection.

        A failure while the response arrives is reported twice: by events to the watchers (the open blocks are aborted,
        an `Error`, ``Status(FAILED)``), and by ``on_error`` to the subscribers that wait for the end. A failure before
        the first event is reported by ``on_error`` alone.

        A response in the background (OpenAI Responses, Gemini Interactions) is taken up again where its connection was
        cut, as often as ``retry`` allows without an event in between; disposing it also sends a request to cancel it. A
        request with a ``cursor`` continues one that another process has begun.
        """
        full = request if isinstance(request, Request) else as_request(request)
        return self._answer(full, is_counted=False)

    def _answer(self, full_request: Request, is_counted: bool) -> Observable[ResponseEvent]:
        def subscribe(observer: abc.ObserverBase[ResponseEvent], scheduler: Scheduler = None) -> abc.DisposableBase:
            if not is_counted and (account := ACCOUNT.get()) is not None:
                answer = account.count(self, self._answer(full_request, is_counted=True))
                return connect(answer, observer, scheduler)
            # As a rule not the subscription's scheduler, which is reactivex's immediate one where no other was given.
            default = scheduler if isinstance(scheduler, LoopClock) else running_loop() and loop_clock()
            clock = self._scheduler or default
            try:
                attempt, again = self._attempts(full_request, observer, clock)
            except Exception as error:
                observer.on_error(error)
                return NOTHING
            if clock is None:
                return attempt(observer)
            attempts = Attempts(again, attempt, observer, clock)
            attempts.begin()
            return attempts

        stage = Stage(subscribe)
        stage.is_direct = getattr(self.transport, "is_direct", False)
        return stage

    def _attempts(
        self, full_request: Request, observer: abc.ObserverBase[ResponseEvent], clock: Scheduler
    ) -> tuple[Follow[ResponseEvent], Callable[[Exception, int], float | None]]:
        """How the response is requested, and when it is requested again, as long as nothing of it has come.

        Made anew for each subscription: a key from the environment may have come since.
        """
        conversation = self._refused.without(full_request.conversation)
        sent = self._request(full_request, conversation)
        requests = [sent]
        send = partial(_sent, self.transport, requests)
        cursor = full_request.cursor
        make = self.provider.decoder
        background: Callable[[ResponseDecoder], Background] | None = None
        if sent.is_background:
            provider = cast("BackgroundProvider", self.provider)
            make = partial(provider.background_decoder, cursor)
            background = partial(Background, send, sent)
        source = send(_continued(make(), sent) if cursor else sent)
        # A provider's decoders have the usual limit already.
        if self.max_frame != MAX_FRAME:
            make = partial(_limited, make, self.max_frame or maxsize)
        notes = self._new_notes(sent) if sent.left_out else ()
        if sent.renamed or notes:
            make = partial(OwnNames, make, sent.renamed, notes)
        hide = partial(_without_secrets, requests, full_request)
        is_other = False

        def attempt(observer: abc.ObserverBase[ResponseEvent]) -> abc.DisposableBase:
            times, retry = self.timeouts, self.retry
            answer = Answer(source, make, self._explained, observer, times, retry, clock, background, hide)
            answer.send()
            return answer

        def again(error: Exception, failures: int) -> float | None:
            nonlocal source, is_other
            other = None if is_other or cursor else self._unsealed(full_request, conversation, send, observer, error)
            if other is not None:
                source, is_other = other, True
                return 0.0
            return self.retry.delay(error, failures - is_other)

        return attempt, again

    def _request(self, request: Request, conversation: Conversation) -> HttpRequest:
        try:
            return self.provider.request(conversation, request.tools, request.options)
        except UnicodeEncodeError as error:
            message = f"the request holds half of a surrogate pair, which cannot be sent: {error}"
            raise LocalProtocolError(message) from error

    def _new_notes(self, sent: HttpRequest) -> list[Opaque]:
        """Of the parts that the request is sent without, and no request before it."""
        new = [(block, reason) for block, reason in sent.left_out if id(block) not in self._left_out]
        for block, reason in new:
            self._left_out[id(block)] = block
            logger.warning(
                "a part of the conversation is left out of the requests to %s: %s", self.provider.name, reason
            )
        while len(self._left_out) > max(MAX_REFUSED, len(sent.left_out)):
            self._left_out.popitem(last=False)
        return [Opaque(LEFT_OUT, {"type": type(block).__name__, "reason": reason}) for block, reason in new]

    def _unsealed(
        self,
        request: Request,
        conversation: Conversation,
        send: Callable[[HttpRequest], Observable[bytes]],
        observer: abc.ObserverBase[ResponseEvent],
        error: Exception,
    ) -> Observable[bytes] | None:
        """The same request without what earlier answers hold sealed, if that is why it was refused."""
        if not (isinstance(error, ProviderError) and names_sealed(error)):
            return None
        # Of what was sent: another run may have added the same messages since.
        count = sum(message.provider is not None for message in conversation.messages)
        if not count:
            return None
        self._refused.add(request.conversation.messages)
        logger.warning(
            "%s refused what %d earlier answers hold sealed (%s): the request is sent again without it",
            self.provider.name,
            count,
            error.code or error.status,
        )
        observer.on_next(Opaque(UNSEALED, {"messages": count, "reason": str(error)}))
        return send(self._request(request, self._refused.without(request.conversation)))

    def _explained(self, error: Exception) -> Exception:
        """An answer that is not a stream, in the provider's words."""
        if not isinstance(error, HttpStatusError):
            return error
        explained = self.provider.error(error.status, error.headers, error.body)
        explained.__cause__ = error
        return explained


def _sent(transport: Transport, requests: list[HttpRequest], first: HttpRequest) -> Observable[bytes]:
    """The answer to a request, which is authorized each time that it is sent.

    The authorized one is then the second of the requests.
    """
    authorize = first.authorize
    if authorize is None:
        return transport.send(first)

    async def send() -> Observable[bytes]:
        is_plain = not is_coroutine_function(authorize)
        given = await asyncio.to_thread(authorize, first) if is_plain else authorize(first)
        request = cast("object", await awaited(given))
        if not isinstance(request, HttpRequest):
            raise ConfigurationError(
                f"authorize returned {type(request).__name__}, not an HttpRequest: return the request that was given, "
                "or a changed one",
                page="reference/client",
            )
        requests[1:] = [request]
        return transport.send(request)

    def begin(_: abc.SchedulerBase) -> Observable[bytes]:
        return reactivex.from_future(asyncio.ensure_future(send())).pipe(ops.switch_latest())

    return reactivex.defer(begin)


def _continued(decoder: ResponseDecoder, sent: HttpRequest) -> HttpRequest:
    """The request for the events of a response that another process has begun."""
    request = resumable(decoder).resume(sent) if sent.is_background else None
    if request is None:
        text = "a response that does not run in the background cannot be continued: send the request without its cursor"
        raise ConfigurationError(text)
    return request


def _without_secrets(sent: Sequence[HttpRequest], request: Request, text: str) -> str:
    """A text of the service without the secrets of the request.

    Those in its headers and its query, and of the fields of the program's own.
    """
    headers = [one.headers for one in sent]
    own = (*headers, request.options.headers, request.options.extra)
    found = [secret for part in own for secret in secrets_in(part)]
    found += [secret for one in sent for secret in secrets_of_url(one.url)]
    return masked(without_secrets(text), sorted(found, key=len, reverse=True))


def _limited(make: Callable[[], ResponseDecoder], limit: int) -> ResponseDecoder:
    """A decoder with another limit for the lines and frames of a response."""
    decoder = make()
    if isinstance(decoder, Limited):
        decoder.limit = limit
    return decoder


def as_request(request: Request | Conversation | str) -> Request:
    """The request that a conversation or a question stands for."""
    if isinstance(request, str):
        request = Conversation((Message.user(request),))
    return Request(request) if isinstance(request, Conversation) else request
