"""What each service takes of what applications and tools give it, as one table. Pure.

The encoders read it through `rxworker.providers.pictures`. As of November 2026, from each service's own pages:

- Anthropic: https://platform.claude.com/docs/en/build-with-claude/vision
- Bedrock: ``ImageFormat`` in the service model of ``bedrock-runtime`` (botocore 1.44)
- Gemini: https://ai.google.dev/gemini-api/docs/image-understanding
- Interactions: ``ImageContentMimeType`` in google-genai 3.6
- Ollama: https://github.com/ollama/ollama/issues/12951
- OpenAI: https://developers.openai.com/api/docs/guides/images-vision
"""

from __future__ import annotations

from msgspec import Struct


class Takes(Struct, frozen=True):
    """What a service takes.

    Attributes:
        name: Its name in messages to the application and the model.
        pictures: The media types of pictures.
    """

    name: str
    pictures: tuple[str, ...]


_USUAL = ("image/png", "image/jpeg", "image/webp", "image/gif")
_GOOGLE = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")

ANTHROPIC = Takes("Anthropic", _USUAL)
BEDROCK = Takes("Bedrock", _USUAL)
GEMINI = Takes("Gemini", _GOOGLE)
GEMINI_INTERACTIONS = Takes("GeminiInteractions", (*_GOOGLE, "image/gif", "image/bmp", "image/tiff"))
OLLAMA = Takes("Ollama", ("image/png", "image/jpeg", "image/webp"))
OPENAI_CHAT = Takes("OpenAIChat", _USUAL)
OPENAI_RESPONSES = Takes("OpenAIResponses", _USUAL)
