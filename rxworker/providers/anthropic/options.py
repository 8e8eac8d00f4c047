"""The settings of a request, in the words of the Messages protocol."""

from __future__ import annotations

from rxworker.errors import ConfigurationError
from rxworker.messages import JsonObject, ToolMeta
from rxworker.providers.base import Options, OutputFormat, ToolChoice
from rxworker.providers.remember import Body
from rxworker.providers.schema import closed

OFF = ("off", "none", "disabled")


def encode_tool(tool: ToolMeta) -> JsonObject:
    """A tool as the model sees it."""
    encoded: JsonObject = {"name": tool.name, "input_schema": tool.input_schema}
    if tool.description:
        encoded["description"] = tool.description
    return encoded


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
    body: JsonObject = {"thinking": {"type": "adaptive"}}
    if thinking != "adaptive":
        body["output_config"] = {"effort": thinking}
    return body


def encode_output(output: OutputFormat) -> JsonObject:
    """What the answer must look like."""
    return {"format": {"type": "json_schema", "schema": closed(output.schema)}}


def with_extra(body: Body, extra: JsonObject) -> Body:
    """The extra fields come over ours; extra tools, such as the provider's own, stand beside ours."""
    ours, theirs = body.get("tools"), extra.get("tools")
    body = body | extra
    if isinstance(ours, list) and isinstance(theirs, list):
        body["tools"] = [*ours, *theirs]
    return body


__all__ = [
    "encode_choice",
    "encode_output",
    "encode_thinking",
    "encode_tool",
    "limit_of",
    "with_extra",
]
