"""A provider and a transport joined: requests in, events out.

request ─▶ HttpRequest ─▶ bytes ─▶ decoder ─▶ events
           └────── again, while nothing has come ──┘
"""

from __future__ import annotations

import asyncio

import reactivex
from msgspec import Struct
from reactivex import Observable, abc
from reactivex import operators as ops
from reactivex.scheduler.eventloop import AsyncIOScheduler

from rxworker.errors import HttpStatusError, LocalProtocolError
from rxworker.events import ResponseEvent
from rxworker.messages import Conversation, Message
from rxworker.operators import retry_before_first, time_out
from rxworker.providers.base import HttpRequest, Provider, Request
from rxworker.transport.http import HttpTransport
from rxworker.transport.receive import receive
from rxworker.transport.retry import Retry
from rxworker.transport.transport import Transport


class Timeouts(Struct, frozen=True):
    """How long a client waits; ``None`` waits for as long as it takes.

    Attributes:
        first: Seconds from the request to its first event.
        idle: Seconds without a byte, once they have begun to come.
    """

    first: float | None = 120.0
    idle: float | None = 120.0


class Client:
    r"""A `Model` over a connection.

    Args:
        provider: Whose protocol is spoken.
        transport: Where bytes come from; HTTP by default.
        retry: When a request is made again that failed before its first event.
        timeouts: How long to wait for events.
        scheduler: Where waiting happens; the running event loop by default.

    Example:
        >>> from rxworker.operators import text_deltas
        >>> from rxworker.providers import Anthropic
        >>> from rxworker.transport import RecordingTransport
        >>> body = b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}\n\n'
        >>> client = Client(Anthropic("claude-sonnet-4-6", api_key="k"), transport=RecordingTransport(body))
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
        scheduler: abc.SchedulerBase | None = None,
    ) -> None:
        self.provider = provider
        self.transport = transport or HttpTransport()
        self.retry = retry or Retry()
        self.timeouts = timeouts or Timeouts()
        self._scheduler = scheduler

    def __repr__(self) -> str:
        return f"Client({self.provider!r})"

    @property
    def name(self) -> str:
        """The provider's name."""
        return self.provider.name

    @property
    def model(self) -> str:
        """The model's name."""
        return self.provider.model

    def stream(self, request: Request | Conversation | str) -> Observable[ResponseEvent]:
        """The answer as events. Cold: each subscription makes its own request; disposing it closes the connection.

        What goes wrong while the answer comes is told twice: by events (the open blocks are aborted, an `Error`, ``Status(FAILED)``) for those
        who watch, and by ``on_error`` for those who wait. What goes wrong before the first event is told by ``on_error`` alone.
        """
        asked = _as_request(request)

        def begin(_scheduler: abc.SchedulerBase | None) -> Observable[ResponseEvent]:
            # Built anew for each subscription: a key from the environment may have come since.
            try:
                sent = self.provider.request(asked.conversation, asked.tools, asked.options)
            except UnicodeEncodeError as error:
                message = (
                    f"the request holds half of a surrogate pair, which cannot be sent: {error}"
                )
                raise LocalProtocolError(message) from error
            # Not the subscription's scheduler, which is reactivex's immediate one where nobody gave another.
            clock = self._scheduler or _loop_scheduler()
            return self._answer(sent) if clock is None else self._patient_answer(sent, clock)

        return reactivex.defer(begin)

    def _answer(self, sent: HttpRequest) -> Observable[ResponseEvent]:
        return self.transport.send(sent).pipe(
            ops.catch(self._explain), receive(self.provider.decoder)
        )

    def _patient_answer(
        self, sent: HttpRequest, clock: abc.SchedulerBase
    ) -> Observable[ResponseEvent]:
        """The answer, with an eye on the clock: neither waited for in silence for ever, nor given up at the first try."""
        return self.transport.send(sent).pipe(
            time_out(None, self.timeouts.idle, clock),
            ops.catch(self._explain),
            receive(self.provider.decoder),
            time_out(self.timeouts.first, None, clock),
            retry_before_first(self._delay, clock),
        )

    def _explain(self, error: Exception, source: Observable[bytes]) -> Observable[bytes]:
        """An answer that is no stream, in the provider's words."""
        del source
        if not isinstance(error, HttpStatusError):
            return reactivex.throw(error)
        explained = self.provider.error(error.status, error.headers, error.body)
        explained.__cause__ = error
        return reactivex.throw(explained)

    def _delay(self, error: Exception, attempt: int) -> float | None:
        return self.retry.delay(error, attempt)


def _as_request(request: Request | Conversation | str) -> Request:
    match request:
        case Request():
            return request
        case Conversation():
            return Request(request)
        case str():
            return Request(Conversation((Message.user(request),)))


def _loop_scheduler() -> AsyncIOScheduler | None:
    """The running loop's scheduler; none where no loop runs, as with recordings, which never wait."""
    try:
        return AsyncIOScheduler(asyncio.get_running_loop())
    except RuntimeError:
        return None


__all__ = ["Client", "Timeouts"]
