"""The settings of a request, in the words of the Responses protocol."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from rxworker.messages import Json, JsonObject, ToolMeta
from rxworker.messages.content import TextFormat
from rxworker.providers.base import Options, ToolChoice
from rxworker.providers.encode_cache import Body
from rxworker.providers.extra import MODES, effort, settings_as
from rxworker.providers.schema import (
    DIRECT,
    PROGRAMMATIC,
    answer_schema,
    strict_arguments,
)

OFF = ("off", "disabled")
SEALED = "reasoning.encrypted_content"
# OpenAI's models without reasoning, which refuse requests for encrypted reasoning.
THOUGHTLESS = re.compile(r"(ft:)?(gpt-3\.5|gpt-4|chatgpt-4o|gpt-5[.\d]*-chat)")


def encode_options(options: Options, tools: Sequence[ToolMeta]) -> Body:
    """The fields of the body that define the form of the answer.

    Args:
        options: Settings.
        tools: The tools that the model may call in addition to those in ``options.extra``.
    """
    body: Body = {**settings_as(options, max_tokens="max_output_tokens", temperature="temperature")}
    is_choice = bool(tools or options.extra.get("tools"))
    if is_choice and options.tool_choice is not None:
        body["tool_choice"] = _tool_choice(options.tool_choice, tools)
    if is_choice and options.parallel_tool_calls is not None:
        body["parallel_tool_calls"] = options.parallel_tool_calls
    if options.thinking is not None:
        body["reasoning"] = {
            "effort": "none" if options.thinking in OFF else effort(options.thinking)
        }
    if options.output is not None:
        body["text"] = {"format": {"type": "json_schema", **answer_schema(options.output)}}
    return body


@lru_cache(maxsize=64)  # used for each request, and always the same
def encode_storage(model: str) -> Body:
    """Nothing is kept by the service, so that what it thought must come with the answer, sealed. Not to be changed."""
    if THOUGHTLESS.match(model.rpartition("/")[2]):
        return {"store": False}
    return {"store": False, "include": [SEALED]}


def encode_tool(tool: ToolMeta) -> JsonObject:
    """A tool as the model sees it.

    Raises:
        ConfigurationError: It is strict, and the model cannot be held to its schema.
    """
    encoded: JsonObject
    if tool.format is not None:
        encoded = {"type": "custom", "name": tool.name, "format": _format(tool.format)}
    else:
        encoded = {
            "type": "function",
            "name": tool.name,
            "parameters": strict_arguments(tool.input_schema, tool.name)
            if tool.strict
            else tool.input_schema,
            # Sent in any case: without it, the service would make all arguments required.
            "strict": tool.strict,
        }
    if tool.description:
        encoded["description"] = tool.description
    if tool.defer_loading:
        encoded["defer_loading"] = True
    if tool.allowed_callers:
        callers = [DIRECT if one == DIRECT else PROGRAMMATIC for one in tool.allowed_callers]
        encoded["allowed_callers"] = [*dict.fromkeys(callers)]
    return encoded


def _format(text: TextFormat) -> JsonObject:
    return {"type": "text"} if isinstance(text, str) else msgspec.to_builtins(text)


def _tool_choice(choice: ToolChoice, tools: Sequence[ToolMeta]) -> Json:
    if choice.mode == "tool":
        is_custom = any(tool.name == choice.name and tool.format for tool in tools)
        return {"type": "custom" if is_custom else "function", "name": choice.name}
    return MODES[choice.mode]
