"""What each service takes of what applications and tools give it, as one table. Pure.

It is read by `rxworker.providers.pictures` and `rxworker.providers.fit_tools`. As of November 2026, from each service's
own pages and errors:

- Anthropic: https://platform.claude.com/docs/en/build-with-claude/vision; for tools
  https://github.com/anthropics/claude-code/issues/40075 and https://github.com/twilio-labs/mcp/issues/56
- Bedrock: ``ImageFormat`` and ``ToolInputSchema`` in the service model of ``bedrock-runtime`` (botocore 1.44); for
  tools the same as Anthropic: https://github.com/vantage-sh/vantage-mcp-server/issues/43
- Gemini: https://ai.google.dev/gemini-api/docs/image-understanding; for tools
  https://github.com/google-gemini/gemini-cli/issues/7869
- Interactions: ``ImageContentMimeType`` in google-genai 3.6
- Ollama: https://github.com/ollama/ollama/issues/12951; for tools ``ToolFunctionParameters`` in its ``api/types.go``,
  which reads nothing else of a schema
- OpenAI: https://developers.openai.com/api/docs/guides/images-vision; for tools
  https://github.com/langchain-ai/langchainjs/issues/9804 and https://github.com/probelabs/probe/issues/9
"""

from __future__ import annotations

import re

from msgspec import Struct


class Takes(Struct, frozen=True):
    """What a service takes.

    Attributes:
        name: Its name in messages to the application and the model.
        pictures: The media types of pictures.
        not_at_top: The keywords that no schema of a tool may have at its top.
        at_top: The members that each has there.
        properties: What the name of a property at the top looks like; ``None``: as it likes.
        names: The same for the name of a tool, beside what `rxworker.tools` requires.
        description: How many characters the description of a tool may have.
    """

    name: str
    pictures: tuple[str, ...]
    not_at_top: frozenset[str] = frozenset()
    at_top: tuple[str, ...] = ()
    properties: re.Pattern[str] | None = None
    names: re.Pattern[str] | None = None
    description: int | None = None


_USUAL = ("image/png", "image/jpeg", "image/webp", "image/gif")
_GOOGLE = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")
VARIANTS = ("allOf", "anyOf", "oneOf")
NO_MEMBERS = frozenset({"const", "enum", "not"})
_VARIANTS = frozenset(VARIANTS)
_CLAUDE = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_GOOGLE_NAMES = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_OPENAI = (_VARIANTS | NO_MEMBERS, ("type", "properties"))

TAKES = {
    "anthropic": Takes("Anthropic", _USUAL, _VARIANTS, ("type",), _CLAUDE),
    "bedrock": Takes("Bedrock", _USUAL, _VARIANTS, ("type",), _CLAUDE),
    "gemini": Takes("Gemini", _GOOGLE, names=_GOOGLE_NAMES),
    "gemini_interactions": Takes(
        "GeminiInteractions", (*_GOOGLE, "image/gif", "image/bmp", "image/tiff"), names=_GOOGLE_NAMES
    ),
    "ollama": Takes("Ollama", ("image/png", "image/jpeg", "image/webp"), _VARIANTS, ("type", "properties")),
    "openai_chat": Takes("OpenAIChat", _USUAL, *_OPENAI, description=1024),
    "openai_responses": Takes("OpenAIResponses", _USUAL, *_OPENAI),
}
"""What a service takes, by the name of its provider."""
ANYTHING = Takes("", ())
"""That of a service without a row."""
