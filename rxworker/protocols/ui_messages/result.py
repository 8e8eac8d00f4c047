"""The result of a tool as the output of a part."""

from __future__ import annotations

from rxworker.messages import Audio, Json, JsonObject, Text, ToolResult


def output_of(result: ToolResult) -> Json:
    """What the model reads: a text, or parts where it holds more.

    >>> output_of(ToolResult("call_1", "sunny"))
    'sunny'
    """
    if isinstance(result.content, str) or all(isinstance(p, Text) for p in result.content):
        return result.text
    parts: list[Json] = []
    for part in result.content:
        if isinstance(part, Text):
            parts.append({"type": "text", "text": part.text})
        else:
            made: JsonObject = {"type": "file", "mediaType": part.media_type}
            if part.data is not None:
                made["url"] = f"data:{part.media_type};base64,{part.data}"
            elif not isinstance(part, Audio) and part.url is not None:
                made["url"] = part.url
            parts.append(made)
    return parts


__all__ = ["output_of"]
