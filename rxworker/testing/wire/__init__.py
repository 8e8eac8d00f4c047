"""Replies in the formats in which providers stream them: what a server writes, frame by frame.

Written from the protocols and not from our decoders, so that each can be tested with the other.
"""

from __future__ import annotations

from rxworker.testing.wire import anthropic, gemini, ollama, openai_chat, openai_responses
from rxworker.testing.wire.format import Wire

WIRES: dict[str, Wire] = {
    "/messages": Wire("anthropic", anthropic.frames_for, anthropic.error_body),
    "/chat/completions": Wire("openai_chat", openai_chat.frames_for, openai_chat.error_body),
    "/responses": Wire(
        "openai_responses", openai_responses.frames_for, openai_responses.error_body
    ),
    ":streamGenerateContent": Wire("gemini", gemini.frames_for, gemini.error_body),
    "/api/chat": Wire(
        "ollama", ollama.frames_for, ollama.error_body, content_type="application/x-ndjson"
    ),
}


def wire_for(path: str) -> Wire | None:
    """The format that is spoken at a path, by the path's end; its query does not matter.

    >>> wire_for("/v1/messages").name
    'anthropic'
    """
    place = path.partition("?")[0]
    for end, wire in WIRES.items():
        if place.endswith(end):
            return wire
    return None


__all__ = [
    "Wire",
    "wire_for",
]
