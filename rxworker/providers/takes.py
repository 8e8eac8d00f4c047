"""What each service takes of what applications and tools give it, as one table. Pure.

It is read by `rxworker.providers.media` and `rxworker.providers.fit`. As of 2026-11-29, from each service's own
pages and errors:

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
from collections.abc import Collection

from msgspec import Struct

from rxworker.messages.content import NAME


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
