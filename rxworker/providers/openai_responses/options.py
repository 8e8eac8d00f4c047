"""The settings of a request, in the words of the Responses protocol."""

from __future__ import annotations

import re
from functools import lru_cache

from rxworker.messages import Json, JsonObject, ToolMeta
from rxworker.providers.base import Options, ToolChoice
from rxworker.providers.remember import Body
from rxworker.providers.schema import closed, is_strict, safe_name

MODES = {"auto": "auto", "none": "none", "any": "required"}
OFF = ("off", "disabled")
# What a budget in tokens comes to in the protocol's own words: less than so many is so hard.
EFFORTS = ((1, "minimal"), (4_096, "low"), (16_384, "medium"))
# What is said of it unasked.
STORAGE = ("store", "include")
SEALED = "reasoning.encrypted_content"
# OpenAI's models that do not think, and refuse to be asked for sealed thoughts.
THOUGHTLESS = re.compile(r"(ft:)?(gpt-3\.5|gpt-4|chatgpt-4o|gpt-5[.\d]*-chat)")


def encode_options(options: Options, *, tools: bool) -> Body:
    """The fields of the body that say how to answer.

    Args:
        options: Settings.
        tools: Whether there is anything to choose from.
    """
    body: Body = {}
    if tools and options.tool_choice is not None:
        body["tool_choice"] = _tool_choice(options.tool_choice)
    if tools and options.parallel_tool_calls is not None:
        body["parallel_tool_calls"] = options.parallel_tool_calls
    if options.max_tokens is not None:
        body["max_output_tokens"] = options.max_tokens
    if options.temperature is not None:
        body["temperature"] = options.temperature
    if options.thinking is not None:
        body["reasoning"] = {"effort": _effort(options.thinking)}
    if options.output is not None:
        body["text"] = {
            "format": {
                "type": "json_schema",
                "name": safe_name(options.output.name),
                "schema": closed(options.output.schema),
                "strict": is_strict(options.output.schema),
            }
        }
    return body


@lru_cache(maxsize=64)  # asked for with each request, and always the same
def encode_storage(model: str) -> Body:
    """Nothing is kept by the service, so that what it thought must come with the answer, sealed. Not to be changed."""
    if THOUGHTLESS.match(model.rpartition("/")[2]):
        return {"store": False}
    return {"store": False, "include": [SEALED]}


def encode_tool(tool: ToolMeta) -> JsonObject:
    """A tool as the model sees it. Not strict: by that the service would make all arguments required."""
    encoded: JsonObject = {
        "type": "function",
        "name": tool.name,
        "parameters": tool.input_schema,
        "strict": False,
    }
    if tool.description:
        encoded["description"] = tool.description
    return encoded


def with_extra(body: Body, extra: JsonObject) -> Body:
    """The extra fields come over ours.

    ``None`` takes a field of ours out. Extra tools, such as the provider's own, stand beside ours, and so do extra
    settings of the reasoning and of the text.

    >>> with_extra({"store": False, "reasoning": {"effort": "low"}}, {"store": None, "reasoning": {"summary": "auto"}})
    {'reasoning': {'effort': 'low', 'summary': 'auto'}}
    """
    if not extra:
        return body
    whole = body | extra
    for field, theirs in extra.items():
        ours = body.get(field)
        if theirs is None and (ours is not None or field in STORAGE):
            del whole[field]
        elif field == "tools" and isinstance(ours, list) and isinstance(theirs, list):
            whole[field] = [*ours, *theirs]
        elif field in ("reasoning", "text") and isinstance(ours, dict) and isinstance(theirs, dict):
            whole[field] = ours | theirs
    return whole


def _tool_choice(choice: ToolChoice) -> Json:
    if choice.mode == "tool":
        return {"type": "function", "name": choice.name}
    return MODES[choice.mode]


def _effort(thinking: int | str) -> str:
    if isinstance(thinking, str):
        return "none" if thinking in OFF else thinking
    return next((word for most, word in EFFORTS if thinking < most), "high")


__all__ = ["encode_options", "encode_storage", "encode_tool", "with_extra"]
