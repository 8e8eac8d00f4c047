"""OpenAI: the Responses protocol."""

from rxworker.providers.openai_responses.decode import OpenAIResponsesDecoder

__all__ = ["OpenAIResponsesDecoder"]
