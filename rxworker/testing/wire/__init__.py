"""Replies in the formats in which providers stream them: what a server writes, frame by frame.

Written from the protocols and not from our decoders, so that each can be tested with the other.
"""

from __future__ import annotations

from rxworker.testing.wire import anthropic, bedrock, gemini, gemini_interactions, ollama, openai_chat, openai_responses
from rxworker.testing.wire.format import Wire

WIRES = {
    "/messages": anthropic.WIRE,
    "/chat/completions": openai_chat.WIRE,
    "/responses": openai_responses.WIRE,
    ":streamGenerateContent": gemini.WIRE,
    "/interactions": gemini_interactions.WIRE,
    "/api/chat": ollama.WIRE,
    "/converse-stream": bedrock.WIRE,
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


__all__ = ["Wire", "wire_for"]
