"""Ollama: the protocol of its own chat endpoint."""

from rxworker.providers.ollama.decode import OllamaDecoder

__all__ = ["OllamaDecoder"]
