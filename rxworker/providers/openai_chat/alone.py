"""Chunks that do nothing but add to a text or to the arguments of a call: nearly all of a Chat Completions stream.

Each of them is asked about every field that could say more, so this is written for speed.
"""

from __future__ import annotations

from collections.abc import Iterable

from rxworker.providers.openai_chat.wire import WireChunk


def target_of(chunk: WireChunk) -> tuple[int | None, int | None]:
    """Which choice a chunk is about, the first one, and which call of it, if any: where it stands on the wire."""
    if not chunk.choices:
        return None, None
    wire = chunk.choices[0]
    delta = wire.delta
    return wire.index, delta.tool_calls[0].index if delta is not None and delta.tool_calls else None


def texts_alone(
    chunks: Iterable[WireChunk], choice: int | None, place: int | None
) -> tuple[list[str], WireChunk | None]:
    """What chunks add to the text of a choice, or to the arguments of its call at this place, as long as they do nothing else.

    The first one that may do something else comes with it; it has been taken from the chunks.

    >>> from rxworker.providers.openai_chat.wire import decode_chunk
    >>> chunks = [decode_chunk(b'{"choices": [{"index": 0, "delta": {"content": "Hi"}}]}')] * 2
    >>> texts_alone(chunks, 0, None), texts_alone(chunks, 1, None)[0], texts_alone(chunks, 0, 0)[0]
    ((['Hi', 'Hi'], None), [], [])
    """
    texts: list[str] = []
    for chunk in chunks:
        choices = chunk.choices
        if choices is None or len(choices) != 1:
            return texts, chunk
        wire = choices[0]
        delta = wire.delta
        if wire.index != choice or delta is None or wire.finish_reason:
            return texts, chunk
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
                return texts, chunk
            text = function.arguments
        elif place is not None:
            return texts, chunk
        if (
            not text
            or type(text) is not str
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
            return texts, chunk
        texts.append(text)
    return texts, None


__all__ = ["target_of", "texts_alone"]
