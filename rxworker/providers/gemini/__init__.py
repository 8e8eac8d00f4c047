"""Gemini: the generateContent protocol, at Google's developer API and at Vertex AI."""

from rxworker.providers.gemini.decode import GeminiDecoder

__all__ = ["GeminiDecoder"]
