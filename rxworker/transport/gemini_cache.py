"""Explicit caches of Gemini, created for the beginnings that requests have in common."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable

import reactivex
from msgspec import Struct
from reactivex import Observable, abc
from reactivex import operators as ops

from rxworker.errors import HttpStatusError, TransportError, reason_of
from rxworker.messages.settings import check_number, check_plain
from rxworker.providers.base import HttpRequest
from rxworker.providers.gemini.cached import Beginning, beginnings, created_name
from rxworker.transport.base import Transport
from rxworker.transport.http import HttpTransport

logger = logging.getLogger("rxworker.transport")

MAX = 256
"""Beginnings that are known at a time; the one that was used the longest time ago is forgotten for another.

Its cache ends with its lifetime.
"""
LOST = (400, 403, 404, 410)
"""The answers to a request whose cache has expired or was deleted: Gemini refuses what it does not find."""
EARLY = 5.0
"""Seconds before its end at which a cache is not used any more."""


class _Cache(Struct):
    """What is known of a beginning: its cache and the end of that.

    Without a name it is being created, or could not be; without an end the beginning was seen once.
    """

    name: str = ""
    until: float = math.inf


class GeminiCacheTransport:
    """Sends requests of `rxworker.providers.Gemini`, and puts a beginning into an explicit cache when it comes again.

    A beginning is the tools and the system text, and the first message if that is long. It gets a cache if the model
    takes one (Gemini 2.5 and 3, not 4), if it is long enough by the model's row, and if it is at least half of the
    request: the rest of the request is then not read from a cache. Where a cache is lost or cannot be created, the
    whole request is sent. Each cache ends by its lifetime, which is all that it can cost: Google takes a price for its
    tokens by the hour.

    Args:
        transport: Sends the requests; by default HTTP.
        ttl: Seconds that a cache lives.
        clock: Returns the time in seconds.

    Raises:
        ConfigurationError: The lifetime is not a number above 5.

    See https://ai.google.dev/gemini-api/docs/generate-content/caching

    Example:
        >>> from rxworker.providers import Gemini
        >>> from rxworker.transport import Client
        >>> Client(Gemini("gemini-3.8-flash", api_key="k"), transport=GeminiCacheTransport(ttl=600)).transport
        GeminiCacheTransport(ttl=600)
    """

    def __init__(
        self,
        transport: Transport | None = None,
        *,
        ttl: float = 300.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        check_number("GeminiCacheTransport(ttl)", ttl, above=EARLY)
        check_plain("GeminiCacheTransport(clock)", clock)
        self._transport = transport or HttpTransport()
        self._ttl = ttl
        self._clock = clock
        self._known: dict[str, _Cache] = {}

    def __repr__(self) -> str:
        return f"GeminiCacheTransport(ttl={self._ttl:g})"

    def send(self, request: HttpRequest) -> Observable[bytes]:
        """The body of the answer; see `Transport.send`."""

        def begin(_: abc.SchedulerBase) -> Observable[bytes]:
            found = [*beginnings(request, self._ttl)]
            if not found:
                return self._transport.send(request)
            for one in found:
                if (cache := self._alive(one)) is not None and cache.name:
                    return self._using(one, cache.name, request)
            new = next((one for one in found if self._is_again(one)), None)
            if new is None:
                return self._transport.send(request)
            made = asyncio.ensure_future(self._created(new, request))
            return reactivex.from_future(made).pipe(ops.switch_latest())

        return reactivex.defer(begin)

    def _alive(self, one: Beginning) -> _Cache | None:
        """What is known of a beginning, if anything, now the last one to be forgotten."""
        cache = self._known.pop(one.key, None)
        if cache is None or cache.until <= self._clock():
            return None
        self._known[one.key] = cache
        return cache

    def _is_again(self, one: Beginning) -> bool:
        """Whether a beginning comes again, and has no cache and none in the making."""
        cache = self._alive(one)
        if cache is not None:
            return cache.until == math.inf
        self._known[one.key] = _Cache()
        if len(self._known) > MAX:
            del self._known[next(iter(self._known))]
        return False

    async def _created(self, one: Beginning, request: HttpRequest) -> Observable[bytes]:
        """The answer to a request whose beginning gets a cache now, or cannot get one."""
        cache = self._known[one.key] = _Cache(until=self._clock() + self._ttl - EARLY)
        try:
            chunks: list[bytes] = await self._transport.send(one.create).pipe(ops.to_list())
            name = created_name(b"".join(chunks))
        except (HttpStatusError, TransportError) as error:
            name = None  # a later request tries it again, after a lifetime
            logger.warning("no cache was created, requests are sent whole: %s", reason_of(error))
        if name is None:
            return self._transport.send(request)
        cache.name = name
        return self._using(one, name, request)

    def _using(self, one: Beginning, name: str, request: HttpRequest) -> Observable[bytes]:
        """The answer to a request with a cache; to the whole one if the cache is lost."""

        def failed(error: Exception, _: Observable[bytes]) -> Observable[bytes]:
            if not isinstance(error, HttpStatusError) or error.status not in LOST:
                return reactivex.throw(error)
            self._known.pop(one.key, None)
            return self._transport.send(request)

        return self._transport.send(one.using(name)).pipe(ops.catch(failed))
