"""Pictures as a service takes them, and results of tools without what it does not take. Pure.

A picture is sent with the media type that its bytes have, whatever it was named. A user's picture that the service does
not take is refused before the request is sent. A tool's is replaced by a text, which the model reads: a result is part
of every request that follows, so a refused one would end each later run of the session.
"""

from __future__ import annotations

import re
from base64 import b64encode
from binascii import Error, a2b_base64
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

from msgspec.structs import replace

from rxworker.errors import LocalProtocolError
from rxworker.messages import Image, Text
from rxworker.messages.content import ResultBlock
from rxworker.providers.content import check_media
from rxworker.providers.takes import Takes

UNKNOWN = "unknown"
FEWEST = 16  # fewer bytes show nothing
HEAD = 2048  # an SVG may begin with comments
# What the bytes of a picture begin with: https://mimesniff.spec.whatwg.org, and ISO 23008-12 for what has brands.
MAGIC = {
    "image/png": rb"\x89PNG\r\n\x1a\n",
    "image/jpeg": rb"\xff\xd8\xff",
    "image/gif": rb"GIF8[79]a",
    "image/webp": rb"RIFF.{4}WEBP",
    "image/avif": rb".{4}ftyp(avi[fs]|mif1.{4,24}avif)",
    "image/heic": rb".{4}ftyphe(ic|ix|im|is|vc|vx)",
    "image/heif": rb".{4}ftyp(mif1|msf1)",
    "image/bmp": rb"BM.{4}\0{4}",
    "image/tiff": rb"II\*\0|MM\0\*",
    "image/svg+xml": rb"(\xef\xbb\xbf)?\s*<([^\0]*<)?svg[\s>]",
}
_MAGIC = [(kind, re.compile(pattern, re.DOTALL)) for kind, pattern in MAGIC.items()]
_OTHER_NAMES = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png"}


def media_type_of(data: str) -> str:
    """The media type that the first bytes of a picture have; empty if they are too few.

    Args:
        data: The bytes in base64.

    >>> media_type_of("/9j/4AAQSkZJRgABAQAAAQABAAA="), media_type_of("AAAA")
    ('image/jpeg', '')
    """
    head = "".join(data[:HEAD].split()).replace("-", "+").replace("_", "/")
    try:
        first = a2b_base64(head[: len(head) // 4 * 4])
    except Error:
        return UNKNOWN
    if len(first) < FEWEST:
        return ""
    return next((kind for kind, magic in _MAGIC if magic.match(first)), UNKNOWN)


def picture(block: Image, takes: Takes) -> Image:
    """The picture with its true media type, and with its bytes where its address has them.

    Args:
        block: The picture.
        takes: What the service takes.

    Raises:
        LocalProtocolError: The picture has no content or a part of it, or the service does not take its media type.

    >>> from rxworker.providers.takes import TAKES
    >>> picture(Image(data="/9j/4AAQSkZJRgABAQAAAQABAAA="), TAKES["anthropic"]).media_type
    'image/jpeg'
    """
    if block.url and block.url[:5].lower() == "data:":
        named, _, data = block.url[5:].partition(",")
        if not named.endswith(";base64"):
            data = b64encode(unquote_to_bytes(data)).decode()
        block = replace(block, media_type=named or "text/plain", data=data, url=None)
    check_media(block)
    data = block.data
    kind = block.media_type.partition(";")[0].strip().lower()
    if data and not block.url and (found := media_type_of(data)):
        kind, data = found, _base64(data)
    kind = _OTHER_NAMES.get(kind, kind)
    if kind not in takes.pictures:
        *known, last = [each.removeprefix("image/") for each in takes.pictures]
        raise LocalProtocolError(
            f"{takes.name} takes no picture of type {kind}, only {', '.join(known)} and {last}; convert it before",
            page="history",
        )
    if kind == block.media_type and data == block.data:
        return block
    return replace(block, media_type=kind, data=data)


def _base64(data: str) -> str:
    """The same bytes in the letters that services take, and with the padding that they demand."""
    if "-" in data or "_" in data:
        data = data.replace("-", "+").replace("_", "/")
    if len(data) % 4:
        data = "".join(data.split()).rstrip("=")
        if len(data) % 4 == 1:
            raise LocalProtocolError("the base64 of a picture is not whole: pass data=b64encode(...).decode()")
        data += "=" * (-len(data) % 4)
    return data


def readable(content: Sequence[ResultBlock], encode: Callable[[Any], object]) -> tuple[ResultBlock, ...]:
    """The content of a result with a text for each picture, document or recording that the service does not take.

    Args:
        content: The content.
        encode: Encodes a block, and raises for one that the service does not take.

    >>> from rxworker.providers.takes import TAKES
    >>> readable((Image("image/heic", "AAAA"),), lambda block: picture(block, TAKES["ollama"]))[0].text
    '[left out of this result: Ollama takes no picture of type image/heic, only png, jpeg and webp]'
    """

    def or_text(block: ResultBlock) -> ResultBlock:
        try:
            encode(block)
        except LocalProtocolError as error:  # what follows the reason is for the application
            return Text(f"[left out of this result: {re.split('[;:] ', str(error.args[0]))[0]}]")
        return block

    return tuple([block if isinstance(block, Text) else or_text(block) for block in content])
