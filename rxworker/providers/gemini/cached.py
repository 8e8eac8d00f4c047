"""The beginnings of a request that may be put into an explicit cache of Gemini, and what creates and uses it. Pure.

A cache holds the tools and the system text, which many requests have in common, and the first message of the user's if
that alone is long enough. A request that uses it reads nothing else from a cache, so one whose larger part comes after
the beginning, such as that of a long loop, is left to the caching that Gemini does by itself. See
https://ai.google.dev/gemini-api/docs/generate-content/caching and https://ai.google.dev/api/caching
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rxworker.messages import JsonObject
from rxworker.messages.lenient_json import as_array
from rxworker.providers.base import HttpRequest, is_secret
from rxworker.providers.models import model_info

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
        create: Creates a cache of it; the answer is read by `created_name`.
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
        known = msgspec.json.encode(part)
        if len(known) < max(least, len(request.body) / 2):
            continue
        made = {"model": address["place"] + address["model"], **part, "ttl": f"{ttl:g}s"}
        rest = {name: value for name, value in body.items() if name not in HEAD}
        rest["contents"] = contents["contents" in part :]
        base = f"{address['base']}/{address['place']}"
        secrets = sorted((k, v) for k, v in request.headers.items() if is_secret(k))
        key = msgspec.json.encode([base, made, secrets])
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


def created_name(answer: bytes) -> str | None:
    """The name of a cache that was created; ``None`` if the answer has none.

    >>> created_name(b'{"name": "cachedContents/7"}'), created_name(b"[]")
    ('cachedContents/7', None)
    """
    try:
        return msgspec.json.decode(answer, type=_Created).name or None
    except msgspec.DecodeError:
        return None


class _Created(Struct):
    name: str = ""
