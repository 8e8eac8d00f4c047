"""The APIs of OpenAI, served: Chat Completions and Responses, for clients that speak them."""

from rxworker.protocols.openai.chat import ChatEncoder, chat_completion, chat_stream
from rxworker.protocols.openai.read import read_completion_request, read_response_request
from rxworker.protocols.openai.responses import ResponseEncoder, response_object, response_stream

__all__ = [
    # a client's request
    "read_completion_request",
    "read_response_request",
    # Chat Completions
    "ChatEncoder",
    "chat_completion",
    "chat_stream",
    # Responses
    "ResponseEncoder",
    "response_object",
    "response_stream",
]
