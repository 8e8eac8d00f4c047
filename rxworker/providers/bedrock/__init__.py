"""Amazon Bedrock: the Converse protocol, and Anthropic's Messages by invoke."""

from rxworker.providers.bedrock.decode import BedrockDecoder

__all__ = ["BedrockDecoder"]
