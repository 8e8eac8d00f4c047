"""The APIs of OpenAI, served: Chat Completions and Responses, for clients that speak them."""

from rxworker.protocols.openai.chat import (
    ChatEncoder,
    CompletionError,
    chat_completion,
    chat_stream,
    openai_error,
    usage_of,
)
from rxworker.protocols.openai.read import (
    OpenAIRequest,
    read_completion_request,
    read_response_request,
)
from rxworker.protocols.openai.responses import (
    ResponseEncoder,
    ResponseHead,
    response_events,
    response_object,
    response_stream,
)

__all__ = [
    # a client's request
    "OpenAIRequest",
    "read_completion_request",
    "read_response_request",
    # Chat Completions
    "ChatEncoder",
    "CompletionError",
    "chat_completion",
    "chat_stream",
    "usage_of",
    # Responses
    "ResponseEncoder",
    "ResponseHead",
    "response_events",
    "response_object",
    "response_stream",
    # errors
    "openai_error",
]
