"""OpenAI: the Chat Completions protocol, with the dialects of the compatible servers."""

from rxworker.providers.openai_chat.decode import OpenAIChatDecoder

__all__ = ["OpenAIChatDecoder"]
