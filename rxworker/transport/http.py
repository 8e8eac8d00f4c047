"""Requests over aiohttp, as cold observables of bytes.

A subscription starts one task, which sends the request and pushes what arrives. Disposing it cancels the task, and
leaving the response's block on the way closes the connection. Foreign exceptions become ours here and nowhere else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from io import BytesIO

import aiohttp
from reactivex import Observable, abc
from reactivex.disposable import Disposable

from rxworker.errors import (
    HttpStatusError,
    LocalProtocolError,
    RxWorkerError,
    TransportError,
    TransportTimeoutError,
)
from rxworker.providers.base import HttpRequest
from rxworker.transport.proxy import proxy_for
from rxworker.transport.session import shared_session

MOST_OF_AN_ERROR = 64 * 1024


class HttpTransport:
    """Sends requests over HTTP with the event loop's shared session.

    Args:
        connect_timeout: Seconds to make a connection; ``None`` waits for as long as it takes.

    >>> HttpTransport(connect_timeout=5.0)
    HttpTransport(connect_timeout=5.0)
    """

    def __init__(self, *, connect_timeout: float | None = 10.0) -> None:
        self.connect_timeout = connect_timeout

    def __repr__(self) -> str:
        return f"HttpTransport(connect_timeout={self.connect_timeout})"

    def send(self, request: HttpRequest) -> Observable[bytes]:
        """The body of the answer as it arrives; see `Transport.send`.

        Where no event loop runs, it fails on subscription with a `LocalProtocolError`.
        """

        def subscribe(
            observer: abc.ObserverBase[bytes], _scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError as error:
                message = "HTTP needs a running event loop: subscribe from within asyncio.run(...)"
                raise LocalProtocolError(message) from error
            task = loop.create_task(self._pump(request, observer))

            def close() -> None:
                task.cancel()

            return Disposable(close)

        return Observable(subscribe)

    async def _pump(self, request: HttpRequest, observer: abc.ObserverBase[bytes]) -> None:
        raised: list[Exception] = []

        def push(chunk: bytes) -> None:
            try:
                observer.on_next(chunk)
            except Exception as error:
                raised.append(error)
                raise

        try:
            await self._read(request, push)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Not ours: whoever reads the response raised it, and has to hear of it rather than wait for ever.
            broken = TransportError("what reads the response was cancelled")
            broken.__cause__ = error
            observer.on_error(broken)
        except RxWorkerError as error:
            observer.on_error(error)
        except Exception as error:
            if not raised:
                error = _translated(error, shown(request.url), self.connect_timeout)
            observer.on_error(error)
        else:
            observer.on_completed()
        if raised:
            # An observer that raises is detached by then. Its error is no fault of the connection's, and not to be lost.
            context = {"message": "an observer of a response raised", "exception": raised[0]}
            asyncio.get_running_loop().call_exception_handler(context)

    async def _read(self, request: HttpRequest, push: Callable[[bytes], None]) -> None:
        session = await shared_session()
        async with session.request(
            request.method,
            request.url,
            # aiohttp warns of long bytes, which it would write in one piece.
            data=BytesIO(request.body),
            headers=request.headers,
            proxy=proxy_for(request.url),
            # A redirect would carry the key to another host.
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, connect=self.connect_timeout),
        ) as response:
            if not _is_stream(response, request.accept):
                raise await _answer(response, shown(request.url))
            try:
                async for chunk in response.content.iter_any():
                    push(chunk)
            except BaseException:
                response.close()
                raise


def _is_stream(response: aiohttp.ClientResponse, accept: tuple[str, ...]) -> bool:
    """Whether the answer can be what was asked for. A server that names no type, or plain text, gets a chance."""
    if response.status != 200:
        return False
    known = (*accept, "text/plain", "application/octet-stream")
    return "Content-Type" not in response.headers or response.content_type in known


async def _answer(response: aiohttp.ClientResponse, url: str) -> HttpStatusError:
    body = bytearray()
    try:
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) >= MOST_OF_AN_ERROR:
                break
    except (aiohttp.ClientError, OSError):
        pass  # the status and the headers say enough, also when the explanation is cut
    kind = response.headers.get("Content-Type", "no content type")
    return HttpStatusError(
        f"{url} answered {response.status} ({kind}) where a stream was expected",
        status=response.status,
        headers={name.lower(): value for name, value in response.headers.items()},
        body=bytes(body[:MOST_OF_AN_ERROR]),
        url=url,
    )


def _translated(error: Exception, url: str, connect_timeout: float | None) -> TransportError:
    match error:
        case aiohttp.ServerTimeoutError() | TimeoutError():
            return _because(
                error,
                TransportTimeoutError(
                    f"no connection to {url} within {connect_timeout} s: check the network, or allow more with "
                    f"HttpTransport(connect_timeout=...)",
                    retryable=True,
                ),
            )
        case aiohttp.InvalidURL():
            return _because(error, TransportError(f"{url!r} is no address: check base_url"))
        case aiohttp.ClientConnectorCertificateError():
            message = f"the certificate of {url} is not trusted: {error}. Is base_url right?"
            return _because(error, TransportError(message))
        case aiohttp.ClientSSLError():
            message = (
                f"no secure connection to {url}: {error}. The base_url of a server without TLS begins "
                "with http://"
            )
            return _because(error, TransportError(message))
        case aiohttp.ClientProxyConnectionError():
            message = (
                f"cannot connect to {url}: its proxy does not answer: {error.strerror or error}. Check HTTP_PROXY and "
                "HTTPS_PROXY, or put the host into NO_PROXY"
            )
            return _because(error, TransportError(message, retryable=True))
        case aiohttp.ClientConnectorError():
            message = f"cannot connect to {url}: {error.strerror or error}. Is the server running, and is base_url right?"
            return _because(error, TransportError(message, retryable=True))
        case aiohttp.ClientHttpProxyError():
            message = (
                f"the proxy for {url} refused: {error.status} {error.message}. Check HTTPS_PROXY"
            )
            return _because(_without_headers(error), TransportError(message))
        case aiohttp.ClientResponseError():
            message = f"{url} does not answer in HTTP: {' '.join(error.message.split())}. Is base_url right?"
            return _because(_without_headers(error), TransportError(message))
        case aiohttp.ClientPayloadError() | aiohttp.ServerDisconnectedError():
            message = f"the connection to {url} was cut before the answer was complete"
            return _because(error, TransportError(message, retryable=True))
        case _:
            message = f"the connection to {url} broke: {type(error).__name__}: {error}"
            return _because(error, TransportError(message, retryable=True))


def shown(url: str) -> str:
    """An address as messages show it: without its query, which may hold a key.

    >>> shown("http://127.0.0.1/v1/messages?key=secret")
    'http://127.0.0.1/v1/messages'
    """
    return url.partition("?")[0]


def _without_headers(error: aiohttp.ClientResponseError) -> aiohttp.ClientError:
    """What the error says, without the request in it: its ``repr`` would show the key among the headers."""
    return aiohttp.ClientError(f"{type(error).__name__}: {error.message}")


def _because(cause: Exception, error: TransportError) -> TransportError:
    error.__cause__ = cause
    return error


__all__ = ["HttpTransport"]
