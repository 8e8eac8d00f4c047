"""The five providers by name."""

from __future__ import annotations

from rxworker.providers.anthropic import Anthropic
from rxworker.providers.gemini import Gemini
from rxworker.providers.ollama import Ollama
from rxworker.providers.openai_chat import OpenAIChat
from rxworker.providers.openai_responses import OpenAIResponses

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
