"""Requests over aiohttp, as cold observables of bytes.

A subscription starts one task, which sends the request and pushes each chunk that arrives. Disposing the subscription
cancels the task, which closes the connection. Data received before a disconnect is pushed before the error. Exceptions
of aiohttp become rxworker's own here and nowhere else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from io import BytesIO
from typing import TypeVar

import aiohttp
from aiohttp import StreamReader
from aiohttp.hdrs import CONTENT_TYPE
from reactivex import Observable, abc

from rxworker.errors import HttpStatusError, LocalProtocolError, RxWorkerError, TransportError, TransportTimeoutError
from rxworker.framing.decoder import MAX_FRAME
from rxworker.operators.kernel import Stage
from rxworker.providers.base import HttpRequest, secrets_in, secrets_of_url
from rxworker.providers.endpoint import masked
from rxworker.transport.base import PRESSURE
from rxworker.transport.session import AHEAD, open_session, proxy_for, shared_session, unchanged

TOGETHER = 256 * 1024
"""The approximate number of bytes that are pushed together.

A read of a socket brings no more that is not compressed.
"""


def last_part(content: StreamReader) -> bytes:
    """The rest of an answer that has ended, or was cut; empty while more may come.

    aiohttp reads an answer HTTP chunk by HTTP chunk, and a provider sends one for each token; once a connection is cut
    it raises the error. It has no public way to read all that arrived together, or before the cut.
    """
    if not content.is_eof() and content.exception() is None:
        return b""
    try:
        kept = content._buffer  # pyright: ignore[reportPrivateUsage] - see above
        arrived = b"".join(kept)
    except (AttributeError, TypeError):
        return b""
    kept.clear()
    return arrived


def with_rest(chunk: bytes, content: StreamReader) -> bytes:
    """Bytes of an answer together with what aiohttp has held back, but not with all that a compressed one may hold."""
    chunks, size = [chunk], len(chunk)
    while size < TOGETHER and content.exception() is None and (more := content.read_nowait()):
        chunks.append(more)
        size += len(more)
    return b"".join(chunks)


E = TypeVar("E", bound=RxWorkerError)

LONG = 1024 * 1024
MAX_OF_AN_ERROR = 64 * 1024
ERROR_PAUSE = 1.0
"""Seconds to wait for more of the body of an error answer.

