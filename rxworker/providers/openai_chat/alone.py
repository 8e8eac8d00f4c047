"""Chunks that do nothing but add to a text or to the arguments of a call: nearly all of a Chat Completions stream.

Each of them is asked about every field that could say more, so this is written for speed.
"""

from __future__ import annotations

from rxworker.providers.openai_chat.wire import WireChunk


def target_of(chunk: WireChunk) -> tuple[int | None, int | None]:
    """Which choice a chunk is about, the first one, and which call of it, if any: where it stands on the wire."""
    if not chunk.choices:
        return None, None
    wire = chunk.choices[0]
    delta = wire.delta
    return wire.index, delta.tool_calls[0].index if delta is not None and delta.tool_calls else None


def text_alone(chunk: WireChunk, choice: int | None, place: int | None) -> str | None:
    """What a chunk adds to the text of a choice, or to the arguments of its call at this place, and does nothing else.

    Without any text, or with ``None``, it may do something else.

    >>> from rxworker.providers.openai_chat.wire import decode_chunk
    >>> chunk = decode_chunk(b'{"choices": [{"index": 0, "delta": {"content": "Hi"}}]}')
    >>> text_alone(chunk, 0, None), text_alone(chunk, 1, None), text_alone(chunk, 0, 0)
    ('Hi', None, None)
    """
    choices = chunk.choices
    if choices is None or len(choices) != 1:
        return None
    wire = choices[0]
    delta = wire.delta
    if wire.index != choice or delta is None or wire.finish_reason:
        return None
    text = delta.content
    if delta.tool_calls:
        piece = delta.tool_calls[0]
        function = piece.function
        if (
            piece.index != place
            or place is None
            or piece.id
            or function is None
            or function.name
            or text
            or len(delta.tool_calls) != 1
            or piece.extra_content is not None
            or delta.reasoning_content is not None
        ):
            return None
        text = function.arguments
    elif place is not None:
        return None
    if (
        type(text) is not str
        or chunk.usage is not None
        or chunk.error is not None
        or chunk.x_groq is not None
        or wire.usage is not None
        or delta.refusal
        or delta.reasoning
        or delta.reasoning_content
        or delta.reasoning_details
        or delta.annotations
        or delta.function_call is not None
        or delta.audio is not None
        or delta.images is not None
        or delta.executed_tools is not None
    ):
        return None
    return text


__all__ = ["target_of", "text_alone"]
