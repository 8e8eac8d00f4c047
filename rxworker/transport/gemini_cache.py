"""Explicit caches of Gemini, created for the beginnings that requests have in common.

A cache holds the tools and the system text, which many requests have in common, and the first message of the user's if
that alone is long enough. A request that uses it reads nothing else from a cache, so one whose larger part comes after
the beginning, such as that of a long loop, is left to the caching that Gemini does by itself. See
https://ai.google.dev/gemini-api/docs/generate-content/caching and https://ai.google.dev/api/caching
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import re
import time
from collections.abc import Callable, Iterator

import msgspec
import reactivex
from msgspec import Struct
from msgspec.structs import replace
from reactivex import Observable, abc
from reactivex import operators as ops

from rxworker.errors import HttpStatusError, TransportError, reason_of
from rxworker.messages import JsonObject
from rxworker.messages.lenient_json import as_array, as_object, read_json, word
from rxworker.messages.settings import check_number, check_plain
from rxworker.providers.base import HttpRequest, is_secret
from rxworker.providers.models import model_info
from rxworker.transport.base import Transport
from rxworker.transport.http import HttpTransport

HEAD = ("systemInstruction", "tools", "toolConfig")
"""What a request that uses a cache must leave to it."""
BYTES = 4
"""Bytes of a token, about."""
_ADDRESS = re.compile(
    r"(?P<base>https?://[^/]+(?:/[^?]*?)?/v1(?:beta\d*)?)/(?P<place>(?:projects/[^/]+/locations/[^/]+/)?)"
    r"(?P<model>(?:publishers/google/)?models/(?P<name>[^/:?]+)):streamGenerateContent"
)


class Beginning(Struct, frozen=True):
    """A beginning of a request.

    Attributes:
        key: The same for the same beginning of requests to the same place with the same credentials.
        create: Creates a cache of it; the answer has its name.
        rest: The request without it, which `using` completes.
    """

    key: str
    create: HttpRequest
    rest: HttpRequest

    def using(self, name: str) -> HttpRequest:
        """The request with a cache in place of the beginning."""
        body: JsonObject = msgspec.json.decode(self.rest.body)
        return replace(self.rest, body=msgspec.json.encode({**body, "cachedContent": name}))


def beginnings(request: HttpRequest, ttl: float) -> Iterator[Beginning]:
    """The beginnings that are worth a cache, the longest first.

    None for a model that takes none, and for a request that names a cache itself.

    Args:
        request: The request, of any provider.
        ttl: The lifetime of the cache in seconds.

    >>> from rxworker.messages import Conversation, Message
    >>> from rxworker.providers import Gemini, Options
    >>> asked = Conversation((Message.user("Hi"),), "Be careful. " * 2_000)
    >>> sent = Gemini("gemini-3.8-flash", api_key="k").request(asked, (), Options())
    >>> (one,) = beginnings(sent, 300)
    >>> one.create.url
    'https://generativelanguage.googleapis.com/v1beta/cachedContents'
    >>> one.using("cachedContents/7").body
    b'{"contents":[{"role":"user","parts":[{"text":"Hi"}]}],"cachedContent":"cachedContents/7"}'
    """
    address = _ADDRESS.match(request.url)
    info = model_info(address["name"]) if address else None
    if address is None or info is None or info.caching != "explicit" or not info.cache_least:
        return
    body: JsonObject = msgspec.json.decode(request.body)
    contents = [*as_array(body.get("contents"))]
    if "cachedContent" in body or not contents:
        return
    least = info.cache_least * BYTES
    head = {name: body[name] for name in HEAD if name in body}
    parts = [head]
    if len(contents) > 1 and len(msgspec.json.encode(contents[0])) >= least:
        parts.insert(0, {**head, "contents": contents[:1]})
    for part in parts:
        if len(msgspec.json.encode(part)) < max(least, len(request.body) / 2):
            continue
        made = {"model": address["place"] + address["model"], **part, "ttl": f"{ttl:g}s"}
        rest = {name: value for name, value in body.items() if name not in HEAD}
        rest["contents"] = contents["contents" in part :]
        base = f"{address['base']}/{address['place']}"
        key = msgspec.json.encode([base, made, sorted((k, v) for k, v in request.headers.items() if is_secret(k))])
        yield Beginning(
            hashlib.sha256(key).hexdigest(),
            HttpRequest(
                f"{base}cachedContents",
                {**request.headers, "accept": "application/json"},
                msgspec.json.encode(made),
                ("application/json",),
            ),
            replace(request, body=msgspec.json.encode(rest)),
        )


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
        self, transport: Transport | None = None, *, ttl: float = 300.0, clock: Callable[[], float] = time.monotonic
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
            return reactivex.from_future(asyncio.ensure_future(self._created(new, request))).pipe(ops.switch_latest())

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
        if (cache := self._alive(one)) is not None:
            return cache.until == math.inf
        self._known[one.key] = _Cache()
        if len(self._known) > MAX:
            del self._known[next(iter(self._known))]
        return False

    async def _created(self, one: Beginning, request: HttpRequest) -> Observable[bytes]:
        """The answer to a request whose beginning gets a cache now, or cannot get one."""
        cache = self._known[one.key] = _Cache(until=self._clock() + self._ttl - EARLY)
        try:
            answer = read_json(b"".join(await self._transport.send(one.create).pipe(ops.to_list())))
        except (HttpStatusError, TransportError) as error:
            answer = None  # a later request tries it again, after a lifetime
            logger.warning("no cache was created, requests are sent whole: %s", reason_of(error))
        cache.name = word(as_object(answer).get("name"))
        return self._using(one, cache.name, request) if cache.name else self._transport.send(request)

    def _using(self, one: Beginning, name: str, request: HttpRequest) -> Observable[bytes]:
        """The answer to a request with a cache; to the whole one if the cache is lost."""

        def failed(error: Exception, _: Observable[bytes]) -> Observable[bytes]:
            if not isinstance(error, HttpStatusError) or error.status not in LOST:
                return reactivex.throw(error)
            self._known.pop(one.key, None)
            return self._transport.send(request)

        return self._transport.send(one.using(name)).pipe(ops.catch(failed))