Its status is reported in time, also if the body never ends.
"""
ERROR_SECONDS = 5.0
"""Seconds to wait for all of it."""


class HttpTransport:
    """Sends requests over HTTP with the event loop's shared session.

    Args:
        connect_timeout: Seconds to make a connection; ``None`` waits for as long as it takes.

    Attributes:
        is_direct: Whether nothing is emitted while an answer is subscribed to, which then needs no trampoline; a
            transport without it needs one.

    >>> HttpTransport(connect_timeout=5.0)
    HttpTransport(connect_timeout=5.0)
    """

    is_direct = True

    def __init__(self, *, connect_timeout: float | None = 10.0) -> None:
        self._timeout = aiohttp.ClientTimeout(total=None, connect=connect_timeout)

    @property
    def connect_timeout(self) -> float | None:
        """Seconds to make a connection."""
        return self._timeout.connect

    def __repr__(self) -> str:
        return f"HttpTransport(connect_timeout={self.connect_timeout})"

    def send(self, request: HttpRequest) -> Observable[bytes]:
        """The body of the answer as it arrives; see `Transport.send`.

        Where no event loop runs, it fails on subscription with a `LocalProtocolError`.
        """
        return on_subscribe(partial(Exchange, request, timeout=self._timeout))


def on_subscribe(make: Callable[[abc.ObserverBase[bytes]], Exchange]) -> Observable[bytes]:
    """Cold: each subscription makes an exchange, which begins at once."""

    def subscribe(observer: abc.ObserverBase[bytes], _scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        made = make(observer)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError as error:
            message = "HTTP needs a running event loop: subscribe from within asyncio.run(...)"
            observer.on_error(_because(error, LocalProtocolError(message)))
        else:
            made.task = loop.create_task(made.run(loop))
        return made

    return Stage(subscribe)


class Exchange(abc.DisposableBase):
    """One request and its response, for one observer. After the end, or after it is disposed, it emits nothing.

    Args:
        request: The request.
        observer: The observer of the bytes.
        timeout: How long a connection may take.
    """

    __slots__ = ("_is_over", "_is_telling", "_observer", "_request", "_timeout", "task")

    def __init__(self, request: HttpRequest, observer: abc.ObserverBase[bytes], timeout: aiohttp.ClientTimeout) -> None:
        self.task: asyncio.Task[None] | None = None
        self._request = request
        self._observer = observer
        self._timeout = timeout
        self._is_over = False
        self._is_telling = False

    def dispose(self) -> None:
        """Leave; the connection is closed."""
        if self._is_over:
            return
        self._is_over = True
        # If the observer unsubscribes while it receives an event, the task notices when it continues.
        if self.task is not None and not self._is_telling:
            self.task.cancel()

    async def run(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send the request and push what arrives."""
        try:
            raised = await self._transfer(loop)
        except asyncio.CancelledError as error:
            task = asyncio.current_task(loop)
            if task is None or task.cancelling():
                raise
            # Not ours: the reader of the response raised it, and must receive it instead of waiting for ever.
            self._fail(_because(error, TransportError("what reads the response was cancelled")))
        except RxWorkerError as error:
            self._fail(error)
        except Exception as error:
            self._fail(_translated(error, self._request, self._timeout.connect))
        else:
            if raised is not None:
                self._fail(raised)
                # It is not an error of the connection, and must not be lost if no observer takes errors.
                context = {"message": "an observer of a response raised", "exception": raised}
                loop.call_exception_handler(context)
            elif not self._is_over:
                self._is_over = True
                self._observer.on_completed()
        finally:
            self.task = None  # which holds this

    async def _transfer(self, loop: asyncio.AbstractEventLoop) -> Exception | None:
        """Send the request and push what arrives, until the end, or until it is left.

        Gives what the observer raises.
        """
        request, body = self._request, self._request.body
        session = open_session(loop) or await shared_session()
        response = await session.request(
            request.method,
            unchanged(request.url),
            # aiohttp warns of long bytes, which it would write in one piece.
            data=body if len(body) < LONG else BytesIO(body),
            headers=request.headers,
            proxy=proxy_for(request.url),
            # A redirect would carry the key to another host.
            allow_redirects=False,
            timeout=self._timeout,
        )
        try:
            if not _is_stream(response, request.accept):
                raise await _answer(response, shown(request.url))
            content = response.content
            # At the end nothing is awaited: most answers of a tool loop come with their end.
            while not (self._is_over or content.at_eof()) and (chunk := last_part(content) or await content.readany()):
                if len(chunk) > AHEAD:  # the rest may have been held back
                    chunk = with_rest(chunk, content)
                if (raised := await self._push(chunk)) is not None:
                    return raised
            return None
        finally:
            # An answer that was read to its end has given its connection back, for the next request.
            if response.connection is not None:
                response.close()

    async def _push(self, chunk: bytes) -> Exception | None:
        """Push bytes, and wait until more may be read; gives what the observer raises."""
        self._is_telling = True
        try:
            self._observer.on_next(chunk)
        except Exception as error:
            return error
        finally:
            self._is_telling = False
        pressure = PRESSURE.get()
        # What is not read stays with the server: aiohttp and TCP stop taking it.
        while not (self._is_over or pressure is None) and (held := pressure.hold()) is not None:
            await held
        return None

    def _fail(self, error: Exception) -> None:
        if not self._is_over:
            self._is_over = True
            self._observer.on_error(error)


def _is_stream(response: aiohttp.ClientResponse, accept: tuple[str, ...]) -> bool:
    """Whether the answer can have the requested type. An answer without a type, or of plain text, is accepted."""
    if response.status != 200:
        return False
    kind = response.headers.get(CONTENT_TYPE)
    if kind is None or kind.partition(";")[0] in accept:
        return True
    return response.content_type in (*accept, "text/plain", "application/octet-stream")


