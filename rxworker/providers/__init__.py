"""Providers: a conversation becomes a request, an answer's bytes become events. Pure: nothing here opens a connection.

A program uses one protocol, seldom two. A provider is imported when its name is first used.
"""

from typing import TYPE_CHECKING

from rxworker.lazy import getter
from rxworker.providers.base import HttpRequest, Options, Provider, Request, ResponseDecoder, ToolChoice
from rxworker.providers.models import ModelInfo, model_info

if TYPE_CHECKING:
    from rxworker.providers.anthropic.provider import Anthropic, AnthropicVertex
    from rxworker.providers.bedrock.provider import AnthropicBedrock, Bedrock
    from rxworker.providers.cache_use import CacheUse
    from rxworker.providers.gemini.provider import Gemini
    from rxworker.providers.gemini_interactions.provider import GeminiInteractions
    from rxworker.providers.ollama.provider import Ollama
    from rxworker.providers.openai_chat.dialects import Dialect
    from rxworker.providers.openai_chat.provider import OpenAIChat
    from rxworker.providers.openai_responses.provider import OpenAIResponses
    from rxworker.providers.service import Service

    PROVIDERS: dict[str, type[Service]]
    """The providers by the name that messages carry and the command line takes."""

_MODULES = {
    "Anthropic": "anthropic",
    "Bedrock": "bedrock",
    "Gemini": "gemini",
    "GeminiInteractions": "gemini_interactions",
    "Ollama": "ollama",
    "OpenAIChat": "openai_chat",
    "OpenAIResponses": "openai_responses",
}
"""The module of each provider, which is also its name in `PROVIDERS`."""

_late = getter(
    __name__,
    {name: f"{__name__}.{module}.provider" for name, module in _MODULES.items()}
    | {
        "AnthropicBedrock": f"{__name__}.bedrock.provider",
        "AnthropicVertex": f"{__name__}.anthropic.provider",
        "CacheUse": f"{__name__}.cache_use",
        "Dialect": f"{__name__}.openai_chat.dialects",
    },
)


def __getattr__(name: str) -> object:
    if name != "PROVIDERS":
        return _late(name)
    made = globals()[name] = {module: _late(provider) for provider, module in _MODULES.items()}
    return made


__all__ = [
    # the protocols
    "PROVIDERS",
    "Anthropic",
    "AnthropicBedrock",
    "AnthropicVertex",
    "Bedrock",
    "Gemini",
    "GeminiInteractions",
    "OpenAIChat",
    "Dialect",
    "OpenAIResponses",
    "Ollama",
    # what models take and cost
    "ModelInfo",
    "model_info",
    # the seam
    "Provider",
    "Request",
    "Options",
    "ToolChoice",
    "HttpRequest",
    "ResponseDecoder",
    # what was read from a cache
    "CacheUse",
]
