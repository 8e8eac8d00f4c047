"""The settings of a request, in the words of the Messages protocol."""

from __future__ import annotations

from rxworker.errors import ConfigurationError
from rxworker.messages import JsonObject, ToolMeta
from rxworker.providers.anthropic.cache import cache_control
from rxworker.providers.base import Options, OutputFormat, ToolChoice
from rxworker.providers.schema import closed, held_arguments
from rxworker.providers.tools import PROGRAMMATIC, refuse_grammar

OFF = ("off", "none", "disabled")


def encode_tool(tool: ToolMeta, code: str | None = None) -> JsonObject:
    """A tool as the model sees it.

    Args:
        tool: The tool.
        code: The type of the request's code execution tool, which is what Anthropic calls a programmatic caller.

    Raises:
        ConfigurationError: The tool asks for something that the protocol does not have.
    """
    refuse_grammar(tool, "Anthropic")
    schema = held_arguments(tool.input_schema, tool.name) if tool.strict else tool.input_schema
    encoded: JsonObject = {"name": tool.name, "input_schema": schema}
    if tool.description:
        encoded["description"] = tool.description
    if tool.strict:
        encoded["strict"] = True
    if tool.defer_loading:
        encoded["defer_loading"] = True
    if tool.allowed_callers:
        encoded["allowed_callers"] = [_caller(one, code, tool) for one in tool.allowed_callers]
    if tool.input_examples:
        encoded["input_examples"] = [*tool.input_examples]
    if tool.cache_control is not None:
        if tool.defer_loading:
            raise ConfigurationError(
                f"tool {tool.name!r} has both defer_loading and cache_control, which Anthropic refuses: put the mark on "
                "a tool that is loaded at once"
            )
        encoded["cache_control"] = cache_control(tool.cache_control.ttl)
    return encoded


def _caller(caller: str, code: str | None, tool: ToolMeta) -> str:
    if caller != PROGRAMMATIC:
        return caller
    if code is None:
        raise ConfigurationError(
            f"tool {tool.name!r} may be called by code, and the request has no code execution tool: add one with "
            'Options(extra={"tools": [{"type": "code_execution_20260120", "name": "code_execution"}]})'
        )
    return code


def code_tool(extra: JsonObject) -> str | None:
    """The type of the code execution tool among the extra tools, if there is one.

    >>> code_tool({"tools": [{"type": "code_execution_20260120", "name": "code_execution"}]})
    'code_execution_20260120'
    """
    tools = extra.get("tools")
    for tool in tools if isinstance(tools, list | tuple) else ():
        kind = tool.get("type") if isinstance(tool, dict) else None
        if isinstance(kind, str) and kind.startswith("code_execution_"):
            return kind
    return None


def encode_choice(choice: ToolChoice | None, parallel: bool | None) -> JsonObject:
    """Whether the model must call a tool, and how many at once."""
    choice = choice or ToolChoice()
    encoded: JsonObject = {"type": choice.mode}
    if choice.mode == "tool":
        encoded["name"] = choice.name
    if parallel is not None and choice.mode != "none":
        encoded["disable_parallel_tool_use"] = not parallel
    return encoded


def limit_of(options: Options, default: int) -> int:
    """The most tokens to write.

    Raises:
        ConfigurationError: The thinking budget leaves no room for the answer.
    """
    budget = options.thinking if isinstance(options.thinking, int) else 0
    if options.max_tokens is None:
        return default + budget  # the budget counts against the limit, the answer keeps its room
    if 0 < options.max_tokens <= budget:
        raise ConfigurationError(
            f"thinking={budget} must be less than max_tokens={options.max_tokens}: the budget is a "
            "part of what may be written"
        )
    return options.max_tokens


def encode_thinking(thinking: int | str | None) -> JsonObject:
    """How hard the model thinks: the fields of the body that say so."""
    if thinking is None:
        return {}
    if thinking in OFF or thinking == 0:
        return {"thinking": {"type": "disabled"}}
    if isinstance(thinking, int):
        return {"thinking": {"type": "enabled", "budget_tokens": thinking}}
    # Since Claude Opus 4.7 the text is left out unless it is asked for.
    body: JsonObject = {"thinking": {"type": "adaptive", "display": "summarized"}}
    if thinking != "adaptive":
        body["output_config"] = {"effort": thinking}
    return body


def encode_output(output: OutputFormat) -> JsonObject:
    """What the answer must look like."""
    return {"format": {"type": "json_schema", "schema": closed(output.schema)}}


__all__ = [
    "code_tool",
    "encode_choice",
    "encode_output",
    "encode_thinking",
    "encode_tool",
    "limit_of",
]
