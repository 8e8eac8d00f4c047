"""OpenAI: the Chat Completions protocol, with the dialects of the compatible servers."""

from rxworker.providers.openai_chat.decode import OpenAIChatDecoder
from rxworker.providers.openai_chat.provider import OpenAIChat

__all__ = ["OpenAIChat", "OpenAIChatDecoder"]
