"""The UI Message Stream that ``useChat`` reads: records to its parts, its requests to messages."""

from rxworker.protocols.ui_messages.encode import (
    DONE,
    HEADERS,
    UiMessageEncoder,
    ui_message_stream,
)
from rxworker.protocols.ui_messages.messages import (
    ChatRequest,
    UiMessage,
    read_chat_request,
    ui_messages_of,
)
from rxworker.protocols.ui_messages.wire import UiMessagePart

__all__ = [
    "DONE",
    "HEADERS",
    "ChatRequest",
    "UiMessage",
    "UiMessageEncoder",
    "UiMessagePart",
    "read_chat_request",
    "ui_message_stream",
    "ui_messages_of",
]
