"""The UI Message Stream that ``useChat`` reads: records to its parts, its requests to messages."""

from rxworker.protocols.ui_messages.encode import UiMessageEncoder, ui_message_stream
from rxworker.protocols.ui_messages.messages import read_chat_request, ui_messages_of

__all__ = ["UiMessageEncoder", "read_chat_request", "ui_message_stream", "ui_messages_of"]
