"""Providers: a conversation becomes a request, an answer's bytes become events. Pure: nothing here opens a connection."""

from rxworker.providers.anthropic import Anthropic
from rxworker.providers.base import (
    HttpRequest,
    Options,
    Provider,
    Request,
    ResponseDecoder,
    ToolChoice,
)
from rxworker.providers.openai_chat import OpenAIChat
from rxworker.providers.summary import CalledTool, Summary, summarise, to_json

# By the name that messages carry and the command line takes.
PROVIDERS: dict[str, type[Anthropic] | type[OpenAIChat]] = {
    "anthropic": Anthropic,
    "openai_chat": OpenAIChat,
}

__all__ = [
    # the protocols
    "PROVIDERS",
    "Anthropic",
    # a response in one value
    "CalledTool",
    # the seam
    "HttpRequest",
    "OpenAIChat",
    "Options",
    "Provider",
    "Request",
    "ResponseDecoder",
    "Summary",
    "ToolChoice",
    "summarise",
    "to_json",
]
