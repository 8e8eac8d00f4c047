"""The parts of a conversation: content blocks, messages, the conversation, usage, the reason a response stopped."""

from rxworker.messages.content import (
    Audio,
    CachePoint,
    Content,
    ContentBlock,
    Document,
    Grammar,
    Image,
    OpaqueBlock,
    Refusal,
    ResultContent,
    ServerToolCall,
    ServerToolResult,
    Text,
    TextFormat,
    Thinking,
    ToolCall,
    ToolMeta,
    ToolResult,
)
from rxworker.messages.estimate import estimate
from rxworker.messages.history import compact, fork, trim, turns
from rxworker.messages.json import Json, JsonObject
from rxworker.messages.message import Conversation, Message, Role, from_json, to_json
from rxworker.messages.output import OutputFormat
from rxworker.messages.repair import NOT_RUN, Reason, repair, validate
from rxworker.messages.stop import StopKind, StopReason
from rxworker.messages.usage import Counts, Prices, Usage

__all__ = [
    # the conversation
    "Conversation",
    "Message",
    "Role",
    # its care
    "validate",
    "repair",
    "Reason",
    "NOT_RUN",
    "turns",
    "fork",
    "trim",
    "estimate",
    "compact",
    "to_json",
    "from_json",
    # content blocks
    "Content",
    "ContentBlock",
    "Text",
    "Thinking",
    "Refusal",
    "ToolCall",
    "ToolResult",
    "ResultContent",
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
    "TextFormat",
    "OutputFormat",
    "StopKind",
    "StopReason",
    "Usage",
    "Prices",
    "Counts",
    # JSON
    "Json",
    "JsonObject",
]
