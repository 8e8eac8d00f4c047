"""The parts of a conversation: content blocks, messages, the conversation, usage, the reason a response stopped."""

from rxworker.messages.content import (
    Audio,
    CachePoint,
    Content,
    Document,
    Grammar,
    Image,
    OpaqueBlock,
    OutputFormat,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    ToolCall,
    ToolMeta,
    ToolResult,
)
from rxworker.messages.history import compact, estimate, fork, trim, turns
from rxworker.messages.json import Json, JsonObject
from rxworker.messages.message import Conversation, Message, from_json, to_json
from rxworker.messages.repair import repair, validate
from rxworker.messages.stop import StopKind, StopReason
from rxworker.messages.usage import Counts, Prices

__all__ = [
    # the conversation
    "Conversation",
    "Message",
    # its care
    "validate",
    "repair",
    "turns",
    "fork",
    "trim",
    "estimate",
    "compact",
    "to_json",
    "from_json",
    # content blocks
    "Content",
    "Text",
    "Thinking",
    "Refusal",
    "ToolCall",
    "ToolResult",
    "Image",
    "Audio",
    "Document",
    "ServerToolCall",
    "ServerToolResult",
    "OpaqueBlock",
    "CachePoint",
    # what belongs to a request or a response
    "ToolMeta",
    "Grammar",
    "OutputFormat",
    "StopKind",
    "StopReason",
    "Prices",
    "Counts",
    # JSON
    "Json",
    "JsonObject",
]
