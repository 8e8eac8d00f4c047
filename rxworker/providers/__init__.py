"""Providers: a conversation becomes a request, an answer's bytes become events. Pure: nothing here opens a connection.

A program uses one protocol, seldom two. Each is imported when its name is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from rxworker.providers.base import (
    BackgroundProvider,
    HttpRequest,
    Options,
    OutputFormat,
    Provider,
    Request,
    ResponseDecoder,
    ResumableDecoder,
    ToolChoice,
)

if TYPE_CHECKING:
    from rxworker.providers.anthropic import Anthropic
    from rxworker.providers.gemini import Gemini
    from rxworker.providers.ollama import Ollama
    from rxworker.providers.openai_chat import OpenAIChat
    from rxworker.providers.openai_responses import OpenAIResponses
    from rxworker.providers.registry import PROVIDERS

_LATER = {
    "Anthropic": "anthropic",
    "Gemini": "gemini",
    "Ollama": "ollama",
    "OpenAIChat": "openai_chat",
    "OpenAIResponses": "openai_responses",
    "PROVIDERS": "registry",
}
"""Where a name comes from that is imported when it is asked for."""


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = value
    return value


__all__ = [
    # the protocols
    "PROVIDERS",
    "Anthropic",
    "Gemini",
    "OpenAIChat",
    "OpenAIResponses",
    "Ollama",
    # the seam
    "Provider",
    "Request",
    "Options",
    "OutputFormat",
    "ToolChoice",
    "HttpRequest",
    "ResponseDecoder",
    "BackgroundProvider",
    "ResumableDecoder",
]
