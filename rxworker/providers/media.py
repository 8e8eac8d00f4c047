"""Pictures, documents and recordings as a service takes them, and results of tools without what it does not take. Pure.

A picture is sent with the media type that its bytes have, whatever it was named. What the service does not take of a
user's input is refused before the request is sent. A tool's is replaced by a text, which the model reads: a result is
part of every request that follows, so a refused one would end each later run of the session. So is what is in an
earlier message of the user's, to which another service may have answered.
"""

from __future__ import annotations

import re
from base64 import b64encode
from binascii import Error, a2b_base64
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar
from urllib.parse import unquote_to_bytes

from msgspec.structs import replace

from rxworker.errors import LocalProtocolError
from rxworker.messages import Audio, Content, Document, Image, Json, JsonObject, Text, ToolResult
from rxworker.messages.content import ResultBlock
from rxworker.providers.content import check_media
from rxworker.providers.takes import Takes, listed

Media: TypeAlias = Image | Document | Audio
A = TypeVar("A", bound=Media)
Encoders: TypeAlias = Mapping[type, Callable[[Any, bool], JsonObject | None]]
"""The encoders of blocks by their types, each with whether the provider itself has made the block."""
PartEncoders: TypeAlias = Mapping[type, Callable[[Any], list[JsonObject]]]
"""The encoders of blocks that become any number of parts."""

UNKNOWN = "unknown"
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
    """The media type that the first bytes of a picture have, or ``unknown``.

    Args:
        data: The bytes in base64.

    >>> media_type_of("/9j/4AAQSkZJRgABAQAAAQABAAA="), media_type_of("AAAA")
    ('image/jpeg', 'unknown')
    """
    head = "".join(data[:HEAD].split()).replace("-", "+").replace("_", "/")
    try:
        first = a2b_base64(head[: len(head) // 4 * 4])
    except Error:
        return UNKNOWN
    return next((kind for kind, magic in _MAGIC if magic.match(first)), UNKNOWN)


def media(block: A, takes: Takes, documents: Collection[str] | None = None) -> A:
    """The block with the media type that the service knows, and a picture with its true one.

    A text of a kind that the service does not know is plain text.

    Args:
        block: The picture, the document or the recording.
        takes: What the service takes.
        documents: The media types of documents, if the server takes others.

    Raises:
        LocalProtocolError: The block has no content or a part of it, or the service does not take it.

    >>> from rxworker.providers.takes import TAKES
    >>> media(Image(data="/9j/4AAQSkZJRgABAQAAAQABAAA="), TAKES["anthropic"]).media_type
    'image/jpeg'
    >>> media(Document("text/x-go", "aGk="), TAKES["bedrock"]).media_type
    'text/plain'
    """
    if isinstance(block, Image):
        block = _with_bytes(block)
    check_media(block)
    kind, data = block.media_type.partition(";")[0].strip().lower(), block.data
    url, name = getattr(block, "url", None), type(block).__name__
    if not (data or url):
        if name not in takes.uploads:
            remedy = f"use {name}.from_file(path) or pass data="
            raise LocalProtocolError(f"{takes.name} takes no file id for {name}; {remedy}")
        return block
    if isinstance(block, Image) and data and not url:
        kind, data = media_type_of(data), _base64(data)
    kind = _OTHER_NAMES.get(kind, kind)
    known = takes.pictures if isinstance(block, Image) else takes.sounds
    if isinstance(block, Document):
        known = takes.documents if documents is None else documents
    main = kind.partition("/")[0]
    if main in known:
        return block
    if kind not in known:
        if main != "text" or not isinstance(block, Document):
            raise _refused(block, kind, takes)
        kind = "text/plain"
    return block if kind == block.media_type and data == block.data else replace(block, media_type=kind, data=data)


def _with_bytes(block: Image) -> Image:
    """A picture with its bytes, if its address has them."""
    if not block.url or block.url[:5].lower() != "data:":
        return block
    named, _, data = block.url[5:].partition(",")
    if not named.endswith(";base64"):
        data = b64encode(unquote_to_bytes(data)).decode()
    return replace(block, media_type=named or "text/plain", data=data, url=None)


def _refused(block: Media, kind: str, takes: Takes) -> LocalProtocolError:
    what = f"document of type {kind}; send its text as Text, or its pages as Image"
    if isinstance(block, Image):
        what = f"picture of type {kind}, only {listed(takes.pictures)}; convert it before"
    elif isinstance(block, Audio):
        what = "Audio; send its transcript as Text, or use Gemini or OpenAIChat"
        if takes.sounds:
            what = f"recording of type {kind}, only {listed(takes.sounds)}; convert it before"
    return LocalProtocolError(f"{takes.name} takes no {what}", page="history")


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


LEFT_OUT = "left_out"
"""The kind of the `Opaque` for a part of a conversation that a request is sent without."""
NOTES: ContextVar[list[tuple[Content, str]] | None] = ContextVar("rxworker_left_out", default=None)
"""Where the parts that the request of now is sent without are noted, each with the reason."""


def readable(content: str | Sequence[ResultBlock], encode: Callable[[Media], object]) -> tuple[ResultBlock, ...]:
    """The content of a result with a text for each picture, document or recording that the service does not take.

    Args:
        content: The content.
        encode: Encodes a block, and raises for one that the service does not take.

    >>> from rxworker.providers.takes import TAKES
    >>> readable((Image("image/heic", url="https://h/i"),), lambda block: media(block, TAKES["ollama"]))[0].text
    '[left out of this result: Ollama takes no picture of type image/heic, only png, jpeg and webp]'
    """

    def or_text(block: Media) -> ResultBlock:
        try:
            encode(block)
        except LocalProtocolError as error:
            return in_place(block, error, "result")
        return block

    blocks = (Text(content),) if isinstance(content, str) else content
    return tuple([block if isinstance(block, Text) else or_text(block) for block in blocks])


def in_place(block: Content, error: LocalProtocolError, where: str) -> Text:
    """The text in place of a block for which an encoder raised; notes it.

    >>> in_place(Document(), LocalProtocolError("Ollama takes none; send its text"), "message").text
    '[left out of this message: Ollama takes none]'
    """
    reason = re.split("[;:] ", str(error.args[0]))[0]  # what follows is for the application
    if (notes := NOTES.get()) is not None:
        notes.append((block, reason))
    return Text(f"[left out of this {where}: {reason}]")


def encoded_parts(result: ToolResult, encoders: Encoders) -> list[Json]:
    """The content of a result as its protocol has it, as far as the service takes it.

    Args:
        result: The result.
        encoders: What a block becomes in a message of the user's, by its type.
    """

    def encode(block: ResultBlock) -> JsonObject | None:
        return encoders[type(block)](block, False)

    return [part for part in map(encode, readable(result.content, encode)) if part is not None]
