"""Requests over aiohttp, as cold observables of bytes.

A subscription starts one task, which sends the request and pushes what arrives. Disposing it cancels the task, and
leaving the response's block on the way closes the connection. Foreign exceptions become ours here and nowhere else.
"""

from __future__ import annotations

import asyncio
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

        Raises:
            LocalProtocolError: On subscription, where no event loop runs.
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
        try:
            await self._read(request, observer)
        except RxWorkerError as error:
            observer.on_error(error)
        except Exception as error:
            observer.on_error(_translated(error, request.url, self.connect_timeout))
        else:
            observer.on_completed()

    async def _read(self, request: HttpRequest, observer: abc.ObserverBase[bytes]) -> None:
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
                raise await _answer(response, request.url)
            push = observer.on_next
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
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) >= MOST_OF_AN_ERROR:
            break
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
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError():
            message = f"no trusted connection to {url}: {error}"
            return _because(error, TransportError(message))
        case aiohttp.ClientConnectorError():
            message = f"cannot connect to {url}: {error.strerror or error}. Is the server running, and is base_url right?"
            return _because(error, TransportError(message, retryable=True))
        case _:
            message = f"the connection to {url} broke: {type(error).__name__}: {error}"
            return _because(error, TransportError(message, retryable=True))


def _because(cause: Exception, error: TransportError) -> TransportError:
    error.__cause__ = cause
    return error


__all__ = ["HttpTransport"]
