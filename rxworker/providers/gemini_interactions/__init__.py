"""Gemini: the Interactions protocol, at Google's developer API and at Vertex AI."""

from rxworker.providers.gemini_interactions.decode import GeminiInteractionsDecoder

__all__ = ["GeminiInteractionsDecoder"]
