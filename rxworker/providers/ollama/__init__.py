"""Ollama: the protocol of its own chat endpoint."""

from rxworker.providers.ollama.decode import OllamaDecoder
from rxworker.providers.ollama.provider import Ollama

__all__ = ["Ollama", "OllamaDecoder"]
