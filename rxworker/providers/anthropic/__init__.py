"""Anthropic: the Messages protocol."""

from rxworker.providers.anthropic.decode import AnthropicDecoder
from rxworker.providers.anthropic.provider import Anthropic

__all__ = ["Anthropic", "AnthropicDecoder"]
