"""What each service takes of what applications and tools give it, as one table, and how parts are made so. Pure.

A picture is sent with the media type that its bytes have, whatever it was named. What the service does not take of a
user's input is refused before the request is sent. A tool's is replaced by a text, which the model reads: a result is
part of every request that follows, so a refused one would end each later run of the session. So is what is in an
earlier message of the user's, to which another service may have answered. Ids and names of calls are made such that the
service takes them.

The table is of 2026-11-29, from each service's own pages and errors:

- Anthropic: https://platform.claude.com/docs/en/build-with-claude/vision and the page pdf-support; for tools
  https://github.com/anthropics/claude-code/issues/40075 and https://github.com/twilio-labs/mcp/issues/56
- Bedrock: ``ImageFormat``, ``DocumentFormat``, ``AudioFormat`` and ``ToolInputSchema`` in the service model of
  ``bedrock-runtime`` (botocore 1.44); for tools the same as Anthropic:
  https://github.com/vantage-sh/vantage-mcp-server/issues/43
- Gemini: https://ai.google.dev/gemini-api/docs/image-understanding and
  https://docs.cloud.google.com/gemini-enterprise-agent-platform/models/capabilities/document-understanding; for tools
  https://github.com/google-gemini/gemini-cli/issues/7869
- Interactions: ``ImageContentMimeType`` and ``DocumentContentMimeType`` in google-genai 3.6
- Mistral: https://docs.mistral.ai/studio-api/document-processing/document_qna, with the list in
  https://github.com/mistralai/client-python/issues/217
- Ollama: https://github.com/ollama/ollama/issues/12951; for tools ``ToolFunctionParameters`` in its ``api/types.go``,
  which reads nothing else of a schema
- OpenAI: https://developers.openai.com/api/docs/guides/images-vision and the page file-inputs, by which Chat
  Completions takes no document but a PDF; for tools https://github.com/langchain-ai/langchainjs/issues/9804 and
  https://github.com/probelabs/probe/issues/9
"""

from __future__ import annotations

import re
from base64 import b64encode
from binascii import Error, a2b_base64
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache
from hashlib import sha256
from typing import Any, TypeAlias, TypeVar
from urllib.parse import unquote_to_bytes
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from rxworker.errors import LocalProtocolError
from rxworker.messages import Audio, Content, Document, Image, Json, JsonObject, Text, ToolResult
from rxworker.messages.content import LONGEST_NAME, MADE, NAME, NOT_IN_NAMES, ResultBlock
from rxworker.providers.content import check_media


class Takes(Struct, frozen=True):
    """What a service takes.

    A media type without its second half, such as ``video``, stands for all that begin with it. Text is taken from each
    document of text.

    Attributes:
        name: Its name in messages to the application and the model.
        pictures: The media types of pictures.
        documents: Those of documents.
        sounds: Those of recordings.
        uploads: What it takes by the id of an uploaded file.
        not_at_top: The keywords that no schema of a tool may have at its top.
        at_top: The members that each has there.
        properties: What the name of a property at the top looks like; ``None``: as it likes.
        names: The same for the name of a tool, and of a call.
        description: How many characters the description of a tool may have.
        grammars: Whether it can hold the model to a grammar, in a tool with free text. Without a grammar nothing is
            lost elsewhere: the model is then shown a function with one string.
        native: Whether it knows the tools that Anthropic defines.
        code: Whether it runs code that calls tools.
    """

    name: str
    pictures: Collection[str] = ()
    documents: Collection[str] = ()
    sounds: Collection[str] = ()
    uploads: Collection[str] = ("Image", "Document")
    not_at_top: frozenset[str] = frozenset()
    at_top: tuple[str, ...] = ()
    properties: re.Pattern[str] | None = None
    names: re.Pattern[str] = NAME
    description: int | None = None
    grammars: bool = False
    native: bool = False
    code: bool = False


PDF = "application/pdf"
_XML = "application/vnd.openxmlformats-officedocument"
_DOCX, _XLSX = f"{_XML}.wordprocessingml.document", f"{_XML}.spreadsheetml.sheet"
_MORE = {
    f"{_XML}.presentationml.presentation": "pptx",
    "application/vnd.oasis.opendocument.text": "odt",
    "application/rtf": "rtf",
}
_EPUB = {"application/epub+zip": "epub"}
MISTRAL = (PDF, _DOCX, *_MORE, *_EPUB)
_OLD = ("application/msword", "application/vnd.ms-excel", "application/vnd.ms-powerpoint")
_FILES = (PDF, _DOCX, _XLSX, *_MORE, *_OLD, "application/json", "application/xml", "application/javascript")
_MARKUP = ("text/html", "text/css", "text/csv", "text/xml", "text/rtf", "text/md", "text/markdown")
_MOVING = ("audio", "image", "video")
_CODE = ("text/javascript", "application/x-javascript", "text/x-python", "application/x-python")
_BEDROCK = {
    PDF: "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    _DOCX: "docx",
    "application/vnd.ms-excel": "xls",
    _XLSX: "xlsx",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/vnd.wave": "wav",
    "audio/flac": "flac",
    "audio/ogg": "ogg",
    "audio/opus": "opus",
    "audio/aac": "aac",
    "audio/mp4": "m4a",
    "audio/webm": "webm",
}
FORMATS = {**_BEDROCK, **_MORE, **_EPUB}
"""What Bedrock calls the media types that it takes, OpenAI the recordings, and people the others."""
_USUAL = ("image/png", "image/jpeg", "image/webp", "image/gif")
_GOOGLE = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")
VARIANTS = ("allOf", "anyOf", "oneOf")
NO_MEMBERS = frozenset({"const", "enum", "not"})
_VARIANTS = frozenset(VARIANTS)
_CLAUDE = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_GOOGLE_NAMES = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_MEMBERS = ("type", "properties")
_NO_KEYWORDS = _VARIANTS | NO_MEMBERS

