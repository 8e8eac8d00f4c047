"""OpenAI: the Responses protocol."""

from rxworker.providers.openai_responses.decode import OpenAIResponsesDecoder
from rxworker.providers.openai_responses.provider import OpenAIResponses

__all__ = ["OpenAIResponses", "OpenAIResponsesDecoder"]
