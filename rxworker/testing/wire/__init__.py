"""Replies in the formats in which providers stream them: what a server writes, frame by frame.

Written from the protocols and not from our decoders, so that each can be tested with the other.
"""

from __future__ import annotations

from rxworker.testing.wire import anthropic, openai_chat
from rxworker.testing.wire.anthropic import anthropic_frames
from rxworker.testing.wire.format import Wire
from rxworker.testing.wire.openai_chat import openai_chat_frames

WIRES: dict[str, Wire] = {
    "/messages": Wire("anthropic", anthropic.frames_for, anthropic.error_body),
    "/chat/completions": Wire("openai_chat", openai_chat.frames_for, openai_chat.error_body),
}


def wire_for(path: str) -> Wire | None:
    """The format that is spoken at a path, by the path's end.

    >>> wire_for("/v1/messages").name
    'anthropic'
    """
    for end, wire in WIRES.items():
        if path.endswith(end):
            return wire
    return None


__all__ = ["Wire", "anthropic_frames", "openai_chat_frames", "wire_for"]
