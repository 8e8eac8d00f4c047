"""How OpenAI's two protocols cache a conversation.

OpenAI caches unasked, and needs to know which requests belong together.

A key leads the requests of a conversation to the same servers, which have its beginning. It is made of the first
message, which does not change while a conversation grows; the service adds a hash of the prompt's beginning. From
GPT-5.6 on the service places a breakpoint at the end of each request and finds it without a limit of blocks, so that a
loop needs none of its own. A `rxworker.messages.CachePoint` is one more, for a beginning that several conversations
share: these models find what ends at a breakpoint, and nothing shorter. See
https://developers.openai.com/api/docs/guides/prompt-caching
"""

from __future__ import annotations

from rxworker.messages import CachePoint, JsonObject
from rxworker.providers.base import Request
from rxworker.providers.ids import hashed
from rxworker.providers.models import UNKNOWN, ModelInfo

HOSTS = (".openai.com", ".openai.azure.com", ".cognitiveservices.azure.com")
"""Where OpenAI's own models answer; a compatible server may refuse fields that it does not know."""
RETENTIONS = ("in_memory", "24h")


LIFETIMES = ("30m", "12h")
"""The lifetimes from GPT-5.6 on."""
BREAKPOINT = "prompt_cache_breakpoint"


def takes_breakpoints(host: str, info: ModelInfo) -> bool:
    """Whether a model at a host takes breakpoints.

    >>> info = ModelInfo(caching="breakpoints")
    >>> takes_breakpoints("api.openai.com", info), takes_breakpoints("127.0.0.1", info)
    (True, False)
    """
    return info.caching == "breakpoints" and f".{host}".endswith(HOSTS)


def set_breakpoint(parts: list[JsonObject], point: CachePoint, *, wanted: bool) -> None:
    """Put a breakpoint on the last of some parts of a message, in its place.

    The service writes the last three of a request.

    Args:
        parts: The parts so far.
        point: The point, whose lifetime is left out if it is another provider's.
        wanted: Whether the model takes breakpoints.

    >>> parts: list[JsonObject] = [{"type": "text", "text": "long"}]
    >>> set_breakpoint(parts, CachePoint("30m"), wanted=True)
    >>> parts
    [{'type': 'text', 'text': 'long', 'prompt_cache_breakpoint': {'mode': 'explicit', 'ttl': '30m'}}]
    """
    if parts and wanted:
        mark: JsonObject = {"mode": "explicit"}
        if point.ttl in LIFETIMES:
            mark["ttl"] = point.ttl
        parts[-1] = {**parts[-1], BREAKPOINT: mark}


def cache_settings(host: str, request: Request, ttls: tuple[str, ...], info: ModelInfo = UNKNOWN) -> JsonObject:
    """The fields of the body for ``Options(cache="auto")``; a lifetime that the model does not take is left out.

    Args:
        host: The host of the service.
        request: The request.
        ttls: The lifetimes that the protocol takes from GPT-5.6 on; earlier models have `RETENTIONS`.
        info: How the model caches; of an unknown one, such as a deployment at Azure, any lifetime is sent.

    >>> from rxworker.messages import Conversation, Message
    >>> from rxworker.providers import Options
    >>> asked = Request(Conversation((Message.user("hi"),)), (), Options(cache="auto", cache_ttl="24h"))
    >>> cache_settings("api.openai.com", asked, ("30m",))
    {'prompt_cache_key': '8f434346648f6b96df89dda901c5176b', 'prompt_cache_retention': '24h'}
    """
    options = request.options
    if options.cache != "auto" or not f".{host}".endswith(HOSTS):
        return {}
    first = next((m.text for m in request.conversation.messages if m.role != "system"), "")
    settings: JsonObject = {"prompt_cache_key": hashed(first)[:32]}
    if options.cache_ttl in RETENTIONS and info.caching != "breakpoints":
        settings["prompt_cache_retention"] = options.cache_ttl
    elif options.cache_ttl in ttls and info.caching != "automatic":
        settings["prompt_cache_options"] = {"ttl": options.cache_ttl}
    return settings
