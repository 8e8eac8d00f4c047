"""A request that is authorized when it is sent.

Each time anew, in a thread or by a coroutine, and its secrets are not shown.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence

import pytest
import reactivex
from msgspec.structs import replace
from reactivex import Observable
from reactivex import operators as ops

from rxworker.errors import ConfigurationError, HttpStatusError, ProviderError, TransportError
from rxworker.messages import Conversation, ToolMeta
from rxworker.operators import text_deltas
from rxworker.providers import OpenAIChat, Options
from rxworker.providers.base import HttpRequest
from rxworker.transport import Client, Retry

BODY = b'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
Authorize = Callable[[HttpRequest], HttpRequest | Awaitable[HttpRequest]]


class Late(OpenAIChat):
    """A model whose requests are authorized when they are sent."""

    authorize: Authorize

    def request(self, conversation: Conversation, tools: Sequence[ToolMeta], options: Options) -> HttpRequest:
        return replace(super().request(conversation, tools, options), authorize=self.authorize)


class Kept:
    """A transport that keeps what it sends, and fails as often as it is told."""

    def __init__(self, *failures: Exception) -> None:
        self.sent: list[HttpRequest] = []
        self.failures = [*failures]

    def send(self, request: HttpRequest) -> Observable[bytes]:
        self.sent.append(request)
        if self.failures:
            return reactivex.throw(self.failures.pop(0))
        return reactivex.of(BODY)


def client_of(authorize: Authorize, transport: Kept) -> Client:
    provider = Late("m", api_key="k", base_url="http://127.0.0.1:1/v1")
    provider.authorize = authorize
    return Client(provider, transport=transport, retry=Retry(retries=1))


def test_what_takes_long_runs_in_a_thread_and_each_try_is_authorized_anew() -> None:
    threads: list[threading.Thread] = []

    def authorize(request: HttpRequest) -> HttpRequest:
        threads.append(threading.current_thread())
        return replace(request, headers={**request.headers, "x-token": f"t{len(threads)}"})

    transport = Kept(TransportError("cut", retryable=True))
    texts = asyncio.run(_texts(client_of(authorize, transport)))
    assert texts == ["Hi"]
    assert [request.headers["x-token"] for request in transport.sent] == ["t1", "t2"]
    assert threading.main_thread() not in threads


def test_a_coroutine_function_runs_in_the_loop() -> None:
    async def authorize(request: HttpRequest) -> HttpRequest:
        await asyncio.sleep(0)
        assert threading.current_thread() is threading.main_thread()
        return replace(request, headers={**request.headers, "x-token": "t"})

    transport = Kept()
    assert asyncio.run(_texts(client_of(authorize, transport))) == ["Hi"]
    assert transport.sent[0].headers["x-token"] == "t"


def test_an_error_of_it_ends_the_response() -> None:
    def authorize(request: HttpRequest) -> HttpRequest:
        raise ConfigurationError("no credentials: log in")

    transport = Kept()
    with pytest.raises(ConfigurationError, match="log in"):
        asyncio.run(_texts(client_of(authorize, transport)))
    assert transport.sent == []


def test_a_response_that_is_left_before_it_is_authorized_is_not_sent() -> None:
    async def run() -> bool:
        begun, cancelled = asyncio.Event(), asyncio.Event()

        async def authorize(request: HttpRequest) -> HttpRequest:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
            return request

        subscription = client_of(authorize, transport).stream("?").subscribe()
        await begun.wait()
        subscription.dispose()
        await asyncio.wait_for(cancelled.wait(), 60)
        return True

    transport = Kept()
    assert asyncio.run(run())
    assert transport.sent == []


def test_a_secret_that_it_added_is_not_shown() -> None:
    def authorize(request: HttpRequest) -> HttpRequest:
        return replace(request, headers={**request.headers, "authorization": "Bearer tok-12345"})

    body = b'{"error": {"message": "bad token tok-12345", "type": "invalid_request_error"}}'
    failure = HttpStatusError("no", status=400, headers={}, body=body, url="http://a")
    with pytest.raises(ProviderError) as caught:
        asyncio.run(_texts(client_of(authorize, Kept(failure))))
    assert "tok-12345" not in str(caught.value)


async def _texts(client: Client) -> list[str]:
    return await client.stream("?").pipe(text_deltas(), ops.to_list())
