"""The settings with which OpenAI's two protocols cache a conversation by themselves: OpenAI caches unasked, and needs to know which requests belong together.

A key leads the requests of a conversation to the same servers, which have its beginning. It is made of the first message, which does not change while a
conversation grows; the service adds a hash of the prompt's beginning. From GPT-5.6 on the service places a breakpoint at the end of each request and finds it without
a limit of blocks, so that breakpoints in the content are not needed. See https://developers.openai.com/api/docs/guides/prompt-caching
"""

from __future__ import annotations

from rxworker.messages import JsonObject
from rxworker.providers.base import Request
from rxworker.providers.ids import hashed

HOSTS = (".openai.com", ".openai.azure.com", ".cognitiveservices.azure.com")
"""Where OpenAI's own models answer; a compatible server may refuse fields that it does not know."""
RETENTIONS = ("in_memory", "24h")


def cache_settings(host: str, request: Request, ttls: tuple[str, ...]) -> JsonObject:
    """The fields of the body for ``Options(cache="auto")``; another provider's lifetime is left out.

    Args:
        host: The host of the service.
        request: The request.
        ttls: The lifetimes that the protocol takes from GPT-5.6 on; earlier models have `RETENTIONS`.

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
    if options.cache_ttl in RETENTIONS:
        settings["prompt_cache_retention"] = options.cache_ttl
    elif options.cache_ttl in ttls:
        settings["prompt_cache_options"] = {"ttl": options.cache_ttl}
    return settings
