"""Chunks that do nothing but add to a text or to the arguments of a call: nearly all of a Chat Completions stream.

Each of them is asked about every field that could say more, so this is written for speed.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from rxworker.providers.openai_chat.wire import WireChunk


def texts_alone(
    first: WireChunk, behind: Iterable[WireChunk] = ()
) -> tuple[list[str], WireChunk | None]:
    """What a chunk and those behind it add to the same text or the arguments of the same call, as long as they do nothing else.

    The one that may do something else comes with it; it has been taken from the chunks.

    >>> from rxworker.providers.openai_chat.wire import decode_chunk
    >>> chunk = decode_chunk(b'{"choices": [{"index": 0, "delta": {"content": "Hi"}}]}')
    >>> other = decode_chunk(b'{"choices": [{"index": 1, "delta": {"content": "Hi"}}]}')
    >>> texts_alone(chunk, [chunk]), texts_alone(chunk, [other]) == (["Hi"], other)
    ((['Hi', 'Hi'], None), True)
    """
    texts: list[str] = []
    if not first.choices:
        return texts, first
    wire = first.choices[0]
    choice, delta = wire.index, wire.delta
    place = delta.tool_calls[0].index if delta is not None and delta.tool_calls else None
    for chunk in chain((first,), behind):
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


__all__ = ["texts_alone"]