async def _answer(response: aiohttp.ClientResponse, url: str) -> HttpStatusError:
    body = bytearray()
    kind = response.headers.get("Content-Type", "no content type")
    # Perhaps the whole answer of a server that does not stream; the client times it.
    is_whole = response.status == 200 and "json" in kind
    limit, seconds, pause = (MAX_FRAME, None, None) if is_whole else (MAX_OF_AN_ERROR, ERROR_SECONDS, ERROR_PAUSE)
    # The status and the headers are enough, also when the explanation is cut, or too late (`TimeoutError` is an
    # `OSError`).
    with suppress(*() if is_whole else (aiohttp.ClientError, OSError)):
        async with asyncio.timeout(seconds):
            while len(body) < limit and (chunk := await asyncio.wait_for(response.content.readany(), pause)):
                body += chunk
    return HttpStatusError(
        f"{url} answered {response.status} ({kind}) where a stream was expected",
        status=response.status,
        headers={name.lower(): value for name, value in response.headers.items()},
        body=bytes(body[:limit]),
        url=url,
    )


def _translated(error: Exception, request: HttpRequest, connect_timeout: float | None) -> TransportError:
    kind, cause, is_transient = TransportError, error, False
    url = shown(request.url)
    match error:
        case aiohttp.ServerTimeoutError() | TimeoutError():
            kind, is_transient = TransportTimeoutError, True
            message = (
                f"no connection to {url} within {connect_timeout} s: check the network, or allow more with "
                f"HttpTransport(connect_timeout=...)"
            )
        case aiohttp.InvalidURL():
            message = f"{url!r} is not an address: check base_url"
        case aiohttp.ClientConnectorCertificateError():
            message = (
                f"the certificate of {url} is not trusted: {error}. If an authority of your own has signed it, give "
                "the file of its certificate in SSL_CERT_FILE"
            )
        case aiohttp.ClientSSLError():
            message = (
                f"no secure connection to {url}: {error}. The base_url of a server without TLS begins with http://"
            )
        case aiohttp.ClientProxyConnectionError():
            is_transient = True
            message = (
                f"cannot connect to {url}: its proxy does not answer: {error.strerror or error}. Check HTTP_PROXY and "
                "HTTPS_PROXY, or put the host into NO_PROXY"
            )
        case aiohttp.ClientConnectorError():
            is_transient = True
            message = (
                f"cannot connect to {url}: {error.strerror or error}. Is the server running, and is the address right?"
            )
        case aiohttp.ClientHttpProxyError():
            cause = _without_headers(error)
            message = f"the proxy for {url} refused: {error.status} {error.message}. Check HTTPS_PROXY"
        case aiohttp.ClientResponseError():
            cause = _without_headers(error)
            message = f"{url} does not answer in HTTP: {' '.join(error.message.split())}. Is the address right?"
        case aiohttp.ClientPayloadError() | aiohttp.ServerDisconnectedError():
            is_transient = True
            message = (
                f"the connection to {url} was cut before the answer was complete. Does a proxy, or the network, end "
                "long answers?"
            )
        case _:
            is_transient = True
            message = f"the connection to {url} broke: {type(error).__name__}: {error}"
    # What does not answer in HTTP may send the request back.
    secrets = sorted((*secrets_in(request.headers), *secrets_of_url(request.url)), key=len)[::-1]
    if masked(str(cause), secrets) != str(cause):
        cause = aiohttp.ClientError(masked(f"{type(cause).__name__}: {cause}", secrets))
    return _because(cause, kind(masked(message, secrets), retryable=is_transient))


def shown(url: str) -> str:
    """An address as messages show it: without its query, which may hold a key.

    >>> shown("http://127.0.0.1/v1/messages?key=secret")
    'http://127.0.0.1/v1/messages'
    """
    return url.partition("?")[0]


def _without_headers(error: aiohttp.ClientResponseError) -> aiohttp.ClientError:
    """The text of the error, without the request in it: its ``repr`` would show the key among the headers."""
    return aiohttp.ClientError(f"{type(error).__name__}: {error.message}")


def _because(cause: BaseException, error: E) -> E:
    error.__cause__ = cause
    return error
