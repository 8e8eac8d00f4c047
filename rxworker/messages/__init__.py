"""What a conversation is: content blocks, messages, the conversation, usage, the reason a response stopped."""

from rxworker.messages.content import (
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
    # content blocks
    "Content",
    "ContentBlock",
    # the conversation
    "Conversation",
    # what belongs to a response
    "Counts",
    "Document",
    "Image",
    # JSON
    "Json",
    "JsonObject",
    "Message",
    "OpaqueBlock",
    "Refusal",
    "ResultContent",
    "Role",
    "ServerToolCall",
    "ServerToolResult",
    "StopKind",
    "StopReason",
    "Text",
    "Thinking",
    "ToolCall",
    "ToolMeta",
    "ToolResult",
    "Usage",
    "repair",
]
