"""Providers: a conversation becomes a request, an answer's bytes become events. Pure: nothing here opens a connection."""

from rxworker.providers.anthropic import Anthropic
from rxworker.providers.base import (
    HttpRequest,
    Options,
    OutputFormat,
    Provider,
    Request,
    ResponseDecoder,
    ToolChoice,
)
from rxworker.providers.gemini import Gemini
from rxworker.providers.ollama import Ollama
from rxworker.providers.openai_chat import OpenAIChat
from rxworker.providers.openai_responses import OpenAIResponses
from rxworker.providers.summary import CalledTool, Summary, summarise, to_json

# By the name that messages carry and the command line takes.
PROVIDERS: dict[
    str,
    type[Anthropic] | type[Gemini] | type[Ollama] | type[OpenAIChat] | type[OpenAIResponses],
] = {
    "anthropic": Anthropic,
    "gemini": Gemini,
    "ollama": Ollama,
    "openai_chat": OpenAIChat,
    "openai_responses": OpenAIResponses,
}

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
    # a response in one value
    "Summary",
    "CalledTool",
    "summarise",
    "to_json",
]
