"""The settings of a request, in the words of generateContent."""

from __future__ import annotations

from collections.abc import Sequence

from rxworker.messages import Json, JsonObject, ToolMeta
from rxworker.providers.base import Options, ToolChoice
from rxworker.providers.schema import refuse_grammar, refuse_programmatic

MODES = {"auto": "AUTO", "none": "NONE", "any": "ANY", "tool": "ANY"}
OFF = ("off", "none", "disabled")
DYNAMIC = ("adaptive", "dynamic", "auto")


def encode_tools(tools: Sequence[ToolMeta]) -> list[Json]:
    """The tools as the model sees them: one list of functions.

    The schema goes as JSON schema. The older field ``parameters`` takes only a part of it, in words of its own.

    Raises:
        ConfigurationError: A tool asks for something that the protocol does not have.
    """
    for tool in tools:
        refuse_grammar(tool, "Gemini")
        refuse_programmatic(tool, "Gemini")
    functions: list[Json] = [
        {
            "name": tool.name,
            "description": tool.description,
            "parametersJsonSchema": tool.input_schema,
        }
        for tool in tools
    ]
    return [{"functionDeclarations": functions}]


def encode_choice(choice: ToolChoice) -> JsonObject:
    """Whether the model must call a tool.

    >>> encode_choice(ToolChoice("tool", "look"))
    {'functionCallingConfig': {'mode': 'ANY', 'allowedFunctionNames': ['look']}}
    """
    config: JsonObject = {"mode": MODES[choice.mode]}
    if choice.mode == "tool" and choice.name:
        config["allowedFunctionNames"] = [choice.name]
    return {"functionCallingConfig": config}


def encode_generation(options: Options) -> JsonObject:
    """The limits, the randomness, the thinking, and what the answer must look like."""
    encoded: JsonObject = {}
    if options.max_tokens is not None:
        encoded["maxOutputTokens"] = options.max_tokens
    if options.temperature is not None:
        encoded["temperature"] = options.temperature
    if options.stop_sequences:
        encoded["stopSequences"] = list(options.stop_sequences)
    if options.thinking is not None:
        encoded["thinkingConfig"] = encode_thinking(options.thinking)
    if options.output is not None:
        encoded["responseMimeType"] = "application/json"
        encoded["responseJsonSchema"] = options.output.schema
    return encoded


def encode_thinking(thinking: int | str) -> JsonObject:
    """How hard the model thinks; its thoughts are then reported in summaries.

    A number is a budget in tokens, a word is a level, and ``adaptive`` leaves it to the model.

    >>> encode_thinking("high"), encode_thinking("off")
    ({'includeThoughts': True, 'thinkingLevel': 'high'}, {'thinkingBudget': 0})
    """
    if thinking in OFF or thinking == 0:
        return {"thinkingBudget": 0}
    if isinstance(thinking, int):
        return {"includeThoughts": True, "thinkingBudget": thinking}
    if thinking in DYNAMIC:
        return {"includeThoughts": True, "thinkingBudget": -1}
    return {"includeThoughts": True, "thinkingLevel": thinking}
