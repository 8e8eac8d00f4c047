"""What the encoders of several providers need to know of tools. Pure."""

from __future__ import annotations

from rxworker.errors import ConfigurationError
from rxworker.messages import Grammar, ToolMeta

DIRECT = "direct"
PROGRAMMATIC = "programmatic"


def refuse_grammar(tool: ToolMeta, provider: str) -> None:
    """Raise for a tool whose free text must follow a grammar, if the provider cannot hold the model to it.

    Free text without a grammar loses nothing: the model is then shown a function with one string.

    Raises:
        ConfigurationError: The tool has a grammar.
    """
    if isinstance(tool.format, Grammar):
        raise ConfigurationError(
            f"tool {tool.name!r} has a grammar, and {provider} cannot hold the model to one: use OpenAIResponses, or "
            "give the tool format='text' and check the text in it"
        )


def refuse_programmatic(tool: ToolMeta, provider: str) -> None:
    """Raise for a tool that only code may call, if the provider runs no code that calls tools.

    Raises:
        ConfigurationError: The model itself may not call the tool.
    """
    if tool.allowed_callers and DIRECT not in tool.allowed_callers:
        raise ConfigurationError(
            f"tool {tool.name!r} has allowed_callers={tool.allowed_callers}, and {provider} has no code that calls "
            "tools: add 'direct', or use Anthropic or OpenAIResponses"
        )


__all__ = ["DIRECT", "PROGRAMMATIC", "refuse_grammar", "refuse_programmatic"]
