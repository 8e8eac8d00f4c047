"""Where an answer is from: what a service has sealed goes back to that service and that maker's models alone. Pure.

Signatures of thinking, encrypted reasoning, the ids of items, containers and such are read by the service that made
them. Another service, or a model of another maker at the same one, refuses the request for them; see for example
https://platform.claude.com/docs/en/build-with-claude/extended-thinking and
https://developers.openai.com/api/docs/guides/reasoning. An encoder leaves them out of a message that has no provider.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from rxworker.messages import Conversation, Message

UNSEALED = "unsealed"
"""The kind of the `Opaque` of a request that was refused for what earlier answers hold sealed, and was sent again."""
MAX_REFUSED = 1000
_REGION = re.compile(r"(?:(?<=[.-])|^)[a-z]+(?:-[a-z]+)+-?\d+[.-](?=.*(?:amazonaws\.com|api\.aws|googleapis\.com)$)")
# The makers of models, by their names. The first that matches counts.
_MAKERS = {
    "anthropic": "claude",
    "openai": r"(chat)?gpt|o\d\b|codex|computer-use",
    "google": "gemini|gemma|learnlm",
    "amazon": "nova|titan",
    "deepseek": "deepseek",
    "nvidia": "(llama.*)?nemotron",
    "meta": r"(meta-)?llama\b|llama\d",
    "mistral": "(open-)?mi[sx]tral|ministral|magistral|codestral|devstral|pixtral",
    "alibaba": "qwen|qwq|qvq",
    "moonshot": r"kimi|moonshot|k\d\b",
    "zai": "(chat)?glm",
    "minimax": "minimax|abab",
    "xai": "grok",
    "cohere": "command|c4ai|aya",
    "ibm": "granite",
    "microsoft": r"phi\b|phi\d",
    "baidu": "ernie",
    "ai21": "jamba",
    "perplexity": "sonar",
}
_PATTERNS = {maker: re.compile(f"(?:.*[./:])?(?:{names})", re.IGNORECASE) for maker, names in _MAKERS.items()}


@lru_cache(maxsize=256)
def maker_of(model: str) -> str:
    """Who has made a model, by its name; empty if it is not known, as of a deployment with a name of its own.

    >>> maker_of("openai/gpt-oss-120b"), maker_of("us.amazon.nova-pro-v1:0"), maker_of("my-deployment")
    ('openai', 'amazon', '')
    """
    return next((maker for maker, names in _PATTERNS.items() if names.match(model)), "")


@lru_cache(maxsize=64)  # used for each request, and always the same
def service_at(url: str) -> str:
    """The service at an address, as messages carry it: the host, and the port where it is named; regions are one.

    >>> service_at("https://us-east5-aiplatform.googleapis.com/v1"), service_at("http://127.0.0.1:8080/v1")
    ('aiplatform.googleapis.com', '127.0.0.1:8080')
    """
    try:
        parts = urlsplit(url)
        host = _REGION.sub("", parts.netloc.lower())
        return host.removesuffix({"http": ":80", "https": ":443"}.get(parts.scheme, ":"))
    except ValueError:
        return ""


class Origin(Struct, frozen=True):
    """A model at a service.

    Attributes:
        provider: The name of the provider.
        service: See `service_at`.
        model: The name of the model.
    """

    provider: str
    service: str
    model: str


@lru_cache(maxsize=1024)
def reads(at: Origin, provider: str | None, service: str | None, model: str | None) -> bool:
    """Whether a model reads what was sealed elsewhere; what is not known of that place does not exclude it.

    Args:
        at: The model, and where it is.
        provider: The provider of the message.
        service: Its service.
        model: Its model.

    >>> reads(Origin("openai_chat", "api.groq.com", "llama-4"), "openai_chat", "api.groq.com", "openai/gpt-oss-120b")
    False
    """
    if provider != at.provider or (service or at.service) != at.service:
        return False
    return len({maker_of(at.model), maker_of(model or "")} - {""}) < 2


def foreign(messages: Sequence[Message], at: Origin) -> tuple[Message, ...] | None:
    """The messages; one whose sealed parts the model does not read has no provider. ``None`` if there is none such.

    >>> said = Message("assistant", (), "anthropic", "MiniMax-M3", service="api.minimax.io")
    >>> foreign([said], Origin("anthropic", "api.anthropic.com", "claude-opus-5-5"))[0].provider is None
    True
    """
    others = {
        (m.provider, m.service, m.model)
        for m in messages
        if m.provider is not None and not reads(at, m.provider, m.service, m.model)
    }
    if not others:
        return None
    return tuple([replace(m, provider=None) if (m.provider, m.service, m.model) in others else m for m in messages])


class Refused:
    """The messages whose sealed parts a service refuses, as after a change of the account.

    The last `MAX_REFUSED`, and as many as one request has, are known by their identity, so that the next request does
    not fail again.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[Message, Message]] = OrderedDict()

    def add(self, messages: Iterable[Message]) -> None:
        """Take the messages of a request that was refused; all of them are known until the next call."""
        answers = {id(m): m for m in messages if m.provider}
        for key, m in answers.items():
            self._known[key] = self._known.pop(key, None) or (m, replace(m, provider=None))
        while len(self._known) > max(MAX_REFUSED, len(answers)):
            self._known.popitem(last=False)

    def without(self, conversation: Conversation) -> Conversation:
        """The conversation, in which these messages have no provider."""
        if not self._known:
            return conversation
        return conversation.with_messages([self._known.get(id(m), (m, m))[1] for m in conversation.messages])
