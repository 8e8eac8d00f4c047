"""Anthropic: the Messages protocol."""

from rxworker.providers.anthropic.decode import AnthropicDecoder

__all__ = ["AnthropicDecoder"]
