"""The settings of a request, in Ollama's words."""

from __future__ import annotations

from collections.abc import Sequence

from rxworker.messages import JsonObject, ToolMeta
from rxworker.providers.base import Options, ToolChoice
from rxworker.providers.tools import refuse_grammar, refuse_programmatic

# What other words than Ollama's own efforts (low, medium, high) come to.
THINK: dict[str, bool | str] = {
    "off": False,
    "none": False,
    "disabled": False,
    "on": True,
    "enabled": True,
    "adaptive": True,
    "minimal": "low",
    "xhigh": "high",
}


def encode_tools(tools: Sequence[ToolMeta], choice: ToolChoice | None) -> list[JsonObject]:
    """The tools on offer. Ollama has no word for a choice, so the choice is made by what is offered.

    Raises:
        ConfigurationError: A tool asks for something that the protocol does not have.
    """
    if choice is not None and choice.mode == "none":
        return []
    if choice is not None and choice.mode == "tool":
        tools = [tool for tool in tools if tool.name == choice.name]
    return [_tool(tool) for tool in tools]


def encode_think(thinking: int | str | None) -> JsonObject:
    """Whether the model thinks, or how hard. A budget in tokens only says that it does."""
    if thinking is None:
        return {}
    if isinstance(thinking, str):
        return {"think": THINK.get(thinking, thinking)}
    return {"think": thinking > 0}


def encode_options(options: Options) -> JsonObject:
    """What Ollama keeps in ``options``."""
    encoded: JsonObject = {}
    if options.max_tokens is not None:
        encoded["num_predict"] = options.max_tokens
    if options.temperature is not None:
        encoded["temperature"] = options.temperature
    if options.stop_sequences:
        encoded["stop"] = list(options.stop_sequences)
    return encoded


def _tool(tool: ToolMeta) -> JsonObject:
    refuse_grammar(tool, "Ollama")
    refuse_programmatic(tool, "Ollama")
    function: JsonObject = {"name": tool.name, "parameters": tool.input_schema}
    if tool.description:
        function["description"] = tool.description
    return {"type": "function", "function": function}


__all__ = ["encode_options", "encode_think", "encode_tools"]
