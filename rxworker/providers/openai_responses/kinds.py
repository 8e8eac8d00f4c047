"""The items of a response: what each becomes, and where its texts lie. The protocol's tables."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from rxworker.events import BlockType
from rxworker.messages import JsonObject
from rxworker.messages.lenient_json import json_text, word

MESSAGE = "message"
REASONING = "reasoning"
FUNCTION_CALL = "function_call"
CUSTOM_CALL = "custom_tool_call"
# Calls of tools that the client declared.
CALLS = (FUNCTION_CALL, CUSTOM_CALL)

# Looking up a member of an Enum costs as much as creating a small object.
TEXT = BlockType.TEXT
THINKING = BlockType.THINKING
REFUSAL = BlockType.REFUSAL
TOOL_USE = BlockType.TOOL_USE

# Where a text of an item lies: in which list, at which position, and what it becomes.
Position: TypeAlias = tuple[str, int, BlockType]
CONTENT = "content"
SUMMARY = "summary"
WHOLE: Position = ("", 0, TOOL_USE)

# What an item becomes; for a message, its first part.
BLOCK_TYPES = {
    MESSAGE: TEXT,
    REASONING: THINKING,
    FUNCTION_CALL: TOOL_USE,
    CUSTOM_CALL: TOOL_USE,
}

# The provider's own calls, and the field with the request.
SERVER_CALLS = {
    "web_search_call": "action",
    "file_search_call": "queries",
    "code_interpreter_call": "code",
    "image_generation_call": "revised_prompt",
    "mcp_call": "arguments",
    "tool_search_call": "arguments",
}
# Where the request is, in all calls.
INPUTS = {FUNCTION_CALL: "arguments", CUSTOM_CALL: "input", **SERVER_CALLS}
# Calls that no tool of the worker can answer, but that the client must answer; a hosted one is followed by its output.
CLIENT_CALLS = (
    "computer_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "mcp_approval_request",
    "tool_search_call",
)


class Text(Struct, frozen=True):
    """A text that is streamed: whose it is, and where it lies.

    Attributes:
        item: The type of the item.
        field: The list it is in; empty if the item has just this one text.
        block_type: The type of the block that it becomes.
        done: The field of the ``.done`` event that holds all of it.
    """

    item: str
    field: str
    block_type: BlockType
    done: str = "text"


# What is streamed, by the event without its last word. Some servers have names of their own for thoughts.
_STREAMED = {
    "response.output_text": Text(MESSAGE, CONTENT, TEXT),
    "response.refusal": Text(MESSAGE, CONTENT, REFUSAL, "refusal"),
    "response.reasoning_text": Text(REASONING, CONTENT, THINKING),
    "response.reasoning": Text(REASONING, CONTENT, THINKING),
    "response.reasoning_summary_text": Text(REASONING, SUMMARY, THINKING),
    "response.reasoning_summary": Text(REASONING, SUMMARY, THINKING),
    "response.function_call_arguments": Text(FUNCTION_CALL, "", TOOL_USE, "arguments"),
    "response.custom_tool_call_input": Text(CUSTOM_CALL, "", TOOL_USE, "input"),
    "response.mcp_call_arguments": Text("mcp_call", "", BlockType.SERVER_TOOL_USE, "arguments"),
    "response.code_interpreter_call_code": Text("code_interpreter_call", "", BlockType.SERVER_TOOL_USE, "code"),
}
# The events of texts: more of one, and all of it.
DELTAS = {f"{stem}.delta": text for stem, text in _STREAMED.items()}
WHOLES = {f"{stem}.done": text for stem, text in _STREAMED.items()}
# The parts of items, by their types; their texts are in the fields that the ``.done`` events have, too.
PARTS = {
    "output_text": Text(MESSAGE, CONTENT, TEXT),
    "text": Text(MESSAGE, CONTENT, TEXT),
    "refusal": Text(MESSAGE, CONTENT, REFUSAL, "refusal"),
    "reasoning_text": Text(REASONING, CONTENT, THINKING),
    "summary_text": Text(REASONING, SUMMARY, THINKING),
}


def block_type_of(item: JsonObject) -> BlockType:
    """The type of an item's block; for a message, that of its first part.

    >>> block_type_of({"type": "web_search_call"}), block_type_of({"type": "shell_call"})
    (<BlockType.SERVER_TOOL_USE: 'server_tool_use'>, <BlockType.OPAQUE: 'opaque'>)
    """
    kind = word(item.get("type"))
    known = BLOCK_TYPES.get(kind)
    if known is not None:
        return known
    if kind in SERVER_CALLS and not waits_for_client(item):
        return BlockType.SERVER_TOOL_USE
    return BlockType.SERVER_TOOL_RESULT if kind.endswith("_output") else BlockType.OPAQUE


def waits_for_client(item: JsonObject) -> bool:
    """Whether the client must answer it, though it is not a call of one of its tools."""
    kind = item.get("type")
    if kind == "tool_search_call":
        return item.get("execution") == "client"
    return kind in CLIENT_CALLS


def parts_of(item: JsonObject, field: str) -> list[tuple[BlockType, str, JsonObject]]:
    """The texts in one of an item's lists, with their parts."""
    listed = item.get(field)
    found: list[tuple[BlockType, str, JsonObject]] = []
    for part in listed if isinstance(listed, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(part, dict) and isinstance(kind, str) and kind in PARTS:
            text = PARTS[kind]
            found.append((text.block_type, word(part.get(text.done)), part))
    return found


def input_of(item: JsonObject) -> str:
    """The input of a call as text: JSON, or the text for a tool of free text."""
    kind = item.get("type")
    field = INPUTS.get(kind, "") if isinstance(kind, str) else ""
    value = item.get(field)
    if value is None or value == "":
        return ""
    if isinstance(value, str):
        return value if field in ("arguments", "input") else json_text({field: value})
    return json_text(value if isinstance(value, dict) else {field: value})
