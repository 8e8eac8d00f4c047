"""A bound on what one call sends to the model: a result is in every request that follows.

Text is counted in characters. A picture or a document that is sent with its data is never cut: it is kept, or replaced by a text.
All of them together may have `MEDIA_FACTOR` times as many characters of base64, since a model reads them as far fewer tokens.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from rxworker.messages import Audio, Document, Image, ResultContent, Text

Block: TypeAlias = Text | Image | Document | Audio

MEDIA_FACTOR = 100
# What the JSON of a block takes besides its text.
BLOCK = 30
HINT = "To read them, call the tool again for a smaller part."


def truncate(content: ResultContent, limit: int | None) -> ResultContent:
    r"""The content with at most so many characters of text, and a note in each place where something was left out.

    Args:
        content: What a tool returned.
        limit: Characters; ``None`` keeps everything.

    >>> truncate("0123456789", 4)
    '012\n[6 of 10 characters were left out here. To read them, call the tool again for a smaller part.]\n9'
    """
    if limit is None:
        return content
    if isinstance(content, str):
        return content if len(content) <= limit else _cut(content, limit)
    return _truncate_blocks(content, limit)


def _cut(text: str, limit: int) -> str:
    """The beginning and the end of a text, since an error often stands at the end."""
    tail = limit // 4
    note = f"[{len(text) - limit:,} of {len(text):,} characters were left out here. {HINT}]"
    return f"{text[: limit - tail]}\n{note}\n{text[len(text) - tail :]}"


def _truncate_blocks(content: tuple[Block, ...], limit: int) -> tuple[Block, ...]:
    kept: list[Block] = []
    room, media_room = limit, limit * MEDIA_FACTOR
    for place, block in enumerate(content):
        if room <= 0:
            note = f"[{len(content) - place:,} more blocks were left out here. {HINT}]"
            return (*kept, Text(note))
        text, media = _sizes(block)
        if text > room or media > media_room:
            shorter = _shorter(block, room)
            # A note in place of a picture takes no room from the text.
            text, media = _sizes(shorter) if isinstance(block, Text) else (0, 0)
            block = shorter
        kept.append(block)
        room -= max(text, BLOCK)
        media_room -= media
    return tuple(kept)


def _shorter(block: Block, room: int) -> Text:
    """A block that does not fit as one that does: a text without what else it carries, or a text in place of a picture."""
    if isinstance(block, Text):
        return Text(block.text if len(block.text) <= room else _cut(block.text, room))
    size = len(_data(block)) * 3 // 4
    about = f"{block.media_type} of {size:,} bytes"
    return Text(f"[{about} was left out: it is too large for the result of a tool]")


def _sizes(block: Block) -> tuple[int, int]:
    """How many characters of text a block takes, and how many of base64."""
    if isinstance(block, Text):
        besides = (block.citations, block.echo) if block.citations or block.echo else None
        return len(block.text) + (len(msgspec.json.encode(besides)) if besides else 0), 0
    size = len(_data(block))
    return (size * 3 // 4, 0) if block.media_type.startswith("text/") else (0, size)


def _data(block: Image | Document | Audio) -> str:
    """What is sent in the request itself, and not fetched from elsewhere by the provider."""
    url = "" if isinstance(block, Audio) else block.url or ""
    return block.data or (url if url.startswith("data:") else "")


__all__ = ["truncate"]
