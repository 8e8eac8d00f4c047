"""Gemini: the generateContent protocol, at Google's developer API and at Vertex AI."""

from rxworker.providers.gemini.decode import GeminiDecoder
from rxworker.providers.gemini.provider import Gemini

__all__ = ["Gemini", "GeminiDecoder"]
