"""What a conversation is: content blocks, messages, the conversation, usage, the reason a response stopped."""

from rxworker.messages.content import (
    CachePoint,
    Content,
    ContentBlock,
    Document,
    Image,
    OpaqueBlock,
    Refusal,
    ResultContent,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from rxworker.messages.json import Json, JsonObject
from rxworker.messages.message import Conversation, Message, Role
from rxworker.messages.repair import repair
from rxworker.messages.stop import StopKind, StopReason
from rxworker.messages.tool import ToolMeta
from rxworker.messages.usage import Counts, Usage

__all__ = [
    # the conversation
    "Conversation",
    "Message",
    "Role",
    "repair",
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
    "Document",
    "ServerToolCall",
    "ServerToolResult",
    "OpaqueBlock",
    "CachePoint",
    # what belongs to a request or a response
    "ToolMeta",
    "StopKind",
    "StopReason",
    "Usage",
    "Counts",
    # JSON
    "Json",
    "JsonObject",
]