TAKES = {
    "anthropic": Takes(
        "Anthropic", _USUAL, (PDF,), not_at_top=_VARIANTS, at_top=("type",), properties=_CLAUDE, native=True, code=True
    ),
    "bedrock": Takes(
        "Bedrock", _USUAL, _BEDROCK, _BEDROCK, (), not_at_top=_VARIANTS, at_top=("type",), properties=_CLAUDE
    ),
    "gemini": Takes(
        "Gemini", _GOOGLE, (PDF, "text/plain", *_MARKUP, *_CODE, *_MOVING), ("audio",), names=_GOOGLE_NAMES
    ),
    "gemini_interactions": Takes(
        "GeminiInteractions",
        (*_GOOGLE, "image/gif", "image/bmp", "image/tiff"),
        (PDF, "text/csv", *_MOVING),
        ("audio",),
        names=_GOOGLE_NAMES,
    ),
    "ollama": Takes(
        "Ollama", ("image/png", "image/jpeg", "image/webp"), uploads=(), not_at_top=_VARIANTS, at_top=_MEMBERS
    ),
    "openai_chat": Takes(
        "OpenAIChat",
        _USUAL,
        (PDF,),
        ("audio/wav", "audio/x-wav", "audio/vnd.wave", "audio/mpeg", "audio/mp3"),
        ("Document",),
        _NO_KEYWORDS,
        _MEMBERS,
        description=1024,
    ),
    "openai_responses": Takes(
        "OpenAIResponses", _USUAL, _FILES, not_at_top=_NO_KEYWORDS, at_top=_MEMBERS, grammars=True, code=True
    ),
}
"""What a service takes, by the name of its provider."""
ANYTHING = Takes("", names=re.compile(".*", re.DOTALL), grammars=True, native=True, code=True)
"""That of a service without a row."""


def listed(kinds: Collection[str]) -> str:
    """Media types as people read them.

    >>> listed(TAKES["ollama"].pictures), listed((PDF, "video")), listed(())
    ('png, jpeg and webp', 'pdf and video/*', 'none')
    """
    names = [FORMATS.get(kind, kind.partition("/")[2] or f"{kind}/*") for kind in kinds]
    *others, last = dict.fromkeys(name.rpartition(".")[2] for name in names or ["none"])
    return f"{', '.join(others)} and {last}" if others else last


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
        if name not in takes.uploads or documents == ():  # a server that takes no document takes no file of one
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


def made_id() -> str:
    """A new id, unlike any other.

    >>> from rxworker.messages.content import is_made
    >>> is_made(made_id()), is_made("call_1")
    (True, False)
    """
    return MADE + uuid4().hex[:20]


@lru_cache(maxsize=1024)  # the same few for each request
def safe_name(name: str, allowed: re.Pattern[str] = NAME) -> str:
    """The id or the name of an earlier call as a service takes it, the same each time: a model may call any name.

    Those that differ stay different: where one is changed, a few of its hash follow.

    https://github.com/pydantic/pydantic-ai/issues/4585, https://github.com/mcp-use/mcp-use/issues/90

    Args:
        name: The id or the name.
        allowed: What the service takes.

    >>> safe_name("look"), safe_name("functions.look"), safe_name("functions:look")
    ('look', 'functions_look_c15535c1', 'functions_look_e01e52c5')
    """
    return name if allowed.fullmatch(name) else other_name(name, allowed)


def other_name(name: str, allowed: re.Pattern[str] = NAME, taken: Collection[str] | None = None) -> str:
    """A name that is allowed in place of one that is not.

    Args:
        name: The name.
        allowed: What is allowed.
        taken: The names that it must not be: for one of these, a few of its hash follow. They always do without it.

    >>> other_name("7 zip", re.compile("[a-z_][a-z0-9_]*"), ()), other_name("read.file", taken=["read_file"])
    ('_7_zip', 'read_file_dd32cdf5')
    """
    other = NOT_IN_NAMES.sub("_", name)[:LONGEST_NAME]
    if not allowed.fullmatch(other):
        other = f"_{other}"[:LONGEST_NAME]
    return other if taken is not None and other not in taken else f"{other[: LONGEST_NAME - 9]}_{hashed(name)[:8]}"


def hashed(tool_id: str) -> str:
    """64 letters and digits that stand for an id.

    >>> hashed("call_1") == hashed("call_1"), hashed("call_1").isalnum()
    (True, True)
    """
    return sha256(tool_id.encode("utf-8", "replace")).hexdigest()
